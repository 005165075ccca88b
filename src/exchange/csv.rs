//! Tables as CSV (RFC 4180, with line feeds between rows).

use bson::raw::RawDocument;

use super::WriteError;
use super::columns::Columns;
use super::encoding::TextEncoding;

/// How a CSV file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvStyle {
    /// What stands between two cells.
    pub delimiter: Delimiter,
    /// Whether all cells are quoted, and not only those that need it.
    pub quote_all: bool,
    /// How characters are bytes.
    pub encoding: TextEncoding,
    /// Whether the file begins with a byte-order mark.
    pub mark: bool,
}

impl Default for CsvStyle {
    fn default() -> Self {
        Self { delimiter: Delimiter::default(), quote_all: false, encoding: TextEncoding::Utf8, mark: false }
    }
}

/// What stands between two cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(u8);

/// What may stand between two cells: the names by which parameters and options call it, and the byte.
const DELIMITERS: [(&str, u8); 9] = [
    (",", b','),
    (";", b';'),
    ("\t", b'\t'),
    ("|", b'|'),
    ("comma", b','),
    ("semicolon", b';'),
    ("tab", b'\t'),
    ("\\t", b'\t'),
    ("pipe", b'|'),
];

/// What a delimiter may be called, for people.
pub const DELIMITER_NAMES: &str = "comma, semicolon, tab, pipe, or the character itself";

impl Delimiter {
    /// The delimiter that is called so.
    pub fn named(name: &str) -> Option<Self> {
        DELIMITERS.iter().find(|(known, _)| *known == name).map(|(_, byte)| Self(*byte))
    }

    /// The one that parts a line into most cells.
    pub fn guess(line: &str) -> Self {
        let candidates = DELIMITERS[..4].iter().map(|(_, byte)| *byte);
        let count = |byte: &u8| line.bytes().filter(|other| other == byte).count();
        Self(candidates.rev().max_by_key(count).unwrap_or(b','))
    }

    /// Its character.
    pub fn character(self) -> char {
        char::from(self.0)
    }

    /// Its byte.
    pub fn byte(self) -> u8 {
        self.0
    }
}

impl Default for Delimiter {
    fn default() -> Self {
        Self(b',')
    }
}

/// Writes the beginning of a file: the mark, if it is wanted, and the header.
///
/// # Errors
/// When the encoding lacks a character.
pub fn header(columns: &Columns, style: CsvStyle) -> Result<Vec<u8>, WriteError> {
    let mut bytes = if style.mark { style.encoding.mark().to_vec() } else { Vec::new() };
    let mut writer = writer(style);
    writer.write_record(columns.header()).map_err(|error| WriteError::Io(error.to_string()))?;
    bytes.extend(finished(writer, style)?);
    Ok(bytes)
}

/// Writes a row for each object.
///
/// # Errors
/// When an object is damaged, or the encoding lacks a character.
pub fn rows<'a>(
    columns: &Columns,
    style: CsvStyle,
    objects: impl Iterator<Item = &'a RawDocument>,
) -> Result<Vec<u8>, WriteError> {
    let mut writer = writer(style);
    let failed = |error: csv::Error| WriteError::Io(error.to_string());
    for object in objects {
        for cell in columns.row(object)? {
            writer.write_field(cell.as_text().as_bytes()).map_err(failed)?;
        }
        writer.write_record(None::<&[u8]>).map_err(failed)?;
    }
    finished(writer, style)
}

fn writer(style: CsvStyle) -> csv::Writer<Vec<u8>> {
    let quoting = if style.quote_all { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
    csv::WriterBuilder::new().delimiter(style.delimiter.byte()).quote_style(quoting).from_writer(Vec::new())
}

fn finished(writer: csv::Writer<Vec<u8>>, style: CsvStyle) -> Result<Vec<u8>, WriteError> {
    let bytes = writer.into_inner().map_err(|error| WriteError::Io(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| crate::raw::CorruptBson("text that is not UTF-8"))?;
    style.encoding.encode(text)
}
