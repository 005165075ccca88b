//! Tables as xlsx, written row by row to a temporary file, in constant memory.
//!
//! Numbers, dates and texts are those of spreadsheets. No text is a formula, so texts have no apostrophes.

use std::io::Write;

use bson::DateTime;
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use super::WriteError;
use super::cell::{self, Cell};

/// The maximum number of rows of a sheet, with the header.
pub const MAX_ROWS: u64 = 1_048_576;
/// The maximum number of columns of a sheet.
pub const MAX_COLUMNS: usize = 16_384;
/// The maximum number of characters of a cell.
pub const MAX_CHARACTERS: usize = 32_767;
/// Numbers with more digits are text: spreadsheet programs write only this number of digits when they save a file.
const DIGITS: usize = 15;
/// Doubles from here on are not read back as whole numbers.
const WHOLE: f64 = 1e15;
/// The least and the most characters that a column shows.
const LEAST_WIDTH: usize = 6;
const MOST_WIDTH: usize = 60;

/// A sheet that is being written.
pub struct Sheet {
    workbook: Workbook,
    header: Vec<String>,
    rows: u32,
    /// The number of characters of the widest cell of each column.
    widths: Vec<usize>,
    formats: Formats,
}

/// How cells look.
struct Formats {
    header: Format,
    day: Format,
    second: Format,
    millisecond: Format,
    /// A text that stays one when somebody edits it.
    text: Format,
}

impl Default for Formats {
    fn default() -> Self {
        let of = |format: &str| Format::new().set_num_format(format);
        Self {
            header: Format::new().set_bold(),
            day: of("yyyy-mm-dd"),
            second: of("yyyy-mm-dd hh:mm:ss"),
            millisecond: of("yyyy-mm-dd hh:mm:ss.000"),
            text: of("@").set_quote_prefix(),
        }
    }
}

impl Sheet {
    /// Begins a sheet with its header.
    ///
    /// # Errors
    /// When there are too many columns, or there is no temporary file.
    pub fn begin(header: Vec<String>) -> Result<Self, WriteError> {
        if header.len() > MAX_COLUMNS {
            return Err(WriteError::TooLarge(format!(
                "an xlsx sheet has at most {MAX_COLUMNS} columns, and this table needs {}; export as csv",
                header.len()
            )));
        }
        let mut workbook = Workbook::new();
        workbook.add_worksheet_with_constant_memory().map_err(failed)?;
        let widths = vec![LEAST_WIDTH; header.len()];
        let mut sheet = Self { workbook, header, rows: 0, widths, formats: Formats::default() };
        let names: Vec<Cell<'static>> = sheet.header.iter().map(|name| Cell::Text(name.clone().into())).collect();
        sheet.push(&names, || "the header".to_owned())?;
        sheet.sheet()?.set_freeze_panes(1, 0).map_err(failed)?;
        Ok(sheet)
    }

    /// Refuses a number of objects that does not fit.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`].
    pub fn check_rows(objects: u64) -> Result<(), WriteError> {
        if objects < MAX_ROWS {
            return Ok(());
        }
        let most = MAX_ROWS - 1;
        Err(WriteError::TooLarge(format!(
            "an xlsx sheet has room for {most} objects, and these are {objects}; narrow the filter, or export as csv"
        )))
    }

    /// Writes a row. `what` names it in errors.
    ///
    /// # Errors
    /// When it does not fit into the sheet, which is then of no use.
    pub fn push(&mut self, row: &[Cell<'_>], what: impl Fn() -> String) -> Result<(), WriteError> {
        Self::check_rows(u64::from(self.rows))?;
        let (sheet, formats, at) = (self.workbook.worksheet_from_index(0).map_err(failed)?, &self.formats, self.rows);
        for (column, cell) in (0_u16..).zip(row) {
            let written = cell.as_text();
            let text = cell::bare(&written);
            if text.chars().count() > MAX_CHARACTERS {
                return Err(WriteError::TooLarge(format!(
                    "{}: {} has more than {MAX_CHARACTERS} characters, the most for a cell of xlsx; export as csv",
                    what(),
                    self.header[usize::from(column)]
                )));
            }
            let width = &mut self.widths[usize::from(column)];
            *width = text.chars().take(MOST_WIDTH).count().max(*width);
            let written = match cell {
                _ if text.is_empty() => continue,
                _ if at == 0 => sheet.write_string_with_format(at, column, &*text, &formats.header),
                Cell::Flag(flag) => sheet.write_boolean(at, column, *flag),
                Cell::Moment(moment) if let Some((days, format)) = formats.of_moment(*moment) => {
                    sheet.write_number_with_format(at, column, days, format)
                }
                Cell::Integer(_) | Cell::Double(_) if let Some(number) = number(cell) => {
                    sheet.write_number(at, column, number)
                }
                _ if text.starts_with(cell::FORMULA) => {
                    sheet.write_string_with_format(at, column, &*text, &formats.text)
                }
                _ => sheet.write_string(at, column, &*text),
            };
            written.map_err(failed)?;
        }
        self.rows += 1;
        Ok(())
    }

    fn sheet(&mut self) -> Result<&mut Worksheet, WriteError> {
        self.workbook.worksheet_from_index(0).map_err(failed)
    }

    /// Writes the whole file. The header stays in sight, and filters the rows.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, file: impl Write + Send) -> Result<(), WriteError> {
        let (widths, last) = (std::mem::take(&mut self.widths), self.rows.saturating_sub(1));
        let sheet = self.sheet()?;
        for (column, width) in (0_u16..).zip(&widths) {
            // The button of the filter takes room, too.
            let width = u32::try_from(*width + 3).unwrap_or(u32::MAX);
            sheet.set_column_width(column, width).map_err(failed)?;
        }
        if let Some(columns) = u16::try_from(widths.len()).ok().and_then(|count| count.checked_sub(1)) {
            sheet.autofilter(0, 0, last, columns).map_err(failed)?;
        }
        self.workbook.save_to_writer(file).map_err(failed)
    }
}

impl Formats {
    /// The days of a moment since the beginning of time of spreadsheets, which are wrong before March 1900.
    fn of_moment(&self, moment: DateTime) -> Option<(f64, &Format)> {
        const DAY: i64 = 86_400_000;
        /// 1899-12-30 and 1900-03-01.
        const BEGIN: i64 = -2_209_161_600_000;
        const FIRST: i64 = -2_203_891_200_000;
        let millis = moment.timestamp_millis();
        let format = match () {
            () if millis % DAY == 0 => &self.day,
            () if millis % 1000 == 0 => &self.second,
            () => &self.millisecond,
        };
        #[expect(clippy::cast_precision_loss, reason = "the number of days has few digits")]
        let days = (millis - BEGIN).div_euclid(DAY) as f64 + (millis - BEGIN).rem_euclid(DAY) as f64 / DAY as f64;
        (millis >= FIRST).then_some((days, format))
    }
}

/// A number of which a spreadsheet keeps all digits.
fn number(cell: &Cell<'_>) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "it has few digits")]
    let number = match cell {
        Cell::Integer(number) => *number as f64,
        Cell::Double(number) if number.fract() != 0.0 || number.abs() < WHOLE => *number,
        _ => return None,
    };
    let is_zero_below = number == 0.0 && number.is_sign_negative();
    (has_few_digits(cell) && !is_zero_below).then_some(number)
}

/// Whether a spreadsheet keeps all digits of a number.
fn has_few_digits(cell: &Cell<'_>) -> bool {
    let text = cell.as_text();
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0').count();
    digits <= DIGITS
}

fn failed(error: XlsxError) -> WriteError {
    WriteError::Io(error.to_string())
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};
    use std::sync::Arc;

    use super::*;
    use crate::domain::object_type::ObjectType;
    use crate::exchange::columns::{Columns, Referenced};
    use crate::exchange::locale::Locale;
    use crate::exchange::sheet;

    #[test]
    fn every_moment_comes_back_to_the_millisecond() {
        let document = doc! { "public_id": 1, "name": "box", "fields": [{ "name": "at", "type": "date" }] };
        let raw = bson::RawDocumentBuf::try_from(document).unwrap();
        let columns = Columns::of(&Arc::new(ObjectType::from_document(&raw).unwrap()), false, true);
        let moments = [i64::from(i32::MIN) * 1000, -2_203_891_200_001, -2_203_891_200_000, 253_402_300_799_999, 0, -1];
        let random = (0..5000_i64).map(|step| step * 50_664_523_117 + step);
        let moments: Vec<i64> = moments.into_iter().chain(random.map(|millis| millis - 2_203_891_200_000)).collect();
        let moments: Vec<i64> = moments.into_iter().filter(|millis| *millis <= 253_402_300_799_999).collect();
        let objects: Vec<_> = moments
            .iter()
            .map(|millis| {
                rawdoc! { "public_id": 1_i64, "fields": [{ "name": "at", "value": DateTime::from_millis(*millis) }] }
            })
            .collect();
        let mut sheet = Sheet::begin(columns.header()).unwrap();
        for object in &objects {
            sheet.push(&columns.row(object, &Referenced::new()).unwrap(), String::new).unwrap();
        }
        let mut bytes = Vec::new();
        sheet.finish(&mut bytes).unwrap();
        let table = sheet::read(&bytes, None, &Locale::default(), &|_| true).unwrap();
        assert_eq!(table.rows.len(), moments.len());
        for ((_, row), millis) in table.rows.iter().zip(moments) {
            assert_eq!(row[2], *Cell::Moment(DateTime::from_millis(millis)).as_text(), "{millis}");
        }
    }
}
