//! `$dateFromString`: by a format, or by guessing as PHP's `strtotime` does.

use bson::{Bson, DateTime};

use super::calendar::{DAY, days_from_civil, days_in_month, first_iso_monday};
use super::format::check;
use super::free_text::{abbreviation, parse_text};
use super::time_zone;
use super::zone::{Zone, offset};
use crate::query::error::EvalError;
use crate::query::expr::call::Arguments;
use crate::query::expr::value::{Outcome, failure, is_nullish, null, shown, type_name};

/// MongoDB's number for a text that is no date.
pub(super) const FAILED: i32 = 241;

/// `{dateString, format, timezone, onNull, onError}`
pub(super) fn date_from_string(arguments: &Arguments<'_>) -> Outcome {
    let text = arguments.value(0)?;
    let format = match arguments.value(1)? {
        Some(Bson::String(format)) => {
            check(&format, "dGHLmMSuVYzZ")?;
            Some(format)
        }
        format if is_nullish(format.as_ref()) => None,
        format => {
            let found = type_name(format.as_ref());
            return arguments.fail(40684, &format!("requires that 'format' be a string, found: {found}"));
        }
    };
    let zone = if arguments.is_given(2) { time_zone(arguments, 2)? } else { None };
    if is_nullish(text.as_ref()) {
        return if arguments.is_given(3) { arguments.value(3) } else { null() };
    }
    let absent = |index, is_none| arguments.is_given(index) && is_none;
    let unknown = absent(1, format.is_none()) || absent(2, zone.is_none());
    let millis = string(text.as_ref()).and_then(|text| match &format {
        _ if unknown => Ok(None),
        format => parse(text, format.as_deref(), zone).map(Some),
    });
    match millis {
        Ok(millis) => Ok(millis.map_or(Some(Bson::Null), |millis| Some(DateTime::from_millis(millis).into()))),
        Err(error) if error.code == FAILED && arguments.is_given(4) => arguments.value(4),
        Err(error) => Err(error),
    }
}

fn string(text: Option<&Bson>) -> Result<&str, EvalError> {
    let Some(Bson::String(text)) = text else {
        let (kind, shown) = (type_name(text), shown(text));
        let message =
            format!("$dateFromString requires that 'dateString' be a string, found: {kind} with value {shown}");
        return failure(FAILED, message);
    };
    Ok(text)
}

fn parse(text: &str, format: Option<&str>, zone: Option<Zone>) -> Result<i64, EvalError> {
    match format {
        None => parse_text(text, zone),
        Some(format) => match by_format(text, format) {
            Some(parts) => parts.millis(text, zone),
            None => unreadable(text),
        },
    }
}

/// The failure for a text that is no date.
pub(super) fn unreadable<T>(text: &str) -> Result<T, EvalError> {
    failure(FAILED, format!("error parsing date string '{text}'"))
}

/// What was read out of a text.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct DateParts {
    pub(super) year: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    pub(super) iso_year: Option<i64>,
    pub(super) iso_week: Option<i64>,
    pub(super) iso_day: Option<i64>,
    pub(super) hour: Option<i64>,
    pub(super) minute: Option<i64>,
    pub(super) second: Option<i64>,
    pub(super) millisecond: Option<i64>,
    /// Seconds east of Greenwich.
    pub(super) offset: Option<i64>,
}

impl DateParts {
    /// The instant; a time zone may be in the text or given beside it, not both.
    pub(super) fn millis(&self, text: &str, zone: Option<Zone>) -> Result<i64, EvalError> {
        let days = match (self.year, self.month, self.day, self.iso_year) {
            (Some(year), Some(month), Some(day), None) => {
                if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
                    return unreadable(text);
                }
                days_from_civil(year, month, day)
            }
            (None, None, None, Some(year)) => {
                let (week, day) = (self.iso_week.unwrap_or(1), self.iso_day.unwrap_or(1));
                if !(1..=53).contains(&week) || !(1..=7).contains(&day) {
                    return unreadable(text);
                }
                first_iso_monday(year) + (week - 1) * 7 + day - 1
            }
            (.., Some(_)) => return unreadable(text),
            _ => return failure(FAILED, format!("an incomplete date/time string has been found: \"{text}\"")),
        };
        let (hour, minute, second) = (self.hour.unwrap_or(0), self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if hour > 23 || minute > 59 || second > 59 {
            return unreadable(text);
        }
        let time = ((hour * 60 + minute) * 60 + second) * 1000 + self.millisecond.unwrap_or(0);
        let local = days * DAY + time;
        match (self.offset, zone) {
            (Some(_), Some(_)) => {
                failure(FAILED, "time zone information in the text cannot go together with a timezone argument")
            }
            (Some(seconds), None) => Ok(local - seconds * 1000),
            (None, zone) => {
                let instant = zone.unwrap_or(Zone::UTC).to_utc(i128::from(local));
                i64::try_from(instant).or_else(|_| unreadable(text))
            }
        }
    }
}

/// Takes from `least` to `most` digits off the front.
pub(super) fn digits(text: &mut &str, least: usize, most: usize) -> Option<i64> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    *text = rest;
    digits.parse().ok()
}

fn by_format(text: &str, format: &str) -> Option<DateParts> {
    let mut parts = DateParts::default();
    let mut rest = text;
    let mut specifiers = format.chars();
    while let Some(character) = specifiers.next() {
        if character != '%' {
            rest = rest.strip_prefix(character)?;
            continue;
        }
        match specifiers.next()? {
            'Y' => parts.year = Some(digits(&mut rest, 1, 4)?),
            'm' => parts.month = Some(digits(&mut rest, 1, 2)?),
            'd' => parts.day = Some(digits(&mut rest, 1, 2)?),
            'G' => parts.iso_year = Some(digits(&mut rest, 4, 4)?),
            'V' => parts.iso_week = Some(digits(&mut rest, 2, 2)?),
            'u' => parts.iso_day = Some(digits(&mut rest, 1, 1)?),
            'H' => parts.hour = Some(digits(&mut rest, 1, 2)?),
            'M' => parts.minute = Some(digits(&mut rest, 2, 2)?),
            'S' => parts.second = Some(digits(&mut rest, 2, 2)?),
            'L' => {
                let before = rest.len();
                let value = digits(&mut rest, 1, 3)?;
                let missing = 3 - (before - rest.len());
                parts.millisecond = Some(value * 10_i64.pow(u32::try_from(missing).ok()?));
            }
            'z' => parts.offset = Some(named_offset(&mut rest)?),
            'Z' => {
                let negative = rest.starts_with('-');
                rest = rest.strip_prefix(['+', '-'])?;
                let minutes = digits(&mut rest, 1, 4)?;
                parts.offset = Some(if negative { -minutes * 60 } else { minutes * 60 });
            }
            other => rest = rest.strip_prefix(other)?,
        }
    }
    rest.is_empty().then_some(parts)
}

/// A numeric offset or an abbreviation off the front.
fn named_offset(text: &mut &str) -> Option<i64> {
    let length = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    if length == 0 {
        return numeric_offset(text);
    }
    let (name, rest) = text.split_at(length);
    *text = rest;
    abbreviation(&name.to_ascii_lowercase())
}

/// `Z`, `+hh`, `+hhmm`, `+hh:mm` off the front.
pub(super) fn numeric_offset(text: &mut &str) -> Option<i64> {
    if let Some(rest) = text.strip_prefix(['Z', 'z']) {
        *text = rest;
        return Some(0);
    }
    let Some(length) = [6, 5, 3].into_iter().find(|&length| text.get(..length).and_then(offset).is_some()) else {
        // `+2`
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['+', '-'])?;
        let hours = digits(&mut rest, 1, 1)?;
        *text = rest;
        return Some(if negative { -hours * 3600 } else { hours * 3600 });
    };
    let (head, rest) = text.split_at(length);
    *text = rest;
    offset(head)
}
