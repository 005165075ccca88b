//! An answer in pieces, for those that are too large to be held in memory.

use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::{Documents, Hint, Page, StoreError};

/// A piece ends with the document that brings it to this many bytes. As JSON it is what a slow reader keeps in memory.
pub const PIECE_BYTES: usize = 128 * 1024;
/// A piece has at most this many documents.
pub const PIECE_DOCUMENTS: usize = 500;

/// The documents of an answer, some at a time, and how many there are in all.
pub struct Pieces {
    /// How many documents the filter matches, those before and behind the answer included.
    pub total: u64,
    /// What is to be said about the work of finding them, see [`Page::hint`].
    pub hint: Option<Hint>,
    /// The documents in order; no piece is empty. After an error nothing comes any more.
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
