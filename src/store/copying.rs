//! Copying a whole store: a dump of everything as of one moment, and the operations that fill a store. Only commands
//! use it.

use std::fs::File;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::{Documents, Store, StoreError};
use crate::metrics::{EmbeddedFigures, Metrics};
use crate::query::Sort;

/// The counters that `public_id`s come from, as documents `{_id: collection, value: Int64}`: the largest number that
/// was given or stored. Each store reads and writes its counters under this name, in whatever form it keeps them.
pub const COUNTERS: &str = "service.counters";

/// Everything that is stored, at one moment. Only for commands: the store holds the snapshot as long as the dump
/// exists.
#[async_trait]
pub trait Dump: Send {
    /// The names of all collections in alphabetical order, those of other tools and [`COUNTERS`] too.
    fn collections(&self) -> &[String];

    /// Whether all documents are of one moment. If not, nobody should write during the dump.
    fn is_of_one_moment(&self) -> bool;

    /// The documents of a collection, byte for byte, in chunks. Without an order they come in that of the store.
    ///
    /// # Errors
    /// As [`Store::find`]; the same errors may come instead of a chunk.
    async fn documents(
        &mut self,
        collection: &str,
        order: &Sort,
    ) -> Result<BoxStream<'_, Result<Documents, StoreError>>, StoreError>;
}

/// A store whose whole contents can be dumped and filled.
#[async_trait]
pub trait Copying: Store {
    /// Everything that is stored, to be copied.
    ///
    /// # Errors
    /// MUST be [`StoreError::Unavailable`] when the store is away.
    async fn dump(&self) -> Result<Box<dyn Dump>, StoreError>;

    /// The same, but each document is as it is when it is read, and the server keeps no history for the reader. On the
    /// embedded store it is [`Copying::dump`].
    ///
    /// # Errors
    /// As [`Copying::dump`].
    async fn live_dump(&self) -> Result<Box<dyn Dump>, StoreError> {
        self.dump().await
    }

    /// Stores new documents as they are, in a collection of any name. On the embedded store it stores all or none. Only
    /// for stores that nobody else uses: no revision moves. A counter moves only by a document of [`COUNTERS`], and never back.
    ///
    /// # Errors
    /// MUST be [`StoreError::Duplicate`] when a unique index refuses a document.
    async fn append(&self, collection: &str, documents: Documents) -> Result<(), StoreError>;

    /// Removes all documents of a collection, and its counter. Only for stores that nobody else uses.
    /// [`Store::prepare`] creates the indexes again.
    ///
    /// # Errors
    /// MUST be [`StoreError::Unavailable`] when the store is away.
    async fn clear(&self, collection: &str) -> Result<(), StoreError>;
}

/// A store that is a file on this machine.
#[async_trait]
pub trait FileStore: Send + Sync {
    /// A copy of the whole store as of one moment, in an unnamed file that vanishes when it is closed. Reads and writes
    /// continue during the copy.
    ///
    /// # Errors
    /// [`StoreError::Timeout`] when the copy takes too long. [`StoreError::Unavailable`] when another copy is running,
    /// or when there is no room.
    async fn backup(&self) -> Result<File, StoreError>;

    /// From now on counts the commits of the writing thread in `metrics`.
    fn report_to(&self, metrics: &Arc<Metrics>);

    /// Flushes, then closes the file even if others still hold a handle; later reads fail. Returns when that is done.
    fn close(&self);

    /// Figures of the moment.
    fn figures(&self) -> EmbeddedFigures;
}
