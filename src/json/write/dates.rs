//! Times as text. All are UTC; BSON keeps milliseconds.

/// How a stored time is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateStyle {
    /// `{"$date": 1700000000123}`: objects. This form can be sent back.
    Millis,
    /// `2023-11-14T22:13:20.123000`, the fraction only when there is one: types and categories.
    Iso,
    /// `2023-11-14 22:13:20.123000`: users, groups and settings.
    Spaced,
}

/// Appends a time as a JSON value.
pub fn write_date(millis: i64, style: DateStyle, out: &mut Vec<u8>) {
    match style {
        DateStyle::Millis => super::object(out, |members| members.integer("$date", millis)),
        DateStyle::Iso | DateStyle::Spaced => {
            out.push(b'"');
            write_date_text(millis, style, out);
            out.push(b'"');
        }
    }
}

/// Appends the bare text of a time; [`DateStyle::Millis`] has none and is shown as [`DateStyle::Iso`].
pub(crate) fn write_date_text(millis: i64, style: DateStyle, out: &mut Vec<u8>) {
    const DAY: i64 = 86_400_000;
    let (year, month, day) = calendar_day(millis.div_euclid(DAY));
    let in_day = millis.rem_euclid(DAY);
    write_year(year, out);
    write_padded(b"-", month, 2, out);
    write_padded(b"-", day, 2, out);
    let before_time = if style == DateStyle::Spaced { b' ' } else { b'T' };
    write_padded(&[before_time], in_day / 3_600_000, 2, out);
    write_padded(b":", in_day / 60_000 % 60, 2, out);
    write_padded(b":", in_day / 1000 % 60, 2, out);
    let fraction = in_day % 1000;
    if fraction != 0 || style == DateStyle::Spaced {
        write_padded(b".", fraction * 1000, 6, out);
    }
}

/// Years that do not fit four digits get a sign, as ISO 8601 has it for expanded years.
fn write_year(year: i64, out: &mut Vec<u8>) {
    match year {
        0..=9999 => write_padded(b"", year, 4, out),
        10_000.. => write_padded(b"+", year, 4, out),
        _ => write_padded(b"-", -year, 4, out),
    }
}

fn write_padded(before: &[u8], number: i64, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(before);
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(digits.len())));
    out.extend_from_slice(digits);
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar carried on in both directions.
///
/// Counts in eras of 400 years, which all have the same number of days. Years begin in March, so that the leap day is
/// the last one.
fn calendar_day(days_since_1970: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let days = days_since_1970 + 719_468;
    let day_of_era = days.rem_euclid(ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + days.div_euclid(ERA) * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(millis: i64, style: DateStyle) -> String {
        let mut out = Vec::new();
        write_date_text(millis, style, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_fraction_is_shown_when_there_is_one_or_the_style_wants_it() {
        assert_eq!(text(1_700_000_000_000, DateStyle::Iso), "2023-11-14T22:13:20");
        assert_eq!(text(1_700_000_000_120, DateStyle::Iso), "2023-11-14T22:13:20.120000");
        assert_eq!(text(1_700_000_000_000, DateStyle::Spaced), "2023-11-14 22:13:20.000000");
    }

    #[test]
    fn every_time_has_a_text() {
        assert_eq!(text(-1, DateStyle::Iso), "1969-12-31T23:59:59.999000");
        assert_eq!(text(253_402_300_800_000, DateStyle::Iso), "+10000-01-01T00:00:00");
        assert_eq!(text(-62_167_219_200_001, DateStyle::Iso), "-0001-12-31T23:59:59.999000");
        assert!(text(i64::MIN, DateStyle::Iso).starts_with('-') && text(i64::MAX, DateStyle::Iso).starts_with('+'));
    }

    proptest! {
        #[test]
        fn dates_agree_with_chrono(millis in -60_000_000_000_000_i64..250_000_000_000_000) {
            let time = chrono::DateTime::from_timestamp_millis(millis).unwrap();
            prop_assert_eq!(text(millis, DateStyle::Spaced), time.format("%Y-%m-%d %H:%M:%S%.6f").to_string());
        }
    }
}
