//! Which numbers are stored as they were written.
//!
//! Laws: a number is a whole number of 64 bits or a double, and a text that is neither is refused, never rounded in
//! silence. Programs write a double with at most 17 digits, so such a text means the nearest double. A longer one,
//! and a whole number without point and exponent, must be equal to what is stored.

use std::io::{self, Read};

/// What to send in place of a number that would be rounded.
pub const REMEDY: &str = "send it as a text, or as {\"$numberDecimal\": \"...\"}";

/// The number of digits up to which every decimal number comes back unchanged from a double.
const SURE_DIGITS: usize = 15;
/// The number of digits that distinguishes any two doubles.
const DOUBLE_DIGITS: usize = 17;
/// A longer number in JSON is not looked at any closer: it counts as one that would be rounded.
const LONGEST: usize = 4096;
/// No double has more digits.
const MOST_DIGITS: usize = 800;
/// Powers of ten between which doubles have their full precision.
const SURE_POWERS: std::ops::Range<i64> = -300..300;

/// Whether a decimal number, such as `-12.50e3`, is stored as it is written.
pub fn is_kept(text: &str) -> bool {
    let Some(Written { digits, power, is_whole }) = Written::read(text) else { return true };
    if digits.is_empty() || digits.len() <= SURE_DIGITS && SURE_POWERS.contains(&power) {
        return true;
    }
    if is_whole && text.parse::<i64>().is_ok() {
        return true;
    }
    let Ok(double) = text.parse::<f64>() else { return true };
    if !is_whole && digits.len() <= DOUBLE_DIGITS && double.is_normal() {
        return true;
    }
    if !double.is_finite() || double == 0.0 || digits.len() > MOST_DIGITS {
        return false;
    }
    let stored = format!("{double:.*e}", digits.len() - 1);
    Written::read(&stored).is_some_and(|stored| stored.digits == digits && stored.power == power)
}

/// A decimal number in its parts.
struct Written {
    /// The digits without zeros at their ends; none for zero.
    digits: Vec<u8>,
    /// The power of ten of the first digit.
    power: i64,
    /// Whether it has neither point nor exponent.
    is_whole: bool,
}

impl Written {
    /// `None` for a text that is no such number.
    fn read(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = || whole.bytes().chain(part.bytes());
        if !all().all(|byte| byte.is_ascii_digit()) || mantissa.is_empty() {
            return None;
        }
        // An exponent beyond 64 bits is as good as the largest one.
        let exponent = match exponent {
            Some(exponent) => {
                exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 })
            }
            None => 0,
        };
        let leading = all().take_while(|byte| *byte == b'0').count();
        let mut digits: Vec<u8> = all().skip(leading).collect();
        digits.truncate(digits.len() - digits.iter().rev().take_while(|byte| **byte == b'0').count());
        let power = i64::try_from(whole.len()).ok()? - 1 - i64::try_from(leading).ok()? + exponent;
        Some(Self { digits, power, is_whole: mantissa.len() == unsigned.len() && !mantissa.contains('.') })
    }
}

/// A number that would be rounded, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounded {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    /// Its text, shortened if it is long.
    pub text: String,
}

/// Looks for the first number in JSON that would be rounded. The JSON comes in pieces.
#[derive(Debug)]
pub struct NumberScan {
    place: (usize, usize),
    is_text: bool,
    is_escaped: bool,
    /// The number that is being read, and where it began.
    number: Vec<u8>,
    begun: (usize, usize),
    found: Option<Rounded>,
}

impl NumberScan {
    /// Nothing is read yet.
    pub(super) fn new() -> Self {
        Self { place: (1, 0), is_text: false, is_escaped: false, number: Vec::new(), begun: (1, 1), found: None }
    }

    /// The first number of a whole text that would be rounded.
    pub fn of(text: &[u8]) -> Option<Rounded> {
        let mut scan = Self::new();
        scan.feed(text);
        scan.end()
    }

    /// Reads the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        if self.found.is_some() {
            return;
        }
        for &byte in piece {
            self.place = if byte == b'\n' { (self.place.0 + 1, 0) } else { (self.place.0, self.place.1 + 1) };
            if self.is_text {
                self.is_text = self.is_escaped || byte != b'"';
                self.is_escaped = byte == b'\\' && !self.is_escaped;
                continue;
            }
            match byte {
                b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E' => {
                    if self.number.is_empty() {
                        self.begun = self.place;
                    }
                    if self.number.len() < LONGEST {
                        self.number.push(byte);
                    }
                }
                _ => {
                    self.is_text = byte == b'"';
                    self.end_number();
                }
            }
        }
    }

    /// What was found in all pieces.
    pub fn end(mut self) -> Option<Rounded> {
        self.end_number();
        self.found
    }

    fn end_number(&mut self) {
        let is_rounded = || self.number.len() == LONGEST || !std::str::from_utf8(&self.number).is_ok_and(is_kept);
        if self.number.len() > 1 && self.found.is_none() && is_rounded() {
            let (line, column) = self.begun;
            self.found = Some(Rounded { line, column, text: shortened(&String::from_utf8_lossy(&self.number)) });
        }
        self.number.clear();
    }
}

/// A number as messages show it.
pub fn shortened(number: &str) -> String {
    const SHOWN: usize = 40;
    if number.len() <= SHOWN {
        number.to_owned()
    } else {
        format!("{}...", number.chars().take(SHOWN).collect::<String>())
    }
}

/// A reader whose numbers are looked at in passing.
pub struct Scanned<'s, R> {
    inner: R,
    scan: &'s mut NumberScan,
}

impl<'s, R: Read> Scanned<'s, R> {
    /// Looks at what `inner` gives.
    pub fn over(inner: R, scan: &'s mut NumberScan) -> Self {
        Self { inner, scan }
    }
}

impl<R: Read> Read for Scanned<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.scan.feed(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_doubles_and_whole_numbers_of_64_bits_are_kept() {
        for kept in [
            "0", "-0", "0.1", "1.10", "5", "-9223372036854775808", "9223372036854775807", "9007199254740993", "1e3",
            "0.30000000000000004", "0.1000000000000000055511151231257827021181583404541015625", "1e300", "1.5E-7",
            "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "4.94e-324", "18446744073709551616",
            "0e999999", "9223372036854775808", "1234567.0000000000000000000000", "8.9390101023584788E+18",
            "100000000000000000000", "0.000", "000001", "1e22",
        ] {
            assert!(is_kept(kept), "{kept}");
        }
    }

    #[test]
    fn what_would_be_rounded_is_not_kept() {
        for rounded in [
            "8939010102358478435000", "9223372036854775809", "18446744073709551617", "-12345678901234567890", "5e-400",
            "1e400", "0.12345678901234567890123", "3e-324", "1234567890123456789.0", "123456789012345678901",
            "-5e-400", "1e99999999999999999999", "1e-99999999999999999999",
        ] {
            assert!(!is_kept(rounded), "{rounded}");
        }
        assert!(!is_kept(&format!("1{}1", "0".repeat(5000))) && !is_kept(&format!("0.{}1", "0".repeat(5000))));
    }

    #[test]
    fn the_first_rounded_number_of_a_json_is_found_with_its_place() {
        let found = |text: &str| NumberScan::of(text.as_bytes()).map(|found| (found.line, found.column, found.text));
        assert_eq!(
            found("{\"a\": [1, 2.5, \"12345678901234567890\", \"\\\"5e-400\"], \"12345678901234567890\": true}"),
            None
        );
        assert_eq!(found("{\"a\":\n  [1, 5e-400, 1e400]}"), Some((2, 7, "5e-400".to_owned())));
        assert_eq!(found("12345678901234567890"), Some((1, 1, "12345678901234567890".to_owned())));
        let long = format!("[{}]", "9".repeat(100));
        assert_eq!(found(&long), Some((1, 2, format!("{}...", "9".repeat(40)))));
    }

    #[test]
    fn pieces_are_read_as_the_whole() {
        let text = b"{\"a\\\\\": \"\\\"1\",\n\"b\": 12345678901234567890}";
        for size in 1..text.len() {
            let mut scan = NumberScan::new();
            text.chunks(size).for_each(|piece| scan.feed(piece));
            assert_eq!(scan.end(), NumberScan::of(text), "{size}");
        }
        assert_eq!(NumberScan::of(text).map(|found| (found.line, found.column)), Some((2, 6)));
    }
}
