//! Work that is carried to its end, whoever stops waiting for it.
//!
//! The driver does not bear that one of its operations is dropped half-way, and a unit of changes must not stop between two
//! steps. A task of its own for each would cost every question two wake-ups; so work is done where it is waited for, and
//! gets a task only when it is given up.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

use crate::store::StoreError;

/// Work that goes on in a task of its own when this is dropped before its end.
pub(super) struct Carried<T: Send + 'static>(Option<BoxFuture<'static, Result<T, StoreError>>>);

impl<T: Send + 'static> Carried<T> {
    /// The work; a panic of it becomes an error.
    pub(super) fn new(work: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        let caught = AssertUnwindSafe(work).catch_unwind();
        let outcome =
            caught.map(|outcome| outcome.unwrap_or_else(|_| Err(StoreError::backend("an operation panicked"))));
        Self(Some(outcome.boxed()))
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let outcome = work.as_mut().poll(context);
        if outcome.is_ready() {
            self.0 = None;
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        // Without a runtime everything ends anyhow.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_that_is_waited_for_gives_its_outcome() {
        let work = Carried::new(async {
            tokio::task::yield_now().await;
            Ok(7)
        });
        assert_eq!(work.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_is_given_up_goes_on() {
        let (go, gone) = oneshot::channel();
        let (done, end) = oneshot::channel();
        let mut work = Carried::new(async {
            gone.await.map_err(StoreError::backend)?;
            done.send(7).map_err(|_| StoreError::backend("nobody waits"))
        });
        assert!((&mut work).now_or_never().is_none());
        drop(work);
        go.send(()).unwrap();
        assert_eq!(end.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_panic_becomes_an_error() {
        let work: Carried<()> = Carried::new(async { panic!("as if the driver had a fault") });
        assert!(matches!(work.await, Err(StoreError::Backend { .. })));
    }
}
