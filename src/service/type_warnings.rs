//! What the author of a type should know: what was taken, but may not be what was meant. docs/api.md, Types.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use super::directory::Caller;
use super::error::ServiceError;
use super::resource::{self, Groups, Objects, Resource};
use super::services::Services;
use super::type_catalog::{self, VIEW_TYPES};
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::integer;
use crate::domain::object_fields::misfit;
use crate::domain::object_type::{
    Field, LinkTemplate, ObjectType, PASSWORD, REF_SECTION, REF_SECTION_FIELD, Role, SectionReference,
};
use crate::domain::type_input::{self, GROUPS};
use crate::plural::counted;
use crate::query::{Filter, Limits};
use crate::store::FindQuery;

/// So many fields and ids are looked up, for no longer than that: the warning is not worth more.
const MOST_LOOKED_UP: usize = 20;
const LOOKING: Duration = Duration::from_millis(250);

/// A warning has so many names, of so many characters.
const MOST_NAMED: usize = 5;
const LONGEST_NAMED: usize = 60;

/// A type that was changed.
pub struct Changed {
    /// The type as it is now.
    pub after: RawDocumentBuf,
    /// What was taken, but may not be what was meant: each a line of ASCII.
    pub warnings: Vec<String>,
}

/// The changed type, with what its objects still have and it knows no more, if the caller sees its objects.
pub(super) async fn changed(
    services: &Services,
    caller: &Caller,
    (before, after): (RawDocumentBuf, RawDocumentBuf),
    sent: &Document,
    sees_objects: bool,
) -> Result<Changed, ServiceError> {
    let mut warnings = warnings(services, caller, (Some(&before), &after), sent).await?;
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
        before.field(&field.name).filter(|was| is_narrower(was, field))?;
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

/// Whether a field may take less than before. Values of passwords are nothing to tell of.
fn is_narrower(was: &Field, now: &Field) -> bool {
    was.kind != PASSWORD && (was.kind != now.kind || was.options != now.options)
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

/// What to say of a stored type: what its fields hold, whom its access list names, and whether it shuts the caller out.
/// `sent` is the body or the patch that made it so; what of it is not stored is named.
///
/// # Errors
/// When the stored type cannot be read.
pub async fn warnings(
    services: &Services,
    caller: &Caller,
    (before, after): (Option<&RawDocument>, &RawDocument),
    sent: &Document,
) -> Result<Vec<String>, ServiceError> {
    let before = before.map(resource::decode).transpose()?;
    let dead_ends = dead_ends(services, caller, after).await.unwrap_or_default();
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
    // A change that is made must not fail for its warning.
    let absent = absent_groups(services, &after).await.unwrap_or_default();
    warnings.extend(absent.iter().take(MOST_LOOKED_UP).map(|id| format!("{GROUPS}/{id}: group {id} does not exist")));
    warnings.extend(dead_ends.into_iter().take(MOST_LOOKED_UP));
    Ok(warnings)
}

/// The ids in an access list that no group has.
pub(super) async fn absent_groups(services: &Services, object_type: &Document) -> Result<Vec<i64>, ServiceError> {
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

/// What of a type leads nowhere, in words: references, links and sections of other types that never show anything.
/// Nothing is told of other types to a caller who may not see types.
async fn dead_ends(
    services: &Services,
    caller: &Caller,
    object_type: &RawDocument,
) -> Result<Vec<String>, ServiceError> {
    let Ok(object_type) = ObjectType::from_document(object_type) else { return Ok(Vec::new()) };
    if !caller.rights.grants(VIEW_TYPES) {
        return Ok(dead_links(&object_type).chain(lone_parts(&object_type)).collect());
    }
    let types = services.types.current(&*services.store, services.max_time).await?;
    let referred = object_type.fields.iter().flat_map(|field| {
        let summarized = field.summaries.iter().map(|summary| summary.type_id);
        field.ref_types.iter().copied().chain(summarized)
    });
    let types = services.types_knowing(types, referred.collect()).await?;
    let references = absent_types(&object_type, &types).chain(dead_summaries(&object_type, &types));
    let parts = dead_links(&object_type).chain(lone_parts(&object_type)).chain(dead_sections(&object_type, &types));
    Ok(references.chain(parts).collect())
}

/// Which types that references may lead to are not there.
fn absent_types(object_type: &ObjectType, types: &type_catalog::Types) -> impl Iterator<Item = String> {
    let asked = object_type.fields.iter().enumerate();
    let asked = asked.flat_map(|(place, field)| field.ref_types.iter().map(move |id| (place, *id)));
    let absent = asked.filter(|(_, id)| types.get(*id).is_none());
    absent.map(|(place, id)| format!("fields/{place}/ref_types: type {id} does not exist"))
}

/// Which summaries of references are never shown, or show fields that are not there.
fn dead_summaries(object_type: &ObjectType, types: &type_catalog::Types) -> impl Iterator<Item = String> {
    object_type.fields.iter().enumerate().flat_map(move |(place, field)| {
        field.summaries.iter().enumerate().filter_map(move |(index, summary)| {
            let id = summary.type_id;
            let lack = match types.get(id) {
                _ if !field.ref_types.is_empty() && !field.ref_types.contains(&id) => {
                    format!("type_id: the field refers to no object of type {id}, so the summary is never shown")
                }
                None => format!("type_id: type {id} does not exist"),
                Some(target) => {
                    let lost = summary.fields.iter().find(|name| target.object_type.field(name).is_none())?;
                    format!("fields: type {id} has no field {}", quoted(lost))
                }
            };
            Some(format!("fields/{place}/summaries/{index}/{lack}"))
        })
    })
}

/// Which external links can have no address.
fn dead_links(object_type: &ObjectType) -> impl Iterator<Item = String> {
    object_type.externals.iter().enumerate().filter_map(|(place, external)| {
        let fields = external.fields.len();
        let reason = match external.link.as_ref().map(LinkTemplate::places) {
            None => "it has to begin with http:, https:, mailto:, ssh: or tel:, or to be relative".to_owned(),
            Some(places) if places > fields => format!("it has {places} {{}} for {}", counted(fields as u64, "field")),
            Some(_) => return None,
        };
        Some(format!("render_meta/externals/{place}/href: the link is never shown; {reason}"))
    })
}

/// Which sections show fields of another type that it does not have.
fn dead_sections(object_type: &ObjectType, types: &type_catalog::Types) -> impl Iterator<Item = String> {
    object_type.sections.iter().enumerate().filter_map(|(place, section)| {
        let lack = lack_of(section.reference.as_ref()?, types)?;
        Some(format!("render_meta/sections/{place}/reference/{lack}"))
    })
}

/// Sections of another object's fields without the field that refers to it, and such fields without a section.
fn lone_parts(object_type: &ObjectType) -> impl Iterator<Item = String> {
    let fills = |section| object_type.fields.iter().any(|field| field.role == Role::SectionReference(section));
    let sections = object_type.sections.iter().enumerate();
    let empty =
        sections.filter(move |(place, section)| section.reference.is_some() && !fills(*place)).map(|(place, _)| {
            format!(
                "render_meta/sections/{place}/fields: the section shows the object to which its field of the kind \
             {REF_SECTION_FIELD} refers, and has none"
            )
        });
    let lone = object_type.fields.iter().enumerate().filter(|(_, field)| {
        field.kind == REF_SECTION_FIELD && field.role == Role::Reference && field.ref_types.is_empty()
    });
    let lone = lone.map(|(place, _)| {
        format!("fields/{place}/type: a {REF_SECTION_FIELD} refers to a type by the {REF_SECTION} that lists it, and none does")
    });
    empty.chain(lone)
}

fn lack_of(reference: &SectionReference, types: &type_catalog::Types) -> Option<String> {
    let id = reference.type_id;
    let Some(target) = types.get(id) else { return Some(format!("type_id: type {id} does not exist")) };
    let mut sections = target.object_type.sections.iter();
    let Some(shown) = sections.find(|section| section.name == reference.section_name) else {
        return Some("section_name: the type has no such section, so nothing is shown".to_owned());
    };
    let has_all = reference.selected_fields.iter().all(|name| shown.fields.contains(name));
    (!has_all).then(|| "selected_fields: the section has not all of these fields".to_owned())
}
