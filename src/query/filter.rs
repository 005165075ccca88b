//! The filter: a client's document, parsed once. Every refusal of a filter happens here and in `operators`.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};

use super::budget::Budget;
use super::compare::number;
use super::computed::Computed;
use super::error::{EvalError, Location, QueryError, code};
use super::matcher;
use super::number::Number;
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
    /// How many conditions and values there may be in all. What is made of others does not count by itself, and of
    /// a list of plain values after `$in`, `$nin` or `$all` only the list.
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
        self.matches_within(document, &Budget::default())
    }

    /// Whether the document matches, for a query that has a budget for all its documents.
    ///
    /// # Errors
    /// As [`Filter::matches`], and when the budget is used up.
    #[inline]
    pub fn matches_within(&self, document: &RawDocument, budget: &Budget) -> Result<bool, EvalError> {
        matcher::matches(&self.inner.tree, document, budget)
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

/// Whether a value is cheap to compare with and has nothing inside.
fn is_plain(value: &Bson) -> bool {
    !matches!(
        value,
        Bson::Document(_)
            | Bson::Array(_)
            | Bson::RegularExpression(_)
            | Bson::JavaScriptCode(_)
            | Bson::JavaScriptCodeWithScope(_)
    )
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
    /// Whether `$jsonSchema` may stand here.
    schemas: bool,
    nodes: usize,
}

/// The operators that stand where a field name could.
const TOP_OPERATORS: [&str; 11] = [
    "$sampleRate",
    "$and",
    "$or",
    "$nor",
    "$expr",
    "$jsonSchema",
    "$comment",
    "$text",
    "$where",
    "$alwaysTrue",
    "$alwaysFalse",
];

impl Parser {
    /// A parser at the top of the document that `root` names.
    pub(super) fn at(limits: Limits, root: &'static str) -> Self {
        Self {
            limits,
            at: Location::new(root).with_max_regex_chars(limits.max_regex_chars),
            server: None,
            schemas: true,
            nodes: 0,
        }
    }

    /// The same parser, for the conditions in projections.
    pub(super) fn without_schemas(self) -> Self {
        Self { schemas: false, ..self }
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
                match value {
                    Bson::Array(items) if matches!(name.as_str(), "$in" | "$nin" | "$all") => {
                        parser.check_list(name, items)
                    }
                    _ => parser.check_value(value),
                }
            })?;
        }
        Ok(())
    }

    fn check_value(&mut self, value: &Bson) -> Result<(), QueryError> {
        if self.at.depth() > self.limits.max_depth {
            let limit = self.limits.max_depth;
            return Err(self.at.limit(format!("nested deeper than {limit} levels; put it less deep")));
        }
        match value {
            Bson::Document(document) if !document.is_empty() => self.check_size(document),
            Bson::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.within(index.to_string(), |parser| parser.check_value(item))?;
                }
                Ok(())
            }
            Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) if !self.limits.code_values => {
                Err(self.at.refused("JavaScript is not offered; use a plain value or another operator"))
            }
            _ => self.count(),
        }
    }

    /// A list has a limit of its own, so plain values in it do not count as conditions.
    fn check_list(&mut self, name: &str, items: &[Bson]) -> Result<(), QueryError> {
        let limit = self.limits.max_in_items;
        if items.len() > limit {
            return Err(self.at.limit(format!("{name} with more than {limit} values; ask in several parts")));
        }
        self.count()?;
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !is_plain(item)) {
            self.within(index.to_string(), |parser| parser.check_value(item))?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), QueryError> {
        self.nodes += 1;
        if self.nodes > self.limits.max_nodes {
            let limit = self.limits.max_nodes;
            return Err(self.at.limit(format!("more than {limit} conditions and values in all; ask in several parts")));
        }
        Ok(())
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
            "$text" | "$expr" if level == Level::Inner => {
                self.bad(format!("{name} stands at the top of a filter, not in $elemMatch; put it beside the field"))
            }
            "$text" => self.text(value),
            "$expr" => Computed::parse(value, &mut self.at).map(|expression| Node::Expr(Box::new(expression))),
            "$jsonSchema" if !self.schemas => {
                Err(self.at.malformed(code::NOT_ALLOWED, "$jsonSchema stands in filters, not in projections"))
            }
            "$jsonSchema" => Schema::parse(value, &mut self.at).map(|schema| Node::Schema(Box::new(schema))),
            "$alwaysTrue" => self.constant(value, Node::Always),
            "$alwaysFalse" => self.constant(value, Node::Never),
            "$sampleRate" => self.sample(value),
            _ => {
                let hint = nearest(name, &TOP_OPERATORS);
                self.bad(format!(
                    "unknown operator{hint}; a field whose name begins with $ is reached with $expr and $getField"
                ))
            }
        }
    }

    /// `$text`: only what a server would refuse at once is looked at.
    fn text(&mut self, value: &Bson) -> Result<Node, QueryError> {
        let Bson::Document(operand) = value else {
            return self.bad("$text needs a document: {$search: text}");
        };
        match operand.get("$search") {
            Some(Bson::String(_)) => {
                self.server = self.server.or(Some("$text"));
                Ok(Node::Server("$text"))
            }
            Some(_) => Err(self.at.malformed(code::TYPE_MISMATCH, "$search must be a text")),
            None => Err(self.at.malformed(code::NO_SUCH_KEY, "$text needs $search")),
        }
    }

    fn constant(&self, value: &Bson, node: Node) -> Result<Node, QueryError> {
        match number(value.into()).and_then(Number::as_exact_int) {
            Some(1) => Ok(node),
            _ => Err(self.at.malformed(code::FAILED_TO_PARSE, "the operand must be 1")),
        }
    }

    /// A share of the documents, by chance: the two certain shares alone are answered here.
    fn sample(&mut self, value: &Bson) -> Result<Node, QueryError> {
        let Some(share) = number(value.into()) else { return self.bad("$sampleRate needs a number") };
        match (share.compare(Number::Int(0)), share.compare(Number::Int(1))) {
            (Ordering::Equal, _) => Ok(Node::Never),
            (_, Ordering::Equal) => Ok(Node::Always),
            (Ordering::Greater, Ordering::Less) => {
                self.server = self.server.or(Some("$sampleRate"));
                Ok(Node::Server("$sampleRate"))
            }
            _ => self.bad("$sampleRate needs a number from 0 to 1"),
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

#[cfg(test)]
mod tests {
    use bson::RawDocumentBuf;

    use super::super::error::QueryErrorKind;
    use super::*;

    fn refusal(filter: &Document) -> QueryError {
        Filter::parse(filter, &Limits::default()).expect_err("the filter is wrong")
    }

    fn matches(filter: &Filter, document: &Document) -> bool {
        filter.matches(&RawDocumentBuf::try_from(document).unwrap()).unwrap()
    }

    #[test]
    fn a_misspelt_operator_is_named_with_its_place() {
        let error = refusal(&doc! { "fields": { "$elemMatch": { "value": { "$rgex": "x" } } } });
        assert_eq!(error.to_string(), "filter.fields.$elemMatch.value.$rgex: unknown operator, did you mean $regex?");
        assert_eq!(error.pointer, "/fields/$elemMatch/value/$rgex");
        assert_eq!((error.code, error.kind), (2, QueryErrorKind::Malformed));
    }

    #[test]
    fn pointers_are_escaped_and_count_array_elements() {
        let error = refusal(&doc! { "$or": [{}, { "a/b~c": { "$gt2": 1 } }] });
        assert_eq!(error.pointer, "/$or/1/a~1b~0c/$gt2");
    }

    #[test]
    fn nothing_is_proposed_for_a_name_that_is_like_no_other() {
        assert!(refusal(&doc! { "a": { "$between": [1, 2] } }).message.starts_with("unknown operator"));
        assert!(!refusal(&doc! { "a": { "$between": [1, 2] } }).message.contains("did you mean"));
    }

    #[test]
    fn javascript_is_refused_at_every_depth() {
        let code = Bson::JavaScriptCode("true".to_owned());
        for filter in [
            doc! { "$where": "true" },
            doc! { "$or": [{ "$and": [{ "$where": "true" }] }] },
            doc! { "a": { "$elemMatch": { "$where": "true" } } },
            doc! { "$expr": { "$eq": [1, { "$function": { "body": "x", "args": [], "lang": "js" } }] } },
            doc! { "$expr": { "$accumulator": {} } },
            doc! { "a": code.clone() },
            doc! { "a": { "$in": [1, [code.clone()]] } },
            doc! { "a": { "$eq": { "b": code } } },
        ] {
            assert_eq!(refusal(&filter).kind, QueryErrorKind::Refused, "{filter}");
        }
    }

    #[test]
    fn too_large_filters_are_refused_naming_the_limit() {
        let mut deep = doc! { "a": 1 };
        for _ in 0..20 {
            deep = doc! { "$and": [deep] };
        }
        let many: Vec<Bson> = (0..1001).map(Bson::Int32).collect();
        let limits = Limits { max_nodes: 10_000, ..Limits::default() };
        for (filter, limit) in [
            (deep, "20 levels"),
            (doc! { "a": { "$in": many.clone() } }, "1000 values"),
            (doc! { "a": { "$nin": many.clone() } }, "1000 values"),
            (doc! { "a": { "$regex": "x".repeat(1001) } }, "1000 characters"),
        ] {
            let error = Filter::parse(&filter, &limits).expect_err("too large");
            assert_eq!(error.kind, QueryErrorKind::LimitExceeded);
            assert!(error.message.contains(limit), "{error}");
        }
        let error = refusal(&doc! { "a": many });
        assert!(error.message.contains("500 conditions"), "{error}");
    }

    #[test]
    fn regular_expressions_are_limited_wherever_they_stand() {
        let long = "x".repeat(1001);
        let searched = |name: &str, regex: Bson| doc! { "$expr": { name: { "input": "$a", "regex": regex } } };
        let literal = Bson::RegularExpression(bson::Regex {
            pattern: long.clone().try_into().expect("no zero byte"),
            options: bson::raw::cstr!("").into(),
        });
        for (filter, pointer) in [
            (searched("$regexMatch", long.clone().into()), "/$expr/$regexMatch/regex"),
            (searched("$regexFind", literal), "/$expr/$regexFind/regex"),
            (
                doc! { "$jsonSchema": { "properties": { "a": { "pattern": &long } } } },
                "/$jsonSchema/properties/a/pattern",
            ),
            (doc! { "$jsonSchema": { "patternProperties": { &long: {} } } }, "/$jsonSchema/patternProperties"),
        ] {
            let error = refusal(&filter);
            assert_eq!((error.kind, &*error.pointer), (QueryErrorKind::LimitExceeded, pointer), "{error}");
            assert!(error.message.contains("1000 characters"), "{error}");
            assert!(Filter::parse(&filter, &Limits::NONE).is_ok());
        }
        let joined = bson::bson!({ "$concat": [long.clone(), "x"] });
        assert!(refusal(&searched("$regexFindAll", joined)).message.contains("1000 characters"));
        let projection = doc! { "b": { "$regexMatch": { "input": "$a", "regex": &long } } };
        let error = crate::query::Projection::parse(&projection, &Filter::all()).expect_err("too long");
        assert_eq!((error.kind, &*error.pointer), (QueryErrorKind::LimitExceeded, "/b/$regexMatch/regex"));
    }

    #[test]
    fn a_regular_expression_that_is_computed_for_a_document_is_limited() {
        let filter = doc! { "$expr": { "$regexMatch": { "input": "x", "regex": { "$concat": ["$a", "$a"] } } } };
        let filter = Filter::parse(&filter, &Limits::default()).expect("not long yet");
        let on = |length: usize| filter.matches(&RawDocumentBuf::try_from(&doc! { "a": "x".repeat(length) }).unwrap());
        assert!(on(500).is_ok());
        assert_eq!(on(501).expect_err("too long").code, code::BAD_VALUE);
    }

    #[test]
    fn a_list_of_values_may_be_as_long_as_its_own_limit() {
        let many: Vec<Bson> = (0..1000).map(Bson::Int32).collect();
        for name in ["$in", "$nin", "$all"] {
            assert!(Filter::parse(&doc! { "a": { name: many.clone() } }, &Limits::default()).is_ok(), "{name}");
        }
        let documents: Vec<Bson> = (0..501).map(|number| doc! { "b": number }.into()).collect();
        assert!(refusal(&doc! { "a": { "$in": documents } }).message.contains("500 conditions"));
        let lists: Vec<Document> = (0..501).map(|_| doc! { "a": { "$in": [1, 2] } }).collect();
        assert!(refusal(&doc! { "$or": lists }).message.contains("500 conditions"));
    }

    #[test]
    fn a_condition_counts_once() {
        let conditions = |count: i32| -> Document {
            doc! { "$or": (0..count).map(|number| doc! { "a": { "$gt": number } }).collect::<Vec<_>>() }
        };
        assert!(Filter::parse(&conditions(500), &Limits::default()).is_ok());
        assert!(refusal(&conditions(501)).message.contains("500 conditions"));
        let empty: Vec<Document> = (0..501).map(|_| doc! { "a": {} }).collect();
        assert!(refusal(&doc! { "$or": empty }).message.contains("500 conditions"));
    }

    #[test]
    fn our_own_conditions_read_operators_as_values() {
        let value = doc! { "$gt": 1 };
        let filter = Filter::equals("a", value.clone());
        assert_eq!(filter.document(), &doc! { "a": { "$eq": { "$gt": 1 } } });
        assert!(matches(&filter, &doc! { "a": value }));
        assert!(!matches(&filter, &doc! { "a": 5 }));
        assert!(matches(&Filter::none_of("a", vec![Bson::Int32(1)]), &doc! {}));
        assert!(!matches(&Filter::one_of("a", vec![]), &doc! { "a": 1 }));
    }

    #[test]
    fn joining_keeps_both_conditions_and_drops_the_empty_one() {
        let a = Filter::equals("a", 1);
        let b = Filter::equals("b", 2);
        assert_eq!(a.clone().and(Filter::all()).document(), a.document());
        assert_eq!(Filter::all().and(b.clone()).document(), b.document());
        let both = a.clone().and(b.clone());
        assert_eq!(both.document(), &doc! { "$and": [a.document().clone(), b.document().clone()] });
        assert!(matches(&both, &doc! { "a": 1, "b": 2 }));
        assert!(!matches(&both, &doc! { "a": 1 }));
    }

    #[test]
    fn what_only_a_server_can_answer_is_marked() {
        for (filter, operator) in [
            (doc! { "$text": { "$search": "x" } }, "$text"),
            (doc! { "a": { "$near": [1, 1], "$maxDistance": 1 } }, "$near"),
            (doc! { "$or": [{ "a": 1 }, { "a": { "$geoWithin": { "$box": [[0, 0], [1, 1]] } } }] }, "$geoWithin"),
        ] {
            let filter = Filter::parse(&filter, &Limits::default()).unwrap();
            assert_eq!(filter.clone().needs_server(), Some(operator));
            assert_eq!(Filter::equals("b", 1).and(filter).needs_server(), Some(operator));
        }
    }

    #[test]
    fn broken_bytes_do_not_panic() {
        let filter =
            Filter::parse(&doc! { "a.b": { "$elemMatch": { "c": "x" } }, "d": 1 }, &Limits::default()).unwrap();
        let whole = RawDocumentBuf::try_from(&doc! { "a": { "b": [{ "c": "x" }] }, "d": 1, "e": [1.5, "x"] }).unwrap();
        for position in 4..whole.as_bytes().len() - 1 {
            for byte in [0x00, 0x01, 0x02, 0x0B, 0x7F, 0xFF] {
                let mut bytes = whole.as_bytes().to_vec();
                bytes[position] = byte;
                if let Ok(document) = RawDocumentBuf::from_bytes(bytes) {
                    let _ = filter.matches(&document);
                }
            }
        }
    }
}
