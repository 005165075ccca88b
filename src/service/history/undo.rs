//! Undo of a request: everything that one request changed becomes what it was before, as one unit where the store can.
//! docs/api.md, Undo of a request.
//!
//! 1. The entries of the request say what it changed: which resources, and from which of their entries to which.
//! 2. Each resource is rolled back from its present state by its entries. Another entry since, or a change without an entry,
//!    is a conflict; a resource that is as it was already needs nothing.
//! 3. If nothing conflicts, the past states are stored as new versions. What the request created is deleted.
//!
//! Resources are read a few hundred at a time. More than one unit can hold are stored in groups: what others need comes first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use super::author::{as_action, commented};
use super::entries::visible;
use super::heads::of_kind;
use super::past::{by_id, changes_of, is_unknown};
use super::resources::unreadable;
use crate::admission;
use crate::domain::acl::Permission;
use crate::domain::document::{integer, only, text};
use crate::domain::object_input::{self, ObjectInput};
use crate::history::entry::{Action, state_in, state_of};
use crate::history::patch::apply;
use crate::query::Filter;
use crate::service::accounts::directory::Caller;
use crate::service::error::{ChangedSince, Conflict, ServiceError};
use crate::service::error_code::ErrorCode;
use crate::service::objects::bulk::GROUP_BYTES;
use crate::service::objects::references::{changeable, removable};
use crate::service::resource::{self, Categories, Objects, Resource, Types};
use crate::service::services::Services;
use crate::service::types::catalog::{self, TypeEntry};
use crate::service::types::{self, categories};
use crate::store::collections::LOGS;
use crate::store::{Change, Condition, Documents, FindQuery, StoreError, Unit};

/// More entries are not undone by one request.
const MOST_ENTRIES: u64 = 50_000;
/// How many resources are read at a time.
const AT_ONCE: usize = 500;
/// The largest unit: changes, and bytes of their documents. More is stored in groups.
const MOST_CHANGES: usize = 10_000;
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// What was done to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// `objects`, `types` or `categories`.
    pub resource: &'static str,
    /// Its id.
    pub public_id: i64,
    /// `reverted`, `restored` or `deleted`.
    pub action: &'static str,
}

/// What an undo did.
#[derive(Debug, Default)]
pub struct Undone {
    /// What it changed, in the order in which it was stored.
    pub done: Vec<Done>,
    /// How many resources were as they were before the request.
    pub unchanged: u64,
    /// In how many units it was stored.
    pub units: u64,
}

/// The kinds of resources, in the order in which they need each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Types,
    Categories,
    Objects,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Types, Self::Categories, Self::Objects];

    const fn name(self) -> &'static str {
        ["types", "categories", "objects"][self as usize]
    }

    const fn collection(self) -> &'static str {
        [Types::COLLECTION, Categories::COLLECTION, Objects::COLLECTION][self as usize]
    }

    /// The right to do this to one of them.
    fn right(self, way: Way) -> String {
        let singular = ["type", "category", "object"][self as usize];
        format!("base.framework.{singular}.{}", ["edit", "add", "delete"][way as usize])
    }
}

/// What an undo does with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Revert,
    Restore,
    Delete,
}

impl Way {
    const fn name(self) -> &'static str {
        ["reverted", "restored", "deleted"][self as usize]
    }
}

/// What a request did to a resource.
#[derive(Debug, Clone, Copy)]
struct Span {
    kind: Kind,
    id: i64,
    /// The numbers of its first and last entry by the request, and how many there are.
    numbers: (i64, i64),
    count: i64,
    was_there: bool,
    is_there: bool,
    type_id: Option<i64>,
}

impl Span {
    fn way(&self) -> Way {
        match (self.was_there, self.is_there) {
            (true, true) => Way::Revert,
            (true, false) => Way::Restore,
            (false, _) => Way::Delete,
        }
    }

    /// What others need comes first, and what needs others goes first.
    fn order(&self) -> (bool, i8, i64) {
        let kind = self.kind as i8;
        let deletes = self.way() == Way::Delete;
        (deletes, if deletes { -kind } else { kind }, self.id)
    }
}

/// What is taken back.
#[derive(Debug, Clone, Copy)]
enum Own<'a> {
    /// What this request changed.
    Request(&'a str),
    /// What followed for the objects of this type from changes of it, by the sequences of their entries.
    Causes(i64, &'a [i64]),
}

impl Own<'_> {
    /// Whether an entry is one of it.
    fn has(self, entry: &RawDocument) -> bool {
        match self {
            Self::Request(id) => text(entry, "request_id") == Some(id),
            Self::Causes(_, causes) => integer(entry, "cause").is_some_and(|cause| causes.contains(&cause)),
        }
    }

    /// The entries of it.
    fn entries(self) -> Filter {
        Filter::ours(&match self {
            Self::Request(id) => doc! { "request_id": id, "resource": { "$exists": true } },
            Self::Causes(type_id, causes) => {
                doc! { "cause": { "$exists": true, "$in": causes }, "resource": "objects", "type_id": type_id }
            }
        })
    }
}

/// What the whole undo brings back, for the checks of its parts.
struct Scope<'a> {
    own: Own<'a>,
    /// Types as they come back.
    types: HashMap<i64, Arc<TypeEntry>>,
    categories: HashSet<i64>,
    /// Objects that go.
    deleted: Vec<i64>,
    /// Categories that the undo changes.
    changed_categories: Vec<i64>,
}

/// A part of an undo.
#[derive(Default)]
struct Part {
    unit: Unit,
    bytes: usize,
    done: Vec<Done>,
    unchanged: u64,
    conflicts: Vec<Conflict>,
}

/// A resource on its way back.
struct Turned {
    span: Span,
    past: Option<Document>,
    present: Option<RawDocumentBuf>,
}

/// Makes everything that a request changed what it was before; with `dry_run` it only says what that would be. What the caller
/// may not read is not a part of it.
///
/// # Errors
/// [`ErrorCode::RequestNotFound`] where the request changed nothing that the caller may read. [`ServiceError::ChangedSince`] with
/// what was changed since. A missing right or permission, and errors of the store.
pub async fn undo(
    services: &Services,
    caller: &Caller,
    request_id: &str,
    dry_run: bool,
) -> Result<Undone, ServiceError> {
    let work = async {
        for _ in 0..resource::ATTEMPTS {
            if let Some(undone) = attempt(services, caller, request_id, dry_run).await? {
                return Ok(undone);
            }
        }
        Err(ServiceError::Contended("what the request changed".to_owned()))
    };
    Box::pin(as_action(Action::Revert, commented(format!("undo of {request_id}"), work))).await
}

/// The changes that take back what changes of a type did to its objects. `after` is the type as it comes back with them.
///
/// # Errors
/// As [`undo`]. [`ErrorCode::TooManyObjects`] where one unit cannot hold them.
pub(super) async fn of_changes_of_type(
    services: &Services,
    caller: &Caller,
    (id, causes): (i64, &[i64]),
    after: &RawDocument,
) -> Result<Unit, ServiceError> {
    let own = Own::Causes(id, causes);
    let spans = spans(services, caller, own).await?;
    permitted(caller, &spans)?;
    let entry = catalog::compiled(after).map_err(unreadable)?;
    let mut scope = Scope {
        own,
        types: HashMap::from([(id, entry)]),
        categories: HashSet::new(),
        deleted: Vec::new(),
        changed_categories: Vec::new(),
    };
    let mut whole = Part::default();
    for batch in batches(&spans) {
        let part = prepared(services, caller, &mut scope, batch).await?;
        whole.conflicts.extend(part.conflicts);
        whole.bytes += part.bytes;
        admission::current().hold(part.bytes)?;
        whole.include(part.unit);
        if whole.unit.changes.len() > services.store.largest_unit().min(MOST_CHANGES) || whole.bytes > MOST_BYTES {
            let message = "one revert cannot take back all objects that the changes of the type changed; undo the requests \
                           that made them: POST /rest/logs/undo";
            return Err(ServiceError::refused(ErrorCode::TooManyObjects, message));
        }
    }
    if whole.conflicts.is_empty() {
        return Ok(whole.unit);
    }
    Err(ServiceError::ChangedSince(ChangedSince::of(whole.conflicts)))
}

/// Nothing if others were faster.
async fn attempt(
    services: &Services,
    caller: &Caller,
    request_id: &str,
    dry_run: bool,
) -> Result<Option<Undone>, ServiceError> {
    let mut spans = spans(services, caller, Own::Request(request_id)).await?;
    if spans.is_empty() {
        return Err(ServiceError::not_found(ErrorCode::RequestNotFound, request_id));
    }
    permitted(caller, &spans)?;
    spans.sort_by_key(Span::order);
    let of = |kind: Kind, way: Way| spans.iter().filter(move |it| it.kind == kind && it.way() == way).map(|it| it.id);
    let mut scope = Scope {
        own: Own::Request(request_id),
        types: HashMap::new(),
        categories: of(Kind::Categories, Way::Restore).collect(),
        deleted: of(Kind::Objects, Way::Delete).collect(),
        changed_categories: spans.iter().filter(|span| span.kind == Kind::Categories).map(|span| span.id).collect(),
    };
    let largest = services.store.largest_unit().min(MOST_CHANGES);
    let (mut whole, mut is_one_unit) = (Part::default(), true);
    for batch in batches(&spans) {
        let part = prepared(services, caller, &mut scope, batch).await?;
        whole.done.extend(part.done);
        whole.unchanged += part.unchanged;
        whole.conflicts.extend(part.conflicts);
        whole.bytes += part.bytes;
        if is_one_unit {
            admission::current().hold(part.bytes)?;
            whole.include(part.unit);
        }
        if whole.unit.changes.len() > largest || whole.bytes > MOST_BYTES {
            (is_one_unit, whole.unit) = (false, Unit::default());
        }
    }
    if !whole.conflicts.is_empty() {
        return Err(ServiceError::ChangedSince(ChangedSince::of(whole.conflicts)));
    }
    let units = u64::from(!whole.done.is_empty());
    let undone = Undone { done: whole.done, unchanged: whole.unchanged, units };
    if dry_run || undone.done.is_empty() {
        return Ok(Some(Undone { units: 0, ..undone }));
    }
    if !is_one_unit {
        let units = in_groups(services, caller, &mut scope, &spans).await?;
        return Ok(Some(Undone { units, ..undone }));
    }
    Ok(committed(services, whole.unit).await?.then_some(undone))
}

/// Spans of one kind and way, a few hundred at a time.
fn batches(spans: &[Span]) -> impl Iterator<Item = &[Span]> {
    let alike = |one: &Span, other: &Span| one.kind == other.kind && one.way() == other.way();
    spans.chunk_by(alike).flat_map(|spans| spans.chunks(AT_ONCE))
}

/// Stores a unit; false if others were faster.
async fn committed(services: &Services, unit: Unit) -> Result<bool, ServiceError> {
    match services.store.commit(unit).await {
        Ok(_) => Ok(true),
        Err(StoreError::Stale | StoreError::Condition { .. }) => Ok(false),
        Err(StoreError::Duplicate { key, .. }) if key == "public_id" => Ok(false),
        Err(StoreError::Duplicate { collection, key }) => Err(match collection.as_str() {
            Types::COLLECTION => resource::taken::<Types>(&key),
            Categories::COLLECTION => resource::taken::<Categories>(&key),
            _ => resource::taken::<Objects>(&key),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Stores the parts in units of their own. Nothing conflicted a moment before.
async fn in_groups(
    services: &Services,
    caller: &Caller,
    scope: &mut Scope<'_>,
    spans: &[Span],
) -> Result<u64, ServiceError> {
    let mut rest: Vec<&[Span]> = batches(spans).collect();
    rest.reverse();
    let (mut units, mut attempts, mut done) = (0, 0, 0);
    while let Some(batch) = rest.pop() {
        let part = prepared(services, caller, scope, batch).await?;
        if part.bytes > GROUP_BYTES && batch.len() > 1 {
            let (first, second) = batch.split_at(batch.len() / 2);
            rest.extend([second, first]);
            continue;
        }
        let is_stored = part.conflicts.is_empty() && (part.done.is_empty() || committed(services, part.unit).await?);
        if is_stored {
            units += u64::from(!part.done.is_empty());
            (done, attempts) = (done + part.done.len(), 0);
        } else if attempts < resource::ATTEMPTS {
            attempts += 1;
            rest.push(batch);
        } else {
            let what = format!("what the request changed, of which {done} of {} were undone,", spans.len());
            return Err(ServiceError::Contended(what));
        }
    }
    Ok(units)
}

/// What the request did to each resource, as far as the caller may read it.
async fn spans(services: &Services, caller: &Caller, own: Own<'_>) -> Result<Vec<Span>, ServiceError> {
    let former = services.feed.former_types().await?;
    let types = services.types_anew().await?;
    let own = own.entries();
    let filter = visible(caller, &types, &former).map_or_else(|| own.clone(), |visible| own.clone().and(visible));
    let query = FindQuery::new(filter, services.max_time).limited(MOST_ENTRIES + 1).showing(
        &doc! { "_id": 0, "resource": 1, "public_id": 1, "type_id": 1, "number": 1, "state": 1, "changes.created": 1 },
    );
    let found = services.held(LOGS, query).await?;
    if found.len() as u64 > MOST_ENTRIES {
        let message = format!("the request made more than {MOST_ENTRIES} changes, the most that one undo takes back");
        return Err(ServiceError::refused(ErrorCode::TooManyObjects, message));
    }
    let mut spans: BTreeMap<(Kind, i64), Span> = BTreeMap::new();
    for entry in found.iter() {
        let kind = Kind::ALL.into_iter().find(|kind| text(entry, "resource") == Some(kind.name()));
        let ids = kind.zip(integer(entry, "public_id")).zip(integer(entry, "number"));
        let Some(((kind, id), number)) = ids else { continue };
        let was_there = changes_of(entry).is_ok_and(|changes| changes.get("created").ok().flatten().is_none());
        let (is_there, type_id) = (state_in(entry).is_some(), integer(entry, "type_id"));
        let new = Span { kind, id, numbers: (number, number), count: 0, was_there, is_there, type_id };
        let span = spans.entry((kind, id)).or_insert(new);
        span.count += 1;
        if number < span.numbers.0 {
            (span.numbers.0, span.was_there) = (number, was_there);
        }
        if number > span.numbers.1 {
            (span.numbers.1, span.is_there) = (number, is_there);
        }
    }
    Ok(spans.into_values().collect())
}

/// Refuses a caller without the rights that the single steps need.
fn permitted(caller: &Caller, spans: &[Span]) -> Result<(), ServiceError> {
    for span in spans {
        let right = span.kind.right(span.way());
        if !caller.rights.grants(&right) {
            let message = format!("this undo needs the right {right} too");
            return Err(ServiceError::refused(ErrorCode::RightMissing, message));
        }
    }
    Ok(())
}

/// The changes that bring these resources back, and what conflicts.
async fn prepared(
    services: &Services,
    caller: &Caller,
    scope: &mut Scope<'_>,
    spans: &[Span],
) -> Result<Part, ServiceError> {
    let mut part = Part::default();
    let mut rest = vec![spans];
    while let Some(spans) = rest.pop() {
        let Some((present, entries)) = read(services, spans).await? else {
            let (first, second) = spans.split_at(spans.len() / 2);
            rest.extend([second, first]);
            continue;
        };
        let turned = turned(scope.own, spans, (&present, &entries), &mut part)?;
        match spans.first().map(|span| span.kind) {
            Some(Kind::Objects) => objects(services, caller, scope, &turned, &mut part).await?,
            Some(Kind::Types) => types_back(services, caller, scope, &turned, &mut part).await?,
            Some(Kind::Categories) => categories_back(services, scope, &turned, &mut part).await?,
            None => {}
        }
        tokio::task::yield_now().await;
    }
    Ok(part)
}

/// The documents and the entries of these resources since the request; nothing when they are too large together.
async fn read(services: &Services, spans: &[Span]) -> Result<Option<(Documents, Documents)>, ServiceError> {
    let Some(kind) = spans.first().map(|span| span.kind) else { return Ok(Some(Default::default())) };
    let these = Filter::one_of("public_id", spans.iter().map(|span| span.id));
    let begun = spans.iter().map(|span| span.numbers.0).min().unwrap_or_default();
    let since = Filter::ours(&doc! { "number": { "$gte": begun } });
    let entries = of_kind(kind.name()).and(these.clone()).and(since);
    let most = if spans.len() > 1 { GROUP_BYTES * 2 } else { usize::MAX };
    let mut found = Vec::with_capacity(2);
    for (collection, filter) in [(kind.collection(), these), (LOGS, entries)] {
        match services.store.find(collection, &FindQuery::new(filter, services.max_time).within(most)).await {
            Err(StoreError::TooLarge) => return Ok(None),
            documents => found.push(documents?),
        }
    }
    Ok(found.pop().zip(found.pop()).map(|(entries, present)| (present, entries)))
}

/// Rolls these resources back. Those that conflict and those that are as they were are noted in `part`.
fn turned(
    own: Own<'_>,
    spans: &[Span],
    (present, entries): (&Documents, &Documents),
    part: &mut Part,
) -> Result<Vec<Turned>, ServiceError> {
    let mut present: HashMap<i64, RawDocumentBuf> =
        present.iter().filter_map(|document| Some((integer(document, "public_id")?, document.to_owned()))).collect();
    let entries = by_id(entries);
    let mut turned = Vec::with_capacity(spans.len());
    for span in spans {
        let present = present.remove(&span.id);
        if present.is_none() && matches!(own, Own::Causes(..)) {
            // What was deleted since needs no type.
            continue;
        }
        let of_it: &[&RawDocument] = entries.get(&span.id).map_or(&[], Vec::as_slice);
        let state = present.as_deref().map(state_of);
        let number = |entry: &RawDocument| integer(entry, "number").unwrap_or_default();
        let of_it: Vec<&RawDocument> = of_it.iter().copied().filter(|entry| number(entry) >= span.numbers.0).collect();
        let is_own = |entry: &&&RawDocument| own.has(entry);
        let foreign = of_it.iter().find(|entry| !is_own(entry)).copied();
        let is_known = of_it.first().is_some_and(|head| state_in(head) == state);
        let count = i64::try_from(of_it.iter().filter(is_own).count()).unwrap_or(i64::MAX);
        if !is_known || count != span.count {
            // Another tool changed it, or its entries went meanwhile.
            part.conflicts.push(conflict(span, None));
            continue;
        }
        let past = rolled_back(span, present.as_deref(), &of_it)?;
        let is_same = same_content(past.as_ref(), present.as_deref())?;
        match foreign {
            _ if is_same => part.unchanged += 1,
            Some(entry) => part.conflicts.push(conflict(span, Some(entry))),
            None => turned.push(Turned { span: *span, past, present }),
        }
    }
    Ok(turned)
}

fn conflict(span: &Span, entry: Option<&RawDocument>) -> Conflict {
    Conflict {
        resource: span.kind.name().to_owned(),
        public_id: span.id,
        sequence: entry.and_then(|entry| integer(entry, "sequence")),
        action: entry.and_then(|entry| text(entry, "action")).unwrap_or(Action::Outside.name()).to_owned(),
    }
}

/// What a resource was before these entries, the newest first.
fn rolled_back(
    span: &Span,
    present: Option<&RawDocument>,
    entries: &[&RawDocument],
) -> Result<Option<Document>, ServiceError> {
    let mut state = present.map(resource::decode).transpose()?;
    for entry in entries {
        let changes = changes_of(entry)?;
        if is_unknown(changes) {
            let message = format!(
                "nobody knows what was changed of {} {}: the undo cannot bring it back",
                span.kind.name(),
                span.id
            );
            return Err(ServiceError::refused(ErrorCode::HistoryUnknown, message));
        }
        if let Ok(deleted) = changes.get_document("deleted") {
            state = Some(resource::decode(deleted)?);
        } else if changes.get("created").ok().flatten().is_some() {
            state = None;
        } else {
            let document = state.as_mut().ok_or_else(|| unreadable("an entry"))?;
            apply(document, changes).map_err(unreadable)?;
        }
    }
    Ok(state)
}

/// Whether two states of a resource differ in what the service writes itself alone.
fn same_content(past: Option<&Document>, present: Option<&RawDocument>) -> Result<bool, ServiceError> {
    let content = |mut document: Document| {
        for own in ["_id", "version", "editor_id", "last_edit_time"] {
            document.remove(own);
        }
        document
    };
    let present = present.map(resource::decode).transpose()?.map(content);
    Ok(past.cloned().map(content) == present)
}

impl Part {
    /// Adds changes and conditions. A rule about a scope is checked once.
    fn include(&mut self, more: Unit) {
        let is_of_scope = |condition: &Condition| matches!(condition, Condition::Unchanged { .. });
        let has_scope = self.unit.conditions.iter().any(is_of_scope);
        let new = more.conditions.into_iter().filter(|condition| !(has_scope && is_of_scope(condition)));
        self.unit.conditions.extend(new);
        self.unit.changes.extend(more.changes);
    }

    /// Adds the change of a resource.
    fn add(&mut self, turned: &Turned, after: Option<Document>) -> Result<(), ServiceError> {
        let Turned { span, present, .. } = turned;
        let collection = span.kind.collection();
        let (way, change) = match (present, after) {
            (Some(before), Some(after)) => {
                let (before, after) = (before.clone(), resource::encode(&after)?);
                (Way::Revert, Change::Replace { collection, before, after })
            }
            (None, Some(after)) => {
                let mut document = doc! {"_id": ObjectId::new()};
                document.extend(after);
                (Way::Restore, Change::Insert { collection, document: resource::encode(&document)? })
            }
            (Some(before), None) => (Way::Delete, Change::Delete { collection, before: before.clone() }),
            (None, None) => return Ok(()),
        };
        self.bytes += match &change {
            Change::Replace { before, after, .. } => before.as_bytes().len() + after.as_bytes().len(),
            Change::Insert { document, .. } | Change::Delete { before: document, .. } => document.as_bytes().len(),
            _ => 0,
        };
        self.unit.changes.push(change);
        self.done.push(Done { resource: span.kind.name(), public_id: span.id, action: way.name() });
        Ok(())
    }
}

/// Brings objects back. Their values and references are what they were, whatever their types say now.
async fn objects(
    services: &Services,
    caller: &Caller,
    scope: &Scope<'_>,
    all: &[Turned],
    part: &mut Part,
) -> Result<(), ServiceError> {
    let now = services.now();
    let type_ids: HashSet<i64> = all.iter().filter_map(|turned| turned.span.type_id).collect();
    let types = services.current_types().await?;
    let types = services.types_knowing(types, type_ids.iter().copied().collect()).await?;
    let mut taking: HashSet<i64> = HashSet::new();
    for turned in all {
        let Some(past) = &turned.past else {
            turned.present.as_deref().map(|present| removable(&types, caller, present)).transpose()?;
            part.add(turned, None)?;
            continue;
        };
        let entry = type_of_object(scope, &types, caller, turned)?;
        let type_id = entry.object_type.public_id;
        if !scope.types.contains_key(&type_id) && taking.insert(type_id) {
            part.unit.conditions.push(crate::service::objects::takes_objects(type_id, entry.edited()));
        }
        let present = turned.present.as_deref().map(resource::decode).transpose()?;
        part.add(turned, Some(object_back(caller.user_id, now, (&entry, past), present.as_ref())?))?;
    }
    Ok(())
}

/// The type of an object that comes back, if the caller may bring it back.
fn type_of_object(
    scope: &Scope<'_>,
    types: &catalog::Types,
    caller: &Caller,
    turned: &Turned,
) -> Result<Arc<TypeEntry>, ServiceError> {
    let id = turned.span.type_id.unwrap_or_default();
    let returning = scope.types.get(&id);
    if let (Some(present), None) = (&turned.present, returning) {
        return changeable(types, caller, present, Permission::Update);
    }
    let Some(entry) = returning.or_else(|| types.get(id)).cloned() else {
        let message = format!("type {id} of object {} was deleted since; restore it first", turned.span.id);
        return Err(ServiceError::refused(ErrorCode::TypeMissing, message));
    };
    let permission = if turned.present.is_some() { Permission::Update } else { Permission::Create };
    entry.permit(caller, permission)?;
    entry.require_active()?;
    Ok(entry)
}

/// A new version of an object, with the values that it had at an earlier time.
fn object_back(
    user_id: i64,
    now: bson::DateTime,
    (entry, past): (&TypeEntry, &Document),
    present: Option<&Document>,
) -> Result<Document, ServiceError> {
    let names = ["type_id", "author_id", "status", "active", "fields", "views"];
    let body = only(past, &names);
    // What was stored passes, as what is sent back unchanged does.
    let (input, _) = ObjectInput::read_again(&body, past);
    let stored = object_input::read_fields(past.get("fields"));
    let accepted = entry.rules.check_again(&stored, &stored)?;
    let mut after = input.updated(present.unwrap_or(past), &accepted.fields, user_id, now);
    if present.is_none() {
        after.insert("version", object_input::counted_on(past, &accepted.fields, true));
    }
    Ok(after)
}

/// Brings types back. A type that is there keeps its access list.
async fn types_back(
    services: &Services,
    caller: &Caller,
    scope: &mut Scope<'_>,
    all: &[Turned],
    part: &mut Part,
) -> Result<(), ServiceError> {
    for turned in all {
        let id = turned.span.id;
        let after = match (&turned.past, &turned.present) {
            (Some(past), Some(present)) => Some(types::type_as_it_was(services, caller, id, past, present).await?),
            (Some(past), None) => Some(types::type_again(services, caller, past).await?),
            _ => None,
        };
        match &after {
            Some(after) => {
                let entry = catalog::compiled(&resource::encode(after)?);
                scope.types.insert(id, entry.map_err(unreadable)?);
            }
            None => part.include(types::without_type(id, &scope.deleted, &scope.changed_categories)),
        }
        part.add(turned, after)?;
    }
    Ok(())
}

/// Brings categories back, with all links at once.
async fn categories_back(
    services: &Services,
    scope: &Scope<'_>,
    all: &[Turned],
    part: &mut Part,
) -> Result<(), ServiceError> {
    let mut back = Vec::new();
    for turned in all {
        let Some(past) = &turned.past else {
            let (id, changed) = (turned.span.id, &scope.changed_categories);
            part.include(categories::without_category(services, id, turned.present.as_deref(), changed).await?);
            part.add(turned, None)?;
            continue;
        };
        let present = turned.present.as_deref().map(resource::decode).transpose()?;
        let after = categories::as_it_was(past, present.as_ref(), services.now())?;
        back.push((turned.span.id, after.clone()));
        part.add(turned, Some(after))?;
    }
    if !back.is_empty() {
        let types: HashSet<i64> = scope.types.keys().copied().collect();
        let conditions = categories::links_hold(services, &back, (&types, &scope.categories)).await?;
        part.include(Unit { conditions, changes: Vec::new() });
    }
    Ok(())
}
