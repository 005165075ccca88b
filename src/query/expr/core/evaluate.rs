//! The tree of an expression, and its evaluation on a document.

use std::cell::OnceCell;
use std::fmt::Display;

use bson::raw::RawDocument;
use bson::{Bson, Document};

use super::call::{Arguments, Call};
use super::regex::RegexSearch;
use super::variables::{Filtering, Folded, Let, Mapping, Switch};
use crate::query::budget::Budget;
use crate::query::error::EvalError;
use crate::query::expr::value::{Outcome, Value, failure, found};
use crate::query::raw::{Elements, Value as Stored, View, kind};

/// One node of the tree.
#[derive(Debug, Clone)]
pub(in crate::query::expr) enum ExprNode {
    /// A value that needs no document.
    Constant(Value),
    /// A variable, by how many frames up and at which place in the frame it is bound, and a path into it.
    Variable { frame: usize, place: usize, path: Vec<String> },
    /// A path into the document; an empty one is the document itself.
    Path(Vec<String>),
    /// A document whose members are computed.
    Object(Vec<(String, ExprNode)>),
    /// A list whose elements are computed.
    Array(Vec<ExprNode>),
    /// An operator on operands.
    Call(Box<Call>),
    /// `$let`.
    Let(Box<Let>),
    /// `$map`.
    Map(Box<Mapping>),
    /// `$filter`.
    Filter(Box<Filtering>),
    /// `$reduce`.
    Reduce(Box<Folded>),
    /// `$switch`.
    Switch(Box<Switch>),
    /// `$regexFind`, `$regexFindAll`, `$regexMatch`.
    Search(Box<RegexSearch>),
    /// A variable of MongoDB's that has no value here.
    Unavailable(&'static str),
}

/// The document under evaluation; only `$$ROOT` decodes it as a whole.
#[derive(Debug)]
pub(in crate::query::expr) struct Root<'a> {
    raw: &'a RawDocument,
    budget: &'a Budget,
    decoded: OnceCell<Document>,
}

impl<'a> Root<'a> {
    /// Wraps a document's bytes; values made from them count in `budget`.
    pub(in crate::query::expr) fn new(raw: &'a RawDocument, budget: &'a Budget) -> Self {
        Self { raw, budget, decoded: OnceCell::new() }
    }

    fn whole(&self) -> Result<&Document, EvalError> {
        if let Some(document) = self.decoded.get() {
            return Ok(document);
        }
        let document = Document::try_from(self.raw).map_err(broken)?;
        Ok(self.decoded.get_or_init(|| document))
    }
}

fn broken(error: impl Display) -> EvalError {
    EvalError::new(22, error.to_string())
}

fn decode(value: Stored<'_>) -> Result<Bson, EvalError> {
    Ok(match value.view() {
        View::Int32(number) => Bson::Int32(number),
        View::Int64(number) => Bson::Int64(number),
        View::Double(number) => Bson::Double(number),
        View::Bool(truth) => Bson::Boolean(truth),
        View::Null => Bson::Null,
        View::Text(text) if value.kind() == kind::STRING => str::from_utf8(text).map_err(broken)?.into(),
        _ => value.to_bson().ok_or_else(|| broken("a value is no BSON"))?,
    })
}

/// The values of variables: a frame of them and the frames around it.
#[derive(Debug, Clone, Copy)]
pub(in crate::query::expr) struct Scope<'a> {
    root: &'a Root<'a>,
    frame: &'a [Value],
    outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    /// Without variables.
    pub(in crate::query::expr) fn top(root: &'a Root<'a>) -> Self {
        Self { root, frame: &[], outer: None }
    }

    /// Inside a `$let`, `$map`, `$filter` or `$reduce`.
    pub(in crate::query::expr) fn inside(outer: &'a Scope<'a>, frame: &'a [Value]) -> Self {
        Self { root: outer.root, frame, outer: Some(outer) }
    }

    /// What the expression may cost.
    pub(in crate::query::expr) fn budget(&self) -> &'a Budget {
        self.root.budget
    }

    fn variable(&self, frame: usize, place: usize) -> Option<&Bson> {
        let mut scope = self;
        for _ in 0..frame {
            scope = scope.outer?;
        }
        scope.frame.get(place)?.as_ref()
    }
}

impl ExprNode {
    /// A list of constants as a constant, and so on: the value, if it is known.
    pub(in crate::query::expr) fn constant(&self) -> Option<&Value> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The value for the document and the variables in scope.
    ///
    /// Every value passes here, so it is counted here.
    pub(in crate::query::expr) fn evaluate(&self, scope: &Scope<'_>) -> Outcome {
        let budget = scope.budget();
        budget.step(1)?;
        let mark = budget.mark();
        let value = self.compute(scope)?;
        budget.keep(mark, value.as_ref())?;
        Ok(value)
    }

    /// How many elements an array has that is found by a path alone: then none of them is decoded.
    pub(in crate::query::expr) fn length_in_place(&self, scope: &Scope<'_>) -> Result<Option<usize>, EvalError> {
        let Self::Path(path) = self else { return Ok(None) };
        let Some((last, above)) = path.split_last() else { return Ok(None) };
        let mut members = Elements::of(scope.root.raw);
        for name in above {
            match members.member(name).map_err(broken)? {
                Some(value) if value.kind() == kind::DOCUMENT => members = Elements::within(value.bytes),
                _ => return Ok(None),
            }
        }
        let Some(value) = members.member(last).map_err(broken)?.filter(|value| value.is_array()) else {
            return Ok(None);
        };
        let (mut elements, mut length) = (Elements::within(value.bytes), 0);
        while elements.next_element().map_err(broken)?.is_some() {
            length += 1;
        }
        scope.budget().step(length)?;
        Ok(Some(length))
    }

    fn compute(&self, scope: &Scope<'_>) -> Outcome {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Variable { frame, place, path } => {
                Ok(scope.variable(*frame, *place).and_then(|value| follow(value, path)))
            }
            Self::Path(path) => follow_from_root(scope.root, path),
            Self::Object(members) => object(members, scope),
            Self::Array(elements) => array(elements, scope),
            Self::Call(call) => (call.operator.run)(&Arguments::new(call, scope)),
            Self::Let(node) => node.evaluate(scope),
            Self::Map(node) => node.evaluate(scope),
            Self::Filter(node) => node.evaluate(scope),
            Self::Reduce(node) => node.evaluate(scope),
            Self::Switch(node) => node.evaluate(scope),
            Self::Search(node) => node.evaluate(scope),
            Self::Unavailable(name) => failure(51144, format!("builtin variable '$${name}' is not available")),
        }
    }
}

fn object(members: &[(String, ExprNode)], scope: &Scope<'_>) -> Outcome {
    let mut document = Document::new();
    for (name, node) in members {
        if let Some(value) = node.evaluate(scope)? {
            document.insert(name.clone(), value);
        }
    }
    found(document)
}

/// Missing elements become null: an array has no holes.
fn array(elements: &[ExprNode], scope: &Scope<'_>) -> Outcome {
    let mut values = Vec::with_capacity(elements.len());
    for element in elements {
        values.push(element.evaluate(scope)?.unwrap_or(Bson::Null));
    }
    found(values)
}

fn follow_from_root(root: &Root<'_>, path: &[String]) -> Outcome {
    match path {
        [] => root.whole().map(|document| Some(Bson::Document(document.clone()))),
        [name, rest @ ..] => match Elements::of(root.raw).member(name).map_err(broken)? {
            Some(value) => follow_stored(value, rest),
            None => Ok(None),
        },
    }
}

/// As [`follow`]; only what the path leads to is decoded.
fn follow_stored(value: Stored<'_>, path: &[String]) -> Outcome {
    let Some((name, rest)) = path.split_first() else { return decode(value).map(Some) };
    let mut elements = Elements::within(value.bytes);
    match value.kind() {
        kind::DOCUMENT => match elements.member(name).map_err(broken)? {
            Some(value) => follow_stored(value, rest),
            None => Ok(None),
        },
        kind::ARRAY => {
            let mut values = Vec::new();
            while let Some(element) = elements.next_element().map_err(broken)? {
                if element.value.kind() == kind::DOCUMENT {
                    values.extend(follow_stored(element.value, path)?);
                }
            }
            found(values)
        }
        _ => Ok(None),
    }
}

/// Follows a path through documents, and through arrays of documents, which gives an array. Unlike in filters, a number
/// is no position, and an array directly inside an array is not searched.
pub(in crate::query::expr) fn follow(value: &Bson, path: &[String]) -> Value {
    let Some((name, rest)) = path.split_first() else {
        return Some(value.clone());
    };
    match value {
        Bson::Document(document) => follow(document.get(name)?, rest),
        Bson::Array(elements) => Some(Bson::Array(
            elements
                .iter()
                .filter_map(|element| match element {
                    Bson::Document(_) => follow(element, path),
                    _ => None,
                })
                .collect(),
        )),
        _ => None,
    }
}
