//! The Gregorian calendar for all dates that BSON has, in 64-bit arithmetic.

/// Milliseconds of a day.
pub(super) const DAY: i64 = 86_400_000;

/// A date and a time of day, in local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: i64,
    /// From 1.
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
    /// Days since the first of January 1970.
    pub(super) days: i64,
}

/// Days from 1970 to a day of the calendar. Months and days beyond their range run into their neighbours.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    // Years begin in March here, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 + day - 1
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// How many days a month has.
pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1)
}

/// 0 is Sunday.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// The Monday of the first week of a year by ISO 8601: the week with the fourth of January.
pub(super) fn first_iso_monday(year: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - (weekday(fourth) + 6) % 7
}

impl Moment {
    /// From milliseconds since 1970 in local time.
    pub(super) fn of_local(millis: i128) -> Self {
        // Both fit: a date and the distance of any two of them are less than 66 bits of milliseconds.
        let part = |number: i128| i64::try_from(number).unwrap_or_default();
        Self::of_seconds(part(millis.div_euclid(1000)), part(millis.rem_euclid(1000)))
    }

    /// From seconds since 1970 in local time, and the remaining milliseconds.
    pub(super) fn of_seconds(seconds: i64, millisecond: i64) -> Self {
        const SECONDS: i64 = DAY / 1000;
        let (days, seconds) = (seconds.div_euclid(SECONDS), seconds.rem_euclid(SECONDS));
        let (year, month, day) = civil_from_days(days);
        Self {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            millisecond,
            days,
        }
    }

    /// From 1.
    pub(super) fn day_of_year(&self) -> i64 {
        self.days - days_from_civil(self.year, 1, 1) + 1
    }

    /// 1 is Sunday.
    pub(super) fn day_of_week(&self) -> i64 {
        weekday(self.days) + 1
    }

    /// 1 is Monday.
    pub(super) fn iso_day_of_week(&self) -> i64 {
        (weekday(self.days) + 6) % 7 + 1
    }

    /// Weeks begin on Sunday; the days before the first Sunday are in week 0.
    pub(super) fn week(&self) -> i64 {
        (self.day_of_year() + 6 - weekday(self.days)) / 7
    }

    /// The year and the number of the week by ISO 8601.
    pub(super) fn iso_week(&self) -> (i64, i64) {
        let year = if self.days < first_iso_monday(self.year) {
            self.year - 1
        } else if self.days >= first_iso_monday(self.year + 1) {
            self.year + 1
        } else {
            self.year
        };
        (year, (self.days - first_iso_monday(year)) / 7 + 1)
    }
}
