//! Rows: flat documents, each made of one object. Their columns are members of the object and its fields.

use std::collections::HashMap;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use super::EvalError;
use crate::query::entry::{self, STORED};
use crate::query::projection::document_of;
use crate::query::raw::{Elements, Value, View, append, begin, end, kind, member};

/// What a column shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A member of the object.
    Member(&'static str),
    /// The value of a field, as `f.<name>` gives it.
    Field {
        /// The name of the field.
        name: String,
        /// Whether it may hold an array.
        holds_arrays: bool,
    },
}

/// A column: its name, and what it shows.
pub type Column = (String, Source);

/// The columns of a table.
#[derive(Debug, PartialEq)]
pub struct Columns {
    /// All of them.
    pub list: Vec<Column>,
    /// The places of the fields by their names.
    pub fields: HashMap<String, usize>,
}

impl Columns {
    /// These columns.
    pub fn new(list: Vec<Column>) -> Self {
        let of_field = |(place, (_, source)): (usize, &Column)| match source {
            Source::Field { name, .. } => Some((name.clone(), place)),
            Source::Member(_) => None,
        };
        Self { fields: list.iter().enumerate().filter_map(of_field).collect(), list }
    }

    /// The row of an object.
    ///
    /// # Errors
    /// When it is too large.
    pub(super) fn row(&self, object: &RawDocument) -> Result<RawDocumentBuf, EvalError> {
        let object = object.as_bytes();
        let mut values: Vec<Option<Value<'_>>> = vec![None; self.list.len()];
        let mut further = Vec::new();
        let entries = member(object, STORED.as_bytes()).filter(|entries| entries.is_array());
        for entry in entries.iter().flat_map(|entries| Elements::within(entries.bytes)) {
            let Some((place, value)) = self.entry(entry.value) else { continue };
            match values[place] {
                None => values[place] = Some(value),
                Some(_) => further.push((place, value)),
            }
        }
        let mut bytes = Vec::with_capacity(object.len());
        let start = begin(&mut bytes);
        for (place, (column, source)) in self.list.iter().enumerate() {
            let value = match source {
                Source::Member(name) => member(object, name.as_bytes()),
                Source::Field { .. } => values[place],
            };
            let Some(value) = value else { continue };
            let mut others = further.iter().filter(|(of, _)| *of == place).map(|(_, value)| *value).peekable();
            if others.peek().is_none() {
                append(&mut bytes, column.as_bytes(), value);
            } else {
                let array = entry::array_of([value].into_iter().chain(others));
                append(&mut bytes, column.as_bytes(), Value::new(kind::ARRAY, &array));
            }
        }
        end(&mut bytes, start);
        document_of(bytes)
    }

    /// The place of the column of an entry, and its value.
    fn entry<'a>(&self, entry: Value<'a>) -> Option<(usize, Value<'a>)> {
        let name = Some(entry).filter(|entry| entry.is_document()).and_then(|entry| member(entry.bytes, b"name"))?;
        let View::Text(name) = name.view() else { return None };
        let place = self.fields.get(str::from_utf8(name).ok()?)?;
        member(entry.bytes, entry::VALUE.as_bytes()).map(|value| (*place, value))
    }

    /// The same as a stage of MongoDB.
    pub(super) fn written(&self) -> Document {
        let written = |(column, source): &Column| {
            let value = match source {
                Source::Member(name) => Bson::from(format!("${name}")),
                Source::Field { name, .. } => entry::value_of(STORED, name).into(),
            };
            (column.clone(), value)
        };
        doc! { "$replaceWith": self.list.iter().map(written).collect::<Document>() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::query::pipeline::{Flow, Nothing, Pipeline};
    use crate::query::{Budget, Limits};

    fn results(pipeline: &Pipeline, objects: &[Document]) -> Vec<Document> {
        let (budget, source, mut all) = (Budget::default(), Nothing::<EvalError>::default(), Vec::new());
        let mut run = pipeline.run(0, &budget);
        for object in objects {
            let object = RawDocumentBuf::try_from(object).expect("BSON");
            let mut give = |row: &RawDocument| {
                all.push(Document::try_from(row).expect("BSON"));
                Ok(Flow::Continue(()))
            };
            let _ = run.push(&object, &source, &mut give).expect("a row");
        }
        all
    }

    #[test]
    fn a_row_is_what_the_stage_of_the_view_makes() {
        let entry = |name: &str, value: i32| doc! { "name": name, "value": value };
        let objects = [
            doc! { "_id": 1, "kind": "x", "fields": [entry("b", 1), entry("a", 2), entry("c", 3)] },
            doc! { "kind": null, "_id": 2, "fields": [entry("a", 1), entry("b", 2), entry("a", 3), entry("a", 4)] },
            doc! { "_id": 3, "fields": [7, ["a"], { "name": "a" }, { "name": 1, "value": 1 }, { "name": "b", "value": [1] }] },
            doc! { "_id": 4, "fields": { "name": "a", "value": 1 } },
            doc! { "_id": 5 },
        ];
        let field = |name: &str| (name.to_owned(), Source::Field { name: name.to_owned(), holds_arrays: false });
        let member = |name: &'static str| (name.to_owned(), Source::Member(name));
        let rows = Columns::new(vec![member("_id"), field("a"), field("b"), member("kind")]);
        let rows = Pipeline::flattened(&Arc::new(rows));
        let written: Vec<Bson> = rows.documents().iter().cloned().map(Bson::from).collect();
        let written = Pipeline::parse(&written, &Limits::NONE, bson::DateTime::MIN).expect("stages");
        let made = results(&rows, &objects);
        assert_eq!(made, results(&written, &objects));
        assert_eq!(made[1], doc! { "_id": 2, "a": [1, 3, 4], "b": 2, "kind": null });
    }
}
