//! Views of the objects, for people who read the database with MongoDB's own tools. The service itself reads none.

use std::collections::BTreeSet;

use bson::{Document, doc};
use futures::TryStreamExt;
use mongodb::error::Error;

use super::error::command_error;
use super::{MongoStore, PREPARE_BOUND};
use crate::store::StoreError;
use crate::store::collections::OBJECTS;

impl MongoStore {
    /// Makes or changes these views of the collection of objects, each by its name and its stages. Other views that an
    /// earlier call made are taken away afterwards. Returns how many these were, and each name that could not be had, with
    /// the reason.
    ///
    /// # Errors
    /// Errors of the server when it lists views, and takes one away.
    pub async fn replace_views(
        &self,
        prefix: &'static str,
        views: Vec<(String, Vec<Document>)>,
    ) -> Result<(usize, Vec<String>), StoreError> {
        let database = self.inner.database.clone();
        let replacing = async move {
            let listed = database.list_collections().filter(doc! { "type": "view", "options.viewOn": OBJECTS }).await?;
            let all: Vec<_> = listed.try_collect().await?;
            let mut old: BTreeSet<String> = all
                .into_iter()
                .filter(|view| view.name.starts_with(prefix) && view.options.pipeline.as_deref().is_some_and(is_ours))
                .map(|view| view.name)
                .collect();
            let mut refused = Vec::new();
            for (name, stages) in views {
                let made = if old.remove(&name) {
                    let change = doc! { "collMod": &name, "viewOn": OBJECTS, "pipeline": stages };
                    database.run_command(change).await.map(|_| ())
                } else {
                    database.create_collection(&name).view_on(OBJECTS.to_owned()).pipeline(stages).await
                };
                if let Err(error) = made {
                    refused.push(format!("{name}: {}", command_error(&error)));
                }
            }
            for name in &old {
                database.collection::<Document>(name).drop().await?;
            }
            Ok::<_, Error>((old.len(), refused))
        };
        let done = async { replacing.await.map_err(|error| command_error(&error)) };
        self.inner.presence.run(PREPARE_BOUND, done).await
    }
}

/// Whether a view has the form of those that are made here: the objects of one type, as rows.
fn is_ours(stages: &[Document]) -> bool {
    let of_type = stages.first().and_then(|stage| stage.get_document("$match").ok());
    let is_of_type = of_type.is_some_and(|filter| filter.keys().eq(["type_id"]) && filter.get_i64("type_id").is_ok());
    is_of_type && stages.get(1).is_some_and(|stage| stage.contains_key("$replaceWith"))
}
