//! The parts of an xlsx file that the reader of cells does not show: whether formulas were calculated, where days begin,
//! and the digits of numbers.
//!
//! The reader of cells gives doubles. A file may have written more digits, so this reads the text of the same cells
//! beside it, in the same order.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Cursor, Read, Seek};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;
use zip::read::ZipFile;

/// Where the first part of every such file is named.
const ROOT: &str = "_rels/.rels";

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
        Ok(CellTexts { reader: reader(BufReader::new(part)), event: Vec::new() })
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
        let (mut reader, mut event) = (reader(BufReader::new(part)), Vec::new());
        loop {
            event.clear();
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

/// The texts of cells, in the order of the file.
pub(super) struct CellTexts<'b, 'a> {
    reader: Reader<BufReader<ZipFile<'b, Cursor<&'a [u8]>>>>,
    event: Vec<u8>,
}

impl CellTexts<'_, '_> {
    /// The text of the value of the next cell; empty where it has none.
    ///
    /// # Errors
    /// When the sheet ends, or is damaged.
    pub(super) fn next_text(&mut self) -> Result<String, String> {
        let (mut is_cell, mut is_value, mut text) = (false, false, String::new());
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
                    "c" => return Ok(text),
                    "v" => is_value = false,
                    _ => {}
                },
                Event::Eof => return Err("the sheet ends within its cells".to_owned()),
                _ => {}
            }
        }
    }
}
