//! What is known of a store that is a file of ours: its figures, and a copy of it while it is used.

use std::fs::File;
use std::sync::Arc;

use async_trait::async_trait;

use super::StoreError;
use crate::metrics::{EmbeddedFigures, Metrics};

/// A store that is a file on this machine.
#[async_trait]
pub trait FileStore: Send + Sync {
    /// A copy of the whole store as of one moment, in a file without a name that is gone when it is closed. Others read and
    /// write meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Timeout`] when the copy takes too long, [`StoreError::Unavailable`] while another one is made or when
    /// there is no room for it.
    async fn backup(&self) -> Result<File, StoreError>;

    /// From now on notes in `metrics` how the writing thread commits. Costs nothing until then.
    fn report_to(&self, metrics: &Arc<Metrics>);

    /// Figures of the moment.
    fn figures(&self) -> EmbeddedFigures;
}
