//! An answer in chunks, if it is too large for memory.

use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::{Documents, Hint, Page, StoreError};

/// A chunk ends with the document that brings it to this many bytes. A slow reader keeps the JSON of one chunk in
/// memory.
pub const CHUNK_BYTES: usize = 128 * 1024;
/// A chunk has at most this many documents.
pub const CHUNK_DOCUMENTS: usize = 500;

/// Documents in order, in chunks; no chunk is empty. An error ends the stream.
pub type Chunks = BoxStream<'static, Result<Documents, StoreError>>;

/// Documents that are in memory already, as chunks.
pub fn chunks_of(documents: Documents) -> Chunks {
    stream::iter((!documents.is_empty()).then_some(Ok(documents))).boxed()
}

/// The documents of an answer in chunks, and their total number.
pub struct ChunkedPage {
    /// How many documents the filter matches, those before and after the answer included.
    pub total: u64,
    /// The hint about the work of finding them, see [`Page::hint`].
    pub hint: Option<Hint>,
    /// The documents in order; no chunk is empty. An error ends the stream.
    pub documents: Chunks,
}

impl ChunkedPage {
    /// An answer that is in memory already.
    pub fn of(page: Page) -> Self {
        Self { total: page.total, hint: page.hint, documents: chunks_of(page.documents) }
    }
}

impl std::fmt::Debug for ChunkedPage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ChunkedPage").field("total", &self.total).finish_non_exhaustive()
    }
}
