//! Content codings (RFC 9110, section 8.4.1): the known ones, negotiation, compression and decompression.

use std::io::{self, Read, Write};

use actix_web::http::header::{self, HeaderMap};

/// A coding that is supported in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

/// Best first, for clients with equal preferences. By speed, not by size.
pub const CODINGS: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

/// The names of all of them, for an `Accept-Encoding` that this service sends.
pub const NAMES: &str = "zstd, br, gzip";

/// A window of 8 MiB, the maximum of RFC 9659. With more, clients would decide about memory.
const ZSTD_WINDOW_LOG: u32 = 23;

const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 5;
const BROTLI_QUALITY: u32 = 4;
const BROTLI_WINDOW_LOG: u32 = 20;
const BUFFER_BYTES: usize = 8 * 1024;

/// Why bytes could not be unpacked.
#[derive(Debug)]
pub enum Unpacked {
    /// All of them.
    Whole(Vec<u8>),
    /// They would be more than was allowed.
    TooLarge,
    /// The bytes do not fit the coding, or end too early.
    Broken(io::Error),
}

impl Coding {
    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The coding of this name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        // `x-gzip` is the name's older form (RFC 9110, section 8.4.1.3).
        let name = if name.eq_ignore_ascii_case("x-gzip") { "gzip" } else { name };
        CODINGS.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name()))
    }

    /// The known coding that the client prefers; `None`: no compression.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let mut likings = [None; CODINGS.len()];
        let mut others = None;
        let values = headers.get_all(header::ACCEPT_ENCODING).filter_map(|value| value.to_str().ok());
        for item in values.flat_map(|value| value.split(',')) {
            let (name, liking) = read_item(item);
            if name == "*" {
                others = Some(liking);
            } else if let Some(coding) = Self::named(name) {
                likings[coding as usize] = Some(liking);
            }
        }
        let liked = CODINGS.map(|coding| (likings[coding as usize].or(others).unwrap_or(0), coding));
        // `max_by_key` would take the last of several.
        let best = liked.into_iter().rev().max_by_key(|(liking, _)| *liking);
        best.filter(|(liking, _)| *liking > 0).map(|(_, coding)| coding)
    }

    /// The bytes in this coding.
    ///
    /// # Errors
    /// When the library fails, which neither memory nor input should cause.
    pub fn pack(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Zstd => zstd::stream::encode_all(bytes, ZSTD_LEVEL),
            Self::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 4), level);
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Brotli => {
                let mut packed = Vec::with_capacity(bytes.len() / 4);
                let mut reader = brotli::CompressorReader::new(bytes, BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW_LOG);
                reader.read_to_end(&mut packed)?;
                Ok(packed)
            }
        }
    }

    /// Decompresses while reading.
    ///
    /// # Errors
    /// When the library fails; reading fails if the bytes are not in this coding.
    pub fn reader<'a>(self, bytes: &'a [u8]) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(bytes)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(decoder)
            }
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
            Self::Brotli => Box::new(brotli::Decompressor::new(bytes, BUFFER_BYTES)),
        })
    }

    /// The decompressed bytes, if they are `most` or fewer. It never holds more, whatever the input claims.
    pub fn unpack(self, bytes: &[u8], most: usize) -> Unpacked {
        match self.reader(bytes).and_then(|reader| read_some(reader, most)) {
            Ok(unpacked) if unpacked.len() > most => Unpacked::TooLarge,
            Ok(unpacked) => Unpacked::Whole(unpacked),
            Err(error) => Unpacked::Broken(error),
        }
    }
}

/// The allowed number of bytes, and one more to detect an excess.
fn read_some(reader: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    reader.take(most as u64 + 1).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

/// A name and its quality in thousandths; an unreadable one is ignored.
fn read_item(item: &str) -> (&str, u32) {
    let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
    let quality = parameters.split(';').find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim().eq_ignore_ascii_case("q").then(|| thousandths(value.trim()).unwrap_or(0))
    });
    (name.trim(), quality.unwrap_or(1000))
}

/// `0.8` as 800 (RFC 9110, section 12.4.2).
fn thousandths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match whole {
        "0" => format!("{fraction:0<3}").parse().ok(),
        "1" if fraction.bytes().all(|byte| byte == b'0') => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn accepted(value: &str) -> Option<Coding> {
        let value = HeaderValue::try_from(value).expect("a value");
        Coding::accepted(&[(HeaderName::from_static("accept-encoding"), value)].into_iter().collect())
    }

    #[test]
    fn the_best_liked_coding_is_taken() {
        assert_eq!(accepted("gzip"), Some(Coding::Gzip));
        assert_eq!(accepted("gzip, deflate, br, zstd"), Some(Coding::Zstd));
        assert_eq!(accepted("gzip, br"), Some(Coding::Brotli));
        assert_eq!(accepted("gzip;q=0.9, BR;q=0.8"), Some(Coding::Gzip));
        assert_eq!(accepted("zstd;q=0, *;q=0.5"), Some(Coding::Brotli));
        assert_eq!(accepted("x-gzip"), Some(Coding::Gzip));
    }

    #[test]
    fn what_is_not_liked_or_not_readable_is_not_taken() {
        for value in
            ["", "identity", "deflate", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=x", "gzip;q=1.5", "gzip;q=0.1234"]
        {
            assert_eq!(accepted(value), None, "{value}");
        }
    }

    #[test]
    fn what_was_packed_comes_back() {
        let bytes = b"inventory ".repeat(1000);
        for coding in CODINGS {
            let packed = coding.pack(&bytes).expect("packed");
            assert!(packed.len() < bytes.len() / 10, "{}", coding.name());
            let Unpacked::Whole(unpacked) = coding.unpack(&packed, bytes.len()) else { panic!("{}", coding.name()) };
            assert_eq!(unpacked, bytes);
            assert!(matches!(coding.unpack(&packed, bytes.len() - 1), Unpacked::TooLarge), "{}", coding.name());
        }
    }

    #[test]
    fn bytes_that_end_too_early_or_are_something_else_are_broken() {
        for coding in CODINGS {
            let packed = coding.pack(&b"inventory ".repeat(1000)).expect("packed");
            for bytes in [&packed[..packed.len() / 2], b"{\"name\": \"no coding at all\"}"] {
                assert!(matches!(coding.unpack(bytes, 1_000_000), Unpacked::Broken(_)), "{}", coding.name());
            }
        }
    }

    #[test]
    fn a_window_that_would_take_more_memory_than_is_allowed_is_refused() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.window_log(ZSTD_WINDOW_LOG + 4).expect("a window");
        encoder.write_all(&vec![7; 1_000_000]).expect("written");
        let packed = encoder.finish().expect("packed");
        assert!(matches!(Coding::Zstd.unpack(&packed, 2_000_000), Unpacked::Broken(_)));
    }
}
