//! A value in the form of its kind.

use maud::{Markup, html};
use serde_json::Value;

use super::moment;
use crate::domain::object_fields::HIDDEN;
use crate::page::address::of_object;
use crate::page::texts::Texts;
use crate::page::view::{FieldView, OptionView, ReferenceView};

/// A cell of a list shows at most this many characters of a text.
const CELL: usize = 200;

/// The schemes of links that a value may be.
const SCHEMES: [&str; 4] = ["http://", "https://", "ftp://", "mailto:"];

/// A value as a text: of a history, a table or a form.
pub fn text(texts: Texts, options: &[OptionView], value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => texts.say("yes"),
        Value::Bool(false) => texts.say("no"),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let option = options.iter().find(|option| option.name == *text).map(|option| &option.label);
            option.filter(|label| !label.is_empty()).unwrap_or(text).clone()
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| self::text(texts, options, item)).collect();
            items.join(", ")
        }
        Value::Object(members) => match moment::in_json(value) {
            Some(moment) => moment::text(moment),
            None => members
                .get("$numberDecimal")
                .or_else(|| members.get("$numberLong"))
                .and_then(Value::as_str)
                .map_or_else(|| value.to_string(), str::to_owned),
        },
    }
}

/// A value on the page of its object. Links to other objects keep the moment `at`.
pub fn whole(texts: Texts, field: &FieldView, at: Option<&str>) -> Markup {
    if let Some(target) = &field.reference {
        return html! {
            (reference(texts, target, &field.value, at))
            @if !target.fields.is_empty() {
                dl.inner {
                    @for inner in &target.fields {
                        div { dt { bdi { (inner.label) } } dd { (whole(texts, inner, at)) } }
                    }
                }
            }
        };
    }
    if !field.references.is_empty() {
        let values = field.value.as_array().map(Vec::as_slice).unwrap_or_default();
        return html! {
            ul.plain {
                @for (index, target) in field.references.iter().enumerate() {
                    li { (reference(texts, target, values.get(index).unwrap_or(&Value::Null), at)) }
                }
            }
        };
    }
    let text = text(texts, &field.options, &field.value);
    if text.is_empty() {
        return none(texts);
    }
    match field.kind.as_str() {
        "password" if text == HIDDEN => html! { (text) },
        "password" => html! { details.secret { summary { (texts.say("password-show")) } bdi.pre { (text) } } },
        "textarea" => html! { bdi.pre { (text) } },
        "href" if is_link(&text) => html! { a href=(text) rel="noopener noreferrer" { bdi { (text) } } },
        "email" if is_address(&text) => html! { a href={ "mailto:" (text) } { bdi { (text) } } },
        "tel" if is_telephone(&text) => html! { a href={ "tel:" (text.replace(' ', "")) } { bdi { (text) } } },
        "checkbox" => html! { (text) },
        "number" => html! { span.number { (text) } },
        _ => html! { bdi { (text) } },
    }
}

/// A value in a cell of a list.
pub fn cell(texts: Texts, field: &FieldView) -> Markup {
    if let Some(target) = &field.reference {
        return reference(texts, target, &field.value, None);
    }
    let values = field.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if !field.references.is_empty() {
        return html! {
            @for (index, target) in field.references.iter().enumerate() {
                @if index > 0 { ", " }
                (reference(texts, target, values.get(index).unwrap_or(&Value::Null), None))
            }
        };
    }
    let text = text(texts, &field.options, &field.value);
    if field.kind == "password" {
        return html! { @if !text.is_empty() { (HIDDEN) } };
    }
    html! { @if !text.is_empty() { bdi { (clipped(&text)) } } }
}

/// The beginning of a long text.
pub fn clipped(text: &str) -> String {
    match text.char_indices().nth(CELL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// That there is no value.
pub fn none(texts: Texts) -> Markup {
    html! { span.none { span aria-hidden="true" { "–" } span.unseen { (texts.say("empty")) } } }
}

fn reference(texts: Texts, target: &ReferenceView, value: &Value, at: Option<&str>) -> Markup {
    if target.protected {
        return html! { span.note { (texts.say("hidden")) } };
    }
    if target.object_id == 0 {
        let id = text(texts, &[], value);
        return html! { span.note.warning { (texts.with("nowhere", &[("id", (&id).into())])) } };
    }
    let address = of_object(target.object_id);
    let address =
        at.map_or_else(|| address.clone(), |at| crate::page::address::Address::new(&address).and("at", at).text());
    let line = if target.line.is_empty() { format!("#{}", target.object_id) } else { clipped(&target.line) };
    html! { a href=(address) title=[Some(&target.type_label).filter(|label| target.prefix && !label.is_empty())] { bdi { (line) } } }
}

fn is_link(text: &str) -> bool {
    let plain = |sign: char| !sign.is_whitespace() && !sign.is_control();
    SCHEMES.iter().any(|scheme| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)))
        && text.chars().all(plain)
}

fn is_address(text: &str) -> bool {
    let plain = |sign: char| sign.is_alphanumeric() || "@.-_+".contains(sign);
    text.matches('@').count() == 1 && text.chars().all(plain)
}

fn is_telephone(text: &str) -> bool {
    text.chars().all(|sign| sign.is_ascii_digit() || "+-() ".contains(sign))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderMap;
    use serde_json::json;

    use super::*;

    fn shown(kind: &str, value: Value) -> String {
        let field = json!({"type": kind, "name": "a", "label": "A", "value": value});
        whole(Texts::of(&HeaderMap::new()), &serde_json::from_value(field).expect("a field"), None).into_string()
    }

    #[test]
    fn only_plain_schemes_become_links() {
        assert!(shown("href", json!("https://example.org/?a=1")).contains("<a href=\"https://example.org/?a=1\""));
        for text in ["javascript:alert(1)", "data:text/html,x", "//example.org", "https://a b", "vbscript:x", "mailto"]
        {
            assert!(!shown("href", json!(text)).contains("<a"), "{text}");
        }
        assert!(!shown("text", json!("https://example.org")).contains("<a"));
    }

    #[test]
    fn a_value_is_shown_as_its_kind_says() {
        assert!(shown("date", json!({"$date": 1_769_817_600_000_i64})).contains("2026-01-31"));
        assert!(shown("date", json!({"$date": 1_769_817_601_000_i64})).contains("2026-01-31 00:00:01 UTC"));
        assert!(shown("checkbox", json!(true)).contains("Yes"));
        assert!(shown("text", json!("<b>")).contains("&lt;b&gt;"));
    }
}
