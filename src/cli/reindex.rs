//! `inventory-service reindex`: has the index of words made again.

use clap::Args;

use crate::app;
use crate::service::search::state;
use crate::settings::Settings;

use super::Outcome;
use super::output::say;

/// Have the index of words that search uses made again; a service does it in the background.
#[derive(Debug, Args)]
pub struct ReindexCommand {}

impl ReindexCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let store = app::open_existing(&settings).await?;
        state::begin_again(&*store, settings.query.max_time()).await?;
        say!("the service makes the index of words again while it runs; an embedded store waits for its next start");
        Ok(())
    }
}
