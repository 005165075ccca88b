//! What the author of a type should know: what was accepted, but is probably not intended. docs/api.md, Types.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use crate::domain::acl::{Acl, Permission};
use crate::domain::document::integer;
use crate::domain::object_fields::misfit;
use crate::domain::object_type::{Field, ObjectType, PASSWORD};
use crate::domain::type_input;
use crate::query::{Filter, Limits};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::resource::{self, Groups, Objects, Resource};
use crate::service::services::Services;
use crate::store::FindQuery;

/// The maximum number of fields and ids looked up, and the time for it: the warning is not worth more.
const MOST_LOOKED_UP: usize = 20;
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
    let types = (ObjectType::from_document(&before), ObjectType::from_document(&after));
    if let (Ok(before), Ok(now)) = types
        && sees_objects
    {
        warnings.extend(left_behind(services, &before, &now).await);
    }
    Ok(Changed { after, warnings })
}

/// What objects of a type have that was right for the type `before`, and is not for the type `now`.
async fn left_behind(services: &Services, before: &ObjectType, now: &ObjectType) -> impl Iterator<Item = String> {
    let id = now.public_id;
    let lost = before.fields.iter().filter(|field| now.field(&field.name).is_none());
    let lost = lost.map(|field| (field.name.as_str(), doc! {"name": &field.name}, true));
    let odd = now.fields.iter().filter_map(|field| {
        // Objects may have values of an earlier field of the name.
        before.field(&field.name).is_none_or(|was| is_narrower(was, field)).then_some(())?;
        Some((field.name.as_str(), misfit(field)?, false))
    });
    let (mut fields, mut values, mut is_cut) = (Vec::new(), Vec::new(), false);
    let begun = Instant::now();
    for (name, entry, is_lost) in lost.chain(odd).take(MOST_LOOKED_UP) {
        let left = LOOKING.min(services.max_time).saturating_sub(begun.elapsed());
        if left < Duration::from_millis(1) {
            is_cut = true;
            break;
        }
        let question = Filter::parse(&doc! {"type_id": id, "fields": {"$elemMatch": entry}}, &Limits::NONE);
        let Ok(question) = question else { continue };
        // A change that is made must not fail for its warning.
        let found = services.store.find(Objects::COLLECTION, &FindQuery::new(question, left).limited(1)).await;
        match found {
            Ok(found) if found.is_empty() => {}
            Ok(_) if is_lost => fields.push(name),
            Ok(_) => values.push(name),
            Err(_) => is_cut = true,
        }
    }
    let fields = named(&fields).map(|names| {
        format!(
            "fields: the type has lost {names}, which objects still have; send the whole list to keep them, or PUT \
             /rest/objects/clean/{id} to remove their values"
        )
    });
    let values = named(&values).map(|names| {
        format!("fields: objects have values of {names} that the type takes no more; they stay until they are changed")
    });
    let cut = is_cut.then(|| "fields: not all objects were looked at; more may have such values".to_owned());
    fields.into_iter().chain(values).chain(cut)
}

/// Whether a field may take less than before. Values of passwords are never quoted.
fn is_narrower(was: &Field, now: &Field) -> bool {
    let is_pattern_new = now.regex.is_some() && was.regex != now.regex;
    let is_narrower = was.kind != now.kind || was.options != now.options || is_pattern_new;
    was.kind != PASSWORD && (is_narrower || now.required && !was.required)
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
    let named = Filter::one_of("public_id", ids.iter().copied().map(Bson::Int64).collect());
    let found = services.store.find(Groups::COLLECTION, &FindQuery::new(named, services.max_time)).await?;
    let known: HashSet<i64> = found.iter().filter_map(|group| integer(group, "public_id")).collect();
    ids.retain(|id| !known.contains(id));
    Ok(ids)
}
