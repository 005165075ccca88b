//! A type of objects, compiled from its stored document for fast validation and rendering.
//!
//! Laws:
//! - Reading is tolerant, because other tools write types too. Malformed members count as absent. Only a document
//!   without a `public_id` is refused.
//! - Everything that all views of the type's objects share is computed here, once.

mod fragments;
mod layout;
mod read;

use std::collections::HashMap;

use bson::raw::RawDocument;
use bson::{Bson, DateTime};

pub(crate) use self::fragments::{ExternalFragments, FieldFragments, TypeFragments};
pub(crate) use self::layout::{Layout, LinkSource, Role};
pub use super::acl::{Acl, Permission};
pub use super::link_template::LinkTemplate;
use super::on_delete::OnDelete;
use crate::suggest;

/// The kind of a field that refers to another object.
pub const REF: &str = "ref";
/// The kind of a field that refers to several objects.
pub const REFS: &str = "refs";
/// The kind of the field by which a `ref-section` refers to the object whose section it shows.
pub const REF_SECTION_FIELD: &str = "ref-section-field";
/// The kind of a field that may hold several of its options.
pub const SELECT: &str = "select";
/// The kinds of fields whose values are among their options.
pub(super) const OF_OPTIONS: [&str; 2] = [SELECT, "radio"];
/// The kind of a section that shows fields of its own object.
pub const PLAIN_SECTION: &str = "section";
/// The kind of a section that shows fields of another object.
pub const REF_SECTION: &str = "ref-section";
/// The kind of a field whose value only callers who may edit objects see.
pub const PASSWORD: &str = "password";
/// What externals call the object's own `public_id`.
pub const OBJECT_ID: &str = "object_id";

/// Why a stored document is no type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectTypeError {
    /// The bytes are not BSON.
    #[error("a stored type is corrupt: {0}")]
    Corrupt(String),
    /// Nothing can refer to it.
    #[error("a stored type has no public_id")]
    NoPublicId,
}

/// A type.
#[derive(Debug, Clone)]
pub struct ObjectType {
    /// What objects and categories refer to it by.
    pub public_id: i64,
    /// Its unique name, kebab case when it came through this service.
    pub name: String,
    /// The name for people; the unique name if none is stored.
    pub label: String,
    /// Objects of an inactive type can be read, but not created or changed.
    pub active: bool,
    /// Three numbers with dots.
    pub version: String,
    /// The user who made it.
    pub author_id: Option<i64>,
    /// When it was made.
    pub creation_time: Option<DateTime>,
    /// An icon class.
    pub icon: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// The fields in the order of definition; names are unique (of several, the first counts).
    pub fields: Vec<Field>,
    /// Names of the fields of its indexes, as they are stored. Some may not exist.
    pub indexes: Vec<Vec<String>>,
    /// The sections in order.
    pub sections: Vec<Section>,
    /// The links in order.
    pub externals: Vec<External>,
    /// Names of the fields in an object's summary, as they are stored. Some may not exist.
    pub summary_fields: Vec<String>,
    /// Who may do what with its objects.
    pub acl: Acl,
    positions: HashMap<String, usize>,
    pub(crate) layout: Layout,
    pub(crate) fragments: TypeFragments,
}

/// A field that objects of the type have.
#[derive(Debug, Clone)]
pub struct Field {
    /// The name that the entries of objects have.
    pub name: String,
    /// What people see.
    pub label: String,
    /// `text`, `select`, `ref` and so on; free text, unknown kinds hold any value.
    pub kind: String,
    /// Whether objects must have a value for it.
    pub required: bool,
    /// A pattern that the whole value must match.
    pub regex: Option<String>,
    /// What can be chosen.
    pub options: Vec<FieldOption>,
    /// Whether a `select` holds a list of its options.
    pub multiple: bool,
    /// Ids of the types that it may refer to.
    pub ref_types: Vec<i64>,
    /// What deleting an object does to the references of this field to it.
    pub on_delete: OnDelete,
    /// The summaries of referenced objects, one entry per target type.
    pub summaries: Vec<ReferenceSummary>,
    /// The default value of objects; null for none.
    pub value: Bson,
    /// For people.
    pub description: Option<String>,
    /// For people, inside an empty input.
    pub placeholder: Option<String>,
    /// For people, shown next to the input (`helperText`).
    pub helper_text: Option<String>,
    pub(crate) role: Role,
    pub(crate) fragments: FieldFragments,
}

/// One of the values that can be chosen for a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldOption {
    /// The value that is stored.
    pub name: String,
    /// What people see.
    pub label: String,
}

/// The summary of referenced objects of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceSummary {
    /// The type of the referenced object.
    pub type_id: i64,
    /// The texts around the values of `fields` in the line, in order: one more than there are placeholders. None for an
    /// empty line.
    pub line: Vec<String>,
    /// What people see.
    pub label: String,
    /// Names of fields of the referenced object.
    pub fields: Vec<String>,
    /// An icon class.
    pub icon: Option<String>,
    /// Whether the line belongs after the type's label.
    pub prefix: bool,
}

/// A group of fields that are shown together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// `section` or `ref-section`.
    pub kind: String,
    /// Its name within the type.
    pub name: String,
    /// What people see.
    pub label: String,
    /// Names of its fields, as they are stored. Some may not exist.
    pub fields: Vec<String>,
    /// For a `ref-section`: the fields of the other object that it shows.
    pub reference: Option<SectionReference>,
}

/// The section of another type that a `ref-section` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionReference {
    /// The other type.
    pub type_id: i64,
    /// The section's name there.
    pub section_name: String,
    /// Names of the fields to show; empty: all of them.
    pub selected_fields: Vec<String>,
}

/// An external link, made from values of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Its name within the type.
    pub name: String,
    /// The address as it is stored, with `{}` for values.
    pub href: String,
    /// What people see.
    pub label: String,
    /// An icon class.
    pub icon: Option<String>,
    /// Names of the fields whose values fill the placeholders, or `object_id`.
    pub fields: Vec<String>,
    /// The address, if it may be rendered.
    pub link: Option<LinkTemplate>,
    pub(crate) fragments: ExternalFragments,
}

impl ObjectType {
    /// Compiles a stored type.
    ///
    /// # Errors
    /// When the bytes are not BSON, or there is no `public_id`.
    pub fn from_document(document: &RawDocument) -> Result<Self, ObjectTypeError> {
        read::object_type(document)
    }

    /// The placeholder of a deleted type in views.
    pub(crate) fn missing(public_id: i64) -> Self {
        read::missing(public_id)
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|position| &self.fields[position])
    }

    /// The message where the type has no field called `name`, with the nearest name: a field's, or one of `others`.
    pub fn lack_of(&self, name: &str, others: &[&str]) -> String {
        let fields = self.fields.iter().map(|field| field.name.as_str());
        let known: Vec<&str> = fields.chain(others.iter().copied()).collect();
        format!("the type {} has no field {name}{}", self.name, suggest::hint(name, &known))
    }

    /// The place of the field called `name` in [`ObjectType::fields`].
    pub fn position(&self, name: &str) -> Option<usize> {
        // Comparing a few lengths takes less than a hash.
        const FEW: usize = 32;
        if self.fields.len() <= FEW {
            return self.fields.iter().position(|field| field.name == name);
        }
        self.positions.get(name).copied()
    }

    /// The section called `name`.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The names of the fields whose values may show to everybody who sees the object.
    pub fn plain_fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(|field| !field.is_password()).map(|field| field.name.as_str())
    }

    /// Ids of the types that the field may refer to: none for a field that does not refer.
    pub fn targets(&self, field: &Field) -> impl Iterator<Item = i64> {
        let section_target = match field.role {
            Role::SectionReference(section) => self.sections[section].reference.as_ref().map(|target| target.type_id),
            _ => None,
        };
        let listed: &[i64] = if field.is_reference() { &field.ref_types } else { &[] };
        listed.iter().copied().chain(section_target)
    }
}

impl Field {
    /// Its name for people.
    pub fn title(&self) -> &str {
        if self.label.is_empty() { &self.name } else { &self.label }
    }

    /// Whether its values are ids of objects, or lists of them.
    pub fn is_reference(&self) -> bool {
        matches!(self.role, Role::Reference | Role::References | Role::SectionReference(_))
    }

    /// Whether its values are lists of ids of objects.
    pub fn refers_to_several(&self) -> bool {
        self.role == Role::References
    }

    /// Whether its values are lists of its options.
    pub fn has_several_options(&self) -> bool {
        self.multiple && self.kind == SELECT
    }

    /// Whether its values are among its options.
    pub fn has_choice(&self) -> bool {
        OF_OPTIONS.contains(&self.kind.as_str())
    }

    /// Whether only callers who may edit objects see its values.
    pub fn is_password(&self) -> bool {
        self.role == Role::Password
    }

    /// The summary of objects of the type `type_id` that this field refers to.
    pub fn summary_for(&self, type_id: i64) -> Option<&ReferenceSummary> {
        self.summaries.iter().find(|summary| summary.type_id == type_id)
    }
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    fn compiled(document: bson::Document) -> ObjectType {
        let raw = bson::raw::RawDocumentBuf::try_from(document).unwrap();
        ObjectType::from_document(&raw).unwrap()
    }

    #[test]
    fn only_a_missing_public_id_is_refused() {
        assert_eq!(ObjectType::from_document(&rawdoc! { "name": "a" }).unwrap_err(), ObjectTypeError::NoPublicId);
        let odd = compiled(doc! {
            "public_id": 7.0, "name": 1, "label": [], "active": "yes", "fields": { "a": 1 }, "render_meta": "none",
            "acl": [], "creation_time": "yesterday", "version": 2, "author_id": "me",
        });
        assert_eq!((odd.public_id, odd.label.as_str(), odd.version.as_str(), odd.active), (7, "", "1.0.0", true));
        assert!(odd.fields.is_empty() && odd.author_id.is_none() && odd.acl.allows(1, Permission::Read));
    }

    #[test]
    fn odd_items_of_lists_are_passed_over() {
        let odd = compiled(doc! {
            "public_id": 1,
            "fields": [null, 5, {}, { "name": 3 }, { "name": "a", "label": "one" }, { "name": "a", "label": "two" }],
            "render_meta": {
                "sections": [1, { "name": "s", "fields": ["a", 2, "gone"] }],
                "summary": { "fields": "a" },
            },
        });
        assert_eq!(odd.fields.len(), 1);
        assert_eq!(odd.field("a").map(|field| (field.label.as_str(), field.kind.as_str())), Some(("one", "text")));
        assert_eq!(odd.sections[0].fields, ["a", "gone"]);
        assert!(odd.summary_fields.is_empty());
    }

    #[test]
    fn fields_are_shown_by_section_and_then_the_rest_each_once() {
        let section = |name: &str, fields: &[&str]| doc! { "type": "section", "name": name, "fields": fields };
        let object_type = compiled(doc! {
            "public_id": 1,
            "fields": [{ "name": "a" }, { "name": "b" }, { "name": "c" }, { "name": "d" }],
            "render_meta": { "sections": [section("one", &["d", "b"]), section("two", &["b", "x", "c"])] },
        });
        assert_eq!(object_type.layout.shown, [3, 1, 2, 0]);
    }

    #[test]
    fn references_come_from_ref_fields_and_ref_sections() {
        let object_type = compiled(doc! {
            "public_id": 1,
            "fields": [
                { "type": "ref", "name": "rack", "ref_types": [5, 3] },
                { "type": "ref", "name": "old", "ref_types": 9 },
                { "type": "text", "name": "note", "ref_types": [77] },
                { "type": "ref-section-field", "name": "owner-field" },
            ],
            "render_meta": { "sections": [
                { "type": "ref-section", "name": "owner", "reference": { "type_id": 4, "section_name": "main" } },
            ] },
        });
        let targets: Vec<Vec<i64>> =
            object_type.fields.iter().map(|field| object_type.targets(field).collect()).collect();
        assert_eq!(targets, [vec![5, 3], vec![9], vec![], vec![4]]);
    }
}
