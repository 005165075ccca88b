//! Dates as DATAGERRY's answers have them: `{"$date": <milliseconds>}` where one object is read, ISO 8601 text elsewhere.

use std::str;

use crate::json::write::{DateStyle, write_date};

/// How a date begins that can be sent back.
const MILLIS: &[u8] = b"{\"$date\":";

/// Appends the JSON text, with each `{"$date": <milliseconds>}` in it as ISO 8601 text. Strings are not changed.
pub(super) fn as_iso(text: &[u8], out: &mut Vec<u8>) {
    let (mut rest, mut in_string) = (text, false);
    while let Some((&byte, after)) = rest.split_first() {
        if !in_string
            && byte == b'{'
            && let Some((millis, behind)) = millis(rest)
        {
            write_date(millis, DateStyle::Iso, out);
            rest = behind;
            continue;
        }
        out.push(byte);
        rest = after;
        match (byte, after.split_first()) {
            (b'"', _) => in_string = !in_string,
            (b'\\', Some((&escaped, behind))) if in_string => {
                out.push(escaped);
                rest = behind;
            }
            _ => {}
        }
    }
}

/// The milliseconds of the date at the beginning of the text, and the rest of the text.
fn millis(text: &[u8]) -> Option<(i64, &[u8])> {
    let digits = text.strip_prefix(MILLIS)?;
    let end = digits.iter().position(|byte| *byte == b'}')?;
    Some((str::from_utf8(&digits[..end]).ok()?.parse().ok()?, &digits[end + 1..]))
}

/// `YYYY-MM-DD HH:MM:SS.ffffff` as ISO 8601 text, the fraction only when there is one. Other texts stay.
pub(super) fn joined(text: &str) -> Option<String> {
    let joined = text.replacen(' ', "T", 1);
    (text.as_bytes().get(10) == Some(&b' ')).then(|| joined.strip_suffix(".000000").unwrap_or(&joined).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iso(text: &str) -> String {
        let mut out = Vec::new();
        as_iso(text.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn dates_become_text_wherever_they_stand() {
        assert_eq!(
            iso(r#"{"a":{"$date":0},"b":[{"$date":-1}]}"#),
            r#"{"a":"1970-01-01T00:00:00","b":["1969-12-31T23:59:59.999000"]}"#
        );
    }

    #[test]
    fn what_is_no_date_stays() {
        for text in [
            r#"{"a":"{\"$date\":0}"}"#,
            r#"{"a\\":"{","b":"\\"}"#,
            r#"{"$date":"x"}"#,
            r#"{"$date":{"$numberLong":"1"}}"#,
            r#"{"$date":1"#,
            r#"{"$date":1,"more":2}"#,
            "\"\\",
            "",
        ] {
            assert_eq!(iso(text), text);
        }
    }

    #[test]
    fn a_space_becomes_the_t() {
        assert_eq!(joined("2026-01-31 12:00:00.000000").as_deref(), Some("2026-01-31T12:00:00"));
        assert_eq!(joined("2026-01-31 12:00:00.120000").as_deref(), Some("2026-01-31T12:00:00.120000"));
        assert_eq!(joined("2026-01-31T12:00:00"), None);
    }
}
