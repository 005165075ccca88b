//! How people write numbers, dates, and yes or no in the cells of a table.
//!
//! Law: without options a cell has the forms of an export. An option adds a form that cannot be mistaken for another one.

use std::borrow::Cow;
use std::fmt::Write as _;

use bson::DateTime;
use chrono::format::{Fixed, Item, Parsed, StrftimeItems, parse};
use chrono::{Datelike, NaiveDate, NaiveTime, TimeZone, Utc};

use crate::domain::object_fields::parse_date;

/// The options by name.
pub const OPTIONS: [&str; 4] = ["decimal", "dates", "true", "false"];

/// The maximum number of characters of a pattern, and of the words for yes or no.
pub const MOST_CHARACTERS: usize = 200;

/// How cells are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Locale {
    trim: bool,
    has_comma: bool,
    dates: Option<DateForm>,
    yes: Vec<String>,
    no: Vec<String>,
}

impl Default for Locale {
    fn default() -> Self {
        Self { trim: true, has_comma: false, dates: None, yes: Vec::new(), no: Vec::new() }
    }
}

impl Locale {
    /// Reads the [`OPTIONS`]; `said` has the text of each. With `trim` cells lose the blanks at their edges, and get the
    /// usual Unicode form.
    ///
    /// # Errors
    /// The name of an option, and what is wrong with it.
    pub fn read<'a>(trim: bool, said: impl Fn(&str) -> Option<&'a str>) -> Result<Self, (&'static str, String)> {
        let [decimal, dates, yes, no] = OPTIONS;
        let has_comma = match said(decimal) {
            None | Some(".") => false,
            Some(",") => true,
            Some(_) => return Err((decimal, "must be . or ,".to_owned())),
        };
        let form = said(dates).map(DateForm::read).transpose().map_err(|reason| (dates, reason))?;
        let list = |name| said(name).map_or_else(|| Ok(Vec::new()), words).map_err(|reason| (name, reason));
        let locale = Self { trim, has_comma, dates: form, yes: list(yes)?, no: list(no)? };
        match locale.no.iter().find(|word| locale.yes.contains(word)) {
            Some(word) => Err((no, format!("has the word {word}, which true has too"))),
            None => Ok(locale),
        }
    }

    /// Whether cells lose the blanks at their edges, and get the usual Unicode form.
    pub(super) fn trims(&self) -> bool {
        self.trim
    }

    /// The character before decimals.
    pub fn decimal(&self) -> char {
        if self.has_comma { ',' } else { '.' }
    }

    /// A number with a point; `None` for a text with a point where numbers have a comma.
    pub(super) fn with_point<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if !self.has_comma {
            return Some(Cow::Borrowed(text));
        }
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-,eE".contains(&byte));
        match text.matches(',').count() {
            1 if is_number => Some(Cow::Owned(text.replace(',', "."))),
            _ if text.contains('.') => None,
            _ => Some(Cow::Borrowed(text)),
        }
    }

    /// The moment that a text says; days begin at midnight in UTC.
    pub(super) fn date(&self, text: &str) -> Option<DateTime> {
        self.dates.as_ref().and_then(|form| form.moment(text)).or_else(|| parse_date(text))
    }

    /// Yes or no.
    pub(super) fn flag(&self, text: &str) -> Option<bool> {
        let word = text.to_lowercase();
        let is = |own: &[String]| own.contains(&word);
        match word.as_str() {
            _ if is(&self.yes) => Some(true),
            _ if is(&self.no) => Some(false),
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        }
    }

    /// What a number must be.
    pub(super) fn number_expectation(&self) -> String {
        let sign = if self.has_comma { "comma" } else { "point" };
        format!("must be a number, with a {sign} for decimals, or empty")
    }

    /// What a date must be.
    pub(super) fn date_expectation(&self) -> String {
        let own = self.dates.as_ref().map(|form| format!("a date such as {}, ", form.example)).unwrap_or_default();
        format!("must be {own}an ISO 8601 date or moment (2026-01-31 or 2026-01-31T12:00:00Z), or empty")
    }

    /// What yes or no must be.
    pub(super) fn flag_expectation(&self) -> String {
        let own: String = self.yes.iter().chain(&self.no).flat_map(|word| [word, ", "]).collect();
        format!("must be {own}true, false, yes, no, 1, 0 or empty")
    }
}

/// Words with commas between them, in lower case.
fn words(said: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = said.split(',').map(|word| word.trim().to_lowercase()).collect();
    if said.chars().count() > MOST_CHARACTERS || words.iter().any(String::is_empty) {
        return Err(format!("must be words with commas, at most {MOST_CHARACTERS} characters"));
    }
    Ok(words)
}

/// A form of dates.
#[derive(Debug, Clone, PartialEq)]
struct DateForm {
    parts: DateParts,
    /// A date in this form.
    example: String,
}

#[derive(Debug, Clone, PartialEq)]
enum DateParts {
    /// The places of year, month and day among three numbers.
    Order([usize; 3]),
    /// A pattern of strftime.
    Pattern(Vec<Item<'static>>),
}

impl DateForm {
    fn read(said: &str) -> Result<Self, String> {
        let ordered = |places, example: &str| Ok(Self { parts: DateParts::Order(places), example: example.to_owned() });
        match said {
            "ymd" => ordered([0, 1, 2], "2026-01-31"),
            "dmy" => ordered([2, 1, 0], "31.01.2026"),
            "mdy" => ordered([2, 0, 1], "01/31/2026"),
            _ => Self::of_pattern(said).ok_or_else(|| {
                "must be ymd, dmy, mdy, or a pattern with a whole date, such as %d.%m.%Y or %d.%m.%y %H:%M".to_owned()
            }),
        }
    }

    /// A pattern that reads what it writes. Names of time zones are read by no pattern.
    fn of_pattern(said: &str) -> Option<Self> {
        if said.chars().count() > MOST_CHARACTERS {
            return None;
        }
        let items = StrftimeItems::new(said).parse_to_owned().ok()?;
        if items.iter().any(|item| matches!(item, Item::Fixed(Fixed::TimezoneName))) {
            return None;
        }
        let sample = Utc.with_ymd_and_hms(2026, 1, 31, 13, 45, 50).single()?;
        let example = written(sample, &items)?;
        let form = Self { parts: DateParts::Pattern(items), example };
        let is_whole = form.moment(&form.example)?.to_chrono().date_naive() == sample.date_naive();
        // A date of this form that ISO 8601 reads as another day would be read in both ways.
        let early = Utc.with_ymd_and_hms(2026, 2, 3, 0, 0, 0).single()?;
        let as_iso = parse_date(&written(early, form.items()?)?);
        let is_single = as_iso.is_none_or(|day| day.to_chrono().date_naive() == early.date_naive());
        (is_whole && is_single).then_some(form)
    }

    fn items(&self) -> Option<&[Item<'static>]> {
        match &self.parts {
            DateParts::Pattern(items) => Some(items),
            DateParts::Order(_) => None,
        }
    }

    fn moment(&self, text: &str) -> Option<DateTime> {
        let moment = match &self.parts {
            DateParts::Order(places) => ordered(text, *places)?,
            DateParts::Pattern(items) => by_pattern(text, items)?,
        };
        // A year of two digits under a sign for four.
        (moment.year() >= 1000).then(|| DateTime::from_chrono(moment))
    }
}

/// A moment by a pattern; nothing where the pattern asks for what a moment does not have.
fn written(moment: chrono::DateTime<Utc>, items: &[Item<'static>]) -> Option<String> {
    let mut text = String::new();
    write!(text, "{}", moment.format_with_items(items.iter())).ok()?;
    Some(text)
}

/// Three numbers with one kind of sign between them, and perhaps a time.
fn ordered(text: &str, [year, month, day]: [usize; 3]) -> Option<chrono::DateTime<Utc>> {
    const TIMES: [&str; 4] = ["%H:%M:%S%.f", "%H:%M", "%I:%M:%S %p", "%I:%M %p"];
    let (date, time) = text.split_once([' ', 'T']).map_or((text, None), |(date, time)| (date, Some(time.trim())));
    let sign = date.chars().find(|sign| ['.', '/', '-'].contains(sign))?;
    let parts: Vec<&str> = date.split(sign).collect();
    let number = |place: usize, digits: std::ops::RangeInclusive<usize>| {
        let part = parts.get(place).filter(|_| parts.len() == 3)?;
        let is_plain = digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| is_plain)
    };
    let year = i32::try_from(number(year, 4..=4)?).ok()?;
    let date = NaiveDate::from_ymd_opt(year, number(month, 1..=2)?, number(day, 1..=2)?)?;
    let time = match time {
        Some(time) => TIMES.iter().find_map(|form| NaiveTime::parse_from_str(time, form).ok())?,
        None => NaiveTime::MIN,
    };
    Some(date.and_time(time).and_utc())
}

/// An incomplete time is refused: nothing that a cell says may be lost.
fn by_pattern(text: &str, items: &[Item<'static>]) -> Option<chrono::DateTime<Utc>> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    if let Ok(moment) = parsed.to_datetime() {
        return Some(moment.to_utc());
    }
    if parsed.offset().is_some() {
        return None;
    }
    if let Ok(moment) = parsed.to_naive_datetime_with_offset(0) {
        return Some(moment.and_utc());
    }
    let has_time = [parsed.hour_div_12(), parsed.hour_mod_12(), parsed.minute(), parsed.second()];
    let date = parsed.to_naive_date().ok().filter(|_| has_time.iter().all(Option::is_none))?;
    Some(date.and_time(NaiveTime::MIN).and_utc())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(name: &str, value: &str) -> Result<Locale, (&'static str, String)> {
        Locale::read(true, |asked| (asked == name).then_some(value))
    }

    fn dates(form: &str) -> Locale {
        of("dates", form).expect("a form of dates")
    }

    #[test]
    fn dates_have_the_order_or_the_pattern_that_was_said() {
        for (form, text, expected) in [
            ("dmy", "31.01.2026", Some("2026-01-31T00:00:00Z")),
            ("dmy", "1.2.2026", Some("2026-02-01T00:00:00Z")),
            ("dmy", "01/02/2026 13:45", Some("2026-02-01T13:45:00Z")),
            ("mdy", "1/2/2026", Some("2026-01-02T00:00:00Z")),
            ("mdy", "1/31/2026 1:30 PM", Some("2026-01-31T13:30:00Z")),
            ("ymd", "2026/01/31 13:45:50", Some("2026-01-31T13:45:50Z")),
            ("dmy", "2026-01-31", Some("2026-01-31T00:00:00Z")),
            ("mdy", "2026-01-31T12:00:00+02:00", Some("2026-01-31T10:00:00Z")),
            ("dmy", "01/31/2026", None),
            ("dmy", "31.01.26", None),
            ("dmy", "31.01/2026", None),
            ("dmy", "31.01.2026 noon", None),
            ("dmy", "31.02.2026", None),
            ("dmy", "+1.02.2026", None),
            ("%d.%m.%Y", "31.01.2026", Some("2026-01-31T00:00:00Z")),
            ("%d.%m.%Y", "31.01.26", None),
            ("%d.%m.%Y", "31.01.2026 12:00", None),
            ("%d.%m.%y", "31.01.26", Some("2026-01-31T00:00:00Z")),
            ("%Y%m%d %H:%M", "20260131 12:30", Some("2026-01-31T12:30:00Z")),
            ("%d %b %Y %H:%M %z", "31 Jan 2026 12:30 +0200", Some("2026-01-31T10:30:00Z")),
        ] {
            let found = dates(form).date(text).map(|moment| moment.try_to_rfc3339_string().expect("a date"));
            assert_eq!(found.as_deref(), expected, "{form}: {text}");
        }
    }

    #[test]
    fn a_form_that_is_none_is_refused_by_name() {
        let long = "%d".repeat(200);
        for form in ["", "d", "%d.%m", "%d.%m.%Y %H", "%Q", "%H:%M", "%d.%m.%Y %Z", "%Y-%d-%m", "ydm", "%", &long] {
            assert!(of("dates", form).is_err_and(|(name, _)| name == "dates"), "{form}");
        }
        assert_eq!(of("decimal", ";"), Err(("decimal", "must be . or ,".to_owned())));
        for list in ["", "ja,,j", " ", &"j".repeat(201)] {
            assert!(of("true", list).is_err_and(|(name, _)| name == "true"), "{list}");
        }
        let both = Locale::read(true, |name| {
            Some(["ja,x", "nein, X"][usize::from(name == "false")]).filter(|_| name.ends_with('e'))
        });
        assert_eq!(both, Err(("false", "has the word x, which true has too".to_owned())));
    }

    #[test]
    fn words_for_yes_and_no_have_any_case_and_come_first() {
        let own = Locale::read(true, |name| match name {
            "true" => Some("Ja, 0"),
            "false" => Some("\u{c4}h"),
            _ => None,
        });
        let own = own.expect("words");
        for (text, expected) in
            [("JA", Some(true)), ("0", Some(true)), ("\u{e4}h", Some(false)), ("no", Some(false)), ("maybe", None)]
        {
            assert_eq!(own.flag(text), expected, "{text}");
        }
    }

    #[test]
    fn a_comma_is_before_decimals_alone() {
        let comma = of("decimal", ",").expect("a comma");
        for (text, expected) in [
            ("2,5", Some("2.5")),
            ("-2,5e3", Some("-2.5e3")),
            ("7", Some("7")),
            ("1.234", None),
            ("1.234,5", None),
            ("1,2,3", Some("1,2,3")),
        ] {
            assert_eq!(comma.with_point(text).as_deref(), expected, "{text}");
        }
        assert_eq!(Locale::default().with_point("2.5").as_deref(), Some("2.5"));
    }

    proptest! {
        #[test]
        fn no_pattern_and_no_text_make_reading_panic(form in "(%?[a-zA-Z0-9:.# +-]){0,8}", text in any::<String>()) {
            if let Ok(locale) = of("dates", &form) {
                let _ = locale.date(&text);
            }
        }
    }
}
