//! Tables from xlsx: the cells of the first sheet as the text that a CSV file would have in their place.
//!
//! Such a file is compressed, and states its own size and the places of its cells. So it is decompressed once, up to a
//! bound, before anything is read from it. Cells are read one after the other, and their number is bounded too.

use std::io::{self, Cursor, Read};

use calamine::{DataRef, ExcelDateTime, Reader, Xlsx};
use csv::StringRecord;
use zip::ZipArchive;

use super::cell::Cell;
use super::csv::Table;
use super::xlsx::MAX_COLUMNS;

/// The maximum size of a decompressed file, in bytes.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// The maximum of rows times columns, empty cells included.
const MOST_CELLS: usize = 20_000_000;
/// The maximum number of different texts.
const MOST_TEXTS: u64 = 4_000_000;
/// What a cell takes beside its text, from the table to the object that it becomes part of.
const CELL: usize = 48;
/// How much more the text of a cell takes on that way.
const GROWTH: usize = 4;
/// Memory is counted when it is so much.
const COUNTED: usize = 256 * 1024;
/// Whole numbers beyond this are not exact: a cell holds doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads the first sheet. Rows of empty cells are skipped. `room` reserves memory, and returns whether there is enough.
///
/// # Errors
/// A line and a sentence for people.
pub fn read(bytes: &[u8], room: &dyn Fn(usize) -> bool) -> Result<Table, (u64, String)> {
    let unreadable = |reason: String| (1, format!("the file cannot be read as xlsx: {reason}"));
    within_bounds(bytes).map_err(unreadable)?;
    let mut book = Xlsx::new(Cursor::new(bytes)).map_err(|error| unreadable(error.to_string()))?;
    let name = book.sheet_names().first().cloned().ok_or_else(|| unreadable("it has no sheet".to_owned()))?;
    let mut cells = book.worksheet_cells_reader(&name).map_err(|error| unreadable(error.to_string()))?;
    let mut rows = Rows { table: Table::default(), line: 0, row: Vec::new(), cells: 0, bytes: 0, uncounted: 0, room };
    while let Some(cell) = cells.next_cell_with_formula_metadata().map_err(|error| unreadable(error.to_string()))? {
        let (row, column) = cell.pos;
        let line = u64::from(row) + 1;
        if cell.formula.is_some() && matches!(cell.value, DataRef::Empty) {
            let name = name_of(row, column);
            let reason = format!(
                "the formula in cell {name} was never calculated; open the file in a spreadsheet program and save it, or put a value there"
            );
            return Err((line, reason));
        }
        let text = text_of(&cell.value).map_err(|reason| (line, format!("cell {} {reason}", name_of(row, column))))?;
        if let Some(text) = text {
            rows.put(line, column as usize, text).map_err(|reason| (line, reason))?;
        }
    }
    rows.finish()
}

/// Unpacks everything without keeping it.
fn within_bounds(bytes: &[u8]) -> Result<(), String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut left = MOST_BYTES;
    for index in 0..archive.len() {
        let part = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = part.name().map_err(|error| error.to_string())?;
        let has_texts = name.to_ascii_lowercase().ends_with("sharedstrings.xml");
        let mut part = part.take(left + 1);
        let read = if has_texts {
            unpack_texts(&mut part)?
        } else {
            io::copy(&mut part, &mut io::sink()).map_err(|error| error.to_string())?
        };
        if read > left {
            return Err(format!("it has {} when it is unpacked; save it as csv, or in several files", too_much()));
        }
        left -= read;
    }
    Ok(())
}

fn too_much() -> String {
    format!("more than {} MiB", MOST_BYTES >> 20)
}

/// Decompresses the texts that cells share. The part states their number, and the reader allocates memory for it first,
/// so this checks the number.
fn unpack_texts(part: &mut impl Read) -> Result<u64, String> {
    const NAME: &[u8] = b"uniqueCount";
    /// The name, a sign, two quotes and as many digits as make sense.
    const LONGEST: usize = 40;
    let (mut window, mut read) = (Vec::new(), 0);
    loop {
        let had = window.len();
        let piece = part.take(64 * 1024).read_to_end(&mut window).map_err(|error| error.to_string())?;
        read += piece as u64;
        // Neither stands in XML; with them a text is in an encoding in which the name is written in other bytes.
        if window[had..].iter().any(|byte| matches!(byte, 0 | 0x1b)) {
            return Err("its texts are not in utf-8".to_owned());
        }
        let ends = if piece == 0 { window.len() } else { window.len().saturating_sub(LONGEST) };
        for at in 0..ends {
            if let Some(said) = window[at..].strip_prefix(NAME) {
                let claimed = claimed(said).ok_or("how many texts it has is written in an odd way")?;
                if claimed > MOST_TEXTS {
                    return Err(format!("it says that it has {claimed} texts, more than {MOST_TEXTS}"));
                }
            }
        }
        if piece == 0 {
            return Ok(read);
        }
        window.drain(..ends);
    }
}

/// The number in `="12"`.
fn claimed(said: &[u8]) -> Option<u64> {
    let said = said.strip_prefix(b"=")?;
    let (quote, said) = said.split_first().filter(|(quote, _)| matches!(quote, b'"' | b'\''))?;
    let digits = &said[..said.iter().take(21).position(|byte| byte == quote)?];
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The text of a cell; nothing where it is empty.
fn text_of(value: &DataRef<'_>) -> Result<Option<String>, String> {
    Ok(Some(match value {
        DataRef::Empty => return Ok(None),
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number_text(*number),
        DataRef::String(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(flag) => Cell::Flag(*flag).as_text().into_owned(),
        DataRef::DateTime(moment) if moment.is_duration() => number_text(moment.as_f64()),
        DataRef::DateTime(moment) => moment_text(*moment),
        DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::Error(error) => return Err(format!("holds the error {error} of the spreadsheet")),
    })
    .filter(|text| !text.is_empty()))
}

/// What spreadsheets call a cell; both numbers are counted from 0.
fn name_of(row: u32, column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = u64::from(column) + 1;
    while rest > 0 {
        letters.insert(0, char::from(b'A' + ((rest - 1) % 26) as u8));
        rest = (rest - 1) / 26;
    }
    format!("{}{}", letters.iter().collect::<String>(), u64::from(row) + 1)
}

/// A cell does not tell 5.0 from 5.
fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return format!("{number:.0}");
    }
    Cell::Double(number).as_text().into_owned()
}

/// A day begins with 1; a smaller value is a time without a day.
fn moment_text(moment: ExcelDateTime) -> String {
    let (year, month, day, hour, minute, second, millisecond) = moment.to_ymd_hms_milli();
    if (0.0..1.0).contains(&moment.as_f64()) {
        let fraction = if millisecond == 0 { String::new() } else { format!(".{millisecond:03}") };
        return format!("{hour:02}:{minute:02}:{second:02}{fraction}");
    }
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// Rows on their way.
struct Rows<'a> {
    table: Table,
    line: u64,
    row: Vec<String>,
    cells: usize,
    /// Of all texts: a text that many cells share is unpacked once and counts for each of them.
    bytes: u64,
    /// Memory of rows that is still to be counted.
    uncounted: usize,
    room: &'a dyn Fn(usize) -> bool,
}

impl Rows<'_> {
    fn put(&mut self, line: u64, column: usize, text: String) -> Result<(), String> {
        if line != self.line {
            if line < self.line {
                return Err("the rows do not stand in their order".to_owned());
            }
            self.end_row()?;
            self.line = line;
        }
        let width = if self.table.header.is_empty() { MAX_COLUMNS } else { self.table.header.len() };
        if column >= width {
            let header = "the header is the first row that has cells";
            return Err(format!("has a cell in column {}, which has no header; {header}", column + 1));
        }
        self.bytes += text.len() as u64;
        if self.bytes > MOST_BYTES {
            return Err(format!("the texts of the sheet are {}; save it as csv, or in several files", too_much()));
        }
        if self.row.len() <= column {
            self.row.resize(column + 1, String::new());
        }
        self.row[column] = text;
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), String> {
        let mut row = std::mem::take(&mut self.row);
        if row.is_empty() {
            return Ok(());
        }
        if self.table.header.is_empty() {
            self.table.header = row;
            return Ok(());
        }
        self.cells += self.table.header.len();
        if self.cells > MOST_CELLS {
            return Err(format!("the sheet has more than {MOST_CELLS} cells; save it as csv, or in several files"));
        }
        self.count(&row)?;
        row.resize(self.table.header.len(), String::new());
        self.table.rows.push((self.line, StringRecord::from(row)));
        Ok(())
    }

    /// Empty cells take room, too.
    fn count(&mut self, row: &[String]) -> Result<(), String> {
        let texts: usize = row.iter().map(String::len).sum();
        self.uncounted += CELL * self.table.header.len() + GROWTH * texts;
        if self.uncounted >= COUNTED && !(self.room)(std::mem::take(&mut self.uncounted)) {
            return Err("there is no memory for so large a sheet; save it as csv, or in several files".to_owned());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Table, (u64, String)> {
        self.end_row().map_err(|reason| (self.line, reason))?;
        if self.table.header.is_empty() {
            return Err((1, "the first sheet is empty; it needs a header at least".to_owned()));
        }
        Ok(self.table)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rust_xlsxwriter::{ExcelDateTime, Format, Workbook};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Table, (u64, String)> {
        super::read(bytes, &|_| true)
    }

    #[test]
    fn a_sheet_that_needs_more_memory_than_there_is_is_refused() {
        let bytes = book(|sheet| {
            for row in 0..20_000 {
                sheet.write_string(row, 0, "name").expect("a cell");
            }
        });
        let left = std::cell::Cell::new(900 * 1024_usize);
        let room = |bytes: usize| left.get().checked_sub(bytes).map(|rest| left.set(rest)).is_some();
        assert!(super::read(&bytes, &room).is_err_and(|(_, reason)| reason.contains("in several files")));
        left.set(2 * 1024 * 1024);
        assert!(super::read(&bytes, &room).is_ok());
    }

    fn book(fill: impl FnOnce(&mut rust_xlsxwriter::Worksheet)) -> Vec<u8> {
        let mut book = Workbook::new();
        fill(book.add_worksheet());
        book.save_to_buffer().expect("a workbook")
    }

    #[test]
    fn cells_are_the_text_that_csv_has_in_their_place() {
        let bytes = book(|sheet| {
            for (column, name) in (0..).zip(["name", "cores", "rented", "bought"]) {
                sheet.write_string(0, column, name).expect("a cell");
            }
            let day = Format::new().set_num_format("yyyy-mm-dd");
            let bought = ExcelDateTime::parse_from_str("2024-02-29").expect("a day");
            sheet.write_string(3, 0, "=1+1").expect("a cell");
            sheet.write_number(3, 1, 2.5).expect("a cell");
            sheet.write_boolean(3, 2, true).expect("a cell");
            sheet.write_datetime_with_format(3, 3, &bought, &day).expect("a cell");
            sheet.write_number(4, 1, 4.0).expect("a cell");
        });
        let table = read(&bytes).expect("a table");
        assert_eq!(table.header, ["name", "cores", "rented", "bought"]);
        let rows: Vec<(u64, Vec<&str>)> = table.rows.iter().map(|(line, row)| (*line, row.iter().collect())).collect();
        assert_eq!(rows, [(4, vec!["=1+1", "2.5", "true", "2024-02-29T00:00:00.000Z"]), (5, vec!["", "4", "", ""])]);
    }

    #[test]
    fn a_time_of_day_is_no_day_of_1899() {
        let bytes = book(|sheet| {
            sheet.write_string(0, 0, "opens").expect("a cell");
            let time = Format::new().set_num_format("hh:mm:ss");
            for (row, text) in (1..).zip(["00:00:00", "08:30:15", "23:59:59.250", "1900-01-01"]) {
                let time_of_day = ExcelDateTime::parse_from_str(text).expect("a time");
                sheet.write_datetime_with_format(row, 0, &time_of_day, &time).expect("a cell");
            }
        });
        let table = read(&bytes).expect("a table");
        let texts: Vec<&str> = table.rows.iter().map(|(_, row)| &row[0]).collect();
        assert_eq!(texts, ["00:00:00", "08:30:15", "23:59:59.250", "1900-01-01T00:00:00.000Z"]);
    }

    /// A book with these cells below its header.
    fn with_cells(cells: &str) -> Vec<u8> {
        let bytes = book(|sheet| {
            sheet.write_string(0, 0, "name").expect("a cell");
            sheet.write_string(0, 1, "cores").expect("a cell");
        });
        with_part(&bytes, "xl/worksheets/sheet1.xml", |sheet| {
            sheet.replace("</sheetData>", &format!("<row r=\"2\">{cells}</row></sheetData>"))
        })
    }

    #[test]
    fn a_formula_is_what_was_calculated_and_refused_where_nothing_was() {
        let calculated = "<c r=\"A2\" t=\"str\"><f>\"a\"&amp;\"b\"</f><v>ab</v></c><c r=\"B2\"><f>1+1</f><v>2</v></c>";
        let table = read(&with_cells(calculated)).expect("a table");
        assert_eq!(table.rows[0].1.iter().collect::<Vec<_>>(), ["ab", "2"]);
        let empty = "<c r=\"A2\" t=\"str\"><f>\"\"</f><v></v></c><c r=\"B2\"><v>2</v></c>";
        let table = read(&with_cells(empty)).expect("a table");
        assert_eq!(table.rows[0].1.iter().collect::<Vec<_>>(), ["", "2"]);
        for never in ["<c r=\"B2\"><f>1+1</f></c>", "<c r=\"B2\"><f t=\"shared\" ref=\"B2:B3\" si=\"0\">1+1</f></c>"] {
            let (line, reason) = read(&with_cells(never)).expect_err("no value");
            assert_eq!(line, 2);
            assert!(reason.starts_with("the formula in cell B2 was never calculated; "), "{reason}");
        }
        let (_, reason) = read(&with_cells("<c r=\"B2\" t=\"e\"><f>1/0</f><v>#DIV/0!</v></c>")).expect_err("an error");
        assert_eq!(reason, "cell B2 holds the error #DIV/0! of the spreadsheet");
    }

    #[test]
    fn cells_are_called_what_spreadsheets_call_them() {
        for (column, name) in [(0, "A1"), (25, "Z1"), (26, "AA1"), (701, "ZZ1"), (702, "AAA1"), (16_383, "XFD1")] {
            assert_eq!(name_of(0, column), name);
        }
    }

    #[test]
    fn a_cell_far_out_takes_no_memory() {
        let bytes = book(|sheet| {
            sheet.write_string(0, 0, "name").expect("a cell");
            sheet.write_string(1_048_575, 16_383, "far").expect("a cell");
        });
        let (line, reason) = read(&bytes).expect_err("no header");
        let told = "has a cell in column 16384, which has no header; the header is the first row that has cells";
        assert_eq!((line, reason.as_str()), (1_048_576, told));
    }

    /// A book whose texts are these bytes.
    fn with_texts(texts: &[u8]) -> Vec<u8> {
        let bytes = book(|sheet| {
            sheet.write_string(0, 0, "name").expect("a cell");
            sheet.write_string(1, 0, "a").expect("a cell");
        });
        with_bytes(&bytes, "sharedStrings.xml", |_| texts.to_vec())
    }

    fn with_part(book: &[u8], name: &str, change: impl Fn(&str) -> String) -> Vec<u8> {
        with_bytes(book, name, |part| change(std::str::from_utf8(part).expect("UTF-8")).into_bytes())
    }

    /// The book with another part in the place of the one whose name ends like this.
    fn with_bytes(book: &[u8], ending: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut from = ZipArchive::new(Cursor::new(book)).expect("an archive");
        let mut to = ZipWriter::new(Cursor::new(Vec::new()));
        for index in 0..from.len() {
            let mut part = from.by_index(index).expect("a part");
            let name = part.name().expect("a name").into_owned();
            if name.ends_with(ending) {
                let mut bytes = Vec::new();
                part.read_to_end(&mut bytes).expect("bytes");
                to.start_file(name, SimpleFileOptions::default()).expect("a part");
                to.write_all(&change(&bytes)).expect("bytes");
            } else {
                to.raw_copy_file(part).expect("a part");
            }
        }
        to.finish().expect("an archive").into_inner()
    }

    #[test]
    fn no_room_is_made_for_texts_that_a_file_only_says_it_has() {
        let texts = |attribute: &str| {
            let text = format!("<?xml version=\"1.0\"?><sst {attribute}><si><t>name</t></si><si><t>a</t></si></sst>");
            with_texts(text.as_bytes())
        };
        assert!(read(&texts("uniqueCount=\"2\"")).is_ok());
        assert!(read(&texts("")).is_ok());
        for odd in [
            "uniqueCount=\"20000000000\"".to_owned(),
            "uniqueCount='4000001'".to_owned(),
            format!("uniqueCount=\"{}9\"", "0".repeat(200)),
            format!("uniqueCount{}=\"20000000000\"", " ".repeat(70_000)),
            format!("{}uniqueCount=\"20000000000\"", " ".repeat(64 * 1024 - 45)),
        ] {
            let (_, reason) = read(&texts(&odd)).expect_err("too many");
            assert!(reason.contains("texts"), "{reason}");
        }
        let wide: Vec<u8> = "<sst uniqueCount=\"20000000000\"/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(read(&with_texts(&wide)).is_err());
    }

    #[test]
    fn a_long_text_counts_for_each_cell_that_shares_it() {
        let long = "x".repeat(32_000);
        let bytes = book(|sheet| {
            sheet.write_string(0, 0, "name").expect("a cell");
            for row in 1..=9_000 {
                sheet.write_string(row, 0, &long).expect("a cell");
            }
        });
        assert!(bytes.len() < 4 << 20, "{}", bytes.len());
        let (_, reason) = read(&bytes).expect_err("too much");
        assert!(reason.contains("the texts of the sheet are more than 256 MiB"), "{reason}");
    }

    #[test]
    fn what_is_much_larger_when_it_is_unpacked_is_refused() {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("xl/worksheets/sheet1.xml", SimpleFileOptions::default()).expect("a part");
        let zeros = vec![0; 1 << 20];
        for _ in 0..=MOST_BYTES >> 20 {
            archive.write_all(&zeros).expect("zeros");
        }
        let bytes = archive.finish().expect("an archive").into_inner();
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        let (_, reason) = read(&bytes).expect_err("too large");
        assert!(reason.contains("more than 256 MiB when it is unpacked"), "{reason}");
        assert!(read(b"no archive").is_err());
    }
}
