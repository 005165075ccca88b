//! Rows: flat documents, each made of one object. Their columns are members of the object and its fields.

use std::collections::HashMap;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use super::stage::Stage;
use super::{EvalError, Front, Pipeline};
use crate::query::entry::{self, STORED};
use crate::query::projection::{Projection, document_of, flag};
use crate::query::raw::{Elements, Value, View, append, begin, end, kind, member};
use crate::query::sort::SortKey;

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

    /// The stage that makes rows of these columns.
    pub fn stage(self: &Arc<Self>) -> Pipeline {
        Pipeline { documents: vec![self.written()], stages: vec![Stage::Flatten(Arc::clone(self))] }
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
    fn written(&self) -> Document {
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

impl Pipeline {
    /// The stages of a plain query.
    pub fn of(front: Front) -> Self {
        let mut pipeline = Self::matching(front.filter);
        let mut add = |document: Document, stage: Stage| {
            pipeline.documents.push(document);
            pipeline.stages.push(stage);
        };
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        if !front.sort.is_empty() || front.sort.is_reversed() {
            let key = |key: &SortKey| (key.path.as_str().to_owned(), (1 - 2 * i32::from(key.descending)).into());
            let keys: Document = front.sort.keys().iter().map(key).collect();
            add(doc! { "$sort": keys }, Stage::Sort(front.sort));
        }
        if front.skip > 0 {
            add(doc! { "$skip": number(front.skip) }, Stage::Skip(front.skip));
        }
        if front.limit > 0 {
            add(doc! { "$limit": number(front.limit) }, Stage::Limit(front.limit));
        }
        pipeline
    }

    /// The same; of each result what a projection shows.
    #[must_use]
    pub fn projected(mut self, projection: Projection) -> Self {
        self.documents.push(doc! { "$project": projection.document().clone() });
        self.stages.push(Stage::Project(Box::new(projection)));
        self
    }

    /// The stages after the first `done`, which are stages as they were sent.
    pub fn behind(mut self, done: usize) -> Self {
        self.documents.drain(..done);
        self.stages.drain(..done);
        self
    }

    /// Whether a member of its documents shows in its results. Where it cannot know it, it does.
    pub fn shows(&self, member: &str) -> bool {
        let takes_apart = self.documents.iter().find_map(|stage| match stage.iter().next()? {
            (name, Bson::Document(members)) if name == "$project" => {
                Some(members.iter().any(|(name, said)| name != "_id" && flag(said) != Some(false)))
            }
            (name, _) if ["$group", "$count", "$sortByCount", "$bucket"].contains(&name.as_str()) => Some(true),
            (name, _) if ["$match", "$sort", "$skip", "$limit", "$unwind"].contains(&name.as_str()) => None,
            _ => Some(false),
        });
        takes_apart != Some(true) || self.documents.iter().any(|stage| mentions(stage, member))
    }
}

/// Whether a member may be read by what is written here: by its name, or with the whole document.
fn mentions(written: &Document, member: &str) -> bool {
    fn of_value(value: &Bson, member: &str) -> bool {
        match value {
            Bson::String(text) => {
                text.contains(member) || ["$$ROOT", "$$CURRENT"].iter().any(|whole| text.starts_with(whole))
            }
            Bson::Document(document) => mentions(document, member),
            Bson::Array(items) => items.iter().any(|item| of_value(item, member)),
            _ => false,
        }
    }
    written.iter().any(|(name, value)| name.contains(member) || name == "$getField" || of_value(value, member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::pipeline::{Flow, Nothing};
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
        let rows = Arc::new(Columns::new(vec![member("_id"), field("a"), field("b"), member("kind")])).stage();
        let written: Vec<Bson> = rows.documents().iter().cloned().map(Bson::from).collect();
        let written = Pipeline::parse(&written, &Limits::NONE, bson::DateTime::MIN).expect("stages");
        let made = results(&rows, &objects);
        assert_eq!(made, results(&written, &objects));
        assert_eq!(made[1], doc! { "_id": 2, "a": [1, 3, 4], "b": 2, "kind": null });
    }

    #[test]
    fn what_does_not_show_is_not_made() {
        let shows = |stages: &[Document]| {
            let stages: Vec<Bson> = stages.iter().cloned().map(Bson::from).collect();
            let pipeline = Pipeline::parse(&stages, &Limits::NONE, bson::DateTime::MIN).expect("stages");
            pipeline.shows("a_summary")
        };
        let group = |id: &str| doc! { "$group": { "_id": id } };
        for stages in [
            vec![],
            vec![doc! { "$match": { "a": 1 } }],
            vec![doc! { "$project": { "a": 0 } }],
            vec![group("$a_summary.x")],
            vec![group("$$ROOT")],
            vec![doc! { "$sort": { "a_summary": 1 } }, group("$a")],
            vec![doc! { "$set": { "b": 1 } }, group("$a")],
            vec![doc! { "$project": { "all": "$$CURRENT" } }],
        ] {
            assert!(shows(&stages), "{stages:?}");
        }
        for stages in [
            vec![group("$a")],
            vec![doc! { "$sort": { "b": 1 } }, doc! { "$project": { "a": 1 } }],
            vec![doc! { "$count": "n" }],
        ] {
            assert!(!shows(&stages), "{stages:?}");
        }
    }
}
