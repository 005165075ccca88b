//! An answer in chunks, if it is too large for memory.

use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::{Documents, Hint, Page, StoreError};

/// A chunk ends with the document that brings it to this many bytes. A slow reader keeps the JSON of one chunk in
/// memory.
pub const PIECE_BYTES: usize = 128 * 1024;
/// A chunk has at most this many documents.
pub const PIECE_DOCUMENTS: usize = 500;

/// The documents of an answer in chunks, and their total number.
pub struct Pieces {
    /// How many documents the filter matches, those before and after the answer included.
    pub total: u64,
    /// The hint about the work of finding them, see [`Page::hint`].
    pub hint: Option<Hint>,
    /// The documents in order; no chunk is empty. An error ends the stream.
    pub documents: BoxStream<'static, Result<Documents, StoreError>>,
}

impl Pieces {
    /// An answer that is in memory already.
    pub fn of(page: Page) -> Self {
        let piece = (!page.documents.is_empty()).then_some(Ok(page.documents));
        Self { total: page.total, hint: page.hint, documents: stream::iter(piece).boxed() }
    }
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pieces").field("total", &self.total).finish_non_exhaustive()
    }
}
