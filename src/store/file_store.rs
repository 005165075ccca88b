//! A store that is a file on this machine: its figures, and a backup of it while it is in use.

use std::fs::File;
use std::sync::Arc;

use async_trait::async_trait;

use super::StoreError;
use crate::metrics::{EmbeddedFigures, Metrics};

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
