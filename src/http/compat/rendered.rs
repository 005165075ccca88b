//! Rendered objects as DATAGERRY's clients read them: what is inside `type_information` stands at the top as well, and
//! fields carry what their type says about them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::service::type_catalog::Types;

/// Members of `type_information` that stand at the top as well.
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

    /// The view as theirs; a text that is none is left alone.
    pub(super) fn lift(&self, view: &[u8]) -> Vec<u8> {
        let Ok(mut members) = serde_json::from_slice::<Map<String, Value>>(view) else { return view.to_vec() };
        let Some(Value::Object(of_type)) = members.get("type_information") else { return view.to_vec() };
        let type_id = of_type.get("type_id").and_then(Value::as_i64);
        let mut lifted: Vec<(&str, Value)> =
            LIFTED.iter().filter_map(|name| Some((*name, of_type.get(*name)?.clone()))).collect();
        if let (Some(definitions), Some((_, Value::Array(fields)))) =
            (type_id.and_then(|id| self.definitions(id)), lifted.first_mut())
        {
            fields.iter_mut().filter_map(Value::as_object_mut).for_each(|field| describe(field, &definitions));
        }
        for (name, value) in lifted {
            members.insert(name.to_owned(), value);
        }
        serde_json::to_vec(&members).unwrap_or_else(|_| view.to_vec())
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
    use serde_json::json;

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
