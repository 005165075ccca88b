//! JSON text that all views of a type's objects share, so that rendering copies it.

use bson::Document;
use bson::raw::RawDocumentBuf;

use super::{External, Field, ObjectType, Section};
use crate::json::write::{DateStyle, ObjectWriter, Shape, array, object, write_date, write_document, write_string};

/// The fixed text around a field's value.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldFragments {
    /// `{"type":"text","name":"hostname","label":"Hostname","value":`.
    pub(crate) opening: Vec<u8>,
    /// Members after the value, each with its comma: `,"options":[..]`, `,"ref_types":[..]`; often empty.
    pub(crate) after_value: Vec<u8>,
}

/// The fixed text around a link's address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExternalFragments {
    /// `{"name":"wiki","href":`.
    pub(crate) opening: Vec<u8>,
    /// Members from `label` to `fields`, each with its comma.
    pub(crate) after_href: Vec<u8>,
}

/// The fixed text of a type.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypeFragments {
    /// Members from `type_id` to `author_id`.
    pub(crate) before_author_name: Vec<u8>,
    /// Members from `icon` to `acl`.
    pub(crate) after_author_name: Vec<u8>,
    /// The list of sections.
    pub(crate) sections: Vec<u8>,
    /// Members `type_name` and `type_label`.
    pub(crate) name_and_label: Vec<u8>,
    /// The icon as a JSON value.
    pub(crate) icon: Vec<u8>,
}

impl FieldFragments {
    pub(super) fn of(field: &Field) -> Self {
        let mut opening = Vec::new();
        object(&mut opening, |members| {
            members.string("type", &field.kind);
            members.string("name", &field.name);
            members.string("label", &field.label);
            members.name("value");
        });
        opening.pop();
        Self { opening, after_value: after_value(field) }
    }
}

fn after_value(field: &Field) -> Vec<u8> {
    let mut members = Vec::new();
    if !field.options.is_empty() {
        members.extend_from_slice(b",\"options\":");
        array(&mut members, |options| {
            for option in &field.options {
                options.object(|members| {
                    members.string("name", &option.name);
                    members.string("label", &option.label);
                });
            }
        });
    }
    if field.is_reference() && !field.ref_types.is_empty() {
        members.extend_from_slice(b",\"ref_types\":");
        array(&mut members, |types| field.ref_types.iter().for_each(|&type_id| types.integer(type_id)));
    }
    members
}

impl ExternalFragments {
    pub(super) fn of(external: &External) -> Self {
        let mut opening = Vec::new();
        object(&mut opening, |members| {
            members.string("name", &external.name);
            members.name("href");
        });
        opening.pop();
        let mut after_href = b",".to_vec();
        after_href.extend(bare(|members| {
            members.string("label", &external.label);
            members.optional_string("icon", external.icon.as_deref());
            members.array("fields", |names| external.fields.iter().for_each(|name| names.string(name)));
        }));
        Self { opening, after_href }
    }
}

impl TypeFragments {
    /// `acl` is the stored access list, which views show unchanged.
    pub(super) fn of(object_type: &ObjectType, acl: Option<&Document>) -> Self {
        let mut icon = Vec::new();
        match &object_type.icon {
            Some(name) => write_string(name, &mut icon),
            None => icon.extend_from_slice(b"null"),
        }
        let mut sections = Vec::new();
        array(&mut sections, |items| {
            for section in &object_type.sections {
                items.object(|members| write_section(section, members));
            }
        });
        let name_and_label = bare(|members| {
            members.string("type_name", &object_type.name);
            members.string("type_label", &object_type.label);
        });
        Self {
            before_author_name: before_author_name(object_type, &name_and_label),
            after_author_name: bare(|members| {
                members.json("icon", &icon);
                members.boolean("active", object_type.active);
                members.string("version", &object_type.version);
                write_acl(acl, members.name("acl"));
            }),
            sections,
            name_and_label,
            icon,
        }
    }
}

fn before_author_name(object_type: &ObjectType, name_and_label: &[u8]) -> Vec<u8> {
    bare(|members| {
        members.integer("type_id", object_type.public_id);
        members.members(name_and_label);
        match object_type.creation_time {
            Some(time) => write_date(time.timestamp_millis(), DateStyle::Iso, members.name("creation_time")),
            None => members.null("creation_time"),
        }
        members.optional_integer("author_id", object_type.author_id);
    })
}

fn write_section(section: &Section, members: &mut ObjectWriter<'_>) {
    members.string("type", &section.kind);
    members.string("name", &section.name);
    members.string("label", &section.label);
    members.array("fields", |names| section.fields.iter().for_each(|name| names.string(name)));
    if let Some(target) = &section.reference {
        members.object("reference", |members| {
            members.integer("type_id", target.type_id);
            members.string("section_name", &target.section_name);
            members.array("selected_fields", |names| target.selected_fields.iter().for_each(|name| names.string(name)));
        });
    }
}

fn write_acl(acl: Option<&Document>, out: &mut Vec<u8>) {
    const OPEN: &[u8] = br#"{"activated":false,"groups":{"includes":{}}}"#;
    let stored = acl.and_then(|acl| RawDocumentBuf::try_from(acl.clone()).ok());
    let is_written = stored.is_some_and(|acl| write_document(&acl, Shape::whole(DateStyle::Iso), out).is_ok());
    if !is_written {
        out.extend_from_slice(OPEN);
    }
}

/// The members of an object without its braces.
fn bare(members: impl FnOnce(&mut ObjectWriter<'_>)) -> Vec<u8> {
    let mut text = Vec::new();
    object(&mut text, members);
    text.pop();
    text.remove(0);
    text
}
