//! `$dateFromString`: by a format, or by ISO 8601.

use bson::{Bson, DateTime};

use super::calendar::{DAY, days_from_civil, days_in_month, first_iso_monday};
use super::format::check;
use super::time_zone;
use super::zone::{Zone, offset};
use crate::query::error::EvalError;
use crate::query::expr::core::call::Arguments;
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

/// A date and maybe a time in ISO 8601: `2017-02-08`, `20170208T1210`, `2017-W06-3 12:10:40.787+01:00`. `zone` is that of a text that
/// names none.
pub(in crate::query::expr) fn parse_text(text: &str, zone: Option<Zone>) -> Result<i64, EvalError> {
    by_iso(text).map_or_else(|| unreadable(text), |parts| parts.millis(text, zone))
}

fn by_iso(text: &str) -> Option<DateParts> {
    let mut rest = text;
    let mut parts = date_by_iso(&mut rest)?;
    if let Some(time) = rest.strip_prefix(['T', 't', ' ']).filter(|time| starts_with_digit(time)) {
        rest = time;
        time_by_iso(&mut rest, &mut parts)?;
    }
    rest = rest.strip_prefix(' ').unwrap_or(rest);
    if !rest.is_empty() {
        parts.offset = Some(named_offset(&mut rest)?);
    }
    rest.is_empty().then_some(parts)
}

/// `2017-02-08`, `2017-02`, `20170208`, `2017-W06-3`, `2017W06` off the front.
fn date_by_iso(text: &mut &str) -> Option<DateParts> {
    let year = digits(text, 4, 4)?;
    let is_long = take(text, "-");
    if take(text, "W") {
        let week = digits(text, 2, 2)?;
        let day = if take(text, "-") { digits(text, 1, 1)? } else { digits(text, 1, 1).unwrap_or(1) };
        let (iso_year, iso_week, iso_day) = (Some(year), Some(week), Some(day));
        return Some(DateParts { iso_year, iso_week, iso_day, ..DateParts::default() });
    }
    let month = digits(text, 2, 2)?;
    let day = if is_long && !take(text, "-") { 1 } else { digits(text, 2, 2)? };
    Some(DateParts { year: Some(year), month: Some(month), day: Some(day), ..DateParts::default() })
}

/// `12`, `12:10`, `121040`, `12:10:40.787` off the front; further digits of a fraction are dropped.
fn time_by_iso(text: &mut &str, parts: &mut DateParts) -> Option<()> {
    parts.hour = Some(digits(text, 2, 2)?);
    let is_long = take(text, ":");
    if is_long || starts_with_digit(text) {
        parts.minute = Some(digits(text, 2, 2)?);
    }
    if parts.minute.is_some() && if is_long { take(text, ":") } else { starts_with_digit(text) } {
        parts.second = Some(digits(text, 2, 2)?);
        if take(text, ".") {
            let length = text.bytes().take_while(u8::is_ascii_digit).count();
            let (fraction, rest) = text.split_at_checked(length).filter(|_| length > 0)?;
            parts.millisecond = format!("{fraction:0<3}").get(..3)?.parse().ok();
            *text = rest;
        }
    }
    Some(())
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|next: char| next.is_ascii_digit())
}

fn take(text: &mut &str, prefix: &str) -> bool {
    let rest = text.strip_prefix(prefix);
    *text = rest.unwrap_or(text);
    rest.is_some()
}

/// The failure for a text that is no date.
fn unreadable<T>(text: &str) -> Result<T, EvalError> {
    failure(FAILED, format!("error parsing date string '{text}'"))
}

/// What was read out of a text.
#[derive(Debug, Default, Clone, Copy)]
struct DateParts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    millisecond: Option<i64>,
    /// Seconds east of Greenwich.
    offset: Option<i64>,
}

impl DateParts {
    /// The instant; a time zone may be in the text or given as an operand, not both.
    fn millis(&self, text: &str, zone: Option<Zone>) -> Result<i64, EvalError> {
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
fn digits(text: &mut &str, least: usize, most: usize) -> Option<i64> {
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
fn numeric_offset(text: &mut &str) -> Option<i64> {
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

/// Seconds east of Greenwich of a usual abbreviation.
fn abbreviation(name: &str) -> Option<i64> {
    let hours = match name {
        "z" | "utc" | "gmt" | "wet" => 0,
        "cet" | "bst" | "west" | "met" => 1,
        "cest" | "eet" => 2,
        "eest" | "msk" => 3,
        "jst" => 9,
        "edt" => -4,
        "est" | "cdt" => -5,
        "cst" | "mdt" => -6,
        "mst" | "pdt" => -7,
        "pst" | "akdt" => -8,
        "akst" => -9,
        "hst" => -10,
        // The military letters; J is not used.
        letter if letter.len() == 1 => return military(letter.bytes().next()?).map(|hours| hours * 3600),
        _ => return None,
    };
    Some(hours * 3600)
}

fn military(letter: u8) -> Option<i64> {
    Some(match letter {
        b'a'..=b'i' => i64::from(letter - b'a') + 1,
        b'k'..=b'm' => i64::from(letter - b'k') + 10,
        b'n'..=b'y' => -(i64::from(letter - b'n') + 1),
        _ => return None,
    })
}
