//! How long to wait for an operation, and when to repeat a query.
//!
//! The driver repeats an operation when its connection breaks, and it breaks all connections to a silent server. But it
//! does not give up a server when another one becomes the primary. So a frozen or unreachable primary would block all
//! its running operations. This module repeats queries then; the new primary answers them from the majority's state, as
//! the old one did. The driver repeats changes under their retry number, so none takes effect twice. It does not repeat
//! [batches](super::commit).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::error::unavailable;
use super::presence::{Presence, Term, Trouble};
use crate::plural::counted;
use crate::store::StoreError;

/// How long to wait for an operation beyond its own time budget.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait for a query of an earlier term. Queries that waited for the new primary, or that the driver
/// repeats, are already there. The driver announces a new primary a moment before it uses it.
const ON_ITS_WAY: Duration = Duration::from_millis(250);

/// How long a query with this time budget may take, finding a server included.
pub(super) fn query_bound(max_time: Duration) -> Duration {
    max_time + GRACE
}

fn exceeded(bound: Duration) -> StoreError {
    unavailable(format!("no answer within {}", counted(bound.as_secs(), "second")))
}

fn away() -> StoreError {
    unavailable("no MongoDB server takes writes")
}

impl Presence {
    /// The error for a query whose wait timed out: it takes too long where the server answers others.
    fn ran_out(&self, bound: Duration) -> StoreError {
        if self.answers() { StoreError::Timeout } else { exceeded(bound) }
    }

    /// Runs an operation to its end, and waits for it within a bound and only while the deployment is there.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bound: Duration,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_to(sleep(bound).map(|()| exceeded(bound)), operation).await
    }

    /// The same for a part of a query that cannot be repeated.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        bound: Duration,
        part: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_to(sleep(bound).map(|()| self.ran_out(bound)), part).await
    }

    /// The same. `end` completes with the error when the wait should end.
    async fn run_to<T: Send + 'static>(
        &self,
        end: impl Future<Output = StoreError>,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.is_lost() {
            return Err(away());
        }
        let work = Detached::begin(self.runtime(), operation);
        tokio::select! {
            biased;
            outcome = work => outcome,
            error = end => Err(error),
            // Without a term there is no signal of a new primary.
            _ = self.trouble(None) => Err(away()),
        }
    }

    /// Runs a query, and repeats it when another server became the primary meanwhile. It must be repeatable.
    pub(super) async fn ask<T, F>(&self, bound: Duration, question: impl Fn() -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let bound = Bound::new(bound);
        loop {
            if self.is_lost() {
                return Err(away());
            }
            let term = self.term();
            let mut work = Detached::begin(self.runtime(), question());
            if let Watched::Ended(outcome) = self.watch(term, bound, &mut work).await {
                return outcome;
            }
            match timeout_at(bound.until.min(Instant::now() + ON_ITS_WAY), work).await {
                Err(_) | Ok(Err(StoreError::Unavailable { .. })) => {}
                Ok(outcome) => return outcome,
            }
        }
    }

    async fn watch<T: Send + 'static>(&self, term: Term, bound: Bound, work: &mut Detached<T>) -> Watched<T> {
        tokio::select! {
            biased;
            outcome = timeout_at(bound.until, work) => Watched::Ended(outcome.unwrap_or_else(|_| Err(self.ran_out(bound.time)))),
            trouble = self.trouble(Some(term)) => match trouble {
                Trouble::Lost => Watched::Ended(Err(away())),
                Trouble::Succession => Watched::Succession,
            },
        }
    }
}

/// The outcome of waiting for work.
enum Watched<T> {
    Ended(Result<T, StoreError>),
    Succession,
}

/// When waiting ends, whatever is retried until then.
#[derive(Clone, Copy)]
struct Bound {
    time: Duration,
    until: Instant,
}

impl Bound {
    fn new(time: Duration) -> Self {
        Self { time, until: Instant::now() + time }
    }
}

// The driver does not allow that an operation is dropped halfway, and a unit of changes must not stop between two
// steps. So each is a task of its own. It runs on the runtime that owns the driver's connections. An operation talks
// to the driver's tasks half a dozen times: for a connection, for the cluster time, for each end of the wire. On
// another runtime each of these would wake up another thread.

/// Work that runs to completion when this handle is dropped before its end.
pub(super) struct Detached<T>(JoinHandle<Result<T, StoreError>>);

impl<T: Send + 'static> Detached<T> {
    /// Begins the work on that runtime; a panic of it becomes an error.
    pub(super) fn begin(runtime: &Handle, work: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
    }
}

impl<T> Future for Detached<T> {
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
    use super::*;
    use futures::FutureExt;
    use mongodb::options::ServerAddress;
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::oneshot;

    const LONG: Duration = Duration::from_hours(1);

    fn server(host: &str) -> Option<ServerAddress> {
        Some(ServerAddress::Tcp { host: host.to_owned(), port: None })
    }

    fn presence() -> Presence {
        let presence = Presence::new(LONG);
        presence.note(true, server("one"));
        presence
    }

    #[tokio::test]
    async fn a_question_that_a_former_primary_does_not_answer_is_asked_anew() {
        let (presence, asked) = (presence(), AtomicU32::new(0));
        let question = || match asked.fetch_add(1, Ordering::Relaxed) {
            0 => {
                presence.note(true, server("two"));
                pending().boxed()
            }
            _ => ready(Ok("the answer of two")).boxed(),
        };
        assert_eq!(presence.ask(LONG, question).await.unwrap(), "the answer of two");
        assert_eq!(asked.into_inner(), 2);
    }

    #[tokio::test]
    async fn a_question_that_fails_while_the_primary_changes_is_asked_anew() {
        let (presence, asked) = (presence(), AtomicU32::new(0));
        let question = || {
            let is_first = asked.fetch_add(1, Ordering::Relaxed) == 0;
            let presence = presence.clone();
            async move {
                if !is_first {
                    return Ok(2);
                }
                presence.note(false, None);
                tokio::task::yield_now().await;
                presence.note(true, server("two"));
                tokio::task::yield_now().await;
                Err(unavailable("as if the connection had broken"))
            }
        };
        assert_eq!(presence.ask(LONG, question).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_question_that_is_on_its_way_to_the_successor_is_asked_once() {
        let (presence, asked) = (presence(), AtomicU32::new(0));
        let question = || {
            asked.fetch_add(1, Ordering::Relaxed);
            let presence = presence.clone();
            async move {
                presence.note(true, server("two"));
                tokio::task::yield_now().await;
                Ok(1)
            }
        };
        assert_eq!(presence.ask(LONG, question).await.unwrap(), 1);
        assert_eq!(asked.into_inner(), 1);
    }

    #[tokio::test]
    async fn a_change_under_way_is_waited_for_whoever_becomes_the_primary() {
        let presence = presence();
        let change = {
            let presence = presence.clone();
            async move {
                presence.note(true, server("two"));
                tokio::task::yield_now().await;
                Ok(1)
            }
        };
        assert_eq!(presence.run(LONG, change).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn nothing_is_asked_while_nobody_takes_writes_for_too_long() {
        let presence = Presence::new(Duration::ZERO);
        presence.note(true, server("one"));
        presence.note(false, None);
        let asked = presence.ask(LONG, || -> std::future::Ready<Result<(), _>> { panic!("asked") }).await;
        assert!(matches!(asked, Err(StoreError::Unavailable { .. })));
        let run = presence.run(LONG, pending::<Result<(), _>>()).await;
        assert!(matches!(run, Err(StoreError::Unavailable { .. })));
    }

    #[tokio::test]
    async fn a_query_that_is_waited_for_in_vain_took_too_long_where_the_server_answers_others() {
        let presence = presence();
        for (is_heard, is_too_long) in [(false, false), (true, true)] {
            if is_heard {
                presence.hear(&server("one").expect("a server"));
            }
            let asked = presence.ask(Duration::ZERO, pending::<Result<(), _>>).await;
            let read = presence.read(Duration::ZERO, pending::<Result<(), _>>()).await;
            for outcome in [asked, read] {
                assert_eq!(matches!(outcome, Err(StoreError::Timeout)), is_too_long, "{outcome:?}");
                assert_eq!(matches!(outcome, Err(StoreError::Unavailable { .. })), !is_too_long, "{outcome:?}");
            }
        }
        presence.note(false, None);
        let asked = presence.ask(Duration::ZERO, pending::<Result<(), _>>).await;
        assert!(matches!(asked, Err(StoreError::Unavailable { .. })), "{asked:?}");
    }

    #[tokio::test]
    async fn waiting_ends_with_its_time() {
        let asked = presence().ask(Duration::ZERO, pending::<Result<(), _>>).await;
        assert!(matches!(asked, Err(StoreError::Unavailable { .. })));
        let run = presence().run(Duration::ZERO, pending::<Result<(), _>>()).await;
        assert!(matches!(run, Err(StoreError::Unavailable { .. })));
    }

    fn detached<T: Send + 'static>(work: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Detached<T> {
        Detached::begin(&Handle::current(), work)
    }

    #[tokio::test]
    async fn work_that_is_waited_for_gives_its_outcome() {
        let work = detached(async {
            tokio::task::yield_now().await;
            Ok(7)
        });
        assert_eq!(work.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_is_given_up_goes_on() {
        let (go, gone) = oneshot::channel();
        let (done, end) = oneshot::channel();
        let mut work = detached(async {
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
        let work: Detached<()> = detached(async { panic!("as if the driver had a fault") });
        assert!(matches!(work.await, Err(StoreError::Backend { .. })));
    }

    #[test]
    fn work_is_done_where_it_belongs_and_goes_with_that() {
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (driver, other) = (runtime(), runtime());
        let where_it_is = Detached::begin(driver.handle(), async { Ok(Handle::current().id()) });
        assert_eq!(other.block_on(where_it_is).unwrap(), driver.handle().id());
        let work = Detached::begin(driver.handle(), std::future::pending::<Result<(), _>>());
        driver.shutdown_background();
        assert!(matches!(other.block_on(work), Err(StoreError::Unavailable { .. })));
    }
}
