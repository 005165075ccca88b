//! Dates in free text, in the notations that MongoDB's library understands: ISO 8601 in long and short forms,
//! American and European orders, names of months, times with `am` and `pm`, offsets and usual abbreviations.
//!
//! A text needs a whole date. Beside one, `noon`, `tomorrow` and the name of a weekday move it; other relative
//! notations (`+1 day`, `last monday`) are refused.

use super::calendar::{DAY, days_from_civil, weekday};
use super::from_text::{DateParts, digits, numeric_offset, unreadable};
use super::zone::Zone;
use crate::query::error::EvalError;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// Reads a date; `zone` is the time zone of a text that names none.
pub(in crate::query::expr) fn parse_text(text: &str, zone: Option<Zone>) -> Result<i64, EvalError> {
    if let Some(millis) = text.strip_prefix('@').and_then(seconds_since_1970) {
        return Ok(millis);
    }
    if text.is_empty() {
        return unreadable(text);
    }
    let mut reader = DateReader { rest: text, parts: DateParts::default(), weekday: None, days: 0, after_t: false };
    while !reader.rest.is_empty() {
        if reader.step().is_none() {
            return unreadable(text);
        }
    }
    if reader.parts.year.is_some() && reader.parts.month.is_some() && reader.parts.day.is_none() {
        // `July 2017`
        reader.parts.day = Some(1);
    }
    let millis = reader.parts.millis(text, zone)?;
    let days = match (reader.weekday, reader.parts.year, reader.parts.month, reader.parts.day) {
        (Some(wanted), Some(year), Some(month), Some(day)) => {
            (wanted - weekday(days_from_civil(year, month, day))).rem_euclid(7)
        }
        _ => 0,
    };
    if days + reader.days == 0 {
        return Ok(millis);
    }
    let zone = zone.unwrap_or(Zone::UTC);
    let moved = zone.to_utc(zone.to_local(millis) + i128::from((days + reader.days) * DAY));
    i64::try_from(moved).or_else(|_| unreadable(text))
}

/// `1500000000`, `1500000000.5`: in milliseconds.
fn seconds_since_1970(text: &str) -> Option<i64> {
    let (seconds, mut rest) = text.split_once('.').map_or((text, "0"), |(seconds, rest)| (seconds, rest));
    let millis = fraction(&mut rest)?;
    if !rest.is_empty() {
        return None;
    }
    let seconds = seconds.parse::<i64>().ok()?.checked_mul(1000)?;
    seconds.checked_add(if text.starts_with('-') { -millis } else { millis })
}

/// 1970 to 2069.
fn full_year(year: i64, digits: usize) -> i64 {
    match (digits, year) {
        (1..=2, 0..70) => year + 2000,
        (1..=2, _) => year + 1900,
        _ => year,
    }
}

struct DateReader<'a> {
    rest: &'a str,
    parts: DateParts,
    /// To be moved to the next such day of the week, 0 for Sunday.
    weekday: Option<i64>,
    /// To be moved by so many days.
    days: i64,
    /// Behind the letter between date and time.
    after_t: bool,
}

impl DateReader<'_> {
    /// Reads one element: a date, a time, an offset, a word.
    fn step(&mut self) -> Option<()> {
        let next = self.rest.chars().next()?;
        if matches!(next, ' ' | ',' | '\t' | '(' | ')') {
            self.rest = &self.rest[1..];
            return Some(());
        }
        if next.is_ascii_digit() {
            return self.number();
        }
        if matches!(next, '+' | '-') {
            return self.zone_offset();
        }
        self.word()
    }

    fn zone_offset(&mut self) -> Option<()> {
        let has_date = self.parts.year.is_some() || self.parts.iso_year.is_some();
        if !has_date || self.parts.offset.is_some() {
            return None;
        }
        self.parts.offset = Some(numeric_offset(&mut self.rest)?);
        Some(())
    }

    fn set_date(&mut self, year: i64, month: i64, day: i64) -> Option<()> {
        if self.parts.year.is_some() || self.parts.day.is_some() {
            return None;
        }
        (self.parts.year, self.parts.month, self.parts.day) = (Some(year), Some(month), Some(day));
        Some(())
    }

    fn set_hour(&mut self, hour: i64) {
        (self.parts.hour, self.parts.minute) = (Some(hour), Some(0));
        (self.parts.second, self.parts.millisecond) = (Some(0), Some(0));
    }

    fn number(&mut self) -> Option<()> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (head, tail) = self.rest.split_at(count);
        let value: i64 = head.parse().ok()?;
        match (count, tail.chars().next()) {
            (1..=2, Some(':')) => self.time(),
            (1..=2, _) if tail.trim_start().get(..1).is_some_and(|next| "aApP".contains(next)) && is_meridian(tail) => {
                self.time()
            }
            (4, Some('-' | '/')) => self.year_first(value, tail),
            (4, Some('W')) => self.iso_week(value, tail),
            (14, _) if self.parts.year.is_none() => {
                self.rest = copy_end(self.rest, tail);
                let (date, time) = (value / 1_000_000, value % 1_000_000);
                self.set_date(date / 10_000, date / 100 % 100, date % 100)?;
                self.short_time(6, time, tail);
                Some(())
            }
            (1..=2, Some('-')) if is_short_date(tail) => self.year_first(full_year(value, 2), tail),
            (1..=2, _) if self.parts.year.is_some() && self.parts.hour.is_none() && self.after_t => self.time(),
            (1..=2, Some('/')) => self.american(value, tail),
            (1..=2, Some('-' | '.')) => self.day_first(value, tail),
            (8, _) if self.parts.year.is_none() => {
                self.rest = tail;
                self.set_date(value / 10_000, value / 100 % 100, value % 100)
            }
            (4 | 6, _) if self.parts.year.is_some() && self.parts.hour.is_none() => {
                self.short_time(count, value, tail);
                Some(())
            }
            (4, _) => {
                if self.parts.year.is_some() {
                    return None;
                }
                self.rest = tail;
                self.parts.year = Some(value);
                Some(())
            }
            (1..=2, _) => {
                if self.parts.day.is_some() {
                    return None;
                }
                // `8 Feb`, `8th of February`.
                self.rest = ["st", "nd", "rd", "th"].iter().find_map(|end| tail.strip_prefix(end)).unwrap_or(tail);
                self.parts.day = Some(value);
                Some(())
            }
            _ => None,
        }
    }

    /// `2017-02-08`, `2017/02/08`, `2017-02`, `2017-W06-3`, `2017-039`.
    fn year_first(&mut self, year: i64, tail: &str) -> Option<()> {
        let separator = tail.chars().next()?;
        let mut rest = &tail[1..];
        if rest.starts_with('W') {
            return self.iso_week(year, rest);
        }
        let month = month(&mut rest)?;
        let day = match rest.strip_prefix(separator) {
            Some(tail) => {
                rest = tail;
                digits(&mut rest, 1, 2)?
            }
            None => 1,
        };
        self.rest = copy_end(self.rest, rest);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        self.set_date(year, month, day)
    }

    /// `W06-3`, `W063`, `W06` behind the year.
    fn iso_week(&mut self, year: i64, tail: &str) -> Option<()> {
        let mut rest = tail.strip_prefix('W')?;
        let week = digits(&mut rest, 2, 2)?;
        rest = rest.strip_prefix('-').unwrap_or(rest);
        let day = digits(&mut rest, 1, 1).unwrap_or(1);
        self.parts.iso_year = Some(year);
        (self.parts.iso_week, self.parts.iso_day) = (Some(week), Some(day));
        self.rest = copy_end(self.rest, rest);
        Some(())
    }

    /// `02/08/2017`, month first.
    fn american(&mut self, month: i64, tail: &str) -> Option<()> {
        let mut rest = &tail[1..];
        let day = digits(&mut rest, 1, 2)?;
        rest = rest.strip_prefix('/')?;
        let before = rest.len();
        let year = digits(&mut rest, 2, 4)?;
        let year = full_year(year, before - rest.len());
        self.rest = copy_end(self.rest, rest);
        self.set_date(year, month, day)
    }

    /// `08-02-2017`, `8.2.2017`, `08-Feb-2017`, `8-Feb-17`.
    fn day_first(&mut self, day: i64, tail: &str) -> Option<()> {
        let separator = tail.chars().next()?;
        let mut rest = &tail[1..];
        let by_name = !rest.starts_with(|next: char| next.is_ascii_digit());
        let month = month(&mut rest)?;
        rest = rest.strip_prefix(separator)?;
        let before = rest.len();
        let year = digits(&mut rest, if by_name { 1 } else { 4 }, 4)?;
        let year = full_year(year, before - rest.len());
        self.rest = copy_end(self.rest, rest);
        self.set_date(year, month, day)
    }

    /// `12:10:40.787`, `3:30 pm`, `3pm`.
    fn time(&mut self) -> Option<()> {
        if self.parts.hour.is_some() {
            return None;
        }
        let mut rest = self.rest;
        let mut hour = digits(&mut rest, 1, 2)?;
        let (mut minute, mut second, mut millisecond) = (0, 0, 0);
        // A minute or second of one digit ends the time: no fraction, no `am` or `pm` behind it.
        let mut in_full = true;
        let mut two = |rest: &mut &str| {
            let before = rest.len();
            let number = digits(rest, 1, 2);
            in_full &= before - rest.len() == 2;
            number
        };
        if let Some(tail) = rest.strip_prefix(':') {
            rest = tail;
            minute = two(&mut rest)?;
            if let Some(tail) = rest.strip_prefix(':') {
                rest = tail;
                second = two(&mut rest)?;
                if let Some(tail) = rest.strip_prefix(['.', ':']).filter(|_| in_full) {
                    rest = tail;
                    millisecond = fraction(&mut rest)?;
                }
            }
        }
        if in_full && is_meridian(rest) {
            let tail = rest.trim_start();
            let afternoon = tail.starts_with(['p', 'P']);
            if !(1..=12).contains(&hour) {
                return None;
            }
            hour = hour % 12 + if afternoon { 12 } else { 0 };
            let tail = &tail[1..];
            let tail = tail.strip_prefix('.').unwrap_or(tail);
            let tail = tail.strip_prefix(['m', 'M']).unwrap_or(tail);
            rest = tail.strip_prefix('.').unwrap_or(tail);
        }
        if hour > 24 {
            return None;
        }
        self.rest = copy_end(self.rest, rest);
        (self.parts.hour, self.parts.minute) = (Some(hour), Some(minute));
        (self.parts.second, self.parts.millisecond) = (Some(second), Some(millisecond));
        Some(())
    }

    /// `1210`, `121040` behind a date.
    fn short_time(&mut self, count: usize, value: i64, tail: &str) {
        self.rest = copy_end(self.rest, tail);
        let (hour, minute, second) =
            if count == 4 { (value / 100, value % 100, 0) } else { (value / 10_000, value / 100 % 100, value % 100) };
        (self.parts.hour, self.parts.minute, self.parts.second) = (Some(hour), Some(minute), Some(second));
    }

    fn word(&mut self) -> Option<()> {
        let length = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        if length == 0 {
            return None;
        }
        let (word, mut tail) = self.rest.split_at(length);
        let lower = word.to_ascii_lowercase();
        if let Some(month) = name_index(&MONTHS, word) {
            if self.parts.month.is_some() {
                return None;
            }
            self.parts.month = Some(month + 1);
            tail = tail.strip_prefix(['.', '-']).unwrap_or(tail);
        } else if let Some(day) = name_index(&DAYS, word) {
            self.weekday = Some(day);
            tail = tail.strip_prefix('.').unwrap_or(tail);
        } else if lower == "t" && self.parts.year.is_some() {
            self.after_t = true;
        } else if lower == "of" && self.parts.day.is_some() {
            // `8th of February`.
        } else if let Some(hour) =
            [("noon", 12), ("midnight", 0), ("today", 0)].into_iter().find(|(known, _)| *known == lower)
        {
            self.set_hour(hour.1);
        } else if let Some(days) = [("tomorrow", 1), ("yesterday", -1)].into_iter().find(|(known, _)| *known == lower) {
            self.days += days.1;
            self.set_hour(0);
        } else {
            if self.parts.offset.is_some() || tail.starts_with('/') {
                return None;
            }
            let seconds = abbreviation(&lower)?;
            self.parts.offset = Some(seconds);
            // `GMT+0200` is one offset.
            if lower == "gmt" && tail.starts_with(['+', '-']) {
                self.parts.offset = Some(numeric_offset(&mut tail)?);
            }
        }
        self.rest = tail;
        Some(())
    }
}

/// A month by its number or its name off the front.
fn month(text: &mut &str) -> Option<i64> {
    if text.starts_with(|next: char| next.is_ascii_digit()) {
        return digits(text, 1, 2);
    }
    let length = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (name, rest) = text.split_at(length);
    *text = rest;
    name_index(&MONTHS, name).map(|index| index + 1)
}

/// Whether `-2-09` goes on a date that begins with its year: behind a month in digits there is no year, unlike in `-07-2017`.
fn is_short_date(tail: &str) -> bool {
    let count = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let month = count(&tail[1..]);
    let rest = tail.get(month + 2..).unwrap_or_default();
    (1..=2).contains(&month) && tail[month + 1..].starts_with('-') && (1..=2).contains(&count(rest))
}

/// The end of `whole` that is as long as `end`, which is one.
fn copy_end<'a>(whole: &'a str, end: &str) -> &'a str {
    &whole[whole.len() - end.len()..]
}

/// Thousandths of a second; further digits are dropped.
fn fraction(text: &mut &str) -> Option<i64> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    *text = rest;
    format!("{digits:0<3}").get(..3)?.parse().ok()
}

/// `am`, `pm`, `a.m.`, ...
fn is_meridian(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    let Some(tail) = text.strip_prefix(['a', 'p']) else { return false };
    let tail = tail.strip_prefix('.').unwrap_or(tail);
    let Some(tail) = tail.strip_prefix('m') else { return false };
    !tail.starts_with(|next: char| next.is_ascii_alphabetic())
}

/// The place of a name, given in full or by its first three letters.
fn name_index(names: &[&str], word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    let short = |name: &str| name[..3] == word || (name == "september" && word == "sept");
    (0..).zip(names).find(|(_, name)| **name == word || short(name)).map(|(index, _)| index)
}

/// Seconds east of Greenwich of a usual abbreviation.
pub(super) fn abbreviation(name: &str) -> Option<i64> {
    let hours = match name {
        "z" | "utc" | "gmt" | "wet" => 0,
        "cet" | "bst" | "west" | "met" => 1,
        "cest" | "eet" => 2,
        "eest" | "msk" => 3,
        "jst" => 9,
        "edt" => -4,
        "est" | "cdt" => -5,
        "cst" | "mdt" => -6,
        "mst" | "pdt" => -7,
        "pst" | "akdt" => -8,
        "akst" => -9,
        "hst" => -10,
        // The military letters; J is not used.
        letter if letter.len() == 1 => return military(letter.bytes().next()?).map(|hours| hours * 3600),
        _ => return None,
    };
    Some(hours * 3600)
}

fn military(letter: u8) -> Option<i64> {
    Some(match letter {
        b'a'..=b'i' => i64::from(letter - b'a') + 1,
        b'k'..=b'm' => i64::from(letter - b'k') + 10,
        b'n'..=b'y' => -(i64::from(letter - b'n') + 1),
        _ => return None,
    })
}
