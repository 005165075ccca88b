//! `$dateDiff` and `$dateTrunc`: counting the borders of units between two dates, and going back to one.

use bson::{Bson, DateTime};

use super::calendar::{DAY, Moment, days_from_civil, weekday};
use super::shift::TimeUnit;
use super::{Zone, millis, present, time_zone};
use crate::query::error::EvalError;
use crate::query::expr::core::call::Arguments;
use crate::query::expr::value::{Number, Outcome, Value, failure, found, is_nullish, null, shown, type_name};

/// The day with which a week begins, 0 for Sunday.
fn day_of_week(arguments: &Arguments<'_>, value: &Value) -> Result<i64, EvalError> {
    const NAMES: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let Some(Bson::String(name)) = value else {
        let found = type_name(value.as_ref());
        return arguments.fail(5_439_015, &format!("requires 'startOfWeek' to be a string, but got {found}"));
    };
    let wanted = name.to_ascii_lowercase();
    let place = (0..).zip(NAMES).find(|(_, known)| *known == wanted || known[..3] == wanted);
    match place {
        Some((place, _)) => Ok(place),
        None => arguments
            .fail(5_439_016, &format!("parameter 'startOfWeek' value cannot be recognized as a day of a week: {name}")),
    }
}

/// The start of the week is absent although it is written down; it only counts for weeks.
fn no_week_start(arguments: &Arguments<'_>, unit: &Bson) -> Result<bool, EvalError> {
    let weeks = matches!(unit, Bson::String(name) if name == "week");
    Ok(weeks && arguments.is_given(4) && is_nullish(arguments.value(4)?.as_ref()))
}

fn unit(arguments: &Arguments<'_>, value: &Bson) -> Result<TimeUnit, EvalError> {
    let Bson::String(name) = value else {
        let found = type_name(Some(value));
        return arguments.fail(5_439_013, &format!("requires 'unit' to be a string, but got {found}"));
    };
    match TimeUnit::parse(name) {
        Some(unit) => Ok(unit),
        None => {
            arguments.fail(5_439_014, &format!("parameter 'unit' value cannot be recognized as a time unit: {name}"))
        }
    }
}

/// `{startDate, endDate, unit, timezone, startOfWeek}`
pub(super) fn date_diff(arguments: &Arguments<'_>) -> Outcome {
    let Some([start, end, unit_name]) = present(arguments)? else { return null() };
    if no_week_start(arguments, &unit_name)? {
        return null();
    }
    let Some(zone) = time_zone(arguments, 3)? else { return null() };
    let (start, end) = (border(arguments, "startDate", &start)?, border(arguments, "endDate", &end)?);
    let unit = unit(arguments, &unit_name)?;
    let first = if unit == TimeUnit::Days(7) && arguments.is_given(4) {
        day_of_week(arguments, &arguments.value(4)?)?
    } else {
        0
    };
    match distance(start, end, unit, first, zone) {
        Some(count) => found(count),
        None => failure(5_166_308, "dateDiff overflowed"),
    }
}

fn border(arguments: &Arguments<'_>, name: &str, value: &Bson) -> Result<i64, EvalError> {
    millis(Some(value)).map_or_else(
        || {
            let found = type_name(Some(value));
            arguments.fail(5_166_307, &format!("requires '{name}' to be a date, but got {found}"))
        },
        Ok,
    )
}

fn distance(start: i64, end: i64, unit: TimeUnit, first: i64, zone: Zone) -> Option<i64> {
    Some(match unit {
        TimeUnit::Months(length) => {
            let index = |millis| {
                let moment = zone.moment(millis);
                (moment.year * 12 + moment.month - 1).div_euclid(length)
            };
            index(end) - index(start)
        }
        TimeUnit::Days(1) => zone.moment(end).days - zone.moment(start).days,
        TimeUnit::Days(_) => {
            let index = |millis| {
                let days = zone.moment(millis).days;
                // The day with which the week began.
                (days - (weekday(days) - first).rem_euclid(7)).div_euclid(7)
            };
            index(end) - index(start)
        }
        TimeUnit::Millis(1) => end.checked_sub(start)?,
        TimeUnit::Millis(length) => {
            // By the clock, less the whole units that it was put forward: an hour that it shows twice counts twice.
            let length = i128::from(length);
            let forward = i128::from(zone.offset_at(end) - zone.offset_at(start)) * 1000 / length;
            let index = |millis| zone.to_local(millis).div_euclid(length);
            i64::try_from(index(end) - index(start) - forward).ok()?
        }
    })
}

/// Bins of any unit but milliseconds are smaller than this.
const TOO_LARGE: i64 = 100_000_000_000;

/// `{date, unit, binSize, timezone, startOfWeek}`
pub(super) fn date_trunc(arguments: &Arguments<'_>) -> Outcome {
    let Some([date, unit_name]) = present(arguments)? else { return null() };
    let bin_size = arguments.value(2)?;
    if (arguments.is_given(2) && is_nullish(bin_size.as_ref())) || no_week_start(arguments, &unit_name)? {
        return null();
    }
    let Some(zone) = time_zone(arguments, 3)? else { return null() };
    let Some(date) = millis(Some(&date)) else {
        let found = type_name(Some(&date));
        return arguments.fail(5_439_012, &format!("requires 'date' to be a date, but got {found}"));
    };
    let unit = unit(arguments, &unit_name)?;
    let size = if arguments.is_given(2) { size_of_bin(arguments, &bin_size)? } else { 1 };
    let first = if unit == TimeUnit::Days(7) && arguments.is_given(4) {
        day_of_week(arguments, &arguments.value(4)?)?
    } else {
        0
    };
    if size >= TOO_LARGE && unit != TimeUnit::Millis(1) {
        return failure(5_439_006, "dateTrunc unsupported binSize value");
    }
    match (truncated(date, unit, size, first, zone), unit) {
        (Some(millis), _) => found(DateTime::from_millis(millis)),
        (None, TimeUnit::Millis(_)) => failure(5_439_000, "dateTrunc overflowed"),
        (None, _) => failure(5_166_406, "dateTrunc overflowed"),
    }
}

fn size_of_bin(arguments: &Arguments<'_>, value: &Value) -> Result<i64, EvalError> {
    let Some(size) = value.as_ref().and_then(Number::of).and_then(Number::to_exact_i64) else {
        let shown = shown(value.as_ref());
        return arguments
            .fail(5_439_017, &format!("requires 'binSize' to be a 64-bit integer, but got value '{shown}'"));
    };
    if size <= 0 {
        return arguments.fail(5_439_018, &format!("requires 'binSize' to be greater than 0, but got value {size}"));
    }
    Ok(size)
}

/// Bins are counted from the first of January 2000 by the clock of the time zone.
fn truncated(date: i64, unit: TimeUnit, size: i64, first: i64, zone: Zone) -> Option<i64> {
    let reference = days_from_civil(2000, 1, 1);
    let local = zone.to_local(date);
    match unit {
        TimeUnit::Months(length) => {
            let moment = Moment::of_local(local);
            let months = (moment.year - 2000) * 12 + moment.month - 1;
            let bin = length.checked_mul(size)?;
            let days = days_from_civil(2000, 1 + months.div_euclid(bin) * bin, 1);
            midnight(days, zone)
        }
        TimeUnit::Days(length) => {
            // The first week of 2000 that is a whole one.
            let origin = if length == 7 { reference + (first - weekday(reference)).rem_euclid(7) } else { reference };
            let bin = length.checked_mul(size)?;
            let today = i64::try_from(local.div_euclid(i128::from(DAY))).ok()?;
            midnight(origin + (today - origin).div_euclid(bin) * bin, zone)
        }
        TimeUnit::Millis(length) => {
            let bin = length.checked_mul(size)?;
            // Counted in real time, whatever the clock did in between.
            let reference = i64::try_from(zone.to_utc(i128::from(reference * DAY))).ok()?;
            date.checked_sub(date.checked_sub(reference)?.rem_euclid(bin))
        }
    }
}

/// When a day begins by the clock of the time zone.
fn midnight(days: i64, zone: Zone) -> Option<i64> {
    i64::try_from(zone.to_utc(i128::from(days) * i128::from(DAY))).ok()
}
