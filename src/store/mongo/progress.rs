//! How long a unit may go without progress.
//!
//! A unit of many steps takes as long as its steps take. Only the wait for the next step is bounded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    /// Of the unit that is being carried out.
    static OF_UNIT: Progress;
}

/// When a unit last made progress.
#[derive(Debug, Clone)]
pub(super) struct Progress(Arc<Mutex<Instant>>);

/// Notes progress of the unit that runs here.
pub(super) fn made() {
    let _ = OF_UNIT.try_with(|progress| *progress.last() = Instant::now());
}

impl Progress {
    /// Of a unit that begins now.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// The work of the unit, which notes its progress here.
    pub(super) fn noted_by<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        OF_UNIT.scope(self.clone(), work)
    }

    /// Waits until the unit has made no progress for this long.
    pub(super) async fn ceased(&self, bound: Duration) {
        loop {
            let until = *self.last() + bound;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_unit_is_waited_for_as_long_as_it_gets_on() {
        let (progress, other) = (Progress::new(), Progress::new());
        let (begun, elsewhere) = (*progress.last(), *other.last());
        while Instant::now() <= begun {
            tokio::task::yield_now().await;
        }
        progress.noted_by(async { made() }).await;
        assert!(*progress.last() > begun);
        assert_eq!(*other.last(), elsewhere, "another unit got on");
        assert!(progress.ceased(Duration::from_hours(1)).now_or_never().is_none());
        progress.ceased(Duration::ZERO).await;
        // Nobody waits for what is done outside of a unit.
        made();
    }
}
