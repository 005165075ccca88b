//! What the author of a type should know: what was accepted, but is probably not intended. docs/api.md, Types.

use std::collections::HashSet;
use std::time::Duration;

use bson::Document;
use bson::raw::{RawDocument, RawDocumentBuf};

use super::carrying::States;
use super::examples::plain_fields;
use super::fitting::{Findings, Question, look};
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::integer;
use crate::domain::object_fields::Rule;
use crate::domain::object_type::ObjectType;
use crate::domain::type_changes::{Difference, to_check};
use crate::domain::type_input;
use crate::plural::counted;
use crate::query::Filter;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::resource::{self, Groups, Resource};
use crate::service::services::Services;
use crate::store::FindQuery;

/// How long objects are looked at: the warning is not worth more.
const LOOKING: Duration = Duration::from_millis(250);

/// The maximum number of names in a warning, and of characters of each.
const MOST_NAMED: usize = 5;
const LONGEST_NAMED: usize = 60;

/// A type that was changed.
pub struct Changed {
    /// The type as it is now.
    pub after: RawDocumentBuf,
    /// What was accepted, but is probably not intended: each a line of ASCII.
    pub warnings: Vec<String>,
    /// Whether its objects are still to change.
    pub is_running: bool,
}

impl Changed {
    /// A type whose objects change after it.
    pub(super) fn running(after: RawDocumentBuf, id: i64) -> Self {
        let warning = format!(
            "migration: the objects change one after the other, and the type is inactive until then; GET \
             /rest/types/{id}/migration says how far they are"
        );
        Self { after, warnings: vec![warning], is_running: true }
    }
}

/// The changed type, with warnings about values of its objects that it no longer allows, if the caller sees its objects.
pub(crate) async fn changed(
    services: &Services,
    caller: &Caller,
    (before, after): (RawDocumentBuf, RawDocumentBuf),
    sent: &Document,
    sees_objects: bool,
) -> Result<Changed, ServiceError> {
    let mut warnings = warnings(caller, (Some(&before), &after), sent)?;
    if sees_objects && let Ok(states) = States::read(&before, &after) {
        let differences = states.differences()?;
        warnings.extend(left_behind(services, caller, (&states.was, &states.is), &differences).await);
    }
    Ok(Changed { after, warnings, is_running: false })
}

/// What objects of a type have that was right before these differences, and is not now. Only fields whose values may break
/// the type are looked at.
async fn left_behind(
    services: &Services,
    caller: &Caller,
    (was, now): (&ObjectType, &ObjectType),
    differences: &[Difference],
) -> Vec<String> {
    let checked = to_check(differences);
    if checked.is_empty() {
        return Vec::new();
    }
    let (plain, only) = (plain_fields(was, now), Some(checked));
    let question = Question { object_type: now, plain, only, within: Some(LOOKING), mover: None };
    // A change that is made must not fail for its warning.
    let found = look(services, caller, question).await;
    let found = found.unwrap_or_else(|_| Findings { is_cut: true, ..Findings::default() });
    let id = now.public_id;
    let at_least = if found.is_cut { "at least " } else { "" };
    let names = |is_unknown: bool| -> Vec<&str> {
        let groups = found.misfits.iter().filter(|group| (group.rule == Rule::Unknown) == is_unknown);
        let mut names: Vec<&str> = groups.map(|group| group.field.as_str()).collect();
        names.dedup();
        names
    };
    let fields = named(&names(true)).map(|names| {
        let objects = counted(found.with_unknown_fields, "object");
        format!(
            "fields: the type has lost {names}, and values stay in {at_least}{objects}; send the whole list to keep them, or \
             PUT /rest/objects/clean/{id} to remove them"
        )
    });
    let values = named(&names(false)).map(|names| {
        let objects = counted(found.with_wrong_values, "object");
        format!(
            "fields: values of {names} in {at_least}{objects} do not fit the type now; they stay until they are changed; PUT \
             /rest/types/{id}?dry_run=true lists them"
        )
    });
    let cut = found.is_cut.then(|| {
        format!(
            "fields: not all objects were looked at, more may not fit the type; PUT /rest/types/{id}?dry_run=true looks at all"
        )
    });
    fields.into_iter().chain(values).chain(cut).collect()
}

/// The first names, quoted; nothing where there are none.
fn named(names: &[&str]) -> Option<String> {
    let more = if names.len() > MOST_NAMED { " and more" } else { "" };
    let quoted: Vec<String> = names.iter().take(MOST_NAMED).map(|name| quoted(name)).collect();
    (!names.is_empty()).then(|| format!("{}{more}", quoted.join(", ")))
}

/// A name in plain ASCII that fits a header.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.escape_default().take(LONGEST_NAMED).collect::<String>())
}

/// The warnings about a stored type: unknown kinds of fields, and whether its access list shuts the caller out.
/// `sent` is the body or the patch that made it so; what of it is not stored is named.
///
/// # Errors
/// When the stored type cannot be read.
pub fn warnings(
    caller: &Caller,
    (before, after): (Option<&RawDocument>, &RawDocument),
    sent: &Document,
) -> Result<Vec<String>, ServiceError> {
    let before = before.map(resource::decode).transpose()?;
    let after = resource::decode(after)?;
    let may_read = |object_type: &Document| {
        let acl = object_type.get_document("acl").map(Acl::from_document).unwrap_or_default();
        acl.allows(caller.group_id, Permission::Read)
    };
    let mut warnings: Vec<String> = type_input::dropped(sent, &after).collect();
    warnings.extend(type_input::warnings(&after));
    if before.as_ref().is_none_or(may_read) && !may_read(&after) {
        let own = caller.group_id;
        warnings.push(format!(
            "acl: the list gives your group {own} no READ, so it hides the objects of this type from you"
        ));
    }
    Ok(warnings)
}

/// The ids in an access list that no group has.
pub(crate) async fn absent_groups(services: &Services, object_type: &Document) -> Result<Vec<i64>, ServiceError> {
    let mut ids: Vec<i64> = type_input::groups(object_type).filter_map(|group| group.parse().ok()).collect();
    if ids.is_empty() {
        return Ok(ids);
    }
    let named = Filter::one_of("public_id", ids.iter().copied());
    let found = services.store.find(Groups::COLLECTION, &FindQuery::new(named, services.max_time)).await?;
    let known: HashSet<i64> = found.iter().filter_map(|group| integer(group, "public_id")).collect();
    ids.retain(|id| !known.contains(id));
    Ok(ids)
}
