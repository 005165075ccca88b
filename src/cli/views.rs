//! `inventory-service views`: each type as a view of a MongoDB store, for people who read it with MongoDB's own tools.

use std::sync::Arc;

use bson::Bson;
use clap::Args;

use crate::app;
use crate::clock::SystemClock;
use crate::domain::object_type::ObjectType;
use crate::plural::counted;
use crate::service::exchange::tables;
use crate::settings::{Settings, StoreUri};
use crate::store::collections::OBJECTS;

use super::Outcome;
use super::output::say;

/// Make each type a view `type.<name>` of a MongoDB store, with a column for each field, in place of those made before.
#[derive(Debug, Args)]
pub struct ViewsCommand {
    /// Take the views away.
    #[arg(long)]
    remove: bool,
    /// Print the commands for mongosh that make the views, and change nothing.
    #[arg(long, conflicts_with = "remove")]
    print: bool,
}

impl ViewsCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        if !self.print && matches!(settings.store.location()?, StoreUri::Embedded(_)) {
            return Err(
                "views are for a store on MongoDB; serve --wire shows the same tables of an embedded one".into()
            );
        }
        let store = app::open_to_read(&settings).await?;
        let services = app::services_on(&settings, store, Arc::new(SystemClock)).await?;
        let types = services.current_types().await?;
        let types: Vec<&ObjectType> = types.iter().map(|entry| &*entry.object_type).collect();
        let views = if self.remove { Vec::new() } else { tables::views(&types, services.now())? };
        if self.print {
            for (name, stages) in views {
                let stages: Vec<Bson> = stages.into_iter().map(Bson::from).collect();
                let [name, of, stages] =
                    [name.into(), OBJECTS.into(), Bson::from(stages)].map(Bson::into_relaxed_extjson);
                say!("db.createView({name}, {of}, {stages})");
            }
            return Ok(());
        }
        let wanted = views.len();
        let (removed, refused) = app::replace_views(&settings.store, tables::PREFIX, views).await?;
        say!("{} made, {removed} taken away", counted((wanted - refused.len()) as u64, "view"));
        if refused.is_empty() { Ok(()) } else { Err(format!("not made: {}", refused.join("; ")).into()) }
    }
}
