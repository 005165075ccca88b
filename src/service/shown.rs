//! What the answer to a write shows of an object: all of it to callers who may read it, its id to all others.
//!
//! *Invariant:* whoever may change or delete objects without reading them learns nothing of what they hold.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::rawdoc;

use super::directory::Caller;
use super::error::ServiceError;
use super::precondition::IfMatch;
use super::services::Services;
use super::type_catalog::{TypeEntry, lets_through};
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::store::Documents;

/// The right to read objects, on top of which come the access lists of their types.
const VIEW: &str = "base.framework.object.view";

/// A written object as its caller may see it.
pub struct Shown {
    /// The object, or its `public_id` alone.
    pub document: RawDocumentBuf,
    /// Whether it is the object; an entity tag would tell about the rest of it.
    pub is_whole: bool,
}

impl Shown {
    /// As much of the object as the caller may see.
    ///
    /// # Errors
    /// What the store reports when it is asked for the types.
    pub(super) async fn of(services: &Services, caller: &Caller, object: RawDocumentBuf) -> Result<Self, ServiceError> {
        if caller.rights.grants(VIEW) && may_read(services, caller, &object).await? {
            return Ok(Self { document: object, is_whole: true });
        }
        Ok(Self { document: id_alone(&object), is_whole: false })
    }
}

/// Of each object as much as the caller may see.
///
/// # Errors
/// As [`Shown::of`].
pub(super) async fn all(services: &Services, caller: &Caller, objects: &Documents) -> Result<Documents, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let visible = types.visible_to(caller);
    let mut shown = Documents::default();
    for object in objects.iter() {
        if caller.rights.grants(VIEW) && lets_through(visible.as_ref(), object) {
            shown.push(object);
        } else {
            shown.push(&id_alone(object));
        }
    }
    Ok(shown)
}

/// Whether the access list of its type lets the caller read the object.
///
/// # Errors
/// As [`Shown::of`].
pub(super) async fn may_read(services: &Services, caller: &Caller, object: &RawDocument) -> Result<bool, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    Ok(types.shows(caller, object))
}

/// As [`IfMatch::check`], for a caller who may read the object: a tag tells whether the content is what the caller thinks.
///
/// # Errors
/// `acl_denied` for tags of a caller who may not; [`ServiceError::PreconditionFailed`].
pub(super) fn check_tags(
    if_match: &IfMatch,
    entry: &TypeEntry,
    caller: &Caller,
    object: &RawDocument,
) -> Result<(), ServiceError> {
    if matches!(if_match, IfMatch::Tags(_)) {
        entry.permit(caller, Permission::Read)?;
    }
    if_match.check(object)
}

fn id_alone(object: &RawDocument) -> RawDocumentBuf {
    rawdoc! {"public_id": integer(object, "public_id").unwrap_or_default()}
}
