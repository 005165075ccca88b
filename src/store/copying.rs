//! Copying a whole store: a dump of everything as of one moment, and a door for copies. Commands use it, no request does.

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::query::Sort;

use super::{Documents, Store, StoreError};

/// The counters that `public_id`s come from, as documents `{_id: collection, value: Int64}`: the largest number that was
/// given or stored. Each store shows its counters under this name and takes them from it, however it keeps them.
pub const COUNTERS: &str = "service.counters";

/// Everything that is stored, at one moment. For commands, not for requests: it is held as long as it is used.
#[async_trait]
pub trait Dump: Send {
    /// The names of all collections in alphabetical order, those of other tools and [`COUNTERS`] too.
    fn collections(&self) -> &[String];

    /// Whether all documents are those of one moment; where they are not, nobody should write meanwhile.
    fn is_of_one_moment(&self) -> bool;

    /// The documents of a collection byte for byte, in this order, or as they come where there is none; some at a time.
    ///
    /// # Errors
    /// As [`Store::find`]; the same errors may come instead of a piece.
    async fn documents(
        &mut self,
        collection: &str,
        order: &Sort,
    ) -> Result<BoxStream<'_, Result<Documents, StoreError>>, StoreError>;
}

/// A store whose whole contents can be copied out of it and into it.
#[async_trait]
pub trait Copying: Store {
    /// Everything that is stored, to be copied.
    ///
    /// # Errors
    /// MUST be [`StoreError::Unavailable`] when the store is away.
    async fn dump(&self) -> Result<Box<dyn Dump>, StoreError>;

    /// Stores new documents as they are, in a collection of any name; on the embedded store all or none. Only for stores
    /// that nobody else uses: no revision moves. Of counters, only those move that documents of [`COUNTERS`] name.
    ///
    /// # Errors
    /// MUST be [`StoreError::Duplicate`] when a unique index refuses a document.
    async fn append(&self, collection: &str, documents: Documents) -> Result<(), StoreError>;

    /// Takes away everything that is in a collection, and its counter. Only for stores that nobody else uses. The indexes
    /// are there again after [`Store::prepare`].
    ///
    /// # Errors
    /// MUST be [`StoreError::Unavailable`] when the store is away.
    async fn clear(&self, collection: &str) -> Result<(), StoreError>;
}
