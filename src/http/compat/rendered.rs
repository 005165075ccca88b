//! Rendered objects as DATAGERRY's clients read them: the members of `type_information` are at the top as well, and fields
//! carry what their type says about them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bson::raw::RawDocument;
use serde_json::{Map, Value, json};

use crate::service::types::catalog::Types;

/// Members of `type_information` that are at the top as well.
const LIFTED: [&str; 5] = ["fields", "sections", "summaries", "summary_line", "externals"];

/// Changes views of one answer.
#[derive(Clone)]
pub(super) struct Lifting {
    types: Arc<Types>,
    /// The fields of types that were needed, by name.
    known: Arc<Mutex<HashMap<i64, Arc<Definitions>>>>,
}

type Definitions = HashMap<String, Map<String, Value>>;

impl Lifting {
    /// With the types as they are now.
    pub(super) fn new(types: Arc<Types>) -> Self {
        Self { types, known: Arc::default() }
    }

    /// The view in DATAGERRY's form; a text that is no view is left unchanged.
    pub(super) fn lift(&self, view: &[u8]) -> Vec<u8> {
        let Ok(mut members) = serde_json::from_slice::<Map<String, Value>>(view) else { return view.to_vec() };
        let Some(Value::Object(of_type)) = members.get("type_information") else { return view.to_vec() };
        let type_id = of_type.get("type_id").and_then(Value::as_i64);
        let mut lifted: Vec<(&str, Value)> =
            LIFTED.iter().filter_map(|name| Some((*name, of_type.get(*name)?.clone()))).collect();
        let sections = of_type.get("sections").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let definitions = type_id.and_then(|id| self.definitions(id)).unwrap_or_default();
        for (_, value) in lifted.iter_mut().filter(|(name, _)| matches!(*name, "fields" | "summaries")) {
            for field in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                describe(field, &definitions);
                if field.get("type").is_some_and(|kind| kind == "ref-section-field") {
                    self.refer(field, sections);
                }
            }
        }
        for (name, value) in lifted {
            members.insert(name.to_owned(), value);
        }
        serde_json::to_vec(&members).unwrap_or_else(|_| view.to_vec())
    }

    /// Adds `references`: the fields of the section that the field shows, without values when it refers to nothing.
    fn refer(&self, field: &mut Map<String, Value>, sections: &[Value]) {
        let name = field.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_shown = |section: &&Value| {
            section.get("fields").and_then(Value::as_array).is_some_and(|fields| fields.iter().any(|one| one == name))
                || section.get("name").and_then(Value::as_str).is_some_and(|one| name == format!("{one}-field"))
        };
        let shown = sections.iter().find(is_shown).and_then(|section| section.get("reference"));
        let found = field.get("reference").and_then(Value::as_object);
        let found = found.filter(|reference| reference.contains_key("fields"));
        let of_found = found.and_then(|reference| reference.get("type_id")?.as_i64());
        let type_id = of_found.or_else(|| shown?.get("type_id")?.as_i64());
        let Some(entry) = type_id.and_then(|id| self.types.get(id)) else { return };
        let definitions = self.definitions(entry.object_type.public_id).unwrap_or_default();
        let is_hidden = field.get("reference").is_some_and(|reference| reference.get("protected").is_some());
        let fields = match found.and_then(|reference| reference.get("fields")).and_then(Value::as_array) {
            Some(fields) => {
                let mut fields = fields.clone();
                fields.iter_mut().filter_map(Value::as_object_mut).for_each(|field| describe(field, &definitions));
                fields
            }
            None if is_hidden => Vec::new(),
            None => shown.map(|shown| without_values(&entry.document, shown, &definitions)).unwrap_or_default(),
        };
        let icon = found.and_then(|reference| reference.get("icon")).cloned().unwrap_or(Value::Null);
        let of_type = &entry.object_type;
        let references = json!({
            "type_id": of_type.public_id, "type_name": of_type.name, "type_label": of_type.label, "type_icon": icon,
            "fields": fields,
        });
        field.insert("references".to_owned(), references);
    }

    fn definitions(&self, type_id: i64) -> Option<Arc<Definitions>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(definitions) = known.get(&type_id) {
            return Some(Arc::clone(definitions));
        }
        let definitions = Arc::new(definitions(&self.types, type_id)?);
        known.insert(type_id, Arc::clone(&definitions));
        Some(definitions)
    }
}

/// The fields of the section that a reference shows, with null for their values.
fn without_values(of_type: &RawDocument, shown: &Value, definitions: &Definitions) -> Vec<Value> {
    let chosen = shown.get("selected_fields").and_then(Value::as_array).filter(|names| !names.is_empty());
    let document = bson::Document::try_from(of_type).unwrap_or_default();
    let sections = document.get_document("render_meta").and_then(|meta| meta.get_array("sections"));
    let name = shown.get("section_name").and_then(Value::as_str).unwrap_or_default();
    let mut sections = sections.into_iter().flatten().filter_map(|section| section.as_document());
    let section = sections.find(|section| section.get_str("name").is_ok_and(|one| one == name));
    let names = section.and_then(|section| section.get_array("fields").ok()).into_iter().flatten();
    names
        .filter_map(|name| name.as_str())
        .filter(|name| chosen.is_none_or(|chosen| chosen.iter().any(|one| one == name)))
        .filter_map(|name| definitions.get(name))
        .map(|definition| {
            let mut field = definition.clone();
            field.insert("value".to_owned(), Value::Null);
            Value::Object(field)
        })
        .collect()
}

/// The fields of a type as it is stored.
fn definitions(types: &Types, type_id: i64) -> Option<Definitions> {
    let document = bson::Document::try_from(&*types.get(type_id)?.document).ok()?;
    let fields = document.get_array("fields").ok()?.iter();
    let named = fields.filter_map(|field| {
        let Value::Object(members) = field.clone().into_relaxed_extjson() else { return None };
        let name = members.get("name")?.as_str()?.to_owned();
        Some((name, members))
    });
    Some(named.collect())
}

/// Adds what the definition of the field says. Its `value` is the `default` of the object's one.
fn describe(field: &mut Map<String, Value>, definitions: &Definitions) {
    let Some(definition) = field.get("name").and_then(Value::as_str).and_then(|name| definitions.get(name)) else {
        return;
    };
    for (name, value) in definition {
        if name == "value" {
            let kind = field.get("type").and_then(Value::as_str).unwrap_or_default();
            let default = of_kind(kind, value);
            if !matches!(default, Value::Null) && default != "" {
                field.insert("default".to_owned(), default);
            }
        } else if !field.contains_key(name) {
            field.insert(name.clone(), value.clone());
        }
    }
}

/// The `value` of a field of a type, which may be text here, as a value of the field's kind.
pub(super) fn of_kind(kind: &str, value: &Value) -> Value {
    match (kind, value.as_str()) {
        ("checkbox", Some("true")) => Value::Bool(true),
        ("checkbox", Some("false")) => Value::Bool(false),
        ("number", Some(text)) => serde_json::from_str::<serde_json::Number>(text).map_or(value.clone(), Value::Number),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_definition_has_the_kind_of_its_field() {
        assert_eq!(of_kind("checkbox", &json!("false")), json!(false));
        assert_eq!(of_kind("number", &json!("1.5")), json!(1.5));
        assert_eq!(of_kind("number", &json!("many")), json!("many"));
        assert_eq!(of_kind("text", &json!("true")), json!("true"));
    }

    #[test]
    fn a_field_says_what_its_definition_says() {
        let Value::Object(definition) = json!({
            "type": "checkbox", "name": "a", "label": "Other", "value": "true", "required": true, "helperText": "h",
        }) else {
            panic!("an object")
        };
        let definitions = HashMap::from([("a".to_owned(), definition)]);
        let Value::Object(mut field) = json!({"type": "checkbox", "name": "a", "label": "A", "value": null}) else {
            panic!("an object")
        };
        describe(&mut field, &definitions);
        let expected = json!({
            "type": "checkbox", "name": "a", "label": "A", "value": null, "default": true, "required": true,
            "helperText": "h",
        });
        assert_eq!(Value::Object(field), expected);
    }
}
