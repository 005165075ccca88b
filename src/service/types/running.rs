//! What is known of the last migration of each type: a note in `service.type_migrations`, under the id of the type.
//!
//! A migration of more objects than one unit holds is *running* until the last of them has changed. Meanwhile the type is stored
//! as inactive, so nobody else writes its objects. They change in the order of their ids, and the note says up to which: that is
//! how a reader knows the type under which an object is stored.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use crate::domain::document::{integer, raw, text};
use crate::domain::object_type::ObjectType;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::store::collections::TYPE_MIGRATIONS;
use crate::store::{Change, FindQuery, Store, StoreError};

/// The states of a migration.
pub const RUNNING: &str = "running";
/// All objects have changed.
pub const DONE: &str = "done";
/// Nothing has changed: objects that others changed at the last moment refuse a step.
pub const REFUSED: &str = "refused";

/// A migration that is running.
#[derive(Debug, Clone)]
pub struct Running {
    /// The type.
    pub type_id: i64,
    /// The type as it was.
    pub former: Arc<ObjectType>,
    /// The objects up to this id have changed.
    pub upto: i64,
}

impl Running {
    /// That of a note.
    pub fn of(note: &RawDocument) -> Option<Self> {
        if text(note, "state") != Some(RUNNING) {
            return None;
        }
        let former = ObjectType::from_document(note.get_document("former").ok()?).ok()?;
        Some(Self { type_id: integer(note, "_id")?, former: Arc::new(former), upto: upto(note) })
    }
}

/// Up to which id the objects of a noted migration have changed.
pub(crate) fn upto(note: &RawDocument) -> i64 {
    match text(note, "state") {
        Some(RUNNING) => integer(note, "upto").unwrap_or_default(),
        _ => i64::MAX,
    }
}

/// All running ones.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn all(store: &dyn Store, max_time: Duration) -> Result<Vec<Running>, StoreError> {
    let running = FindQuery::new(Filter::equals("state", RUNNING), max_time);
    Ok(store.find(TYPE_MIGRATIONS, &running).await?.iter().filter_map(Running::of).collect())
}

/// The notes of these types.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn notes(
    store: &dyn Store,
    ids: &[i64],
    max_time: Duration,
) -> Result<Vec<RawDocumentBuf>, StoreError> {
    let found =
        store.find(TYPE_MIGRATIONS, &FindQuery::new(Filter::one_of("_id", ids.iter().copied()), max_time)).await?;
    Ok(found.iter().map(RawDocument::to_owned).collect())
}

/// The note of a type.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn note(store: &dyn Store, id: i64, max_time: Duration) -> Result<Option<RawDocumentBuf>, StoreError> {
    Ok(notes(store, &[id], max_time).await?.pop())
}

/// Refuses a change of a type whose objects are being migrated.
///
/// # Errors
/// [`ErrorCode::TypeMigrating`]; errors of the store.
pub(crate) async fn refuse(store: &dyn Store, id: i64, max_time: Duration) -> Result<(), ServiceError> {
    let note = note(store, id, max_time).await?;
    if note.is_none_or(|note| text(&note, "state") != Some(RUNNING)) {
        return Ok(());
    }
    let message = format!("the objects of type {id} are being migrated; GET /rest/types/{id}/migration says how far");
    Err(ServiceError::refused(ErrorCode::TypeMigrating, message))
}

/// The change that stores a note.
pub(crate) fn noted(before: Option<&RawDocument>, note: &Document) -> Change {
    Change::put(TYPE_MIGRATIONS, before.map(RawDocument::to_owned), raw(note))
}

/// A note with other members; null removes one.
pub(crate) fn with(note: &RawDocument, members: Document) -> Result<Document, StoreError> {
    let unreadable = |error: bson::error::Error| StoreError::Corrupt { what: format!("{TYPE_MIGRATIONS}: {error}") };
    let mut changed = Document::try_from(note).map_err(unreadable)?;
    for (name, value) in members {
        if value == Bson::Null { drop(changed.remove(name)) } else { drop(changed.insert(name, value)) }
    }
    Ok(changed)
}

/// The steps as a note names them: without values, which may be passwords.
pub(crate) fn named(steps: &[crate::domain::migration_input::Step]) -> Vec<Document> {
    steps.iter().map(|step| doc! {"step": step.name(), "field": step.field()}).collect()
}
