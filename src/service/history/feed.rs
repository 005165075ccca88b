//! The changes as they happen, for readers that follow them.
//!
//! One task of the process reads new entries for all followers. Followers share what it read, or read the store themselves
//! until they have caught up. The order is that of the sequences, in which the store lets units take effect:
//! see [`Numbered`](crate::store::Numbered).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{DateTime, Document, doc};
use tokio::sync::{broadcast, watch};

use super::channels::Channels;
pub use super::channels::{Batch, Event, Kind, Known, Position, Subscription};
use super::former::FormerTypes;
use super::kept::{has_sequence, kept, last};
use super::past::{Back, Moment, PastState, TOO_MUCH, Visitor};
use super::resources::RESOURCES;
use crate::admission::{Place, Places};
use crate::domain::document::{integer, text};
use crate::query::{Filter, Sort};
use crate::store::collections::{LOGS, TYPES};
use crate::store::{FindQuery, Store, StoreError};

/// The interval at which the store is queried for changes of other instances.
const PAUSE: Duration = Duration::from_millis(250);
/// How long entries gather for a batch, for each follower: several times what waking one takes.
const PER_FOLLOWER: Duration = Duration::from_micros(40);
/// How long they gather at most.
const LONGEST_BREATH: Duration = Duration::from_millis(40);
/// The maximum number of open streams; one user may open half of them.
const MOST_STREAMS: usize = 4096;
/// How many entries are read at a time.
pub(super) const BATCH: u64 = 500;
/// The size in bytes up to which documents are read once for all followers, and kept with their batch.
const SHARED_BYTES: usize = 256 * 1024;
/// The maximum number of bytes held for documents of events, unless one event alone has more.
const EVENT_BYTES: usize = 1024 * 1024;

/// Since when changes are kept: the time and the sequence; nothing before the history has begun.
type Kept = Option<(DateTime, i64)>;

/// What is read of entries. How to go back may be large.
fn read_members() -> Document {
    let mut members = doc! { "_id": 0, "changes.created": 1, "changes.unknown": 1, "state": 1, "hash": 1 };
    let plain = ["sequence", "time", "resource", "public_id", "type_id", "version", "action", "user_id"];
    members.extend(plain.map(|name| (name.to_owned(), 1.into())));
    members
}

impl Batch {
    /// The events of all entries, if they are small, or nothing: then each follower reads those that it may see.
    pub(super) async fn events_of_all(&self, feed: &Feed) -> Option<&[Arc<Event>]> {
        let read = async || {
            let entries: Vec<&RawDocument> = self.entries().iter().map(|entry| &**entry).collect();
            let events = feed.events(&entries).await.ok().flatten()?;
            let bytes = |document: &Option<RawDocumentBuf>| document.as_ref().map_or(0, |it| it.as_bytes().len());
            let all: usize = events.iter().map(|event| bytes(&event.before) + bytes(&event.after)).sum();
            (events.len() == entries.len() && all <= SHARED_BYTES).then(|| events.into_iter().map(Arc::new).collect())
        };
        self.events.as_ref()?.get_or_init(read).await.as_deref()
    }
}

/// Reads new entries for all followers.
pub struct Feed {
    store: Arc<dyn Store>,
    /// Moves when this process has stored entries.
    recorded: Arc<watch::Sender<u64>>,
    max_time: Duration,
    channels: Channels,
    /// The largest sequence of which this process knows that it is stored.
    known: AtomicI64,
    has_started: AtomicBool,
    /// How often a follower was so slow that it had to read the store.
    behind: AtomicU64,
    /// How many streams there are, and of whom.
    seats: Places,
    /// What is known of former types, and the revision of the types then.
    former: Mutex<Option<(u64, Arc<FormerTypes>)>>,
    /// A moment since which no type has changed, and the revision of the types then.
    types_since: Mutex<Option<(u64, Moment)>>,
    /// Whether the service is ending.
    ending: watch::Sender<bool>,
}

impl Feed {
    pub(super) fn new(store: Arc<dyn Store>, recorded: Arc<watch::Sender<u64>>, max_time: Duration) -> Arc<Self> {
        Arc::new(Self {
            store,
            recorded,
            max_time,
            channels: Channels::new(),
            known: AtomicI64::new(0),
            has_started: AtomicBool::new(false),
            behind: AtomicU64::new(0),
            seats: Places::new(MOST_STREAMS, MOST_STREAMS / 2),
            former: Mutex::default(),
            types_since: Mutex::default(),
            ending: watch::Sender::new(false),
        })
    }

    /// The service is ending: a stream never ends on its own, and its client continues from where it was.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Does `work` until its end or [`Feed::end`], whichever comes first.
    pub async fn until_end(&self, work: impl Future<Output = ()>) {
        let mut ending = self.ending.subscribe();
        tokio::select! {
            () = work => {}
            _ = ending.wait_for(|is_ending| *is_ending) => {}
        }
    }

    /// The position after all stored entries.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn position(self: &Arc<Self>) -> Result<Position, StoreError> {
        if !self.has_started.swap(true, Ordering::AcqRel) {
            let feed = Arc::clone(self);
            // After the end of the service the store is closed.
            tokio::spawn(async move { feed.until_end(feed.run()).await });
        }
        self.last().await
    }

    /// The smallest position from which reading can continue.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn oldest(&self) -> Result<Position, StoreError> {
        Ok(self.kept().await?.map_or(0, |(_, sequence)| sequence))
    }

    /// The same, without anybody who follows.
    pub(super) async fn last(&self) -> Result<Position, StoreError> {
        let last = last(&*self.store, self.max_time).await?;
        self.known.fetch_max(last, Ordering::AcqRel);
        Ok(last)
    }

    /// Since when changes are kept.
    pub(super) async fn kept(&self) -> Result<Kept, StoreError> {
        kept(&*self.store, self.max_time).await
    }

    /// Whether it is known that no type has changed since the moment, and nothing of types is newer than `revision`.
    pub(in crate::service) fn has_types_since(&self, moment: Moment, revision: u64) -> bool {
        let known = self.types_since.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_some_and(|(known, since)| known == revision && since.is_before(moment))
    }

    /// Notes that no type has changed since the moment; `revision` is one from before that was asked.
    pub(in crate::service) fn note_types_since(&self, moment: Moment, revision: u64) {
        let mut known = self.types_since.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|(known, since)| known != revision || moment.is_before(since)) {
            *known = Some((revision, moment));
        }
    }

    /// Whether this process knows that an entry with this sequence or a larger one is stored.
    pub(super) fn has_stored(&self, sequence: i64) -> bool {
        self.known.load(Ordering::Acquire) >= sequence
    }

    /// A place for a stream of this user; nothing when all are taken, or half of them by this user.
    pub fn seat(&self, user_id: i64) -> Option<Place> {
        self.seats.take(user_id, 1).ok()
    }

    /// The number of open streams.
    pub fn streams(&self) -> u64 {
        (MOST_STREAMS - self.seats.free()) as u64
    }

    /// How often a follower was so slow that it had to read the store.
    pub fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// Follows the changes after this position; with `resource` it may leave out those of others.
    pub fn follow(&self, position: Position, resource: Option<&str>) -> Subscription {
        self.channels.follow(position, resource)
    }

    /// The entries after a position that `which` selects, at most as many as one batch, and the position after which there
    /// may be more of them.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn after(&self, position: Position, most: u64, which: &Filter) -> Result<(Batch, Position), StoreError> {
        // What is stored after this look comes with the next batch.
        let last = self.last().await?;
        if position >= last {
            return Ok((Batch::default(), position));
        }
        let most = most.min(BATCH);
        let batch = Batch::of(self.entries((position, last), which, most).await?);
        let is_all = (batch.entries().len() as u64) < most;
        let end = batch.end().filter(|_| !is_all).unwrap_or(last);
        Ok((batch, end))
    }

    /// The types that were deleted. They are read again when types have changed.
    ///
    /// # Errors
    /// Errors of the store.
    pub(in crate::service) async fn former_types(&self) -> Result<Arc<FormerTypes>, StoreError> {
        let revision = self.store.revision(TYPES);
        let known = self.former.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, former)) = known.filter(|(known, _)| *known == revision) {
            return Ok(former);
        }
        let former = Arc::new(FormerTypes::read(&*self.store, self.max_time).await?);
        *self.former.lock().unwrap_or_else(PoisonError::into_inner) = Some((revision, Arc::clone(&former)));
        Ok(former)
    }

    async fn run(&self) {
        let mut recorded = self.recorded.subscribe();
        // Where the next batch begins; nothing without followers.
        let mut position = None;
        let mut seen = None;
        loop {
            let now = self.store.revision(LOGS);
            recorded.borrow_and_update();
            if self.channels.followers() == 0 || seen == Some(now) {
                // A change of this process wakes at once, those of others within the pause.
                let _ = tokio::time::timeout(PAUSE, recorded.changed()).await;
                if self.channels.followers() == 0 {
                    (position, seen) = (None, None);
                }
                continue;
            }
            match self.step(&mut position).await {
                Ok(true) => tokio::time::sleep(self.breath()).await,
                Ok(false) => seen = Some(now),
                Err(error) => {
                    log::warn!("changes cannot be followed: {error}");
                    tokio::time::sleep(PAUSE * 4).await;
                }
            }
        }
    }

    /// How long new entries gather before the next batch. Each batch wakes each follower, so the work of many followers
    /// would grow with the number of commits.
    fn breath(&self) -> Duration {
        let followers = u32::try_from(self.channels.followers()).unwrap_or(u32::MAX);
        let breath = PER_FOLLOWER.saturating_mul(followers).min(LONGEST_BREATH);
        // Timers are no finer than this.
        if breath < Duration::from_millis(1) { Duration::ZERO } else { breath }
    }

    /// Reads one batch and hands it to the followers; false if there was none.
    async fn step(&self, position: &mut Option<Position>) -> Result<bool, StoreError> {
        let last = self.last().await?;
        let Some(since) = *position else {
            *position = Some(last);
            // What was stored between the look of a follower and this one is in no batch: the store has it.
            self.channels.send(last, &Arc::default());
            return Ok(true);
        };
        let batch = Batch::shared(self.entries((since, last), &Filter::all(), BATCH).await?);
        let Some(end) = batch.end() else { return Ok(false) };
        *position = Some(end);
        self.channels.send(since, &Arc::new(batch));
        Ok(true)
    }

    async fn entries(
        &self,
        (position, until): (Position, Position),
        which: &Filter,
        most: u64,
    ) -> Result<Vec<RawDocumentBuf>, StoreError> {
        let between = Filter::ours(&doc! { "sequence": { "$gt": position, "$lte": until } });
        let filter = has_sequence().and(between).and(which.clone());
        let query = FindQuery::new(filter, self.max_time)
            .sorted(Sort::by("sequence", false))
            .limited(most)
            .showing(&read_members());
        let found = self.store.find(LOGS, &query).await?;
        Ok(found.iter().map(RawDocument::to_owned).collect())
    }

    /// The first of these entries with the documents before and after them, as many as fit; nothing when fewer are to be
    /// asked for. One alone always fits.
    pub(super) async fn events(&self, entries: &[&RawDocument]) -> Result<Option<Vec<Event>>, StoreError> {
        let mut states = States::of(entries);
        let Some(first) = states.wanted.first() else { return Ok(Some(Vec::new())) };
        let since = Moment::Sequence(first - 1);
        for (collection, kind) in RESOURCES {
            let of_kind = entries.iter().filter(|entry| text(entry, "resource") == Some(kind));
            let ids: BTreeSet<i64> = of_kind.filter_map(|entry| integer(entry, "public_id")).collect();
            if ids.is_empty() {
                continue;
            }
            let back = Back::new(&*self.store, collection, since, self.max_time);
            let Some(read) = back.read(&Vec::from_iter(ids)).await? else { return Ok(None) };
            states = match back.turn_back(read, states).await {
                Err(StoreError::Query { code: TOO_MUCH, .. }) if entries.len() > 1 => return Ok(None),
                // Followers continue without the document.
                Err(StoreError::Query { code: TOO_MUCH, .. }) => States::of(entries),
                states => states?,
            };
        }
        let kept = entries.iter().filter(|entry| sequence_of(entry) < states.cut);
        let events = kept.map(|entry| {
            let (before, after, known) = match states.found.remove(&sequence_of(entry)) {
                Some((PastState::Unknown, _)) | None => (None, None, Known::Neither),
                Some((after, PastState::Unknown)) => (None, document_of(after), Known::After),
                Some((after, before)) => (document_of(before), document_of(after), Known::Both),
            };
            Event { entry: (*entry).to_owned(), before, after, known }
        });
        Ok(Some(events.collect()))
    }
}

fn sequence_of(entry: &RawDocument) -> i64 {
    integer(entry, "sequence").unwrap_or_default()
}

fn document_of(state: PastState) -> Option<RawDocumentBuf> {
    if let PastState::Document(document) = state { Some(document) } else { None }
}

/// Documents after and before changes, the earliest changes first, as many as fit.
struct States {
    wanted: BTreeSet<i64>,
    found: BTreeMap<i64, (PastState, PastState)>,
    bytes: usize,
    /// Changes from this sequence on did not fit.
    cut: i64,
}

impl States {
    fn of(entries: &[&RawDocument]) -> Self {
        let wanted = entries.iter().map(|entry| sequence_of(entry)).collect();
        Self { wanted, found: BTreeMap::new(), bytes: 0, cut: i64::MAX }
    }
}

impl Visitor for States {
    fn wants(&self, sequence: i64) -> bool {
        sequence < self.cut && self.wanted.contains(&sequence)
    }

    fn change(&mut self, sequence: i64, after: PastState, before: PastState) {
        let bytes = |state: &PastState| match state {
            PastState::Document(document) => document.as_bytes().len(),
            _ => 0,
        };
        self.bytes += bytes(&after) + bytes(&before);
        self.found.insert(sequence, (after, before));
        while self.bytes > EVENT_BYTES && self.found.len() > 1 {
            let Some((last, (after, before))) = self.found.pop_last() else { break };
            self.bytes -= bytes(&after) + bytes(&before);
            self.cut = last;
        }
    }
}

impl Subscription {
    /// The next entries, in order, without any that the follower has had. Waits for them.
    ///
    /// # Errors
    /// Errors of the store, when the follower was so slow that it must read the store.
    pub async fn next(&mut self, feed: &Feed) -> Result<Arc<Batch>, StoreError> {
        // Batches in memory first: the store is queried for what they do not have.
        let mut received = match self.batches.try_recv() {
            Ok(sent) => Some(sent),
            Err(error) => {
                if matches!(error, broadcast::error::TryRecvError::Lagged(_)) {
                    self.is_continuous = false;
                    feed.behind.fetch_add(1, Ordering::Relaxed);
                }
                None
            }
        };
        loop {
            if let Some((since, batch)) = received {
                match batch.end() {
                    // One that does not begin here overlaps with what was read, or leaves a gap: the store has the rest.
                    Some(end) if since == self.position || (self.is_continuous && since > self.position) => {
                        self.position = end;
                        return Ok(batch);
                    }
                    // It was begun before what the follower has read, and continues after it.
                    Some(end) if end > self.position => self.is_continuous = false,
                    Some(_) => {}
                    None => self.is_continuous = false,
                }
            }
            if !self.is_continuous {
                let (behind, _) = feed.after(self.position, BATCH, &Filter::all()).await?;
                if let Some(end) = behind.end() {
                    self.position = end;
                    return Ok(Arc::new(behind));
                }
                self.is_continuous = self.is_of_one;
            }
            received = match self.batches.recv().await {
                Ok(batch) => Some(batch),
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    self.is_continuous = false;
                    feed.behind.fetch_add(1, Ordering::Relaxed);
                    None
                }
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            };
        }
    }
}
