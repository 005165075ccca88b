//! Time zones: fixed offsets and the names of the Olson database.

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

use super::calendar::{DAY, Moment, days_from_civil, weekday};
use crate::query::error::EvalError;
use crate::query::expr::value::failure;

/// A time zone.
#[derive(Debug, Clone, Copy)]
pub(in crate::query::expr) enum Zone {
    /// A fixed offset from UTC in seconds, positive to the east.
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
        // Newer databases give these three names to places with a history.
        let old_name = [("EST", -5), ("MST", -7), ("HST", -10)].into_iter().find(|(known, _)| *known == name);
        if let Some((_, hours)) = old_name {
            return Ok(Self::Fixed(hours * 3600));
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
        self.offset_of(i128::from(millis))
    }

    fn offset_of(self, millis: i128) -> i64 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => i64::from(zone.offset_from_utc_datetime(&naive(millis)).fix().local_minus_utc()),
        }
    }

    /// The local time at an instant, in milliseconds. It may exceed the range of dates.
    pub(super) fn to_local(self, millis: i64) -> i128 {
        i128::from(millis) + i128::from(self.offset_at(millis)) * 1000
    }

    /// The local time at an instant.
    pub(super) fn moment(self, millis: i64) -> Moment {
        // In seconds, which no offset takes beyond 64 bits.
        let seconds = millis.div_euclid(1000) + self.offset_at(millis);
        Moment::of_seconds(seconds, millis.rem_euclid(1000))
    }

    /// The instant of this local time. Of two such instants it is the later one. In a gap the offset before the gap
    /// applies.
    pub(super) fn to_utc(self, local: i128) -> i128 {
        let seconds = match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => match zone.offset_from_local_datetime(&naive(local)) {
                MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => {
                    i64::from(offset.fix().local_minus_utc())
                }
                MappedLocalTime::None => self.offset_of(local - i128::from(DAY)),
            },
        };
        local - i128::from(seconds) * 1000
    }
}

/// For years before the database, its first year is used. For years after its last listed one, a late year with the same
/// days of the week is used: from March on, or before March.
fn naive(millis: i128) -> NaiveDateTime {
    const FIRST: i128 = -8_000_000_000_000_000;
    const LAST_YEAR: i64 = 2037;
    let moment = Moment::of_local(millis);
    let millis = if moment.year > LAST_YEAR {
        let anchor = |year| days_from_civil(year, if moment.month >= 3 { 3 } else { 1 }, 1);
        let alike = |year: &i64| weekday(anchor(*year)) == weekday(anchor(moment.year));
        let year = (LAST_YEAR - 11..=LAST_YEAR).find(alike).unwrap_or(LAST_YEAR);
        millis - i128::from((anchor(moment.year) - anchor(year)) * DAY)
    } else {
        millis.max(FIRST)
    };
    let millis = i64::try_from(millis).unwrap_or_default();
    DateTime::from_timestamp_millis(millis).unwrap_or_default().naive_utc()
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
