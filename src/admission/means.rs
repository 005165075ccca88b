//! What a piece of work may use: memory, and time as long as somebody waits for the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::memory::{Pool, Share};
use super::{Denied, Ticket};

/// What one piece of work may use. The default has no bound.
#[derive(Debug, Clone, Default)]
pub struct Means {
    memory: Option<Arc<Pool>>,
    gone: Option<Arc<AtomicBool>>,
    ticket: Ticket,
}

/// Somebody waits for the work, until this is dropped.
#[derive(Debug)]
pub(super) struct StillWanted(Option<Arc<AtomicBool>>);

impl Means {
    /// Those of a request, with memory of this pool.
    pub(super) fn of(memory: Arc<Pool>, ticket: Ticket) -> Self {
        Self { memory: Some(memory), gone: Some(Arc::default()), ticket }
    }

    /// Notes that somebody waits.
    pub(super) fn wanted(&self) -> StillWanted {
        StillWanted(self.gone.clone())
    }

    /// Whether nobody waits for the work any more.
    pub fn is_gone(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.load(Ordering::Relaxed))
    }

    /// Memory for a growing value, released with the share.
    pub fn share(&self) -> Share {
        Share::of(self.memory.clone())
    }

    /// Memory for a value that lives as long as the request.
    pub fn lasting_share(&self) -> Share {
        self.share().left_to(self.ticket.clone())
    }

    /// See [`Ticket::hold`].
    ///
    /// # Errors
    /// As there.
    pub fn hold(&self, bytes: usize) -> Result<(), Denied> {
        self.ticket.hold(bytes)
    }
}

impl Drop for StillWanted {
    fn drop(&mut self) {
        if let Some(gone) = &self.0 {
            gone.store(true, Ordering::Relaxed);
        }
    }
}
