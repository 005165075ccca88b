//! Groups of users and the rights that they hold (sections 4.2 and 2.3, decisions 7).

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::precondition::IfMatch;
use super::resource::{self, Decision, Groups, Users};
use super::{Caller, ServiceError, Services, rights, users};
use crate::auth::Rights;
use crate::auth::rights as catalogue;
use crate::domain::document::integer;
use crate::domain::group::{ADMIN_GROUP, USER_GROUP, right_names};
use crate::domain::group_input;
use crate::query::{Filter, Update};
use crate::service::resource::Resource;
use crate::store::{Change, Condition, FindQuery, StoreError, Unit};

/// What becomes of the users of a group that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsersOfGroup {
    /// Nothing is said: there must be none.
    MustBeNone,
    /// They move to this group.
    Move {
        /// Its id.
        group_id: i64,
    },
    /// They are deleted too.
    Delete,
}

/// Stores a new group.
///
/// # Errors
/// Violations of section 2.3, a taken name or id, rights that the caller does not hold.
pub async fn create_group(
    services: &Services,
    caller: &Caller,
    body: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let accepted = read(body)?;
    rights::may_give(caller, names(&accepted), "the group would hold")?;
    let wanted = accepted.get_i64("public_id").ok();
    resource::create::<Groups>(services, wanted, Vec::new(), |id| group_input::created(&accepted, id)).await
}

/// Puts the body in the place of the group.
///
/// # Errors
/// As [`create_group`], and those of [`resource::change`].
pub async fn update_group(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    body: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| replace_group(caller, id, body, before);
    Ok(resource::change::<Groups>(services, id, if_match, decide).await?.1)
}

/// Merges the patch (RFC 7396) into the group and goes on as [`update_group`].
///
/// # Errors
/// As [`update_group`].
pub async fn patch_group(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    patch: &serde_json::Value,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| replace_group(caller, id, &resource::merged(before, patch)?, before);
    Ok(resource::change::<Groups>(services, id, if_match, decide).await?.1)
}

fn replace_group(caller: &Caller, id: i64, body: &Document, before: &RawDocument) -> Result<Decision, ServiceError> {
    let accepted = read(body)?;
    resource::same_id(&accepted, id)?;
    // What the group holds already is not given now.
    let held = Rights::new(right_names(before));
    rights::may_give(caller, names(&accepted).filter(|right| !held.grants(right)), "the group would hold")?;
    if id == ADMIN_GROUP && !names(&accepted).any(|right| right == "base.*") {
        let message = "group 1 keeps the right base.*: without it nobody could give rights any more";
        return Err(ServiceError::violation("/rights", message));
    }
    Decision::replace::<Groups>(before, &group_input::updated(&accepted, &resource::decode(before)?))
}

/// Removes a group, and moves or deletes its users in the same unit.
///
/// # Errors
/// [`ServiceError::Invalid`] for the groups 1 and 2, for a group with users when nothing is said about them, for a group
/// to move to that is not there; [`ServiceError::Forbidden`] when that group is above the caller; those of
/// [`resource::remove`] and, where users are deleted, of [`users::delete_user`].
pub async fn delete_group(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    users_of_group: UsersOfGroup,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |_: &RawDocument| {
        if [ADMIN_GROUP, USER_GROUP].contains(&id) {
            return Err(ServiceError::invalid("group_stays", format!("group {id} cannot be deleted")));
        }
        match users_of_group {
            UsersOfGroup::MustBeNone => none_left(services, id).await,
            UsersOfGroup::Move { group_id } => move_users(services, caller, id, group_id).await,
            UsersOfGroup::Delete => delete_users(services, caller, id).await,
        }
    };
    for _ in 0..resource::DECISIONS {
        match resource::remove::<Groups>(services, id, if_match, decide).await {
            Err(ServiceError::Store(StoreError::Condition { .. })) => {}
            outcome => return outcome.map(|(removed, _)| removed),
        }
    }
    Err(ServiceError::Contended(format!("the users of group {id}")))
}

async fn none_left(services: &Services, id: i64) -> Result<Unit, ServiceError> {
    let count = services.store.count(Users::COLLECTION, &members(id), services.max_time).await?;
    if count > 0 {
        let message = format!("group {id} has {count} users; say action=MOVE with group_id, or action=DELETE");
        return Err(ServiceError::invalid("group_has_users", message));
    }
    Ok(Unit::default().given(Condition::None { collection: Users::COLLECTION, filter: members(id) }))
}

async fn move_users(services: &Services, caller: &Caller, id: i64, group_id: i64) -> Result<Unit, ServiceError> {
    if group_id == id {
        return Err(ServiceError::invalid("group_to_move_to", "group_id must be another group than the deleted one"));
    }
    match users::may_place(services, caller, group_id).await {
        Err(ServiceError::Violations(_)) => {
            return Err(ServiceError::invalid("group_to_move_to", format!("group {group_id} does not exist")));
        }
        outcome => outcome?,
    }
    let target = Filter::equals("public_id", group_id);
    let update = Update::set("group_id", group_id);
    let change = Change::UpdateMany { collection: Users::COLLECTION, filter: members(id), update };
    Ok(Unit::of(change).given(Condition::Exists { collection: Groups::COLLECTION, filter: target }))
}

/// Deletes the users that are in the group now, given that nobody else joins it meanwhile.
async fn delete_users(services: &Services, caller: &Caller, id: i64) -> Result<Unit, ServiceError> {
    let found = services.store.find(Users::COLLECTION, &FindQuery::new(members(id), services.max_time)).await?;
    let mut ids = Vec::with_capacity(found.len());
    for user_id in found.iter().filter_map(|user| integer(user, "public_id")) {
        users::may_delete(caller, user_id)?;
        ids.push(Bson::Int64(user_id));
    }
    let others = members(id).and(Filter::none_of("public_id", ids.clone()));
    let users = Change::DeleteMany { collection: Users::COLLECTION, filter: Filter::one_of("public_id", ids.clone()) };
    // The users go last: where a crash can come in between, saying the same again finds them and completes it.
    let unit = Unit { conditions: Vec::new(), changes: users::belongings(&ids) }.and(users);
    Ok(unit.given(Condition::None { collection: Users::COLLECTION, filter: others }))
}

fn members(group_id: i64) -> Filter {
    Filter::equals("group_id", group_id)
}

fn read(body: &Document) -> Result<Document, ServiceError> {
    group_input::read(body, |name| catalogue::find(name).is_some()).map_err(ServiceError::Violations)
}

fn names(accepted: &Document) -> impl Iterator<Item = &str> {
    accepted.get_array("rights").into_iter().flatten().filter_map(Bson::as_str)
}
