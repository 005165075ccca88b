//! What types and categories of the demo consist of, and the bodies made from them.

use bson::{Bson, Document, doc};

use super::catalogue;
use crate::domain::user::FIRST_ADMIN;

/// The kinds of things in the demo, each after the kinds that it refers to: the order in which they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoKind {
    /// A site.
    Location,
    /// A room of a location.
    Room,
    /// A rack in a room.
    Rack,
    /// Someone who works in a location.
    Person,
    /// An agreement with a vendor, looked after by a person.
    Contract,
    /// A switch at the top of a rack.
    Switch,
    /// A server in a rack.
    Server,
    /// A virtual machine on a server.
    VirtualMachine,
    /// The right to use a software on a server or a virtual machine.
    Licence,
}

impl DemoKind {
    /// All of them, in the order in which they are loaded.
    pub const ALL: [Self; 9] = [
        Self::Location,
        Self::Room,
        Self::Rack,
        Self::Person,
        Self::Contract,
        Self::Switch,
        Self::Server,
        Self::VirtualMachine,
        Self::Licence,
    ];

    /// The `public_id` of its type.
    pub fn type_id(self) -> i64 {
        self as i64 + 1
    }

    /// Its type.
    pub fn model(self) -> &'static TypeModel {
        match self {
            Self::Location => &catalogue::LOCATION,
            Self::Room => &catalogue::ROOM,
            Self::Rack => &catalogue::RACK,
            Self::Person => &catalogue::PERSON,
            Self::Contract => &catalogue::CONTRACT,
            Self::Switch => &catalogue::SWITCH,
            Self::Server => &catalogue::SERVER,
            Self::VirtualMachine => &catalogue::VIRTUAL_MACHINE,
            Self::Licence => &catalogue::LICENCE,
        }
    }
}

/// A type. Its fields are in its sections.
#[derive(Debug)]
pub struct TypeModel {
    /// In kebab case.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// An icon class.
    pub icon: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// In the order in which they are shown.
    pub sections: &'static [Section],
    /// Links to other tools.
    pub links: &'static [Link],
    /// Names of the fields that sum up an object.
    pub summary: &'static [&'static str],
}

/// Fields that are shown together.
#[derive(Debug)]
pub struct Section {
    /// Unique within its type.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// Its fields; for a section that shows another object: the one field that refers to it.
    pub fields: &'static [Field],
    /// The part of the other object that it shows.
    pub shows: Option<Shown>,
}

/// A part of another object.
#[derive(Debug)]
pub struct Shown {
    /// The kind of the other object.
    pub kind: DemoKind,
    /// The section there.
    pub section: &'static str,
    /// Names of the fields to show; empty: all of the section.
    pub fields: &'static [&'static str],
}

/// A link to another tool.
#[derive(Debug)]
pub struct Link {
    /// Unique within its type.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// An icon class.
    pub icon: &'static str,
    /// The address, `{}` for each value.
    pub href: &'static str,
    /// Names of the fields with the values.
    pub fields: &'static [&'static str],
}

/// A field.
#[derive(Debug)]
pub struct Field {
    /// The kind that rendering and validation know.
    pub kind: &'static str,
    /// Unique within its type.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    required: bool,
    pattern: Option<&'static str>,
    help: Option<&'static str>,
    value: Option<&'static str>,
    options: &'static [(&'static str, &'static str)],
    targets: &'static [Target],
}

/// What a field may refer to, and how that is summed up there.
#[derive(Debug)]
pub struct Target {
    /// The kind of the other object.
    pub kind: DemoKind,
    /// A line with `{}` for each value.
    pub line: &'static str,
    /// Names of the fields of the other object with the values.
    pub fields: &'static [&'static str],
}

impl Field {
    /// A field with a value of this kind.
    pub const fn new(kind: &'static str, name: &'static str, label: &'static str) -> Self {
        Self { kind, name, label, required: false, pattern: None, help: None, value: None, options: &[], targets: &[] }
    }

    /// A field with one of these options: name and label of each.
    pub const fn choice(
        kind: &'static str,
        name: &'static str,
        label: &'static str,
        options: &'static [(&'static str, &'static str)],
    ) -> Self {
        let mut field = Self::new(kind, name, label);
        field.options = options;
        field
    }

    /// A field that refers to another object.
    pub const fn reference(name: &'static str, label: &'static str, targets: &'static [Target]) -> Self {
        let mut field = Self::new("ref", name, label);
        field.targets = targets;
        field
    }

    /// The field of a section that shows another object.
    pub const fn section_reference(name: &'static str, label: &'static str, targets: &'static [Target]) -> Self {
        let mut field = Self::reference(name, label, targets);
        field.kind = "ref-section-field";
        field
    }

    /// The same field, which no object may lack.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same field, whose whole value matches a regular expression.
    #[must_use]
    pub const fn matching(mut self, pattern: &'static str) -> Self {
        self.pattern = Some(pattern);
        self
    }

    /// The same field with a word of help.
    #[must_use]
    pub const fn help(mut self, text: &'static str) -> Self {
        self.help = Some(text);
        self
    }

    /// The same field with the value that an object has which does not say otherwise.
    #[must_use]
    pub const fn or(mut self, value: &'static str) -> Self {
        self.value = Some(value);
        self
    }

    fn body(&self) -> Document {
        let mut body = doc! {"type": self.kind, "name": self.name, "label": self.label, "required": self.required};
        let texts = [("regex", self.pattern), ("helperText", self.help), ("value", self.value)];
        body.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Bson::from(text?)))));
        if !self.options.is_empty() {
            let option = |(name, label): &(&str, &str)| doc! {"name": *name, "label": *label};
            body.insert("options", self.options.iter().map(option).collect::<Vec<_>>());
        }
        if !self.targets.is_empty() {
            body.insert("ref_types", self.targets.iter().map(|target| target.kind.type_id()).collect::<Vec<_>>());
            body.insert("summaries", self.targets.iter().map(Target::body).collect::<Vec<_>>());
        }
        body
    }
}

impl Target {
    fn body(&self) -> Document {
        let TypeModel { label, icon, .. } = self.kind.model();
        doc! {
            "type_id": self.kind.type_id(),
            "line": self.line,
            "label": *label,
            "fields": self.fields,
            "icon": *icon,
            "prefix": false,
        }
    }
}

impl Section {
    fn body(&self) -> Document {
        let names: Vec<&str> = self.fields.iter().map(|field| field.name).collect();
        let mut body = doc! {"type": "section", "name": self.name, "label": self.label, "fields": names};
        if let Some(shown) = &self.shows {
            body.insert("type", "ref-section");
            body.insert(
                "reference",
                doc! {
                    "type_id": shown.kind.type_id(),
                    "section_name": shown.section,
                    "selected_fields": shown.fields,
                },
            );
        }
        body
    }
}

impl Link {
    fn body(&self) -> Document {
        doc! {
            "name": self.name,
            "href": self.href,
            "label": self.label,
            "icon": self.icon,
            "fields": self.fields,
        }
    }
}

/// The body of the kind's type.
pub fn type_body(kind: DemoKind) -> Document {
    let model = kind.model();
    let fields = model.sections.iter().flat_map(|section| section.fields);
    doc! {
        "public_id": kind.type_id(),
        "name": model.name,
        "label": model.label,
        "description": model.description,
        "author_id": FIRST_ADMIN,
        "fields": fields.map(Field::body).collect::<Vec<_>>(),
        "render_meta": {
            "icon": model.icon,
            "sections": model.sections.iter().map(Section::body).collect::<Vec<_>>(),
            "externals": model.links.iter().map(Link::body).collect::<Vec<_>>(),
            "summary": {"fields": model.summary},
        },
    }
}

/// A category; its `public_id` is its place in the list, from 1.
#[derive(Debug)]
pub struct CategoryModel {
    /// In kebab case.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// An icon class.
    pub icon: &'static str,
    /// The name of the parent category, which precedes it in the list.
    pub parent: Option<&'static str>,
    /// The kinds whose types are in it.
    pub kinds: &'static [DemoKind],
}

/// The bodies of the categories, each after the one above it. Sisters are ordered as in the list.
pub fn category_bodies() -> impl Iterator<Item = Document> {
    let id_of = |name: &str| catalogue::CATEGORIES.iter().zip(1_i64..).find(|(category, _)| category.name == name);
    catalogue::CATEGORIES.iter().zip(1_i64..).map(move |(category, id)| {
        let parent = category.parent.and_then(id_of).map(|(_, id)| id);
        let types: Vec<i64> = category.kinds.iter().map(|kind| kind.type_id()).collect();
        doc! {
            "public_id": id,
            "name": category.name,
            "label": category.label,
            "parent": parent,
            "types": types,
            "meta": {"icon": category.icon, "order": id},
        }
    })
}
