//! Encodings of text files.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::WriteError;

/// How the characters of a file are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextEncoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// UTF-16, the lower byte first.
    Utf16Le,
    /// The one of Windows in Western Europe.
    Windows1252,
    /// ISO 8859-1: the first 256 characters.
    Latin1,
}

/// The encodings by name.
pub const ENCODINGS: [(&str, TextEncoding); 4] = [
    ("utf-8", TextEncoding::Utf8),
    ("utf-16le", TextEncoding::Utf16Le),
    ("windows-1252", TextEncoding::Windows1252),
    ("latin1", TextEncoding::Latin1),
];

/// The names of the encodings.
pub const NAMES: [&str; 4] = [ENCODINGS[0].0, ENCODINGS[1].0, ENCODINGS[2].0, ENCODINGS[3].0];

impl TextEncoding {
    /// The encoding of this name.
    pub fn named(name: &str) -> Option<Self> {
        ENCODINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, encoding)| *encoding)
    }

    /// The encoding that a `charset` of a media type names, if it says more than that the text may be UTF-8.
    pub fn of_charset(name: &str) -> Option<Self> {
        let latin1 = name.eq_ignore_ascii_case("iso-8859-1").then_some(Self::Latin1);
        // Many programs say UTF-8 of any text, so the byte-order mark counts more.
        latin1.or_else(|| Self::named(name)).filter(|encoding| *encoding != Self::Utf8)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ENCODINGS.iter().find(|(_, encoding)| *encoding == self).map_or("", |(name, _)| name)
    }

    /// The bytes of a text.
    ///
    /// # Errors
    /// [`WriteError::Encoding`] for a character that the encoding lacks.
    pub fn encode(self, text: String) -> Result<Vec<u8>, WriteError> {
        let lacks = |character: char| WriteError::Encoding { encoding: self.name(), character };
        match self {
            Self::Utf8 => Ok(text.into_bytes()),
            Self::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Latin1 => {
                text.chars().map(|character| u8::try_from(u32::from(character)).map_err(|_| lacks(character))).collect()
            }
            Self::Windows1252 => {
                let (bytes, _, is_short) = WINDOWS_1252.encode(&text);
                if is_short {
                    let missing = text.chars().find(|character| WINDOWS_1252.encode(&character.to_string()).2);
                    return Err(lacks(missing.unwrap_or(char::REPLACEMENT_CHARACTER)));
                }
                Ok(bytes.into_owned())
            }
        }
    }

    /// Whether it can write every text.
    pub fn has_all_characters(self) -> bool {
        match self {
            Self::Utf8 | Self::Utf16Le => true,
            Self::Windows1252 | Self::Latin1 => false,
        }
    }

    /// The mark that tells programs that the file is in this encoding; nothing where there is none.
    pub fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => b"\xEF\xBB\xBF",
            Self::Utf16Le => b"\xFF\xFE",
            Self::Windows1252 | Self::Latin1 => b"",
        }
    }

    /// Refuses to mark files of an encoding without a mark.
    ///
    /// # Errors
    /// What is wrong, and which encodings have one.
    pub fn check_mark(self, is_marked: bool) -> Result<bool, String> {
        if is_marked && self.mark().is_empty() {
            let marked: Vec<&str> =
                ENCODINGS.iter().filter(|(_, known)| !known.mark().is_empty()).map(|(name, _)| *name).collect();
            return Err(format!("{} has no byte-order mark; {} have one", self.name(), marked.join(" and ")));
        }
        Ok(is_marked)
    }
}

/// The text of a file, without its byte-order mark, which decides about the encoding if no option does.
///
/// # Errors
/// When the bytes are not of that encoding: the line, from 1, and a sentence for people.
pub fn decode(bytes: &[u8], encoding: Option<TextEncoding>) -> Result<Cow<'_, str>, (u64, String)> {
    let marked = Encoding::for_bom(bytes);
    let coding = match (encoding, marked) {
        (Some(TextEncoding::Latin1), None) => return Ok(encoding_rs::mem::decode_latin1(bytes)),
        (None, Some((coding, _))) => coding,
        (None, None) | (Some(TextEncoding::Utf8), _) => UTF_8,
        // What looks like a mark in an encoding without one is text.
        (Some(TextEncoding::Latin1), Some(_)) => return Ok(encoding_rs::mem::decode_latin1(bytes)),
        (Some(TextEncoding::Windows1252), _) => return Ok(WINDOWS_1252.decode_without_bom_handling(bytes).0),
        (Some(TextEncoding::Utf16Le), _) => UTF_16LE,
    };
    let length = marked.filter(|(found, _)| *found == coding).map_or(0, |(_, length)| length);
    let rest = &bytes[length..];
    if coding == UTF_8 {
        return str::from_utf8(rest).map(Cow::Borrowed).map_err(|error| {
            let before = &rest[..error.valid_up_to()];
            let line = line_ends(before) + 1;
            (line, "is not UTF-8; save the file as UTF-8, or say which encoding it has, for instance encoding=windows-1252".to_owned())
        });
    }
    debug_assert!(coding == UTF_16LE || coding == UTF_16BE);
    coding
        .decode_without_bom_handling_and_without_replacement(rest)
        .ok_or_else(|| (1, format!("the file is not {}", coding.name())))
}

/// How many lines end in these bytes: with a carriage return, a line feed, or both.
pub(super) fn line_ends(bytes: &[u8]) -> u64 {
    let behind = bytes.iter().skip(1).chain(b" ");
    let ends = bytes.iter().zip(behind).filter(|(byte, next)| **byte == b'\n' || **byte == b'\r' && **next != b'\n');
    ends.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_reads_what_it_writes_with_and_without_its_mark() {
        let text = "name\nK\u{e4}rcher \u{a3}";
        for (name, encoding) in ENCODINGS {
            let bytes = encoding.encode(text.to_owned()).expect("all have these characters");
            assert_eq!(decode(&bytes, Some(encoding)).as_deref(), Ok(text), "{name}");
            let marked = [encoding.mark(), &bytes].concat();
            assert_eq!(decode(&marked, Some(encoding)).as_deref(), Ok(text), "{name}");
            if !encoding.mark().is_empty() {
                assert_eq!(decode(&marked, None).as_deref(), Ok(text), "{name}");
            }
        }
    }

    #[test]
    fn a_character_that_an_encoding_lacks_is_named_and_not_replaced() {
        for encoding in [TextEncoding::Windows1252, TextEncoding::Latin1] {
            let lacks = encoding.encode("a\u{4e2d}".to_owned()).unwrap_err();
            assert_eq!(lacks, WriteError::Encoding { encoding: encoding.name(), character: '\u{4e2d}' });
        }
        assert_eq!(TextEncoding::Windows1252.encode("\u{20ac}".to_owned()), Ok(vec![0x80]));
        assert!(TextEncoding::Latin1.encode("\u{20ac}".to_owned()).is_err());
    }

    #[test]
    fn bytes_of_another_encoding_are_refused_with_their_line() {
        for text in [&b"a\nb\nK\xe4rcher"[..], b"a\rb\rK\xe4rcher", b"a\r\nb\rK\xe4rcher"] {
            assert_eq!(decode(text, None).unwrap_err().0, 3);
        }
        assert!(decode(b"\xff\xfea\0\0\xd8", None).is_err());
    }
}
