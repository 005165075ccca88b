//! The parts of an xlsx file that the reader of cells does not show: whether formulas were calculated, where days begin,
//! and the digits of numbers.
//!
//! The reader of cells gives doubles. A file may have written more digits, so this reads the text of the same cells
//! in the same order, always a cell ahead. It bounds the size of a cell, so the reader of cells never holds a larger one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;
use zip::read::ZipFile;

/// Where the first part of every such file is named.
const ROOT: &str = "_rels/.rels";
/// The maximum size of a cell in the file, with the bytes between it and the previous one: its text has at most 32,767
/// characters.
const MOST_BYTES_OF_CELL: usize = 4 * 1024 * 1024;

/// The parts of a file.
pub(super) struct Book<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// The parts of the sheets, in their order.
    sheets: Vec<String>,
    /// Whether its writer left the calculation of formulas to the program that opens it.
    pub(super) is_uncalculated: bool,
    /// Whether its days are counted from 1904, not from 1900.
    pub(super) is_from_1904: bool,
}

impl<'a> Book<'a> {
    /// Reads which parts there are.
    ///
    /// # Errors
    /// A sentence for people.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
        let mut book = Self { archive, sheets: Vec::new(), is_uncalculated: false, is_from_1904: false };
        let root = book.relations("", ROOT)?;
        let workbook = root.into_values().find(|relation| relation.kind == "officeDocument");
        let workbook = workbook.map_or_else(|| "xl/workbook.xml".to_owned(), |relation| relation.part);
        let (folder, name) = workbook.rsplit_once('/').unwrap_or(("", &workbook));
        let relations = book.relations(folder, &format!("{folder}/_rels/{name}.rels"))?;
        let (mut sheets, mut is_uncalculated, mut is_from_1904) = (Vec::new(), false, false);
        book.elements(&workbook, |element| match element.local_name().as_ref() {
            "sheet" => {
                let relation = attribute(element, "id").and_then(|id| relations.get(&id));
                sheets.push(relation.map(|relation| relation.part.clone()).unwrap_or_default());
            }
            "calcPr" => is_uncalculated = is_set(element, "fullCalcOnLoad"),
            "workbookPr" => is_from_1904 |= is_set(element, "date1904"),
            _ => {}
        })?;
        Ok(Self { sheets, is_uncalculated, is_from_1904, ..book })
    }

    /// The texts of the cells of a sheet, by its position.
    ///
    /// # Errors
    /// When there is no such part.
    pub(super) fn cells(&mut self, sheet: usize) -> Result<CellTexts<'_, 'a>, String> {
        let part = self.sheets.get(sheet).ok_or("a sheet has no part in it")?;
        let name = found(&self.archive, part);
        let part = self.archive.by_name(&name).map_err(|error| error.to_string())?;
        let part = Bounded { inner: BufReader::new(part), left: MOST_BYTES_OF_CELL };
        Ok(CellTexts { reader: reader(part), event: Vec::new() })
    }

    /// What a part says about relations to other parts, by their ids. A missing part has none.
    fn relations(&mut self, folder: &str, part: &str) -> Result<HashMap<String, Relation>, String> {
        let mut relations = HashMap::new();
        self.elements(part.trim_start_matches('/'), |element| {
            if element.local_name().as_ref() == "Relationship"
                && let (Some(id), Some(target)) = (attribute(element, "Id"), attribute(element, "Target"))
            {
                let kind = attribute(element, "Type").unwrap_or_default();
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                let part = match target.strip_prefix('/') {
                    Some(absolute) => absolute.to_owned(),
                    None if folder.is_empty() => target,
                    None => format!("{folder}/{target}"),
                };
                relations.insert(id, Relation { kind, part });
            }
        })?;
        Ok(relations)
    }

    /// Shows each element of a part.
    fn elements(&mut self, part: &str, mut each: impl FnMut(&BytesStart<'_>)) -> Result<(), String> {
        let name = found(&self.archive, part);
        let Ok(part) = self.archive.by_name(&name) else { return Ok(()) };
        let part = Bounded { inner: BufReader::new(part), left: MOST_BYTES_OF_CELL };
        let (mut reader, mut event) = (reader(part), Vec::new());
        loop {
            event.clear();
            reader.get_mut().left = MOST_BYTES_OF_CELL;
            match reader.read_event_into(&mut event).map_err(|error| error.to_string())? {
                Event::Start(element) => each(&element),
                Event::Eof => return Ok(()),
                _ => {}
            }
        }
    }
}

/// A relation to another part.
struct Relation {
    /// The last word of its type.
    kind: String,
    part: String,
}

/// The name of a part as the archive spells it. Writers differ in case.
fn found<R: Read + Seek>(archive: &ZipArchive<R>, part: &str) -> String {
    let known = archive.file_names().flatten().find(|name| name.eq_ignore_ascii_case(part));
    known.map_or_else(|| part.to_owned(), Cow::into_owned)
}

fn reader<R: BufRead>(part: R) -> Reader<R> {
    let mut reader = Reader::from_reader(part);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.expand_empty_elements = true;
    reader
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes().flatten();
    let attribute = attributes.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    attribute.normalized_value(XmlVersion::Implicit1_0).ok().map(Cow::into_owned)
}

fn is_set(element: &BytesStart<'_>, flag: &str) -> bool {
    attribute(element, flag).is_some_and(|flag| flag == "1" || flag == "true")
}

/// A part while it is unpacked.
type PartReader<'b, 'a> = BufReader<ZipFile<'b, Cursor<&'a [u8]>>>;

/// The texts of cells, in the order of the file.
pub(super) struct CellTexts<'b, 'a> {
    reader: Reader<Bounded<PartReader<'b, 'a>>>,
    event: Vec<u8>,
}

/// A part of which only a bounded number of bytes may be read until more are allowed.
struct Bounded<R> {
    inner: R,
    left: usize,
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Err(io::Error::other("a cell is larger than any spreadsheet has it"));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
        self.inner.consume(count);
    }
}

impl CellTexts<'_, '_> {
    /// The text of the value of the next cell; empty where it has none, and `None` after the last cell.
    ///
    /// # Errors
    /// When the sheet is damaged, or the cell too large.
    pub(super) fn next_text(&mut self) -> Result<Option<String>, String> {
        let (mut is_cell, mut is_value, mut text) = (false, false, String::new());
        self.reader.get_mut().left = MOST_BYTES_OF_CELL;
        loop {
            self.event.clear();
            match self.reader.read_event_into(&mut self.event).map_err(|error| error.to_string())? {
                Event::Start(element) => match element.local_name().as_ref() {
                    "c" => is_cell = true,
                    "v" => is_value = is_cell,
                    _ => {}
                },
                Event::Text(piece) if is_value => text.push_str(&piece),
                Event::End(element) => match element.local_name().as_ref() {
                    "c" => return Ok(Some(text)),
                    "v" => is_value = false,
                    "sheetData" => return Ok(None),
                    _ => {}
                },
                Event::Eof => return Ok(None),
                _ => {}
            }
        }
    }
}
