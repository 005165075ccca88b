//! A file as rows: the content of each line, without queries to the store.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bson::{Bson, Document, RawDocumentBuf};

use super::report::{ReportError, ReportErrors};
use crate::domain::object_fields::ValueKind;
use crate::domain::object_type::{Field, ObjectType};
use crate::domain::unique::key_text;
use crate::exchange::cell;
use crate::exchange::columns::{Heading, id_of_cell, nameless};
use crate::exchange::csv::{self, Delimiter, StringRecord};
use crate::exchange::encoding::{self, TextEncoding};
use crate::exchange::locale::Locale;
use crate::exchange::sheet;
use crate::json;
use crate::plural::counted;
use crate::service::resource::{self, MAX_WANTED_ID};
use crate::service::types::catalog::{TypeEntry, Types};

/// The form of a file that comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportForm {
    /// A table as text.
    Csv {
        /// The delimiter of cells; `None`: the most frequent one in the header.
        delimiter: Option<Delimiter>,
        /// The encoding; `None`: that of the byte-order mark, else UTF-8.
        encoding: Option<TextEncoding>,
    },
    /// An object a line.
    Ndjson,
    /// A table of a spreadsheet.
    Xlsx {
        /// The name of the sheet, or its number from 1; `None`: the first one.
        sheet: Option<String>,
    },
}

/// A file that was read.
#[derive(Default)]
pub(super) struct ImportRows {
    /// What the columns of a table are.
    pub(super) columns: Vec<Heading>,
    /// The columns that refer to objects by the value of a field.
    pub(super) links: Vec<ReferenceColumn>,
    /// The line of the header of a table.
    pub(super) header: u64,
    pub(super) list: Vec<Row>,
    pub(super) errors: ReportErrors,
    pub(super) warnings: Vec<ReportError>,
}

/// A column that refers to objects by the value of a field, with those that have further values.
pub(super) struct ReferenceColumn {
    /// The position of the field that refers.
    position: usize,
    /// The type that is referred to.
    pub(super) target: Arc<TypeEntry>,
    /// Columns in the table, with the name of the field of that type.
    pub(super) parts: Vec<(usize, String)>,
}

/// What the cells of a [`ReferenceColumn`] say.
pub(super) enum LinkValue {
    /// No object.
    None,
    /// The id of the object.
    Id(i64),
    /// The value of each part.
    Values(Vec<Bson>),
}

impl LinkValue {
    /// A text that is the same for equal values.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Values(values) => text_of_all(values.iter()),
            Self::None | Self::Id(_) => None,
        }
    }
}

/// A text that is the same for equal lists of values; none where one of them cannot be looked up.
pub(super) fn text_of_all<'a>(values: impl Iterator<Item = &'a Bson>) -> Option<String> {
    let texts: Option<Vec<String>> = values.map(key_text).collect();
    texts.map(|texts| texts.join("\0"))
}

/// A line of the file.
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) source: RowSource,
    /// The id that the line names.
    pub(super) public_id: Option<i64>,
    /// The value of the key field, if the import has a key.
    pub(super) key: Option<Bson>,
    /// For each of [`ImportRows::links`] what refers to an object.
    pub(super) links: Vec<LinkValue>,
    /// The id of a new object to which other lines may refer.
    pub(super) given: Option<GivenId>,
}

/// The id of a new object whose line names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GivenId {
    pub(super) id: i64,
    /// Whether the store has not reserved it.
    pub(super) is_stand_in: bool,
}

/// What the line says.
pub(super) enum RowSource {
    Cells(StringRecord),
    Document(RawDocumentBuf),
}

/// What a file is read by.
pub(super) struct RowReading {
    pub(super) types: Arc<Types>,
    pub(super) entry: Arc<TypeEntry>,
    /// The position of the key field.
    pub(super) key: Option<usize>,
    /// How cells are read.
    pub(super) locale: Locale,
    /// The types that are not there for the caller.
    pub(super) unseen: HashSet<i64>,
}

/// The memory that an import takes, as a multiple of the size of its file.
const GROWTH: usize = 4;

/// Reads the table that a file is. `room` reserves memory, and returns whether there is enough.
///
/// # Errors
/// A line and a sentence for people.
pub(super) fn read_table(
    file: &[u8],
    form: &ImportForm,
    locale: &Locale,
    room: &dyn Fn(usize) -> bool,
) -> Result<csv::Table, (u64, String)> {
    match form {
        ImportForm::Xlsx { sheet } => sheet::read(file, sheet.as_deref(), locale, room),
        ImportForm::Csv { delimiter, encoding } => {
            check_text(file, room)?;
            encoding::decode(file, *encoding).and_then(|text| csv::read(&text, *delimiter))
        }
        ImportForm::Ndjson => Err((1, "is no table; send CSV or xlsx".to_owned())),
    }
}

/// Lines of JSON as text.
fn lines_of<'f>(file: &'f [u8], room: &dyn Fn(usize) -> bool) -> Result<Cow<'f, str>, (u64, String)> {
    check_text(file, room)?;
    encoding::decode(file, Some(TextEncoding::Utf8))
}

/// Refuses other bytes than text, and text that is too large for the memory.
fn check_text(file: &[u8], room: &dyn Fn(usize) -> bool) -> Result<(), (u64, String)> {
    if let Some(reason) = sheet::foreign(file) {
        return Err((1, reason.to_owned()));
    }
    if !room(file.len().saturating_mul(GROWTH).saturating_add(csv::room_of_cells(file))) {
        return Err((1, "there is not enough memory for this file; send it in several files".to_owned()));
    }
    Ok(())
}

impl RowReading {
    /// Reads a file; the result contains its errors. `room` reserves memory, and returns whether there is enough.
    pub(super) fn read(&self, file: &[u8], form: &ImportForm, room: &dyn Fn(usize) -> bool) -> ImportRows {
        let refused = |line, reason: String| {
            let mut rows = ImportRows::default();
            rows.errors.push(ReportError::new(line, "", reason));
            rows
        };
        let table = match form {
            ImportForm::Ndjson => match lines_of(file, room) {
                Ok(text) => return self.read_lines(&text),
                Err(error) => Err(error),
            },
            _ => read_table(file, form, &self.locale, room),
        };
        match table {
            Ok(table) => self.read_table(table),
            Err((line, reason)) => refused(line, reason),
        }
    }

    fn object_type(&self) -> &ObjectType {
        &self.entry.object_type
    }

    fn read_table(&self, table: csv::Table) -> ImportRows {
        let mut read = ImportRows { header: table.header_line, ..ImportRows::default() };
        if table.header.first().is_some_and(|cell| cell.starts_with("sep=")) {
            let reason = "tells a spreadsheet the delimiter; leave the line out";
            read.errors.push(ReportError::new(read.header, "sep=", reason));
            return read;
        }
        self.read_header(&table.header, &mut read);
        if !read.errors.is_empty() {
            self.explain_header(&table, &mut read);
            return read;
        }
        for (line, cells) in table.rows {
            // What spreadsheets leave after the last row.
            if cells.iter().all(|cell| cell::tidied(cell, &self.locale).is_empty()) {
                continue;
            }
            if cells.len() != table.header.len() {
                let reason = format!("has {}, but the header has {}", counted(cells.len(), "cell"), table.header.len());
                read.errors.push(ReportError::new(line, "", reason));
                continue;
            }
            if let Some(row) = self.read_row(line, cells, &mut read) {
                read.list.push(row);
            }
        }
        if read.links.iter().any(|link| link.target.object_type.public_id == self.object_type().public_id) {
            let nameless = read.list.iter_mut().filter(|row| row.public_id.is_none());
            for (row, id) in nameless.zip((1..=MAX_WANTED_ID).rev()) {
                row.given = Some(GivenId { id, is_stand_in: true });
            }
        }
        read
    }

    /// Says what the reason may be that columns are not known.
    fn explain_header(&self, table: &csv::Table, read: &mut ImportRows) {
        let mut reasons = Vec::new();
        let is_lacking = table.header.iter().all(|cell| Heading::is_strange(cell, self.object_type()));
        if table.rows.is_empty() && table.hint.is_none() {
            let curl =
                "is the only line; if there were more, send the file with curl --data-binary, as -d loses line ends";
            reasons.push(curl.to_owned());
        } else if is_lacking {
            let columns = self.object_type().fields.iter().map(|field| field.name.as_str()).take(5);
            let columns: Vec<&str> = columns.collect();
            reasons.push(format!(
                "no column is known; does the file lack its header? its first line names fields of {}, such as {}",
                self.object_type().name,
                columns.join(", ")
            ));
        }
        reasons.extend(table.hint.clone());
        if reasons.is_empty() {
            return;
        }
        let mut errors = ReportErrors::default();
        errors.push(ReportError::new(read.header, "", reasons.join("; ")));
        if !is_lacking {
            errors.append(std::mem::take(&mut read.errors));
        }
        read.errors = errors;
    }

    fn read_header(&self, header: &[String], read: &mut ImportRows) {
        for (column, cell) in header.iter().enumerate() {
            let heading = if cell.trim().is_empty() {
                Err(nameless(column))
            } else if header[..column].contains(cell) {
                Err("is here twice".to_owned())
            } else {
                Heading::read(cell, self.object_type())
            };
            let heading = heading.and_then(|heading| {
                if let Heading::Link { position, type_name, field, is_further: false } = &heading {
                    let target = self.link(type_name, field)?;
                    let parts = vec![(column, field.clone())];
                    read.links.push(ReferenceColumn { position: *position, target, parts });
                }
                if matches!(heading, Heading::Own(_)) && read.columns.contains(&heading) {
                    return Err("is here twice".to_owned());
                }
                Ok(heading)
            });
            match heading {
                Ok(heading) => read.columns.push(heading),
                Err(reason) => read.errors.push(ReportError::new(read.header, cell, reason)),
            }
        }
        self.read_further(header, read);
        let positions = |heading: &Heading| match heading {
            Heading::Field(position) | Heading::Link { position, is_further: false, .. } => Some(*position),
            Heading::Own(_) | Heading::Link { .. } => None,
        };
        let mut seen = Vec::new();
        for position in read.columns.iter().filter_map(positions) {
            let name = &self.object_type().fields[position].name;
            if seen.contains(&position) && read.errors.is_empty() {
                read.errors.push(ReportError::new(read.header, name, "has two columns"));
            }
            seen.push(position);
        }
        if let Some(key) = self.key
            && read.errors.is_empty()
            && !read.columns.contains(&Heading::Field(key))
        {
            let reason = "is the key, but has no column";
            read.errors.push(ReportError::new(read.header, &self.object_type().fields[key].name, reason));
        }
    }

    /// Adds columns with further values of references to the columns that refer.
    fn read_further(&self, header: &[String], read: &mut ImportRows) {
        if !read.errors.is_empty() {
            return;
        }
        for (column, heading) in read.columns.iter().enumerate() {
            let Heading::Link { position, type_name, field, is_further: true } = heading else { continue };
            let is_its =
                |link: &&mut ReferenceColumn| link.position == *position && link.target.object_type.name == *type_name;
            let added = match read.links.iter_mut().find(is_its) {
                Some(link) => self.link(type_name, field).map(|_| link.parts.push((column, field.clone()))),
                None => {
                    let name = &self.object_type().fields[*position].name;
                    Err(format!("is a further value of {name}; it needs a column {name}={type_name}/<field> beside it"))
                }
            };
            if let Err(reason) = added {
                read.errors.push(ReportError::new(read.header, &header[column], reason));
            }
        }
    }

    /// The type that a column refers to.
    fn link(&self, type_name: &str, field: &str) -> Result<Arc<TypeEntry>, String> {
        let is_seen = |entry: &&Arc<TypeEntry>| !self.unseen.contains(&entry.object_type.public_id);
        let target = self.types.iter().filter(is_seen).find(|entry| entry.object_type.name == type_name);
        let target = target.ok_or_else(|| format!("there is no type {type_name}"))?;
        match target.object_type.field(field) {
            None => Err(format!("the type {type_name} has no field {field}")),
            Some(found) if found.is_password() => Err("nobody is found by a password".to_owned()),
            Some(_) => Ok(Arc::clone(target)),
        }
    }

    fn read_row(&self, line: u64, cells: StringRecord, read: &mut ImportRows) -> Option<Row> {
        let before = read.errors.count();
        let (mut public_id, mut key) = (None, None);
        for (heading, text) in read.columns.iter().zip(&cells) {
            let text = &*cell::tidied(text, &self.locale);
            match heading {
                Heading::Own(own) if own.name == "public_id" => {
                    match cell::read(ValueKind::Reference, text, &self.locale) {
                        Ok(Bson::Null) => {}
                        Ok(Bson::Int64(id)) => public_id = Some(id),
                        Ok(_) | Err(_) => {
                            let reason = "must be a whole number, or empty for a new object";
                            read.errors.push(ReportError::new(line, own.name, reason));
                        }
                    }
                }
                Heading::Field(position) if self.key == Some(*position) => {
                    let field = &self.object_type().fields[*position];
                    match cell::read_of(field, text, &self.locale) {
                        Ok(value) => key = Some(value),
                        Err(reason) => read.errors.push(ReportError::new(line, &field.name, reason)),
                    }
                }
                _ => {}
            }
        }
        let mut links = Vec::with_capacity(read.links.len());
        for link in &read.links {
            match self.link_value(link, &cells) {
                Ok(value) => links.push(value),
                Err(reason) => {
                    let name = self.object_type().fields[link.position].name.as_str();
                    read.errors.push(ReportError::new(line, name, reason));
                }
            }
        }
        self.require_key(line, key.as_ref(), &mut read.errors);
        let source = RowSource::Cells(cells);
        (read.errors.count() == before).then_some(Row { line, source, public_id, key, links, given: None })
    }

    /// What the cells of a reference say.
    fn link_value(&self, link: &ReferenceColumn, cells: &StringRecord) -> Result<LinkValue, String> {
        let mut values = Vec::with_capacity(link.parts.len());
        for (column, name) in &link.parts {
            let text = cell::tidied(&cells[*column], &self.locale);
            if let Some(id) = id_of_cell(&text).filter(|_| values.is_empty()) {
                return Ok(LinkValue::Id(id));
            }
            let value = match link.target.object_type.field(name) {
                Some(field) => cell::read_of(field, &text, &self.locale),
                None => cell::read(ValueKind::Any, &text, &self.locale),
            };
            match value.map_err(|reason| format!("{name}: {reason}"))? {
                Bson::Null if values.is_empty() => return Ok(LinkValue::None),
                Bson::Null => return Err(format!("{name}: needs a value beside that of {}", link.parts[0].1)),
                value => values.push(value),
            }
        }
        Ok(LinkValue::Values(values))
    }

    fn read_lines(&self, text: &str) -> ImportRows {
        let mut read = ImportRows::default();
        let mut values = json::read::most_values(text.len());
        // The first line with an `_id`, and how many there are.
        let mut foreign: Option<(u64, usize)> = None;
        for (line, text) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let document = json::read::document_counted(text, &mut values);
            if values == 0 {
                read.errors.push(ReportError::new(line, "", json::read::TOO_MANY_VALUES));
                return read;
            }
            let document = match document {
                Ok(document) => document,
                Err(error) => {
                    let reason = format!("is not as JSON has to be: {} at column {}", error.message, error.column);
                    read.errors.push(ReportError::new(line, "", reason));
                    continue;
                }
            };
            if document.contains_key("_id") {
                foreign.get_or_insert((line, 0)).1 += 1;
            }
            let public_id = match document.get("public_id") {
                None | Some(Bson::Null) => None,
                Some(Bson::Int32(id)) => Some(i64::from(*id)),
                Some(Bson::Int64(id)) => Some(*id),
                Some(_) => {
                    read.errors.push(ReportError::new(line, "public_id", "must be a whole number"));
                    continue;
                }
            };
            let key = self.key.map(|position| key_of(&document, &self.object_type().fields[position]));
            let before = read.errors.count();
            self.require_key(line, key.as_ref(), &mut read.errors);
            let source = match resource::encode(&document) {
                Ok(document) => RowSource::Document(document),
                Err(error) => {
                    read.errors.push(ReportError::new(line, "", error.to_string()));
                    continue;
                }
            };
            if read.errors.count() == before {
                read.list.push(Row { line, source, public_id, key, links: Vec::new(), given: None });
            }
        }
        if let Some((line, count)) = foreign {
            let reason = format!(
                "belongs to the database that the file is from, and is left out, in {}",
                counted(count, "line")
            );
            read.warnings.push(ReportError::new(line, "_id", reason));
        }
        read
    }

    fn require_key(&self, line: u64, key: Option<&Bson>, errors: &mut ReportErrors) {
        let Some(position) = self.key else { return };
        let name = &self.object_type().fields[position].name;
        if key.is_some_and(|key| key_text(key).is_none()) {
            errors.push(ReportError::new(line, name, "is the key, so it needs a value that can be looked up"));
        }
    }
}

/// The name of the field that a column is about.
pub(super) fn field_of(heading: &Heading, object_type: &ObjectType) -> String {
    match heading {
        Heading::Own(own) => own.name.to_owned(),
        Heading::Field(position) | Heading::Link { position, .. } => object_type.fields[*position].name.clone(),
    }
}

fn key_of(document: &Document, field: &Field) -> Bson {
    let name = field.name.as_str();
    let as_stored = |value: &Bson| ValueKind::of(field).as_stored(value.clone());
    if let Ok(fields) = document.get_document("fields") {
        return fields.get(name).map_or(Bson::Null, as_stored);
    }
    let entries = document.get_array("fields").ok().into_iter().flatten().filter_map(Bson::as_document);
    let mut named = entries.filter(|entry| entry.get_str("name").ok() == Some(name));
    named.find_map(|entry| entry.get("value").map(as_stored)).unwrap_or(Bson::Null)
}
