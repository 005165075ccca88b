//! The fields whose values may show in entries and events: those that were no passwords then, and are none today.
//!
//! What a type was then is today's type, rolled back by its entries since. They are read for those types alone that have
//! changed after the oldest entry to be shown, once for a page or for all chunks of an answer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::Document;
use bson::raw::RawDocument;

use super::former::FormerTypes;
use super::heads::of_kind;
use super::past::{MOST_ENTRIES, Moment, by_id, changes_of, is_unknown};
use super::resources::unreadable;
use crate::admission;
use crate::domain::document::{integer, raw, text};
use crate::domain::object_type::ObjectType;
use crate::history::entry::{Action, Head, state_of};
use crate::history::patch::apply;
use crate::query::Filter;
use crate::service::types::catalog::{TypeEntry, Types};
use crate::store::collections::LOGS;
use crate::store::{Documents, FindQuery, Store, StoreError};

/// The maximum number of entries that are rolled back where they are read. More are work in a turn.
const FEW: usize = 16;
/// Entries of types that have more bytes together are not rolled back.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Determines for entries of objects which values may show.
pub(super) struct PlainFields {
    store: Arc<dyn Store>,
    max_time: Duration,
    types: Arc<Types>,
    former: Arc<FormerTypes>,
    /// What types were, with the sequence since when this is known. All others have not changed since.
    pasts: Mutex<HashMap<i64, (i64, Arc<TypePast>)>>,
}

impl PlainFields {
    pub(super) fn new(
        store: Arc<dyn Store>,
        max_time: Duration,
        (types, former): (Arc<Types>, Arc<FormerTypes>),
    ) -> Self {
        Self { store, max_time, types, former, pasts: Mutex::default() }
    }

    /// Reads what [`PlainFields::at`] needs for these entries; with `all` for every entry of the same types too.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn prepare<'e>(
        &self,
        entries: impl Iterator<Item = &'e RawDocument>,
        all: bool,
    ) -> Result<(), StoreError> {
        let mut oldest: BTreeMap<i64, i64> = BTreeMap::new();
        for entry in entries.filter(|entry| text(entry, "resource") == Some("objects")) {
            let (type_id, sequence) = place_of(entry);
            oldest.entry(type_id).and_modify(|known| *known = sequence.min(*known)).or_insert(sequence);
        }
        oldest.retain(|type_id, sequence| self.may_differ(*type_id, *sequence));
        let Some(since) = oldest.values().min().map(|sequence| if all { 0 } else { *sequence }) else { return Ok(()) };
        let ids: Vec<i64> = oldest.into_keys().collect();
        let pasts = match self.changes_since(since, &ids).await? {
            Some(found) => {
                let types = Arc::clone(&self.types);
                if found.len() <= FEW {
                    turned_back(&types, &ids, &found)?
                } else {
                    admission::work(move |_| turned_back(&types, &ids, &found)).await??
                }
            }
            // Too many to roll back. What the type was before its last change stays unknown.
            None => ids.into_iter().map(|id| (id, self.unknown(id))).collect(),
        };
        let mut known = self.pasts.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(pasts.into_iter().map(|(id, past)| (id, (since, Arc::new(past)))));
        Ok(())
    }

    /// The fields whose values may show in an entry of an object. A former type has none, whatever type has its id now.
    pub(super) fn at(&self, entry: &RawDocument) -> HashSet<&str> {
        let (type_id, sequence) = place_of(entry);
        let is_former = self.former.has(type_id, Moment::Sequence(sequence));
        let Some(today) = self.types.get(type_id).filter(|_| !is_former) else { return HashSet::new() };
        let past = self.pasts.lock().unwrap_or_else(PoisonError::into_inner).get(&type_id).cloned();
        let showed = |name: &&str| past.as_ref().is_none_or(|(_, past)| past.showed(name, sequence));
        today.object_type.plain_fields().filter(showed).collect()
    }

    /// Whether the type may have been another one at the entry with this sequence, and this is not known yet.
    fn may_differ(&self, type_id: i64, sequence: i64) -> bool {
        let Some(today) = self.types.get(type_id) else { return false };
        let known = self.pasts.lock().unwrap_or_else(PoisonError::into_inner).get(&type_id).map(|(since, _)| *since);
        if known.is_some_and(|since| since <= sequence) {
            return false;
        }
        // The types may have been read later than what is known of their entries.
        self.former
            .newest(type_id)
            .is_some_and(|(last, state)| last > sequence || state != Some(state_of(&today.document)))
    }

    /// The entries of these types after a sequence; nothing if they are too many.
    async fn changes_since(&self, since: i64, ids: &[i64]) -> Result<Option<Documents>, StoreError> {
        let ids = Filter::one_of("public_id", ids.iter().copied());
        let filter = of_kind("types").and(Moment::Sequence(since).later()).and(ids);
        let mut query = FindQuery::new(filter, self.max_time).limited(MOST_ENTRIES + 1);
        query.max_bytes = MOST_BYTES;
        match self.store.find(LOGS, &query).await {
            Ok(found) if found.len() as u64 > MOST_ENTRIES => Ok(None),
            Err(StoreError::TooLarge) => Ok(None),
            found => found.map(Some),
        }
    }

    fn unknown(&self, type_id: i64) -> TypePast {
        TypePast {
            unknown_before: self.former.newest(type_id).map_or(i64::MAX, |(last, _)| last),
            turns: HashMap::new(),
        }
    }
}

/// The type and the sequence of an entry of an object.
fn place_of(entry: &RawDocument) -> (i64, i64) {
    (integer(entry, "type_id").unwrap_or_default(), integer(entry, "sequence").unwrap_or_default())
}

fn turned_back(types: &Types, ids: &[i64], found: &Documents) -> Result<Vec<(i64, TypePast)>, StoreError> {
    let entries = by_id(found);
    let of = |id: &i64| Some((*id, types.get(*id)?, entries.get(id).map_or(&[][..], Vec::as_slice)));
    ids.iter().filter_map(of).map(|(id, today, entries)| Ok((id, TypePast::of(today, entries)?))).collect()
}

/// What a type was, as far as its fields of today may show.
#[derive(Debug)]
struct TypePast {
    /// What it was before the entry with this sequence is not known.
    unknown_before: i64,
    /// By field: whether it showed before the entry with a sequence, the latest first.
    turns: HashMap<String, Vec<(i64, bool)>>,
}

impl TypePast {
    /// That of the type by its entries, the newest first.
    fn of(today: &TypeEntry, entries: &[&RawDocument]) -> Result<Self, StoreError> {
        let mut past = Self { unknown_before: i64::MIN, turns: HashMap::new() };
        let Some(last) = entries.first() else { return Ok(past) };
        let state = Some(state_of(&today.document));
        // The entry that left the type as it was read; later ones do not concern it.
        let Some(newest) = entries.iter().position(|entry| Head::of(entry).is_some_and(|head| head.state == state))
        else {
            past.unknown_before = sequence_of(last);
            return Ok(past);
        };
        let mut showed: Vec<(&str, bool)> = today.object_type.plain_fields().map(|name| (name, true)).collect();
        let mut document = Some(Document::try_from(&*today.document).map_err(unreadable)?);
        for entry in &entries[newest..] {
            let sequence = sequence_of(entry);
            let Ok(moved) = step_back(&mut document, entry) else {
                past.unknown_before = sequence;
                break;
            };
            if !moved {
                continue;
            }
            let then = document.as_ref().and_then(|document| ObjectType::from_document(&raw(document)).ok());
            let plain: HashSet<&str> = then.iter().flat_map(ObjectType::plain_fields).collect();
            for (name, showed) in showed.iter_mut().filter(|(name, showed)| *showed != plain.contains(name)) {
                *showed = !*showed;
                past.turns.entry((*name).to_owned()).or_default().push((sequence, *showed));
            }
        }
        Ok(past)
    }

    /// Whether the type had the field, and not as a password, at the entry with this sequence.
    fn showed(&self, name: &str, sequence: i64) -> bool {
        let turns = self.turns.get(name).map_or(&[][..], Vec::as_slice);
        let last = turns.iter().take_while(|(before, _)| sequence < *before).last();
        sequence >= self.unknown_before && last.is_none_or(|(_, showed)| *showed)
    }
}

fn sequence_of(entry: &RawDocument) -> i64 {
    integer(entry, "sequence").unwrap_or(i64::MAX)
}

/// What the type was before an entry is unknown.
struct Unknown;

/// Turns the type back by one of its entries; false if its fields stay.
fn step_back(document: &mut Option<Document>, entry: &RawDocument) -> Result<bool, Unknown> {
    let changes = changes_of(entry).map_err(|_| Unknown)?;
    let has = |name: &str| changes.get(name).ok().flatten();
    if is_unknown(changes) {
        return Err(Unknown);
    }
    if let Some(deleted) = has("deleted") {
        let deleted = deleted.as_document().ok_or(Unknown)?;
        *document = Some(Document::try_from(deleted).map_err(|_| Unknown)?);
        return Ok(true);
    }
    if has("created").is_some() {
        // Before, the id was another's, unless the type came back.
        *document = None;
        return if text(entry, "action") == Some(Action::Revert.name()) { Ok(true) } else { Err(Unknown) };
    }
    apply(document.as_mut().ok_or(Unknown)?, changes).map_err(|_| Unknown)?;
    Ok(concerns_fields(changes))
}

/// Whether a patch may change the fields of a type.
fn concerns_fields(changes: &RawDocument) -> bool {
    let was = changes.get_document("was").into_iter().flatten().flatten();
    let mut places = was.map(|(place, _)| place.as_str());
    if places.any(|place| place.starts_with("/fields")) {
        return true;
    }
    let parts = changes.get_array("parts").into_iter().flatten().flatten();
    let mut places = parts.map(|part| part.as_document().and_then(|part| text(part, "at")));
    places.any(|place| place.is_none_or(|place| place.is_empty() || place.starts_with("/fields")))
}
