//! `inventory-service check`: whether the service can run as it is set up, in plain words, for people and for container engines.

mod embedded;
mod ready;

use clap::Args;

use crate::app;
use crate::settings::{Settings, StoreUri};

use super::Outcome;

/// What is to be checked; without a flag: the settings and the store.
#[derive(Debug, Args)]
pub struct CheckCommand {
    /// Ask the service that runs on this machine whether it is ready; ends with 0 if so. For health checks of containers.
    #[arg(long, conflicts_with_all = ["deep", "repair"])]
    ready: bool,
    /// Read every document and every index of an embedded store; the service must not run on it.
    #[arg(long)]
    deep: bool,
    /// Put in order what `--deep` finds, as far as that can be done.
    #[arg(long)]
    repair: bool,
}

impl CheckCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        if self.ready {
            let answer = tokio::task::spawn_blocking(move || ready::ask(&settings.server)).await?;
            println!("{}", answer?);
            return Ok(());
        }
        if self.deep || self.repair {
            return match settings.store.location()? {
                StoreUri::Embedded(directory) => embedded::run(&directory, &settings.store, self.repair).await,
                StoreUri::MongoDb(_) => {
                    Err("--deep and --repair are for the embedded store; ask mongosh for db.collection.validate()"
                        .into())
                }
            };
        }
        app::open_store(&settings.store).await?.ping().await?;
        println!("the store answers");
        Ok(())
    }
}
