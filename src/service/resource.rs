//! The operations that all resources share: list, get, create, update, delete.

use std::borrow::Cow;

use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use super::error::ServiceError;
use super::error_code::ErrorCode;
use super::once::{self, Once};
use super::precondition::IfMatch;
pub use super::queries::kinds::{
    Categories, Deliveries, Groups, Objects, Reports, Resource, Types, UserSettings, UserTokens, Users, Webhooks,
};
use super::queries::list_query::ListQuery;
use super::services::Services;
use crate::domain::Violation;
use crate::domain::document::raw;
use crate::json::merge::{self, MergeError};
use crate::json::read::document_from_str;
use crate::json::shell::for_shell;
use crate::json::write::{DateStyle, Shape, write_document};
use crate::query::{Filter, Limits, Lookup, for_server};
use crate::store::{Change, ChunkedPage, Condition, Explanation, FindQuery, Hint, LookedUp, Page, StoreError, Unit};

/// How often a change is tried again when others change the same document at the same time.
pub(super) const ATTEMPTS: usize = 64;

/// How often a use case decides again when a condition of its decision fails.
pub(super) const DECISIONS: usize = 32;

/// The largest id that a client may choose. The counter continues after the largest id. After this one there are seven
/// million million ids that every JSON reader keeps exact: up to 9,007,199,254,740,991.
pub(crate) const MAX_WANTED_ID: i64 = 9_000_000_000_000_000;

/// What a list route answers.
pub enum Listed {
    /// The documents of a page.
    Page(Page),
    /// The documents of a long page.
    Chunked(ChunkedPage),
    /// The documents of a page that says where the next one begins.
    Keyed(Page, Continued),
    /// How they are found.
    Explained(Explanation),
}

impl Listed {
    /// Whether nothing fits the question, on any page.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Page(page) | Self::Keyed(page, _) => page.total == 0,
            Self::Chunked(chunks) => chunks.total == 0,
            Self::Explained(_) => false,
        }
    }

    /// The page that is in memory; nothing for one that is read in parts, or only explained.
    pub fn into_page(self) -> Option<Page> {
        match self {
            Self::Page(page) | Self::Keyed(page, _) => Some(page),
            Self::Chunked(_) | Self::Explained(_) => None,
        }
    }

    /// The same without the proposal of an index, which does not help when the question itself is probably wrong.
    #[must_use]
    pub fn without_hint(self) -> Self {
        match self {
            Self::Page(page) => Self::Page(Page { hint: None, ..page }),
            Self::Keyed(page, behind) => Self::Keyed(Page { hint: None, ..page }, behind),
            Self::Chunked(chunks) => Self::Chunked(ChunkedPage { hint: None, ..chunks }),
            explained @ Self::Explained(_) => explained,
        }
    }
}

/// Where a list continues after a page.
#[derive(Debug)]
pub struct Continued {
    /// How many documents the page has.
    pub count: u64,
    /// The sort key of its last document, if more documents follow.
    pub key: Option<Vec<Bson>>,
}

/// A page that says where the next one begins may have fewer documents than its limit, if they have more bytes.
const MAX_KEYED_BYTES: usize = 4 * 1024 * 1024;

/// Pages of more documents than this are not held in memory.
const MAX_PAGE_IN_MEMORY: u64 = 100;
/// Nor are those of more bytes.
const MAX_PAGE_BYTES: usize = 256 * 1024;

/// One page of documents with the total, in chunks if it may be long, or the explanation of its query.
///
/// # Errors
/// Errors of the store.
pub async fn list<R: Resource>(services: &Services, query: &ListQuery) -> Result<Listed, ServiceError> {
    let mut question = query.to_find(services);
    // Counts of examined documents would reveal documents that the guard hides.
    let hides = question.filter.guarded().is_some();
    if query.explain {
        let explanation = services.store.explain(R::COLLECTION, &question).await?;
        let hint = sound_hint::<R>(services, explanation.hint.clone()).await?;
        let explanation = Explanation { hint, ..explanation };
        let explanation = if hides { explanation.without_counts() } else { explanation };
        let (filter, references) =
            (Some(asked(&question.filter)), query.through.lookups.iter().map(looked_up).collect());
        return Ok(Listed::Explained(Explanation { filter, references, ..explanation }));
    }
    if query.keyed {
        let (page, continued) = keyed_page(services, R::COLLECTION, question).await?;
        let hint = sound_hint::<R>(services, page.hint.filter(|_| !hides)).await?;
        return Ok(Listed::Keyed(Page { hint, ..page }, continued));
    }
    if query.limit > MAX_PAGE_IN_MEMORY {
        let chunks = services.store.chunks(R::COLLECTION, &question).await?;
        let hint = sound_hint::<R>(services, chunks.hint.filter(|_| !hides)).await?;
        return Ok(Listed::Chunked(ChunkedPage { hint, ..chunks }));
    }
    question.max_bytes = MAX_PAGE_BYTES;
    match services.store.page(R::COLLECTION, &question).await {
        Err(StoreError::TooLarge) => {
            question.max_bytes = usize::MAX;
            let chunks = services.store.chunks(R::COLLECTION, &question).await?;
            let hint = sound_hint::<R>(services, chunks.hint.filter(|_| !hides)).await?;
            Ok(Listed::Chunked(ChunkedPage { hint, ..chunks }))
        }
        page => {
            let page = page?;
            let hint = sound_hint::<R>(services, page.hint.filter(|_| !hides)).await?;
            Ok(Listed::Page(Page { hint, ..page }))
        }
    }
}

/// The page, and the position of its last document. The position needs whole documents; a projection is applied to the
/// same documents afterwards.
async fn keyed_page(
    services: &Services,
    collection: &'static str,
    mut question: FindQuery,
) -> Result<(Page, Continued), ServiceError> {
    let projection = question.projection.take();
    question.max_bytes = MAX_KEYED_BYTES;
    let mut page = loop {
        match services.store.page(collection, &question).await {
            Err(StoreError::TooLarge) if question.limit > 1 => question.limit /= 2,
            Err(StoreError::TooLarge) => question.max_bytes = usize::MAX,
            page => break page?,
        }
    };
    let count = page.documents.len() as u64;
    let last = page.documents.iter().last().filter(|_| page.total > count);
    let key = last.map(|last| question.sort.key_of(last)).transpose()?;
    let key = key.map(|key| key.to_bson());
    if projection.is_some() {
        let ids: Vec<Bson> =
            page.documents.iter().filter_map(|it| it.get("_id").ok()?.and_then(|id| Bson::try_from(id).ok())).collect();
        let filter = question.filter.clone().and(Filter::one_of("_id", ids));
        let projected = FindQuery { filter, projection, max_bytes: usize::MAX, ..question };
        page.documents = services.store.find(collection, &projected).await?;
    }
    Ok((page, Continued { count, key }))
}

/// The hint without an index on paths of which one leads nowhere in every document: such an index would have no use.
async fn sound_hint<R: Resource>(services: &Services, hint: Option<Hint>) -> Result<Option<Hint>, ServiceError> {
    let Some(mut hint) = hint else { return Ok(None) };
    for path in &hint.index {
        let leads = Filter::parse(&doc! { path: { "$exists": true } }, &Limits::NONE)?;
        if !services.store.has_any(R::COLLECTION, leads, services.max_time).await? {
            hint.index.clear();
            break;
        }
    }
    Ok(Some(hint))
}

/// The caller's part of a filter, for MongoDB's tools.
fn asked(filter: &Filter) -> serde_json::Value {
    let asked = filter.guarded().map_or(filter, |guarded| &guarded.question);
    shell(&for_server(asked.document()))
}

fn looked_up(lookup: &Lookup) -> LookedUp {
    let found = lookup.found.as_ref().map_or(0, |found| found.len() as u64);
    LookedUp { path: lookup.path.clone(), filter: shell(&lookup.filter()), found }
}

fn shell(filter: &Document) -> serde_json::Value {
    let (asked, mut text) = (raw(filter), Vec::new());
    // It was read from JSON, and has been kept as BSON since.
    let written = write_document(&asked, Shape::whole(DateStyle::Millis), &mut text);
    for_shell(written.ok().and_then(|()| serde_json::from_slice(&text).ok()).unwrap_or_default())
}

/// The document with this id, if there is one.
///
/// # Errors
/// Errors of the store.
pub async fn find<R: Resource>(services: &Services, id: i64) -> Result<Option<RawDocumentBuf>, ServiceError> {
    let query = FindQuery::new(Filter::equals("public_id", id), services.max_time);
    Ok(services.store.first(R::COLLECTION, query).await?)
}

/// The document with this id.
///
/// # Errors
/// [`Resource::NOT_FOUND`], and errors of the store.
pub async fn get<R: Resource>(services: &Services, id: i64) -> Result<RawDocumentBuf, ServiceError> {
    find::<R>(services, id).await?.ok_or_else(|| ServiceError::not_found(R::NOT_FOUND, id))
}

/// The id of a new document.
#[derive(Debug, Clone, Copy)]
pub enum Wanted {
    /// The next one.
    Any,
    /// One that a client chose.
    Chosen(i64),
    /// The one that the document had before, whatever that is.
    Again(i64),
}

impl From<Option<i64>> for Wanted {
    fn from(chosen: Option<i64>) -> Self {
        chosen.map_or(Self::Any, Self::Chosen)
    }
}

/// Stores a new document under the wanted id, if the conditions hold.
///
/// # Errors
/// [`Resource::TAKEN`] for a taken id or name; a condition that does not hold comes back as the store's
/// [`StoreError::Condition`].
pub async fn create<R: Resource>(
    services: &Services,
    wanted: impl Into<Wanted>,
    conditions: Vec<Condition>,
    build: impl Fn(i64) -> Document,
) -> Result<RawDocumentBuf, ServiceError> {
    create_with::<R>(services, wanted, |id| {
        Ok((build(id), Unit { conditions: conditions.clone(), changes: Vec::new() }))
    })
    .await
}

/// As [`create`], with further changes and conditions of the unit from `build`.
///
/// # Errors
/// As [`create`], and what `build` refuses.
pub async fn create_with<R: Resource>(
    services: &Services,
    wanted: impl Into<Wanted>,
    build: impl Fn(i64) -> Result<(Document, Unit), ServiceError>,
) -> Result<RawDocumentBuf, ServiceError> {
    let wanted = match wanted.into() {
        Wanted::Any => None,
        Wanted::Chosen(id) => match no_id(id) {
            Some(violation) => return Err(ServiceError::Violations(violation.into())),
            None => Some(id),
        },
        Wanted::Again(id) => Some(id),
    };
    for _ in 0..ATTEMPTS {
        let id = match wanted {
            Some(id) => id,
            None => services.store.reserve_ids(R::COLLECTION, 1).await?,
        };
        let (members, mut unit) = build(id)?;
        let mut document = doc! {"_id": ObjectId::new()};
        document.extend(members);
        let document = encode(&document)?;
        unit.changes.insert(0, Change::Insert { collection: R::COLLECTION, document: document.clone() });
        if let Some(mark) = once::noted(services.now(), || decode(&document))? {
            unit.changes.insert(0, mark);
        }
        match services.store.commit(unit).await {
            Ok(_) => return Ok(document),
            Err(error) if Once::was_faster(&error) => return Err(error.into()),
            // Another tool stored a document under the reserved id; the store has moved its counter past it.
            Err(StoreError::Duplicate { key, .. }) if key == "public_id" && wanted.is_none() => {}
            Err(error) => return Err(refused::<R>(error)),
        }
    }
    Err(ServiceError::Contended(format!("the counter of the collection {}", R::COLLECTION)))
}

/// The error of an id that a client chose.
pub(crate) fn no_id(id: i64) -> Option<Violation> {
    let message = || format!("{id} is no id: ids are from 1 to {MAX_WANTED_ID}");
    (!(1..=MAX_WANTED_ID).contains(&id)).then(|| Violation::new("/public_id", message()))
}

/// A change of one document that depends on its stored state.
pub struct Decision {
    /// The unit to commit.
    pub unit: Unit,
    /// The document as it is afterwards.
    pub after: RawDocumentBuf,
}

impl Decision {
    /// Replaces `before` by `after`.
    ///
    /// # Errors
    /// When the document is too deep or too large to be encoded.
    pub fn replace<R: Resource>(before: &RawDocument, after: &Document) -> Result<Self, ServiceError> {
        let after = encode(after)?;
        let before = before.to_owned();
        let unit = Unit::of(Change::Replace { collection: R::COLLECTION, before, after: after.clone() });
        Ok(Self { unit, after })
    }
}

/// Decides again while a condition of the decision fails; `what` is then being changed by others.
///
/// # Errors
/// Those of the decision, and [`ServiceError::Contended`].
pub(super) async fn until_it_holds<T>(
    what: impl Into<String>,
    decide: impl AsyncFn() -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    for _ in 0..DECISIONS {
        match decide().await {
            Err(ServiceError::Store(StoreError::Condition { .. })) => {}
            outcome => return outcome,
        }
    }
    Err(ServiceError::Contended(what.into()))
}

/// Changes the document with this id. It reads the document, calls `decide`, and commits the decision if the document
/// has not changed; otherwise it begins again. `If-Match` is checked against the replaced document itself.
///
/// Returns the document before and after the change.
///
/// # Errors
/// [`Resource::NOT_FOUND`], [`ServiceError::PreconditionFailed`], refusals of `decide`, and errors of the store.
pub async fn change<R: Resource>(
    services: &Services,
    id: i64,
    if_match: &IfMatch,
    decide: impl AsyncFn(&RawDocument) -> Result<Decision, ServiceError>,
) -> Result<(RawDocumentBuf, RawDocumentBuf), ServiceError> {
    for _ in 0..ATTEMPTS {
        let before = get::<R>(services, id).await?;
        if_match.check(&R::view(&before))?;
        let decision = decide(&before).await?;
        match services.store.commit(decision.unit).await {
            Ok(_) => return Ok((before, decision.after)),
            Err(StoreError::Stale) => {}
            Err(error) => return Err(refused::<R>(error)),
        }
    }
    Err(ServiceError::Contended(format!("{} {id}", R::NAME)))
}

/// Removes the document with this id, with further changes and conditions of `decide`; otherwise as [`change`].
///
/// Returns the removed document and how many documents each change of the unit touched.
///
/// # Errors
/// As [`change`].
pub async fn remove<R: Resource>(
    services: &Services,
    id: i64,
    if_match: &IfMatch,
    decide: impl AsyncFn(&RawDocument) -> Result<Unit, ServiceError>,
) -> Result<(RawDocumentBuf, Vec<u64>), ServiceError> {
    for _ in 0..ATTEMPTS {
        if let Some(removed) = remove_once::<R>(services, id, if_match, &decide).await? {
            return Ok(removed);
        }
    }
    Err(ServiceError::Contended(format!("{} {id}", R::NAME)))
}

/// As [`remove`], with a single attempt; nothing if a concurrent change defeated it.
///
/// # Errors
/// As [`remove`].
pub(super) async fn remove_once<R: Resource>(
    services: &Services,
    id: i64,
    if_match: &IfMatch,
    decide: impl AsyncFn(&RawDocument) -> Result<Unit, ServiceError>,
) -> Result<Option<(RawDocumentBuf, Vec<u64>)>, ServiceError> {
    let before = get::<R>(services, id).await?;
    if_match.check(&R::view(&before))?;
    let unit = decide(&before).await?.and(Change::Delete { collection: R::COLLECTION, before: before.clone() });
    match services.store.commit(unit).await {
        Ok(touched) => Ok(Some((before, touched))),
        Err(StoreError::Stale) => Ok(None),
        Err(error) => Err(refused::<R>(error)),
    }
}

/// Refuses a body whose `public_id` differs from that of the path.
///
/// # Errors
/// [`ServiceError::Violations`].
pub fn same_id(body: &Document, id: i64) -> Result<(), ServiceError> {
    match body.get_i64("public_id") {
        Ok(other) if other != id => {
            Err(ServiceError::violation("/public_id", format!("is {other}, but the path says {id}; leave it out")))
        }
        _ => Ok(()),
    }
}

/// A merge patch as a document, nulls and all.
///
/// # Errors
/// When the patch is no object.
pub fn body_of_patch(patch: &serde_json::Value) -> Result<Document, ServiceError> {
    if !patch.is_object() {
        return Err(ServiceError::refused(ErrorCode::PatchNotAnObject, "a merge patch must be an object"));
    }
    document_from_str(&patch.to_string()).map_err(|error| {
        ServiceError::refused(ErrorCode::PatchUnreadable, format!("the patch cannot be read: {error}"))
    })
}

/// What a client sends to change a resource.
#[derive(Debug, Clone, Copy)]
pub enum NewState<'a> {
    /// Its whole new state.
    Whole(&'a Document),
    /// A merge patch (RFC 7396).
    Patch(&'a serde_json::Value),
}

impl<'a> NewState<'a> {
    /// The whole new state of the resource that is stored.
    ///
    /// # Errors
    /// As [`merged`].
    pub fn body(self, stored: &RawDocument) -> Result<Cow<'a, Document>, ServiceError> {
        match self {
            Self::Whole(body) => Ok(Cow::Borrowed(body)),
            Self::Patch(patch) => merged(stored, patch).map(Cow::Owned),
        }
    }
}

/// The body that results from merging a patch (RFC 7396) into a stored document.
///
/// # Errors
/// When the patch is no object, or results in an unreadable body.
pub fn merged(stored: &RawDocument, patch: &serde_json::Value) -> Result<Document, ServiceError> {
    body_of_patch(patch)?;
    merge::merged(stored, patch).map_err(|error| match error {
        MergeError::Corrupt(damage) => StoreError::Corrupt { what: damage.to_string() }.into(),
        MergeError::Unreadable(error) => {
            ServiceError::refused(ErrorCode::PatchUnreadable, format!("the patched resource: {error}"))
        }
    })
}

/// A document as bytes.
///
/// # Errors
/// When it cannot be encoded.
pub fn encode(document: &Document) -> Result<RawDocumentBuf, ServiceError> {
    RawDocumentBuf::try_from(document).map_err(|error| {
        ServiceError::refused(ErrorCode::BodyUnencodable, format!("the body cannot be stored: {error}"))
    })
}

/// A stored document for looking into it.
///
/// # Errors
/// [`StoreError::Corrupt`] when its bytes are damaged.
pub fn decode(document: &RawDocument) -> Result<Document, ServiceError> {
    Document::try_from(document)
        .map_err(|error| StoreError::Corrupt { what: format!("a stored document: {error}") }.into())
}

/// A refusal of the store in the words of the resource.
fn refused<R: Resource>(error: StoreError) -> ServiceError {
    match error {
        StoreError::Duplicate { key, .. } => taken::<R>(&key),
        error => error.into(),
    }
}

/// Another document has the same value of a unique key.
pub(super) fn taken<R: Resource>(key: &str) -> ServiceError {
    let code = R::TAKEN.iter().find(|(known, _)| *known == key).map_or(ErrorCode::ValueTaken, |(_, code)| *code);
    if code == ErrorCode::UserNameConfusable {
        let message = "another user has a name that looks the same; choose another one";
        return ServiceError::refused(code, message);
    }
    let message = format!("another {} has the same {key}; choose another one", R::NAME);
    ServiceError::refused(code, message)
}
