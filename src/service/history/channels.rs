//! What followers of the changes get: events, in batches, by channels.

use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use tokio::sync::{OnceCell, broadcast};

use super::past::{changes_of, is_unknown};
use super::resources::RESOURCES;
use crate::domain::document::{integer, text};
use crate::history::entry::state_in;

/// The number of batches kept for followers that are slow; slower ones read the store.
const KEPT_BATCHES: usize = 64;

/// A change, as followers need it.
#[derive(Debug)]
pub struct Event {
    /// The entry, without how to go back.
    pub entry: RawDocumentBuf,
    /// The document before the change, where it is known.
    pub before: Option<RawDocumentBuf>,
    /// The document after the change, where it is known.
    pub after: Option<RawDocumentBuf>,
    /// Which of them are known.
    pub known: Known,
}

/// Which documents of a change are known; a known one may be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Those before and after it.
    Both,
    /// The one after it: another tool made the change, or there was no room to keep what was deleted.
    After,
    /// Neither: another tool changed the document since, or too much has changed.
    Neither,
}

/// What an event means to a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The document came, or came to match.
    Enter,
    /// It changed.
    Change,
    /// It went, or no longer matches.
    Leave,
}

impl Kind {
    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Change => "change",
            Self::Leave => "leave",
        }
    }
}

/// What an entry means to a follower of everything: no document is needed for that.
pub(super) fn kind_of(entry: &RawDocument) -> Kind {
    let changes = changes_of(entry).ok();
    let has = |name: &str| changes.is_some_and(|changes| changes.get(name).ok().flatten().is_some());
    match state_in(entry) {
        None => Kind::Leave,
        Some(_) if has("created") && !changes.is_some_and(is_unknown) => Kind::Enter,
        Some(_) => Kind::Change,
    }
}

impl Event {
    /// What it means to a follower of what matches; nothing if it matches neither before nor after. What is not known may
    /// have matched, so followers receive it: what matches now has changed for them, and anything else has gone.
    pub fn kind(&self, matches: impl Fn(&RawDocument) -> bool) -> Option<Kind> {
        let was = || self.before.as_deref().is_some_and(&matches);
        let is = || self.after.as_deref().is_some_and(&matches);
        match self.known {
            Known::Neither => Some(Kind::Change),
            Known::After => Some(if is() { Kind::Change } else { Kind::Leave }),
            Known::Both => match (was(), is()) {
                (false, true) => Some(Kind::Enter),
                (true, true) => Some(Kind::Change),
                (true, false) => Some(Kind::Leave),
                (false, false) => None,
            },
        }
    }
}

/// A place in the order of all changes: after the entry with this sequence.
pub type Position = i64;

/// Entries in their order, without how to go back. Their documents are read when a follower needs them: most followers
/// receive changes of few resources. Few small ones are read once for all who follow.
#[derive(Debug, Default)]
pub struct Batch {
    entries: Vec<RawDocumentBuf>,
    pub(super) events: Option<OnceCell<Option<Vec<Arc<Event>>>>>,
}

impl Batch {
    /// For one follower alone.
    pub(in crate::service) fn of(entries: Vec<RawDocumentBuf>) -> Self {
        Self { entries, events: None }
    }

    /// For all who follow.
    pub(super) fn shared(entries: Vec<RawDocumentBuf>) -> Self {
        Self { entries, events: Some(OnceCell::new()) }
    }

    /// The entries.
    pub fn entries(&self) -> &[RawDocumentBuf] {
        &self.entries
    }

    /// The position after them; nothing without any.
    pub fn end(&self) -> Option<Position> {
        self.entries.last().and_then(|entry| integer(entry, "sequence"))
    }
}

/// A batch with the position before it.
type Sent = (Position, Arc<Batch>);

/// New entries go to the followers of everything, and to those of one resource that a batch has entries of.
pub(super) struct Channels {
    all: broadcast::Sender<Sent>,
    of_one: [broadcast::Sender<Sent>; RESOURCES.len()],
}

impl Channels {
    pub(super) fn new() -> Self {
        Self {
            all: broadcast::Sender::new(KEPT_BATCHES),
            of_one: std::array::from_fn(|_| broadcast::Sender::new(KEPT_BATCHES)),
        }
    }

    pub(super) fn followers(&self) -> usize {
        self.all.receiver_count() + self.of_one.iter().map(broadcast::Sender::receiver_count).sum::<usize>()
    }

    /// An empty batch goes to all: it says that the store has more.
    pub(super) fn send(&self, since: Position, batch: &Arc<Batch>) {
        // Without a follower nobody receives it.
        let _ = self.all.send((since, Arc::clone(batch)));
        for ((_, kind), channel) in RESOURCES.iter().zip(&self.of_one) {
            if batch.entries().is_empty() || batch.entries().iter().any(|entry| text(entry, "resource") == Some(kind)) {
                let _ = channel.send((since, Arc::clone(batch)));
            }
        }
    }

    /// See [`Feed::follow`](super::feed::Feed::follow).
    pub(super) fn follow(&self, position: Position, resource: Option<&str>) -> Subscription {
        let place = resource.and_then(|resource| RESOURCES.iter().position(|(_, kind)| *kind == resource));
        let batches = place.map_or(&self.all, |place| &self.of_one[place]).subscribe();
        Subscription { batches, position, is_of_one: place.is_some(), is_continuous: false }
    }
}

/// What a follower is subscribed to.
pub struct Subscription {
    pub(super) batches: broadcast::Receiver<Sent>,
    pub(super) position: Position,
    pub(super) is_of_one: bool,
    /// Whether all batches of its resource come by its channel: then those without it are skipped.
    pub(super) is_continuous: bool,
}
