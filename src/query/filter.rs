//! The filter: a client's document, parsed once. Every refusal of a filter happens here and in `operators`.

use std::sync::Arc;

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};

use super::computed::Computed;
use super::error::{EvalError, Location, QueryError, code};
use super::matcher;
use super::operators::parse_field;
use super::path::Path;
use super::schema::Schema;
use super::suggest::nearest;
use super::tree::{InSet, Node, Operand, Test};

/// How large a filter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How deep documents and arrays may nest.
    pub max_depth: usize,
    /// How many members and elements there may be in all.
    pub max_nodes: usize,
    /// How many values `$in`, `$nin` and `$all` may list.
    pub max_in_items: usize,
    /// How many characters a regular expression may have.
    pub max_regex_chars: usize,
    /// Whether JavaScript may be compared with as a plain value. It is never run.
    pub code_values: bool,
}

impl Limits {
    /// No limits but MongoDB's own depth: for conditions that the service makes itself.
    pub const NONE: Self = Self {
        max_depth: 180,
        max_nodes: usize::MAX,
        max_in_items: usize::MAX,
        max_regex_chars: usize::MAX,
        code_values: true,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_depth: 20, max_nodes: 500, max_in_items: 1000, max_regex_chars: 1000, code_values: false }
    }
}

/// A condition on documents: as the client sent it, and compiled. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Filter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    document: Document,
    tree: Node,
    server: Option<&'static str>,
}

impl Filter {
    /// Compiles a filter document.
    ///
    /// # Errors
    /// What MongoDB refuses, what exceeds `limits`, and server-side JavaScript; with the place.
    pub fn parse(document: &Document, limits: &Limits) -> Result<Self, QueryError> {
        let mut parser = Parser::at(*limits, "filter");
        parser.check_size(document)?;
        let tree = parser.document(document, Level::Top)?;
        Ok(Self::from_parts(document.clone(), tree, parser.server))
    }

    /// The filter that every document matches.
    pub fn all() -> Self {
        Self::from_parts(Document::new(), Node::Always, None)
    }

    /// `path` leads to `value`.
    pub fn equals(path: &str, value: impl Into<Bson>) -> Self {
        let value = value.into();
        let test = operand(value.clone()).map(Test::Eq);
        Self::of_test(doc! { path: { "$eq": value } }, path, test)
    }

    /// `path` leads to one of `values`.
    pub fn one_of(path: &str, values: Vec<Bson>) -> Self {
        let test = in_set(&values).map(InSet::into_test);
        Self::of_test(doc! { path: { "$in": values } }, path, test)
    }

    /// `path` leads to none of `values`.
    pub fn none_of(path: &str, values: Vec<Bson>) -> Self {
        let test = in_set(&values).map(|set| Test::Not(Box::new(set.into_test())));
        Self::of_test(doc! { path: { "$nin": values } }, path, test)
    }

    /// Both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self.document().is_empty() {
            return other;
        }
        if other.document().is_empty() {
            return self;
        }
        let document = doc! { "$and": [self.document().clone(), other.document().clone()] };
        let server = self.inner.server.or(other.inner.server);
        let mut parts = Vec::new();
        for tree in [self.tree(), other.tree()] {
            match tree {
                Node::And(nodes) => parts.extend(nodes.iter().cloned()),
                node => parts.push(node.clone()),
            }
        }
        Self::from_parts(document, Node::And(parts), server)
    }

    /// The document that MongoDB is sent.
    pub fn document(&self) -> &Document {
        &self.inner.document
    }

    /// The compiled form.
    pub fn tree(&self) -> &Node {
        &self.inner.tree
    }

    /// Whether the document matches.
    ///
    /// # Errors
    /// Where MongoDB fails as well: an expression on values it cannot work with, a regular expression that
    /// goes back and forth too long.
    #[inline]
    pub fn matches(&self, document: &RawDocument) -> Result<bool, EvalError> {
        matcher::matches(&self.inner.tree, document)
    }

    /// The operator that only a MongoDB server can answer, if the filter has one.
    pub fn needs_server(&self) -> Option<&str> {
        self.inner.server
    }

    fn from_parts(document: Document, tree: Node, server: Option<&'static str>) -> Self {
        Self { inner: Arc::new(Inner { document, tree, server }) }
    }

    /// A condition of our own. A value that BSON cannot hold is stored nowhere, so nothing matches it.
    fn of_test(document: Document, path: &str, test: Option<Test>) -> Self {
        let tree = test.map_or(Node::Never, |test| Node::Path(Path::new(path), test));
        Self::from_parts(document, tree, None)
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::all()
    }
}

fn operand(value: Bson) -> Option<Operand> {
    Operand::new(value).ok()
}

fn in_set(values: &[Bson]) -> Option<InSet> {
    values.iter().cloned().map(operand).collect::<Option<_>>().map(|values| InSet::new(values, Vec::new()))
}

/// What a document of conditions is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The filter itself.
    Top,
    /// The operand of `$elemMatch`, or a logical operator in it.
    Inner,
}

/// The state of one parse.
pub(super) struct Parser {
    pub(super) limits: Limits,
    pub(super) at: Location,
    pub(super) server: Option<&'static str>,
    nodes: usize,
}

/// The operators that stand where a field name could.
const TOP_OPERATORS: [&str; 10] =
    ["$and", "$or", "$nor", "$expr", "$jsonSchema", "$comment", "$text", "$where", "$alwaysTrue", "$alwaysFalse"];

impl Parser {
    /// A parser at the top of the document that `root` names.
    pub(super) fn at(limits: Limits, root: &'static str) -> Self {
        Self { limits, at: Location::new(root), server: None, nodes: 0 }
    }

    /// Parses within one more step of the location.
    pub(super) fn within<T>(
        &mut self,
        step: impl Into<String>,
        parse: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.at.enter(step);
        let parsed = parse(self)?;
        self.at.leave();
        Ok(parsed)
    }

    pub(super) fn bad<T>(&self, message: impl Into<String>) -> Result<T, QueryError> {
        Err(self.at.malformed(code::BAD_VALUE, message))
    }

    /// Looks at everything before anything is compiled: the limits, and JavaScript in whatever place.
    pub(super) fn check_size(&mut self, document: &Document) -> Result<(), QueryError> {
        for (name, value) in document {
            self.within(name.clone(), |parser| {
                if matches!(name.as_str(), "$where" | "$function" | "$accumulator") {
                    return Err(parser.at.refused(format!(
                        "{name} runs JavaScript on the server, which is not offered; use $expr or the other operators"
                    )));
                }
                parser.check_value(value)
            })?;
        }
        Ok(())
    }

    fn check_value(&mut self, value: &Bson) -> Result<(), QueryError> {
        self.nodes += 1;
        if self.nodes > self.limits.max_nodes {
            let limit = self.limits.max_nodes;
            return Err(self.at.limit(format!("more than {limit} conditions and values in all; ask in several parts")));
        }
        if self.at.depth() > self.limits.max_depth {
            let limit = self.limits.max_depth;
            return Err(self.at.limit(format!("nested deeper than {limit} levels; put it less deep")));
        }
        match value {
            Bson::Document(document) => self.check_size(document),
            Bson::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.within(index.to_string(), |parser| parser.check_value(item))?;
                }
                Ok(())
            }
            Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) if !self.limits.code_values => {
                Err(self.at.refused("JavaScript is not offered; use a plain value or another operator"))
            }
            _ => Ok(()),
        }
    }

    /// Parses a document of conditions.
    pub(super) fn document(&mut self, document: &Document, level: Level) -> Result<Node, QueryError> {
        let mut nodes = Vec::with_capacity(document.len());
        for (name, value) in document {
            let node = self.within(name.clone(), |parser| {
                if name.starts_with('$') {
                    parser.top_operator(name, value, level)
                } else {
                    parse_field(parser, name, value)
                }
            })?;
            match node {
                Node::Always => {}
                Node::And(parts) => nodes.extend(parts),
                node => nodes.push(node),
            }
        }
        Ok(match nodes.len() {
            0 => Node::Always,
            1 => nodes.remove(0),
            _ => Node::And(nodes),
        })
    }

    fn top_operator(&mut self, name: &str, value: &Bson, level: Level) -> Result<Node, QueryError> {
        match name {
            "$and" => self.branches(name, value, level).map(Node::And),
            "$or" => self.branches(name, value, level).map(Node::any_of),
            "$nor" => self.branches(name, value, level).map(Node::Nor),
            "$comment" => Ok(Node::Always),
            "$text" | "$jsonSchema" | "$expr" if level == Level::Inner => {
                let message =
                    format!("{name} stands at the top of a filter, not in $elemMatch; put it beside the field");
                Err(self.at.malformed(code::NOT_ALLOWED, message))
            }
            "$text" => {
                self.server = self.server.or(Some("$text"));
                Ok(Node::Server("$text"))
            }
            "$expr" => Computed::parse(value, &mut self.at).map(|expression| Node::Expr(Box::new(expression))),
            "$jsonSchema" => Schema::parse(value, &mut self.at).map(|schema| Node::Schema(Box::new(schema))),
            "$alwaysTrue" => Ok(Node::Always),
            "$alwaysFalse" => Ok(Node::Never),
            _ => {
                let hint = nearest(name, &TOP_OPERATORS);
                self.bad(format!(
                    "unknown operator{hint}; a field whose name begins with $ is reached with $expr and $getField"
                ))
            }
        }
    }

    fn branches(&mut self, name: &str, value: &Bson, level: Level) -> Result<Vec<Node>, QueryError> {
        let Bson::Array(items) = value else {
            return self.bad(format!("{name} must be an array of filters"));
        };
        if items.is_empty() {
            return self.bad(format!("{name} must be an array of at least one filter"));
        }
        let mut nodes = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let node = self.within(index.to_string(), |parser| match item {
                Bson::Document(document) => parser.document(document, level),
                _ => parser.bad(format!("the entries of {name} must be filters")),
            })?;
            nodes.push(node);
        }
        Ok(nodes)
    }
}
