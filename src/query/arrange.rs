//! The order in which conditions are evaluated on a document: MongoDB's, whatever the order in the filter.
//!
//! The order is visible if a condition can fail on a document: a condition is not evaluated when an earlier one has
//! decided. The positional projection depends on the written order, so conditions that cannot fail keep it. MongoDB
//! does not allow both together.

use super::bits::BitQuestion;
use super::expr::Comparisons;
use super::schema::{Schema, Sort};
use super::tree::{Node, Test};

/// The parts of one `$and` or `$or`, flattened: `inner` takes the parts out of nested ones of the same kind. With
/// expressions those come after the others.
pub(super) fn absorbed(nodes: Vec<Node>, inner: impl Fn(&mut Node) -> Option<Vec<Node>>) -> Vec<Node> {
    let fails = nodes.iter().any(has_expression);
    let (mut outer, mut absorbed) = (Vec::with_capacity(nodes.len()), Vec::new());
    for mut node in nodes {
        match inner(&mut node) {
            Some(nodes) if fails => absorbed.extend(nodes),
            Some(nodes) => outer.extend(nodes),
            None => outer.push(node),
        }
    }
    outer.append(&mut absorbed);
    outer
}

/// The parts of one `$and`, `$or` or `$nor` in MongoDB's order, which is visible if one of them can fail. Equal parts
/// keep their order.
pub(super) fn sorted(mut nodes: Vec<Node>) -> Vec<Node> {
    if nodes.iter().any(has_expression) {
        nodes.sort_by_cached_key(Precedence::of);
    }
    nodes
}

/// The parts of one `$and` in their order, those of schemas one by one.
pub(super) fn sorted_in_and(nodes: Vec<Node>) -> Vec<Node> {
    if !nodes.iter().any(has_expression) {
        return nodes;
    }
    let mut nodes = with_schemas_as(nodes, Schema::parts);
    nodes.sort_by_cached_key(Precedence::in_and);
    nodes
}

/// The parts of one `$or`, the alternatives of schemas one by one.
pub(super) fn schemas_as_alternatives(nodes: Vec<Node>) -> Vec<Node> {
    if nodes.iter().any(has_expression) { with_schemas_as(nodes, Schema::alternatives) } else { nodes }
}

fn with_schemas_as(nodes: Vec<Node>, several: fn(&Schema) -> Vec<Schema>) -> Vec<Node> {
    let apart = |node| match node {
        Node::Schema(schema) => several(&schema).into_iter().map(|part| Node::Schema(Box::new(part))).collect(),
        other => vec![other],
    };
    nodes.into_iter().flat_map(apart).collect()
}

/// Whether part of it may fail on a document.
pub(super) fn has_expression(node: &Node) -> bool {
    match node {
        Node::Expr(_) => true,
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().any(has_expression),
        _ => false,
    }
}

impl Node {
    /// Whether it may fail on a document.
    pub fn may_fail(&self) -> bool {
        has_expression(self)
    }

    /// Whether it is evaluated before another part of the same `$and`, as far as that is visible. The parts of an `$and` in it are
    /// parts of that one.
    pub fn comes_before(&self, other: &Self) -> bool {
        match (self, other) {
            (_, other) if !has_expression(other) => true,
            (Self::And(parts), other) => parts.iter().all(|part| part.comes_before(other)),
            (one, Self::And(others)) => others.iter().all(|other| one.comes_before(other)),
            (one, other) => Precedence::in_and(one) < Precedence::in_and(other),
        }
    }
}

/// The sort key of a condition, as in MongoDB: its kind, its path, then its parts one by one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    rank: u8,
    path: String,
    parts: Vec<Precedence>,
}

const AND: u8 = 0;
const OR: u8 = 1;
const NOT: u8 = 18;
const EXPRESSION: u8 = 23;
/// The conditions that MongoDB derives from the comparisons in an expression, after all others.
const SCHEMA: u8 = 31;
const COMPARISONS: [(&str, u8); 5] = [("$eq", 26), ("$gt", 27), ("$gte", 28), ("$lt", 29), ("$lte", 30)];

impl Precedence {
    fn of(node: &Node) -> Self {
        match node {
            Node::And(nodes) => Self::list(AND, nodes.iter().map(Self::in_and)),
            Node::Or(nodes) => Self::list(OR, nodes.iter().map(Self::of)),
            // One alone is a negation like that of a test.
            Node::Nor(nodes) if nodes.len() == 1 => Self::list(NOT, nodes.iter().map(Self::of)),
            Node::Nor(nodes) => Self::list(19, nodes.iter().map(Self::of)),
            Node::Path(path, test) => Self::of_test(path.as_str(), test),
            Node::Expr(expression) => match expression.comparisons() {
                Some(comparisons) => {
                    let comparisons = match Self::of_comparisons(&comparisons) {
                        Self { rank: AND, parts, .. } => parts,
                        other => vec![other],
                    };
                    Self::list(AND, comparisons.into_iter().chain([Self::alone(EXPRESSION)]))
                }
                None => Self::alone(EXPRESSION),
            },
            Node::Schema(schema) => Self::of_schema(schema),
            Node::Server(_) => Self::alone(21),
            // An `$and` of nothing.
            Node::Always => Self::alone(AND),
            Node::Never => Self::alone(24),
            Node::Holds => Self::alone(25),
        }
    }

    /// The key of a part of an `$and` that also contains the comparisons of an expression.
    fn in_and(node: &Node) -> Self {
        if matches!(node, Node::Expr(_)) { Self::alone(EXPRESSION) } else { Self::of(node) }
    }

    fn alone(rank: u8) -> Self {
        Self { rank, path: String::new(), parts: Vec::new() }
    }

    fn list(rank: u8, parts: impl Iterator<Item = Self>) -> Self {
        let mut parts: Vec<Self> = parts.collect();
        parts.sort();
        Self { parts, ..Self::alone(rank) }
    }

    fn of_schema(schema: &Schema) -> Self {
        match schema.sort() {
            Sort::All => Self::alone(AND),
            // Alternatives are compared by the first of them.
            Sort::Any { bounded } => Self::list(OR, [Self::alone(if bounded { 6 } else { NOT })].into_iter()),
            Sort::Exists(path) => Self::of_test(path, &Test::Exists),
            Sort::Not(schema) => Self::list(NOT, [Self::of_schema(schema)].into_iter()),
            Sort::Own => Self::alone(SCHEMA),
        }
    }

    fn of_test(path: &str, test: &Test) -> Self {
        let rank = match test {
            // Both combine other tests, and have no path of their own.
            Test::Not(test) => return Self::list(NOT, [Self::of_test(path, test)].into_iter()),
            Test::All(tests) => return Self::list(AND, tests.iter().map(|test| Self::of_test(path, test))),
            Test::ElemMatchDocument(_) => 2,
            Test::ElemMatchValue(_) => 3,
            Test::Size(_) => 4,
            Test::Eq(_) => 5,
            Test::Lte(_) => 6,
            Test::Lt(_) => 7,
            Test::Gt(_) => 8,
            Test::Gte(_) => 9,
            Test::Regex(_) => 10,
            Test::Mod { .. } => 11,
            Test::Exists => 12,
            Test::In(_) => 13,
            Test::Bits(bits) => match bits.question() {
                BitQuestion::AllSet => 14,
                BitQuestion::AllClear => 15,
                BitQuestion::AnySet => 16,
                BitQuestion::AnyClear => 17,
            },
            Test::Type(_) => 20,
            Test::Server(_) => 21,
        };
        Self { path: path.to_owned(), ..Self::alone(rank) }
    }

    fn of_comparisons(comparisons: &Comparisons) -> Self {
        match comparisons {
            Comparisons::All(parts) => Self::list(AND, parts.iter().map(Self::of_comparisons)),
            Comparisons::Any(parts) => Self::list(OR, parts.iter().map(Self::of_comparisons)),
            Comparisons::One(operator, path) => {
                let rank = COMPARISONS.iter().find(|(name, _)| name == operator).map_or(EXPRESSION, |(_, rank)| *rank);
                Self { path: path.clone(), ..Self::alone(rank) }
            }
        }
    }
}
