//! Tables as CSV (RFC 4180, with line feeds between rows).

use std::io::Read;

pub use csv::StringRecord;

use super::WriteError;
use super::cell::Cell;
use super::encoding::{TextEncoding, line_ends};
use super::xlsx::MAX_COLUMNS;
use crate::raw::CorruptBson;

/// How a CSV file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvStyle {
    /// The character between two cells.
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

/// The character between two cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(u8);

/// The delimiters: their names in parameters and options, and their bytes.
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

    /// The delimiter that splits a line into the most cells.
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
pub fn header(names: Vec<String>, style: CsvStyle) -> Result<Vec<u8>, WriteError> {
    let mut bytes = if style.mark { style.encoding.mark().to_vec() } else { Vec::new() };
    let mut writer = writer(style);
    writer.write_record(names).map_err(|error| WriteError::Io(error.to_string()))?;
    bytes.extend(finished(writer, style)?);
    Ok(bytes)
}

/// Writes rows.
///
/// # Errors
/// Those of rows, and when the encoding lacks a character.
pub fn rows<'a, E: Into<WriteError>>(
    rows: impl Iterator<Item = Result<Vec<Cell<'a>>, E>>,
    style: CsvStyle,
) -> Result<Vec<u8>, WriteError> {
    let mut writer = writer(style);
    let failed = |error: csv::Error| WriteError::Io(error.to_string());
    for row in rows {
        for cell in row.map_err(Into::into)? {
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
    let text = String::from_utf8(bytes).map_err(|_| CorruptBson("text that is not UTF-8"))?;
    style.encoding.encode(text)
}

/// A table as it was read.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The cells of the header.
    pub header: Vec<String>,
    /// The line that the header is on, from 1.
    pub header_line: u64,
    /// What to say when the header is not understood, because the file has other tables.
    pub hint: Option<String>,
    /// The rows, each with the line that it begins on, from 1.
    pub rows: Vec<(u64, StringRecord)>,
}

/// Reads a table; without a given delimiter it uses the most frequent one in the header. Empty lines are skipped. Rows
/// may have more or fewer cells than the header.
///
/// # Errors
/// A line and a sentence for people, when there is no header, or a quote that opens a cell is never closed.
pub fn read(text: &str, delimiter: Option<Delimiter>) -> Result<Table, (u64, String)> {
    let empty = || (1, "the file is empty; it needs a header at least".to_owned());
    let first = text.split(['\r', '\n']).find(|line| !line.is_empty()).ok_or_else(empty)?;
    let delimiter = delimiter.unwrap_or_else(|| Delimiter::guess(first));
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter.byte())
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes().chain(END.as_bytes()));
    let mut table = Table::default();
    let (mut line, mut counted) = (1, 0);
    for record in reader.records() {
        let record = record.map_err(|error| (line, error.to_string()))?;
        let begin = record.position().map_or(0, |position| usize::try_from(position.byte()).unwrap_or(usize::MAX));
        // The position of a record is that of the empty lines before it.
        let begin = begin
            + text.as_bytes().get(begin..).unwrap_or_default().iter().take_while(|byte| b"\r\n".contains(byte)).count();
        // The end is a record of its own, so all cells are closed.
        if begin >= text.len() {
            return Ok(table);
        }
        line += line_ends(&text.as_bytes()[counted..begin]);
        counted = begin;
        if record.len() > MAX_COLUMNS {
            return Err((line, format!("has {} columns; a table has at most {MAX_COLUMNS}", record.len())));
        }
        if table.header.is_empty() {
            (table.header, table.header_line) = (record.iter().map(str::to_owned).collect(), line);
        } else {
            table.rows.push((line, record));
        }
    }
    // The line after the last one is part of a cell.
    Err((line, "a quote that opens a cell here, or in one of the lines behind, is not closed".to_owned()))
}

/// An upper bound of the memory of rows and cells without their text: each character that may end one counts.
pub fn room_of_cells(bytes: &[u8]) -> usize {
    const CELL: usize = 2 * size_of::<usize>();
    const ROW: usize = 192;
    let of_byte = |byte: &u8| match byte {
        b'\n' | b'\r' => ROW,
        b',' | b';' | b'\t' | b'|' => CELL,
        _ => 0,
    };
    bytes.iter().map(of_byte).fold(0, usize::saturating_add)
}

/// A line that is read after the last one of a file: unless a quote is open, it is a separate record.
const END: &str = "\nend";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_empty_cells_alone_counts_and_ends() {
        let (line, reason) = read(&format!("a\n{}", ",".repeat(100_000)), None).expect_err("too many columns");
        assert_eq!((line, reason.as_str()), (2, "has 100001 columns; a table has at most 16384"));
        assert!(room_of_cells(&b",".repeat(1000)) >= 8000 && room_of_cells(&b"a\n".repeat(1000)) >= 100_000);
        assert_eq!(room_of_cells(b"text"), 0);
    }

    #[test]
    fn rows_have_the_line_that_they_begin_on() {
        let table = read("\na;b\r\n\r\n1;\"two\nlines\"\r\n\n\n3\n4;5;6\n", None).expect("a table");
        assert_eq!(table.header, ["a", "b"]);
        let rows: Vec<(u64, Vec<&str>)> = table.rows.iter().map(|(line, row)| (*line, row.iter().collect())).collect();
        assert_eq!(rows, [(4, vec!["1", "two\nlines"]), (8, vec!["3"]), (9, vec!["4", "5", "6"])]);
    }

    #[test]
    fn lines_end_with_cr_lf_or_both() {
        let lines = |text: &str| {
            let table = read(text, None).expect("a table");
            (table.header_line, table.rows.iter().map(|(line, _)| *line).collect::<Vec<_>>())
        };
        assert_eq!(lines("name,v\ra,1\rb,bad\rc,3\rd,worse\r"), (1, vec![2, 3, 4, 5]));
        assert_eq!(lines("name,v\r\na,1\r\nb,2\rc,3\rd,4\n"), (1, vec![2, 3, 4, 5]));
        assert_eq!(lines("\r\rname,v\r\"a\rb\",1\r\"c\r\nd\",2\r\re,3"), (3, vec![4, 6, 9]));
        assert_eq!(read("a;b\r1,2;3,4\r5,6;7,8\r", None).expect("a table").header, ["a", "b"]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_an_error_with_its_line() {
        assert_eq!(read("a,b\n1,2\n3,\"4\n5,6\n", None).map_err(|(line, _)| line).err(), Some(3));
        assert_eq!(read("a,\"b\n1,2\n", None).map_err(|(line, _)| line).err(), Some(1));
        for closed in ["a\n\"x\"", "a\nx\"y\n", "a\n\"x\"\"\"\n", "a\n1\n\n", "a"] {
            assert!(read(closed, None).is_ok(), "{closed}");
        }
    }

    #[test]
    fn the_delimiter_is_the_one_that_the_header_has_most_of() {
        for (header, expected) in [("a,b;c,d", ','), ("a;b;c,d", ';'), ("a\tb", '\t'), ("a|b", '|'), ("alone", ',')] {
            assert_eq!(Delimiter::guess(header).character(), expected, "{header}");
        }
        assert!(read("", None).is_err() && read("\n\n", None).is_err());
    }
}
