//! `inventory-service demo`: fills an empty store with something to look at.

use clap::Args;

use crate::demo;
use crate::progress;
use crate::settings::Settings;

use super::output::say;
use super::{Outcome, services};

/// How much to fill in.
#[derive(Debug, Args)]
pub struct DemoCommand {
    /// How many objects, from 200 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = demo::plan::accepted_size)]
    objects: u32,
}

impl DemoCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let services = services(&settings).await?;
        let progress = progress::on_stderr();
        let loaded = demo::load(&services, self.objects, &*progress).await?;
        say!("{loaded}");
        Ok(())
    }
}
