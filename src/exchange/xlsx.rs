//! Tables as xlsx, written row by row to a temporary file, in constant memory.
//!
//! Cells are those of CSV, also the apostrophes: text stays text when somebody saves the table as CSV.

use std::io::Write;

use bson::raw::RawDocument;
use rust_xlsxwriter::{Workbook, XlsxError};

use super::WriteError;
use super::cell::Cell;
use super::columns::Columns;

/// The maximum number of rows of a sheet, with the header.
pub const MAX_ROWS: u64 = 1_048_576;
/// The maximum number of columns of a sheet.
pub const MAX_COLUMNS: usize = 16_384;
/// The maximum number of characters of a cell.
pub const MAX_CHARACTERS: usize = 32_767;
/// Numbers with more digits are text: spreadsheet programs write only this number of digits when they save a file.
const DIGITS: usize = 15;

/// A sheet that is being written.
pub struct Sheet {
    workbook: Workbook,
    columns: Columns,
    header: Vec<String>,
    rows: u32,
}

impl Sheet {
    /// Begins a sheet with its header.
    ///
    /// # Errors
    /// When the type has too many fields, or there is no temporary file.
    pub fn begin(columns: Columns) -> Result<Self, WriteError> {
        if columns.count() > MAX_COLUMNS {
            return Err(WriteError::TooLarge(format!(
                "an xlsx sheet has at most {MAX_COLUMNS} columns, and this type needs {}; export as csv",
                columns.count()
            )));
        }
        let header = columns.header();
        let mut workbook = Workbook::new();
        workbook.add_worksheet_with_constant_memory().map_err(failed)?;
        let mut sheet = Self { workbook, columns, header, rows: 0 };
        let names: Vec<Cell<'static>> = sheet.header.iter().map(|name| Cell::Text(name.clone().into())).collect();
        sheet.push(&names, || "the header".to_owned())?;
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

    /// Writes a row for each object.
    ///
    /// # Errors
    /// When an object is damaged, or does not fit into the sheet: the sheet is then of no use.
    pub fn rows<'a>(&mut self, objects: impl Iterator<Item = &'a RawDocument>) -> Result<(), WriteError> {
        for object in objects {
            Self::check_rows(u64::from(self.rows))?;
            let row = self.columns.row(object)?;
            self.push(&row, || {
                let id = crate::domain::document::integer(object, "public_id").unwrap_or_default();
                format!("object {id}")
            })?;
        }
        Ok(())
    }

    fn push(&mut self, row: &[Cell<'_>], what: impl Fn() -> String) -> Result<(), WriteError> {
        let sheet = self.workbook.worksheet_from_index(0).map_err(failed)?;
        for (column, cell) in (0_u16..).zip(row) {
            let written = match cell {
                Cell::Empty => continue,
                Cell::Flag(flag) => sheet.write_boolean(self.rows, column, *flag),
                #[expect(clippy::cast_precision_loss, reason = "the condition leaves numbers that doubles have")]
                Cell::Integer(number) if has_few_digits(cell) => sheet.write_number(self.rows, column, *number as f64),
                Cell::Double(number) if number.fract() != 0.0 && has_few_digits(cell) => {
                    sheet.write_number(self.rows, column, *number)
                }
                // A cell does not distinguish 5.0 from 5.
                Cell::Double(_) | Cell::Integer(_) => sheet.write_string(self.rows, column, cell.as_text()),
                Cell::Text(text) if text.chars().count() > MAX_CHARACTERS => {
                    return Err(WriteError::TooLarge(format!(
                        "{}: {} has more than {MAX_CHARACTERS} characters, the most for a cell of xlsx; export as csv",
                        what(),
                        self.header[usize::from(column)]
                    )));
                }
                Cell::Text(text) => sheet.write_string(self.rows, column, &**text),
            };
            written.map_err(failed)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, file: impl Write + Send) -> Result<(), WriteError> {
        self.workbook.save_to_writer(file).map_err(failed)
    }
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
