//! Work that runs to its end, even if its caller stops waiting.
//!
//! The driver does not allow that an operation is dropped halfway, and a unit of changes must not stop between two
//! steps. So each is a task of its own. It runs on the runtime that owns the driver's connections. An operation talks
//! to the driver's tasks half a dozen times: for a connection, for the cluster time, for each end of the wire. On
//! another runtime each of these would wake up another thread.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::error::unavailable;
use crate::store::StoreError;

/// Work that runs to completion when this handle is dropped before its end.
pub(super) struct Carried<T>(JoinHandle<Result<T, StoreError>>);

impl<T: Send + 'static> Carried<T> {
    /// Begins the work on that runtime; a panic of it becomes an error.
    pub(super) fn begin(runtime: &Handle, work: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
    }
}

impl<T> Future for Carried<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Err(StoreError::backend("an operation panicked")),
            Err(_) => Err(unavailable("the service is ending")),
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    fn carried<T: Send + 'static>(work: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Carried<T> {
        Carried::begin(&Handle::current(), work)
    }

    #[tokio::test]
    async fn work_that_is_waited_for_gives_its_outcome() {
        let work = carried(async {
            tokio::task::yield_now().await;
            Ok(7)
        });
        assert_eq!(work.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_is_given_up_goes_on() {
        let (go, gone) = oneshot::channel();
        let (done, end) = oneshot::channel();
        let mut work = carried(async {
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
        let work: Carried<()> = carried(async { panic!("as if the driver had a fault") });
        assert!(matches!(work.await, Err(StoreError::Backend { .. })));
    }

    #[test]
    fn work_is_done_where_it_belongs_and_goes_with_that() {
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (driver, other) = (runtime(), runtime());
        let where_it_is = Carried::begin(driver.handle(), async { Ok(Handle::current().id()) });
        assert_eq!(other.block_on(where_it_is).unwrap(), driver.handle().id());
        let work = Carried::begin(driver.handle(), std::future::pending::<Result<(), _>>());
        driver.shutdown_background();
        assert!(matches!(other.block_on(work), Err(StoreError::Unavailable { .. })));
    }
}
