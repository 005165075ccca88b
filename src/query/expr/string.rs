//! Strings: parts by bytes and by code points, searching, splitting, trimming, letter case.

use std::cmp::Ordering;

use bson::Bson;

use super::array::search_bound;
use super::core::call::{Arguments, Folding, Names, Operator, Shape};
use super::date;
use super::value::{Number, Outcome, failure, found, general, is_nullish, null, shown, text, type_name};
use crate::query::budget::check_text;
use crate::query::error::EvalError;

const TRIM: Shape =
    Shape::Named(&Names { not_an_object: 50696, unknown: 50694, known: &[("input", Some(50695)), ("chars", None)] });

const REPLACE: Shape = Shape::Named(&Names {
    not_an_object: 51751,
    unknown: 51750,
    known: &[("input", Some(51749)), ("find", Some(51748)), ("replacement", Some(51747))],
});

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$concat", shape: Shape::Any, folding: Folding::Associative, run: concat },
    Operator { name: "$substr", shape: Shape::Exactly(3), folding: Folding::Whole, run: substr_bytes },
    Operator { name: "$substrBytes", shape: Shape::Exactly(3), folding: Folding::Whole, run: substr_bytes },
    Operator { name: "$substrCP", shape: Shape::Exactly(3), folding: Folding::Whole, run: substr_cp },
    Operator { name: "$indexOfBytes", shape: Shape::Between(2, 4), folding: Folding::Whole, run: index_of_bytes },
    Operator { name: "$indexOfCP", shape: Shape::Between(2, 4), folding: Folding::Whole, run: index_of_cp },
    Operator { name: "$strLenBytes", shape: Shape::Exactly(1), folding: Folding::Whole, run: str_len_bytes },
    Operator { name: "$strLenCP", shape: Shape::Exactly(1), folding: Folding::Whole, run: str_len_cp },
    Operator { name: "$toLower", shape: Shape::Exactly(1), folding: Folding::Whole, run: to_lower },
    Operator { name: "$toUpper", shape: Shape::Exactly(1), folding: Folding::Whole, run: to_upper },
    Operator { name: "$strcasecmp", shape: Shape::Exactly(2), folding: Folding::Whole, run: strcasecmp },
    Operator { name: "$split", shape: Shape::Exactly(2), folding: Folding::Whole, run: split },
    Operator { name: "$trim", shape: TRIM, folding: Folding::Whole, run: |a| trim(a, true, true) },
    Operator { name: "$ltrim", shape: TRIM, folding: Folding::Whole, run: |a| trim(a, true, false) },
    Operator { name: "$rtrim", shape: TRIM, folding: Folding::Whole, run: |a| trim(a, false, true) },
    Operator { name: "$replaceOne", shape: REPLACE, folding: Folding::Never, run: |a| replace(a, 1) },
    Operator { name: "$replaceAll", shape: REPLACE, folding: Folding::Never, run: |a| replace(a, usize::MAX) },
];

/// What older operators take for a text: numbers and dates are written out, the absent is the empty text.
fn coerced(value: Option<&Bson>) -> Result<String, EvalError> {
    Ok(match value {
        value if is_nullish(value) => String::new(),
        Some(Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text)) => text.clone(),
        Some(Bson::Int32(number)) => number.to_string(),
        Some(Bson::Int64(number)) => number.to_string(),
        // Here, unlike in conversions, as C writes it.
        Some(Bson::Double(number)) if number.is_nan() => {
            if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned()
        }
        Some(Bson::Double(number)) if number.is_infinite() => general(*number).replace("Infinity", "inf"),
        Some(Bson::Double(number)) => general(*number),
        Some(Bson::Decimal128(number)) => number.to_string(),
        Some(Bson::DateTime(date)) => date::iso_text(date.timestamp_millis())?,
        Some(Bson::Timestamp(time)) => date::timestamp_text(*time),
        value => return failure(16007, format!("can't convert from BSON type {} to String", type_name(value))),
    })
}

fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn concat(arguments: &Arguments<'_>) -> Outcome {
    let mut joined = String::new();
    for value in arguments.each() {
        let value = value?;
        match text(value.as_ref()) {
            Some(text) => {
                check_text(joined.len() + text.len())?;
                joined.push_str(text);
            }
            None if is_nullish(value.as_ref()) => return null(),
            None => return arguments.wrong_type(16702, "only supports strings", value.as_ref()),
        }
    }
    found(joined)
}

fn substr_bytes(arguments: &Arguments<'_>) -> Outcome {
    let [string, start, count] = arguments.values()?;
    let string = coerced(string.as_ref())?;
    let Some(start) = start.as_ref().and_then(Number::of) else {
        return failure(16034, "$substrBytes: starting index must be a numeric type");
    };
    let Some(count) = count.as_ref().and_then(Number::of) else {
        return failure(16035, "$substrBytes: length must be a numeric type");
    };
    let (start, count) = (to_long(start)?, to_long(count)?);
    let Ok(start) = usize::try_from(start) else {
        return failure(50752, format!("$substrBytes: starting index must be non-negative (got: {start})"));
    };
    if start >= string.len() {
        return found("");
    }
    if !string.is_char_boundary(start) {
        return failure(28656, "$substrBytes: starting index is a UTF-8 continuation byte");
    }
    // A negative length means the rest.
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let end = start.saturating_add(count).min(string.len());
    if !string.is_char_boundary(end) {
        return failure(28657, "$substrBytes: ending index is in the middle of a UTF-8 character");
    }
    found(&string[start..end])
}

/// A number cut to 64 bits; doubles beyond them are refused.
fn to_long(number: Number) -> Result<i64, EvalError> {
    if number.is_wide_double() {
        return failure(31109, "can't coerce out of range value to long");
    }
    Ok(number.to_i64_saturating())
}

fn substr_cp(arguments: &Arguments<'_>) -> Outcome {
    let [string, start, count] = arguments.values()?;
    let string = coerced(string.as_ref())?;
    let start = code_points(start.as_ref(), "starting index", 34450)?;
    let count = code_points(count.as_ref(), "length", 34452)?;
    let Ok(count) = usize::try_from(count) else {
        return failure(34454, "$substrCP: length must be a nonnegative integer");
    };
    let Ok(start) = usize::try_from(start) else {
        return failure(34455, "$substrCP: the starting index must be a nonnegative integer");
    };
    found(string.chars().skip(start).take(count).collect::<String>())
}

fn code_points(value: Option<&Bson>, what: &str, code: i32) -> Result<i32, EvalError> {
    let Some(number) = value.and_then(Number::of) else {
        return failure(code, format!("$substrCP: {what} must be a numeric type (is BSON type {})", type_name(value)));
    };
    number.to_exact_i32().map_or_else(
        || failure(code + 1, format!("$substrCP: {what} must be a 32-bit integral value: {}", shown(value))),
        Ok,
    )
}

/// The two texts of a search; nothing when the first is absent.
fn searched(arguments: &Arguments<'_>, codes: (i32, i32)) -> Result<Option<(String, String)>, EvalError> {
    let string = arguments.value(0)?;
    if is_nullish(string.as_ref()) {
        return Ok(None);
    }
    let Some(string) = text(string.as_ref()) else {
        let found = type_name(string.as_ref());
        return arguments.fail(codes.0, &format!("requires a string as the first argument, found: {found}"));
    };
    let token = arguments.value(1)?;
    let Some(token) = text(token.as_ref()) else {
        let found = type_name(token.as_ref());
        return arguments.fail(codes.1, &format!("requires a string as the second argument, found: {found}"));
    };
    Ok(Some((string.to_owned(), token.to_owned())))
}

fn index_of_bytes(arguments: &Arguments<'_>) -> Outcome {
    let Some((string, token)) = searched(arguments, (40091, 40092))? else { return null() };
    let start = search_bound(arguments, 2)?.unwrap_or(0);
    let end = search_bound(arguments, 3)?.unwrap_or(string.len()).min(string.len());
    if token.is_empty() {
        return found(if start <= end { length(start) } else { -1 });
    }
    // A token begins and ends between characters, so parts of characters at both ends of the window do not matter.
    let (from, to) = (string.ceil_char_boundary(start), string.floor_char_boundary(end));
    let hit = string.get(from..to).and_then(|window| window.find(&token));
    found(hit.map_or(-1, |index| length(index + from)))
}

/// The token must begin, but need not end, before the end of the search.
fn index_of_cp(arguments: &Arguments<'_>) -> Outcome {
    let Some((string, token)) = searched(arguments, (40093, 40094))? else { return null() };
    let start = search_bound(arguments, 2)?.unwrap_or(0);
    let end = search_bound(arguments, 3)?.unwrap_or(usize::MAX);
    if string.is_empty() {
        return found(if start == 0 && token.is_empty() { 0 } else { -1 });
    }
    let Some((from, _)) = string.char_indices().nth(start) else { return found(-1) };
    let hit = string[from..].find(&token).map(|byte| start + string[from..from + byte].chars().count());
    found(hit.filter(|index| *index < end).map_or(-1, length))
}

fn str_len_bytes(arguments: &Arguments<'_>) -> Outcome {
    found(length(measured(arguments, 34473)?.len()))
}

fn str_len_cp(arguments: &Arguments<'_>) -> Outcome {
    found(length(measured(arguments, 34471)?.chars().count()))
}

fn measured(arguments: &Arguments<'_>, code: i32) -> Result<String, EvalError> {
    let value = arguments.value(0)?;
    match text(value.as_ref()) {
        Some(text) => Ok(text.to_owned()),
        None => arguments.fail(code, &format!("requires a string argument, found: {}", type_name(value.as_ref()))),
    }
}

/// Letters of ASCII alone change.
fn to_lower(arguments: &Arguments<'_>) -> Outcome {
    found(coerced(arguments.value(0)?.as_ref())?.to_ascii_lowercase())
}

fn to_upper(arguments: &Arguments<'_>) -> Outcome {
    found(coerced(arguments.value(0)?.as_ref())?.to_ascii_uppercase())
}

fn strcasecmp(arguments: &Arguments<'_>) -> Outcome {
    let [left, right] = arguments.values()?;
    let left = coerced(left.as_ref())?.to_ascii_uppercase();
    let right = coerced(right.as_ref())?.to_ascii_uppercase();
    found(match left.as_bytes().cmp(right.as_bytes()) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

fn split(arguments: &Arguments<'_>) -> Outcome {
    let [string, separator] = arguments.values()?;
    if is_nullish(string.as_ref()) || is_nullish(separator.as_ref()) {
        return null();
    }
    let Some(string) = text(string.as_ref()) else {
        let found = type_name(string.as_ref());
        return arguments.fail(40085, &format!("requires a string as a first argument, found: {found}"));
    };
    let Some(separator) = text(separator.as_ref()) else {
        let found = type_name(separator.as_ref());
        return arguments.fail(40086, &format!("requires a string as a second argument, found: {found}"));
    };
    if separator.is_empty() {
        return arguments.fail(40087, "requires a non-empty separator");
    }
    arguments.budget().take_elements(string.matches(separator).count() + 1)?;
    found(string.split(separator).map(Bson::from).collect::<Vec<_>>())
}

/// White space and the null byte: what is trimmed when no characters are named.
fn is_blank(character: char) -> bool {
    matches!(character, '\0' | '\t'..='\r' | ' ' | '\u{A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}')
}

fn trim(arguments: &Arguments<'_>, start: bool, end: bool) -> Outcome {
    let input = arguments.value(0)?;
    if is_nullish(input.as_ref()) {
        return null();
    }
    let Some(mut trimmed) = text(input.as_ref()) else {
        let found = type_name(input.as_ref());
        return arguments.fail(50699, &format!("requires its input to be a string, got {found}"));
    };
    let chars = arguments.value(1)?;
    if arguments.is_given(1) && is_nullish(chars.as_ref()) {
        return null();
    }
    let chars = match text(chars.as_ref()) {
        Some(chars) => Some(chars),
        None if !arguments.is_given(1) => None,
        None => {
            let found = type_name(chars.as_ref());
            return arguments.fail(50700, &format!("requires 'chars' to be a string, got {found}"));
        }
    };
    let goes = |character: char| chars.map_or_else(|| is_blank(character), |chars| chars.contains(character));
    if start {
        trimmed = trimmed.trim_start_matches(goes);
    }
    if end {
        trimmed = trimmed.trim_end_matches(goes);
    }
    found(trimmed)
}

fn replace(arguments: &Arguments<'_>, count: usize) -> Outcome {
    const OPERANDS: [(&str, i32); 3] = [("input", 51746), ("find", 51745), ("replacement", 51744)];
    let values = arguments.values::<3>()?;
    for (value, (name, code)) in values.iter().zip(OPERANDS) {
        if !is_nullish(value.as_ref()) && text(value.as_ref()).is_none() {
            let found = shown(value.as_ref());
            return arguments.fail(code, &format!("requires that '{name}' be a string, found: {found}"));
        }
    }
    match values.each_ref().map(|value| text(value.as_ref())) {
        [Some(input), Some(find), Some(replacement)] => {
            let hits = input.matches(find).take(count).count();
            check_text((input.len() - hits * find.len()).saturating_add(hits.saturating_mul(replacement.len())))?;
            found(input.replacen(find, replacement, count))
        }
        _ => null(),
    }
}
