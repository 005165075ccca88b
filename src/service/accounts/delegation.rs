//! Delegation: the groups that the caller may put users into, and the users whom the caller may change.
//! docs/api.md, Who may change whom.
//!
//! A group *exceeds* a user when it holds a right that the user lacks. It also does when an activated access list gives
//! it a permission that the user's group lacks. One definition, [`excess`], serves every route that creates, moves or
//! changes users or acts in their name. Three things are no excess:
//!
//! - rights of the group `user`, so that a caller who may only add users can add ordinary ones;
//! - access lists, for a caller who may edit types and so can change the lists themselves;
//! - anything, for the operator on the command line.
//!
//! *Invariant:* the comparison is a condition of the write. If a group gains rights meanwhile, the write decides again.

use bson::raw::RawDocument;
use bson::{Bson, doc};

use super::directory::Caller;
use crate::auth::Rights;
use crate::domain::acl::Permission;
use crate::domain::document::{integer, text};
use crate::domain::group::{USER_GROUP, right_names};
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::resource::{self, Groups, Resource, Types, Users};
use crate::service::services::Services;
use crate::service::types::catalog::VIEW_TYPES;
use crate::store::{Condition, FindQuery};

/// Who holds it holds every right.
const EVERYTHING: &str = "base.*";
/// Who holds it writes access lists.
const EDIT_TYPES: &str = "base.framework.type.edit";

/// How many types a refusal names at most.
const NAMED_TYPES: u64 = 10;

/// The rights and access of a user, to be compared with a group.
#[derive(Clone, Copy)]
pub(crate) struct Holder<'a> {
    /// The group whose permissions the user has.
    pub(crate) group_id: i64,
    /// The user's rights.
    pub(crate) rights: &'a Rights,
}

impl<'a> From<&'a Caller> for Holder<'a> {
    fn from(caller: &'a Caller) -> Self {
        Self { group_id: caller.group_id, rights: &caller.rights }
    }
}

/// A group, as it is stored or as it will be.
pub(crate) struct Standing {
    /// Its id.
    pub(crate) group_id: i64,
    /// The names of the rights that it holds.
    pub(crate) rights: Vec<String>,
    /// The condition that it does not change; none if the unit itself replaces or removes the group.
    pinned: Option<Condition>,
}

impl Standing {
    /// A group that the unit itself writes, with these rights.
    pub(crate) fn written<'a>(group_id: i64, rights: impl IntoIterator<Item = &'a str>) -> Self {
        Self { group_id, rights: rights.into_iter().map(str::to_owned).collect(), pinned: None }
    }

    /// The condition that the group does not change.
    pub(crate) fn pinned(&self) -> Option<Condition> {
        self.pinned.clone()
    }

    /// The stored group with this id. One that does not exist holds nothing, but may still be in access lists.
    pub(crate) async fn stored(services: &Services, group_id: i64) -> Result<(Self, bool), ServiceError> {
        let found = resource::find::<Groups>(services, group_id).await?;
        let mut standing = Self::written(group_id, found.as_deref().map(right_names).unwrap_or_default());
        standing.pinned = Some(match &found {
            Some(group) => as_read(group_id, group)?,
            None => Condition::None { collection: Groups::COLLECTION, filter: Filter::equals("public_id", group_id) },
        });
        Ok((standing, found.is_some()))
    }
}

/// What a group has beyond a user, and the conditions under which this answer stays true.
pub(crate) struct Excess {
    /// The names of the rights.
    pub(crate) rights: Vec<String>,
    /// The first few names of types whose access lists grant more.
    pub(crate) types: Vec<String>,
    /// Conditions for the unit that depends on the answer.
    pub(crate) conditions: Vec<Condition>,
}

impl Excess {
    /// Whether the group does not exceed the holder.
    pub(crate) fn is_none(&self) -> bool {
        self.rights.is_empty() && self.types.is_empty()
    }
}

/// What the group has beyond the holder.
pub(crate) async fn excess(services: &Services, holder: Holder<'_>, group: &Standing) -> Result<Excess, ServiceError> {
    let mut found = Excess { rights: Vec::new(), types: Vec::new(), conditions: Vec::new() };
    if holder.rights.grants(EVERYTHING) {
        return Ok(found);
    }
    found.conditions.extend(group.pinned.clone());
    let missing = holder.rights.missing(group.rights.iter().map(String::as_str));
    if !missing.is_empty() {
        let everyone = resource::find::<Groups>(services, USER_GROUP).await?;
        let exempt = Rights::new(everyone.as_deref().map(right_names).unwrap_or_default());
        found.rights = exempt.missing(missing).into_iter().map(str::to_owned).collect();
        if let Some(everyone) = everyone.filter(|_| group.group_id != USER_GROUP) {
            found.conditions.push(as_read(USER_GROUP, &everyone)?);
        }
    }
    if holder.group_id != group.group_id && !holder.rights.grants(EDIT_TYPES) {
        let filter = more_access(holder.group_id, group.group_id);
        let query = FindQuery::new(filter.clone(), services.max_time).limited(NAMED_TYPES);
        let types = services.store.find(Types::COLLECTION, &query).await?;
        found.types = types.iter().map(|found| text(found, "name").unwrap_or("?").to_owned()).collect();
        found.conditions.push(Condition::None { collection: Types::COLLECTION, filter });
    }
    Ok(found)
}

/// Refuses a group that exceeds the caller; returns the conditions under which it does not.
///
/// # Errors
/// [`ErrorCode::RightsExceeded`] listing what exceeds the caller.
pub(crate) async fn group(
    services: &Services,
    caller: &Caller,
    group: &Standing,
) -> Result<Vec<Condition>, ServiceError> {
    if caller.is_operator() {
        return Ok(Vec::new());
    }
    let excess = excess(services, caller.into(), group).await?;
    if excess.is_none() { Ok(excess.conditions) } else { Err(refusal(caller, group.group_id, &excess)) }
}

/// Refuses another user whose group exceeds the caller. Returns the conditions under which a unit may act in the user's
/// name: the user exists and is in this group, and the group does not exceed the caller.
///
/// # Errors
/// [`ErrorCode::UserNotFound`]; as [`group`].
pub(crate) async fn user(services: &Services, caller: &Caller, user_id: i64) -> Result<Vec<Condition>, ServiceError> {
    let exists = |filter| Condition::Exists { collection: Users::COLLECTION, filter };
    let by_id = Filter::equals("public_id", user_id);
    if caller.is(user_id) {
        return Ok(vec![exists(by_id)]);
    }
    let stored = resource::get::<Users>(services, user_id).await?;
    let mut conditions = stored_user(services, caller, &stored).await?;
    let group_id = stored.get("group_id").ok().flatten().map_or(Ok(Bson::Null), Bson::try_from);
    let group_id = group_id.unwrap_or(Bson::Null);
    conditions.insert(0, exists(by_id.and(Filter::equals("group_id", group_id))));
    Ok(conditions)
}

/// As [`user`], for a unit that replaces or removes the user document that was read.
///
/// # Errors
/// As [`group`].
pub(crate) async fn stored_user(
    services: &Services,
    caller: &Caller,
    user: &RawDocument,
) -> Result<Vec<Condition>, ServiceError> {
    if integer(user, "public_id").is_some_and(|id| caller.is(id)) || caller.is_operator() {
        return Ok(Vec::new());
    }
    let group_id = integer(user, "group_id").unwrap_or_default();
    group(services, caller, &Standing::stored(services, group_id).await?.0).await
}

fn refusal(caller: &Caller, group_id: i64, excess: &Excess) -> ServiceError {
    let message = if excess.rights.is_empty() {
        let own = caller.group_id;
        let named =
            if caller.rights.grants(VIEW_TYPES) { format!(": {}", excess.types.join(", ")) } else { String::new() };
        format!("access lists of types give group {group_id} permissions that your group {own} does not have{named}")
    } else {
        format!("group {group_id} holds rights that you do not hold: {}", excess.rights.join(", "))
    };
    ServiceError::refused(ErrorCode::RightsExceeded, message)
}

/// The types whose access lists give the group a permission that the other group does not have. It reads lists as
/// [`Acl`](crate::domain::acl::Acl) does.
fn more_access(than: i64, group_id: i64) -> Filter {
    let listed = |group_id: i64| format!("acl.groups.includes.{group_id}");
    let gained = Permission::ALL.map(|permission| {
        let names = doc! {"$elemMatch": {"$eq": permission.name()}};
        Bson::from(doc! {listed(group_id): names.clone(), listed(than): {"$not": names}})
    });
    let activated = doc! {"$nin": [Bson::Null, Bson::Boolean(false), Bson::Int32(0)]};
    Filter::ours(&doc! {"acl.activated": activated, "$or": gained.to_vec()})
}

/// The condition that a group still holds the rights that were read.
fn as_read(group_id: i64, group: &RawDocument) -> Result<Condition, ServiceError> {
    let rights = resource::decode(group)?.remove("rights").unwrap_or(Bson::Null);
    let filter = Filter::equals("public_id", group_id).and(Filter::equals("rights", rights));
    Ok(Condition::Exists { collection: Groups::COLLECTION, filter })
}
