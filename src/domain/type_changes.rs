//! What differs between two states of a type, and how serious each difference is for its objects. Pure: the values of objects
//! are compared elsewhere (`service::types::fitting`).

use std::collections::HashSet;

use bson::{Bson, Document};

use super::object_fields::ValueKind;
use super::object_type::{Field, ObjectType};

/// How serious a difference is for stored objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// No stored value can break it.
    Allowed,
    /// Some stored value may break it.
    NeedsCheck,
    /// Stored values are lost from view, or no longer have the form of the field, until objects are changed.
    NeedsMigration,
    /// The service refuses the change.
    Refused,
}

impl Class {
    /// All names.
    pub const NAMES: [&str; 4] = ["allowed", "needs_check", "needs_migration", "refused"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One difference between two states of a type.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// What differs, as one of [`Difference::CHANGES`].
    pub change: &'static str,
    /// The name of the field, the section or the link; nothing for the type itself.
    pub name: Option<String>,
    /// How serious it is.
    pub class: Class,
    /// What it was; null for nothing.
    pub from: Bson,
    /// What it becomes; null for nothing.
    pub to: Bson,
    /// For a removed field: the new field that has the same kind and label, or the only one of the same kind.
    pub may_be_renamed_to: Option<String>,
}

/// A field that was added, removed, or has another kind: every value of it is concerned.
const FIELD_ADDED: &str = "field_added";
const FIELD_REMOVED: &str = "field_removed";
const KIND: &str = "kind";
const SECTION_REMOVED: &str = "section_removed";

impl Difference {
    /// All words for what can differ.
    pub const CHANGES: [&str; 29] = [
        "name", "label", "description", "active", "version", "icon", "acl", FIELD_ADDED, FIELD_REMOVED, "field_order",
        KIND, "required", "regex", "options", "ref_types", "default", "field_label", "field_help", "field_summaries",
        "section_added", SECTION_REMOVED, "section", "section_order", "external_added", "external_removed", "external",
        "external_order", "summary", "indexes",
    ];

    fn of(change: &'static str, name: Option<&str>, class: Class, sides: (Bson, Bson)) -> Self {
        let (from, to) = sides;
        Self { change, name: name.map(str::to_owned), class, from, to, may_be_renamed_to: None }
    }

    /// Whether it is about a field as a whole, so about every value of it.
    pub fn is_of_all_values(&self) -> bool {
        [FIELD_ADDED, FIELD_REMOVED, KIND].contains(&self.change)
    }

    /// The field that it takes away from others that name it, or shows them with other values.
    pub fn withdrawn_field(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| [FIELD_REMOVED, KIND].contains(&self.change))
    }

    fn withdrawn_section(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| self.change == SECTION_REMOVED)
    }
}

/// What differs between two states of a type, each as it is stored.
pub fn differences(before: (&ObjectType, &Document), after: (&ObjectType, &Document)) -> Vec<Difference> {
    let mut found = Vec::new();
    let members = ["name", "label", "description", "active", "version", "acl", "indexes"];
    for change in members {
        // Members of an access list can be in another order.
        let is_same =
            if change == "acl" { before.0.acl == after.0.acl } else { at(before.1, change) == at(after.1, change) };
        if !is_same {
            found.push(Difference::of(change, None, Class::Allowed, (at(before.1, change), at(after.1, change))));
        }
    }
    fields(before.0, after.0, &mut found);
    let (was, is) = (layout(before.1), layout(after.1));
    if at(was, "icon") != at(is, "icon") {
        found.push(Difference::of("icon", None, Class::Allowed, (at(was, "icon"), at(is, "icon"))));
    }
    let sections = ["section_added", SECTION_REMOVED, "section", "section_order"];
    let externals = ["external_added", "external_removed", "external", "external_order"];
    named((was, is, "sections"), sections, &mut found);
    named((was, is, "externals"), externals, &mut found);
    if before.0.summary_fields != after.0.summary_fields {
        let sides = (names(&before.0.summary_fields), names(&after.0.summary_fields));
        found.push(Difference::of("summary", None, Class::Allowed, sides));
    }
    found
}

fn at(document: &Document, name: &str) -> Bson {
    document.get(name).cloned().unwrap_or(Bson::Null)
}

fn layout(object_type: &Document) -> &Document {
    static NONE: std::sync::LazyLock<Document> = std::sync::LazyLock::new(Document::new);
    object_type.get_document("render_meta").unwrap_or(&NONE)
}

fn names(names: &[String]) -> Bson {
    Bson::Array(names.iter().map(|name| Bson::from(name.as_str())).collect())
}

fn fields(before: &ObjectType, after: &ObjectType, found: &mut Vec<Difference>) {
    let removed: Vec<&Field> = before.fields.iter().filter(|field| after.field(&field.name).is_none()).collect();
    let added: Vec<&Field> = after.fields.iter().filter(|field| before.field(&field.name).is_none()).collect();
    for field in &removed {
        let sides = (Bson::from(field.kind.as_str()), Bson::Null);
        let mut difference = Difference::of(FIELD_REMOVED, Some(&field.name), Class::NeedsMigration, sides);
        difference.may_be_renamed_to = successor(field, &removed, &added).map(str::to_owned);
        found.push(difference);
    }
    for field in &added {
        let sides = (Bson::Null, Bson::from(field.kind.as_str()));
        found.push(Difference::of(FIELD_ADDED, Some(&field.name), Class::NeedsCheck, sides));
    }
    for field in &after.fields {
        if let Some(was) = before.field(&field.name) {
            rules((before, was), (after, field), found);
            texts(was, field, found);
        }
    }
    let order = |one: &ObjectType, other: &ObjectType| -> Vec<String> {
        one.fields.iter().filter(|field| other.field(&field.name).is_some()).map(|field| field.name.clone()).collect()
    };
    let (was, is) = (order(before, after), order(after, before));
    if was != is {
        found.push(Difference::of("field_order", None, Class::Allowed, (names(&was), names(&is))));
    }
}

/// The new field that a removed one may have become.
fn successor<'a>(field: &Field, removed: &[&Field], added: &[&'a Field]) -> Option<&'a str> {
    let alike = |other: &&&Field| other.kind == field.kind;
    let same: Vec<&&Field> = added.iter().filter(alike).filter(|other| other.label == field.label).collect();
    let only: Vec<&&Field> = added.iter().filter(alike).collect();
    let is_alone = removed.iter().filter(|other| other.kind == field.kind).count() == 1;
    match (&same[..], &only[..]) {
        ([one], _) => Some(one.name.as_str()),
        ([], [one]) if is_alone => Some(one.name.as_str()),
        _ => None,
    }
}

/// What differs in the rules for values of a field.
fn rules((before, was): (&ObjectType, &Field), (after, is): (&ObjectType, &Field), found: &mut Vec<Difference>) {
    let mut add = |change, class, sides| found.push(Difference::of(change, Some(&is.name), class, sides));
    if was.kind != is.kind {
        add(KIND, class_of_kind(was, is), (was.kind.as_str().into(), is.kind.as_str().into()));
    }
    if was.required != is.required {
        let class = if is.required { Class::NeedsCheck } else { Class::Allowed };
        add("required", class, (was.required.into(), is.required.into()));
    }
    if was.regex != is.regex {
        let holds = is.regex.is_some() && ValueKind::named(&is.kind) == ValueKind::Text;
        let side = |field: &Field| field.regex.as_deref().map_or(Bson::Null, Bson::from);
        add("regex", if holds { Class::NeedsCheck } else { Class::Allowed }, (side(was), side(is)));
    }
    if was.options != is.options {
        let kept: HashSet<&str> = is.options.iter().map(|option| option.name.as_str()).collect();
        let is_wider = was.has_choice() && was.options.iter().all(|option| kept.contains(option.name.as_str()));
        let class = if is_wider || !is.has_choice() { Class::Allowed } else { Class::NeedsCheck };
        let side = |field: &Field| field.options.iter().map(|option| Bson::from(option.name.as_str())).collect();
        add("options", class, (Bson::Array(side(was)), Bson::Array(side(is))));
    }
    let targets = |object_type: &ObjectType, field: &Field| object_type.targets(field).collect::<Vec<i64>>();
    let (had, has) = (targets(before, was), targets(after, is));
    if had != has {
        let is_wider = has.is_empty() || !had.is_empty() && had.iter().all(|id| has.contains(id));
        let class = if is_wider { Class::Allowed } else { Class::NeedsCheck };
        let side = |ids: Vec<i64>| Bson::Array(ids.into_iter().map(Bson::Int64).collect());
        add("ref_types", class, (side(had), side(has)));
    }
    if was.value != is.value {
        add("default", Class::Allowed, (was.value.clone(), is.value.clone()));
    }
}

/// Values of one kind as values of another.
fn class_of_kind(was: &Field, is: &Field) -> Class {
    let (had, has) = (ValueKind::named(&was.kind), ValueKind::named(&is.kind));
    if has == ValueKind::Any {
        Class::Allowed
    } else if had != has {
        if had == ValueKind::Any { Class::NeedsCheck } else { Class::NeedsMigration }
    } else if is.has_choice() && !was.has_choice() {
        Class::NeedsCheck
    } else {
        Class::Allowed
    }
}

/// What differs in how a field looks.
fn texts(was: &Field, is: &Field, found: &mut Vec<Difference>) {
    let mut add = |change, sides| found.push(Difference::of(change, Some(&is.name), Class::Allowed, sides));
    if was.label != is.label {
        add("field_label", (was.label.as_str().into(), is.label.as_str().into()));
    }
    let help = |field: &Field| {
        let texts = [&field.description, &field.placeholder, &field.helper_text];
        Bson::Array(texts.map(|text| text.as_deref().map_or(Bson::Null, Bson::from)).to_vec())
    };
    if help(was) != help(is) {
        add("field_help", (help(was), help(is)));
    }
    if was.summaries != is.summaries {
        let lines = |field: &Field| {
            let lines = field.summaries.iter().map(|summary| Bson::from(summary.line.join("{}")));
            Bson::Array(lines.collect())
        };
        add("field_summaries", (lines(was), lines(is)));
    }
}

/// What differs in the entries of a list that have names: which were added, which removed, which changed, and their order.
fn named((was, is, list): (&Document, &Document, &str), words: [&'static str; 4], found: &mut Vec<Difference>) {
    let entries = |layout: &Document| -> Vec<(String, Bson)> {
        let items = layout.get_array(list).map(Vec::as_slice).unwrap_or_default();
        let name =
            |item: &Bson| item.as_document().and_then(|item| item.get_str("name").ok()).unwrap_or_default().to_owned();
        items.iter().map(|item| (name(item), item.clone())).collect()
    };
    let (was, is) = (entries(was), entries(is));
    let find = |entries: &[(String, Bson)], name: &str| entries.iter().find(|(other, _)| other == name).cloned();
    let [added, removed, changed, order] = words;
    for (name, entry) in &was {
        match find(&is, name) {
            None => found.push(Difference::of(removed, Some(name), Class::Allowed, (entry.clone(), Bson::Null))),
            Some((_, now)) if now != *entry => {
                found.push(Difference::of(changed, Some(name), Class::Allowed, (entry.clone(), now)));
            }
            Some(_) => {}
        }
    }
    for (name, entry) in is.iter().filter(|(name, _)| find(&was, name).is_none()) {
        found.push(Difference::of(added, Some(name), Class::Allowed, (Bson::Null, entry.clone())));
    }
    let both = |one: &[(String, Bson)], other: &[(String, Bson)]| -> Vec<String> {
        one.iter().filter(|(name, _)| find(other, name).is_some()).map(|(name, _)| name.clone()).collect()
    };
    let (before, after) = (both(&was, &is), both(&is, &was));
    if before != after {
        found.push(Difference::of(order, None, Class::Allowed, (names(&before), names(&after))));
    }
}

/// The fields whose values decide about a change, so that they must be looked at.
pub fn to_check(differences: &[Difference]) -> HashSet<String> {
    let checked = differences.iter().filter(|difference| difference.class > Class::Allowed);
    checked.filter_map(|difference| difference.name.clone()).collect()
}

/// A place of another type that names what a difference takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// The member of that type: `summaries` of a field, or a `ref-section`.
    pub place: &'static str,
    /// The name of that field or section.
    pub name: String,
}

/// The places of another type that name what the difference takes away from the type `id`.
pub fn dependents(difference: &Difference, id: i64, other: &ObjectType) -> Vec<Dependent> {
    let field = difference.withdrawn_field();
    let names_it = |names: &[String]| field.is_some_and(|field| names.iter().any(|name| name == field));
    let summaries = other
        .fields
        .iter()
        .filter(|shown| shown.summaries.iter().any(|summary| summary.type_id == id && names_it(&summary.fields)));
    let summaries = summaries.map(|shown| Dependent { place: "summaries", name: shown.name.clone() });
    let sections = other.sections.iter().filter(|section| {
        section.reference.as_ref().is_some_and(|reference| {
            let is_gone = difference.withdrawn_section() == Some(reference.section_name.as_str());
            reference.type_id == id && (is_gone || names_it(&reference.selected_fields))
        })
    });
    summaries.chain(sections.map(|section| Dependent { place: "ref-section", name: section.name.clone() })).collect()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn found(before: &Document, after: &Document) -> Vec<(&'static str, Option<String>, Class)> {
        let compiled = |document: &Document| {
            let raw = bson::raw::RawDocumentBuf::try_from(document).expect("a document");
            ObjectType::from_document(&raw).expect("a type")
        };
        let (was, is) = (compiled(before), compiled(after));
        let found = differences((&was, before), (&is, after));
        assert!(found.iter().all(|difference| Difference::CHANGES.contains(&difference.change)), "{found:?}");
        found.into_iter().map(|difference| (difference.change, difference.name, difference.class)).collect()
    }

    fn with_fields(fields: Vec<Document>) -> Document {
        doc! { "public_id": 1_i64, "name": "rack", "fields": fields }
    }

    #[test]
    fn the_same_type_differs_in_nothing() {
        let rack = with_fields(vec![doc! { "type": "text", "name": "a" }]);
        assert_eq!(found(&rack, &rack), []);
    }

    #[test]
    fn fields_come_go_and_change() {
        let before = with_fields(vec![
            doc! { "type": "text", "name": "old", "label": "Old" },
            doc! { "type": "text", "name": "size", "label": "Size", "regex": "a" },
            doc! { "type": "select", "name": "state", "label": "State", "options": [{ "name": "x" }, { "name": "y" }] },
        ]);
        let after = with_fields(vec![
            doc! { "type": "number", "name": "size", "label": "Size", "required": true, "regex": "b" },
            doc! { "type": "select", "name": "state", "label": "S", "options": [{ "name": "x" }] },
            doc! { "type": "date", "name": "new", "label": "New" },
        ]);
        let name = |name: &str| Some(name.to_owned());
        let expected = [
            ("field_removed", name("old"), Class::NeedsMigration),
            ("field_added", name("new"), Class::NeedsCheck),
            ("kind", name("size"), Class::NeedsMigration),
            ("required", name("size"), Class::NeedsCheck),
            ("regex", name("size"), Class::Allowed),
            ("options", name("state"), Class::NeedsCheck),
            ("field_label", name("state"), Class::Allowed),
        ];
        assert_eq!(found(&before, &after), expected);
        assert_eq!(found(&after, &before).iter().filter(|(_, _, class)| *class == Class::Allowed).count(), 3);
    }

    #[test]
    fn a_field_under_another_name_may_be_renamed() {
        let before = with_fields(vec![doc! { "type": "text", "name": "host", "label": "Host" }]);
        let after = with_fields(vec![doc! { "type": "text", "name": "hostname", "label": "Host" }]);
        let raw = |document: &Document| bson::raw::RawDocumentBuf::try_from(document).expect("a document");
        let (was, is) = (ObjectType::from_document(&raw(&before)), ObjectType::from_document(&raw(&after)));
        let all = differences((&was.expect("a type"), &before), (&is.expect("a type"), &after));
        assert_eq!(all[0].may_be_renamed_to.as_deref(), Some("hostname"));
    }

    #[test]
    fn sections_and_links_are_compared_by_name() {
        let with = |sections: Vec<Document>| doc! { "public_id": 1_i64, "render_meta": { "sections": sections } };
        let section = |name: &str, label: &str| doc! { "type": "section", "name": name, "label": label };
        let before = with(vec![section("a", "A"), section("b", "B"), section("c", "C")]);
        let after = with(vec![section("c", "C"), section("b", "other"), section("d", "D")]);
        let words: Vec<&str> = found(&before, &after).into_iter().map(|(word, _, _)| word).collect();
        assert_eq!(words, ["section_removed", "section", "section_added", "section_order"]);
    }
}
