//! Projections: which members of a document an answer has.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::compare::number;
use super::error::{EvalError, Location, QueryError};
use super::filter::Filter;
use super::number::Number;
use super::raw::{Elements, Value, append, framed};

/// A projection: as the client sent it, and compiled.
#[derive(Debug, Clone)]
pub struct Projection {
    document: Document,
    includes: bool,
    paths: Vec<Vec<String>>,
}

impl Projection {
    /// Compiles MongoDB's projection document; the positional `$` refers to an array of `filter`.
    ///
    /// # Errors
    /// What MongoDB refuses.
    pub fn parse(document: &Document, _filter: &Filter) -> Result<Self, QueryError> {
        let at = Location::new("projection");
        let mut includes = false;
        let mut paths = Vec::new();
        let mut id = true;
        for (name, value) in document {
            let Some(wanted) = flag(value) else {
                return Err(at.malformed(2, format!("{name}: not supported")));
            };
            if name == "_id" {
                id = wanted;
                continue;
            }
            includes = wanted;
            paths.push(name.split('.').map(str::to_owned).collect());
        }
        if paths.is_empty() && document.contains_key("_id") {
            includes = id;
        }
        if includes == id && document.contains_key("_id") || includes && id {
            paths.push(vec!["_id".to_owned()]);
        }
        Ok(Self { document: document.clone(), includes, paths })
    }

    /// The document that MongoDB is sent.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Whether it makes up values by expressions, so that what it keeps cannot be told from its paths.
    pub fn is_computed(&self) -> bool {
        false
    }

    /// What the projection leaves of the document.
    ///
    /// # Errors
    /// When an expression fails on the document, or the positional `$` finds no element.
    pub fn apply(&self, document: &RawDocument, _filter: &Filter) -> Result<RawDocumentBuf, EvalError> {
        let paths: Vec<&[String]> = self.paths.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::with_capacity(document.as_bytes().len());
        self.keep(document.as_bytes(), &paths, &mut bytes);
        RawDocumentBuf::from_bytes(framed(&bytes)).map_err(|error| EvalError::new(0, error.to_string()))
    }

    fn keep(&self, document: &[u8], paths: &[&[String]], bytes: &mut Vec<u8>) {
        for element in Elements::of(document) {
            let under: Vec<&[String]> =
                paths.iter().filter(|path| path[0].as_bytes() == element.name).map(|path| &path[1..]).collect();
            if under.is_empty() {
                if !self.includes {
                    append(bytes, element.name, element.value);
                }
            } else if under.iter().any(|path| path.is_empty()) {
                if self.includes {
                    append(bytes, element.name, element.value);
                }
            } else if element.value.is_document() {
                let mut inside = Vec::new();
                self.keep(element.value.bytes, &under, &mut inside);
                append(bytes, element.name, Value { kind: element.value.kind, bytes: &framed(&inside) });
            } else if !self.includes {
                append(bytes, element.name, element.value);
            }
        }
    }
}

fn flag(value: &Bson) -> Option<bool> {
    match value {
        Bson::Boolean(truth) => Some(*truth),
        _ => number(value.into()).map(|number| number.compare(Number::Int(0)).is_ne()),
    }
}
