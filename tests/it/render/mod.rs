//! Views of plain values: no store, no clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fields;
mod gathering;
mod links;
mod properties;
mod references;
mod summaries;
mod view;

use std::collections::HashMap;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};
use inventory_service::domain::object_type::ObjectType;
use inventory_service::render::{RenderCatalog, RenderContext, display_name, render_object};
use serde_json::Value as Json;

/// What there is, by its `public_id`.
#[derive(Default)]
struct PageCatalog {
    types: HashMap<i64, ObjectType>,
    objects: HashMap<i64, RawDocumentBuf>,
    users: HashMap<i64, String>,
}

impl RenderCatalog for PageCatalog {
    fn object_type(&self, id: i64) -> Option<&ObjectType> {
        self.types.get(&id)
    }

    fn object(&self, id: i64) -> Option<&RawDocument> {
        self.objects.get(&id).map(|document| &**document)
    }

    fn user_name(&self, id: i64) -> Option<&str> {
        self.users.get(&id).map(String::as_str)
    }
}

/// What there is, and who asks.
struct World {
    catalog: PageCatalog,
    context: RenderContext,
}

impl World {
    /// Nothing at all, seen by a member of group 1 who may edit.
    fn new() -> Self {
        let context = RenderContext { now_ms: 1_700_000_000_000, group_id: 1, hides_types: true, may_edit: true };
        Self { catalog: PageCatalog::default(), context }
    }

    fn with_type(mut self, object_type: Document) -> Self {
        let object_type = ObjectType::from_document(&raw(object_type)).unwrap();
        self.catalog.types.insert(object_type.public_id, object_type);
        self
    }

    fn with_object(mut self, object: Document) -> Self {
        if let Some(id) = id_of(&object) {
            self.catalog.objects.insert(id, raw(object));
        }
        self
    }

    fn with_user(mut self, user: Document) -> Self {
        if let Some(id) = id_of(&user) {
            self.catalog.users.insert(id, display_name(&raw(user)).unwrap());
        }
        self
    }

    fn seen_by(mut self, group_id: i64, may_edit: bool) -> Self {
        self.context = RenderContext { group_id, may_edit, ..self.context };
        self
    }

    fn view(&self, object: Document) -> Json {
        let mut out = Vec::new();
        render_object(&raw(object), &self.catalog, &self.context, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    /// The field of that name in the view.
    fn field(&self, object: Document, name: &str) -> Json {
        let view = self.view(object);
        let fields = view["type_information"]["fields"].as_array().unwrap();
        fields.iter().find(|field| field["name"] == name).unwrap().clone()
    }
}

fn id_of(document: &Document) -> Option<i64> {
    let id = document.get("public_id")?;
    id.as_i64().or_else(|| id.as_i32().map(i64::from))
}

fn raw(document: Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

/// An object with these values.
fn object(public_id: i64, type_id: i64, values: Document) -> Document {
    let fields: Vec<Bson> =
        values.into_iter().map(|(name, value)| doc! { "name": name, "value": value }.into()).collect();
    doc! { "public_id": public_id, "type_id": type_id, "author_id": 1, "fields": fields }
}

/// A type with text fields of these names.
fn text_type(public_id: i64, names: &[&str]) -> Document {
    let fields = names.iter().map(|name| doc! { "type": "text", "name": *name, "label": name.to_uppercase() });
    typed(public_id, fields.collect(), doc! {})
}

fn typed(public_id: i64, fields: Vec<Document>, render_meta: Document) -> Document {
    doc! {
        "public_id": public_id, "name": format!("type-{public_id}"), "label": format!("Type {public_id}"),
        "fields": fields, "render_meta": render_meta,
    }
}

fn ref_field(name: &str, target: i64) -> Document {
    doc! { "type": "ref", "name": name, "label": name, "ref_types": [target] }
}
