//! Laws of bodies: a refusal has its place, what is accepted is accepted again, and what is read can be sent back.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document};
use inventory_service::domain::object_fields::{FieldRules, FieldValue};
use inventory_service::domain::object_input::{self, ObjectInput};
use inventory_service::domain::object_type::ObjectType;
use inventory_service::domain::user::SHORTEST_PASSWORD;
use inventory_service::domain::{
    self, Violations, category_input, group_input, setting_input, token_input, type_input, user_input,
};
use inventory_service::json::merge::merged;
use inventory_service::json::read::document_from_str;
use inventory_service::json::write::{DateStyle, Shape, write_document};
use serde_json::Value;

/// Reads lines of JSON: a body, which is also a stored document; and the body of an object of that type, which is also a
/// patch.
pub fn hold(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let Some(Ok(body)) = lines.next().map(document_from_str) else { return };
    let second = lines.next();
    each_kind(&body);
    let object = second.and_then(|line| document_from_str(line).ok()).unwrap_or_default();
    if let Ok(accepted) = type_input::read(&body) {
        of_type(&accepted, &object);
    }
    if let (Ok(stored), Some(Ok(patch))) = (RawDocumentBuf::try_from(&body), second.map(serde_json::from_str)) {
        merge(&stored, &patch);
    }
}

fn each_kind(body: &Document) {
    let is_right = |name: &str| name.starts_with("base.");
    again(body, type_input::read);
    again(body, category_input::read);
    again(body, |body| group_input::read(body, is_right));
    again(body, |body| setting_input::read(body, 7, None));
    again(body, |body| user_input::read(body, SHORTEST_PASSWORD));
    if let Err(violations) = user_input::read_new(body, SHORTEST_PASSWORD) {
        have_places(&violations, body);
    }
    match token_input::read(body, now().to_chrono(), is_right) {
        Ok(token) => assert!(token.expires_at > now().to_chrono() && !token.name.is_empty(), "{body}"),
        Err(violations) => have_places(&violations, body),
    }
    have_places(&ObjectInput::read(body).1, body);
}

/// What is accepted can be stored, and is accepted again as it is.
fn again(body: &Document, read: impl Fn(&Document) -> Result<Document, Violations>) {
    match read(body) {
        Ok(accepted) => {
            assert!(RawDocumentBuf::try_from(&accepted).is_ok(), "{body}");
            assert_eq!(read(&accepted).as_ref().map(members), Ok(members(&accepted)), "{body}");
        }
        Err(violations) => {
            assert!(!violations.is_empty(), "{body}");
            have_places(&violations, body);
        }
    }
}

/// A type that was accepted is read as it was sent, and holds objects.
fn of_type(accepted: &Document, object: &Document) {
    let stored = domain::created(accepted.clone(), 7, now());
    let raw = RawDocumentBuf::try_from(&stored).expect("an accepted type can be stored");
    let shown = read_back(&raw);
    let [again, sent] = [type_input::read(&shown), Ok(accepted.clone())].map(|read| read.map(without_id));
    assert_eq!(again, sent, "{shown}");
    let object_type = ObjectType::from_document(&raw).expect("an accepted type can be read");
    let rules = FieldRules::of(&object_type);

    let (input, violations) = ObjectInput::read(object);
    if !violations.is_empty() {
        return;
    }
    let fields = match rules.check(&input.fields, &[]) {
        Ok(accepted) => accepted.fields,
        Err(violations) => return have_places(&violations, object),
    };
    assert!(rules.is_clean(fields.iter().map(|field| field.name.as_str())), "{object}");
    let stored = input.created(3, 7, &fields, now());
    let raw = RawDocumentBuf::try_from(&stored).expect("an accepted object can be stored");
    let shown = read_back(&raw);
    let (sent, violations) = ObjectInput::read(&shown);
    assert!(violations.is_empty(), "{shown}: {violations:?}");
    let kept = object_input::read_fields(stored.get("fields"));
    let back = rules.check(&sent.fields, &kept).unwrap_or_else(|violations| panic!("{shown}: {violations:?}"));
    assert_eq!(values(&back.fields), values(&fields), "{shown}");
    let updated = sent.updated(&stored, &back.fields, 1, now());
    assert_eq!(updated.get("version"), stored.get("version"), "nothing changed: {shown}");
}

/// The stored document as clients see it.
fn read_back(raw: &RawDocument) -> Document {
    let mut text = Vec::new();
    write_document(raw, Shape::new(DateStyle::Millis), &mut text).expect("what is stored is BSON");
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    document_from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn without_id(mut document: Document) -> String {
    document.remove("public_id");
    members(&document)
}

/// The members in whatever order, as text, in which NaN is NaN.
fn members(document: &Document) -> String {
    sorted(&Bson::Document(document.clone()))
}

fn values(fields: &[FieldValue]) -> String {
    sorted(&object_input::write_fields(fields))
}

/// Each place is there, or is a member that is missing of something that is there.
fn have_places(violations: &Violations, body: &Document) {
    for violation in violations.listed() {
        assert!(!violation.message.is_empty(), "{violation:?}");
        let mut steps = violation.pointer.split('/').skip(1).peekable();
        let mut at = Bson::Document(body.clone());
        while let Some(step) = steps.next() {
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = match &at {
                Bson::Document(members) => members.get(&step).cloned(),
                Bson::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index).cloned()),
                _ => None,
            };
            match next {
                Some(next) => at = next,
                None => assert!(steps.peek().is_none(), "{} leads nowhere in {body}", violation.pointer),
            }
        }
    }
}

/// RFC 7396, implemented a second time.
fn merge(stored: &RawDocument, patch: &Value) {
    let Ok(found) = merged(stored, patch) else { return };
    let mut text = Vec::new();
    write_document(stored, Shape::new(DateStyle::Millis), &mut text).expect("it was merged");
    let target = serde_json::from_slice(&text).expect("JSON was written");
    let expected = patched(Some(target), patch);
    let expected = document_from_str(&expected.to_string()).expect("it was merged");
    // The RFC leaves the order of members open.
    assert_eq!(sorted(&Bson::Document(found)), sorted(&Bson::Document(expected)), "{patch}");
}

fn patched(target: Option<Value>, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut members = match target {
        Some(Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    for (name, change) in changes {
        let before = members.shift_remove(name);
        if !change.is_null() {
            members.insert(name.clone(), patched(before, change));
        }
    }
    Value::Object(members)
}

fn sorted(value: &Bson) -> String {
    match value {
        Bson::Document(document) => {
            let mut members: Vec<String> =
                document.iter().map(|(name, value)| format!("{name:?}:{}", sorted(value))).collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        Bson::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => format!("{other:?}"),
    }
}

fn now() -> DateTime {
    DateTime::from_millis(1_700_000_000_000)
}
