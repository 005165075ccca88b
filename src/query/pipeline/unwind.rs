//! `$unwind`: a document for each element of an array.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::parser::PipelineParser;
use super::{EvalError, QueryError};
use crate::query::path::check_field_path;
use crate::query::projection::{document_of, set_nested};
use crate::query::raw::{Elements, Value, kind, member};

/// `$unwind`.
#[derive(Debug, Clone)]
pub(super) struct Unwind {
    path: Vec<String>,
    index: Option<Vec<String>>,
    preserve: bool,
}

fn steps(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

impl PipelineParser {
    /// `"$path"`, or `{path, includeArrayIndex, preserveNullAndEmptyArrays}`.
    pub(super) fn unwind(&mut self, operand: &Bson) -> Result<Unwind, QueryError> {
        match operand {
            Bson::String(path) => Ok(Unwind { path: self.unwind_path(path)?, index: None, preserve: false }),
            Bson::Document(options) => self.unwind_options(options),
            _ => self.fail(15981, "$unwind takes a path as a text, or a document of options"),
        }
    }

    fn unwind_path(&self, path: &str) -> Result<Vec<String>, QueryError> {
        if path.is_empty() {
            return self.fail(28812, "$unwind needs a path");
        }
        let Some(path) = path.strip_prefix('$') else {
            return self.fail(28818, "the path of $unwind begins with $");
        };
        check_field_path(&self.filter.at, path)?;
        Ok(steps(path))
    }

    fn unwind_options(&mut self, options: &Document) -> Result<Unwind, QueryError> {
        let mut unwind = Unwind { path: Vec::new(), index: None, preserve: false };
        for (name, value) in options {
            self.within(name, |parser| {
                match (name.as_str(), value) {
                    ("path", Bson::String(path)) => unwind.path = parser.unwind_path(path)?,
                    ("path", _) => return parser.fail(28808, "the path of $unwind is a text"),
                    ("preserveNullAndEmptyArrays", Bson::Boolean(preserve)) => unwind.preserve = *preserve,
                    ("preserveNullAndEmptyArrays", _) => return parser.fail(28809, "must be true or false"),
                    ("includeArrayIndex", Bson::String(path)) if path.starts_with('$') => {
                        return parser.fail(28822, "a name for the index does not begin with $");
                    }
                    ("includeArrayIndex", Bson::String(path)) if !path.is_empty() => {
                        check_field_path(&parser.filter.at, path)?;
                        unwind.index = Some(steps(path));
                    }
                    ("includeArrayIndex", _) => return parser.fail(28810, "must be a name for the index"),
                    _ => return parser.fail(28811, "$unwind has no such option"),
                }
                Ok(())
            })?;
        }
        if unwind.path.is_empty() {
            return self.fail(28812, "$unwind needs a path");
        }
        let holds_path = |index: &Vec<String>| index.len() < unwind.path.len() && unwind.path.starts_with(index);
        if unwind.index.as_ref().is_some_and(holds_path) {
            // MongoDB 6.0.5 could crash in such a stage; 6.0.27 does not.
            let message = "would replace what holds the array; name another member";
            return self.within("includeArrayIndex", |parser| Err(parser.filter.at.refused(message)));
        }
        Ok(unwind)
    }
}

impl Unwind {
    /// The documents that a document becomes, one by one.
    pub(super) fn each<E: From<EvalError>>(
        &self,
        document: &RawDocument,
        give: &mut dyn FnMut(&RawDocument) -> Result<super::Flow, E>,
    ) -> Result<super::Flow, E> {
        match at(document.as_bytes(), &self.path) {
            Some(array) if array.is_array() => {
                let mut position = 0_i64;
                for element in array.elements() {
                    let made = self.made(document.as_bytes(), Some(element.value), Some(position))?;
                    if give(&made)?.is_break() {
                        return Ok(super::Flow::Break(()));
                    }
                    position += 1;
                }
                if position == 0 && self.preserve {
                    return give(&self.made(&without(document.as_bytes(), &self.path), None, None)?);
                }
                Ok(super::Flow::Continue(()))
            }
            Some(value) if !value.is_null() => give(&self.made(document.as_bytes(), None, None)?),
            _ if self.preserve => give(&self.made(document.as_bytes(), None, None)?),
            _ => Ok(super::Flow::Continue(())),
        }
    }

    /// The document with the element instead of the array, and with its position.
    fn made(
        &self,
        document: &[u8],
        element: Option<Value<'_>>,
        position: Option<i64>,
    ) -> Result<RawDocumentBuf, EvalError> {
        let mut bytes = Vec::with_capacity(document.len() + 16);
        match element {
            Some(element) => set_nested(document, &self.path, element, &mut bytes),
            None => bytes.extend_from_slice(document),
        }
        if let Some(path) = &self.index {
            let number = position.unwrap_or_default().to_le_bytes();
            let value = if position.is_some() { Value::new(kind::INT64, &number) } else { Value::NULL };
            let before = std::mem::take(&mut bytes);
            set_nested(&before, path, value, &mut bytes);
        }
        document_of(bytes)
    }
}

/// The value at a path through documents alone.
fn at<'a>(document: &'a [u8], path: &[String]) -> Option<Value<'a>> {
    let (name, rest) = path.split_first()?;
    let value = member(document, name.as_bytes())?;
    match rest {
        [] => Some(value),
        _ if value.is_document() => at(value.bytes, rest),
        _ => None,
    }
}

/// The document without the member at the path.
fn without(document: &[u8], path: &[String]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(document.len());
    leave_out(document, path, &mut bytes);
    bytes
}

fn leave_out(document: &[u8], path: &[String], bytes: &mut Vec<u8>) {
    use crate::query::raw::{append, begin, end};
    let start = begin(bytes);
    for element in Elements::within(document) {
        match path {
            [name] if name.as_bytes() == element.name => {}
            [name, rest @ ..] if name.as_bytes() == element.name && element.value.is_document() => {
                bytes.push(kind::DOCUMENT);
                bytes.extend_from_slice(element.name);
                bytes.push(0);
                leave_out(element.value.bytes, rest, bytes);
            }
            _ => append(bytes, element.name, element.value),
        }
    }
    end(bytes, start);
}
