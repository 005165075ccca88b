//! Combines conditions, in the order in which they are evaluated on a document: MongoDB's, whatever the order in the filter.
//!
//! The order is visible if a condition can fail on a document: a condition is not evaluated when an earlier one has
//! decided. The positional projection depends on the written order, so conditions that cannot fail keep it. MongoDB
//! does not allow both together.

use std::mem::{replace, take};

use super::bits::BitQuestion;
use super::expr::Comparisons;
use super::path::Path;
use super::raw::kind;
use super::schema::{Schema, Sort};
use super::tree::{InSet, Node, Test};

/// The parts of one `$and` or `$or`, flattened: `inner` takes the parts out of nested ones of the same kind. With
/// expressions those come after the others.
fn absorbed(nodes: Vec<Node>, inner: impl Fn(&mut Node) -> Option<Vec<Node>>) -> Vec<Node> {
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
fn sorted(mut nodes: Vec<Node>) -> Vec<Node> {
    if nodes.iter().any(has_expression) {
        nodes.sort_by_cached_key(Precedence::of);
    }
    nodes
}

/// The parts of one `$and` in their order, those of schemas one by one.
fn sorted_in_and(nodes: Vec<Node>) -> Vec<Node> {
    if !nodes.iter().any(has_expression) {
        return nodes;
    }
    let mut nodes = with_schemas_as(nodes, Schema::parts);
    nodes.sort_by_cached_key(Precedence::in_and);
    nodes
}

/// The parts of one `$or`, the alternatives of schemas one by one.
fn schemas_as_alternatives(nodes: Vec<Node>) -> Vec<Node> {
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
fn has_expression(node: &Node) -> bool {
    match node {
        Node::Expr(_) => true,
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().any(has_expression),
        _ => false,
    }
}

impl Node {
    /// `$and`, and several members of one document, in the order of evaluation.
    pub fn all_of(parts: Vec<Node>) -> Self {
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Always | Self::Holds => {}
                Self::Never => return Self::Never,
                part => nodes.push(part),
            }
        }
        match nodes.len() {
            0 => Self::Always,
            1 => nodes.remove(0),
            _ => Self::And(sorted_in_and(absorbed(nodes, |node| match node {
                Self::And(inner) => Some(take(inner)),
                // With its comparisons it is an `$and` of its own.
                Self::Expr(expression) if expression.comparisons().is_some() => Some(vec![replace(node, Self::Always)]),
                _ => None,
            }))),
        }
    }

    /// `$nor`, with its parts in the order of evaluation. One that always holds decides before any is evaluated.
    pub fn none_of(nodes: Vec<Node>) -> Self {
        if nodes.iter().any(Self::always_holds) { Self::Never } else { Self::Nor(sorted(nodes)) }
    }

    fn always_holds(&self) -> bool {
        matches!(self, Self::Always | Self::Holds)
    }

    /// `$or`. Plain values of one path become `$in`, as they do in MongoDB.
    ///
    /// That is not only faster: the positional projection sees an array element that `$in` found, but none
    /// that was found below `$or`.
    pub fn any_of(mut nodes: Vec<Node>) -> Self {
        nodes.retain(|node| !matches!(node, Node::Never));
        match nodes.len() {
            0 => Node::Never,
            1 => nodes.remove(0),
            _ if nodes.iter().any(Self::always_holds) => Node::Holds,
            _ => Self::in_of(&nodes).unwrap_or_else(|| Self::Or(Self::alternatives(nodes))),
        }
    }

    /// The entries of an `$or` in the order of evaluation. With an expression MongoDB also joins plain values of one
    /// path, but only of the path of the first value.
    fn alternatives(nodes: Vec<Node>) -> Vec<Node> {
        let nodes = absorbed(nodes, |node| match node {
            Self::Or(inner) => Some(take(inner)),
            _ => None,
        });
        let nodes = schemas_as_alternatives(nodes);
        let first = nodes.iter().find_map(Self::path_of_value).cloned();
        let joins = |node: &Node| node.path_of_value().is_some_and(|path| Some(path) == first.as_ref());
        if !nodes.iter().any(has_expression) || nodes.iter().filter(|node| joins(node)).count() < 2 {
            return sorted(nodes);
        }
        let (values, mut others): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(joins);
        others.extend(Self::in_of(&values));
        sorted(others)
    }

    /// The path of a plain value, or of a regular expression in place of one.
    fn path_of_value(&self) -> Option<&Path> {
        match self {
            Self::Path(path, Test::Eq(value)) if value.value().kind() != kind::REGEX => Some(path),
            Self::Path(path, Test::Regex(_)) => Some(path),
            _ => None,
        }
    }

    /// The condition in its executable form. If nothing in it can fail, parts that always or never hold are removed,
    /// because nobody can notice. With expressions all parts are evaluated in turn, as in MongoDB.
    #[must_use]
    pub fn settled(self) -> Self {
        if has_expression(&self) { self } else { self.reduced() }
    }

    fn reduced(self) -> Self {
        match self {
            Self::Holds => Self::Always,
            Self::Path(_, Test::In(set)) if set.is_empty() => Self::Never,
            Self::And(nodes) => Self::all_of(nodes.into_iter().map(Self::reduced).collect()),
            Self::Or(nodes) => match Self::any_of(nodes.into_iter().map(Self::reduced).collect()) {
                Self::Holds => Self::Always,
                node => node,
            },
            Self::Nor(nodes) => {
                let mut nodes: Vec<Self> = nodes.into_iter().map(Self::reduced).collect();
                nodes.retain(|node| !matches!(node, Self::Never));
                match nodes.len() {
                    0 => Self::Always,
                    _ if nodes.iter().any(|node| matches!(node, Self::Always)) => Self::Never,
                    _ => Self::Nor(nodes),
                }
            }
            other => other,
        }
    }

    fn in_of(nodes: &[Node]) -> Option<Self> {
        let Some(Node::Path(path, _)) = nodes.first() else { return None };
        let (mut values, mut regexes) = (Vec::new(), Vec::new());
        for node in nodes {
            match node {
                Node::Path(other, Test::Eq(value)) if other == path => values.push(value.clone()),
                Node::Path(other, Test::Regex(regex)) if other == path => regexes.push(regex.clone()),
                _ => return None,
            }
        }
        Some(Node::Path(path.clone(), InSet::new(values, regexes).into_test()))
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
