//! The control of a form for each kind of field, and the texts that stand for values in it.

use std::collections::BTreeMap;

use bson::Bson;
use maud::{Markup, html};
use serde_json::Value;

use super::{moment, value};
use crate::domain::document;
use crate::domain::object_fields::ValueKind;
use crate::domain::object_type::Field;
use crate::page::found::{Named, may_list, with_number};
use crate::page::texts::Texts;
use crate::page::visitor::Visitor;
use crate::service::types::catalog::Types;

/// What a control of a form shows.
pub struct Shown<'a> {
    /// The field.
    pub field: &'a Field,
    /// Its place among the fields, which names the control.
    pub place: usize,
    /// The texts in it.
    pub typed: &'a [String],
    /// The texts that were in it when the value was read.
    pub was: &'a str,
    /// What is wrong with it.
    pub problem: Option<&'a Problem>,
    /// The value that somebody else stored meanwhile, and whether the control shows it.
    pub meanwhile: Option<(&'a str, bool)>,
    /// The names of the types that it may refer to.
    pub of_types: &'a str,
}

/// What is wrong with what was typed.
#[derive(Debug, Clone)]
pub struct Problem {
    /// For people.
    pub message: String,
    /// The objects that it may stand for.
    pub candidates: Vec<String>,
}

impl Problem {
    /// A problem without objects to choose from.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), candidates: Vec::new() }
    }
}

/// The name of the control of a field.
pub fn name(field: &Field) -> String {
    format!("f.{}", field.name)
}

/// The name of the hidden input with what was there before.
pub fn name_before(field: &Field) -> String {
    format!("was.{}", field.name)
}

/// The name of the box that removes a stored password.
pub fn name_clear(field: &Field) -> String {
    format!("clear.{}", field.name)
}

/// The texts that stand for a stored value; nothing for one that no control can show.
pub fn texts_of(field: &Field, stored: &Bson, names: &BTreeMap<i64, Named>) -> Option<Vec<String>> {
    let reference = |id: i64| names.get(&id).map_or_else(|| format!("#{id}"), |named| with_number(&named.line, id));
    let items = |one: &dyn Fn(&Bson) -> Option<String>| stored.as_array()?.iter().map(one).collect::<Option<Vec<_>>>();
    if *stored == Bson::Null || field.is_password() {
        return Some(Vec::new());
    }
    match ValueKind::of(field) {
        ValueKind::Checkbox => stored.as_bool().map(|set| if set { vec!["true".to_owned()] } else { Vec::new() }),
        ValueKind::Date => stored.as_datetime().map(|time| vec![moment::for_input(time.to_chrono())]),
        ValueKind::Reference => document::number(stored).map(|id| vec![reference(id)]),
        ValueKind::References => items(&|item| document::number(item).map(reference)),
        ValueKind::Options => items(&|item| item.as_str().map(str::to_owned)),
        ValueKind::Number => match stored {
            Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => {
                Some(vec![number(&Value::from(stored.clone()))])
            }
            _ => None,
        },
        _ => stored.as_str().map(|text| vec![text.to_owned()]),
    }
}

fn number(value: &Value) -> String {
    let of_member = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    of_member("$numberDecimal").unwrap_or_else(|| value.to_string())
}

/// A field with its label, its hint, what is wrong with it, and its control.
pub fn shown(texts: Texts, of: &Shown<'_>) -> Markup {
    let field = of.field;
    let id = format!("f-{}", of.place);
    let is_group = is_group(field);
    let described = format!("{id}-hint");
    let inner = html! {
        (hints(texts, of, &described))
        @if let Some(problem) = of.problem {
            p.error id={ (id) "-error" } { (problem.message) }
        }
        @if let Some((now, is_taken)) = of.meanwhile {
            p.meanwhile {
                (texts.with("conflict-field", &[("value", now.into())]))
                @if is_taken { " " (texts.say("conflict-taken")) }
            }
        }
        (control(texts, of, &id, &described))
        input type="hidden" name=(name_before(field)) value=(of.was);
    };
    let label = html! {
        bdi { (field.title()) }
        @if field.required { " " span.required { "(" (texts.say("required")) ")" } }
    };
    html! {
        @if is_group {
            fieldset.field.wrong[of.problem.is_some()] id=(id) tabindex="-1" { legend { (label) } (inner) }
        } @else {
            div.field.wrong[of.problem.is_some()] { label for=(id) { (label) } (inner) }
        }
    }
}

/// The choice of one of the types that the visitor may list, or of none, as the parameter `type`.
pub fn type_choice(visitor: &Visitor, types: &Types, chosen: Option<i64>) -> Markup {
    let texts = visitor.texts();
    html! {
        label { (texts.say("type")) " "
            select name="type" {
                option value="" { (texts.say("any")) }
                @for entry in types.iter().filter(|entry| may_list(visitor, &entry.object_type)) {
                    @let id = entry.object_type.public_id;
                    option value=(id) selected[chosen == Some(id)] { (entry.object_type.label) }
                }
            }
        }
    }
}

/// Whether a field has several controls.
fn is_group(field: &Field) -> bool {
    field.kind == "radio" || field.has_several_options()
}

fn hints(texts: Texts, of: &Shown<'_>, id: &str) -> Markup {
    let field = of.field;
    let of_kind = match ValueKind::of(field) {
        ValueKind::Reference => Some(texts.with("reference-hint", &[("types", of.of_types.into())])),
        ValueKind::References => Some(texts.with("reference-hint-several", &[("types", of.of_types.into())])),
        ValueKind::Date if of.typed.iter().any(|text| text.contains('T')) => Some(texts.say("time-hint")),
        _ if field.is_password() && !of.was.is_empty() => Some(texts.say("password-hint")),
        _ => None,
    };
    let own = [field.description.as_deref(), field.helper_text.as_deref()];
    let own: Vec<&str> = own.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    html! {
        div.hint id=(id) {
            @for text in own { p { bdi { (text) } } }
            @if let Some(text) = of_kind { p { (text) } }
        }
    }
}

fn control(texts: Texts, of: &Shown<'_>, id: &str, described: &str) -> Markup {
    let field = of.field;
    let name = name(field);
    let text = of.typed.first().map(String::as_str).unwrap_or_default();
    let invalid = of.problem.map(|_| "true");
    if let Some(problem) = of.problem.filter(|problem| !problem.candidates.is_empty() && !field.refers_to_several()) {
        return html! {
            select id=(id) name=(name) aria-describedby=(described) aria-invalid="true" {
                option value="" {}
                @for candidate in &problem.candidates { option value=(candidate) { (value::clipped(candidate)) } }
            }
        };
    }
    match ValueKind::of(field) {
        ValueKind::Checkbox => html! {
            input id=(id) type="checkbox" name=(name) value="true" checked[text == "true"] aria-describedby=(described) aria-invalid=[invalid];
        },
        ValueKind::References => html! {
            textarea id=(id) name=(name) rows="4" aria-describedby=(described) aria-invalid=[invalid] {
                "\n" (of.typed.join("\n"))
            }
        },
        ValueKind::Options => html! {
            @for (index, option) in field.options.iter().enumerate() {
                div.choice {
                    input id={ (id) "-" (index) } type="checkbox" name=(name) value=(option.name) checked[of.typed.contains(&option.name)];
                    label for={ (id) "-" (index) } { bdi { (shown_option(&option.name, &option.label)) } }
                }
            }
        },
        ValueKind::Text if field.kind == "radio" => radios(texts, of, id, text),
        ValueKind::Text if field.has_choice() => html! {
            select id=(id) name=(name) aria-describedby=(described) aria-invalid=[invalid] {
                option value="" { (texts.say("optional-none")) }
                @for option in &field.options {
                    option value=(option.name) selected[option.name == text] { (shown_option(&option.name, &option.label)) }
                }
                @if !text.is_empty() && field.options.iter().all(|option| option.name != text) {
                    option value=(text) selected { (text) }
                }
            }
        },
        ValueKind::Text if field.kind == "textarea" || text.contains('\n') => html! {
            textarea id=(id) name=(name) rows="6" aria-describedby=(described) aria-invalid=[invalid] dir="auto" { "\n" (text) }
        },
        ValueKind::Text if field.is_password() => html! {
            input id=(id) type="password" name=(name) value=(text) autocomplete="new-password" aria-describedby=(described) aria-invalid=[invalid];
            @if !of.was.is_empty() {
                div.choice {
                    input id={ (id) "-clear" } type="checkbox" name=(name_clear(field)) value="true";
                    label for={ (id) "-clear" } { (texts.say("password-clear")) }
                }
            }
        },
        kind => html! {
            input id=(id) type=(input_type(kind, text)) name=(name) value=(text) placeholder=[field.placeholder.as_deref()]
                inputmode=[input_mode(&field.kind)] step=[text.contains('T').then_some("0.001")]
                autocomplete="off" dir="auto" aria-describedby=(described) aria-invalid=[invalid];
        },
    }
}

fn radios(texts: Texts, of: &Shown<'_>, id: &str, text: &str) -> Markup {
    let name = name(of.field);
    let none = (String::new(), texts.say("optional-none"));
    let options = of.field.options.iter().map(|option| (option.name.clone(), option.label.clone()));
    html! {
        @for (index, (value, label)) in std::iter::once(none).chain(options).enumerate() {
            div.choice {
                input id={ (id) "-" (index) } type="radio" name=(name) value=(value) checked[value == text];
                label for={ (id) "-" (index) } { bdi { (shown_option(&value, &label)) } }
            }
        }
    }
}

fn shown_option<'a>(name: &'a str, label: &'a str) -> &'a str {
    if label.is_empty() { name } else { label }
}

/// Browsers show only well-formed days and times in controls for them.
fn input_type(kind: ValueKind, text: &str) -> &'static str {
    match kind {
        ValueKind::Date if text.contains('T') => "datetime-local",
        ValueKind::Date if text.is_empty() || chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() => "date",
        _ => "text",
    }
}

fn input_mode(kind: &str) -> Option<&'static str> {
    match kind {
        "number" => Some("decimal"),
        "email" => Some("email"),
        "tel" => Some("tel"),
        "href" => Some("url"),
        _ => None,
    }
}
