//! The bodies of the demo's types and categories, as the service takes them.

use bson::{Bson, Document, doc};

use super::catalogue;
use super::model::{DemoKind, Field, Link, Section, Target, TypeModel};
use crate::domain::user::FIRST_ADMIN;

impl DemoKind {
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

impl Field {
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
pub(super) fn type_body(kind: DemoKind) -> Document {
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

/// The bodies of the categories, each after the one above it. Sisters are ordered as in the list.
pub(super) fn category_bodies() -> impl Iterator<Item = Document> {
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
