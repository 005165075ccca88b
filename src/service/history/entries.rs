//! Reading entries: which of them a caller may see, and what of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};
use futures::TryStreamExt;

use super::former::FormerTypes;
use super::heads::of_kind;
use super::kept::has_sequence;
use super::plain::PlainFields;
use super::resources::{resource_of, unreadable};
use crate::domain::document::{raw, text};
use crate::domain::object_fields::HIDDEN;
use crate::history::entry::Action;
use crate::pointer::unescaped;
use crate::query::Filter;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::queries::list_query::ListQuery;
use crate::service::resource::{self, Listed, Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::Types;
use crate::service::types::late;
use crate::store::collections::LOGS;
use crate::store::{Documents, StoreError};

/// The members by which entries can be filtered, sorted and projected. What else they have holds old values.
pub const KNOWN: [&str; 12] = [
    "sequence", "time", "resource", "public_id", "type_id", "number", "version", "action", "user_id", "user_name",
    "comment", "cause",
];

/// Entries of the history.
pub struct Logs;

impl Resource for Logs {
    const COLLECTION: &'static str = LOGS;
    const MODEL: &'static str = "Log";
    const NAME: &'static str = "log entry";
    const NOT_FOUND: ErrorCode = ErrorCode::NotFound;
    const MEMBERS: &[&'static str] = &KNOWN;
    const VALUES: &[(&'static str, &'static [&'static str])] =
        &[("action", &Action::NAMES), ("resource", &["objects", "types", "categories"])];

    fn view(stored: &RawDocument) -> Cow<'_, RawDocument> {
        Cow::Borrowed(stored)
    }
}

/// The entries of one resource that the caller may see.
///
/// # Errors
/// The refusal for an id without a visible document and without visible entries; errors of the store.
pub async fn history_of<R: Resource>(
    services: &Services,
    caller: &Caller,
    public_id: i64,
    mut query: ListQuery,
) -> Result<Listed, ServiceError> {
    let found = resource::find::<R>(services, public_id).await?;
    let is_object = R::COLLECTION == Objects::COLLECTION;
    let own = of_kind(resource_of(R::COLLECTION).unwrap_or_default()).and(Filter::equals("public_id", public_id));
    let former = services.feed.former_types().await?;
    let types = services.types_of(found.as_deref().filter(|_| is_object)).await?;
    let visible = visible(caller, &types, &former);
    let seen = visible.clone().map_or_else(|| own.clone(), |visible| own.clone().and(visible));
    let is_visible = found.is_some_and(|found| !is_object || types.shows(caller, &found));
    if !is_visible && !services.store.has_any(LOGS, seen, services.max_time).await? {
        return Err(ServiceError::not_found(R::NOT_FOUND, public_id));
    }
    query.filter = own.and(query.filter);
    list(services, caller, former, &query).await
}

/// All entries that the caller may see.
///
/// # Errors
/// Errors of the store.
pub async fn list_entries(services: &Services, caller: &Caller, mut query: ListQuery) -> Result<Listed, ServiceError> {
    let former = services.feed.former_types().await?;
    query.filter = has_sequence().and(query.filter);
    list(services, caller, former, &query).await
}

pub(super) async fn list(
    services: &Services,
    caller: &Caller,
    former: Arc<FormerTypes>,
    query: &ListQuery,
) -> Result<Listed, ServiceError> {
    let guard = |types: &Types| visible(caller, types, &former);
    let (listed, types) = late::list::<Logs>(services, caller, query, guard).await?;
    let plain = PlainFields::new(Arc::clone(&services.store), services.max_time, (types, former));
    Ok(match listed {
        Listed::Page(mut page) => {
            page.documents = shown(&plain, &page.documents, false).await?;
            Listed::Page(page)
        }
        Listed::Keyed(mut page, behind) => {
            page.documents = shown(&plain, &page.documents, false).await?;
            Listed::Keyed(page, behind)
        }
        Listed::Chunked(mut chunks) => {
            let plain = Arc::new(plain);
            let documents = chunks.documents.and_then(move |chunk| {
                let plain = Arc::clone(&plain);
                async move { shown(&plain, &chunk, true).await }
            });
            chunks.documents = Box::pin(documents);
            Listed::Chunked(chunks)
        }
        explained @ Listed::Explained(_) => explained,
    })
}

/// What clients see of entries. With `more`, further ones follow.
async fn shown(plain: &PlainFields, entries: &Documents, more: bool) -> Result<Documents, StoreError> {
    plain.prepare(entries.iter(), more).await?;
    let mut all = Documents::new();
    for entry in entries.iter() {
        all.push(&shown_entry(plain, entry)?);
    }
    Ok(all)
}

/// What clients see of an entry: no values of password fields, no id of the store, and no digests. These cover whole
/// documents, so a guess of a hidden value could be compared with them.
fn shown_entry(plain: &PlainFields, entry: &RawDocument) -> Result<RawDocumentBuf, StoreError> {
    let mut document = Document::try_from(entry).map_err(unreadable)?;
    for digest in ["state", "previous", "hash"] {
        document.remove(digest);
    }
    if let Ok(changes) = document.get_document_mut("changes") {
        if let Ok(deleted) = changes.get_document_mut("deleted") {
            deleted.remove("_id");
        }
        if text(entry, "resource") == Some("objects") {
            conceal(changes, &plain.at(entry));
        }
    }
    Ok(raw(&document))
}

/// The condition on entries that leaves out those of objects that are hidden from the caller; nothing if none are.
///
/// The access lists are those of today; that of a former type is the last one it had.
pub(super) fn visible(caller: &Caller, types: &Types, former: &FormerTypes) -> Option<Filter> {
    let (reused, gone): (Vec<_>, Vec<_>) =
        former.hidden_from(caller.group_id).partition(|(id, _)| types.get(*id).is_some());
    let gone = (!gone.is_empty()).then(|| Filter::none_of("type_id", gone.into_iter().map(|(id, _)| id)));
    let before: Vec<Document> =
        reused.into_iter().map(|(id, until)| doc! { "type_id": id, "sequence": { "$lte": until } }).collect();
    let reused = (!before.is_empty()).then(|| Filter::ours(&doc! { "$nor": before }));
    [types.visible_to(caller), gone, reused].into_iter().flatten().reduce(Filter::and)
}

/// The object without the values of all other fields.
pub(super) fn concealed(object: &RawDocument, plain: &HashSet<&str>) -> Result<RawDocumentBuf, StoreError> {
    let mut object = Document::try_from(object).map_err(unreadable)?;
    if let Some(fields) = object.get_mut("fields") {
        conceal_entries(fields, plain);
    }
    Ok(raw(&object))
}

/// Hides the values of all fields but the plain ones. A field that the type does not have may have been a password.
fn conceal(changes: &mut Document, plain: &HashSet<&str>) {
    if let Ok(was) = changes.get_document_mut("was") {
        for (place, value) in was.iter_mut() {
            let mut rest = place.strip_prefix("/fields/").into_iter().flat_map(|rest| rest.split('/'));
            let is_secret = rest.next().is_some_and(|name| !plain.contains(unescaped(name).as_str()));
            if place == "/fields" {
                conceal_entries(value, plain);
            } else if is_secret && rest.next() != Some("name") {
                hide(value);
            }
        }
    }
    if let Ok(parts) = changes.get_array_mut("parts") {
        for part in parts.iter_mut().filter_map(Bson::as_document_mut) {
            let place = part.get_str("at").unwrap_or_default().to_owned();
            if let Some(had) = part.get_mut("had") {
                match place.as_str() {
                    "/fields" => conceal_entries(had, plain),
                    "" => had.as_document_mut().and_then(|had| had.get_mut("fields")).into_iter().for_each(|fields| {
                        conceal_entries(fields, plain);
                    }),
                    place if place.starts_with("/fields/") => conceal_entry(had, &place["/fields/".len()..], plain),
                    _ => {}
                }
            }
        }
    }
    if let Ok(deleted) = changes.get_document_mut("deleted")
        && let Some(fields) = deleted.get_mut("fields")
    {
        conceal_entries(fields, plain);
    }
}

/// Hides a value, but not that a value is missing.
fn hide(value: &mut Bson) {
    if *value != Bson::Null {
        *value = HIDDEN.into();
    }
}

fn conceal_entries(entries: &mut Bson, plain: &HashSet<&str>) {
    let Bson::Array(entries) = entries else {
        *entries = HIDDEN.into();
        return;
    };
    for entry in entries {
        match entry.as_document_mut() {
            Some(entry) => {
                if !entry.get_str("name").is_ok_and(|name| plain.contains(name)) {
                    entry.get_mut("value").into_iter().for_each(hide);
                }
            }
            None => *entry = HIDDEN.into(),
        }
    }
}

/// Members of a single entry of `fields`.
fn conceal_entry(had: &mut Bson, rest: &str, plain: &HashSet<&str>) {
    let name = unescaped(rest.split('/').next().unwrap_or_default());
    if plain.contains(name.as_str()) {
        return;
    }
    match had.as_document_mut() {
        Some(members) if !rest.contains('/') => members.get_mut("value").into_iter().for_each(hide),
        _ => hide(had),
    }
}
