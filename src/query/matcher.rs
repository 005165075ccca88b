//! Runs a compiled filter over the bytes of a document.
//!
//! Laws: a document that does not match costs no memory on plain comparisons; only expressions and the
//! bound on regular expressions can fail.

use std::cmp::Ordering;

use bson::raw::RawDocument;

use super::budget::Budget;
use super::compare::{NUMBERS, compare_views, number, rank_of_kind};
use super::error::{EvalError, code};
use super::number::Number;
use super::path::{Leaf, Part, Path};
use super::raw::{Elements, Value, kind};
use super::tree::{InSet, Node, Operand, Test};

/// The findings of a run apart from its answer.
#[derive(Debug)]
struct Run<'b> {
    /// What expressions may cost.
    budget: &'b Budget,
    error: Option<EvalError>,
    /// The position at which the last test on an array held, for the positional projection.
    position: Option<usize>,
}

impl<'b> Run<'b> {
    fn new(budget: &'b Budget) -> Self {
        Self { budget, error: None, position: None }
    }
}

/// Whether the document matches.
#[inline]
pub(super) fn matches(node: &Node, document: &RawDocument, budget: &Budget) -> Result<bool, EvalError> {
    let mut run = Run::new(budget);
    let matched = node_matches(node, document.as_bytes(), &mut run);
    run.error.map_or(Ok(matched), Err)
}

/// The position of the array element by which the document matches: `Some(None)` when it matches otherwise.
pub(super) fn matched_position(
    node: &Node,
    document: &RawDocument,
    budget: &Budget,
) -> Result<Option<usize>, EvalError> {
    let mut run = Run::new(budget);
    let matched = node_matches(node, document.as_bytes(), &mut run);
    run.error.map_or(Ok(run.position.filter(|_| matched)), Err)
}

fn node_matches(node: &Node, document: &[u8], run: &mut Run<'_>) -> bool {
    match node {
        Node::Always | Node::Holds => true,
        Node::Never | Node::Server(_) => false,
        Node::And(nodes) => nodes.iter().all(|node| node_matches(node, document, run)),
        // MongoDB does not remember positions below `$or`.
        Node::Or(nodes) => without_position(run, |run| nodes.iter().any(|node| node_matches(node, document, run))),
        Node::Nor(nodes) => without_position(run, |run| !nodes.iter().any(|node| node_matches(node, document, run))),
        Node::Path(path, test) => path_matches(path, test, document, run),
        Node::Expr(expression) => ask(document, run, |document, budget| expression.is_true(document, budget)),
        Node::Schema(schema) => ask(document, run, |document, _| schema.matches(document)),
    }
}

/// Evaluates a test that may fail on a document; the first failure is the outcome of the run.
fn ask(
    document: &[u8],
    run: &mut Run<'_>,
    question: impl FnOnce(&RawDocument, &Budget) -> Result<bool, EvalError>,
) -> bool {
    if run.error.is_some() {
        return false;
    }
    let outcome = match RawDocument::from_bytes(document) {
        Ok(document) => question(document, run.budget),
        Err(error) => Err(EvalError::new(code::BAD_VALUE, error.to_string())),
    };
    outcome.unwrap_or_else(|error| {
        run.error.get_or_insert(error);
        false
    })
}

/// Runs a negation: a match inside it sets no position.
fn without_position(run: &mut Run<'_>, negation: impl FnOnce(&mut Run<'_>) -> bool) -> bool {
    let position = run.position;
    let matched = negation(run);
    run.position = position;
    matched
}

fn path_matches(path: &Path, test: &Test, document: &[u8], run: &mut Run<'_>) -> bool {
    match path.entry() {
        // Its position would be one in the entries.
        Some(entry) => without_position(run, |run| is_at(path, test, &entry.document(document), run)),
        None => is_at(path, test, document, run),
    }
}

fn is_at(path: &Path, test: &Test, document: &[u8], run: &mut Run<'_>) -> bool {
    // Most paths are one name.
    if let ([part], false) = (path.parts(), matches!(test, Test::Not(_) | Test::All(_))) {
        return match part.member(document) {
            Some(array) if array.is_array() => array_matches(test, array, run),
            value => value_matches(test, value, run),
        };
    }
    match test {
        Test::Not(test) => without_position(run, |run| !is_at(path, test, document, run)),
        Test::All(tests) => !tests.is_empty() && tests.iter().all(|test| is_at(path, test, document, run)),
        _ => path.any_in(document, leaf_of(test), &mut |value, position| {
            let matched = value_matches(test, value, run);
            if matched && position.is_some() {
                run.position = position;
            }
            matched
        }),
    }
}

/// Whether the test holds for an array at the end of a path: for one of its elements or for the whole.
fn array_matches(test: &Test, array: Value<'_>, run: &mut Run<'_>) -> bool {
    if leaf_of(test) == Leaf::ElementsAndWhole {
        for (index, element) in Elements::within(array.bytes).enumerate() {
            if value_matches(test, Some(element.value), run) {
                run.position = Some(index);
                return true;
            }
        }
    }
    value_matches(test, Some(array), run)
}

fn leaf_of(test: &Test) -> Leaf {
    match test {
        Test::Size(_) | Test::ElemMatchDocument(_) | Test::ElemMatchValue(_) => Leaf::Whole,
        _ => Leaf::ElementsAndWhole,
    }
}

/// Whether the test holds for this one value; `None` is a missing one.
fn value_matches(test: &Test, value: Option<Value<'_>>, run: &mut Run<'_>) -> bool {
    match test {
        Test::Eq(operand) => equals(value, operand),
        Test::Gt(operand) => compares(value, operand, Relation { less: false, equal: false, greater: true }),
        Test::Gte(operand) => compares(value, operand, Relation { less: false, equal: true, greater: true }),
        Test::Lt(operand) => compares(value, operand, Relation { less: true, equal: false, greater: false }),
        Test::Lte(operand) => compares(value, operand, Relation { less: true, equal: true, greater: false }),
        Test::In(set) => is_in(set, value, run),
        Test::Regex(regex) => value.is_some_and(|value| regex_matches(regex, value, run)),
        Test::Exists => value.is_some(),
        Test::Type(types) => value.is_some_and(|value| types.contains(value.kind())),
        Test::Size(size) => value.is_some_and(|value| value.is_array() && has_size(value, *size)),
        Test::Mod { divisor, remainder } => value
            .and_then(|value| number(value.view()))
            .and_then(Number::truncated)
            .is_some_and(|number| number.checked_rem(*divisor).unwrap_or(0) == *remainder),
        Test::Bits(bits) => value.is_some_and(|value| bits.matches(value.view())),
        Test::All(tests) => !tests.is_empty() && tests.iter().all(|test| value_matches(test, value, run)),
        Test::ElemMatchDocument(node) => value.is_some_and(|value| element_matches(node, value, run)),
        Test::ElemMatchValue(tests) => value.is_some_and(|value| element_passes(tests, value, run)),
        Test::Not(test) => without_position(run, |run| !value_matches(test, value, run)),
        Test::Server(_) => false,
    }
}

/// Which outcomes of a comparison a test accepts.
#[derive(Clone, Copy)]
struct Relation {
    less: bool,
    equal: bool,
    greater: bool,
}

#[inline]
fn equals(value: Option<Value<'_>>, operand: &Operand) -> bool {
    match value {
        Some(value) if operand.is_bytes() && value.kind() == operand.value().kind() => {
            value.bytes == operand.value().bytes
        }
        value => compares(value, operand, Relation { less: false, equal: true, greater: false }),
    }
}

/// Comparisons stay in the bracket of the operand's type, except with `MinKey` and `MaxKey`.
fn compares(value: Option<Value<'_>>, operand: &Operand, relation: Relation) -> bool {
    let kind = value.map_or(kind::UNDEFINED, Value::kind);
    let (Some(value), true) = (value, rank_of_kind(kind) == operand.rank()) else {
        return match operand.value().kind() {
            // Missing, undefined and null are one for the tests that accept equality.
            kind::NULL => relation.equal && rank_of_kind(kind) == rank_of_kind(kind::UNDEFINED),
            kind::MAX_KEY => relation.less,
            kind::MIN_KEY => relation.greater,
            _ => false,
        };
    };
    let left = value.view();
    if operand.rank() == NUMBERS {
        let is_nan = number(left).is_some_and(Number::is_nan);
        if is_nan || operand.is_nan() {
            return relation.equal && is_nan && operand.is_nan();
        }
    }
    match compare_views(left, operand.view()) {
        Ordering::Less => relation.less,
        Ordering::Equal => relation.equal,
        Ordering::Greater => relation.greater,
    }
}

fn is_in(set: &InSet, value: Option<Value<'_>>, run: &mut Run<'_>) -> bool {
    // A stored `undefined` is found like a missing value.
    let Some(value) = value.filter(|value| value.kind() != kind::UNDEFINED) else { return set.has_null() };
    set.contains(value) || set.regexes().iter().any(|regex| regex_matches(regex, value, run))
}

fn regex_matches(regex: &super::regex::Regex, value: Value<'_>, run: &mut Run<'_>) -> bool {
    match regex.matches(value.view()) {
        Ok(matched) => matched,
        Err(error) => {
            run.error = Some(error);
            false
        }
    }
}

fn has_size(array: Value<'_>, size: i64) -> bool {
    i64::try_from(Elements::within(array.bytes).count()).is_ok_and(|count| count == size)
}

/// A condition whose failure shows quickly: its member comes first and has another value.
///
/// Elements of an array mostly have the same members in the same order, with the distinguishing name first.
#[derive(Clone, Copy)]
struct Probe<'f> {
    part: &'f Part,
    operand: &'f Operand,
}

impl<'f> Probe<'f> {
    fn of(node: &'f Node) -> Option<Self> {
        match node {
            Node::And(nodes) => nodes.iter().find_map(Self::of),
            Node::Path(path, Test::Eq(operand)) if operand.is_bytes() => match path.parts() {
                [part] => Some(Self { part, operand }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Values of other types may be equal, and arrays have the operand in them.
    #[inline]
    fn excludes(self, document: &[u8]) -> bool {
        let wanted = self.operand.value();
        self.part
            .at_start(document)
            .is_some_and(|(tag, value)| tag == wanted.kind() && !value.starts_with(wanted.bytes))
    }
}

fn element_matches(node: &Node, array: Value<'_>, run: &mut Run<'_>) -> bool {
    if !array.is_array() {
        return false;
    }
    let probe = Probe::of(node);
    for (index, element) in Elements::within(array.bytes).enumerate() {
        let looks_inside = element.value.is_document() || element.value.is_array();
        if !looks_inside || probe.is_some_and(|probe| probe.excludes(element.value.bytes)) {
            continue;
        }
        if without_position(run, |run| node_matches(node, element.value.bytes, run)) {
            run.position = Some(index);
            return true;
        }
    }
    false
}

fn element_passes(tests: &[Test], array: Value<'_>, run: &mut Run<'_>) -> bool {
    if !array.is_array() {
        return false;
    }
    for (index, element) in Elements::within(array.bytes).enumerate() {
        let passes = |run: &mut Run<'_>| tests.iter().all(|test| value_matches(test, Some(element.value), run));
        if without_position(run, passes) {
            run.position = Some(index);
            return true;
        }
    }
    false
}
