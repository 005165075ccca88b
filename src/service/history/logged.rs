//! Entries of objects in the lists that DATAGERRY's clients know: of one object, of those that are there or gone, of deletions.

use std::collections::BTreeSet;

use bson::raw::RawDocumentBuf;
use bson::{Bson, bson, doc};
use futures::TryStreamExt;

use super::diff::diff_object;
use super::entries::{list, visible};
use super::heads::of_kind;
use super::past::Moment;
use crate::admission;
use crate::domain::document::integer;
use crate::history::entry::Action;
use crate::query::{Filter, Limits, Pipeline, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::objects::get_object;
use crate::service::queries::list_query::ListQuery;
use crate::service::resource::{Listed, Objects, Resource};
use crate::service::services::Services;
use crate::store::collections::LOGS;
use crate::store::{AggregateQuery, FindQuery};

/// The kind of the resource in entries.
const KIND: &str = "objects";

/// The `log_type` of DATAGERRY's entries of objects.
pub const OBJECT_LOG: &str = "CmdbObjectLog";

/// Which entries of objects a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Changes of objects that are there.
    Present,
    /// Changes of objects that were deleted.
    Gone,
    /// Deletions.
    Deletions,
}

/// The entries of a visible object, those that DATAGERRY wrote among them.
///
/// # Errors
/// The refusal for an id without a visible object; errors of the store.
pub async fn of_object(
    services: &Services,
    caller: &Caller,
    public_id: i64,
    mut query: ListQuery,
) -> Result<Listed, ServiceError> {
    get_object(services, caller, public_id).await?;
    let own = doc! { "resource": KIND, "public_id": public_id };
    let theirs = doc! { "log_type": OBJECT_LOG, "object_id": public_id };
    query.filter = Filter::ours(&doc! { "$or": [own, theirs] }).and(query.filter);
    list(services, caller, services.feed.former_types().await?, &query).await
}

/// The entries of objects that the caller may see. Those of DATAGERRY do not name the types of their objects, so they are
/// not among them.
///
/// # Errors
/// A refusal when more than `most` objects were deleted, which have to be distinguished; errors of the store.
pub async fn of_objects(
    services: &Services,
    caller: &Caller,
    (of, most): (Of, u64),
    mut query: ListQuery,
) -> Result<Listed, ServiceError> {
    let deletions = Filter::equals("action", Action::Delete.name());
    let changes = || Filter::none_of("action", [Action::Delete.name()]);
    let chosen = match of {
        Of::Deletions => deletions,
        Of::Present => changes().and(Filter::none_of("public_id", gone(services, caller, most).await?)),
        Of::Gone => changes().and(Filter::one_of("public_id", gone(services, caller, most).await?)),
    };
    query.filter = of_kind(KIND).and(chosen).and(query.filter);
    list(services, caller, services.feed.former_types().await?, &query).await
}

/// The ids of visible objects that were deleted and are not there.
async fn gone(services: &Services, caller: &Caller, most: u64) -> Result<BTreeSet<i64>, ServiceError> {
    let (types, former) = (services.current_types().await?, services.feed.former_types().await?);
    let deletions = of_kind(KIND).and(Filter::equals("action", Action::Delete.name()));
    let deletions = match visible(caller, &types, &former) {
        Some(visible) => deletions.guarded_by(visible),
        None => deletions,
    };
    let ids = [bson!({ "$group": { "_id": "$public_id" } })];
    let ids = Pipeline::parse(&ids, &Limits::NONE, services.now())?;
    let query = AggregateQuery::new(Pipeline::matching(deletions).then(ids), services.max_time);
    let mut chunks = services.store.aggregate(LOGS, &query).await?;
    let mut gone = BTreeSet::new();
    while let Some(chunk) = chunks.try_next().await? {
        admission::current().hold(chunk.len() * 2 * size_of::<Bson>())?;
        gone.extend(chunk.iter().filter_map(|entry| integer(entry, "_id")));
        if gone.len() as u64 > most {
            let message = format!("more than {most} objects were deleted; ask for the log of one object");
            return Err(ServiceError::refused(ErrorCode::ParameterInvalid, message));
        }
    }
    let filter = Filter::one_of("public_id", gone.iter().copied());
    let query = FindQuery::new(filter, services.max_time).showing(&doc! { "_id": 0, "public_id": 1 });
    let again = services.store.find(Objects::COLLECTION, &query).await?;
    for object in again.iter() {
        gone.remove(&integer(object, "public_id").unwrap_or_default());
    }
    Ok(gone)
}

/// The entry with this sequence, if it is of an object and the caller may see it.
///
/// # Errors
/// 404 for others; errors of the store.
pub async fn entry(services: &Services, caller: &Caller, sequence: i64) -> Result<RawDocumentBuf, ServiceError> {
    let filter = of_kind(KIND).and(Filter::equals("sequence", sequence));
    let found = first(services, caller, filter, 1).await?;
    let found = found.into_iter().next();
    found.ok_or_else(|| ServiceError::not_found(ErrorCode::NotFound, sequence))
}

/// The newest entries of changes of an object, `most` at most.
///
/// # Errors
/// Errors of the store.
pub async fn edits(
    services: &Services,
    caller: &Caller,
    public_id: i64,
    most: u64,
) -> Result<Vec<RawDocumentBuf>, ServiceError> {
    let others = [Action::Create, Action::Delete, Action::ActiveChange].map(Action::name);
    let filter = of_kind(KIND).and(Filter::equals("public_id", public_id)).and(Filter::none_of("action", others));
    first(services, caller, filter, most).await
}

async fn first(
    services: &Services,
    caller: &Caller,
    filter: Filter,
    limit: u64,
) -> Result<Vec<RawDocumentBuf>, ServiceError> {
    let query = ListQuery { keyed: false, ..ListQuery::first(filter, Sort::by("sequence", true), limit) };
    let listed = list(services, caller, services.feed.former_types().await?, &query).await?;
    let page = listed.into_page().unwrap_or_default();
    Ok(page.documents.iter().map(ToOwned::to_owned).collect())
}

/// An entry of DATAGERRY whose object the caller may see.
///
/// # Errors
/// 404 for others; errors of the store.
pub async fn entry_of_datagerry(
    services: &Services,
    caller: &Caller,
    public_id: i64,
) -> Result<RawDocumentBuf, ServiceError> {
    let absent = || ServiceError::not_found(ErrorCode::NotFound, public_id);
    let filter = Filter::equals("public_id", public_id).and(Filter::equals("log_type", OBJECT_LOG));
    let found = services.store.first(LOGS, FindQuery::new(filter, services.max_time)).await?;
    let entry = found.ok_or_else(absent)?;
    let object = integer(&entry, "object_id").ok_or_else(absent)?;
    match get_object(services, caller, object).await {
        Ok(_) => Ok(entry),
        Err(ServiceError::Refused { .. }) => Err(absent()),
        Err(error) => Err(error),
    }
}

/// What an entry changed.
pub struct Change {
    /// Whether the object is active since; nothing if that stayed.
    pub active: Option<bool>,
    /// Values of fields: the name, the one before and the one after.
    pub fields: Vec<(String, Bson, Bson)>,
}

/// What the entry with this sequence changed of an object, without values of password fields. Nothing where it is unknown.
///
/// # Errors
/// Errors of the store.
pub async fn change(
    services: &Services,
    caller: &Caller,
    (public_id, sequence): (i64, i64),
) -> Result<Option<Change>, ServiceError> {
    let (from, to) = (Moment::Sequence(sequence - 1), Moment::Sequence(sequence));
    let diff = match diff_object(services, caller, public_id, from, Some(to)).await {
        Ok(diff) => diff,
        Err(ServiceError::Refused { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_active = |object: &Option<RawDocumentBuf>| object.as_ref().and_then(|object| object.get_bool("active").ok());
    let active = is_active(&diff.after).filter(|after| is_active(&diff.before) != Some(*after));
    let value = |side: Option<RawDocumentBuf>| {
        let value = side.and_then(|side| Bson::try_from(side.get("value").ok()??).ok());
        value.unwrap_or(Bson::Null)
    };
    let fields = diff.fields.into_iter().map(|field| (field.name, value(field.from), value(field.to))).collect();
    Ok(Some(Change { active, fields }))
}
