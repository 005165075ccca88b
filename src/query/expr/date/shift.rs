//! `$dateAdd` and `$dateSubtract`.

use bson::{Bson, DateTime};

use super::calendar::{DAY, days_from_civil, days_in_month};
use super::{Zone, millis, present, time_zone};
use crate::query::error::EvalError;
use crate::query::expr::core::call::Arguments;
use crate::query::expr::value::{Number, Outcome, failure, null};

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    /// A number of months: month, quarter, year.
    Months(i64),
    /// A number of days: day, week.
    Days(i64),
    /// A fixed number of milliseconds, independent of local time.
    Millis(i64),
}

impl TimeUnit {
    /// By its name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "year" => Self::Months(12),
            "quarter" => Self::Months(3),
            "month" => Self::Months(1),
            "week" => Self::Days(7),
            "day" => Self::Days(1),
            "hour" => Self::Millis(3_600_000),
            "minute" => Self::Millis(60_000),
            "second" => Self::Millis(1000),
            "millisecond" => Self::Millis(1),
            _ => return None,
        })
    }

    /// MongoDB's maximum number of this unit: enough for the whole range of dates.
    fn most(self) -> u64 {
        let (length, per_length) = match self {
            Self::Months(months) => (365 * DAY * months, 12),
            Self::Days(days) => (days * DAY, 1),
            Self::Millis(millis) => (millis, 1),
        };
        let most = u128::from(u64::MAX) * per_length / u128::from(length.unsigned_abs());
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

/// `{startDate, unit, amount, timezone}`
pub(super) fn date_add(arguments: &Arguments<'_>, backwards: bool) -> Outcome {
    let Some([date, unit, amount]) = present(arguments)? else { return null() };
    let Some(zone) = time_zone(arguments, 3)? else { return null() };
    let Some(start) = millis(Some(&date)) else {
        return arguments.fail(5_166_403, "requires startDate to be convertible to a date");
    };
    let Bson::String(unit) = unit else {
        return arguments.fail(5_166_404, "expects a string defining the time unit");
    };
    let Some(unit) = TimeUnit::parse(&unit) else {
        return failure(9, format!("unknown time unit value: {unit}"));
    };
    let Some(amount) = Number::of(&amount).and_then(Number::to_exact_i64) else {
        return arguments.fail(5_166_405, "expects an integer amount of time units");
    };
    let amount = if backwards { amount.checked_neg() } else { Some(amount) };
    let Some(amount) = amount else {
        return failure(6_045_000, format!("invalid {} 'amount' parameter value", arguments.name()));
    };
    add(start, unit, amount, zone).map(|millis| Some(Bson::DateTime(DateTime::from_millis(millis))))
}

/// Days and longer units shift local time, shorter units the instant.
fn add(start: i64, unit: TimeUnit, amount: i64, zone: Zone) -> Result<i64, EvalError> {
    if unit != TimeUnit::Millis(1) && amount.unsigned_abs() > unit.most() {
        return failure(5_976_500, format!("invalid 'amount' parameter value: {amount}"));
    }
    let sum = match unit {
        TimeUnit::Millis(length) => i128::from(start) + i128::from(amount) * i128::from(length),
        TimeUnit::Days(length) => {
            let distance = i128::from(amount) * i128::from(length * DAY);
            zone.to_utc(zone.to_local(start) + distance)
        }
        TimeUnit::Months(length) => zone.to_utc(add_months(zone.to_local(start), amount * length)),
    };
    if unit == TimeUnit::Millis(1) {
        return i64::try_from(sum).or_else(|_| failure(159, "overflow while adding milliseconds"));
    }
    // MongoDB takes dates before 1970 apart at whole seconds and loses one where there are milliseconds.
    let lost = if start < 0 && start % 1000 != 0 { 1000 } else { 0 };
    let sum = sum - lost;
    // It puts the seconds together first, which do not reach down to the very first date.
    let seconds = i64::try_from(sum.div_euclid(1000) * 1000);
    match (seconds, i64::try_from(sum)) {
        (Ok(_), Ok(millis)) => Ok(millis),
        _ => failure(5_166_406, "dateAdd overflowed"),
    }
}

/// A day beyond the end of the new month becomes its last day.
fn add_months(local: i128, months: i64) -> i128 {
    let moment = super::Moment::of_local(local);
    let month = moment.year * 12 + moment.month - 1 + months;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let day = moment.day.min(days_in_month(year, month));
    i128::from(days_from_civil(year, month, day)) * i128::from(DAY) + local.rem_euclid(i128::from(DAY))
}
