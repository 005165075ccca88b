//! `$dateToString`.

use std::fmt::Write as _;

use bson::Bson;

use super::calendar::Moment;
use super::{Zone, coerced, time_zone};
use crate::query::error::EvalError;
use crate::query::expr::core::call::Arguments;
use crate::query::expr::value::{Outcome, failure, found, is_nullish, null, shown, type_name};

const ISO: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

/// A date in Greenwich as ISO 8601 writes it.
pub(in crate::query::expr) fn iso_text(millis: i64) -> Result<String, EvalError> {
    text(millis, ISO, Zone::UTC)
}

/// `{date, format, timezone, onNull}`
pub(super) fn date_to_string(arguments: &Arguments<'_>) -> Outcome {
    let date = arguments.value(0)?;
    let format = if arguments.is_given(1) { arguments.value(1)? } else { Some(Bson::from(ISO)) };
    let format = match format {
        Some(Bson::String(format)) => {
            check(&format, "dGHjLmMSuUVwYzZ")?;
            Some(format)
        }
        format if is_nullish(format.as_ref()) => None,
        format => {
            let (kind, shown) = (type_name(format.as_ref()), shown(format.as_ref()));
            let message = format!("$dateToString requires that 'format' be a string, found: {kind} with value {shown}");
            return failure(18533, message);
        }
    };
    let zone = time_zone(arguments, 2)?;
    if is_nullish(date.as_ref()) {
        return if arguments.is_given(3) { arguments.value(3) } else { null() };
    }
    let (Some(format), Some(zone)) = (format, zone) else { return null() };
    found(text(coerced(date.as_ref())?, &format, zone)?)
}

/// Whether all specifiers are among those allowed.
pub(super) fn check(format: &str, allowed: &str) -> Result<(), EvalError> {
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        match characters.next() {
            Some('%') => {}
            Some(specifier) if allowed.contains(specifier) => {}
            Some(specifier) => {
                return failure(18536, format!("invalid format character '%{specifier}' in format string"));
            }
            None => return failure(18535, "unmatched '%' at end of format string"),
        }
    }
    Ok(())
}

fn text(millis: i64, format: &str, zone: Zone) -> Result<String, EvalError> {
    let moment = zone.moment(millis);
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let Some(specifier) = characters.next() else { break };
        write_part(&mut text, specifier, &moment, zone.offset_at(millis))?;
    }
    Ok(text)
}

fn write_part(text: &mut String, specifier: char, moment: &Moment, offset: i64) -> Result<(), EvalError> {
    let (value, width) = match specifier {
        'Y' => (moment.year, 4),
        'm' => (moment.month, 2),
        'd' => (moment.day, 2),
        'H' => (moment.hour, 2),
        'M' => (moment.minute, 2),
        'S' => (moment.second, 2),
        'L' => (moment.millisecond, 3),
        'j' => (moment.day_of_year(), 3),
        'G' => (moment.iso_week().0, 4),
        'V' => (moment.iso_week().1, 2),
        'u' => (moment.iso_day_of_week(), 1),
        'U' => (moment.week(), 2),
        'w' => (moment.day_of_week(), 1),
        'z' => {
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
            // Writing into a string cannot fail.
            let _ = write!(text, "{sign}{:02}{:02}", minutes / 60, minutes % 60);
            return Ok(());
        }
        'Z' => {
            let _ = write!(text, "{}", offset / 60);
            return Ok(());
        }
        other => {
            text.push(other);
            return Ok(());
        }
    };
    if !(0..=9999).contains(&value) {
        let message = format!("date component was outside the supported range of 0-9999: {value}");
        return failure(18537, message);
    }
    let _ = write!(text, "{value:0width$}");
    Ok(())
}
