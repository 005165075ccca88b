//! Saved reports: pipelines on objects under a name, of a user or of a group. docs/api.md, Reports.
//!
//! A report is no more than what its reader could ask for: it runs with the rights of who reads it.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use crate::domain::document::integer;
use crate::domain::report_input::{self, REPORT};
use crate::domain::schema::without_unknown;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::precondition::IfMatch;
use crate::service::resource::{self, Decision, Groups, Reports, Resource, Users};
use crate::service::services::Services;
use crate::store::{Change, ChunkedPage, Condition, FindQuery, Unit, scope_version};

/// Who holds it saves reports of groups.
const EDIT_GROUPS: &str = "base.user-management.group.edit";
/// Who holds it reads the reports of other groups.
const VIEW_GROUPS: &str = "base.user-management.group.view";

/// Which right a machine token needs to save reports of its user.
const EDIT_USERS: &str = "base.user-management.user.edit";

/// The maximum number of reports of a user or a group.
const MOST: u64 = 200;
/// The maximum number of bytes of a report, as it is stored.
const MOST_BYTES: usize = 64 * 1024;

/// Whose a report is.
#[derive(Debug, Clone, Copy)]
enum Owner {
    User(i64),
    Group(i64),
}

impl Owner {
    /// The caller, or the group that is named.
    fn named(caller: &Caller, group_id: Option<i64>) -> Self {
        group_id.map_or(Self::User(caller.user_id), Self::Group)
    }

    fn stored(self) -> (&'static str, i64) {
        match self {
            Self::User(id) => ("user", id),
            Self::Group(id) => ("group", id),
        }
    }

    fn filter(self) -> Filter {
        let (of, id) = self.stored();
        Filter::equals("of", of).and(Filter::equals("owner_id", id))
    }

    fn document(self) -> Document {
        let (of, id) = self.stored();
        doc! { "of": of, "owner_id": id }
    }

    /// That the owner is there: nothing is kept for who is gone.
    fn exists(self) -> Condition {
        match self {
            Self::User(id) => Condition::exists(Users::COLLECTION, id),
            Self::Group(id) => Condition::exists(Groups::COLLECTION, id),
        }
    }

    /// Refuses a caller who may not save reports of this owner. A group that the caller may not see is as none.
    fn admit(self, caller: &Caller) -> Result<(), ServiceError> {
        let (right, whose) = match self {
            Self::User(id) if caller.is(id) => return Ok(()),
            Self::User(_) => (EDIT_USERS, "a machine token saves reports of its user"),
            Self::Group(_) => (EDIT_GROUPS, "reports of a group are saved"),
        };
        if !caller.rights.grants(right) {
            let message = format!("{whose} with the right {right} only");
            return Err(ServiceError::refused(ErrorCode::RightMissing, message));
        }
        match self {
            Self::Group(id) if readable(caller, Some(id)).is_empty() => {
                Err(ServiceError::not_found(Groups::NOT_FOUND, id))
            }
            _ => Ok(()),
        }
    }
}

/// The changes that remove the reports of users, or of a group.
pub(in crate::service) fn of_users(ids: &[i64]) -> Change {
    let filter = Filter::equals("of", "user").and(Filter::one_of("owner_id", ids.iter().copied()));
    Change::DeleteMany { collection: Reports::COLLECTION, filter }
}

/// As [`of_users`], of a group.
pub(in crate::service) fn of_group(id: i64) -> Change {
    Change::DeleteMany { collection: Reports::COLLECTION, filter: Owner::Group(id).filter() }
}

/// The reports that the caller reads by their names alone: the caller's own, and those of the caller's group. With
/// `group_id` those of that group; none of one that the caller may not see.
///
/// # Errors
/// Errors of the store.
pub async fn list_reports(
    services: &Services,
    caller: &Caller,
    group_id: Option<i64>,
) -> Result<ChunkedPage, ServiceError> {
    let owners: Vec<Document> = readable(caller, group_id).into_iter().map(Owner::document).collect();
    let nobody = Filter::one_of("of", Vec::<&str>::new());
    let filter = if owners.is_empty() { nobody } else { Filter::ours(&doc! { "$or": owners }) };
    let query = FindQuery::new(filter, services.max_time).sorted(Sort::by("name", false));
    Ok(services.store.chunks(Reports::COLLECTION, &query).await?)
}

/// Whose reports the caller reads, the first before the second.
fn readable(caller: &Caller, group_id: Option<i64>) -> Vec<Owner> {
    match group_id {
        None => vec![Owner::User(caller.user_id), Owner::Group(caller.group_id)],
        Some(id) if id == caller.group_id || caller.rights.grants(VIEW_GROUPS) => vec![Owner::Group(id)],
        Some(_) => Vec::new(),
    }
}

/// The report with this name: the caller's own, else that of the caller's group; with `group_id` that of this group.
///
/// # Errors
/// [`ErrorCode::ReportNotFound`], also for a group that the caller may not see; errors of the store.
pub async fn get_report(
    services: &Services,
    caller: &Caller,
    (group_id, name): (Option<i64>, &str),
) -> Result<RawDocumentBuf, ServiceError> {
    for owner in readable(caller, group_id) {
        if let Some(found) = find(services, owner, name).await? {
            return Ok(found);
        }
    }
    Err(ServiceError::not_found(Reports::NOT_FOUND, name))
}

async fn find(services: &Services, owner: Owner, name: &str) -> Result<Option<RawDocumentBuf>, ServiceError> {
    let query = FindQuery::new(owner.filter().and(Filter::equals("name", name)), services.max_time);
    Ok(services.store.first(Reports::COLLECTION, query).await?)
}

/// Refuses a caller who may not save own reports, or those of the named group.
///
/// # Errors
/// A missing right; a group that the caller may not see.
pub fn admit(caller: &Caller, group_id: Option<i64>) -> Result<(), ServiceError> {
    Owner::named(caller, group_id).admit(caller)
}

/// Saves a report of the caller, or of the named group, in place of the one with this name. Returns whether it is new.
///
/// # Errors
/// A missing right, an unknown group, violations of the body, more than may be kept; those of [`resource::change`].
pub async fn save_report(
    services: &Services,
    caller: &Caller,
    (group_id, name): (Option<i64>, &str),
    if_match: &IfMatch,
    body: &Document,
) -> Result<(RawDocumentBuf, bool), ServiceError> {
    let owner = Owner::named(caller, group_id);
    owner.admit(caller)?;
    if let Owner::Group(id) = owner {
        resource::get::<Groups>(services, id).await?;
    }
    let scope = format!("{}/{}/{}", Reports::COLLECTION, owner.stored().0, owner.stored().1);
    let accepted = |id: i64, before: Option<&Document>| {
        let read = without_unknown(&REPORT, body, before, report_input::read(body, name))?;
        let document = report_input::stored(read, id, owner.stored(), (caller.user_id, services.now()));
        let bytes = resource::encode(&document)?.as_bytes().len();
        if bytes > MOST_BYTES {
            return Err(exceeded(format!("the report has {bytes} bytes; a report has at most {MOST_BYTES}")));
        }
        Ok(document)
    };
    let save = async || {
        let at = scope_version(&*services.store, &scope, services.max_time).await?;
        if let Some(stored) = find(services, owner, name).await? {
            let id = integer(&stored, "public_id").unwrap_or_default();
            let decide = async |before: &RawDocument| {
                let stored = resource::decode(before)?;
                let mut after = doc! { "_id": stored.get("_id").cloned() };
                after.extend(accepted(id, Some(&stored))?);
                Decision::replace::<Reports>(before, &after)
            };
            return resource::change::<Reports>(services, id, if_match, decide).await.map(|(_, after)| (after, false));
        }
        if *if_match != IfMatch::Absent {
            let message =
                "If-Match asks for a report, and there is none of this name; leave the header out to save one";
            return Err(ServiceError::PreconditionFailed(message.to_owned()));
        }
        if services.store.count(Reports::COLLECTION, &owner.filter(), services.max_time).await? >= MOST {
            let (of, id) = owner.stored();
            return Err(exceeded(format!("{of} {id} has {MOST} reports, the most there may be; delete one first")));
        }
        let build = |id: i64| {
            let unit = Unit::default().given(owner.exists());
            Ok((accepted(id, None)?, unit.given(Condition::Unchanged { scope: scope.clone().into(), at })))
        };
        resource::create_with::<Reports>(services, resource::Wanted::Any, build).await.map(|made| (made, true))
    };
    resource::until_it_holds(format!("the report {name}"), save).await
}

/// Removes a report of the caller, or of the named group.
///
/// # Errors
/// A missing right, [`ErrorCode::ReportNotFound`], and those of [`resource::remove`].
pub async fn delete_report(
    services: &Services,
    caller: &Caller,
    (group_id, name): (Option<i64>, &str),
    if_match: &IfMatch,
) -> Result<RawDocumentBuf, ServiceError> {
    let owner = Owner::named(caller, group_id);
    owner.admit(caller)?;
    let found = find(services, owner, name).await?;
    let found = found.ok_or_else(|| ServiceError::not_found(Reports::NOT_FOUND, name))?;
    let id = integer(&found, "public_id").unwrap_or_default();
    let removed = resource::remove::<Reports>(services, id, if_match, async |_: &RawDocument| Ok(Unit::default()));
    removed.await.map(|(removed, _)| removed)
}

fn exceeded(message: String) -> ServiceError {
    ServiceError::refused(ErrorCode::QuotaExceeded, message)
}
