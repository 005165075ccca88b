//! Strings and numbers as JSON text.

use super::CorruptBson;

/// A plain character, written as it is.
const PLAIN: u8 = 0;
/// A character that JSON wants escaped.
const ESCAPED: u8 = 1;
/// Part of a character beyond ASCII: written as it is, once it is known to be UTF-8.
const BEYOND_ASCII: u8 = 2;

const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [PLAIN; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte < 0x20 || byte == b'"' as usize || byte == b'\\' as usize {
            classes[byte] = ESCAPED;
        } else if byte >= 0x80 {
            classes[byte] = BEYOND_ASCII;
        }
        byte += 1;
    }
    classes
}

/// Appends a JSON string.
#[inline]
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    write_classified(text.as_bytes(), classify(text.as_bytes()), out);
}

/// Appends a JSON string whose bytes are not known to be UTF-8 yet.
#[inline]
pub(super) fn write_utf8(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CorruptBson> {
    let found = classify(bytes);
    if found & BEYOND_ASCII != 0 && str::from_utf8(bytes).is_err() {
        return Err(CorruptBson("text that is not UTF-8"));
    }
    write_classified(bytes, found, out);
    Ok(())
}

/// Appends an integer.
#[inline]
pub fn write_i64(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number in its shortest form, always with a fraction or an exponent so that it reads back as a double.
/// What is not a number in JSON becomes `{"$numberDouble": "NaN"}` and the like.
pub fn write_f64(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
        return;
    }
    let name = match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    };
    super::object(out, |members| members.string("$numberDouble", name));
}

/// All the classes that occur in the bytes, or-ed together.
#[inline]
fn classify(bytes: &[u8]) -> u8 {
    // The rest that is no whole word is looked at together with bytes before it, for the second time.
    if let Some(last) = bytes.last_chunk::<8>() {
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().fold(classify_word(u64::from_le_bytes(*last)), |found, word| {
            found | classify_word(u64::from_le_bytes(*word))
        })
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        classify_word(u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)))
    } else {
        bytes.iter().fold(PLAIN, |found, &byte| found | CLASSES[usize::from(byte)])
    }
}

/// The same for eight bytes at once: in each comparison the top bit of a byte is the answer for that byte. Borrows between
/// bytes only ever mark a neighbour of a byte that is marked itself, so "any" is exact.
#[inline]
fn classify_word(word: u64) -> u8 {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES * 0x80;
    let quotes = word ^ (ONES * u64::from(b'"'));
    let backslashes = word ^ (ONES * u64::from(b'\\'));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quotes.wrapping_sub(ONES) & !quotes;
    let backslash = backslashes.wrapping_sub(ONES) & !backslashes;
    let escaped = u8::from((control | quote | backslash) & TOPS != 0) * ESCAPED;
    let beyond_ascii = u8::from(word & TOPS != 0) * BEYOND_ASCII;
    escaped | beyond_ascii
}

#[inline]
fn write_classified(bytes: &[u8], found: u8, out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    if found & ESCAPED == 0 {
        out.extend_from_slice(bytes);
    } else {
        write_escaped(bytes, out);
    }
    out.push(b'"');
}

#[cold]
fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut plain_from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if CLASSES[usize::from(byte)] != ESCAPED {
            continue;
        }
        out.extend_from_slice(&bytes[plain_from..at]);
        plain_from = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[plain_from..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_string(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_json_wants_escaped_is_escaped() {
        assert_eq!(written("plain"), r#""plain""#);
        assert_eq!(written("a\"b\\c\nd\u{1}"), r#""a\"b\\c\nd\u0001""#);
        assert_eq!(written("rück \u{7f} 東京"), "\"rück \u{7f} 東京\"");
    }

    #[test]
    fn bytes_beyond_utf8_are_refused() {
        assert!(write_utf8(&[b'a', 0xff], &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn eight_bytes_at_once_are_classified_as_one_by_one(bytes in any::<[u8; 8]>()) {
            let one_by_one = bytes.iter().fold(PLAIN, |found, &byte| found | CLASSES[usize::from(byte)]);
            prop_assert_eq!(classify_word(u64::from_le_bytes(bytes)), one_by_one);
        }

        #[test]
        fn strings_are_classified_as_their_bytes_one_by_one(text in "[a-z\"\u{1}é]{0,20}") {
            let one_by_one = text.bytes().fold(PLAIN, |found, byte| found | CLASSES[usize::from(byte)]);
            prop_assert_eq!(classify(text.as_bytes()), one_by_one);
        }

        #[test]
        fn strings_read_back(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&written(&text)).unwrap(), text);
        }

        #[test]
        fn doubles_read_back_as_the_same_doubles(number: f64) {
            prop_assume!(number.is_finite());
            let mut out = Vec::new();
            write_f64(number, &mut out);
            let text = String::from_utf8(out).unwrap();
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().is_f64());
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
        }
    }
}
