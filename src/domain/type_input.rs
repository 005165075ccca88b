//! The body of a type (docs/api.md, Types) and the stored document made from it.

use std::collections::HashSet;

use bson::{Bson, DateTime, Document, doc};

use super::document::number;
use super::object_fields::{Reference, kinds, no_default, no_pattern};
use super::object_type::{REF, REF_SECTION_FIELD, REFS, SELECT};
use super::on_delete::OnDelete;
use super::schema::{Kind, LONGEST_FIELD_NAME, Member, Schema, Unknown};
use super::unchanged::accepted_again;
use super::unique::not_unique;
use super::violation::quoted;
use super::{DEFAULT_VERSION, Violation, Violations, default_to, kept_if_same, title_case, type_indexes};
use crate::pointer;
use crate::suggest;

/// The permissions that an ACL can give a group.
pub const PERMISSIONS: [&str; 4] = ["CREATE", "READ", "UPDATE", "DELETE"];

const OPTION: Schema = Schema {
    members: &[Member::required("name", Kind::Text), Member::required("label", Kind::Text)],
    unknown: Unknown::Dropped,
};

const REFERENCE_SUMMARY: Schema = Schema {
    members: &[
        Member::required("type_id", Kind::Integer),
        Member::required("line", Kind::Text),
        Member::required("label", Kind::Text),
        Member::optional("fields", Kind::List(&Kind::Text)),
        Member::required("icon", Kind::Text),
        Member::optional("prefix", Kind::Boolean),
    ],
    unknown: Unknown::Dropped,
};

/// A field of a type.
pub const FIELD: Schema = Schema {
    members: &[
        Member::required("type", Kind::Text),
        Member::optional("required", Kind::Boolean),
        Member::required("name", Kind::Text),
        Member::required("label", Kind::Text),
        Member::optional("description", Kind::Text),
        Member::optional("unique", Kind::BooleanOrFold).or_null(),
        Member::optional("regex", Kind::Text),
        Member::optional("placeholder", Kind::Text),
        Member::optional("value", Kind::Text),
        Member::optional("helperText", Kind::Text),
        Member::optional("default", Kind::Integer).or_null(),
        Member::optional("options", Kind::List(&Kind::Map(&OPTION))),
        Member::optional("multiple", Kind::Boolean),
        Member::optional("ref_types", Kind::List(&Kind::Integer)),
        Member::optional("on_delete", Kind::Word(&OnDelete::NAMES)),
        Member::optional("summaries", Kind::List(&Kind::Map(&REFERENCE_SUMMARY))),
    ],
    unknown: Unknown::Dropped,
};

const SECTION_REFERENCE: Schema = Schema {
    members: &[
        Member::required("type_id", Kind::Integer),
        Member::required("section_name", Kind::Text),
        Member::optional("selected_fields", Kind::List(&Kind::Text)),
    ],
    unknown: Unknown::Refused,
};

const SECTION: Schema = Schema {
    members: &[
        Member::required("type", Kind::Text),
        Member::required("name", Kind::Text),
        Member::required("label", Kind::Text),
        Member::optional("reference", Kind::EmptyOr(&SECTION_REFERENCE)),
        Member::optional("fields", Kind::List(&Kind::Text)),
    ],
    unknown: Unknown::Refused,
};

const EXTERNAL: Schema = Schema {
    members: &[
        Member::required("name", Kind::Text),
        Member::required("href", Kind::Text),
        Member::required("label", Kind::Text),
        Member::required("icon", Kind::Text),
        Member::optional("fields", Kind::List(&Kind::Text)),
    ],
    unknown: Unknown::Refused,
};

const SUMMARY: Schema =
    Schema { members: &[Member::optional("fields", Kind::List(&Kind::Text))], unknown: Unknown::Refused };

/// How objects of a type are rendered.
pub const RENDER_META: Schema = Schema {
    members: &[
        Member::optional("icon", Kind::Text).or_null(),
        Member::optional("sections", Kind::List(&Kind::Map(&SECTION))),
        Member::optional("externals", Kind::List(&Kind::Map(&EXTERNAL))),
        Member::optional("summary", Kind::Map(&SUMMARY)),
    ],
    unknown: Unknown::Refused,
};

/// The members of an access list that mean something.
const ACL: Schema = Schema {
    members: &[Member::optional("activated", Kind::Boolean), Member::optional("groups", Kind::OpenMapOf(&ACL_GROUPS))],
    unknown: Unknown::Dropped,
};

const ACL_GROUPS: Schema =
    Schema { members: &[Member::optional("includes", Kind::OpenMap)], unknown: Unknown::Dropped };

/// The body of a type.
pub const TYPE: Schema = Schema {
    members: &[
        Member::optional("public_id", Kind::Integer),
        Member::required("name", Kind::Name),
        Member::optional("label", Kind::Text),
        Member::required("author_id", Kind::Integer),
        Member::optional("editor_id", Kind::Integer).or_null(),
        Member::optional("active", Kind::Boolean),
        Member::optional("fields", Kind::List(&Kind::Map(&FIELD))).or_null(),
        Member::optional("indexes", Kind::List(&Kind::List(&Kind::Text))),
        Member::optional("version", Kind::Text),
        Member::optional("description", Kind::Text).or_null(),
        Member::optional("render_meta", Kind::Map(&RENDER_META)),
        Member::optional("acl", Kind::OpenMapOf(&ACL)),
    ],
    unknown: Unknown::Dropped,
};

/// Members that the service owns; everything else on a stored type came from other tools.
/// The members of a stored document that the service knows.
pub const KNOWN: [&str; 15] = [
    "_id", "public_id", "name", "label", "author_id", "editor_id", "active", "fields", "indexes", "version",
    "description", "render_meta", "acl", "creation_time", "last_edit_time",
];

/// Checks a body against the schema and the rules of docs/api.md, Types, and fills in the defaults.
///
/// `public_id` is in the result when the body has one; times are not.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read(body: &Document) -> Result<Document, Violations> {
    let (accepted, violations) = TYPE.check_all(body);
    let (accepted, violations) = completed(accepted, violations);
    if violations.is_empty() { Ok(accepted) } else { Err(violations) }
}

/// As [`read`], for a body that changes a stored type: what is as stored is accepted again.
///
/// # Errors
/// As [`read`], without what the stored type breaks at the same places.
pub fn read_again(body: &Document, stored: &Document) -> Result<Document, Violations> {
    let (mut accepted, violations) = TYPE.check_all(body);
    let violations = accepted_again(&mut accepted, body, stored, violations);
    let (mut accepted, mut violations) = completed(accepted, violations);
    if !violations.is_empty() && violations.left_out() == 0 {
        // A rule about several members may be broken by the others: it counts unless the stored type breaks it, too.
        let (mut itself, broken) = TYPE.check_all(stored);
        let broken = accepted_again(&mut itself, stored, stored, broken);
        let known = completed(itself, broken).1;
        let (old, new): (Vec<_>, Vec<_>) =
            violations.into_iter().partition(|violation| known.listed().contains(violation));
        violations = accepted_again(&mut accepted, body, stored, old.into_iter().collect());
        violations.extend(new);
    }
    if violations.is_empty() { Ok(accepted) } else { Err(violations) }
}

/// The accepted members with the defaults, and all violations with those of rules about several members.
fn completed(mut accepted: Document, mut violations: Violations) -> (Document, Violations) {
    let fields = fill_fields(&mut accepted);
    let fields_are_known = !violations.has_below("/fields");
    let names = if fields_are_known { unique_names(&fields, &mut violations) } else { HashSet::new() };
    accepted.insert("fields", fields);
    if fields_are_known && !violations.has_below("/indexes") {
        type_indexes::check(&accepted, &mut violations);
    }
    let label = title_case(accepted.get_str("name").unwrap_or_default());
    default_to(&mut accepted, "label", label);
    default_to(&mut accepted, "editor_id", Bson::Null);
    default_to(&mut accepted, "active", true);
    default_to(&mut accepted, "version", DEFAULT_VERSION);
    default_to(&mut accepted, "description", Bson::Null);
    default_to(&mut accepted, "render_meta", Document::new());
    if let Ok(render_meta) = accepted.get_document_mut("render_meta") {
        fill_render_meta(render_meta);
        if fields_are_known {
            check_render_meta(render_meta, &names, &mut violations);
        }
    }
    default_to(&mut accepted, "acl", Document::new());
    if let Ok(acl) = accepted.get_document_mut("acl") {
        fill_acl(acl, &mut violations);
    }
    // Each place is reported once, for the first rule that it breaks.
    violations.keep_first_of_each_place();
    (accepted, violations)
}

/// What new fields of a body must not have: a kind that looks like a misspelt one, and values that cannot be unique. `stored` is
/// the type that the body changes: what it has passes.
pub fn odd_fields(body: &Document, stored: Option<&Document>) -> Violations {
    let before: HashSet<&str> =
        stored.map(|stored| unknown_kinds(stored).map(|(_, kind)| kind).collect()).unwrap_or_default();
    let kinds_of = unknown_kinds(body).filter(|(_, kind)| !before.contains(kind)).filter_map(|(index, kind)| {
        let message = refused_kind(kind)?;
        Some(Violation::new(format!("/fields/{index}/type"), message))
    });
    let name_of = |field: &'_ Document| field.get_str("name").unwrap_or_default().to_owned();
    let never_unique = stored.into_iter().flat_map(fields_of).filter(|(_, field)| not_unique(field).is_some());
    let kept: HashSet<String> = never_unique.map(|(_, field)| name_of(field)).collect();
    let unique = fields_of(body)
        .filter(|(_, field)| !kept.contains(&name_of(field)))
        .filter_map(|(index, field)| Some(Violation::new(format!("/fields/{index}/unique"), not_unique(field)?)));
    let had_several: HashSet<&str> = stored.into_iter().flat_map(several_elsewhere).map(|(_, name)| name).collect();
    let several = several_elsewhere(body).filter(|(_, name)| !had_several.contains(name)).map(|(index, _)| {
        Violation::new(format!("/fields/{index}/multiple"), "only a select can have it; leave it out, or send false")
    });
    kinds_of.chain(unique).chain(several).collect()
}

/// The fields that are to hold several options and cannot, with their names.
fn several_elsewhere(object_type: &Document) -> impl Iterator<Item = (usize, &str)> {
    let cannot = |field: &Document| {
        field.get_bool("multiple").unwrap_or(false) && !field.get_str("type").is_ok_and(|kind| kind == SELECT)
    };
    let fields = fields_of(object_type).filter(move |(_, field)| cannot(field));
    fields.map(|(index, field)| (index, field.get_str("name").unwrap_or_default()))
}

/// The rules of new fields that have no effect as they are: a default that the field does not take, a pattern that is none, and
/// what deleting does to references of a field that refers to nothing.
/// `stored` as in [`odd_fields`].
pub fn idle_fields(body: &Document, stored: Option<&Document>) -> Violations {
    let is_odd = |(_, field): &(usize, &Document)| no_default(field).is_some();
    let defaults = new_defaults(body, stored, is_odd)
        .filter_map(|(index, field)| Some(Violation::new(format!("/fields/{index}/value"), no_default(field)?)));
    let kept: HashSet<_> = stored.into_iter().flat_map(fields_of).filter_map(|(_, field)| pattern_of(field)).collect();
    let patterns = fields_of(body)
        .filter(|(_, field)| pattern_of(field).is_some_and(|pattern| !kept.contains(&pattern)))
        .filter_map(|(index, field)| Some(Violation::new(format!("/fields/{index}/regex"), no_pattern(field)?)));
    let kept: HashSet<_> =
        stored.into_iter().flat_map(fields_of).filter_map(|(_, field)| idle_on_delete(field)).collect();
    let on_deletes =
        fields_of(body).filter(|(_, field)| idle_on_delete(field).is_some_and(|idle| !kept.contains(&idle)));
    let on_deletes = on_deletes.map(|(index, _)| {
        let message =
            "has no effect: the field refers to no type; give it type ref or refs and ref_types, or leave this out";
        Violation::new(format!("/fields/{index}/on_delete"), message)
    });
    patterns.chain(defaults).chain(on_deletes).collect()
}

/// The name of a field and its `on_delete` if that does nothing, because no type is known to which the field refers.
fn idle_on_delete(field: &Document) -> Option<(&str, &str)> {
    let (name, word) = (field.get_str("name").ok()?, field.get_str("on_delete").ok()?);
    let refers = match field.get_str("type").ok()? {
        REF_SECTION_FIELD => true,
        REF | REFS => field.get_array("ref_types").is_ok_and(|types| !types.is_empty()),
        _ => false,
    };
    (!refers && OnDelete::named(word) != OnDelete::Keep).then_some((name, word))
}

/// Why an unknown kind is refused; nothing where it is accepted, with any JSON as value.
fn refused_kind(kind: &str) -> Option<String> {
    let known = kinds();
    if kind == ANY_JSON {
        return None;
    }
    let kind_in_words = quoted(kind);
    if let Some(meant) = suggest::misspelt(kind, &known) {
        return Some(format!("{kind_in_words} is no known kind of field; did you mean {meant}?"));
    }
    let meant = ELSEWHERE.iter().find(|(other, _)| *other == kind);
    (meant.is_some() || CHECKS.contains(&kind)).then(|| {
        let meant = meant.map(|(_, ours)| format!("; did you mean {ours}")).unwrap_or_default();
        format!(
            "\"{kind_in_words}\" is no known kind of field, so no value would be checked{meant}; known are {}; a field with \
             \"type\": \"{ANY_JSON}\" takes any JSON",
            known.join(", ")
        )
    })
}

/// The fields with defaults that the type `stored` does not have, or has in a form that the check skips.
fn new_defaults<'a>(
    body: &'a Document,
    stored: Option<&'a Document>,
    passes: impl Fn(&(usize, &Document)) -> bool,
) -> impl Iterator<Item = (usize, &'a Document)> {
    let had = stored.into_iter().flat_map(fields_of).filter(passes);
    let kept: HashSet<_> = had.filter_map(|(_, field)| default_of(field)).collect();
    fields_of(body).filter(move |(_, field)| default_of(field).is_none_or(|default| !kept.contains(&default)))
}

/// The objects that new defaults of a body refer to. `stored` is the type that the body changes.
pub fn default_references(body: &Document, stored: Option<&Document>) -> Vec<Reference> {
    let references = |(index, field): (usize, &Document)| {
        let ids = match (field.get_str("type"), field.get_str("value")) {
            (Ok(REF | REFS), Ok(ids)) => ids,
            _ => "",
        };
        let type_ids: Vec<i64> = field.get_array("ref_types").into_iter().flatten().filter_map(number).collect();
        let ids: Vec<i64> = ids.split(',').filter_map(|id| id.trim().parse().ok()).collect();
        let pointer = format!("/fields/{index}/value");
        let reference = move |object_id| Reference { pointer: pointer.clone(), object_id, type_ids: type_ids.clone() };
        ids.into_iter().map(reference)
    };
    new_defaults(body, stored, |_| true).flat_map(references).collect()
}

/// Where an access list names groups.
pub const GROUPS: &str = "acl/groups/includes";

/// The keys of the groups in an access list.
pub fn groups(object_type: &Document) -> impl Iterator<Item = &str> {
    let groups = object_type.get_document("acl").and_then(|acl| acl.get_document("groups"));
    let includes = groups.and_then(|groups| groups.get_document("includes"));
    includes.into_iter().flat_map(Document::keys).map(String::as_str)
}

/// The kind of a field that takes any JSON.
const ANY_JSON: &str = "json";

/// Kinds that other systems check, and for which there is none here.
const CHECKS: [&str; 4] = ["currency", "money", "user", "users"];

/// What other systems call the kinds.
const ELSEWHERE: [(&str, &str); 19] = [
    ("string", "text"),
    ("integer", "number"),
    ("int", "number"),
    ("float", "number"),
    ("bool", "checkbox"),
    ("boolean", "checkbox"),
    ("reference", "ref"),
    ("references", "refs"),
    ("enum", "select"),
    ("choice", "select"),
    ("datetime", "date"),
    ("timestamp", "date"),
    ("ipv4", "ip"),
    ("ipv6", "ip"),
    ("ipaddress", "ip"),
    ("ip_address", "ip"),
    ("subnet", "network"),
    ("cidr", "network"),
    ("mac_address", "mac"),
];

/// The maximum number of fields in warnings, as headers have to be few and short.
const MOST_WARNINGS: usize = 10;
const LONGEST_QUOTED: usize = 60;

/// The warnings about a stored type: unknown kinds of fields, references to any type, and members of its access list without
/// effect. The first few are named.
pub fn warnings(stored: &Document) -> Vec<String> {
    let warning = |(index, kind): (usize, &str)| {
        let meant = ELSEWHERE.iter().find(|(other, _)| *other == kind);
        let meant = meant.map(|(_, ours)| format!("; did you mean {ours}?")).unwrap_or_default();
        let kind: String = kind.escape_default().take(LONGEST_QUOTED).collect();
        format!("fields/{index}/type: \"{kind}\" is no known kind of field; its values can be any JSON{meant}")
    };
    let kinds = unknown_kinds(stored).filter(|(_, kind)| *kind != ANY_JSON).take(MOST_WARNINGS).map(warning);
    let free = fields_of(stored).filter(|(_, field)| {
        field.get_str("type").is_ok_and(|kind| [REF, REFS].contains(&kind))
            && field.get_array("ref_types").map_or(true, Vec::is_empty)
    });
    let free = free.take(MOST_WARNINGS).map(|(index, _)| {
        format!(
            "fields/{index}/ref_types: without a type the field takes any object, and neither /references nor on_references \
             knows of it"
        )
    });
    kinds.chain(free).chain(idle_members(stored)).collect()
}

/// The members that clients probably intend by the words of other systems.
const MEANT: [(&str, &str); 7] = [
    ("mandatory", "required"),
    ("pattern", "regex"),
    ("help", "helperText"),
    ("help_text", "helperText"),
    ("choices", "options"),
    ("values", "options"),
    ("references", "ref_types"),
];

/// What to say of members of the body `sent` that are not in the type as it is stored.
pub fn dropped(sent: &Document, stored: &Document) -> impl Iterator<Item = String> {
    let in_layout = |name: &str| RENDER_META.members.iter().any(|member| member.name == name);
    let told = TYPE.dropped(sent, stored).into_iter().map(move |dropped| {
        let known = |name: &str| dropped.members.iter().any(|member| member.name == name);
        let meant = MEANT.iter().find(|(other, ours)| *other == dropped.name && known(ours)).map(|(_, ours)| *ours);
        let hint = match meant {
            Some(meant) => format!("did you mean {meant}?"),
            None if known("render_meta") && in_layout(&dropped.name) => {
                format!("did you mean render_meta.{}?", dropped.name)
            }
            None => {
                let names: Vec<&str> = dropped.members.iter().map(|member| member.name).collect();
                format!("known are {}", names.join(", "))
            }
        };
        let place: String = dropped.pointer[1..].escape_default().take(LONGEST_QUOTED).collect();
        format!("{place}: it is unknown here and was dropped; {hint}")
    });
    told.take(MOST_WARNINGS)
}

/// Members of an access list that have no effect, with those that have one.
fn idle_members(object_type: &Document) -> impl Iterator<Item = String> {
    let acl = object_type.get_document("acl").ok();
    let groups = acl.and_then(|acl| acl.get_document("groups").ok());
    let places = [(acl, "acl", &ACL), (groups, "acl/groups", &ACL_GROUPS)];
    let idle = places.into_iter().flat_map(|(list, place, schema)| {
        let known: Vec<&str> = schema.members.iter().map(|member| member.name).collect();
        let names = list.into_iter().flat_map(Document::keys).filter(|name| !known.contains(&name.as_str()));
        let told = names.map(|name| {
            let name: String = name.escape_default().take(LONGEST_QUOTED).collect();
            format!("{place}: \"{name}\" has no effect; {} has", known.join(" or "))
        });
        told.collect::<Vec<_>>()
    });
    idle.take(MOST_WARNINGS)
}

/// The positions of fields of unknown kinds, and these kinds.
fn unknown_kinds(object_type: &Document) -> impl Iterator<Item = (usize, &str)> {
    let kinds_of = fields_of(object_type).filter_map(|(index, field)| Some((index, field.get_str("type").ok()?)));
    kinds_of.filter(|(_, kind)| !kinds().contains(kind))
}

/// The name of a field and its default.
fn default_of(field: &Document) -> Option<(&str, &str)> {
    Some((field.get_str("name").ok()?, field.get_str("value").ok()?))
}

/// The name of a field and its pattern.
fn pattern_of(field: &Document) -> Option<(&str, &str)> {
    Some((field.get_str("name").ok()?, field.get_str("regex").ok()?))
}

fn fields_of(object_type: &Document) -> impl Iterator<Item = (usize, &Document)> {
    let fields = object_type.get_array("fields").into_iter().flatten().enumerate();
    fields.filter_map(|(index, field)| Some((index, field.as_document()?)))
}

/// The stored document after an update by `editor`; creation time, id and foreign members stay.
pub fn updated(accepted: Document, stored: &Document, editor: i64, now: DateTime) -> Document {
    let mut document = super::updated(accepted, stored, &KNOWN, now);
    if document.get("editor_id") == Some(&Bson::Null) {
        document.insert("editor_id", editor);
        return kept_if_same(document, stored, &["last_edit_time", "editor_id"]);
    }
    kept_if_same(document, stored, &["last_edit_time"])
}

fn fill_fields(accepted: &mut Document) -> Vec<Bson> {
    let Some(Bson::Array(mut fields)) = accepted.remove("fields") else { return Vec::new() };
    for field in fields.iter_mut().filter_map(Bson::as_document_mut) {
        if let Ok(summaries) = field.get_array_mut("summaries") {
            for summary in summaries.iter_mut().filter_map(Bson::as_document_mut) {
                default_to(summary, "fields", Bson::Array(Vec::new()));
                default_to(summary, "prefix", true);
            }
        }
    }
    fields
}

fn unique_names(fields: &[Bson], violations: &mut Violations) -> HashSet<String> {
    let mut names = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let field = field.as_document();
        let name = field.and_then(|field| field.get_str("name").ok()).unwrap_or_default();
        if name.is_empty() {
            violations.push(Violation::new(format!("/fields/{index}/name"), "must not be empty"));
        } else if name.len() > LONGEST_FIELD_NAME {
            let message = format!("must be a string of at most {LONGEST_FIELD_NAME} bytes; it has {}", name.len());
            violations.push(Violation::new(format!("/fields/{index}/name"), message));
        } else if !names.insert(name.to_owned()) {
            let message = format!("another field is called {} too; names are unique within a type", quoted(name));
            violations.push(Violation::new(format!("/fields/{index}/name"), message));
        }
    }
    names
}

fn fill_render_meta(render_meta: &mut Document) {
    let given = std::mem::take(render_meta);
    let defaults = doc! {"icon": null, "sections": [], "externals": [], "summary": {"fields": []}};
    for (name, default) in defaults {
        let value = given.get(&name).cloned().unwrap_or(default);
        render_meta.insert(name, value);
    }
    // Members of other tools, accepted because they are as stored.
    for (name, value) in given {
        default_to(render_meta, &name, value);
    }
    for list in ["sections", "externals"] {
        for item in render_meta.get_array_mut(list).into_iter().flatten().filter_map(Bson::as_document_mut) {
            default_to(item, "fields", Bson::Array(Vec::new()));
        }
    }
    if let Ok(summary) = render_meta.get_document_mut("summary") {
        default_to(summary, "fields", Bson::Array(Vec::new()));
    }
}

fn check_render_meta(render_meta: &Document, names: &HashSet<String>, violations: &mut Violations) {
    for (list, also) in [("sections", None), ("externals", Some("object_id"))] {
        for (index, item) in render_meta.get_array(list).into_iter().flatten().enumerate() {
            if let Some(item) = item.as_document() {
                check_names(item, &format!("/render_meta/{list}/{index}"), names, also, violations);
            }
        }
    }
    if let Ok(summary) = render_meta.get_document("summary") {
        check_names(summary, "/render_meta/summary", names, None, violations);
    }
}

/// The names in `item.fields` must be those of fields of the type (or the one in `also`).
fn check_names(item: &Document, place: &str, names: &HashSet<String>, also: Option<&str>, violations: &mut Violations) {
    for (index, name) in item.get_array("fields").into_iter().flatten().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !names.contains(name) && also != Some(name) {
            let message = format!("the type has no field {}; fields is the whole list of its fields", quoted(name));
            violations.push(Violation::new(format!("{place}/fields/{index}"), message));
        }
    }
}

fn fill_acl(acl: &mut Document, violations: &mut Violations) {
    default_to(acl, "activated", false);
    default_to(acl, "groups", doc! {"includes": {}});
    if acl.get_bool("activated").is_err() {
        violations.push(Violation::new("/acl/activated", "must be true or false"));
    }
    let Ok(groups) = acl.get_document_mut("groups") else {
        violations.push(Violation::new("/acl/groups", "must be an object with the member includes"));
        return;
    };
    default_to(groups, "includes", Document::new());
    let Ok(includes) = groups.get_document("includes") else {
        violations.push(Violation::new("/acl/groups/includes", "must be an object of group ids"));
        return;
    };
    for (group, permissions) in includes {
        let mut pointer = "/acl/groups/includes".to_owned();
        pointer::push(&mut pointer, group);
        if group.parse::<i64>().is_err() {
            violations.push(Violation::new(pointer.as_str(), "must be the id of a group, as a string"));
        }
        let known = permissions.as_array().is_some_and(|permissions| {
            permissions.iter().all(|name| name.as_str().is_some_and(|name| PERMISSIONS.contains(&name)))
        });
        if !known {
            let message = format!("must be an array of {}", PERMISSIONS.join(", "));
            violations.push(Violation::new(pointer, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(body: &Document) -> Vec<String> {
        let violations = read(body).expect_err("the body is wrong");
        violations.into_iter().map(|violation| violation.pointer).collect()
    }

    #[test]
    fn the_least_body_gets_every_default() {
        let accepted = read(&doc! {"name": "rack-unit", "author_id": 1}).expect("the body is right");
        assert_eq!(
            accepted,
            doc! {
                "name": "rack-unit", "author_id": 1_i64, "fields": [], "label": "Rack-Unit", "editor_id": null,
                "active": true, "version": "1.0.0", "description": null,
                "render_meta": {"icon": null, "sections": [], "externals": [], "summary": {"fields": []}},
                "acl": {"activated": false, "groups": {"includes": {}}},
            }
        );
    }

    #[test]
    fn null_fields_are_no_fields() {
        let accepted = read(&doc! {"name": "rack", "author_id": 1, "fields": null}).expect("the body is right");
        assert_eq!(accepted.get("fields"), Some(&Bson::Array(Vec::new())));
    }

    #[test]
    fn sections_summary_and_externals_name_only_fields_of_the_type() {
        let body = doc! {
            "name": "rack", "author_id": 1,
            "fields": [{"type": "text", "name": "height", "label": "Height"}],
            "render_meta": {
                "sections": [{"type": "section", "name": "main", "label": "Main", "fields": ["height", "width"]}],
                "externals": [{"name": "wiki", "href": "/{}", "label": "Wiki", "icon": "", "fields": ["object_id", "x"]}],
                "summary": {"fields": ["object_id"]},
            },
        };
        let expected =
            ["/render_meta/sections/0/fields/1", "/render_meta/externals/0/fields/1", "/render_meta/summary/fields/0"];
        assert_eq!(places(&body), expected);
    }

    #[test]
    fn unknown_members_are_refused_in_render_meta_alone() {
        let body = doc! {"name": "rack", "author_id": 1, "clean_db": true, "render_meta": {"colour": "red"}};
        assert_eq!(places(&body), ["/render_meta/colour"]);
    }

    #[test]
    fn the_name_of_a_field_has_at_most_255_bytes() {
        let field = |name: String| doc! {"type": "text", "name": name, "label": "A"};
        let body = |name: String| doc! {"name": "rack", "author_id": 1, "fields": [field(name)]};
        assert!(read(&body("é".repeat(127) + "a")).is_ok());
        assert_eq!(places(&body("é".repeat(128))), ["/fields/0/name"]);
    }

    #[test]
    fn two_fields_of_one_name_are_refused() {
        let body = doc! {
            "name": "rack", "author_id": 1,
            "fields": [{"type": "text", "name": "a", "label": "A"}, {"type": "text", "name": "a", "label": "A"}],
        };
        assert_eq!(places(&body), ["/fields/1/name"]);
    }

    fn idle_places(fields: Vec<Document>, stored: Option<Vec<Document>>) -> Vec<String> {
        let stored = stored.map(|fields| doc! {"fields": fields});
        idle_fields(&doc! {"fields": fields}, stored.as_ref()).into_iter().map(|violation| violation.pointer).collect()
    }

    #[test]
    fn a_pattern_is_one_by_itself() {
        for pattern in ["(", "a)|(?:b", "?xi)(a"] {
            let field = doc! {"type": "text", "name": "a", "label": "A", "regex": pattern};
            assert_eq!(idle_places(vec![field.clone()], None), ["/fields/0/regex"]);
            assert_eq!(idle_places(vec![field.clone()], Some(vec![field])), [""; 0]);
        }
    }

    #[test]
    fn an_empty_pattern_is_none() {
        let field = doc! {"type": "text", "name": "a", "label": "A", "regex": "", "value": "any"};
        assert_eq!(idle_places(vec![field.clone()], None), [""; 0]);
        let field = doc! {"type": "text", "name": "a", "label": "A", "regex": "b+", "value": "any"};
        assert_eq!(idle_places(vec![field], None), ["/fields/0/value"]);
    }

    #[test]
    fn an_acl_lists_known_permissions_of_group_ids() {
        let body = doc! {
            "name": "rack", "author_id": 1,
            "acl": {"activated": "yes", "groups": {"includes": {"one": ["READ"], "2": ["WRITE"]}}, "kept": 1},
        };
        assert_eq!(places(&body), ["/acl/activated", "/acl/groups/includes/one", "/acl/groups/includes/2"]);
    }

    #[test]
    fn an_update_keeps_creation_time_and_what_other_tools_stored() {
        let (then, now) = (DateTime::from_millis(1), DateTime::from_millis(2));
        let stored = doc! {"_id": 5, "public_id": 7_i64, "name": "old", "creation_time": then, "note": "by hand"};
        let accepted = read(&doc! {"name": "new", "author_id": 1, "public_id": 7}).expect("the body is right");
        let document = updated(accepted, &stored, 3, now);
        assert_eq!(document.get("note"), Some(&Bson::from("by hand")));
        assert_eq!(document.get("creation_time"), Some(&Bson::from(then)));
        assert_eq!(document.get("last_edit_time"), Some(&Bson::from(now)));
        assert_eq!(document.get("editor_id"), Some(&Bson::Int64(3)));
        assert_eq!(document.keys().take(2).collect::<Vec<_>>(), ["_id", "public_id"]);
    }
}
