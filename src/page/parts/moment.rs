//! Moments, as people read them. All are in UTC.

use chrono::{DateTime, Timelike, Utc};
use serde_json::{Value, json};

/// The moment in a JSON value: `{"$date": ...}`, in milliseconds or as a text.
pub fn in_json(value: &Value) -> Option<DateTime<Utc>> {
    match value.as_object()?.get("$date")? {
        Value::String(text) => DateTime::parse_from_rfc3339(text).ok().map(|moment| moment.to_utc()),
        Value::Object(long) => DateTime::from_timestamp_millis(long.get("$numberLong")?.as_str()?.parse().ok()?),
        number => DateTime::from_timestamp_millis(number.as_i64()?),
    }
}

/// A day, and the time where there is one.
pub fn text(moment: DateTime<Utc>) -> String {
    let is_day = moment.num_seconds_from_midnight() == 0 && moment.nanosecond() == 0;
    moment.format(if is_day { "%Y-%m-%d" } else { "%Y-%m-%d %H:%M:%S UTC" }).to_string()
}

/// A moment at which something was done.
pub fn stamp(moment: DateTime<Utc>) -> String {
    moment.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// A day in milliseconds.
pub const DAY: i64 = 86_400_000;

/// A moment as filters have it.
pub fn in_filter(millis: i64) -> Value {
    json!({"$date": {"$numberLong": millis.to_string()}})
}

/// A moment as forms of browsers take it.
pub fn for_input(moment: DateTime<Utc>) -> String {
    let is_day = moment.num_seconds_from_midnight() == 0 && moment.nanosecond() == 0;
    moment.format(if is_day { "%Y-%m-%d" } else { "%Y-%m-%dT%H:%M:%S%.3f" }).to_string()
}
