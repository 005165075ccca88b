//! The list of fields in a view, with the targets of `ref` and `ref-section-field` fields.
//!
//! A target can show fields of its own, whose targets are written in the same way.

use std::cell::Cell;

use super::catalog::RenderCatalog;
use super::stored::{FieldValues, StoredObject};
use super::{RenderContext, line, write_summaries};
use crate::domain::object_type::{Field, ObjectType, Permission, Role, SectionReference};
use crate::json::write::{DateStyle, ObjectWriter, array, object, write_value};
use crate::raw::{CorruptBson, Value};

/// How deep sections of other objects are included, in objects.
pub(super) const MAX_DEPTH: u32 = 3;

/// How many sections of other objects one view includes; further ones show no fields. It is far above normal use, and
/// bounds the memory for types that refer to each other by hundreds of fields.
const MAX_SECTIONS: u32 = 200;

/// The context of all fields of a view, on every level.
pub(super) struct FieldView<'a, C: ?Sized> {
    pub(super) catalog: &'a C,
    pub(super) context: &'a RenderContext,
    sections_left: Cell<u32>,
}

impl<'a, C: RenderCatalog + ?Sized> FieldView<'a, C> {
    pub(super) fn new(catalog: &'a C, context: &'a RenderContext) -> Self {
        Self { catalog, context, sections_left: Cell::new(MAX_SECTIONS) }
    }

    /// The fields of the object itself.
    pub(super) fn write_page_fields(
        &self,
        stored: &StoredObject<'_>,
        object_type: &ObjectType,
        values: &FieldValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptBson> {
        let trail = Trail::start(stored.public_id);
        self.write_fields(object_type, object_type.layout.shown.iter().copied(), values, &trail, out)
    }

    /// A list of fields, each `{type, name, label, value}` followed by what applies of
    ///
    /// - `options`: `[{name, label}]`, for fields that have options;
    /// - `ref_types`: type ids, for fields that refer;
    /// - `reference`, and of a list `references`: see [`write_reference`].
    fn write_fields(
        &self,
        object_type: &ObjectType,
        positions: impl Iterator<Item = usize>,
        values: &FieldValues<'_>,
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptBson> {
        array(out, |items| {
            for position in positions {
                let field = &object_type.fields[position];
                let value = values.at(position);
                let item = items.item();
                item.extend_from_slice(&field.fragments.opening);
                write_value(value, DateStyle::Millis, item)?;
                item.extend_from_slice(&field.fragments.after_value);
                if field.is_reference() && trail.depth < MAX_DEPTH {
                    write_references(self, object_type, field, value, trail, item)?;
                }
                item.push(b'}');
            }
            Ok(())
        })
    }

    /// Counts an included section; `false` when there are too many.
    fn may_take_in_section(&self) -> bool {
        let left = self.sections_left.get();
        self.sections_left.set(left.saturating_sub(1));
        left > 0
    }
}

/// The path of objects from the one on the page to the one whose fields are being written.
struct Trail<'a> {
    object_id: Option<i64>,
    depth: u32,
    before: Option<&'a Trail<'a>>,
}

impl<'a> Trail<'a> {
    fn start(object_id: Option<i64>) -> Self {
        Self { object_id, depth: 0, before: None }
    }

    fn to(&'a self, object_id: i64) -> Self {
        Self { object_id: Some(object_id), depth: self.depth + 1, before: Some(self) }
    }

    fn contains(&self, object_id: i64) -> bool {
        self.object_id == Some(object_id) || self.before.is_some_and(|before| before.contains(object_id))
    }
}

/// Writes `,"reference": ..` for a field that has a value, or `,"references": [..]` for one that has a list.
fn write_references<C: RenderCatalog + ?Sized>(
    view: &FieldView<'_, C>,
    object_type: &ObjectType,
    field: &Field,
    value: Value<'_>,
    trail: &Trail<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    if !refers(value) {
        return Ok(());
    }
    if !field.refers_to_several() {
        out.extend_from_slice(b",\"reference\":");
        return write_reference(view, object_type, field, value, trail, out);
    }
    out.extend_from_slice(b",\"references\":");
    array(out, |items| {
        let mut elements = value.elements();
        while let Some(element) = elements.next_element()? {
            write_reference(view, object_type, field, element.value, trail, items.item())?;
        }
        Ok(())
    })
}

/// Writes what a view shows of the object that a value refers to.
///
/// - `{type_id, object_id, type_name, type_label, line, icon, prefix, summaries}`: the line, icon, prefix and
///   `summaries` (as `{type, name, label, value}`) come from the field's own summary for the target's type. Without
///   one: the target type's summary and icon, `prefix` true.
/// - For a field of a `ref-section` also `fields`: those of the target's section in its order, or only the selected
///   ones, each as on the page itself. Empty if the section was deleted, or if the target is on the path to this
///   object. After three objects `reference` is left out.
/// - `{"protected": true}` when the target is hidden from the caller's group. The same for a deleted target if the
///   field may refer to a hidden type: the view must not tell whether a hidden object exists.
/// - Any other deleted target: `type_id` and `object_id` 0, empty texts, `icon` null, `prefix` false, no `summaries`.
///   The same if the value is no id. If only the target's type was deleted, the ids are those of the target.
fn write_reference<C: RenderCatalog + ?Sized>(
    view: &FieldView<'_, C>,
    object_type: &ObjectType,
    field: &Field,
    value: Value<'_>,
    trail: &Trail<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    let id = value.as_integer();
    let Some((object_id, document)) = id.and_then(|id| Some((id, view.catalog.object(id)?))) else {
        write_unseen(id.is_some() && may_be_hidden(view, object_type, field), out);
        return Ok(());
    };
    let stored = StoredObject::read_referred(document)?;
    let type_id = stored.type_id.unwrap_or(0);
    let Some(target_type) = view.catalog.object_type(type_id) else {
        object(out, |members| write_dangling(type_id, object_id, members));
        return Ok(());
    };
    if !target_type.acl.allows(view.context.group_id, Permission::Read) {
        write_unseen(may_be_hidden(view, object_type, field), out);
        return Ok(());
    }
    let section = section_of(object_type, field);
    let values = values_of(&stored, target_type, field, section, view.context.may_edit)?;
    let target = RenderedTarget { object_id, stored, object_type: target_type, values };
    object(out, |members| {
        write_target(field, &target, members)?;
        match section {
            Some(section) => write_section_fields(view, section, &target, trail, members.name("fields")),
            None => Ok(()),
        }
    })
}

/// Whether the field may refer to objects of a type that is hidden from the group. One that lists no types may refer to all.
fn may_be_hidden<C: RenderCatalog + ?Sized>(view: &FieldView<'_, C>, object_type: &ObjectType, field: &Field) -> bool {
    let hides = |id| {
        let target = view.catalog.object_type(id);
        target.is_some_and(|target| !target.acl.allows(view.context.group_id, Permission::Read))
    };
    let mut targets = object_type.targets(field).peekable();
    view.context.hides_types && (targets.peek().is_none() || targets.any(hides))
}

/// A target that the caller does not see: hidden or deleted.
fn write_unseen(may_be_hidden: bool, out: &mut Vec<u8>) {
    object(out, |members| {
        if may_be_hidden {
            members.boolean("protected", true);
        } else {
            write_dangling(0, 0, members);
        }
    });
}

/// The values that the reference shows: without a section those of the summary, which are often the first ones.
fn values_of<'a>(
    stored: &StoredObject<'a>,
    target: &ObjectType,
    field: &Field,
    section: Option<&SectionReference>,
    may_edit: bool,
) -> Result<FieldValues<'a>, CorruptBson> {
    if section.is_some() {
        return FieldValues::read(stored, target, may_edit);
    }
    let Some(summary) = field.summary_for(target.public_id) else {
        return FieldValues::read_some(stored, target, may_edit, target.layout.summary.iter().copied());
    };
    // An empty summary falls back to the line of the target's type.
    let own = if summary.line.is_empty() { target.layout.summary.as_slice() } else { &[] };
    let positions = summary.fields.iter().filter_map(|name| target.position(name)).chain(own.iter().copied());
    FieldValues::read_some(stored, target, may_edit, positions)
}

/// Whether the value is a reference: not null, and not the empty text that forms send for no value.
fn refers(value: Value<'_>) -> bool {
    !value.is_null() && value.as_str() != Some("")
}

/// The part of the target that a field of a `ref-section` shows.
pub(super) fn section_of<'a>(object_type: &'a ObjectType, field: &Field) -> Option<&'a SectionReference> {
    match field.role {
        Role::SectionReference(section) => object_type.sections[section].reference.as_ref(),
        _ => None,
    }
}

/// Positions of the fields that a `ref-section` shows of objects of this type.
pub(super) fn taken_in<'a>(
    target: &'a ObjectType,
    reference: &'a SectionReference,
) -> impl Iterator<Item = usize> + Clone {
    let section = target.sections.iter().position(|section| section.name == reference.section_name);
    let positions = section.map(|section| target.layout.sections[section].as_slice()).unwrap_or_default();
    let is_selected = |position: &usize| {
        let selected = &reference.selected_fields;
        selected.is_empty() || selected.contains(&target.fields[*position].name)
    };
    positions.iter().copied().filter(is_selected)
}

struct RenderedTarget<'a> {
    object_id: i64,
    stored: StoredObject<'a>,
    object_type: &'a ObjectType,
    values: FieldValues<'a>,
}

fn write_target(field: &Field, target: &RenderedTarget<'_>, members: &mut ObjectWriter<'_>) -> Result<(), CorruptBson> {
    let RenderedTarget { object_id, stored, object_type, values } = target;
    members.integer("type_id", object_type.public_id);
    members.integer("object_id", *object_id);
    members.members(&object_type.fragments.name_and_label);
    let Some(summary) = field.summary_for(object_type.public_id) else {
        members.string("line", &line::of_object(stored, object_type, values)?);
        members.json("icon", &object_type.fragments.icon);
        members.boolean("prefix", true);
        let own_summary = object_type.layout.summary.iter().copied();
        return write_summaries(object_type, own_summary, values, members.name("summaries"));
    };
    members.string("line", &line::of_reference(summary, stored, object_type, values)?);
    members.optional_string("icon", summary.icon.as_deref());
    members.boolean("prefix", summary.prefix);
    let positions = summary.fields.iter().filter_map(|name| object_type.position(name));
    write_summaries(object_type, positions, values, members.name("summaries"))
}

fn write_section_fields<C: RenderCatalog + ?Sized>(
    view: &FieldView<'_, C>,
    section: &SectionReference,
    target: &RenderedTarget<'_>,
    trail: &Trail<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    if trail.contains(target.object_id) || !view.may_take_in_section() {
        out.extend_from_slice(b"[]");
        return Ok(());
    }
    let positions = taken_in(target.object_type, section);
    view.write_fields(target.object_type, positions, &target.values, &trail.to(target.object_id), out)
}

fn write_dangling(type_id: i64, object_id: i64, members: &mut ObjectWriter<'_>) {
    members.integer("type_id", type_id);
    members.integer("object_id", object_id);
    members.string("type_name", "");
    members.string("type_label", "");
    members.string("line", "");
    members.null("icon");
    members.boolean("prefix", false);
    members.array("summaries", |_| ());
}
