//! Admission: the one place that bounds memory and processor time of all requests together.
//!
//! Short operations run on the thread of the request: an object by its id, a short page in the order of an index.
//! Everything else is *work*, and goes through [`work`]:
//!
//! 1. **Turn.** The number of turns is bounded, and one user has at most half of them. Requests wait in the order of arrival,
//!    first after those of the same user and then after those of others. So each user gets the next turn in due time. A
//!    request that has had no turn yet waits a bounded time. Then it is [`Denied::Busy`].
//! 2. **Memory.** What work makes is counted in a [`Share`] of a [`Pool`]. One user has three quarters of it at most.
//! 3. **Disk.** An answer that is made in a file before it begins takes one of the few places of its user: see [`file()`].
//! 4. **End.** When nobody waits for the work any more, [`Means::is_gone`] says so, and the work stops at its next
//!    check of the clock.
//!
//! Each request has a [`Ticket`] of its user. It travels with the request's task, so that the layers between `http` and the
//! store need not know of users. Without a ticket (commands, the start) nothing is bounded.
//!
//! *Invariants:*
//! - A turn lasts as long as the work on its thread, even if nobody waits for it any more.
//! - Nobody holds a turn while waiting for another one.

mod means;
mod memory;
mod places;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, stream};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

pub use self::means::Means;
pub use self::memory::{Pool, Share};
pub use self::places::{Place, Places};

/// Whether a time is over.
pub fn is_over(end: Instant) -> bool {
    Instant::now() >= end
}

/// How many requests of a user may wait for their first turn; more are refused at once.
const WAITING: usize = 256;

/// How many answers of a user may lie in files at a time; more are refused at once. Such a file lasts until its reader has it.
const FILES: usize = 2;

tokio::task_local! {
    static TICKET: Ticket;
}

/// Why work was not done.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// There is no room for it now.
    #[error("too much is under way; try again")]
    Busy,
    /// One user may never have that much.
    #[error(
        "it needs more than the {} MiB of memory that one user may have; ask for less at a time: with a filter, a projection \
         or a smaller limit", .most >> 20
    )]
    TooMuch {
        /// How many bytes there are.
        most: usize,
    },
    /// It broke off.
    #[error(transparent)]
    Broken(#[from] JoinError),
}

/// The bounds on all requests together.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes for computed values, sorts, and answers that wait to be sent.
    pub memory: usize,
    /// How much work runs at a time.
    pub at_once: usize,
    /// How long a request waits for its first turn.
    pub wait: Duration,
}

impl Bounds {
    /// How much work runs at a time on this machine: one a core, and two at least, so that one user never has all turns.
    /// Work on a remote store mostly waits for it, so eight pieces at least run there.
    pub fn at_once_here(is_remote: bool) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        cores.max(if is_remote { 8 } else { 2 })
    }
}

/// The governor; one for the whole process.
#[derive(Debug)]
pub struct Admission {
    bounds: Bounds,
    memory: Arc<Pool>,
    turns: Places,
    files: Places,
    users: Mutex<HashMap<i64, Arc<User>>>,
}

/// What the requests of a user have together.
#[derive(Debug)]
struct User {
    id: i64,
    memory: Arc<Pool>,
    waiting: AtomicUsize,
}

/// A request's right to memory and turns.
#[derive(Debug, Clone, Default)]
pub struct Ticket(Option<Arc<Request>>);

#[derive(Debug)]
struct Request {
    admission: Arc<Admission>,
    user: Arc<User>,
    /// Whether it has had a turn.
    has_begun: AtomicBool,
    held: Mutex<Holding>,
}

/// The resources of a request during its life.
#[derive(Debug)]
struct Holding {
    bytes: usize,
    share: Share,
    /// The shares that finished parts of the request left to it.
    left: Vec<Share>,
}

/// The right to a file.
#[derive(Debug)]
pub struct FilePlace(#[expect(dead_code, reason = "it is held, not read")] Option<Place>);

/// A turn to work.
#[derive(Debug)]
pub struct Turn {
    means: Means,
    _place: Option<Place>,
}

impl Admission {
    /// A governor with these bounds.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        let memory = Arc::new(Pool::new(bounds.memory));
        let turns = Places::new(bounds.at_once, (bounds.at_once / 2).max(1));
        Arc::new(Self { bounds, memory, turns, files: Places::of_each(FILES), users: Mutex::default() })
    }

    /// A ticket for a request of this user.
    pub fn ticket(self: &Arc<Self>, user_id: i64) -> Ticket {
        let user = self.user(user_id);
        let share = Share::of(Some(Arc::clone(&user.memory)));
        let held = Mutex::new(Holding { bytes: 0, share, left: Vec::new() });
        Ticket(Some(Arc::new(Request { admission: Arc::clone(self), user, has_begun: AtomicBool::new(false), held })))
    }

    /// What all requests share.
    pub fn memory(&self) -> &Pool {
        &self.memory
    }

    /// How much work could begin at once.
    pub fn free_turns(&self) -> usize {
        self.turns.free()
    }

    fn user(&self, id: i64) -> Arc<User> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let user = users.entry(id).or_insert_with(|| {
            let memory = Pool::part_of(&self.memory, self.bounds.memory / 4 * 3);
            Arc::new(User { id, memory: Arc::new(memory), waiting: AtomicUsize::new(0) })
        });
        Arc::clone(user)
    }
}

/// The ticket of the current request.
pub fn current() -> Ticket {
    TICKET.try_with(Clone::clone).unwrap_or_default()
}

/// Waits for a turn of the current request.
///
/// # Errors
/// [`Denied::Busy`].
pub async fn turn() -> Result<Turn, Denied> {
    current().turn().await
}

/// Runs expensive work on a thread that may block, in a turn of the request.
///
/// # Errors
/// [`Denied`].
pub async fn work<T: Send + 'static>(job: impl FnOnce(&Means) -> T + Send + 'static) -> Result<T, Denied> {
    turn().await?.run(job).await
}

/// As [`work`] if it may take long; else on this thread at once, with nothing to count.
///
/// # Errors
/// [`Denied`].
pub async fn work_if<T: Send + 'static>(
    may_take_long: bool,
    job: impl FnOnce(&Means) -> T + Send + 'static,
) -> Result<T, Denied> {
    if may_take_long { work(job).await } else { Ok(job(&Means::default())) }
}

/// The right of the current request to a file with its answer, for as long as it is held.
///
/// # Errors
/// [`Denied::Busy`].
pub fn file() -> Result<FilePlace, Denied> {
    current().0.map_or(Ok(FilePlace(None)), |request| {
        request.admission.files.take(request.user.id, 1).map(|place| FilePlace(Some(place)))
    })
}

/// The same stream; its work counts as that of the current request, even after its answer has begun.
pub fn kept<S>(items: S) -> impl Stream<Item = S::Item> + use<S>
where
    S: Stream + Unpin,
{
    stream::unfold((items, current()), |(mut items, ticket)| async {
        let item = ticket.scope(items.next()).await?;
        Some((item, (items, ticket)))
    })
}

impl Ticket {
    /// Does `work` as part of the request.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        TICKET.scope(self.clone(), work).await
    }

    /// Counts this many more bytes for the request, during its life.
    ///
    /// # Errors
    /// [`Denied::Busy`].
    pub fn hold(&self, bytes: usize) -> Result<(), Denied> {
        self.cover(bytes, |share, all| share.cover(all).map(drop))
    }

    /// As [`Ticket::hold`], for a request that is kept after its answer, such as a cursor: from now on all that it holds
    /// is counted to the byte.
    ///
    /// # Errors
    /// [`Denied::Busy`].
    pub fn keep(&self, bytes: usize) -> Result<(), Denied> {
        self.cover(bytes, Share::cover_whole)
    }

    /// Memory for a growing value that may end before the request.
    pub fn share(&self) -> Share {
        Share::of(self.0.as_ref().map(|request| Arc::clone(&request.user.memory)))
    }

    /// Covers this number of bytes in addition to those that the request holds already.
    fn cover(&self, more: usize, cover: impl FnOnce(&mut Share, usize) -> Result<(), Denied>) -> Result<(), Denied> {
        let Some(request) = &self.0 else { return Ok(()) };
        let mut held = request.held.lock().unwrap_or_else(PoisonError::into_inner);
        let all = held.bytes.saturating_add(more);
        cover(&mut held.share, all)?;
        held.bytes = all;
        Ok(())
    }

    /// Keeps a share as long as the request lasts.
    fn inherit(&self, share: Share) {
        if let Some(request) = &self.0 {
            request.held.lock().unwrap_or_else(PoisonError::into_inner).left.push(share);
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`Denied::Busy`].
    pub async fn turn(&self) -> Result<Turn, Denied> {
        let Some(request) = &self.0 else { return Ok(Turn { means: Means::default(), _place: None }) };
        let place = request.admission.turns.wait(request.user.id);
        let place = if request.has_begun.load(Ordering::Relaxed) {
            place.await?
        } else {
            let _waiting = WaitingRequest::begin(&request.user)?;
            timeout(request.admission.bounds.wait, place).await.map_err(|_| Denied::Busy)??
        };
        request.has_begun.store(true, Ordering::Relaxed);
        Ok(Turn { means: Means::of(Arc::clone(&request.user.memory), self.clone()), _place: Some(place) })
    }
}

impl Turn {
    /// What the work may take.
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// Does the work on a thread that may block.
    ///
    /// # Errors
    /// [`Denied::Broken`] when it panics.
    pub async fn run<T: Send + 'static>(self, job: impl FnOnce(&Means) -> T + Send + 'static) -> Result<T, Denied> {
        let _wanted = self.means.wanted();
        let done = spawn_blocking(move || {
            give_way();
            job(&self.means)
        });
        Ok(done.await?)
    }
}

/// A request that waits for its first turn.
struct WaitingRequest<'a>(&'a User);

impl<'a> WaitingRequest<'a> {
    fn begin(user: &'a User) -> Result<Self, Denied> {
        let waiting = Self(user);
        if user.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING { Err(Denied::Busy) } else { Ok(waiting) }
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The nice value of worker threads: threads that answer requests come first.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Lowers the priority below that of threads that answer requests. Such a thread only does work.
#[cfg(target_os = "linux")]
fn give_way() {
    thread_local! {
        static GAVE_WAY: () = {
            // On Linux a priority belongs to a thread. Without the right to lower it, work continues with the old one.
            let _ = rustix::process::setpriority_process(None, NICE);
        };
    }
    GAVE_WAY.with(|()| ());
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt;

    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    fn admission(at_once: usize, wait: Duration) -> Arc<Admission> {
        Admission::new(Bounds { memory: 8 * 1024 * 1024, at_once, wait })
    }

    #[tokio::test]
    async fn one_user_has_few_files_at_a_time() {
        let admission = admission(2, LONG);
        let (one, other) = (admission.ticket(1), admission.ticket(2));
        let mut held: Vec<FilePlace> = Vec::new();
        for _ in 0..FILES {
            held.push(one.scope(async { file() }).await.expect("a place"));
        }
        assert!(matches!(one.scope(async { file() }).await, Err(Denied::Busy)));
        assert!(other.scope(async { file() }).await.is_ok());
        held.pop();
        assert!(one.scope(async { file() }).await.is_ok());
    }

    #[tokio::test]
    async fn one_user_never_has_all_turns() {
        let admission = admission(2, LONG);
        let (one, other) = (admission.ticket(1), admission.ticket(2));
        let first = one.turn().await.expect("a turn");
        assert!(one.turn().now_or_never().is_none());
        let second = other.turn().await.expect("a turn");
        assert_eq!(admission.free_turns(), 0);
        drop((first, second));
        assert_eq!(admission.free_turns(), 2);
    }

    #[tokio::test]
    async fn who_waits_too_long_for_a_first_turn_is_told_to_come_back() {
        let admission = admission(2, Duration::from_millis(1));
        let begun = admission.ticket(1);
        drop(begun.turn().await.expect("a turn"));
        let turn = admission.ticket(1).turn().await.expect("a turn");
        let (again, ()) = tokio::join!(begun.turn(), async {
            assert!(matches!(admission.ticket(1).turn().await, Err(Denied::Busy)));
            drop(turn);
        });
        assert!(again.is_ok(), "a request that has begun is let finish");
    }

    #[tokio::test]
    async fn so_many_requests_of_a_user_wait_and_no_more() {
        let admission = admission(2, LONG);
        let _turn = admission.ticket(1).turn().await.expect("a turn");
        let tickets: Vec<Ticket> = (0..=WAITING).map(|_| admission.ticket(1)).collect();
        let mut waiting: Vec<_> = tickets.iter().map(|ticket| Box::pin(ticket.turn())).collect();
        let answers = waiting.iter_mut().filter_map(FutureExt::now_or_never).collect::<Vec<_>>();
        assert!(matches!(answers.as_slice(), [Err(Denied::Busy)]), "{}", answers.len());
        drop(waiting);
        assert_eq!(admission.user(1).waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_told_so_and_keeps_its_turn_until_it_ends() {
        let admission = admission(2, LONG);
        let (begun, begins) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let ticket = admission.ticket(1);
        let work = tokio::spawn(async move {
            let job = move |means: &Means| {
                begun.send(()).expect("the test listens");
                while !means.is_gone() {
                    std::thread::yield_now();
                }
                ended.send(()).expect("the test listens");
            };
            ticket.scope(work(job)).await
        });
        tokio::task::spawn_blocking(move || begins.recv()).await.expect("it ends").expect("it begins");
        assert_eq!(admission.free_turns(), 1);
        work.abort();
        tokio::task::spawn_blocking(move || ends.recv()).await.expect("it ends").expect("it is told");
        admission.ticket(1).turn().await.expect("the turn is free again");
    }

    #[tokio::test]
    async fn what_a_request_holds_counts_until_its_last_ticket_is_gone() {
        let admission = admission(2, LONG);
        let all = admission.memory().free();
        let ticket = admission.ticket(1);
        ticket.hold(2 * 1024 * 1024).expect("there is room");
        assert!(matches!(ticket.hold(all), Err(Denied::TooMuch { .. })));
        let same = ticket.clone();
        drop(ticket);
        assert!(admission.memory().free() < all);
        drop(same);
        assert_eq!(admission.memory().free(), all);
    }

    #[tokio::test]
    async fn what_is_kept_counts_from_its_first_byte() {
        let admission = admission(2, LONG);
        let all = admission.memory().free();
        let ticket = admission.ticket(1);
        ticket.hold(1000).expect("free of charge");
        assert_eq!(admission.memory().free(), all);
        ticket.keep(24).expect("there is room");
        assert_eq!(admission.memory().free(), all - 1024);
        assert!(matches!(ticket.keep(all), Err(Denied::TooMuch { .. })));
        drop(ticket);
        assert_eq!(admission.memory().free(), all);
    }

    #[tokio::test]
    async fn without_a_ticket_nothing_is_bounded() {
        let turns = futures::future::join_all((0..100).map(|_| turn())).await;
        assert!(turns.iter().all(Result::is_ok));
        assert!(current().hold(usize::MAX).is_ok());
    }

    #[tokio::test]
    async fn a_stream_goes_on_as_part_of_its_request() {
        let admission = admission(2, LONG);
        let ticket = admission.ticket(1);
        let steps = stream::iter(0..3).then(|_| async { current().0.is_some() }).boxed();
        let kept = ticket.scope(async { kept(steps) }).await;
        assert_eq!(kept.collect::<Vec<_>>().await, [true; 3]);
    }
}
