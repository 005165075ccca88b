//! The object in the answer to a write: callers who may read it get all of it, others only its id.
//!
//! *Invariant:* a caller who may change or delete objects, but not read them, learns nothing of their content.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::rawdoc;

use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::precondition::IfMatch;
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, lets_through};
use crate::store::Documents;

/// The right to read objects; the access lists of their types apply in addition.
pub(super) const VIEW: &str = "base.framework.object.view";

/// A written object as its caller may see it.
pub struct VisibleObject {
    /// The object, or its `public_id` alone.
    pub document: RawDocumentBuf,
    /// Whether it is the whole object; otherwise an entity tag would reveal its content.
    pub is_whole: bool,
}

impl VisibleObject {
    /// The part of the object that the caller may see.
    ///
    /// # Errors
    /// Errors of the store when it reads the types.
    pub async fn of(services: &Services, caller: &Caller, object: RawDocumentBuf) -> Result<Self, ServiceError> {
        if may_read(services, caller, &object).await? {
            return Ok(Self { document: object, is_whole: true });
        }
        Ok(Self { document: id_alone(&object), is_whole: false })
    }
}

/// The part of each object that the caller may see.
///
/// # Errors
/// As [`VisibleObject::of`].
pub(crate) async fn all(services: &Services, caller: &Caller, objects: &Documents) -> Result<Documents, ServiceError> {
    let types = services.types_of(objects.iter()).await?;
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

/// Whether the caller's rights and the access list of its type allow reading the object.
///
/// # Errors
/// As [`VisibleObject::of`].
pub(crate) async fn may_read(services: &Services, caller: &Caller, object: &RawDocument) -> Result<bool, ServiceError> {
    let types = services.types_of([object]).await?;
    Ok(caller.rights.grants(VIEW) && types.shows(caller, object))
}

/// As [`IfMatch::check`], only for a caller who may read the object: comparing a tag reveals whether the content is
/// what the caller guesses.
///
/// # Errors
/// [`ErrorCode::RightMissing`] and `acl_denied` for tags of a caller who may not; [`ServiceError::PreconditionFailed`].
pub(crate) fn check_tags(
    if_match: &IfMatch,
    entry: Option<&TypeEntry>,
    caller: &Caller,
    object: &RawDocument,
) -> Result<(), ServiceError> {
    if matches!(if_match, IfMatch::Tags(_)) {
        if !caller.rights.grants(VIEW) {
            let message = format!("If-Match with a tag needs the right {VIEW}; send If-Match: *");
            return Err(ServiceError::refused(ErrorCode::RightMissing, message));
        }
        entry.map_or(Ok(()), |entry| entry.permit(caller, Permission::Read))?;
    }
    if_match.check(object)
}

fn id_alone(object: &RawDocument) -> RawDocumentBuf {
    rawdoc! {"public_id": integer(object, "public_id").unwrap_or_default()}
}
