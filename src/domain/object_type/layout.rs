//! The order and the roles of a type's fields, computed once.

use std::collections::HashMap;

use super::{External, Field, OBJECT_ID, PASSWORD, REF, REF_SECTION, REF_SECTION_FIELD, REFS, Section};

/// What rendering a field needs beyond its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing.
    Plain,
    /// Showing it only to those who may edit.
    Password,
    /// Summing up the referenced object.
    Reference,
    /// Summing up each of the referenced objects.
    References,
    /// The summary of the referenced object, and its fields as the section at this position defines.
    SectionReference(usize),
}

/// Where a value of a link comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkSource {
    /// The object's `public_id`.
    ObjectId,
    /// The field at this position.
    Field(usize),
    /// Nowhere: the type has no such field.
    Missing,
}

/// Positions in the lists of a type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// The fields in the order of views: section by section, then those in no section. Each once.
    pub(crate) shown: Vec<usize>,
    /// The summary's fields that exist.
    pub(crate) summary: Vec<usize>,
    /// The fields that refer to objects, in the order they are shown.
    pub(crate) references: Vec<usize>,
    /// Per section the fields that exist.
    pub(crate) sections: Vec<Vec<usize>>,
    /// Per external where its values come from.
    pub(crate) externals: Vec<Vec<LinkSource>>,
}

impl Layout {
    pub(super) fn new(
        fields: &[Field],
        positions: &HashMap<String, usize>,
        sections: &[Section],
        summary_fields: &[String],
        externals: &[External],
    ) -> Self {
        let existing =
            |names: &[String]| -> Vec<usize> { names.iter().filter_map(|name| positions.get(name).copied()).collect() };
        let sections: Vec<Vec<usize>> = sections.iter().map(|section| existing(&section.fields)).collect();
        let shown = shown(fields.len(), &sections);
        Self {
            references: shown.iter().copied().filter(|&position| fields[position].is_reference()).collect(),
            shown,
            summary: existing(summary_fields),
            externals: externals.iter().map(|external| sources(positions, external)).collect(),
            sections,
        }
    }
}

fn shown(fields: usize, sections: &[Vec<usize>]) -> Vec<usize> {
    let mut is_listed = vec![false; fields];
    let in_order = sections.iter().flatten().copied().chain(0..fields);
    in_order.filter(|&position| !std::mem::replace(&mut is_listed[position], true)).collect()
}

fn sources(positions: &HashMap<String, usize>, external: &External) -> Vec<LinkSource> {
    let source = |name: &String| match positions.get(name) {
        _ if name == OBJECT_ID => LinkSource::ObjectId,
        Some(&position) => LinkSource::Field(position),
        None => LinkSource::Missing,
    };
    external.fields.iter().map(source).collect()
}

/// The role of a field. One of kind `ref-section-field` belongs to the `ref-section` that lists it,
/// or that has its name less the ending `-field`.
pub(super) fn role(field: &Field, sections: &[Section]) -> Role {
    match field.kind.as_str() {
        PASSWORD => Role::Password,
        REF => Role::Reference,
        REFS => Role::References,
        REF_SECTION_FIELD => {
            let owns = |section: &Section| {
                section.kind == REF_SECTION
                    && section.reference.is_some()
                    && (section.fields.contains(&field.name)
                        || field.name.strip_suffix("-field") == Some(section.name.as_str()))
            };
            sections.iter().position(owns).map_or(Role::Reference, Role::SectionReference)
        }
        _ => Role::Plain,
    }
}
