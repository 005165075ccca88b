//! `inventory-service serve`: answers requests until it is told to stop.

use crate::app::{Application, StartError};
use crate::settings::Settings;

use super::Outcome;

pub(super) async fn run(settings: Settings) -> Outcome {
    let application = Application::build(settings).await?;
    log::info!("next: sign in by POST /rest/auth/login with user_name and password, as README.md shows");
    Ok(application.run().await.map_err(listen_error)?)
}

fn listen_error(source: std::io::Error) -> StartError {
    StartError::Listen { key: "server.port", address: "the address".to_owned(), source }
}
