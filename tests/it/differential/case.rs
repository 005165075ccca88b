//! A case: documents, indexes and a question; and the line that it is written as in `tests/questions`.

use bson::{Bson, Document};
use inventory_service::store::collections::{Equals, Literal};
use inventory_service::store::{IndexKey, IndexSpec};
use serde_json::{Map, Value, json};

use super::documents::ENTRY_PATHS;
use super::generator::Question;
use super::random::Random;

/// An index of the embedded collection: paths with "descending", and whether it is unique.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) keys: Vec<(String, bool)>,
    pub(super) unique: bool,
    /// Only documents where this path has this value.
    pub(super) partial: Option<(String, Literal)>,
}

/// Documents, the indexes of one of the collections that they are stored in, and a question.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) documents: Vec<Document>,
    pub(super) indexes: Vec<Index>,
    pub(super) question: Question,
}

/// Up to four indexes on paths of the documents, some of them unique.
pub(super) fn random_indexes(random: &mut Random, places: &[(String, Bson)]) -> Vec<Index> {
    let common = ["a", "b", "c", "n", "s", "t", "a.x", "b.x", "t.x", "a.0", "o.x", "d", "_id"];
    let mut path = || {
        let made =
            |path: &str| !path.is_empty() && path.split('.').all(|part| !part.is_empty() && !part.starts_with('$'));
        match places.len() {
            0 => (*random.pick(&common)).to_owned(),
            _ if random.percent(50) => (*random.pick(&common)).to_owned(),
            _ => Some(random.pick(places).0.clone()).filter(|path| made(path)).unwrap_or_else(|| "a".to_owned()),
        }
    };
    let paths: Vec<String> = (0..12).map(|_| path()).collect();
    let values: Vec<(String, Literal)> = places
        .iter()
        .filter(|(path, _)| !path.is_empty() && path.split('.').all(|part| !part.is_empty() && !part.starts_with('$')))
        .filter_map(|(path, value)| Some((path.clone(), literal(value)?)))
        .collect();
    let mut paths = paths.into_iter();
    (0..=random.below(4))
        .map(|_| {
            let mut keys: Vec<(String, bool)> = Vec::new();
            // Paths through the same arrays.
            let related: Vec<String> = (0..3).map(|_| (*random.pick(&ENTRY_PATHS)).to_owned()).collect();
            let is_related = random.percent(25);
            let mut related = related.into_iter().filter(|_| is_related);
            for path in related.by_ref().chain(paths.by_ref()).take(1 + random.weighted(&[50, 35, 15])) {
                if keys.iter().all(|(known, _)| *known != path) {
                    keys.push((path, random.percent(40)));
                }
            }
            let is_partial = !values.is_empty() && random.percent(12);
            let partial = is_partial.then(|| random.pick(&values).clone());
            Index { keys, unique: random.percent(8), partial }
        })
        .collect()
}

/// The value, if an index can be declared with it.
fn literal(value: &Bson) -> Option<Literal> {
    match value {
        Bson::Boolean(truth) => Some(Literal::Bool(*truth)),
        Bson::Int32(number) => Some(Literal::Int(i64::from(*number))),
        Bson::Int64(number) => Some(Literal::Int(*number)),
        Bson::String(text) => Some(Literal::Text(Box::leak(text.clone().into_boxed_str()))),
        _ => None,
    }
}

impl Index {
    /// The declaration. Names live as long as the process; a run makes few enough of them.
    pub(super) fn declared(indexes: &[Self]) -> &'static [IndexSpec] {
        let named = indexes.iter().zip(1..).map(|(index, number)| IndexSpec {
            name: Box::leak(number.to_string().into_boxed_str()),
            keys: Box::leak(
                index
                    .keys
                    .iter()
                    .map(|(path, descending)| IndexKey {
                        path: Box::leak(path.clone().into_boxed_str()),
                        descending: *descending,
                    })
                    .collect::<Box<[IndexKey]>>(),
            ),
            unique: index.unique,
            partial: Box::leak(
                index
                    .partial
                    .iter()
                    .map(|(path, value)| Equals { path: Box::leak(path.clone().into_boxed_str()), value: *value })
                    .collect::<Box<[Equals]>>(),
            ),
        });
        Box::leak(named.collect::<Box<[IndexSpec]>>())
    }

    fn read(written: &Document) -> Self {
        let keys = written.get_document("keys").expect("an index has keys").iter();
        Self {
            keys: keys.map(|(path, way)| (path.clone(), way.as_i32() == Some(-1))).collect(),
            unique: written.get_bool("unique").unwrap_or(false),
            partial: written.get_document("partial").ok().and_then(|partial| {
                let (path, value) = partial.iter().next()?;
                Some((path.clone(), literal(value)?))
            }),
        }
    }
}

impl Case {
    /// Reads a case of a data file.
    pub(super) fn read(written: &Document) -> Self {
        let documents = |name: &str| -> Vec<Document> {
            let items = written.get_array(name).map(Vec::as_slice).unwrap_or_default().iter();
            items.map(|item| item.as_document().expect("a document").clone()).collect()
        };
        let document = |name: &str| written.get_document(name).ok().cloned();
        let number = |name: &str| u64::try_from(written.get_i32(name).unwrap_or(0)).expect("not negative");
        Self {
            documents: documents("documents"),
            indexes: documents("indexes").iter().map(Index::read).collect(),
            question: Question {
                filter: document("filter").unwrap_or_default(),
                projection: document("projection"),
                sort: document("sort"),
                skip: number("skip"),
                limit: number("limit"),
                counted: written.contains_key("total"),
                pipeline: written.get_array("pipeline").ok().cloned(),
            },
        }
    }

    /// The case as a line of a data file, with what is expected.
    pub(super) fn line(&self, expected: Vec<(&str, Value)>) -> String {
        let question = &self.question;
        let mut line = Map::new();
        line.insert("documents".to_owned(), self.documents.iter().map(json_of).collect());
        if !self.indexes.is_empty() {
            let index = |index: &Index| {
                let keys: Map<String, Value> = index
                    .keys
                    .iter()
                    .map(|(path, descending)| (path.clone(), json!(if *descending { -1 } else { 1 })))
                    .collect();
                let mut written = json!({ "keys": keys });
                if index.unique {
                    written["unique"] = json!(true);
                }
                if let Some((path, value)) = &index.partial {
                    written["partial"] = json!({ path: plain_json(&Bson::from(*value)) });
                }
                written
            };
            line.insert("indexes".to_owned(), self.indexes.iter().map(index).collect());
        }
        match &question.pipeline {
            Some(stages) => line.insert("pipeline".to_owned(), stages.iter().map(plain_json).collect()),
            None => line.insert("filter".to_owned(), json_of(&question.filter)),
        };
        let rest = [("projection", question.projection.as_ref()), ("sort", question.sort.as_ref())];
        line.extend(rest.into_iter().filter_map(|(name, part)| Some((name.to_owned(), json_of(part?)))));
        let numbers = [("skip", question.skip), ("limit", question.limit)];
        line.extend(numbers.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), json!(n))));
        line.extend(expected.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(line).to_string()
    }
}

/// Extended JSON that is read back as the same types, with the plainest notation.
pub(super) fn json_of(document: &Document) -> Value {
    Value::Object(document.iter().map(|(name, value)| (name.clone(), plain_json(value))).collect())
}

fn plain_json(value: &Bson) -> Value {
    match value {
        Bson::Document(document) => json_of(document),
        Bson::Array(items) => items.iter().map(plain_json).collect(),
        Bson::Int32(number) => json!(number),
        Bson::Double(number) if number.is_finite() => json!(number),
        Bson::JavaScriptCodeWithScope(code) => json!({"$code": code.code, "$scope": json_of(&code.scope)}),
        other => other.clone().into_canonical_extjson(),
    }
}
