//! A cell of a table and the value that it represents.
//!
//! - An empty cell is null.
//! - An apostrophe at the beginning is not part of the text if the cell ends there, or if `'` or one of [`FORMULA`]
//!   follows. The writer adds an apostrophe to empty text, to text that would otherwise be read this way, and to text
//!   that looks like a formula.
//! - A spreadsheet may split a file at another delimiter. A quote in the middle of a cell then protects nothing. So
//!   each place after one of [`BREAKS`] is guarded like the beginning. A text with such a place also begins with an
//!   apostrophe: `a;=1` is `'a;'=1`.
//! - Values that do not fit the kind of a field, which other tools may have stored, are written as JSON.

use std::borrow::Cow;

use bson::spec::ElementType;
use bson::{Bson, DateTime, Document, RawDocumentBuf};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::locale::Locale;
use crate::domain::object_fields::ValueKind;
use crate::domain::object_type::Field;
use crate::json;
use crate::json::exact::{is_kept, shortened};
use crate::json::write::{DateStyle, write_value};
use crate::raw::{CorruptBson, Element, Elements, Value};

/// A value as a table shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// Null.
    Empty,
    /// A whole number.
    Integer(i64),
    /// Any other number; finite.
    Double(f64),
    /// Yes or no.
    Flag(bool),
    /// A moment with a year of four digits.
    Moment(DateTime),
    /// Text as written in the cell, with its apostrophe if it needs one.
    Text(Cow<'a, str>),
}

/// Milliseconds of the years 0 to 9999: others need a sign, which would look like a formula.
const DATES: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

impl<'a> Cell<'a> {
    /// The cell of a value in a column of this kind.
    ///
    /// # Errors
    /// When the bytes are not BSON.
    pub fn of(kind: ValueKind, value: Value<'a>) -> Result<Self, CorruptBson> {
        use ValueKind::{Any, Checkbox, Date, Number, Reference};
        Ok(match (value.element_type(), kind) {
            (ElementType::Null | ElementType::Undefined, _) => Self::Empty,
            (ElementType::String, kind) if kind.is_text() => Self::Text(guarded(text(value)?)),
            (ElementType::String, Any) if !is_like_json(text(value)?) => Self::Text(guarded(text(value)?)),
            (ElementType::Int32 | ElementType::Int64, Number | Reference | Any) => {
                Self::Integer(value.as_integer().unwrap_or_default())
            }
            (ElementType::Double, Number | Any) if f64::from_le_bytes(value.fixed()).is_finite() => {
                Self::Double(f64::from_le_bytes(value.fixed()))
            }
            (ElementType::Boolean, Checkbox | Any) => Self::Flag(value.as_bool().unwrap_or_default()),
            (ElementType::DateTime, Date) if value.as_millis().is_some_and(|millis| DATES.contains(&millis)) => {
                Self::Moment(DateTime::from_millis(value.as_millis().unwrap_or_default()))
            }
            (ElementType::Array, kind) if joined(kind, value).is_some() => {
                Self::Text(guarded(&joined(kind, value).unwrap_or_default()).into_owned().into())
            }
            _ => {
                let mut out = Vec::new();
                write_value(value, DateStyle::Millis, &mut out)?;
                let json = String::from_utf8(out).map_err(|_| CorruptBson("text that is not UTF-8"))?;
                Self::Text(guarded_json(&json).into_owned().into())
            }
        })
    }

    /// The text of the cell where cells are text.
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Empty => "".into(),
            Self::Integer(number) => number.to_string().into(),
            Self::Double(number) => double(*number).into(),
            Self::Flag(flag) => if *flag { "true" } else { "false" }.into(),
            Self::Moment(moment) => moment.to_chrono().to_rfc3339_opts(chrono::SecondsFormat::Millis, true).into(),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }
}

/// The text of the cell of a value that is not stored.
///
/// # Errors
/// When the value cannot be stored.
pub fn text_of(kind: ValueKind, value: &Bson) -> Result<String, CorruptBson> {
    let mut holder = Document::new();
    holder.insert("value", value.clone());
    let raw = RawDocumentBuf::try_from(&holder).map_err(|_| CorruptBson("a value that cannot be stored"))?;
    let value = Elements::of(&raw).member("value")?.unwrap_or(Value::NULL);
    Ok(Cell::of(kind, value)?.as_text().into_owned())
}

/// The value of a cell in the column of a field. The label of an option stands for the option.
///
/// # Errors
/// What the cell must be, for people.
pub fn read_of(field: &Field, cell: &str, locale: &Locale) -> Result<Bson, String> {
    let value = read(ValueKind::of(field), cell, locale)?;
    if !field.has_choice() {
        return Ok(value);
    }
    Ok(match value {
        Bson::String(text) => Bson::String(option_named(field, text)),
        Bson::Array(items) => {
            let named = |item| match item {
                Bson::String(text) => Bson::String(option_named(field, text)),
                other => other,
            };
            Bson::Array(items.into_iter().map(named).collect())
        }
        other => other,
    })
}

/// The cell of the labels of options; nothing where they would not be read as these options again.
///
/// # Errors
/// When the bytes are not BSON.
pub fn labelled(field: &Field, value: Value<'_>) -> Result<Option<Cell<'static>>, CorruptBson> {
    let label = |name: &str| {
        let option = field.options.iter().find(|option| option.name == name)?;
        let option = Some(option).filter(|option| field.has_choice() && !option.label.trim().is_empty())?;
        (option_named(field, option.label.clone()) == name).then(|| option.label.clone())
    };
    let labels = match value.element_type() {
        ElementType::String => value.as_str().and_then(label).map(Bson::String),
        ElementType::Array => {
            let labels = value.elements().map(|item: Element<'_>| item.value.as_str().and_then(label));
            labels.collect::<Option<Vec<String>>>().map(Bson::from)
        }
        _ => None,
    };
    let text = labels.map(|labels| text_of(ValueKind::of(field), &labels)).transpose()?;
    Ok(text.map(|text| Cell::Text(text.into())))
}

/// The text of a cell where no program takes text for a formula: without apostrophes, unless it would then be another text.
pub fn bare(cell: &str) -> Cow<'_, str> {
    match unguarded(cell) {
        Some(text) if text.is_empty() || !is_guarded(&text) => Cow::Owned(text),
        _ => Cow::Borrowed(cell),
    }
}

/// The name of the option that people call so: by its name, or by its label if no other option has it.
fn option_named(field: &Field, text: String) -> String {
    let mut labelled = field.options.iter().filter(|option| tidy_name(&option.label) == tidy_name(&text));
    let is_name = field.options.iter().any(|option| option.name == text);
    match (labelled.next(), labelled.next()) {
        (Some(option), None) if !is_name => option.name.clone(),
        _ => text,
    }
}

/// The value of a cell in a column of this kind. Whole numbers are as short as JSON's: 32 bits where they fit.
///
/// # Errors
/// What the cell must be, for people.
pub fn read(kind: ValueKind, cell: &str, locale: &Locale) -> Result<Bson, String> {
    if cell.is_empty() {
        return Ok(Bson::Null);
    }
    if let Some(text) = unguarded(cell) {
        return Ok(kind.listed(&text).filter(|_| is_list(kind)).unwrap_or(Bson::String(text)));
    }
    let plain = cell.trim();
    let pointed = match kind {
        ValueKind::Number => locale.with_point(plain).ok_or_else(|| locale.number_expectation())?,
        // JSON has points.
        ValueKind::Any => locale.with_point(plain).unwrap_or(Cow::Borrowed(plain)),
        _ => Cow::Borrowed(plain),
    };
    let plain = &*pointed;
    if matches!(kind, ValueKind::Number | ValueKind::Any) && !is_kept(plain) {
        return Err(format!("holds the number {}, which would be rounded; {ROUNDED}", shortened(plain)));
    }
    let value = match kind {
        ValueKind::Text => return Ok(Bson::String(cell.to_owned())),
        ValueKind::Ip | ValueKind::Network | ValueKind::Mac => Some(kind.as_stored(Bson::from(plain))),
        ValueKind::Number => number(plain),
        ValueKind::Checkbox => locale.flag(plain).map(Bson::Boolean),
        ValueKind::Reference => plain.parse().ok().map(Bson::Int64),
        ValueKind::References | ValueKind::Options if begins_like_json(plain) => None,
        ValueKind::References | ValueKind::Options => kind.listed(plain),
        ValueKind::Date => locale.date(plain).map(Bson::DateTime),
        ValueKind::Any => json::read::value_from_str(plain).ok(),
    };
    match value {
        Some(value) => Ok(value),
        None if begins_like_json(cell) => {
            json::read::value_from_str(cell).map_err(|error| format!("is not as JSON has to be: {error}"))
        }
        None if kind == ValueKind::Any => Ok(Bson::String(cell.to_owned())),
        None => Err(expectation(kind, locale)),
    }
}

fn is_list(kind: ValueKind) -> bool {
    matches!(kind, ValueKind::References | ValueKind::Options)
}

/// A list as a text with commas; `None` where that text would not be read as this list again.
fn joined(kind: ValueKind, list: Value<'_>) -> Option<String> {
    let item = |item: Element<'_>| match kind {
        ValueKind::References => item.value.as_integer().map(Bson::Int64),
        ValueKind::Options => item.value.as_str().map(Bson::from),
        _ => None,
    };
    let items = list.elements().map(item).collect::<Option<Vec<Bson>>>();
    let items = items.filter(|items| !items.is_empty())?;
    let texts = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
    let text = texts.collect::<Vec<_>>().join(", ");
    (!begins_like_json(&text) && kind.listed(&text) == Some(Bson::Array(items))).then_some(text)
}

/// What to do about a number that would be rounded.
const ROUNDED: &str = "write fewer digits, {\"$numberDecimal\": \"...\"}, or make the field a text";

/// The cell without blanks at its edges, in the usual Unicode form (NFC). A cell with an apostrophe that says that it is
/// text stays as it is.
pub fn tidy(cell: &str) -> Cow<'_, str> {
    if is_guarded(cell) { Cow::Borrowed(cell) } else { tidy_name(cell) }
}

/// The cell as it is read by these options.
pub fn tidied<'c>(cell: &'c str, locale: &Locale) -> Cow<'c, str> {
    if locale.trims() { tidy(cell) } else { Cow::Borrowed(cell) }
}

/// A name without blanks at its edges, in the usual Unicode form (NFC).
pub fn tidy_name(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    if is_nfc(name) { Cow::Borrowed(name) } else { Cow::Owned(name.nfc().collect()) }
}

/// The text of a cell that holds a name.
pub fn name(cell: &str) -> Cow<'_, str> {
    unguarded(cell).map_or(Cow::Borrowed(cell), Cow::Owned)
}

/// Text as a cell holds it.
pub fn guarded(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(FORMULA) || behind_breaks(text).any(|rest| rest.starts_with(SIGNS));
    if !(text.is_empty() || is_formula || is_guarded(text)) {
        return Cow::Borrowed(text);
    }
    let mut cell = String::with_capacity(text.len() + 2);
    cell.push('\'');
    for piece in text.split_inclusive(BREAKS) {
        // The first piece has its apostrophe.
        if cell.len() > 1 && (piece.starts_with(SIGNS) || is_guard(piece)) {
            cell.push('\'');
        }
        cell.push_str(piece);
    }
    Cow::Owned(cell)
}

/// Characters that begin a formula in spreadsheets, in both widths.
const SIGNS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// The same, with what some pass over at the beginning of a cell.
pub const FORMULA: [char; 11] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\t', '\r', '\n'];

/// What a cell may be split at.
const BREAKS: [char; 6] = [',', ';', '\t', '|', '\n', '\r'];

fn is_special(character: char) -> bool {
    character == '\'' || SIGNS.contains(&character)
}

/// What comes after each break.
fn behind_breaks(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(BREAKS).map(|(place, found)| &text[place + found.len()..])
}

/// Whether an apostrophe here marks the rest as text.
fn is_guard(rest: &str) -> bool {
    rest.strip_prefix('\'').is_some_and(|behind| behind.starts_with(is_special))
}

fn is_guarded(cell: &str) -> bool {
    let Some(text) = cell.strip_prefix('\'') else { return false };
    text.is_empty() || text.starts_with('\'') || text.starts_with(FORMULA) || behind_breaks(text).any(is_guard)
}

/// The text of a cell that has apostrophes to say that it is text.
fn unguarded(cell: &str) -> Option<String> {
    if !is_guarded(cell) {
        return None;
    }
    let mut pieces = cell.split_inclusive(BREAKS);
    let mut text = pieces.next()?.strip_prefix('\'')?.to_owned();
    for piece in pieces {
        text.push_str(if is_guard(piece) { &piece[1..] } else { piece });
    }
    Some(text)
}

/// JSON in which no string has a formula after a break.
fn guarded_json(json: &str) -> Cow<'_, str> {
    if !behind_breaks(json).any(|rest| rest.starts_with(SIGNS)) {
        return Cow::Borrowed(json);
    }
    let mut guarded = String::with_capacity(json.len() + 8);
    let (mut is_text, mut is_escaped, mut is_behind_break) = (false, false, false);
    for character in json.chars() {
        match (is_behind_break && SIGNS.contains(&character), is_text) {
            (true, true) => guarded.extend(format!("\\u{:04x}", u32::from(character)).chars()),
            (true, false) => guarded.extend([' ', character]),
            (false, _) => guarded.push(character),
        }
        is_text ^= character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_behind_break = BREAKS.contains(&character);
    }
    Cow::Owned(guarded)
}

fn text(value: Value<'_>) -> Result<&str, CorruptBson> {
    value.as_str().ok_or(CorruptBson("text that is not UTF-8"))
}

/// Whether a cell of this text would not be read as text.
fn is_like_json(text: &str) -> bool {
    begins_like_json(text) || json::read::value_from_str(text).is_ok() || !is_kept(text.trim())
}

fn begins_like_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
}

fn double(number: f64) -> String {
    let mut out = Vec::new();
    json::write::write_f64(number, &mut out);
    String::from_utf8(out).expect("digits are UTF-8")
}

fn number(text: &str) -> Option<Bson> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(i32::try_from(whole).map_or(Bson::Int64(whole), Bson::Int32));
    }
    // No `inf` and `nan`, which Rust reads too.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse::<f64>().ok().filter(|number| is_plain && number.is_finite()).map(Bson::Double)
}

fn expectation(kind: ValueKind, locale: &Locale) -> String {
    match kind {
        ValueKind::Checkbox => return locale.flag_expectation(),
        ValueKind::Date => return locale.date_expectation(),
        ValueKind::Number => return locale.number_expectation(),
        ValueKind::Reference => {
            "must be the id of an object, or empty; a column that is called <field>=<type>/<field> finds objects by other values"
        }
        ValueKind::References => "must be ids of objects with commas (7, 9), or empty",
        ValueKind::Options => "must be options with commas, or empty",
        ValueKind::Text | ValueKind::Ip | ValueKind::Network | ValueKind::Mac | ValueKind::Any => kind.expectation(),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, Decimal128, doc};
    use proptest::prelude::*;

    use super::*;

    const KINDS: [ValueKind; 9] = [
        ValueKind::Text,
        ValueKind::References,
        ValueKind::Options,
        ValueKind::Ip,
        ValueKind::Number,
        ValueKind::Checkbox,
        ValueKind::Reference,
        ValueKind::Date,
        ValueKind::Any,
    ];

    fn read(kind: ValueKind, cell: &str) -> Result<Bson, String> {
        super::read(kind, cell, &Locale::default())
    }

    fn written(kind: ValueKind, value: impl Into<Bson>) -> String {
        text_of(kind, &value.into()).expect("it can be stored")
    }

    #[test]
    fn formulas_are_text() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=HYPERLINK(\"http://x\")"] {
            for kind in [ValueKind::Text, ValueKind::Any] {
                let cell = written(kind, formula);
                assert!(cell.starts_with('\'') || cell.starts_with('"'), "{cell}");
                assert_eq!(read(kind, &cell), Ok(formula.into()));
            }
        }
    }

    #[test]
    fn an_apostrophe_is_added_only_where_it_is_needed() {
        assert_eq!(written(ValueKind::Text, "'t Hooft"), "'t Hooft");
        assert_eq!(written(ValueKind::Text, ""), "'");
        assert_eq!(written(ValueKind::Text, "'"), "''");
        assert_eq!(written(ValueKind::Text, "'=1"), "''=1");
        assert_eq!(written(ValueKind::Text, "plain"), "plain");
        assert_eq!(read(ValueKind::Text, "'t Hooft"), Ok("'t Hooft".into()));
        assert_eq!(read(ValueKind::Text, "-5"), Ok("-5".into()));
    }

    #[test]
    fn numbers_are_numbers() {
        assert_eq!(written(ValueKind::Number, -5), "-5");
        assert_eq!(written(ValueKind::Number, 5.0), "5.0");
        assert_eq!(read(ValueKind::Number, "5.0"), Ok(Bson::Double(5.0)));
        assert_eq!(read(ValueKind::Number, " 5 "), Ok(Bson::Int32(5)));
        assert_eq!(read(ValueKind::Number, "1e3"), Ok(Bson::Double(1000.0)));
        for odd in ["NaN", "inf", "five", "5,5", "", "'-5"] {
            assert!(!matches!(read(ValueKind::Number, odd), Ok(Bson::Double(_) | Bson::Int32(_))), "{odd}");
        }
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused() {
        for kind in [ValueKind::Number, ValueKind::Any] {
            for rounded in
                ["12345678901234567890", "5e-400", "1e400", "0.12345678901234567890123", " -12345678901234567890 "]
            {
                let told = format!("holds the number {}, which would be rounded; ", rounded.trim());
                assert!(read(kind, rounded).is_err_and(|reason| reason.starts_with(&told)), "{rounded}");
            }
            assert_eq!(read(kind, "9223372036854775807"), Ok(Bson::Int64(i64::MAX)));
            assert_eq!(read(kind, "1.10"), Ok(Bson::Double(1.1)));
        }
        assert_eq!(read(ValueKind::Text, "12345678901234567890"), Ok("12345678901234567890".into()));
        let text = written(ValueKind::Any, "12345678901234567890");
        assert_eq!(read(ValueKind::Any, &text), Ok("12345678901234567890".into()));
        assert!(read(ValueKind::Any, "[5e-400]").is_err());
    }

    #[test]
    fn numbers_have_a_comma_where_that_was_said() {
        let comma = Locale::read(true, |name| (name == "decimal").then_some(",")).expect("a comma");
        for (kind, cell, expected) in [
            (ValueKind::Number, "2,5", Bson::Double(2.5)),
            (ValueKind::Number, "7", Bson::Int32(7)),
            (ValueKind::Any, "2,5", Bson::Double(2.5)),
            (ValueKind::Any, "[1,5]", bson::bson!([1, 5])),
            (ValueKind::Any, "a,5", "a,5".into()),
            (ValueKind::Text, "2,5", "2,5".into()),
            (ValueKind::Options, "2,5", bson::bson!(["2", "5"])),
        ] {
            assert_eq!(super::read(kind, cell, &comma), Ok(expected), "{cell}");
        }
        let told = "must be a number, with a comma for decimals, or empty";
        assert_eq!(super::read(ValueKind::Number, "1.234", &comma), Err(told.to_owned()));
        assert!(super::read(ValueKind::Number, "0,12345678901234567890123", &comma).is_err());
    }

    #[test]
    fn tidy_cells_have_no_blanks_at_their_edges_and_one_unicode_form() {
        for (cell, expected) in [
            (" a1 ", "a1"),
            ("a 1", "a 1"),
            ("\u{a0}a\t", "a"),
            ("   ", ""),
            ("e\u{301}", "\u{e9}"),
            ("'=1 ", "'=1 "),
            ("'", "'"),
            ("'t Hooft ", "'t Hooft"),
        ] {
            assert_eq!(tidy(cell), expected);
        }
    }

    #[test]
    fn people_write_yes_and_no_in_many_ways() {
        for yes in ["true", "TRUE", "1", "yes", " Yes"] {
            assert_eq!(read(ValueKind::Checkbox, yes), Ok(true.into()));
        }
        for no in ["false", "False", "0", "NO"] {
            assert_eq!(read(ValueKind::Checkbox, no), Ok(false.into()));
        }
        assert!(read(ValueKind::Checkbox, "maybe").is_err());
    }

    #[test]
    fn no_cell_has_a_formula_wherever_a_spreadsheet_splits_it() {
        for (text, cell) in [
            ("\n=1", "'\n'=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("\u{ff0b}1", "'\u{ff0b}1"),
            ("\u{ff0d}1", "'\u{ff0d}1"),
            ("\u{ff20}a", "'\u{ff20}a"),
            (";=1", "';'=1"),
            ("a;=1", "'a;'=1"),
            ("a\t@b", "'a\t'@b"),
            ("list\n- a\n'b", "'list\n'- a\n'b"),
            ("=a;\t=b", "'=a;\t'=b"),
            ("'x;'=1", "''x;''=1"),
        ] {
            assert_eq!(written(ValueKind::Text, text), cell);
            assert_eq!(read(ValueKind::Text, cell), Ok(text.into()), "{cell}");
        }
        for plain in ["a; b", "'t Hooft", "a;'b", "x;'=1", "a, b - c", "two\r\n\r\nlines"] {
            assert_eq!(written(ValueKind::Text, plain), plain);
            assert_eq!(read(ValueKind::Text, plain), Ok(plain.into()));
        }
        assert_eq!(
            written(ValueKind::Any, bson::bson!(["a;=1", -2, ["\\\";-"]])),
            r#"["a;\u003d1", -2,["\\\";\u002d"]]"#
        );
    }

    #[test]
    fn dates_are_iso_in_utc_with_milliseconds() {
        let date = DateTime::from_millis(1_700_000_000_123);
        assert_eq!(written(ValueKind::Date, date), "2023-11-14T22:13:20.123Z");
        assert_eq!(read(ValueKind::Date, "2023-11-14T23:13:20.123+01:00"), Ok(date.into()));
        assert_eq!(read(ValueKind::Date, "2023-11-14"), Ok(DateTime::from_millis(1_699_920_000_000).into()));
        assert!(read(ValueKind::Date, "14.11.2023").is_err());
    }

    #[test]
    fn text_that_looks_like_json_is_told_from_json() {
        for text in ["5", "true", "null", "{}", "[1", "\"", " 7", "{not json"] {
            let cell = written(ValueKind::Any, text);
            assert_eq!(read(ValueKind::Any, &cell), Ok(text.into()), "{cell}");
        }
        assert_eq!(written(ValueKind::Any, "rack 5"), "rack 5");
        assert_eq!(read(ValueKind::Any, "[1, \"a\"]"), Ok(bson::bson!([1, "a"])));
        assert!(read(ValueKind::Any, "{not json").is_err());
    }

    /// Values that objects have in fields of this kind when they came through this service.
    fn value_of(kind: ValueKind) -> BoxedStrategy<Bson> {
        let text = || {
            prop_oneof![any::<String>(), "['=+@\t\r\n;,|\u{ff1d}\u{ff20} -]{0,6}[a-z\"{\\[0-9]{0,4}['=;-]{0,4}"]
                .prop_map(Bson::String)
        };
        let number = || {
            prop_oneof![
                any::<i32>().prop_map(Bson::Int32),
                any::<i64>().prop_filter("short ones are short", |n| i32::try_from(*n).is_err()).prop_map(Bson::Int64),
                any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Bson::Double),
                (-1000..1000_i32).prop_map(|n| Bson::Double(f64::from(n))),
            ]
        };
        let date = || any::<i64>().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis)));
        let near =
            || (-99_999_999_999_999..999_999_999_999_999_i64).prop_map(|ms| Bson::DateTime(DateTime::from_millis(ms)));
        let some = match kind {
            ValueKind::Text => text().boxed(),
            ValueKind::Number => {
                let decimal = Just("1.50".parse::<Decimal128>().expect("a number")).prop_map(Bson::Decimal128);
                prop_oneof![9 => number(), 1 => decimal].boxed()
            }
            ValueKind::Checkbox => any::<bool>().prop_map(Bson::Boolean).boxed(),
            ValueKind::Reference => any::<i64>().prop_map(Bson::Int64).boxed(),
            ValueKind::References => {
                let ids = || any::<i64>().prop_filter("others are short", |n| i32::try_from(*n).is_err());
                proptest::collection::vec(ids().prop_map(Bson::Int64), 0..4).prop_map(Bson::Array).boxed()
            }
            ValueKind::Options => proptest::collection::vec(text(), 0..4).prop_map(Bson::Array).boxed(),
            ValueKind::Date => prop_oneof![date(), near()].boxed(),
            ValueKind::Ip | ValueKind::Network | ValueKind::Mac => {
                any::<std::net::IpAddr>().prop_map(|address| crate::address::written_ip(address).into()).boxed()
            }
            ValueKind::Any => prop_oneof![text(), number(), date(), any::<bool>().prop_map(Bson::Boolean)]
                .prop_recursive(3, 16, 4, |inner| {
                    prop_oneof![
                        proptest::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
                        ("[a-z =']{1,5}", inner).prop_map(|(name, value)| Bson::Document(doc! {name: value})),
                    ]
                })
                .boxed(),
        };
        prop_oneof![9 => some, 1 => Just(Bson::Null)].boxed()
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_the_same_value(
            (kind, value) in proptest::sample::select(&KINDS[..]).prop_flat_map(|kind| (Just(kind), value_of(kind))),
        ) {
            let cell = written(kind, value.clone());
            prop_assert_eq!(read(kind, &cell), Ok(value.clone()), "{}", cell);
            let is_number = matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_));
            prop_assert!(is_number || !cell.starts_with(FORMULA), "{}", cell);
            prop_assert!(!behind_breaks(&cell).any(|rest| rest.starts_with(SIGNS)), "{}", cell);
        }

        #[test]
        fn no_cell_makes_reading_panic(cell in any::<String>(), kind in proptest::sample::select(&KINDS[..])) {
            let _ = read(kind, &cell);
        }
    }
}
