//! What copying a whole store takes: a dump of everything as of one moment, in any collection that there is.

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::query::Sort;

use super::{Documents, StoreError};

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
    /// As [`Store::find`](super::Store::find); the same errors may come instead of a piece.
    async fn documents(
        &mut self,
        collection: &str,
        order: &Sort,
    ) -> Result<BoxStream<'_, Result<Documents, StoreError>>, StoreError>;
}
