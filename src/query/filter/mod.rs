//! The filter: a client's document, parsed once. Every refusal of a filter happens in `parser` and `operators`.
//!
//! The files of this folder refer to each other.
//!
//! This recursion is real: a filter holds operators, and some of them, such as `$not` and `$elemMatch`, hold filters.

pub(super) mod operators;
pub(super) mod parser;

use std::sync::{Arc, OnceLock};

use bson::raw::RawDocument;
use bson::{Bson, DateTime, Document, doc};

use self::parser::{Level, Parser, TOP_OPERATORS};
use super::budget::{Budget, Effort};
use super::demand::Demand;
use super::error::{EvalError, QueryError};
use super::matcher;
use super::path::Path;
use super::tree::{InSet, Node, Operand, Test};

/// How large a filter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How deep documents and arrays may nest.
    pub max_depth: usize,
    /// The maximum number of conditions and values in a filter. Values that consist of others count through these only. A
    /// list of plain values after `$in`, `$nin` or `$all` counts as one.
    pub max_nodes: usize,
    /// How many values `$in`, `$nin` and `$all` may list.
    pub max_in_items: usize,
    /// How many characters a regular expression may have.
    pub max_regex_chars: usize,
    /// Whether JavaScript may be compared with as a plain value. It is never run.
    pub code_values: bool,
    /// Whether the operator of the service for fields may be used in it.
    pub own_operator: bool,
}

impl Limits {
    /// No limits but MongoDB's own depth, for conditions of the service.
    pub const NONE: Self = Self {
        max_depth: 180,
        max_nodes: usize::MAX,
        max_in_items: usize::MAX,
        max_regex_chars: usize::MAX,
        code_values: true,
        own_operator: true,
    };
    /// Those of clients where no setting says otherwise.
    pub const DEFAULT: Self = Self {
        max_depth: 20,
        max_nodes: 500,
        max_in_items: 1000,
        max_regex_chars: 1000,
        code_values: false,
        own_operator: false,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A condition on documents: as the client sent it, and compiled. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Filter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Made on demand for conditions of the service.
    document: OnceLock<Document>,
    made_of: Option<OwnTest>,
    tree: Node,
    server: Option<&'static str>,
    names_no_element: Option<&'static str>,
    /// Whether the document has conditions of the service, even where the tree needs none of them.
    has_own: bool,
    guarded: Option<Guarded>,
}

/// The two halves of a guarded filter, see [`Filter::guarded_by`].
#[derive(Debug, Clone)]
pub struct Guarded {
    /// Evaluated first. A condition of the service, which cannot fail.
    pub guard: Filter,
    /// Evaluated where the guard holds.
    pub question: Filter,
}

/// A condition of the service: most are only evaluated, and never sent to a server.
#[derive(Debug)]
struct OwnTest {
    operator: &'static str,
    value: Bson,
}

impl OwnTest {
    fn to_document(&self, path: &str) -> Document {
        doc! { path: { self.operator: self.value.clone() } }
    }
}

impl Filter {
    /// Compiles a filter document of this service, which has no `$$NOW`.
    ///
    /// # Errors
    /// Everything that MongoDB refuses, exceeded `limits`, and server-side JavaScript, with the place.
    pub fn parse(document: &Document, limits: &Limits) -> Result<Self, QueryError> {
        Self::read(document, Parser::at(*limits, "filter"))
    }

    /// Compiles a client's filter document; `now` is `$$NOW`, once for the whole query as in MongoDB.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn parse_at(document: &Document, limits: &Limits, now: DateTime) -> Result<Self, QueryError> {
        Self::read(document, Parser::at(*limits, "filter").with_now(now))
    }

    /// The same, with no more effort than that.
    ///
    /// # Errors
    /// As [`Filter::parse`]; when it takes too long or too much.
    pub fn parse_with(
        document: &Document,
        limits: &Limits,
        now: DateTime,
        effort: &Effort,
    ) -> Result<Self, QueryError> {
        Self::read(document, Parser::at(*limits, "filter").with_now(now).with_effort(effort))
    }

    /// Compiles a condition that the code writes. Clients give values in it, never operators, paths or patterns.
    ///
    /// # Panics
    /// When it is not a filter.
    pub fn ours(document: &Document) -> Self {
        Self::parse(document, &Limits::NONE).expect("the condition is made of known operators")
    }

    fn read(document: &Document, mut parser: Parser) -> Result<Self, QueryError> {
        parser.check_size(document)?;
        let tree = parser.document(document, Level::Top)?.settled();
        let Parser { server, names_no_element, has_own, .. } = parser;
        Ok(Self::made(Inner { server, names_no_element, has_own, ..Inner::of(document.clone(), tree) }))
    }

    /// The names of the operators of filters, those of expressions apart. Some are refused when they are used.
    pub fn operators() -> impl Iterator<Item = &'static str> {
        TOP_OPERATORS.into_iter().chain(operators::names())
    }

    /// The filter that every document matches.
    pub fn all() -> Self {
        Self::from_parts(Document::new(), Node::Always)
    }

    /// `path` leads to `value`.
    pub fn equals(path: &str, value: impl Into<Bson>) -> Self {
        let value = value.into();
        let test = operand(value.clone()).map(Test::Eq);
        Self::of_test(path, "$eq", value, test)
    }

    /// `path` leads to one of `values`.
    pub fn one_of(path: &str, values: impl IntoIterator<Item = impl Into<Bson>>) -> Self {
        let values: Vec<Bson> = values.into_iter().map(Into::into).collect();
        let test = in_set(&values).map(InSet::into_test);
        Self::of_test(path, "$in", values.into(), test)
    }

    /// `path` leads to none of `values`.
    pub fn none_of(path: &str, values: impl IntoIterator<Item = impl Into<Bson>>) -> Self {
        let values: Vec<Bson> = values.into_iter().map(Into::into).collect();
        let test = in_set(&values).map(|set| Test::Not(Box::new(set.into_test())));
        Self::of_test(path, "$nin", values.into(), test)
    }

    /// Both hold. A guard of either guards both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.guarded().cloned(), other.guarded().cloned()) {
            (None, None) if self.document().is_empty() => other,
            (None, None) if other.document().is_empty() => self,
            (None, None) => {
                let tree = Node::all_of(vec![self.tree().clone(), other.tree().clone()]);
                Self::made(self.joined(&other, tree))
            }
            (Some(Guarded { guard, question }), None) => question.and(other).guarded_by(guard),
            (None, Some(Guarded { guard, question })) => self.and(question).guarded_by(guard),
            (Some(one), Some(two)) => one.question.and(two.question).guarded_by(one.guard.and(two.guard)),
        }
    }

    /// All hold, as parts of one `$and`. None of them has a guard. The parts of an `$and` become parts of the joined one, as
    /// MongoDB joins neighbouring `$match` stages; this decides in which order they are evaluated.
    pub(super) fn all_of(filters: Vec<Self>) -> Self {
        let (mut parts, mut documents, mut server, mut names_no_element) = (Vec::new(), Vec::new(), None, None);
        for filter in filters.iter().filter(|filter| !filter.document().is_empty()) {
            match filter.tree() {
                Node::And(own) => parts.extend(own.iter().cloned()),
                alone => parts.push(alone.clone()),
            }
            documents.push(filter.document().clone());
            server = server.or(filter.inner.server);
            names_no_element = names_no_element.or(filter.inner.names_no_element);
        }
        let has_own = filters.iter().any(|filter| filter.inner.has_own);
        let document = match documents.len() {
            0 => return Self::all(),
            1 => documents.remove(0),
            _ => doc! { "$and": documents },
        };
        let tree = match &filters[..] {
            [alone] => alone.tree().clone(),
            _ => Node::all_of(parts),
        };
        Self::made(Inner { server, names_no_element, has_own, ..Inner::of(document, tree) })
    }

    /// The same filter, evaluated only on documents for which `guard` holds. On all others no part of it is evaluated,
    /// so it can neither fail nor take time there.
    ///
    /// The compiled form begins with the guard. A server chooses the order of conditions itself, so an adapter for a
    /// server must enforce the order, see [`Filter::guarded`].
    #[must_use]
    pub fn guarded_by(self, guard: Self) -> Self {
        let tree = match self.tree().clone() {
            Node::Always | Node::Holds => guard.tree().clone(),
            Node::Never => Node::Never,
            Node::And(parts) => Node::And([guard.tree().clone()].into_iter().chain(parts).collect()),
            question => Node::And(vec![guard.tree().clone(), question]),
        };
        let inner = guard.joined(&self, tree);
        Self::made(Inner { guarded: Some(Guarded { guard, question: self }), ..inner })
    }

    /// Guard and filter, if there is a guard.
    pub fn guarded(&self) -> Option<&Guarded> {
        self.inner.guarded.as_ref()
    }

    /// Both, with what their trees make together.
    fn joined(&self, other: &Self, tree: Node) -> Inner {
        let (server, names_no_element) = (self.inner.server, self.inner.names_no_element);
        let document = match (self.document(), other.document()) {
            (one, none) if none.is_empty() => one.clone(),
            (none, other) if none.is_empty() => other.clone(),
            (one, other) => doc! { "$and": [one.clone(), other.clone()] },
        };
        Inner {
            server: server.or(other.inner.server),
            names_no_element: names_no_element.or(other.inner.names_no_element),
            has_own: self.inner.has_own || other.inner.has_own,
            ..Inner::of(document, tree)
        }
    }

    /// A filter that was compiled as a part of something else.
    pub(super) fn of_tree(document: Document, tree: Node, server: Option<&'static str>, has_own: bool) -> Self {
        Self::made(Inner { server, has_own, ..Inner::of(document, tree) })
    }

    /// What it demands. No server knows the conditions of the service.
    pub fn demand(&self) -> Demand {
        if self.inner.has_own {
            return Demand::Service;
        }
        // A condition next to one that always or never holds is not in the tree. A server would get it as it is written.
        let demand = self.tree().demand();
        if demand < Demand::of_written(self.document()) { Demand::Service } else { demand }
    }

    /// The document that MongoDB is sent.
    pub fn document(&self) -> &Document {
        self.inner.document.get_or_init(|| match (&self.inner.tree, &self.inner.made_of) {
            (Node::Path(path, _), Some(test)) => test.to_document(path.as_str()),
            _ => Document::new(),
        })
    }

    /// The compiled form.
    pub fn tree(&self) -> &Node {
        &self.inner.tree
    }

    /// Whether the document matches.
    ///
    /// # Errors
    /// Where MongoDB fails as well: an expression on values of wrong types, or a regular expression with excessive
    /// backtracking.
    #[inline]
    pub fn matches(&self, document: &RawDocument) -> Result<bool, EvalError> {
        self.matches_within(document, &Budget::default())
    }

    /// Whether the document matches, within the budget of the whole query.
    ///
    /// # Errors
    /// As [`Filter::matches`], and when the budget is used up.
    #[inline]
    pub fn matches_within(&self, document: &RawDocument, budget: &Budget) -> Result<bool, EvalError> {
        matcher::matches(&self.inner.tree, document, budget)
    }

    /// The operator in it that MongoDB does not allow with the positional projection, if there is one.
    pub(super) fn names_no_element(&self) -> Option<&'static str> {
        self.inner.names_no_element
    }

    /// The operator that only a MongoDB server can answer, if the filter has one.
    pub fn needs_server(&self) -> Option<&str> {
        self.inner.server
    }

    /// The filter without what only a server evaluates; nothing if that is part of a condition that demands more than `most`.
    pub fn without_server(&self, most: Demand) -> Option<Self> {
        if self.inner.server.is_none() {
            return Some(self.clone());
        }
        let tree = self.tree().without_server(most)?;
        Some(Self::made(Inner { has_own: self.inner.has_own, ..Inner::of(self.document().clone(), tree) }))
    }

    fn from_parts(document: Document, tree: Node) -> Self {
        Self::made(Inner::of(document, tree))
    }

    /// A condition of the service. A value that BSON cannot hold is never stored, so nothing matches it.
    fn of_test(path: &str, operator: &'static str, value: Bson, test: Option<Test>) -> Self {
        let made_of = OwnTest { operator, value };
        let Some(test) = test else { return Self::from_parts(made_of.to_document(path), Node::Never) };
        let tree = Node::Path(Path::new(path), test);
        Self::made(Inner { document: OnceLock::new(), made_of: Some(made_of), ..Inner::of(Document::new(), tree) })
    }

    fn made(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }
}

impl Inner {
    fn of(document: Document, tree: Node) -> Self {
        let document = document.into();
        Self { document, made_of: None, tree, server: None, names_no_element: None, has_own: false, guarded: None }
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
    let mut operands = Vec::with_capacity(values.len());
    for value in values {
        operands.push(operand(value.clone())?);
    }
    Some(InSet::new(operands, Vec::new()))
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, bson};

    use super::super::Projection;
    use super::super::error::{QueryErrorKind, code};
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
    fn a_mistake_in_an_expression_is_named_with_its_place() {
        for (expression, pointer, hint) in [
            (bson!({ "$subtrat": [1, 2] }), "/$expr/$subtrat", "did you mean $subtract?"),
            (bson!({ "$eq": [1, { "$cond": { "iff": 1 } }] }), "/$expr/$eq/1/$cond/iff", "did you mean if?"),
            (
                bson!({ "$switch": { "branches": [{ "case": 1, "then": { "$abss": 1 } }] } }),
                "/$expr/$switch/branches/0/then/$abss",
                "did you mean $abs?",
            ),
            (bson!({ "$let": { "vars": { "a": "$$b" }, "in": 1 } }), "/$expr/$let/vars/a", "undefined variable"),
            (bson!({ "$map": { "input": [], "as": "A", "in": 1 } }), "/$expr/$map/as", "invalid character"),
            (bson!({ "$zip": { "inputs": ["$a", { "$x": 1 }] } }), "/$expr/$zip/inputs/1/$x", "unknown operator"),
            (bson!({ "a": { "b.c": 1 } }), "/$expr/a/b.c", "$getField"),
        ] {
            let error = refusal(&doc! { "$expr": expression });
            assert_eq!(error.pointer, pointer, "{error}");
            assert!(error.message.contains(hint), "{error}");
        }
    }

    #[test]
    fn the_time_of_a_query_is_the_one_that_was_given() {
        let document = doc! { "$expr": { "$eq": ["$a", "$$NOW"] } };
        assert_eq!(refusal(&document).kind, QueryErrorKind::Refused);
        let now = DateTime::from_millis(5);
        let filter = Filter::parse_at(&document, &Limits::default(), now).unwrap();
        assert!(matches(&filter, &doc! { "a": now }));
        let projection = doc! { "b": { "$subtract": ["$$NOW", "$a"] } };
        let projection = Projection::parse_at(&projection, &filter, &Limits::default(), now).unwrap();
        let document = RawDocumentBuf::try_from(&doc! { "a": DateTime::from_millis(3) }).unwrap();
        assert_eq!(projection.apply(&document, &filter).unwrap().get_i64("b").unwrap(), 2);
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
        let error = Projection::parse(&projection, &Filter::all()).expect_err("too long");
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
        assert!(!matches(&Filter::one_of("a", Vec::<Bson>::new()), &doc! { "a": 1 }));
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
    fn a_guard_decides_before_the_question() {
        let fails = Filter::parse(&doc! { "$expr": { "$divide": [1, "$zero"] } }, &Limits::NONE).expect("a filter");
        let guard = Filter::none_of("hidden", [true]);
        let hidden = RawDocumentBuf::try_from(&doc! { "hidden": true, "zero": 0, "a": 1 }).unwrap();
        assert!(fails.matches(&hidden).is_err());
        for guarded in [
            fails.clone().guarded_by(guard.clone()),
            Filter::equals("a", 1).and(fails.clone()).guarded_by(guard.clone()),
            fails.clone().guarded_by(guard.clone()).and(Filter::equals("a", 1)),
            Filter::equals("a", 1).and(fails.clone().guarded_by(guard.clone())),
            Filter::all().guarded_by(guard.clone()).and(fails.clone()),
            fails.guarded_by(guard.clone()).guarded_by(Filter::equals("a", 1)),
        ] {
            assert_eq!(guarded.matches(&hidden).ok(), Some(false), "{guarded:?}");
            assert!(guarded.guarded().is_some());
        }
        assert_eq!(Filter::all().guarded_by(guard.clone()).document(), guard.document());
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
