//! Which values are the same one, for fields whose values are unique in their type.

use std::fmt::Write;

use bson::{Bson, Document};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

use super::object_fields::ValueKind;
use super::object_type::PASSWORD;

/// Which values of a unique field count as equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uniqueness {
    /// Those that MongoDB treats as equal: numbers by their value, texts by their bytes.
    Exact,
    /// Texts also when they differ by case or accents alone.
    Folded,
}

/// The word for [`Uniqueness::Folded`] in the definition of a field.
pub const FOLD: &str = "fold";

/// The kinds of fields whose values cannot be unique, each with the reason.
const NEVER: [(&str, &str); 3] = [
    (PASSWORD, "a refusal would reveal the password of another object"),
    ("checkbox", "only two objects could have a value"),
    ("ref-section-field", "it shows a section of another object, and several objects may show the same one"),
];

impl Uniqueness {
    /// What the definition of a field says; nothing where its values need not be unique.
    pub fn of(field: &Document) -> Option<Self> {
        let kind = field.get_str("type").unwrap_or("text");
        let wanted = match field.get("unique")? {
            Bson::Boolean(true) => Self::Exact,
            Bson::String(word) if word == FOLD => Self::Folded,
            _ => return None,
        };
        (!NEVER.iter().any(|(never, _)| *never == kind)).then_some(wanted)
    }

    /// The member of a definition of a field that asks for it.
    pub fn member(self) -> Bson {
        match self {
            Self::Exact => Bson::Boolean(true),
            Self::Folded => Bson::from(FOLD),
        }
    }

    /// A text that is the same for equal values; nothing for null, which any number of objects may have.
    pub fn key(self, value: &Bson) -> Option<String> {
        match value {
            Bson::Null | Bson::Undefined => None,
            Bson::String(text) if self == Self::Folded => Some(format!("s{}", folded(text))),
            value => Some(whole_key(value)),
        }
    }
}

/// Why the values of a field cannot be unique in this way, for the author of the type.
pub fn not_unique(field: &Document) -> Option<String> {
    let kind = field.get_str("type").ok()?;
    let is_folded = match field.get("unique")? {
        Bson::Boolean(true) => false,
        Bson::String(word) if word == FOLD => true,
        _ => return None,
    };
    if let Some((_, reason)) = NEVER.iter().find(|(never, _)| *never == kind) {
        return Some(format!("values of the kind {kind} cannot be unique: {reason}; leave it out, or send false"));
    }
    if is_folded && ValueKind::named(kind) != ValueKind::Text {
        return Some(format!("\"{FOLD}\" compares texts, and values of the kind {kind} are none; send true"));
    }
    let default = field.get_str("value").unwrap_or_default();
    (!default.is_empty()).then(|| {
        "the field has a default (value), which only one object could have; take out the default or this".to_owned()
    })
}

/// A text without its case and its accents.
pub fn folded(text: &str) -> String {
    // The class of marks above, below and around letters. Others are letters of their own in some scripts.
    const ACCENTS: u8 = 200;
    // To capitals first: the small letters of some capitals are several.
    let capitals = text.nfd().flat_map(char::to_uppercase);
    let small: String = capitals.flat_map(char::to_lowercase).collect();
    small.nfd().filter(|letter| canonical_combining_class(*letter) < ACCENTS).nfc().collect()
}

/// As [`key_text`], for all values.
fn whole_key(value: &Bson) -> String {
    if let Some(key) = key_text(value) {
        return key;
    }
    match value {
        Bson::Array(items) => {
            let mut key = "[".to_owned();
            for item in items {
                push(&mut key, &whole_key(item));
            }
            key
        }
        Bson::Document(members) => {
            let mut key = "{".to_owned();
            for (name, member) in members {
                push(&mut key, name);
                push(&mut key, &whole_key(member));
            }
            key
        }
        Bson::Symbol(text) => format!("s{text}"),
        Bson::Double(number) => format!("f{number}"),
        Bson::Decimal128(number) => format!("f{}", number.to_string().replace("Infinity", "inf")),
        other => format!("o{}", other.clone().into_canonical_extjson()),
    }
}

/// Adds a part with its length, so that no two lists of parts have the same text.
fn push(key: &mut String, part: &str) {
    // Writing into a string cannot fail.
    let _ = write!(key, "{}:{part}", part.len());
}

/// A text that is the same for key values that the stores treat as equal; none for values that cannot be keys.
pub fn key_text(value: &Bson) -> Option<String> {
    match value {
        Bson::String(text) => Some(format!("s{text}")),
        Bson::Int32(number) => number_text(&number.to_string()),
        Bson::Int64(number) => number_text(&number.to_string()),
        // All digits of a double, however many: 0.1 is not the decimal 0.1.
        Bson::Double(number) if number.is_finite() => number_text(&format!("{number:.1074}")),
        Bson::Decimal128(number) => number_text(&number.to_string()),
        Bson::Boolean(flag) => Some(format!("b{flag}")),
        Bson::DateTime(moment) => Some(format!("d{}", moment.timestamp_millis())),
        _ => None,
    }
}

/// One text for all ways to write a number in decimal digits, with or without a point and an exponent.
fn number_text(written: &str) -> Option<String> {
    let (sign, unsigned) = written.strip_prefix('-').map_or(("", written), |rest| ("-", rest));
    let (digits, exponent) = unsigned.split_once(['E', 'e']).unwrap_or((unsigned, "0"));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.parse::<i64>().ok()? - i64::try_from(part.len()).ok()?;
    let short = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - short.len()).ok()?;
    match short.trim_start_matches('0') {
        "" => Some("n0".to_owned()),
        short => Some(format!("n{sign}{short}e{}", exponent + zeros)),
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().expect("a decimal"))
    }

    #[test]
    fn numbers_that_stores_take_for_equal_are_one_key() {
        for equal in [
            vec![Bson::Int32(1500), Bson::Int64(1500), Bson::Double(1500.0), decimal("1500.00"), decimal("1.5E+3")],
            vec![Bson::Double(-0.5), decimal("-0.50"), decimal("-5E-1")],
            vec![Bson::Int32(0), Bson::Double(-0.0), decimal("0E+5"), decimal("-0.00")],
        ] {
            let texts: Vec<_> = equal.iter().map(key_text).collect();
            assert!(texts[0].is_some() && texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        }
    }

    #[test]
    fn a_double_is_its_exact_value_and_what_is_no_number_is_no_key() {
        assert_ne!(key_text(&Bson::Double(0.1)), key_text(&decimal("0.1")));
        assert_ne!(key_text(&Bson::Int64(15)), key_text(&Bson::Int64(150)));
        for nothing in [decimal("NaN"), decimal("-Infinity"), Bson::Double(f64::NAN), Bson::Null] {
            assert_eq!(key_text(&nothing), None);
        }
    }

    #[test]
    fn folded_texts_differ_by_more_than_case_and_accents() {
        for (one, other) in [("Straße", "STRASSE"), ("Łódź", "łodz\u{301}"), ("É", "e"), ("ΟΔΟΣ", "οδος"), ("й", "И")]
        {
            assert_eq!(folded(one), folded(other), "{one} {other}");
        }
        for (one, other) in [("web-1", "web-2"), ("か", "が"), ("कि", "का"), ("a b", "ab")] {
            assert_ne!(folded(one), folded(other), "{one} {other}");
        }
    }

    #[test]
    fn equal_values_of_every_kind_have_one_key_and_null_has_none() {
        let key = |value: Bson| Uniqueness::Exact.key(&value);
        assert_eq!(key(bson!({"a": [1, 2.0]})), key(bson!({"a": [1.0, 2_i64]})));
        assert_ne!(key(bson!(["a", "b"])), key(bson!(["a1:b"])));
        assert_ne!(key(bson!(["1"])), key(bson!([1])));
        assert_eq!(key(Bson::Double(f64::NAN)), key(decimal("NaN")));
        assert_eq!(key(Bson::Double(f64::NEG_INFINITY)), key(decimal("-Infinity")));
        assert_ne!(key("A".into()), key("a".into()));
        assert_eq!(Uniqueness::Folded.key(&"A".into()), Uniqueness::Folded.key(&"a".into()));
        assert_eq!(key(Bson::Null), None);
        assert!(key("".into()).is_some());
    }

    #[test]
    fn some_kinds_and_some_defaults_cannot_be_unique() {
        let field = |kind: &str, unique: Bson| doc! {"type": kind, "name": "a", "unique": unique};
        for kind in ["password", "checkbox", "ref-section-field"] {
            assert!(not_unique(&field(kind, true.into())).is_some(), "{kind}");
            assert_eq!(Uniqueness::of(&field(kind, true.into())), None, "{kind}");
            assert_eq!(not_unique(&field(kind, false.into())), None, "{kind}");
        }
        assert!(not_unique(&field("number", "fold".into())).is_some());
        assert_eq!(not_unique(&field("text", "fold".into())), None);
        assert_eq!(Uniqueness::of(&field("text", "fold".into())), Some(Uniqueness::Folded));
        let mut with_default = field("text", true.into());
        with_default.insert("value", "x");
        assert!(not_unique(&with_default).is_some());
    }
}
