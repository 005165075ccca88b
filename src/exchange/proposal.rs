//! A type that fits a table: a field for each column, of the kind that all its cells have.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use bson::Bson;
use serde_json::{Value, json};

use super::cell;
use super::columns::nameless;
use super::csv::{StringRecord, Table};
use super::locale::Locale;
use crate::domain::object_fields::ValueKind;
use crate::domain::object_member::MEMBERS;
use crate::domain::schema::is_kebab_case;

/// The minimum of values that say whether few of them repeat, or none.
const ENOUGH: usize = 20;
/// The maximum of options.
const MOST_OPTIONS: usize = 12;
/// How often an option occurs on average, at least.
const REPEATS: usize = 5;
/// Longer numbers are rather marks of things, such as serial numbers.
const MOST_DIGITS: usize = 15;

/// Proposes the body of a new type for a table, to be edited and sent to `POST /types/`. Columns of what every object has
/// become no fields. The first unique field is the summary.
///
/// # Errors
/// A heading that an import would refuse, and why.
pub fn propose(name: &str, author_id: i64, table: &Table, locale: &Locale) -> Result<Value, String> {
    let headings = headings(table)?;
    let mut names = Names::default();
    // A heading that can be a name as it is, is one: an import finds fields by names first.
    let kept: Vec<bool> =
        headings.iter().map(|it| it.label == plain_name(&it.label, it.column) && names.take(&it.label)).collect();
    let is_filled = |cells: &StringRecord| cells.iter().any(|cell| !cell::tidied(cell, locale).is_empty());
    let rows: Vec<&StringRecord> = table.rows.iter().map(|(_, cells)| cells).filter(|cells| is_filled(cells)).collect();
    let mut fields: Vec<Value> = Vec::with_capacity(headings.len());
    for (heading, is_kept) in headings.into_iter().zip(kept) {
        let Heading { column, label, is_reference } = heading;
        let name = if is_kept { label.clone() } else { names.free(plain_name(&label, column)) };
        fields.push(if is_reference {
            json!({"type": "ref", "name": name, "label": label})
        } else {
            let cells = rows.iter().map(|cells| cell::tidied(cells.get(column).unwrap_or_default(), locale));
            field_of(&name, &label, &cells.collect::<Vec<_>>(), locale)
        });
    }
    let names: Vec<&Value> = fields.iter().map(|field| &field["name"]).collect();
    let summary = fields.iter().find(|field| field["unique"] == true).or(fields.first());
    let summary: Vec<&Value> = summary.iter().map(|field| &field["name"]).collect();
    let section = json!({"type": "section", "name": "data", "label": "Data", "fields": names});
    let render_meta = json!({"sections": [section], "summary": {"fields": summary}});
    Ok(json!({"name": name, "author_id": author_id, "fields": fields, "render_meta": render_meta}))
}

/// A column that becomes a field.
struct Heading {
    column: usize,
    label: String,
    is_reference: bool,
}

/// The columns that become fields.
fn headings(table: &Table) -> Result<Vec<Heading>, String> {
    let labels: Vec<String> =
        table.header.iter().map(|heading| cell::name(&cell::tidy_name(heading)).into_owned()).collect();
    let mut seen = HashSet::new();
    for (column, label) in labels.iter().enumerate() {
        match label.as_str() {
            "" => return Err(nameless(column)),
            _ if label.starts_with("sep=") => return Err("sep= is for spreadsheets; leave the line out".to_owned()),
            _ if !seen.insert(label.as_str()) => return Err(format!("the heading {label} is here twice")),
            _ => {}
        }
    }
    let is_export = seen.contains("public_id");
    let is_own = |label: &str| match label.strip_prefix("object.") {
        Some(member) => MEMBERS.iter().any(|own| own.name == member),
        None => label == "public_id" || is_export && label == "active",
    };
    let mut headings = Vec::new();
    for (column, label) in labels.iter().enumerate().filter(|(_, label)| !is_own(label)) {
        // `rack=rack/name` refers to an object, and `rack.site=rack/site` says more about it.
        let reference = label.split_once('=').filter(|(field, target)| {
            let target = target.split_once('/');
            !field.is_empty() && target.is_some_and(|(name, field)| is_kebab_case(name) && !field.is_empty())
        });
        let Some((field, target)) = reference else {
            headings.push(Heading { column, label: label.clone(), is_reference: false });
            continue;
        };
        let of_target = target.split_once('/').map(|(name, _)| name).unwrap_or_default();
        let says_more =
            |(first, _): (&str, &str)| labels.iter().any(|it| it.starts_with(&format!("{first}={of_target}/")));
        if !field.rsplit_once('.').is_some_and(says_more) {
            headings.push(Heading { column, label: field.to_owned(), is_reference: true });
        }
    }
    Ok(headings)
}

/// Names of fields that are taken, and the next number of each that was wanted again.
struct Names {
    taken: HashSet<String>,
    next: HashMap<String, usize>,
}

impl Default for Names {
    fn default() -> Self {
        Self { taken: HashSet::from(["public_id".to_owned()]), next: HashMap::new() }
    }
}

impl Names {
    fn take(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    fn free(&mut self, wanted: String) -> String {
        if self.take(&wanted) {
            return wanted;
        }
        loop {
            let number = self.next.entry(wanted.clone()).or_insert(1);
            *number += 1;
            let name = format!("{wanted}_{number}");
            if self.take(&name) {
                return name;
            }
        }
    }
}

/// The field of a column. It is required if each line has a value.
fn field_of(name: &str, label: &str, cells: &[Cow<'_, str>], locale: &Locale) -> Value {
    let values: Vec<&str> = cells.iter().map(|cell| &**cell).filter(|cell| !cell.is_empty()).collect();
    let kind = kind_of(&values, locale);
    let identifies = ["text", "ip", "network", "mac"].contains(&kind);
    let texts =
        values.iter().filter(|_| identifies).map(|value| match cell::read(ValueKind::named(kind), value, locale) {
            Ok(Bson::String(text)) => text,
            _ => (*value).to_owned(),
        });
    let texts: Vec<String> = texts.collect();
    let different: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
    // An apostrophe alone is an empty text.
    let is_filled = values.len() == cells.len() && !different.contains("");
    let is_choice = kind == "text" && different.len() <= MOST_OPTIONS && different.len() * REPEATS <= texts.len();
    let mut field = json!({"type": kind, "name": name, "label": label});
    if is_choice && texts.len() >= ENOUGH && !different.contains("") {
        let options: Vec<Value> = different.iter().map(|value| json!({"name": value, "label": value})).collect();
        (field["type"], field["options"]) = ("select".into(), options.into());
    }
    if !values.is_empty() && is_filled {
        field["required"] = true.into();
    }
    if texts.len() >= ENOUGH && different.len() == texts.len() {
        field["unique"] = true.into();
    }
    field
}

/// The kind that all values have.
fn kind_of(values: &[&str], locale: &Locale) -> &'static str {
    let reads = |kind, value: &str| cell::read(kind, value, locale).is_ok_and(|read| read != Bson::Null);
    let all = |is: &dyn Fn(&str) -> bool| !values.is_empty() && values.iter().all(|value| is(value));
    let is_flag = |value: &str| reads(ValueKind::Checkbox, value);
    if all(&is_flag) && values.iter().any(|value| !["0", "1"].contains(value)) {
        return "checkbox";
    }
    let has_kind = |kind: &str| {
        all(&|value| match ValueKind::named(kind) {
            ValueKind::Number => is_quantity(value) && reads(ValueKind::Number, value),
            ValueKind::Date => reads(ValueKind::Date, value),
            kind => kind.spelled(value).is_ok(),
        })
    };
    match ["number", "date", "ip", "network", "mac"].into_iter().find(|kind| has_kind(kind)) {
        Some(kind) => kind,
        None if values.iter().any(|value| value.contains(['\n', '\r'])) => "textarea",
        None => "text",
    }
}

/// Whether digits say how much of something there is. Leading zeros, a plus, letters and many digits belong to marks of things.
fn is_quantity(value: &str) -> bool {
    let digits = value.trim_start_matches('-');
    let is_padded = digits.starts_with('0') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    !is_padded && !value.starts_with('+') && !value.contains(['e', 'E']) && count <= MOST_DIGITS
}

/// Small letters and digits with `_` between words.
fn plain_name(label: &str, column: usize) -> String {
    let lower = label.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("_");
    let end = name.char_indices().map(|(at, _)| at).take_while(|at| *at <= 100).last().unwrap_or_default();
    if name.is_empty() {
        format!("column_{}", column + 1)
    } else if name.len() > 100 {
        name[..end].to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::csv;

    fn proposed(text: &str) -> Vec<Value> {
        let table = csv::read(text, None).expect("a table");
        propose("thing", 1, &table, &Locale::default()).expect("a type")["fields"].as_array().expect("fields").clone()
    }

    #[test]
    fn a_column_has_the_kind_that_all_its_cells_have() {
        let german = Locale::read(true, |name| match name {
            "decimal" => Some(","),
            "dates" => Some("dmy"),
            "true" => Some("ja"),
            _ => Some("nein"),
        });
        let german = german.expect("a locale");
        let plain = Locale::default();
        for (column, locale, expected) in [
            (&["1", "2.5", "-3"][..], &plain, "number"),
            (&["1,5", "2"], &german, "number"),
            (&["1,5", "2"], &plain, "text"),
            (&["007", "12"], &plain, "text"),
            (&["+4930123", "+4940"], &plain, "text"),
            (&["8939010102358478435"], &plain, "text"),
            (&["0", "1"], &plain, "number"),
            (&["yes", "0"], &plain, "checkbox"),
            (&["ja", "nein"], &german, "checkbox"),
            (&["ja", "nein"], &plain, "text"),
            (&["2026-01-31", "2026-01-31T12:00:00Z"], &plain, "date"),
            (&["31.01.2026"], &german, "date"),
            (&["10.0.0.1", "2001:db8::7"], &plain, "ip"),
            (&["10.0.0.0/24"], &plain, "network"),
            (&["00:1b:44:11:3a:b7"], &plain, "mac"),
            (&["one\ntwo", "three"], &plain, "textarea"),
            (&[], &plain, "text"),
        ] {
            assert_eq!(kind_of(column, locale), expected, "{column:?}");
        }
    }

    #[test]
    fn headings_become_labels_and_names_that_differ() {
        let header = "public_id;active;Host name;host_name;host-name;\u{c4}nderung;!;Public ID;object.status;rack=rack/name;rack.site=rack/site;Nr.=rack/name;a=b";
        let fields = proposed(&format!("{header}\n"));
        let text = |field: &Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
        let names: Vec<(String, String)> = fields.iter().map(|it| (text(it, "name"), text(it, "label"))).collect();
        let expected = [
            ("host_name_2", "Host name"),
            ("host_name", "host_name"),
            ("host_name_3", "host-name"),
            ("\u{e4}nderung", "\u{c4}nderung"),
            ("column_7", "!"),
            ("public_id_2", "Public ID"),
            ("rack", "rack"),
            ("nr", "Nr."),
            ("a_b", "a=b"),
        ];
        assert_eq!(names, expected.map(|(name, label)| (name.to_owned(), label.to_owned())));
        assert!(plain_name(&"\u{e4}".repeat(200), 0).len() <= 101);
        for header in ["a,a", "a, a", "a,,b", "sep=;"] {
            let table = csv::read(&format!("{header}\n1,2\n"), None).expect("a table");
            assert!(propose("thing", 1, &table, &Locale::default()).is_err(), "{header}");
        }
        let wide: Vec<String> =
            (0..5000).map(|number| "!".repeat(number % 7) + "a" + &"?".repeat(number / 7)).collect();
        let same = proposed(&format!("{}\n", wide.join(",")));
        assert_eq!(same[4999]["name"], "a_5000");
    }

    #[test]
    fn few_values_that_repeat_are_options_and_values_without_an_equal_one_are_unique() {
        let lines: Vec<String> = (0..20).map(|n| format!("host-{n},{},{}", ["live", "spare"][n % 2], n % 19)).collect();
        let found = proposed(&format!("Host,State,Note\n{}", lines.join("\n")));
        let option = |name: &str| json!({"name": name, "label": name});
        let expected = [
            json!({"type": "text", "name": "host", "label": "Host", "required": true, "unique": true}),
            json!({"type": "select", "name": "state", "label": "State", "options": [option("live"), option("spare")],
                "required": true}),
            json!({"type": "number", "name": "note", "label": "Note", "required": true}),
        ];
        assert_eq!(found, expected);
        assert_eq!(proposed("Text\n'\na\n")[0], json!({"type": "text", "name": "text", "label": "Text"}));
        let few = proposed("Host,State\na,live\nb,\n,\n");
        assert_eq!(few[0], json!({"type": "text", "name": "host", "label": "Host", "required": true}));
        assert_eq!(few[1], json!({"type": "text", "name": "state", "label": "State"}));
    }
}
