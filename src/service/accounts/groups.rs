//! Groups of users and the rights that they hold: docs/api.md, Groups.

use std::collections::BTreeSet;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::delegation::{self, Holder, Standing};
use super::directory::Caller;
use super::{revocation, rights, users};
use crate::auth::Rights;
use crate::auth::rights as catalogue;
use crate::domain::document::{integer, text};
use crate::domain::group::{ADMIN_GROUP, USER_GROUP, right_names};
use crate::domain::group_input::{self, GROUP};
use crate::domain::schema::without_unknown;
use crate::plural::counted;
use crate::query::{Filter, Update};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::objects::reports;
use crate::service::precondition::IfMatch;
use crate::service::resource::{self, Decision, Groups, NewState, Resource, Users};
use crate::service::services::Services;
use crate::store::{Change, Condition, FindQuery, Unit};

/// What happens to the users of a deleted group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsersOfGroup {
    /// The parameter is missing: there must be no members.
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
/// Violations of the body, a taken name or id, rights that the caller does not hold.
pub async fn create_group(
    services: &Services,
    caller: &Caller,
    body: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let accepted = read(body, None)?;
    rights::may_give(caller, names(&accepted), "the group would hold")?;
    let wanted = accepted.get_i64("public_id").ok();
    resource::create::<Groups>(services, wanted, Vec::new(), |id| group_input::created(&accepted, id)).await
}

/// Changes the group to what was sent.
///
/// # Errors
/// As [`create_group`], and those of [`resource::change`].
pub async fn change_group(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    sent: NewState<'_>,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| replace_group(services, caller, id, &*sent.body(before)?, before).await;
    let change = async || resource::change::<Groups>(services, id, if_match, &decide).await;
    Ok(resource::until_it_holds(members_of(id), change).await?.1)
}

async fn replace_group(
    services: &Services,
    caller: &Caller,
    id: i64,
    body: &Document,
    before: &RawDocument,
) -> Result<Decision, ServiceError> {
    let stored = resource::decode(before)?;
    let accepted = read(body, Some(&stored))?;
    resource::same_id(&accepted, id)?;
    // Rights that the group already holds are not newly granted.
    let held = Rights::new(right_names(before));
    rights::may_give(caller, names(&accepted).filter(|right| !held.grants(right)), "the group would hold")?;
    if id == ADMIN_GROUP && !names(&accepted).any(|right| right == "base.*") {
        let message = "group 1 keeps the right base.*: without it nobody could give rights any more";
        return Err(ServiceError::violation("/rights", message));
    }
    let after = group_input::updated(&accepted, &stored);
    let mut decision = Decision::replace::<Groups>(before, &after)?;
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let keeps_rights = set(&right_names(before)) == set(&right_names(&decision.after));
    // Settings and commands name groups: who gave the name of a group to another one could place users there.
    if !keeps_rights || text(before, "name") != text(&decision.after, "name") {
        let standing = Standing::written(id, right_names(before));
        decision.unit.conditions = delegation::group(services, caller, &standing).await?;
    }
    if !keeps_rights {
        let gained = Standing::written(id, right_names(&decision.after));
        if !delegation::excess(services, Holder { group_id: id, rights: &held }, &gained).await?.is_none() {
            let (ids, unchanged) = present_members(services, id).await?;
            decision.unit.changes.extend(revocation::ends(services, caller, &ids, &gained).await?);
            decision.unit.conditions.push(unchanged);
        }
    }
    Ok(decision)
}

/// Removes a group, and moves or deletes its users in the same unit.
///
/// # Errors
/// [`ErrorCode::GroupStays`] for the groups 1 and 2. [`ErrorCode::GroupHasUsers`] for a group with users and no action.
/// An error for a missing group to move to, and [`ErrorCode::RightsExceeded`] when that group exceeds the caller.
/// Errors of [`resource::remove`] and, if users are deleted, of [`users::delete_user`].
pub async fn delete_group(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    users_of_group: UsersOfGroup,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| {
        if [ADMIN_GROUP, USER_GROUP].contains(&id) {
            return Err(ServiceError::refused(ErrorCode::GroupStays, format!("group {id} cannot be deleted")));
        }
        if users_of_group == UsersOfGroup::MustBeNone {
            return none_left(services, id).await;
        }
        let standing = Standing::written(id, right_names(before));
        let conditions = delegation::group(services, caller, &standing).await?;
        let mut unit = match users_of_group {
            UsersOfGroup::MustBeNone => Unit::default(),
            UsersOfGroup::Move { group_id } => move_users(services, caller, id, group_id).await?,
            UsersOfGroup::Delete => delete_users(services, caller, id).await?,
        };
        unit.conditions.extend(conditions);
        Ok(unit)
    };
    let decide = async |before: &RawDocument| Ok(decide(before).await?.and(reports::of_group(id)));
    let remove = async || resource::remove::<Groups>(services, id, if_match, &decide).await;
    Ok(resource::until_it_holds(members_of(id), remove).await?.0)
}

fn members_of(id: i64) -> String {
    format!("the users of group {id}")
}

async fn none_left(services: &Services, id: i64) -> Result<Unit, ServiceError> {
    let count = services.store.count(Users::COLLECTION, &members(id), services.max_time).await?;
    if count > 0 {
        let message =
            format!("group {id} has {}; say action=MOVE with group_id, or action=DELETE", counted(count, "user"));
        return Err(ServiceError::refused(ErrorCode::GroupHasUsers, message));
    }
    Ok(Unit::default().given(Condition::None { collection: Users::COLLECTION, filter: members(id) }))
}

async fn move_users(services: &Services, caller: &Caller, id: i64, group_id: i64) -> Result<Unit, ServiceError> {
    if group_id == id {
        return Err(ServiceError::refused(
            ErrorCode::GroupToMoveTo,
            "group_id must be another group than the deleted one",
        ));
    }
    let (group, conditions) = match users::may_place(services, caller, group_id).await {
        Err(ServiceError::Violations(_)) => {
            return Err(ServiceError::refused(ErrorCode::GroupToMoveTo, format!("group {group_id} does not exist")));
        }
        outcome => outcome?,
    };
    let (ids, unchanged) = present_members(services, id).await?;
    let update = Update::set("group_id", group_id);
    let mut unit = Unit::of(Change::UpdateMany { collection: Users::COLLECTION, filter: members(id), update });
    unit.conditions = conditions;
    let ending = users::ends_by_moving(services, caller, &ids, id, &group).await?;
    if !ending.is_empty() {
        unit.conditions.push(unchanged);
    }
    unit.changes.extend(ending);
    Ok(unit)
}

/// Deletes the present users of the group, on the condition that nobody else joins it meanwhile.
async fn delete_users(services: &Services, caller: &Caller, id: i64) -> Result<Unit, ServiceError> {
    let (ids, unchanged) = present_members(services, id).await?;
    for user_id in &ids {
        users::may_delete(caller, *user_id)?;
    }
    let users = Change::DeleteMany { collection: Users::COLLECTION, filter: Filter::one_of("public_id", ids.clone()) };
    // The users are deleted last: after a crash in between, repeating the request finds them and completes it.
    Ok(Unit { conditions: vec![unchanged], changes: users::belongings(&ids) }.and(users))
}

/// The users of the group, with the condition that it has no others.
async fn present_members(services: &Services, id: i64) -> Result<(Vec<i64>, Condition), ServiceError> {
    let found = services.store.find(Users::COLLECTION, &FindQuery::new(members(id), services.max_time)).await?;
    let ids: Vec<i64> = found.iter().filter_map(|user| integer(user, "public_id")).collect();
    let others = members(id).and(Filter::none_of("public_id", ids.iter().copied()));
    Ok((ids, Condition::None { collection: Users::COLLECTION, filter: others }))
}

fn members(group_id: i64) -> Filter {
    Filter::equals("group_id", group_id)
}

fn read(body: &Document, stored: Option<&Document>) -> Result<Document, ServiceError> {
    let read = group_input::read(body, |name| catalogue::find(name).is_some());
    without_unknown(&GROUP, body, stored, read).map_err(ServiceError::Violations)
}

fn names(accepted: &Document) -> impl Iterator<Item = &str> {
    accepted.get_array("rights").into_iter().flatten().filter_map(Bson::as_str)
}
