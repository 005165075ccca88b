//! The results of a pipeline as a table: a column for each member, in the order in which they first occur.

use std::collections::HashMap;
use std::io::Write;

use bson::raw::RawDocument;
use bson::spec::ElementType;

use super::WriteError;
use super::cell::{Cell, guarded};
use super::csv::{self, CsvStyle};
use super::xlsx::{MAX_COLUMNS, Sheet};
use crate::domain::object_fields::ValueKind;
use crate::raw::{CorruptBson, Element, Elements, Value};

/// The maximum of rows times columns, empty cells included.
const MOST_CELLS: usize = 5_000_000;
/// The maximum of the bytes of all paths of a result.
const MOST_BYTES: usize = 16 << 20;

/// Results with the columns that they need.
pub struct Report<'d> {
    documents: Vec<&'d RawDocument>,
    /// Paths of members; those of documents have dots.
    paths: HashMap<String, usize>,
}

impl<'d> Report<'d> {
    /// Finds the columns.
    ///
    /// # Errors
    /// When there would be too many columns or cells, or a result is damaged.
    pub fn of(documents: impl Iterator<Item = &'d RawDocument>) -> Result<Self, WriteError> {
        let mut report = Self { documents: Vec::new(), paths: HashMap::new() };
        for document in documents {
            for (path, _) in members(document)? {
                let next = report.paths.len();
                report.paths.entry(path).or_insert(next);
            }
            report.documents.push(document);
            let cells = report.paths.len().saturating_mul(report.documents.len());
            if report.paths.len() > MAX_COLUMNS || cells > MOST_CELLS {
                return Err(too_large());
            }
        }
        Ok(report)
    }

    /// As CSV.
    ///
    /// # Errors
    /// When the encoding lacks a character.
    pub fn csv(&self, style: CsvStyle) -> Result<Vec<u8>, WriteError> {
        if self.paths.is_empty() {
            return Ok(Vec::new());
        }
        let mut text = csv::header(self.header(), style)?;
        text.extend(csv::rows(self.documents.iter().map(|document| self.row(document)), style)?);
        Ok(text)
    }

    /// As a sheet.
    ///
    /// # Errors
    /// When a text is too long for a cell.
    pub fn xlsx(&self, file: impl Write + Send) -> Result<(), WriteError> {
        let mut sheet = Sheet::begin(self.header())?;
        for (number, document) in self.documents.iter().enumerate() {
            sheet.push(&self.row(document)?, || format!("result {}", number + 1))?;
        }
        sheet.finish(file)
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec![String::new(); self.paths.len()];
        for (path, place) in &self.paths {
            header[*place] = guarded(path).into_owned();
        }
        header
    }

    fn row(&self, document: &'d RawDocument) -> Result<Vec<Cell<'d>>, WriteError> {
        let mut row: Vec<Option<Cell<'d>>> = (0..self.paths.len()).map(|_| None).collect();
        for (path, value) in members(document)? {
            let kind = match value.element_type() {
                ElementType::DateTime => ValueKind::Date,
                ElementType::String => ValueKind::Text,
                _ => ValueKind::Any,
            };
            let Some(place) = self.paths.get(&path) else { continue };
            if row[*place].replace(Cell::of(kind, value)?).is_some() {
                let message = format!("two members of a result are {path}; end the pipeline with a $project");
                return Err(WriteError::TooLarge(message));
            }
        }
        Ok(row.into_iter().map(|cell| cell.unwrap_or(Cell::Empty)).collect())
    }
}

fn too_large() -> WriteError {
    WriteError::TooLarge(format!(
        "the results have more than {MAX_COLUMNS} members or {MOST_CELLS} cells, or long names; end the pipeline with a $project"
    ))
}

/// Values with their paths. A document is its members, unless it has none.
fn members(document: &RawDocument) -> Result<Vec<(String, Value<'_>)>, WriteError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut open = vec![(String::new(), Elements::of(document))];
    while let Some((prefix, elements)) = open.last_mut() {
        let Some(Element { name, value }) = elements.next_element()? else {
            open.pop();
            continue;
        };
        let name = std::str::from_utf8(name).map_err(|_| CorruptBson("a name that is not UTF-8"))?;
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        bytes += path.len();
        if found.len() >= MAX_COLUMNS || bytes > MOST_BYTES {
            return Err(too_large());
        }
        match value.as_document().filter(|inner| inner.clone().next().is_some()) {
            Some(inner) => open.push((path, inner)),
            None => found.push((path, value)),
        }
    }
    Ok(found)
}
