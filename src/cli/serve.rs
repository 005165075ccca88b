//! `inventory-service serve`: answers requests until it is stopped. It may open as many files as the system allows.

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Outcome;
use crate::app::{self, Application, StartError};
use crate::settings::Settings;
use crate::store::inspection::Finding;

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
    raise_open_files();
    if let Some(concern) = concern_of_open_files(&settings) {
        log::warn!("{}: {}", concern.subject, concern.text);
    }
    log::info!("settings: {}", settings.files);
    log::info!("store: {}", app::full_name(&settings.store));
    let application = Application::build(settings).await?;
    log::info!("next: sign in by POST /rest/auth/login with user_name and password, as README.md shows");
    Ok(application.run(super::user::answer).await.map_err(listen_error)?)
}

fn listen_error(source: std::io::Error) -> StartError {
    StartError::Listen { key: "server.port", address: "the address".to_owned(), source }
}

// How many files the process may have open: each connection is one.

/// Open files in addition to the connections of clients: the store, its connections, logs, webhooks.
const OTHERS: u64 = 200;

/// Raises the limit of the process as far as the system lets it: shells and systemd start programs with 1,024.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // A failure changes nothing; `concern` reports the consequence.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What is wrong if the system allows fewer files than the settings promise connections.
pub(super) fn concern_of_open_files(settings: &Settings) -> Option<Finding> {
    let connections = settings.server.limits.max_connections as u64;
    let most = getrlimit(Resource::Nofile).maximum?;
    (most < connections + OTHERS).then(|| {
        let text = format!(
            "{connections} connections, but the system lets the process open {most} files; raise its limit (ulimit -n, \
             LimitNOFILE= in systemd) or lower this"
        );
        Finding::note("server.limits.max_connections", text)
    })
}
