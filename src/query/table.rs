//! A table: a collection of the rows of one type.
//!
//! A question about a table is read as one about the objects, so that the same indexes answer it. A column of a field is `f.<name>`
//! there, which has the meaning of a member with the value of the field. What has no such path, such as an expression, is
//! evaluated on the rows.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::budget::Effort;
use super::error::QueryError;
use super::fields::{ARROW, FieldNames, Fields, PREFIX};
use super::filter::{Filter, Limits};
use super::path::Path;
use super::pipeline::{Column, ColumnSource, Columns, Front, Pipeline};
use super::sort::Sort;

/// A table of the objects of one type.
#[derive(Debug, Clone)]
pub struct Table {
    type_id: i64,
    columns: Arc<Columns>,
    /// The stages that make rows, and those that make the columns `made` of what other objects say.
    view: Pipeline,
    made: Vec<String>,
}

impl Table {
    /// The objects of a type as rows of these columns. `joined` are stages on rows, which make the columns `made`.
    ///
    /// # Errors
    /// `joined` are not valid stages.
    pub fn new(
        type_id: i64,
        list: Vec<Column>,
        (joined, made): (&[Bson], Vec<String>),
        now: bson::DateTime,
    ) -> Result<Self, QueryError> {
        let joined = Pipeline::parse(joined, &Limits::NONE, now)?;
        let columns = Arc::new(Columns::new(list));
        Ok(Self { type_id, view: Pipeline::flattened(&columns).then(joined), columns, made })
    }

    /// Whether both show the same columns of the same objects.
    pub fn is_as(&self, other: &Self) -> bool {
        self.type_id == other.type_id && self.columns == other.columns && self.made == other.made
    }

    /// The stages that make it of the collection of objects, as a view of MongoDB has them.
    pub fn stages(&self) -> Vec<Document> {
        let mut stages = vec![doc! { "$match": { "type_id": self.type_id } }];
        stages.extend(self.view.documents().iter().cloned());
        stages
    }

    /// The stages that make rows of objects of the type.
    pub fn view(&self) -> &Pipeline {
        &self.view
    }

    /// Reads a pipeline on the table as one on the objects.
    ///
    /// # Errors
    /// When reading takes too long or too much.
    pub fn read(&self, pipeline: Pipeline, effort: &Effort) -> Result<Pipeline, QueryError> {
        let asked = pipeline.front();
        let behind = pipeline.behind(asked.stages);
        let (front, rest) = self.front(asked, effort)?;
        let rest = rest.then(behind);
        let is_joined = self.made.iter().any(|name| rest.shows(name));
        let view = if is_joined { self.view.clone() } else { Pipeline::flattened(&self.columns) };
        Ok(Pipeline::of(front).then(view).then(rest))
    }

    /// The plain query on the table as one on the objects, and the stages on rows that are left of it.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn front(&self, asked: Front, effort: &Effort) -> Result<(Front, Pipeline), QueryError> {
        let (conditions, is_whole) = self.conditions(asked.filter.document());
        let filter = self.fields().filter(&conditions, &Limits::NONE, bson::DateTime::MIN, effort)?;
        let filter = Filter::equals("type_id", self.type_id).and(filter);
        let sort = self.sort(&asked.sort)?.filter(|_| is_whole);
        Ok(match sort {
            Some(sort) => {
                (Front { filter, sort, skip: asked.skip, limit: asked.limit, stages: 0 }, Pipeline::default())
            }
            None => (Front { filter, ..Front::default() }, Pipeline::of(asked)),
        })
    }

    /// Conditions on the objects that all rows of a filter meet, and whether they are the whole filter.
    fn conditions(&self, filter: &Document) -> (Document, bool) {
        let (mut conditions, mut is_whole) = (Document::new(), true);
        for (name, said) in filter {
            match (name.as_str(), said) {
                ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
                    let parts = parts.iter().filter_map(Bson::as_document).map(|part| self.conditions(part));
                    let (parts, wholes): (Vec<Document>, Vec<bool>) = parts.unzip();
                    let are_whole = wholes.iter().all(|is_whole| *is_whole);
                    is_whole &= are_whole;
                    if are_whole || name == "$and" {
                        conditions.insert(name, parts);
                    }
                }
                ("$comment", _) => {}
                (path, said) => match self.path(path) {
                    Some(path) => drop(conditions.insert(path, said.clone())),
                    None => is_whole = false,
                },
            }
        }
        (conditions, is_whole)
    }

    /// An order of rows as one of objects; nothing where a key has no path there.
    fn sort(&self, asked: &Sort) -> Result<Option<Sort>, QueryError> {
        let mut sort = if asked.is_empty() { asked.clone() } else { Sort::default() };
        for key in asked.keys() {
            let Some(path) = self.path(key.path.as_str()) else { return Ok(None) };
            let of_field = self.fields().sort_key(&path)?;
            sort = sort.then_by(of_field.unwrap_or_else(|| Path::new(&path)), key.descending);
        }
        Ok(Some(sort))
    }

    /// The path in objects that a path in rows is.
    fn path(&self, path: &str) -> Option<String> {
        let (column, rest) = path.split_once('.').map_or((path, None), |(column, rest)| (column, Some(rest)));
        let (_, source) = self.columns.list.iter().find(|(name, _)| name == column)?;
        let name = match source {
            ColumnSource::Member(name) => (*name).to_owned(),
            // A name with a dot is longer than the first step of a path, and an arrow leads to another object.
            ColumnSource::Field { name, .. } if is_step(name) && !path.contains(ARROW) => format!("{PREFIX}{name}"),
            ColumnSource::Field { .. } => return None,
        };
        Some(rest.map_or_else(|| name.clone(), |rest| format!("{name}.{rest}")))
    }

    fn fields(&self) -> Fields {
        Fields::new(Arc::clone(&self.columns) as Arc<dyn FieldNames>)
    }
}

/// Whether a name can be a step of a path.
fn is_step(name: &str) -> bool {
    !name.contains('.') && !name.starts_with('$')
}

impl FieldNames for Columns {
    fn is_known(&self, name: &str, _: Option<&[i64]>) -> bool {
        is_step(name) && self.fields.contains_key(name)
    }

    fn known(&self, _: Option<&[i64]>) -> Vec<&str> {
        self.fields.keys().map(String::as_str).collect()
    }

    fn holds_arrays(&self, name: &str) -> bool {
        let source = self.fields.get(name).map(|place| &self.list[*place].1);
        matches!(source, Some(ColumnSource::Field { holds_arrays: true, .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let field = |name: &str| (name.to_owned(), ColumnSource::Field { name: name.to_owned(), holds_arrays: false });
        let list = vec![
            ("_id".to_owned(), ColumnSource::Member("_id")),
            field("a"),
            field("b"),
            ("kind".to_owned(), ColumnSource::Member("kind")),
        ];
        let made = doc! { "$set": { "a_summary": "$a" } };
        Table::new(7, list, (&[made.into()][..], vec!["a_summary".to_owned()]), bson::DateTime::MIN).expect("a table")
    }

    #[test]
    fn what_has_a_path_in_objects_is_asked_of_them() {
        for (filter, asked, is_whole) in [
            (doc! { "a": 1, "kind": "x" }, doc! { "f.a": 1, "kind": "x" }, true),
            (doc! { "a.x": 1, "a_summary": 2 }, doc! { "f.a.x": 1 }, false),
            (doc! { "$or": [{ "a": 1 }, { "c": 1 }], "b": 1 }, doc! { "f.b": 1 }, false),
            (doc! { "$and": [{ "a": 1 }, { "c": 1 }] }, doc! { "$and": [{ "f.a": 1 }, {}] }, false),
            (doc! { "$expr": true, "a->x": 1, "fields.name": "a", "type_id": 8 }, doc! {}, false),
        ] {
            assert_eq!(table().conditions(&filter), (asked, is_whole), "{filter}");
        }
    }
}
