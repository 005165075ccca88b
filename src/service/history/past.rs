//! What documents were at an earlier moment: the present documents, rolled back by the entries since then.
//!
//! [`Back`] finds the ids of what has changed, and rolls the documents back a few at a time: as many as fit in [`AT_ONCE`].
//! A visitor keeps what it needs of each. A document of an entry that is larger is read alone, and its entries one after the
//! other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, bson, doc};
use futures::TryStreamExt;

use super::heads::of_kind;
use super::resources::{resource_of, unreadable};
use crate::admission::{self, Means, Share, Ticket};
use crate::domain::document::{integer, raw, text};
use crate::history::entry::{Action, Head, state_of};
use crate::history::patch::apply;
use crate::query::{Budget, Filter, Sort};
use crate::store::collections::{LOGS, OBJECTS};
use crate::store::{Chunks, Documents, FindQuery, Store, StoreError, chunks_of};

/// More entries are not rolled back for one question, nor entries of one document with more bytes.
pub(super) const MOST_ENTRIES: u64 = 50_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// How many bytes of documents are read at a time, and how many of entries, unless a single one has more.
const AT_ONCE: usize = 1024 * 1024;
/// The number of documents read at first, and the maximum.
const FIRST: usize = 8;
const MOST: usize = 512;
/// The maximum number of bytes, and of entries, that are rolled back where they are read. More are work in a turn.
const LITTLE: usize = 64 * 1024;
const FEW: usize = 16;
/// A document that is rolled back takes this many times its bytes.
const GROWTH: usize = 5;

/// How often the entries of documents are read that changed meanwhile. A second look finds the entry of each change, unless
/// the change and its entry are not one unit: another tool changed the document.
pub(super) const LOOKS: usize = 4;

/// A moment of the history: the state after all entries up to and including it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The entry with this sequence.
    Sequence(i64),
    /// This time.
    Time(At),
}

/// A time, and which entries came before it although their clock was ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    pub(super) time: DateTime,
    /// The entries up to this sequence came before it, whatever their times.
    pub(super) sequence: i64,
    /// No clock is past this time yet. Entries of a later time came before the moment.
    pub(super) latest: DateTime,
}

impl Moment {
    /// Whether it is the same as the other moment or before it, as far as that can be known.
    pub(super) fn is_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::Sequence(one), Self::Sequence(other)) => one <= other,
            (Self::Time(one), Self::Time(other)) => one.time <= other.time,
            _ => false,
        }
    }

    /// Whether the moment is before an entry with this sequence and time, or at it.
    pub(super) fn is_before_entry(self, (sequence, time): (i64, DateTime)) -> bool {
        match self {
            Self::Sequence(own) => own <= sequence,
            Self::Time(at) => at.time <= time && at.sequence < sequence,
        }
    }

    /// The entries after it.
    pub(super) fn later(self) -> Filter {
        let document = match self {
            Self::Sequence(sequence) => doc! { "sequence": { "$gt": sequence } },
            Self::Time(At { time, sequence: 0, latest }) => doc! { "time": { "$gt": time, "$lte": latest } },
            Self::Time(At { time, sequence, latest }) => {
                doc! { "time": { "$gt": time, "$lte": latest }, "sequence": { "$gt": sequence } }
            }
        };
        Filter::ours(&document)
    }
}

/// What a document was that has changed since.
#[derive(Debug, Clone)]
pub(super) struct Past {
    pub(super) state: PastState,
    /// The last known state of what had the id then: the present document, or what was deleted. The entry of a deletion that
    /// kept none. Nothing where nothing had the id.
    pub(super) last: Option<RawDocumentBuf>,
    /// The present document. It may be another one, that has got the id since.
    pub(super) present: Option<RawDocumentBuf>,
}

/// The state of a document at a moment.
#[derive(Debug, Clone)]
pub(super) enum PastState {
    /// There was none.
    Absent,
    /// This.
    Document(RawDocumentBuf),
    /// Another tool changed it since, so its state is unknown.
    Unknown,
}

/// What is done with documents on their way back.
pub(super) trait Visitor: Send + 'static {
    /// Whether it wants to know what the entry with this sequence changed.
    fn wants(&self, _sequence: i64) -> bool {
        false
    }

    /// The document after an entry that is wanted, and before it.
    fn change(&mut self, _sequence: i64, _after: PastState, _before: PastState) {}

    /// Whether [`Visitor::arrive`] may take long.
    fn is_costly(&self) -> bool {
        false
    }

    /// The document is as it was at the moment.
    fn arrive(&mut self, _id: i64, _past: Past, _budget: &Budget) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Rolls documents of one collection back to an earlier moment.
pub(super) struct Back<'s> {
    store: &'s dyn Store,
    collection: &'s str,
    entries: Filter,
    /// How long one step may take. Between two steps others have their turns, so how long all take is up to them; the time
    /// of the request bounds it.
    max_time: Duration,
}

/// Documents of some ids, and their entries, the newest of each first.
pub(super) struct Read {
    present: Documents,
    entries: Chunks,
    /// Of both; [`usize::MAX`] where they are not known yet.
    bytes: usize,
}

impl<'s> Back<'s> {
    pub(super) fn new(store: &'s dyn Store, collection: &'s str, moment: Moment, max_time: Duration) -> Self {
        let entries = of_kind(resource_of(collection).unwrap_or_default()).and(moment.later());
        Self { store, collection, entries, max_time }
    }

    /// The ids of the documents that have changed since and that `which` selects by their entries, in ascending order.
    ///
    /// # Errors
    /// [`StoreError::Query`] when too much has changed since, and errors of the store.
    pub(super) async fn ids(&self, which: Filter) -> Result<Vec<i64>, StoreError> {
        let query = self.query(self.entries.clone().and(which)).limited(MOST_ENTRIES + 1);
        let query = query.showing(&doc! { "_id": 0, "public_id": 1 });
        let found = self.store.find(LOGS, &query).await?;
        if found.len() as u64 > MOST_ENTRIES {
            return Err(too_much());
        }
        let mut ids: Vec<i64> = found.iter().filter_map(|entry| integer(entry, "public_id")).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Turns all of these back.
    ///
    /// # Errors
    /// As [`Back::ids`].
    pub(super) async fn each<V: Visitor>(&self, ids: &[i64], mut visitor: V) -> Result<V, StoreError> {
        let (mut rest, mut most) = (ids, FIRST);
        while !rest.is_empty() {
            let (some, others) = rest.split_at(most.min(rest.len()));
            let Some(read) = self.read(some).await? else {
                most = some.len() / 2;
                continue;
            };
            if read.bytes < AT_ONCE / 4 {
                most = (most * 4).min(MOST);
            }
            visitor = self.turn_back(read, visitor).await?;
            rest = others;
        }
        Ok(visitor)
    }

    /// Reads these documents and their entries; nothing when they are too large together, which one alone never is.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn read(&self, ids: &[i64]) -> Result<Option<Read>, StoreError> {
        let is_alone = ids.len() <= 1;
        let these = Filter::one_of("public_id", ids.iter().copied());
        // The documents first: then the entries have what made them.
        let (present, documents) = match self.found(self.collection, self.query(these.clone()), is_alone).await? {
            Some((chunks, bytes)) => (crate::store::gathered(chunks, usize::MAX).await?, bytes),
            None => return Ok(None),
        };
        let newest_first = Sort::by("public_id", true).then("number", true);
        let entries = self.query(self.entries.clone().and(these)).sorted(newest_first);
        let found = self.found(LOGS, entries, is_alone).await?;
        Ok(found.map(|(entries, bytes)| Read { present, entries, bytes: documents.saturating_add(bytes) }))
    }

    /// What the query finds. If that is too much, it comes in chunks where `is_wanted`, and else not at all.
    async fn found(
        &self,
        collection: &str,
        query: FindQuery,
        is_wanted: bool,
    ) -> Result<Option<(Chunks, usize)>, StoreError> {
        let mut query = query.within(AT_ONCE);
        match self.store.find(collection, &query).await {
            Err(StoreError::TooLarge) if is_wanted => {
                query.is_counted = false;
                Ok(Some((self.store.chunks(collection, &query.within(usize::MAX)).await?.documents, usize::MAX)))
            }
            Err(StoreError::TooLarge) => Ok(None),
            found => found.map(|found| (found.bytes(), chunks_of(found))).map(|(bytes, chunks)| Some((chunks, bytes))),
        }
    }

    /// Rolls back what was read.
    ///
    /// # Errors
    /// As [`Back::ids`].
    pub(super) async fn turn_back<V: Visitor>(&self, read: Read, visitor: V) -> Result<V, StoreError> {
        let mut walk = Walk::new(visitor);
        walk = self.walked(walk, read).await?;
        for look in 2..=LOOKS {
            walk.is_last_look = look == LOOKS;
            let mut parts = vec![std::mem::take(&mut walk.unsettled)];
            while let Some(ids) = parts.pop().filter(|ids| !ids.is_empty()) {
                match self.read(&ids).await? {
                    Some(read) => walk = self.walked(walk, read).await?,
                    None => parts.extend(ids.chunks(ids.len().div_ceil(2)).map(<[i64]>::to_vec)),
                }
            }
        }
        Ok(walk.visitor)
    }

    async fn walked<V: Visitor>(&self, mut walk: Walk<V>, mut read: Read) -> Result<Walk<V>, StoreError> {
        let with_id = |document: &RawDocument| Some((integer(document, "public_id")?, document.to_owned()));
        walk.present = read.present.iter().filter_map(with_id).collect();
        (walk.entries, walk.bytes) = (0, 0);
        let weight = read.present.bytes();
        drop(std::mem::take(&mut read.present));
        let max_time = self.max_time;
        let mut next = read.entries.try_next().await?;
        loop {
            let chunk = next.take();
            if chunk.is_some() {
                next = read.entries.try_next().await?;
            }
            let much = chunk.as_ref().is_some_and(|chunk| chunk.len() > FEW || chunk.bytes() > LITTLE);
            let is_last = next.is_none();
            let step = move |mut walk: Walk<V>, means: &Means| {
                let budget = &Budget::until(Instant::now().checked_add(max_time)).within(means);
                chunk.iter().flat_map(Documents::iter).try_for_each(|entry| walk.step(entry, budget))?;
                if is_last {
                    walk.arrive(budget)?;
                    // What it took is free again before anything else is waited for.
                    walk.share = walk.ticket.share();
                }
                Ok::<_, StoreError>(walk)
            };
            let may_take_long = much || weight > LITTLE || walk.visitor.is_costly();
            walk = admission::work_if(may_take_long, move |means: &Means| step(walk, means)).await??;
            if is_last {
                return Ok(walk);
            }
        }
    }

    fn query(&self, filter: Filter) -> FindQuery {
        FindQuery::new(filter, self.max_time)
    }
}

/// Documents on their way back, the one with the largest id first.
struct Walk<V> {
    visitor: V,
    present: BTreeMap<i64, RawDocumentBuf>,
    /// The one that is being rolled back.
    current: Option<Turning>,
    /// Documents whose entries did not show how they came to be what they are.
    unsettled: Vec<i64>,
    /// Whether the earlier state of such documents is unknown.
    is_last_look: bool,
    entries: u64,
    bytes: usize,
    share: Share,
    ticket: Ticket,
}

/// A document that is being rolled back.
struct Turning {
    id: i64,
    present: Option<RawDocumentBuf>,
    last: Option<RawDocumentBuf>,
    at: Place,
}

/// How far it has come.
enum Place {
    /// Entries are ahead of the document as it was read: they do not concern it.
    Ahead,
    /// This is what it was; nothing, if there was none.
    At(Option<Document>),
    /// Its state is unknown.
    Lost,
}

impl Place {
    fn state(&self) -> PastState {
        match self {
            Self::Ahead | Self::Lost => PastState::Unknown,
            Self::At(None) => PastState::Absent,
            Self::At(Some(document)) => PastState::Document(raw(document)),
        }
    }
}

impl<V: Visitor> Walk<V> {
    fn new(visitor: V) -> Self {
        let ticket = admission::current();
        Self {
            visitor,
            present: BTreeMap::new(),
            current: None,
            unsettled: Vec::new(),
            is_last_look: false,
            entries: 0,
            bytes: 0,
            share: ticket.share(),
            ticket,
        }
    }

    fn step(&mut self, entry: &RawDocument, budget: &Budget) -> Result<(), StoreError> {
        let Some(id) = integer(entry, "public_id") else { return Ok(()) };
        self.entries += 1;
        self.bytes += entry.as_bytes().len();
        if self.entries > MOST_ENTRIES || self.bytes > MOST_BYTES {
            return Err(too_much());
        }
        if self.current.as_ref().is_none_or(|turning| turning.id != id) {
            self.arrive(budget)?;
            let present = self.present.remove(&id);
            self.current = Some(Turning { id, last: present.clone(), present, at: Place::Ahead });
        }
        let Some(turning) = &mut self.current else { return Ok(()) };
        let present = turning.present.as_ref().map_or(0, |present| present.as_bytes().len());
        self.share.cover(GROWTH * present.max(entry.as_bytes().len()))?;
        if matches!(turning.at, Place::Ahead) {
            let state = turning.present.as_deref().map(state_of);
            if Head::of(entry).is_none_or(|head| head.state != state) {
                return Ok(());
            }
            let present = turning.present.as_deref().map(Document::try_from);
            turning.at = Place::At(present.transpose().map_err(unreadable)?);
        }
        let sequence = integer(entry, "sequence").filter(|sequence| self.visitor.wants(*sequence));
        let after = sequence.map(|_| turning.at.state());
        turning.pass(entry)?;
        if let Some((sequence, after)) = sequence.zip(after) {
            self.visitor.change(sequence, after, turning.at.state());
        }
        Ok(())
    }

    /// The document that was being rolled back is as it was at the moment.
    fn arrive(&mut self, budget: &Budget) -> Result<(), StoreError> {
        let Some(Turning { id, present, last, at }) = self.current.take() else { return Ok(()) };
        if matches!(at, Place::Ahead) && !self.is_last_look {
            self.unsettled.push(id);
            return Ok(());
        }
        self.visitor.arrive(id, Past { state: at.state(), last, present }, budget)
    }
}

impl Turning {
    /// Goes back to before this entry.
    fn pass(&mut self, entry: &RawDocument) -> Result<(), StoreError> {
        let changes = changes_of(entry)?;
        if is_unknown(changes) {
            // An entry has the type of its object too, which decides who may see it.
            self.last.get_or_insert_with(|| entry.to_owned());
            self.at = Place::Lost;
        } else if let Ok(Some(RawBsonRef::Document(deleted))) = changes.get("deleted") {
            self.last.get_or_insert_with(|| deleted.to_owned());
            self.at = Place::At(Some(Document::try_from(deleted).map_err(unreadable)?));
        } else if changes.get("created").ok().flatten().is_some() {
            if text(entry, "action") != Some(Action::Revert.name()) {
                // Before, the id was another's.
                self.last = None;
            }
            self.at = Place::At(None);
        } else if let Place::At(state) = &mut self.at {
            apply(state.as_mut().ok_or_else(|| unreadable("an entry"))?, changes).map_err(unreadable)?;
        }
        Ok(())
    }
}

/// What a question says of the ids of documents, and of the types of objects, as a condition on their entries. Plain
/// comparisons of whole parts of the question alone: they mean the same of an entry.
pub(super) fn of_entries(collection: &str, question: &Filter) -> Filter {
    let mut parts = Vec::new();
    let members = if collection == OBJECTS { &["public_id", "type_id"][..] } else { &["public_id"] };
    collect(question.document(), members, &mut parts);
    if parts.is_empty() { Filter::all() } else { Filter::ours(&doc! { "$and": parts }) }
}

fn collect(question: &Document, members: &[&str], parts: &mut Vec<Bson>) {
    let is_number = |value: &Bson| matches!(value, Bson::Int32(_) | Bson::Int64(_));
    for (name, value) in question {
        if name == "$and" {
            let all = value.as_array().into_iter().flatten().filter_map(Bson::as_document);
            all.for_each(|part| collect(part, members, parts));
        } else if members.contains(&name.as_str()) {
            let tests = match value {
                Bson::Document(tests) => tests.clone(),
                value => doc! { "$eq": value.clone() },
            };
            for (operator, value) in tests {
                let is_plain = match operator.as_str() {
                    "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte" => is_number(&value),
                    "$in" | "$nin" => value.as_array().is_some_and(|values| values.iter().all(is_number)),
                    _ => false,
                };
                if is_plain {
                    parts.push(bson!({ name: { operator: value } }));
                }
            }
        }
    }
}

/// The code of the error when too much has changed: MongoDB's for a question that needs too much memory.
pub(in crate::service) const TOO_MUCH: i32 = 292;

fn too_much() -> StoreError {
    let message = format!(
        "more than {MOST_ENTRIES} changes, or changes of one document of more than 64 MiB, have come since then; ask for a \
         later moment, for fewer ids, or for one type"
    );
    StoreError::Query { code: TOO_MUCH, message }
}

/// The entries of each document, the newest first.
pub(super) fn by_id(found: &Documents) -> BTreeMap<i64, Vec<&RawDocument>> {
    let mut entries: BTreeMap<i64, Vec<&RawDocument>> = BTreeMap::new();
    for entry in found.iter() {
        if let Some(id) = integer(entry, "public_id") {
            entries.entry(id).or_default().push(entry);
        }
    }
    for list in entries.values_mut() {
        list.sort_by_key(|entry| std::cmp::Reverse(integer(entry, "number")));
    }
    entries
}

/// Whether the state before the change is unknown.
pub(super) fn is_unknown(changes: &RawDocument) -> bool {
    changes.get("unknown").ok().flatten().is_some()
}

/// The `changes` of an entry.
pub(super) fn changes_of(entry: &RawDocument) -> Result<&RawDocument, StoreError> {
    entry.get_document("changes").map_err(unreadable)
}
