//! Views of the objects, for people who read the database with MongoDB's own tools. The service itself reads none.

use bson::{Document, doc};
use futures::TryStreamExt;
use mongodb::error::Error;
use mongodb::results::CollectionType;

use super::error::command_error;
use super::{MongoStore, PREPARE_BOUND};
use crate::store::StoreError;
use crate::store::collections::OBJECTS;

impl MongoStore {
    /// Makes these views of the collection of objects, each by its name and its stages. Views of it whose names begin with
    /// `prefix` are taken away before. Returns how many these were.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when a collection has the name of a view, or when the user may not make views.
    pub async fn replace_views(
        &self,
        prefix: &'static str,
        views: Vec<(String, Vec<Document>)>,
    ) -> Result<usize, StoreError> {
        let database = self.inner.database.clone();
        let replacing = async move {
            let listed = database.list_collections().filter(doc! { "type": "view", "options.viewOn": OBJECTS }).await?;
            let all: Vec<_> = listed.try_collect().await?;
            let is_ours = |name: &str| name.starts_with(prefix);
            let old: Vec<_> = all
                .into_iter()
                .filter(|found| found.collection_type == CollectionType::View && is_ours(&found.name))
                .collect();
            for view in &old {
                database.collection::<Document>(&view.name).drop().await?;
            }
            for (name, stages) in views {
                database.create_collection(name).view_on(OBJECTS.to_owned()).pipeline(stages).await?;
            }
            Ok::<_, Error>(old.len())
        };
        let done = async { replacing.await.map_err(|error| command_error(&error)) };
        self.inner.presence.run(PREPARE_BOUND, done).await
    }
}
