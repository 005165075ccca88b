//! Tables from xlsx: the cells of a sheet as the text that a CSV file would have in their place.
//!
//! Law: a cell is never read as another value than the one that it shows. What a spreadsheet has rounded, has not
//! calculated, or cannot show is an error that names the cell.
//!
//! Such a file is compressed, and states its own size and the places of its cells. So it is decompressed once, up to a
//! bound, before anything is read from it. Cells are read one after the other, and their number is bounded too.

use std::io::{self, Cursor, Read};

use calamine::{DataRef, ExcelDateTime, Reader, Sheet, SheetType, Xlsx};
use csv::StringRecord;
use zip::ZipArchive;

use super::book::Book;
use super::cell::Cell;
use super::csv::Table;
use super::locale::Locale;
use super::xlsx::MAX_COLUMNS;
use crate::json::exact::{is_kept, shortened};

/// The maximum size of a decompressed file, in bytes.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// The maximum of rows times columns, empty cells included.
const MOST_CELLS: usize = 20_000_000;
/// The maximum number of different texts.
const MOST_TEXTS: u64 = 4_000_000;
/// The bytes of a cell in addition to its text, from the table to the object that it becomes part of.
const CELL: usize = 48;
/// How much more the text of a cell takes on that way.
const GROWTH: usize = 4;
/// The number of bytes that are read before their memory is counted.
const COUNTED: usize = 256 * 1024;
/// Whole numbers beyond this are not exact: a cell holds doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What to say when there is no memory.
const NO_ROOM: &str = "there is not enough memory for this sheet; save it as csv, or in several files";
/// How a zip file begins, and so a spreadsheet.
const ZIP: &[u8] = b"PK\x03\x04";
/// How files of older programs begin, and spreadsheets that are protected by a password.
const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
/// The stream of a file with a password that has its content.
const PROTECTED: &str = "EncryptedPackage";

/// What a file is that is not text and that [`read`] does not read, or that only [`read`] reads.
pub fn foreign(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(ZIP) {
        return Some("is no text but a zip file; add format=xlsx for a spreadsheet");
    }
    bytes.starts_with(COMPOUND).then(|| compound(bytes))
}

fn compound(bytes: &[u8]) -> &'static str {
    let name: Vec<u8> = PROTECTED.encode_utf16().flat_map(u16::to_le_bytes).collect();
    if bytes.windows(name.len()).any(|window| window == name) {
        return "is protected by a password; save it without one";
    }
    "is of an old format, such as .xls; save it as .xlsx or as CSV"
}

/// Reads a sheet, by its name or its number from 1; without either the first one. Numbers are written as in `locale`. Rows
/// of empty cells are skipped. `room` reserves memory, and returns whether there is enough.
///
/// # Errors
/// A line and a sentence for people.
pub fn read(
    bytes: &[u8],
    sheet: Option<&str>,
    locale: &Locale,
    room: &dyn Fn(usize) -> bool,
) -> Result<Table, (u64, String)> {
    let unreadable = |reason: String| (1, format!("the file cannot be read as xlsx: {reason}"));
    if bytes.starts_with(COMPOUND) {
        return Err((1, compound(bytes).to_owned()));
    }
    within_bounds(bytes, room).map_err(unreadable)?;
    let mut parts = Book::open(bytes).map_err(unreadable)?;
    let mut book = Xlsx::new(Cursor::new(bytes)).map_err(|error| unreadable(error.to_string()))?;
    let sheets = book.sheets_metadata().to_vec();
    let place = chosen(&sheets, sheet).map_err(|reason| (1, reason))?;
    let dates = if parts.is_from_1904 { DAYS_FROM_1904 } else { DAYS_FROM_1900 };
    let is_uncalculated = parts.is_uncalculated;
    let mut texts = parts.cells(place).map_err(unreadable)?;
    let mut next = texts.next_text().map_err(unreadable)?;
    let mut cells = book.worksheet_cells_reader(&sheets[place].name).map_err(|error| unreadable(error.to_string()))?;
    let mut rows = Rows { table: Table::default(), line: 0, row: Vec::new(), cells: 0, bytes: 0, uncounted: 0, room };
    rows.table.hint = others(&sheets, place);
    while let Some(cell) = cells.next_cell_with_formula_metadata().map_err(|error| unreadable(error.to_string()))? {
        let written = next.ok_or_else(|| unreadable("its cells are damaged".to_owned()))?;
        next = texts.next_text().map_err(unreadable)?;
        let (row, column) = cell.pos;
        let line = u64::from(row) + 1;
        let is_empty =
            matches!(cell.value, DataRef::Empty) || is_uncalculated && matches!(cell.value, DataRef::Float(0.0));
        if cell.formula.is_some() && is_empty {
            let name = name_of(row, column);
            let reason = format!(
                "the formula in cell {name} was never calculated; open the file in a spreadsheet program and save it, or put a value there"
            );
            return Err((line, reason));
        }
        let text = text_of(&cell.value, &written, (dates, locale.decimal()));
        let text = text.map_err(|reason| (line, format!("cell {} {reason}", name_of(row, column))))?;
        if let Some(text) = text {
            rows.put(line, column as usize, text).map_err(|reason| (line, reason))?;
        }
    }
    rows.finish()
}

/// The position of the sheet that is named, or of the first one.
fn chosen(sheets: &[Sheet], named: Option<&str>) -> Result<usize, String> {
    let by_name = |name: &str| sheets.iter().position(|sheet| sheet.name.trim() == name.trim());
    let by_number = |name: &str| name.parse::<usize>().ok()?.checked_sub(1).filter(|place| *place < sheets.len());
    let place = match named {
        None if sheets.is_empty() => return Err("the file has no sheet".to_owned()),
        None => 0,
        Some(name) => by_name(name).or_else(|| by_number(name)).ok_or_else(|| {
            format!("there is no sheet {name}; the file has {}", listed(sheets.iter().map(|sheet| sheet.name.as_str())))
        })?,
    };
    let what = match sheets[place].typ {
        SheetType::WorkSheet => return Ok(place),
        SheetType::ChartSheet => "a chart",
        _ => "no table",
    };
    let tables = sheets.iter().filter(|sheet| sheet.typ == SheetType::WorkSheet).map(|sheet| sheet.name.as_str());
    let tables: Vec<&str> = tables.collect();
    let rest = if tables.is_empty() {
        "the file has no other".to_owned()
    } else {
        format!("choose one by sheet=<name or number>: {}", listed(tables.into_iter()))
    };
    Err(format!("the sheet {} is {what}; {rest}", sheets[place].name))
}

/// What to say when the sheet is probably not the intended one; nothing where there is no other.
fn others(sheets: &[Sheet], place: usize) -> Option<String> {
    let others = sheets.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, sheet)| sheet.name.as_str());
    (sheets.len() > 1).then(|| {
        format!(
            "the sheet {} was read; choose another by sheet=<name or number>: {}",
            sheets[place].name,
            listed(others)
        )
    })
}

/// Names with commas between them, not too many.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 20;
    let names: Vec<&str> = names.collect();
    let more = if names.len() > MOST { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(MOST)].join(", "))
}

/// Unpacks everything without keeping it.
fn within_bounds(bytes: &[u8], room: &dyn Fn(usize) -> bool) -> Result<(), String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut left = MOST_BYTES;
    for index in 0..archive.len() {
        let part = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = part.name().map_err(|error| error.to_string())?;
        let has_texts = name.to_ascii_lowercase().ends_with("sharedstrings.xml");
        let mut part = part.take(left + 1);
        let read = if has_texts {
            let read = unpack_texts(&mut part)?;
            // The reader holds all texts in memory.
            if !room(usize::try_from(read).unwrap_or(usize::MAX)) {
                return Err(NO_ROOM.to_owned());
            }
            read
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
        // Neither occurs in XML; with them a text is in an encoding in which the name is written in other bytes.
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

/// The days that a spreadsheet shows as dates: from 1900-01-01, or from 1904-01-01, up to 9999-12-31. Less than a day is a
/// time.
const DAYS_FROM_1900: f64 = 2_958_466.0;
const DAYS_FROM_1904: f64 = 2_957_004.0;

/// The text of a cell; nothing where it is empty. `written` is the text of its value in the file. Dates end before
/// `days`, and `decimal` is before the decimals of numbers.
fn text_of(value: &DataRef<'_>, written: &str, (days, decimal): (f64, char)) -> Result<Option<String>, String> {
    Ok(Some(match value {
        DataRef::Empty => return Ok(None),
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number_text(*number, written.trim())?.replace('.', decimal.encode_utf8(&mut [0; 4])),
        DataRef::String(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(flag) => Cell::Flag(*flag).as_text().into_owned(),
        DataRef::DateTime(moment) if moment.is_duration() => duration_text(moment.as_f64())?,
        DataRef::DateTime(moment) if (0.0..days).contains(&moment.as_f64()) => moment_text(*moment),
        DataRef::DateTime(moment) => {
            return Err(format!("is formatted as a date, but {} is none that a spreadsheet has", moment.as_f64()));
        }
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

/// A cell does not distinguish 5.0 from 5. A number that a spreadsheet cannot hold exactly may have been another one.
fn number_text(number: f64, written: &str) -> Result<String, String> {
    let is_whole = number.fract() == 0.0;
    let text = if is_whole { format!("{number:.0}") } else { Cell::Double(number).as_text().into_owned() };
    let is_rounded =
        !number.is_finite() || is_whole && number.abs() > EXACT || number.abs() == EXACT && text != written;
    if is_rounded || !is_kept(written) {
        let written = if written.is_empty() { text } else { shortened(written) };
        return Err(format!(
            "holds the number {written}, which a spreadsheet rounds; format the column as text, and enter the number again"
        ));
    }
    Ok(text)
}

/// Hours, minutes and seconds, as a spreadsheet shows them.
fn duration_text(days: f64) -> Result<String, String> {
    /// Days of some thousand years.
    const MOST: f64 = 3_000_000.0;
    if !(-MOST..MOST).contains(&days) {
        return Err(format!("is formatted as a duration, but {days} days are too long"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the number of milliseconds is bounded")]
    let milliseconds = (days * 86_400_000.0).round() as i64;
    let sign = if milliseconds < 0 { "-" } else { "" };
    let (seconds, rest) = (milliseconds.abs() / 1000, milliseconds.abs() % 1000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    Ok(format!("{sign}{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60))
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
                return Err("the rows are not in order".to_owned());
            }
            self.end_row()?;
            self.line = line;
        }
        let width = if self.table.header.is_empty() { MAX_COLUMNS } else { self.table.header.len() };
        if column >= width {
            let hint = self.table.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            let header = "the header is the first row that has cells";
            return Err(format!("has a cell in column {}, which has no header; {header}{hint}", column + 1));
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
            (self.table.header, self.table.header_line) = (row, self.line);
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
            return Err(NO_ROOM.to_owned());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Table, (u64, String)> {
        self.end_row().map_err(|reason| (self.line, reason))?;
        if self.table.header.is_empty() {
            let hint = self.table.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            return Err((1, format!("the sheet is empty; it needs a header at least{hint}")));
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
        super::read(bytes, None, &Locale::default(), &|_| true)
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
        assert!(
            super::read(&bytes, None, &Locale::default(), &room)
                .is_err_and(|(_, reason)| reason.contains("in several files"))
        );
        left.set(2 * 1024 * 1024);
        assert!(super::read(&bytes, None, &Locale::default(), &room).is_ok());
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

    fn texts(bytes: &[u8]) -> Vec<String> {
        let table = read(bytes).expect("a table");
        table.rows.iter().flat_map(|(_, row)| row.iter().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn a_number_that_a_spreadsheet_rounds_is_refused_with_its_cell() {
        for rounded in [
            "8939010102358478435", "8939010102358478436", "8.9390101023584788E+18", "12345678901234567",
            "-12345678901234568", "9007199254740993", "0.12345678901234567890123", "5e-400", "1E+300",
        ] {
            let (line, reason) = read(&with_cells(&format!("<c r=\"A2\"><v>{rounded}</v></c>"))).expect_err(rounded);
            let told = format!(
                "cell A2 holds the number {rounded}, which a spreadsheet rounds; format the column as text, and"
            );
            assert!(line == 2 && reason.starts_with(&told), "{reason}");
        }
        for (kept, text) in [
            ("9007199254740992", "9007199254740992"),
            ("-9007199254740991", "-9007199254740991"),
            ("0.10000000000000001", "0.1"),
            ("1.5E-7", "1.5e-7"),
            ("4.0", "4"),
            ("1E3", "1000"),
            ("0.1", "0.1"),
        ] {
            assert_eq!(texts(&with_cells(&format!("<c r=\"A2\"><v>{kept}</v></c><c r=\"B2\"/>")))[0], text);
        }
    }

    #[test]
    fn a_formula_that_its_writer_left_to_others_is_refused_where_it_is_zero() {
        let later = |cells: &str| {
            with_part(&with_cells(cells), "xl/workbook.xml", |book| {
                book.replace("<calcPr calcId=\"124519\"/>", "<calcPr fullCalcOnLoad=\"1\"/>")
            })
        };
        let zero = later("<c r=\"B2\"><f>1+1</f><v>0</v></c>");
        let (_, reason) = read(&zero).expect_err("not calculated");
        assert!(reason.starts_with("the formula in cell B2 was never calculated; "), "{reason}");
        assert_eq!(texts(&later("<c r=\"A2\"><v>0</v></c><c r=\"B2\"><f>1+1</f><v>2</v></c>")), ["0", "2"]);
        let mut book = Workbook::new();
        let sheet = book.add_worksheet();
        sheet.write_string(0, 0, "name").expect("a cell");
        sheet.write_formula(1, 0, "=\"a\"&\"b\"").expect("a cell");
        assert!(read(&book.save_to_buffer().expect("a workbook")).is_err());
    }

    /// A book with these values in one column, formatted so.
    fn formatted(values: &[f64], format: &str) -> Vec<u8> {
        book(|sheet| {
            sheet.write_string(0, 0, "at").expect("a cell");
            let format = Format::new().set_num_format(format);
            for (row, value) in (1..).zip(values) {
                sheet.write_number_with_format(row, 0, *value, &format).expect("a cell");
            }
        })
    }

    #[test]
    fn a_cell_that_is_larger_than_any_is_refused_before_it_is_held() {
        let long = format!("<c r=\"A2\" t=\"inlineStr\"><is><t>{}</t></is></c>", "x".repeat(5 << 20));
        let (_, reason) = read(&with_cells(&long)).expect_err("too large");
        assert!(reason.ends_with("a cell is larger than any spreadsheet has it"), "{reason}");
        let fine = format!("<c r=\"A2\" t=\"inlineStr\"><is><t>{}</t></is></c>", "x".repeat(32_767));
        assert_eq!(texts(&with_cells(&format!("{fine}<c r=\"B2\"/>")))[0].len(), 32_767);
    }

    #[test]
    fn a_date_that_no_spreadsheet_shows_is_refused() {
        for value in [3_000_000.0, 2_958_466.0, -1.0, -0.5] {
            let (line, reason) = read(&formatted(&[1.0, value], "yyyy-mm-dd")).expect_err("no date");
            let told = format!("cell A3 is formatted as a date, but {value} is none that a spreadsheet has");
            assert_eq!((line, reason), (3, told));
        }
        assert_eq!(texts(&formatted(&[2_958_465.0], "yyyy-mm-dd")), ["9999-12-31T00:00:00.000Z"]);
        let from_1904 = |value| {
            with_part(&formatted(&[value], "yyyy-mm-dd"), "xl/workbook.xml", |book| {
                book.replace("<workbookPr ", "<workbookPr date1904=\"1\" ")
            })
        };
        assert_eq!(texts(&from_1904(2_957_003.0)), ["9999-12-31T00:00:00.000Z"]);
        assert!(read(&from_1904(2_957_004.0)).is_err());
    }

    #[test]
    fn a_duration_is_hours_as_a_spreadsheet_shows_them() {
        let found = texts(&formatted(&[1.5, 0.25, 100.0, 1.0 / 86_400_000.0, -0.5], "[h]:mm:ss"));
        assert_eq!(found, ["36:00:00", "06:00:00", "2400:00:00", "00:00:00.001", "-12:00:00"]);
        assert!(read(&formatted(&[1e9], "[h]:mm:ss")).is_err());
    }

    /// Three sheets, the first of which is a cover.
    fn three_sheets() -> Vec<u8> {
        let mut book = Workbook::new();
        for (name, header) in [("Cover", "Assets"), ("Data", "name"), ("2024", "more")] {
            let sheet = book.add_worksheet().set_name(name).expect("a name");
            sheet.write_string(2, 0, header).expect("a cell");
        }
        book.save_to_buffer().expect("a workbook")
    }

    #[test]
    fn a_sheet_is_chosen_by_name_or_number() {
        let bytes = three_sheets();
        for (sheet, header) in
            [(None, "Assets"), (Some("Data"), "name"), (Some("2"), "name"), (Some("2024"), "more"), (Some("3"), "more")]
        {
            let table = super::read(&bytes, sheet, &Locale::default(), &|_| true).expect("a table");
            assert_eq!((table.header, table.header_line), (vec![header.to_owned()], 3));
        }
        let hint = read(&bytes).expect("a table").hint;
        assert_eq!(
            hint.as_deref(),
            Some("the sheet Cover was read; choose another by sheet=<name or number>: Data, 2024")
        );
        for wrong in ["4", "0", "data"] {
            let (_, reason) =
                super::read(&bytes, Some(wrong), &Locale::default(), &|_| true).expect_err("no such sheet");
            assert_eq!(reason, format!("there is no sheet {wrong}; the file has Cover, Data, 2024"));
        }
    }

    #[test]
    fn a_chart_a_password_and_an_old_file_have_words_of_their_own() {
        let mut workbook = Workbook::new();
        let mut chart = rust_xlsxwriter::Chart::new_column();
        chart.add_series().set_values("Data!$A$1:$A$2");
        workbook.add_chartsheet().set_name("Graph").expect("a name").insert_chart(0, 0, &chart).expect("a chart");
        workbook.add_worksheet().set_name("Data").expect("a name").write_string(0, 0, "name").expect("a cell");
        let bytes = workbook.save_to_buffer().expect("a workbook");
        let (_, reason) = read(&bytes).expect_err("a chart");
        assert_eq!(reason, "the sheet Graph is a chart; choose one by sheet=<name or number>: Data");
        assert!(super::read(&bytes, Some("Data"), &Locale::default(), &|_| true).is_ok());
        let wide: Vec<u8> = PROTECTED.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let protected = [COMPOUND, &[0; 100], &wide].concat();
        assert_eq!(read(&protected).expect_err("protected").1, "is protected by a password; save it without one");
        let old = [COMPOUND, &[0; 100]].concat();
        assert_eq!(read(&old).expect_err("old").1, "is of an old format, such as .xls; save it as .xlsx or as CSV");
        assert_eq!(foreign(&old), Some("is of an old format, such as .xls; save it as .xlsx or as CSV"));
        assert!(foreign(&bytes).is_some_and(|told| told.contains("format=xlsx")) && foreign(b"name\n").is_none());
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

    /// The book with another part instead of the one whose name ends like this.
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
