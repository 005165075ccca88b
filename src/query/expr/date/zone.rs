//! Time zones: fixed offsets and the names of the Olson database.

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

use super::calendar::Moment;
use crate::query::error::EvalError;
use crate::query::expr::value::failure;

/// A time zone.
#[derive(Debug, Clone, Copy)]
pub(in crate::query::expr) enum Zone {
    /// So many seconds east of Greenwich.
    Fixed(i64),
    /// With a history of offsets.
    Named(Tz),
}

impl Zone {
    /// Greenwich.
    pub(super) const UTC: Self = Self::Fixed(0);

    /// `+05:30`, `+0530`, `+05`, `Europe/Berlin`, `UTC`.
    pub(super) fn parse(name: &str) -> Result<Self, EvalError> {
        if name == "UTC" || name == "GMT" {
            return Ok(Self::UTC);
        }
        if let Some(seconds) = offset(name) {
            return Ok(Self::Fixed(seconds));
        }
        match name.parse::<Tz>() {
            Ok(zone) => Ok(Self::Named(zone)),
            Err(_) => failure(40485, format!("unrecognized time zone identifier: \"{name}\"")),
        }
    }

    /// Seconds east of Greenwich at an instant.
    pub(super) fn offset_at(self, millis: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => i64::from(zone.offset_from_utc_datetime(&naive(millis)).fix().local_minus_utc()),
        }
    }

    /// What the clock on the wall shows at an instant, in milliseconds.
    pub(super) fn to_local(self, millis: i64) -> i64 {
        millis.saturating_add(self.offset_at(millis) * 1000)
    }

    /// What the clock on the wall shows at an instant.
    pub(super) fn moment(self, millis: i64) -> Moment {
        Moment::of_local(self.to_local(millis))
    }

    /// The instant at which the clock shows this. Of two such instants the later one; where the clock was put
    /// forward over it, as if that had not yet happened.
    pub(super) fn to_utc(self, local: i64) -> i64 {
        let seconds = match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => match zone.offset_from_local_datetime(&naive(local)) {
                MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => {
                    i64::from(offset.fix().local_minus_utc())
                }
                MappedLocalTime::None => self.offset_at(local.saturating_sub(super::calendar::DAY)),
            },
        };
        local.saturating_sub(seconds * 1000)
    }
}

/// Beyond the years that the database can be asked about, its first or last year answers.
fn naive(millis: i64) -> NaiveDateTime {
    const BOUND: i64 = 8_000_000_000_000_000;
    DateTime::from_timestamp_millis(millis.clamp(-BOUND, BOUND)).unwrap_or_default().naive_utc()
}

/// The seconds of `+hh`, `+hhmm`, `+hh:mm`. Hours and minutes are not checked, as in MongoDB.
pub(super) fn offset(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-'])?;
    let bytes = digits.as_bytes();
    let (hours, minutes) = match bytes {
        [a, b] => ([*a, *b], [b'0', b'0']),
        [a, b, c, d] | [a, b, b':', c, d] => ([*a, *b], [*c, *d]),
        _ => return None,
    };
    let number = |pair: [u8; 2]| {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
        Some(digit(pair[0])? * 10 + digit(pair[1])?)
    };
    let seconds = number(hours)? * 3600 + number(minutes)? * 60;
    Some(if text.starts_with('-') { -seconds } else { seconds })
}
