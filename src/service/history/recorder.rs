//! A store that adds entries of the history to the units of changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document};
use tokio::sync::watch;

use super::author::{self, CausedBy};
use super::clocks::Newest;
use super::feed::Feed;
use super::heads::{self, Key};
use super::kept::{last, newest_time};
use super::past::TOO_MUCH;
use super::rehearsal::rehearsed;
use super::resources::{RESOURCES, resource_of};
use crate::admission::Ticket;
use crate::clock::Clock;
use crate::domain::document::integer;
use crate::history::entry::{Action, After, Author, Cause, Changes, Draft, PendingEntry, Place, with_sequences};
use crate::history::patch::{Misfit, reverse};
use crate::query::Filter;
use crate::store::collections::{CLAIMS, INDEXED, LOGS, OBJECTS, SEARCH};
use crate::store::{Around, Change, Condition, FindQuery, Numbered, Store, StoreError, Unit};

/// How often a unit is tried again when another one added an entry of the same resource.
const ATTEMPTS: usize = 16;

/// The maximum number of documents that a change by filter may match. Use cases make larger changes in several units.
const MOST_MATCHED: u64 = 10_000;
/// The maximum number of bytes of these documents.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// The maximum number of objects deleted at once on a full disk. The room that the store reserves suffices for about this.
const MOST_UNKEPT: usize = 10;

/// How long deletions keep nothing after there was no room for one. To try each time would take the room that they make.
const CROWDED: Duration = Duration::from_mins(1);

/// The members with the time of a change. The state at such a time is the one after the change.
const STAMPS: [&str; 2] = ["last_edit_time", "creation_time"];

/// The maximum number of milliseconds between the time in a document and its entry. The document of an import may say
/// anything, and readers wait for missing sequences by the times of entries.
const LONGEST_STEP: i64 = 10_000;

/// The maximum number of reserved ids that are remembered until their documents are stored.
const MOST_FRESH: u32 = 10_000;

/// The members that activating an object changes.
const OF_ACTIVATION: [&str; 3] = ["active", "last_edit_time", "editor_id"];

/// Passes everything on to another store, and records changes of objects, types and categories.
pub struct Recorder {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    max_time: Duration,
    /// Moves when a unit with entries was stored.
    recorded: Arc<watch::Sender<u64>>,
    /// The last sequence of the store when this process last looked: entries of another store may have come without its
    /// counter.
    floor: Mutex<Option<i64>>,
    newest: Newest,
    /// Ids that were reserved for documents that are not stored yet. No id is given twice, so none has an entry.
    fresh: Mutex<HashSet<Key>>,
    /// When there was no room for a deletion that keeps what it deletes.
    crowded: Mutex<Option<Instant>>,
}

/// What entries keep of documents that are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// All of them.
    Documents,
    /// Resource and id alone: on a full disk, a deletion that keeps the document makes no room.
    Names,
}

/// The entries of a unit.
#[derive(Default)]
struct Entries {
    /// Their insertions.
    changes: Vec<Change>,
    /// The newest of their times.
    newest: Option<DateTime>,
    /// The time of the clock, if it was set back since the newest entry; the changes note that.
    set_back: Option<DateTime>,
}

/// A change of one document with a history.
struct Recorded<'a> {
    key: Key,
    before: Option<&'a RawDocument>,
    after: Option<&'a RawDocument>,
}

impl Recorder {
    /// The store, with entries for changes, and the feed of its entries. `max_time` is the time budget of a query.
    pub fn around(inner: Arc<dyn Store>, clock: Arc<dyn Clock>, max_time: Duration) -> (Arc<dyn Store>, Arc<Feed>) {
        let recorded = Arc::new(watch::Sender::new(0));
        let feed = Feed::new(Arc::clone(&inner), Arc::clone(&recorded), max_time);
        let (floor, newest) = (Mutex::default(), Newest::default());
        let (fresh, crowded) = (Mutex::default(), Mutex::default());
        (Arc::new(Self { inner, clock, max_time, recorded, floor, newest, fresh, crowded }), feed)
    }

    async fn record(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        let (unit, asked) = self.expanded(unit).await?;
        let author = author::current();
        let begun = if self.is_crowded() && removes_few(&unit) { Kept::Names } else { Kept::Documents };
        let mut kept = begun;
        let fresh = self.take_fresh(&unit);
        for _ in 0..ATTEMPTS {
            let mut recorded = unit.clone();
            let Entries { changes, newest, set_back } = self.entries(&unit, &fresh, &author, kept).await?;
            if author::notes_others() {
                if changes.is_empty() {
                    return Ok(Vec::new());
                }
                // The documents are gone already. The others are compared, and stay as they are.
                recorded.changes.retain(|change| !matches!(change, Change::Delete { .. }));
            }
            recorded.changes.extend(changes);
            match self.inner.commit(recorded).await {
                Err(StoreError::NoRoom { .. }) if kept == Kept::Documents && removes_few(&unit) => {
                    kept = Kept::Names;
                }
                Err(StoreError::Duplicate { collection, key }) if collection == LOGS => {
                    if key == "sequence" {
                        *self.floor.lock().unwrap_or_else(PoisonError::into_inner) = None;
                        continue;
                    }
                    let known = heads::of(&*self.inner, &fresh, self.max_time).await?;
                    let of_known = RESOURCES.iter().find(|(_, kind)| known.keys().any(|key| key.0 == *kind));
                    if let Some((of, _)) = of_known {
                        // A document was stored under a reserved id, and removed again.
                        return Err(StoreError::Duplicate {
                            collection: (*of).to_owned(),
                            key: "public_id".to_owned(),
                        });
                    }
                }
                Err(StoreError::Condition { index }) if index >= asked.conditions => return Err(StoreError::Stale),
                outcome => {
                    let counts = outcome?;
                    self.recorded.send_modify(|count| *count += 1);
                    if let Some(now) = set_back {
                        self.newest.set_back(now);
                    }
                    if let Some(time) = newest {
                        self.newest.note(time);
                    }
                    if kept != begun {
                        self.note_crowded();
                    }
                    if kept == Kept::Names {
                        author::note_unkept();
                    }
                    return Ok(asked.counts(&counts));
                }
            }
        }
        Err(StoreError::Stale)
    }

    /// What the unit stores under ids that were just reserved.
    fn take_fresh(&self, unit: &Unit) -> BTreeSet<Key> {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = unit.changes.iter().filter_map(|change| match change {
            Change::Insert { collection, document } => {
                Some((resource_of(collection)?, integer(document, "public_id")?))
            }
            _ => None,
        });
        stored.filter(|key| fresh.remove(key)).collect()
    }

    fn note_crowded(&self) {
        log::warn!("no room: what is deleted in the next minute is not kept, and cannot be restored");
        *self.crowded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_crowded(&self) -> bool {
        let crowded = self.crowded.lock().unwrap_or_else(PoisonError::into_inner);
        crowded.is_some_and(|since| since.elapsed() < CROWDED)
    }

    /// The sequences of new entries are larger than this one.
    async fn floor(&self) -> Result<i64, StoreError> {
        let known = *self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(floor) = known {
            return Ok(floor);
        }
        // The entries of other instances have the time of other clocks, and whose is right is not known.
        if !self.inner.is_remote() {
            let newest = Ticket::default().scope(newest_time(&*self.inner, self.max_time)).await?;
            if let Some(time) = newest {
                self.newest.note(time);
            }
        }
        // Everybody waits for it, so it is not the work of the caller.
        let floor = Ticket::default().scope(last(&*self.inner, self.max_time)).await?;
        *self.floor.lock().unwrap_or_else(PoisonError::into_inner) = Some(floor);
        Ok(floor)
    }

    /// The entries of the unit's changes; nothing if nothing changes.
    async fn entries(
        &self,
        unit: &Unit,
        fresh: &BTreeSet<Key>,
        author: &Author,
        kept: Kept,
    ) -> Result<Entries, StoreError> {
        let changes: Vec<Recorded<'_>> = unit.changes.iter().filter_map(Recorded::of).collect();
        let keys: BTreeSet<Key> = changes.iter().map(|change| change.key).filter(|key| !fresh.contains(key)).collect();
        let heads = heads::of(&*self.inner, &keys, self.max_time).await?;
        let mut drafts: Vec<(Draft<'_>, Option<DateTime>)> = Vec::with_capacity(changes.len());
        let nobody = Author::default();
        let mut states: HashMap<Key, Option<[u8; 16]>> = heads.iter().map(|(key, head)| (*key, head.state)).collect();
        let notes_others = author::notes_others();
        for change in &changes {
            let after = After::of(change.after);
            // Of others' changes only the outcome is known. Without an entry nothing is known before a change of this service.
            let before = if notes_others { after } else { After::of(change.before) };
            if states.get(&change.key).map_or(notes_others, |known| *known != before.state) {
                drafts.push((change.draft(Action::Outside, &nobody, Changes::Unknown, before), None));
            }
            if notes_others {
                continue;
            }
            drafts.extend(change.drafted(author, kept, after)?.map(|draft| (draft, change.stamp())));
            states.insert(change.key, after.state);
        }
        if drafts.is_empty() {
            return Ok(Entries::default());
        }
        let now = DateTime::from_chrono(self.clock.now());
        let floor = self.floor().await?;
        let note = self.newest.note_of(now, floor);
        let set_back = note.is_some().then_some(now);
        let mut places: HashMap<Key, Place> = heads.into_iter().map(|(key, head)| (key, head.into())).collect();
        let mut entries: Vec<PendingEntry> = Vec::with_capacity(drafts.len());
        let mut newest = None;
        let cause = cause_of(&drafts);
        for (mut draft, stamp) in drafts {
            draft.cause = cause.filter(|_| draft.resource == "objects" && draft.action != Action::Outside);
            let key = (draft.resource, draft.public_id);
            let age = |stamp: &DateTime| now.timestamp_millis() - stamp.timestamp_millis();
            let time = stamp.filter(|stamp| (0..=LONGEST_STEP).contains(&age(stamp))).unwrap_or(now);
            let last = places.get(&key).map(|last| match last.time() {
                ahead if self.newest.is_ahead(ahead, now) => last.made_before(time),
                _ => *last,
            });
            let entry = draft.pending(last.as_ref(), time);
            places.insert(key, entry.place(entries.len()));
            entries.push(entry);
            newest = newest.max(Some(time));
        }
        let count = u32::try_from(entries.len()).map_err(|_| StoreError::backend("too many changes in one unit"))?;
        let bytes = entries.iter().map(PendingEntry::bytes).sum();
        let documents = Arc::new(move |first| with_sequences(&entries, first));
        let entries = Change::Append(Numbered { collection: LOGS, floor, count, bytes, documents });
        Ok(Entries { changes: note.into_iter().chain([entries]).collect(), newest, set_back })
    }

    /// The unit with a change for each document. Documents that come to match meanwhile make it [`StoreError::Stale`].
    async fn expanded(&self, unit: Unit) -> Result<(Unit, Asked), StoreError> {
        let mut asked = Asked { conditions: unit.conditions.len(), parts: Vec::with_capacity(unit.changes.len()) };
        let (mut conditions, mut changes) = (unit.conditions, Vec::with_capacity(unit.changes.len()));
        for change in unit.changes {
            let (collection, filter) = match &change {
                Change::DeleteMany { collection, filter } | Change::UpdateMany { collection, filter, .. }
                    if resource_of(collection).is_some() =>
                {
                    (*collection, filter.clone())
                }
                _ => {
                    asked.parts.push(None);
                    changes.push(change);
                    continue;
                }
            };
            let found = FindQuery::new(filter.clone(), self.max_time).limited(MOST_MATCHED + 1);
            let found = match self.inner.find(collection, &found.within(MOST_BYTES)).await {
                Ok(found) if found.len() as u64 > MOST_MATCHED => return Err(too_much()),
                Err(StoreError::TooLarge) => return Err(too_much()),
                found => found?,
            };
            let mut ids: Vec<Bson> = Vec::with_capacity(found.len());
            let begun = changes.len();
            for before in found.iter() {
                let before = before.to_owned();
                let document = decoded(collection, &before)?;
                ids.extend(document.get("_id").cloned());
                match &change {
                    Change::UpdateMany { update, .. } => {
                        let mut after = document;
                        if update.apply(&mut after) {
                            changes.push(Change::Replace { collection, before, after: encoded(collection, &after)? });
                        }
                    }
                    _ => changes.push(Change::Delete { collection, before }),
                }
            }
            asked.parts.push(Some((changes.len() - begun, found.len() as u64)));
            let others = filter.and(Filter::none_of("_id", ids));
            conditions.push(Condition::None { collection, filter: others });
        }
        Ok((Unit { conditions, changes }, asked))
    }
}

/// Whether it removes a few objects, with their claims and words, and does nothing else. Access lists of deleted types are read from their
/// entries, so those stay whole. More objects at once can lack room on a disk that is not full, and their past must not be lost for that.
fn removes_few(unit: &Unit) -> bool {
    let removes = |of: &str| {
        let is_such = |change: &&Change| matches!(change, Change::Delete { collection, .. } if *collection == of);
        unit.changes.iter().filter(is_such).count()
    };
    let objects = removes(OBJECTS);
    objects <= MOST_UNKEPT
        && objects + [CLAIMS, SEARCH, INDEXED].map(removes).iter().sum::<usize>() == unit.changes.len()
}

fn too_much() -> StoreError {
    let message = format!("it changes more than {MOST_MATCHED} documents, or more than 32 MiB of them, in one step");
    StoreError::Query { code: TOO_MUCH, message }
}

fn decoded(collection: &str, document: &RawDocument) -> Result<Document, StoreError> {
    Document::try_from(document)
        .map_err(|error| StoreError::Corrupt { what: format!("a document of {collection}: {error}") })
}

fn encoded(collection: &str, document: &Document) -> Result<RawDocumentBuf, StoreError> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| StoreError::Corrupt { what: format!("a document of {collection}: {error}") })
}

/// What the caller's unit had: the counts of the recorded unit are brought back to its changes.
struct Asked {
    conditions: usize,
    /// For each change: nothing if it stayed one; else how many took its place, and how many documents it matched.
    parts: Vec<Option<(usize, u64)>>,
}

impl Asked {
    fn counts(&self, counts: &[u64]) -> Vec<u64> {
        let mut rest = counts.iter().copied();
        let count = |part: &Option<(usize, u64)>| match part {
            None => rest.next().unwrap_or_default(),
            Some((changes, matched)) => {
                rest.by_ref().take(*changes).for_each(drop);
                *matched
            }
        };
        self.parts.iter().map(count).collect()
    }
}

impl<'a> Recorded<'a> {
    fn of(change: &'a Change) -> Option<Self> {
        let (collection, before, after) = match change {
            Change::Insert { collection, document } => (collection, None, Some(&**document)),
            Change::Replace { collection, before, after } => (collection, Some(&**before), Some(&**after)),
            Change::Delete { collection, before } => (collection, Some(&**before), None),
            Change::DeleteMany { .. } | Change::UpdateMany { .. } | Change::Append(_) => return None,
        };
        let public_id = integer(after.or(before)?, "public_id")?;
        Some(Self { key: (resource_of(collection)?, public_id), before, after })
    }

    /// When the change was made, as the document says; nothing where that did not change.
    fn stamp(&self) -> Option<DateTime> {
        let stamps = |document: Option<&RawDocument>| {
            STAMPS.map(|name| document.and_then(|document| document.get_datetime(name).ok()))
        };
        let (before, after) = (stamps(self.before), stamps(self.after));
        after.into_iter().zip(before).find_map(|(after, before)| after.filter(|after| Some(*after) != before))
    }

    fn draft<'d>(&self, action: Action, author: &'d Author, changes: Changes, after: After<'d>) -> Draft<'d> {
        let (resource, public_id) = self.key;
        let shape = self.after.or(self.before).filter(|_| resource == "objects");
        let type_id = shape.and_then(|object| integer(object, "type_id"));
        Draft { resource, public_id, type_id, action, author, cause: None, changes, after }
    }

    /// The entry of the change itself; none if nothing changes.
    fn drafted<'d>(&self, author: &'d Author, kept: Kept, after: After<'d>) -> Result<Option<Draft<'d>>, StoreError>
    where
        'a: 'd,
    {
        let (usual, changes) = match (self.before, self.after) {
            (None, _) => (Action::Create, Changes::Created),
            (Some(_), None) if kept == Kept::Names => (Action::Delete, Changes::Unknown),
            (Some(before), None) => (Action::Delete, Changes::Deleted(decoded(self.key.0, before)?)),
            (Some(before), Some(after)) => {
                match reverse(before, after) {
                    Ok(None) => return Ok(None),
                    Ok(Some(patch)) => (usual_action(&patch), Changes::Patched(patch)),
                    // Another tool stored two members of one name, and no patch can restore that.
                    Err(Misfit) => (Action::Edit, Changes::Unknown),
                }
            }
        };
        let action = author::action().filter(|_| usual != Action::Delete).unwrap_or(usual);
        Ok(Some(self.draft(action, author, changes, after)))
    }
}

/// The entry of the type that changes of objects in the same unit follow from, if they follow from one.
fn cause_of(drafts: &[(Draft<'_>, Option<DateTime>)]) -> Option<Cause> {
    if let CausedBy::Entry(sequence) = author::cause()? {
        return Some(Cause::Stored(sequence));
    }
    let is_it = |(draft, _): &(Draft<'_>, _)| draft.resource == "types" && draft.action != Action::Outside;
    drafts.iter().position(is_it).map(Cause::Unit)
}

/// The kind of a change for which no kind was given.
fn usual_action(patch: &Document) -> Action {
    let was = patch.get_document("was").ok();
    let activates = was.is_some_and(|was| {
        was.contains_key("/active")
            && was.keys().all(|place| place.strip_prefix('/').is_some_and(|name| OF_ACTIVATION.contains(&name)))
    });
    if activates && !patch.contains_key("parts") { Action::ActiveChange } else { Action::Edit }
}

#[async_trait]
impl Around for Recorder {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn commit_around(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        let is_recorded = |change: &Change| resource_of(change.collection()).is_some();
        if author::is_rehearsal() {
            rehearsed(&*self.inner, &unit, self.max_time).await?;
            return Ok(vec![1; unit.changes.len()]);
        }
        if unit.changes.iter().any(is_recorded) { self.record(unit).await } else { self.inner.commit(unit).await }
    }

    fn note_reserved(&self, collection: &str, first: i64, count: u32) {
        let Some(kind) = resource_of(collection).filter(|_| count <= MOST_FRESH) else { return };
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if fresh.len() >= MOST_FRESH as usize {
            fresh.clear();
        }
        fresh.extend((first..).take(count as usize).map(|id| (kind, id)));
    }
}
