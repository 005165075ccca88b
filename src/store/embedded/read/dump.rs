//! Everything in the store as of one commit, read with one chunk in memory at a time.

use std::sync::Arc;

use async_trait::async_trait;
use bson::raw::{RawDocumentBuf, cstr};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::task::spawn_blocking;

use crate::query::{Sort, SortKey};
use crate::store::copying::COUNTERS;
use crate::store::embedded::catalog::collections::{Collection, Component, Index};
use crate::store::embedded::failure;
use crate::store::embedded::read::execute::{CollectionReader, Deadline};
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::{CHUNK_BYTES, CHUNK_DOCUMENTS, Documents, Dump, StoreError};

/// Above every key of an index: keys begin with the number of a type, which is less.
const ABOVE_ALL: [u8; 16] = [0xff; 16];

/// See [`Dump`].
pub(crate) struct SnapshotDump {
    snapshot: Arc<Snapshot>,
    names: Vec<String>,
}

impl SnapshotDump {
    pub(crate) fn of(snapshot: Arc<Snapshot>) -> Self {
        let mut names: Vec<String> = snapshot.collections().map(|collection| collection.name.clone()).collect();
        names.retain(|name| name != COUNTERS);
        names.push(COUNTERS.to_owned());
        names.sort_unstable();
        Self { snapshot, names }
    }

    fn counters(&self) -> Documents {
        let mut counters: Vec<(&str, i64)> = self
            .snapshot
            .collections()
            .map(|collection| (collection.name.as_str(), collection.last_id()))
            .filter(|(_, last)| *last > 0)
            .collect();
        counters.sort_unstable();
        let mut documents = Documents::new();
        for (name, last) in counters {
            let mut document = RawDocumentBuf::new();
            document.append(cstr!("_id"), name);
            document.append(cstr!("value"), last);
            documents.push(&document);
        }
        documents
    }
}

#[async_trait]
impl Dump for SnapshotDump {
    fn collections(&self) -> &[String] {
        &self.names
    }

    fn is_of_one_moment(&self) -> bool {
        true
    }

    async fn documents(
        &mut self,
        collection: &str,
        order: &Sort,
    ) -> Result<BoxStream<'_, Result<Documents, StoreError>>, StoreError> {
        if collection == COUNTERS {
            return Ok(stream::iter([Ok(self.counters())]).boxed());
        }
        let Some(collection) = self.snapshot.collection(collection).cloned() else {
            return Ok(stream::empty().boxed());
        };
        let place = Resume::first(&collection, order)?;
        let walk = Walk { snapshot: Arc::clone(&self.snapshot), collection, place };
        let steps = stream::unfold(Some(walk), |walk| async {
            let mut walk = walk?;
            let step = spawn_blocking(move || (failure::guarded(|| walk.chunk()), walk));
            match step.await {
                Ok((Ok(chunk), _)) if chunk.is_empty() => None,
                Ok((Ok(chunk), walk)) => Some((Ok(chunk), Some(walk))),
                Ok((Err(error), _)) => Some((Err(error), None)),
                Err(error) => Some((Err(StoreError::backend(error)), None)),
            }
        });
        Ok(steps.boxed())
    }
}

/// Where a walk through a collection continues.
enum Resume {
    /// At this row, in the order of insertion.
    Row(u64),
    /// At this stored key of the index at this position.
    Key(usize, Vec<u8>),
}

impl Resume {
    fn first(collection: &Collection, order: &Sort) -> Result<Self, StoreError> {
        if order.is_empty() {
            return Ok(Self::Row(0));
        }
        let position = collection.indexes.iter().position(|index| orders(index, order));
        position.map(|position| Self::Key(position, Vec::new())).ok_or_else(|| StoreError::Unsupported {
            what: format!("reading {} in an order that no index has", collection.name),
        })
    }
}

/// Whether the index holds every document once, in this order.
fn orders(index: &Index, order: &Sort) -> bool {
    let same = |(part, key): (&Component, &SortKey)| {
        key.path.entry().is_none() && part.path == key.path.as_str() && !part.descending && !key.descending
    };
    index.partial.is_none()
        && !index.is_multikey()
        && index.components.len() == order.keys().len()
        && index.components.iter().zip(order.keys()).all(same)
}

struct Walk {
    snapshot: Arc<Snapshot>,
    collection: Arc<Collection>,
    place: Resume,
}

impl Walk {
    /// The next documents; none at the end.
    fn chunk(&mut self) -> Result<Documents, StoreError> {
        let tables = self.snapshot.tables(&self.collection)?;
        let reader = CollectionReader::new(&self.collection, tables, Deadline::none());
        let mut chunk = Documents::new();
        let is_full = |chunk: &Documents| chunk.len() >= CHUNK_DOCUMENTS || chunk.bytes() >= CHUNK_BYTES;
        let push = |row: u64, chunk: &mut Documents| {
            let found = reader.document(row, |document| chunk.push(document))?;
            found.ok_or_else(|| failure::lost(&self.collection.name, row))
        };
        match &mut self.place {
            Resume::Row(next) => {
                for entry in tables.data.range(*next..).map_err(failure::of_storage)? {
                    let row = entry.map_err(failure::of_storage)?.0.value();
                    push(row, &mut chunk)?;
                    *next = row + 1;
                    if is_full(&chunk) {
                        break;
                    }
                }
            }
            Resume::Key(position, next) => {
                let entries = tables.indexes[*position].entries(next, &ABOVE_ALL).map_err(failure::of_storage)?;
                for entry in entries {
                    let entry = entry.map_err(failure::of_storage)?;
                    push(entry.row, &mut chunk)?;
                    if is_full(&chunk) {
                        // The smallest possible key after it.
                        *next = [entry.stored_key(), &[0]].concat();
                        return Ok(chunk);
                    }
                }
                *next = ABOVE_ALL.to_vec();
            }
        }
        Ok(chunk)
    }
}
