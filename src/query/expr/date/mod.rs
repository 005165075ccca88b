//! Dates: their parts, arithmetic in calendar units and time zones, conversion from and to texts.

mod calendar;
mod format;
mod from_text;
mod parts;
mod shift;
mod spans;
mod zone;

use bson::oid::ObjectId;
use bson::{Bson, Timestamp};

use super::core::call::{Arguments, Folding, Names, Operator, Shape};
use super::value::{failure, is_nullish, type_name};
use crate::query::error::EvalError;

pub(super) use format::iso_text;
pub(super) use from_text::parse_text;

use calendar::Moment;
use zone::Zone;

const PART: Shape = Shape::Special(parts::parse);

const TO_PARTS: Shape = Shape::Named(&Names {
    not_an_object: 40524,
    unknown: 40520,
    known: &[("date", Some(40522)), ("timezone", None), ("iso8601", None)],
});

const TO_STRING: Shape = Shape::Named(&Names {
    not_an_object: 18629,
    unknown: 18534,
    known: &[("date", Some(18628)), ("format", None), ("timezone", None), ("onNull", None)],
});

const FROM_STRING: Shape = Shape::Named(&Names {
    not_an_object: 40540,
    unknown: 40541,
    known: &[("dateString", Some(40542)), ("format", None), ("timezone", None), ("onNull", None), ("onError", None)],
});

const SHIFT: Shape = Shape::Named(&Names {
    not_an_object: 5_166_400,
    unknown: 5_166_401,
    known: &[
        ("startDate", Some(5_166_402)),
        ("unit", Some(5_166_402)),
        ("amount", Some(5_166_402)),
        ("timezone", None),
    ],
});

const DIFF: Shape = Shape::Named(&Names {
    not_an_object: 5_166_301,
    unknown: 5_166_302,
    known: &[
        ("startDate", Some(5_166_303)),
        ("endDate", Some(5_166_304)),
        ("unit", Some(5_166_305)),
        ("timezone", None),
        ("startOfWeek", None),
    ],
});

const TRUNC: Shape = Shape::Named(&Names {
    not_an_object: 5_439_007,
    unknown: 5_439_008,
    known: &[
        ("date", Some(5_439_009)),
        ("unit", Some(5_439_010)),
        ("binSize", None),
        ("timezone", None),
        ("startOfWeek", None),
    ],
});

const F: Folding = Folding::Whole;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$year", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.year)) },
    Operator { name: "$month", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.month)) },
    Operator { name: "$dayOfMonth", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.day)) },
    Operator { name: "$hour", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.hour)) },
    Operator { name: "$minute", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.minute)) },
    Operator { name: "$second", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.second)) },
    Operator { name: "$millisecond", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.millisecond)) },
    Operator { name: "$dayOfYear", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.day_of_year())) },
    Operator { name: "$dayOfWeek", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.day_of_week())) },
    Operator { name: "$week", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.week())) },
    Operator { name: "$isoDayOfWeek", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.iso_day_of_week())) },
    Operator { name: "$isoWeek", shape: PART, folding: F, run: |a| parts::part(a, |m| int(m.iso_week().1)) },
    Operator {
        name: "$isoWeekYear",
        shape: PART,
        folding: F,
        run: |a| parts::part(a, |m| Bson::Int64(m.iso_week().0)),
    },
    Operator { name: "$dateToParts", shape: TO_PARTS, folding: F, run: parts::to_parts },
    Operator {
        name: "$dateFromParts",
        shape: Shape::Special(parts::parse_from_parts),
        folding: F,
        run: parts::from_parts,
    },
    Operator { name: "$dateToString", shape: TO_STRING, folding: F, run: format::date_to_string },
    Operator { name: "$dateFromString", shape: FROM_STRING, folding: F, run: from_text::date_from_string },
    Operator { name: "$dateAdd", shape: SHIFT, folding: F, run: |a| shift::date_add(a, false) },
    Operator { name: "$dateSubtract", shape: SHIFT, folding: F, run: |a| shift::date_add(a, true) },
    Operator { name: "$dateDiff", shape: DIFF, folding: F, run: spans::date_diff },
    Operator { name: "$dateTrunc", shape: TRUNC, folding: F, run: spans::date_trunc },
];

fn int(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

/// The milliseconds of a date, or of the date in a timestamp or an object id.
fn millis(value: Option<&Bson>) -> Option<i64> {
    match value {
        Some(Bson::DateTime(date)) => Some(date.timestamp_millis()),
        Some(Bson::Timestamp(time)) => Some(i64::from(time.time) * 1000),
        Some(Bson::ObjectId(id)) => Some(millis_of_id(id)),
        _ => None,
    }
}

/// When the id was made. MongoDB takes the seconds in it as a number with a sign.
pub(super) fn millis_of_id(id: &ObjectId) -> i64 {
    let [a, b, c, d, ..] = id.bytes();
    i64::from(i32::from_be_bytes([a, b, c, d])) * 1000
}

/// As [`millis`], or the usual failure.
fn coerced(value: Option<&Bson>) -> Result<i64, EvalError> {
    millis(value)
        .map_or_else(|| failure(16006, format!("can't convert from BSON type {} to Date", type_name(value))), Ok)
}

/// The first `N` operands, nothing as soon as one of them is absent.
fn present<const N: usize>(arguments: &Arguments<'_>) -> Result<Option<[Bson; N]>, EvalError> {
    let mut values = [const { Bson::Null }; N];
    for (index, slot) in values.iter_mut().enumerate() {
        match arguments.value(index)? {
            Some(value) if !is_nullish(Some(&value)) => *slot = value,
            _ => return Ok(None),
        }
    }
    Ok(Some(values))
}

/// The time zone under the operand with this index; nothing when it is absent although written down.
fn time_zone(arguments: &Arguments<'_>, index: usize) -> Result<Option<Zone>, EvalError> {
    if !arguments.is_given(index) {
        return Ok(Some(Zone::UTC));
    }
    match arguments.value(index)? {
        Some(Bson::String(name)) => Zone::parse(&name).map(Some),
        value if is_nullish(value.as_ref()) => Ok(None),
        value => failure(40517, format!("timezone must evaluate to a string, found {}", type_name(value.as_ref()))),
    }
}

/// A timestamp as C's `ctime` writes it, without the year: `Jan  1 00:00:05:6`.
pub(super) fn timestamp_text(time: Timestamp) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let moment = Moment::of_local(i128::from(time.time) * 1000);
    let month = usize::try_from(moment.month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"");
    let (day, hour, minute, second) = (moment.day, moment.hour, moment.minute, moment.second);
    format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02}:{}", time.increment)
}
