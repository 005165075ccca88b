//! `$year` and the like, `$dateToParts`, `$dateFromParts`.

use bson::{Bson, DateTime, doc};

use super::calendar::{DAY, Moment, days_from_civil, first_iso_monday};
use super::{coerced, int, time_zone};
use crate::query::error::{EvalError, QueryError};
use crate::query::expr::core::call::{Arguments, Operator};
use crate::query::expr::core::evaluate::ExprNode;
use crate::query::expr::core::parse::{ExprParser, call};
use crate::query::expr::value::{Number, Outcome, failure, found, is_nullish, null, shown, type_name};

/// A date, or `{date: date, timezone: name}`.
pub(super) fn parse(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    let name = operator.name;
    match operand {
        Bson::Document(document) if !document.keys().next().is_some_and(|key| key.starts_with('$')) => {
            parser.only(name, document, &["date", "timezone"], 40535)?;
            let Some(date) = document.get("date") else {
                return parser.refuse(40539, format!("missing 'date' argument to {name}"));
            };
            let date = Some(parser.at("date", date)?);
            let zone = document.get("timezone").map(|zone| parser.at("timezone", zone)).transpose()?;
            Ok(call(operator, vec![date, zone]))
        }
        Bson::Array(elements) if elements.len() != 1 => {
            let count = elements.len();
            parser
                .refuse(40536, format!("{name} accepts exactly one argument if given an array, but was given {count}"))
        }
        _ => {
            let mut operands = parser.list(operand)?;
            operands.push(None);
            Ok(call(operator, operands))
        }
    }
}

/// One part of a date by the clock of its time zone.
pub(super) fn part(arguments: &Arguments<'_>, part: fn(&Moment) -> Bson) -> Outcome {
    let date = arguments.value(0)?;
    if is_nullish(date.as_ref()) {
        return null();
    }
    let millis = coerced(date.as_ref())?;
    let zone = match arguments.value(1)? {
        None if !arguments.is_given(1) => super::Zone::UTC,
        Some(Bson::String(name)) => super::Zone::parse(&name)?,
        zone if is_nullish(zone.as_ref()) => return null(),
        zone => {
            let found = type_name(zone.as_ref());
            return arguments
                .fail(40533, &format!("requires a string for the timezone argument, but was given {found}"));
        }
    };
    found(part(&zone.moment(millis)))
}

/// `{date, timezone, iso8601}`
pub(super) fn to_parts(arguments: &Arguments<'_>) -> Outcome {
    let date = arguments.value(0)?;
    let Some(zone) = time_zone(arguments, 1)? else { return null() };
    let iso = match arguments.value(2)? {
        Some(Bson::Boolean(truth)) => truth,
        None if !arguments.is_given(2) => false,
        value if is_nullish(value.as_ref()) => return null(),
        value => {
            return failure(40521, format!("iso8601 must evaluate to a bool, found {}", type_name(value.as_ref())));
        }
    };
    if is_nullish(date.as_ref()) {
        return null();
    }
    let moment = zone.moment(coerced(date.as_ref())?);
    let mut parts = if iso {
        let (year, week) = moment.iso_week();
        doc! { "isoWeekYear": int(year), "isoWeek": int(week), "isoDayOfWeek": int(moment.iso_day_of_week()) }
    } else {
        doc! { "year": int(moment.year), "month": int(moment.month), "day": int(moment.day) }
    };
    parts.extend(doc! {
        "hour": int(moment.hour),
        "minute": int(moment.minute),
        "second": int(moment.second),
        "millisecond": int(moment.millisecond),
    });
    found(parts)
}

/// The operands of `$dateFromParts` in the order in which they are read.
const NAMES: [&str; 11] = [
    "year", "month", "day", "hour", "minute", "second", "millisecond", "isoWeekYear", "isoWeek", "isoDayOfWeek",
    "timezone",
];

/// `{year, month, ...}` or `{isoWeekYear, isoWeek, ...}`
pub(super) fn parse_from_parts(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    let Bson::Document(document) = operand else {
        return parser.refuse(40519, "$dateFromParts only supports an object as its argument");
    };
    parser.only("$dateFromParts", document, &NAMES, 40518)?;
    let has = |name: &str| document.contains_key(name);
    if !has("year") && !has("isoWeekYear") {
        return parser.refuse(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present");
    }
    if has("year") && (has("isoWeekYear") || has("isoWeek") || has("isoDayOfWeek")) {
        return parser.refuse(40489, "$dateFromParts does not allow mixing natural dates with ISO dates");
    }
    if has("isoWeekYear") && (has("month") || has("day")) {
        return parser.refuse(40525, "$dateFromParts does not allow mixing ISO dates with natural dates");
    }
    let mut operands = Vec::with_capacity(NAMES.len());
    for name in NAMES {
        operands.push(document.get(name).map(|value| parser.at(name, value)).transpose()?);
    }
    Ok(call(operator, operands))
}

/// A whole number; nothing when it is absent although written down.
fn part_number(arguments: &Arguments<'_>, index: usize, default: i64) -> Result<Option<i64>, EvalError> {
    if !arguments.is_given(index) {
        return Ok(Some(default));
    }
    let value = arguments.value(index)?;
    if is_nullish(value.as_ref()) {
        return Ok(None);
    }
    let number = value.as_ref().and_then(Number::of).and_then(Number::to_exact_i64);
    if number.is_some() {
        return Ok(number);
    }
    let (name, kind, shown) = (NAMES[index], type_name(value.as_ref()), shown(value.as_ref()));
    failure(40515, format!("'{name}' must evaluate to an integer, found {kind} with value {shown}"))
}

/// As [`part_number`], within 16 bits.
fn small_number(arguments: &Arguments<'_>, index: usize, default: i64) -> Result<Option<i64>, EvalError> {
    let number = part_number(arguments, index, default)?;
    match number {
        Some(number) if i16::try_from(number).is_err() => {
            failure(31034, format!("'{}' must evaluate to a value in the range [-32768, 32767]", NAMES[index]))
        }
        number => Ok(number),
    }
}

fn check_year(year: i64, index: usize, code: i32) -> Result<(), EvalError> {
    if (1..=9999).contains(&year) {
        return Ok(());
    }
    let name = NAMES[index];
    failure(code, format!("'{name}' must evaluate to an integer in the range 1 to 9999, found {year}"))
}

/// Days since 1970; nothing when a part is absent.
fn day(arguments: &Arguments<'_>) -> Result<Option<i64>, EvalError> {
    if arguments.is_given(7) {
        let Some(year) = part_number(arguments, 7, 1970)? else { return Ok(None) };
        let Some(week) = small_number(arguments, 8, 1)? else { return Ok(None) };
        let Some(weekday) = small_number(arguments, 9, 1)? else { return Ok(None) };
        check_year(year, 7, 31095)?;
        return Ok(Some(first_iso_monday(year) + (week - 1) * 7 + weekday - 1));
    }
    let Some(year) = part_number(arguments, 0, 1970)? else { return Ok(None) };
    let Some(month) = small_number(arguments, 1, 1)? else { return Ok(None) };
    let Some(day) = small_number(arguments, 2, 1)? else { return Ok(None) };
    check_year(year, 0, 40523)?;
    Ok(Some(days_from_civil(year, month, day)))
}

/// Parts beyond their range run into the next larger ones.
pub(super) fn from_parts(arguments: &Arguments<'_>) -> Outcome {
    // MongoDB reads the time first; what is wrong there is reported before what is wrong with the year.
    let Some(hour) = small_number(arguments, 3, 0)? else { return null() };
    let Some(minute) = small_number(arguments, 4, 0)? else { return null() };
    let Some(second) = part_number(arguments, 5, 0)? else { return null() };
    let Some(millisecond) = part_number(arguments, 6, 0)? else { return null() };
    let Some(zone) = time_zone(arguments, 10)? else { return null() };
    let Some(day) = day(arguments)? else { return null() };
    let local = second
        .checked_add(hour * 3600 + minute * 60)
        .and_then(|seconds| seconds.checked_mul(1000))
        .and_then(|time| time.checked_add(millisecond))
        .and_then(|time| time.checked_add(day * DAY));
    match local.and_then(|local| i64::try_from(zone.to_utc(i128::from(local))).ok()) {
        Some(millis) => found(DateTime::from_millis(millis)),
        None => failure(159, "the parts make no date that can be represented"),
    }
}
