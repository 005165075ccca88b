//! `inventory-service serve`: answers requests until it is stopped.

use clap::Args;

use crate::app::{self, Application, StartError};
use crate::settings::Settings;

use super::{Outcome, open_files};

/// The options of `serve`.
#[derive(Debug, Default, Args)]
pub struct ServeCommand {
    /// Lets MongoDB tools read the embedded store at this address for this run, for instance 127.0.0.1:27017; it is
    /// the setting wire.address.
    #[arg(long, value_name = "ADDRESS")]
    pub wire: Option<String>,
    /// Listens on this port for this run; it is the setting server.port.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

pub(super) async fn run(settings: Settings) -> Outcome {
    open_files::raise();
    if let Some(concern) = open_files::concern(&settings) {
        log::warn!("{}: {}", concern.subject, concern.text);
    }
    log::info!("settings: {}", settings.files);
    log::info!("store: {}", app::full_name(&settings.store));
    let application = Application::build(settings).await?;
    log::info!("next: sign in by POST /rest/auth/login with user_name and password, as README.md shows");
    Ok(application.run().await.map_err(listen_error)?)
}

fn listen_error(source: std::io::Error) -> StartError {
    StartError::Listen { key: "server.port", address: "the address".to_owned(), source }
}
