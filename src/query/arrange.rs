//! The order in which a document is asked whether conditions hold: MongoDB's, whatever the order in which they are written.
//!
//! It shows where a condition fails on a document: it is not looked at when another one in front of it has decided already.
//! The positional projection knows only the order in which conditions are written, so what cannot fail keeps that one;
//! MongoDB does not have the two together.

use std::cmp::Ordering;

use super::bits::BitQuestion;
use super::tree::{Node, Test};

/// The parts of one `$and`, `$or` or `$nor`, in order; parts that are alike keep theirs.
///
/// `inner` takes the parts out of a part that is of the same sort. With expressions those come after the others.
pub(super) fn arranged(nodes: Vec<Node>, inner: impl Fn(&mut Node) -> Option<Vec<Node>>) -> Vec<Node> {
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
    if fails {
        outer.sort_by(compare);
    }
    outer
}

fn has_expression(node: &Node) -> bool {
    match node {
        Node::Expr(_) => true,
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().any(has_expression),
        _ => false,
    }
}

fn compare(left: &Node, right: &Node) -> Ordering {
    let here = rank(left).cmp(&rank(right)).then_with(|| path(left).cmp(path(right)));
    here.then_with(|| {
        let (left, right) = (parts(left), parts(right));
        let mut pairs = left.iter().zip(&right).map(|(left, right)| compare(left, right));
        pairs.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
    })
}

/// The parts in the order in which MongoDB has them, which is not theirs where none can fail.
fn parts(node: &Node) -> Vec<&Node> {
    let (Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes)) = node else { return Vec::new() };
    let mut parts: Vec<&Node> = nodes.iter().collect();
    parts.sort_by(|left, right| compare(left, right));
    parts
}

fn path(node: &Node) -> &str {
    match node {
        Node::Path(path, _) => path.as_str(),
        _ => "",
    }
}

fn rank(node: &Node) -> u8 {
    match node {
        Node::And(_) => 0,
        // A schema becomes conditions of its own, mostly alternatives.
        Node::Or(_) | Node::Schema(_) => 1,
        Node::Path(_, test) => rank_of_test(test),
        Node::Nor(_) => 19,
        Node::Server(_) => 21,
        Node::Expr(_) => 23,
        Node::Never => 24,
        Node::Always => 25,
    }
}

fn rank_of_test(test: &Test) -> u8 {
    match test {
        Test::All(_) => 0,
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
        Test::Not(_) => 18,
        Test::Type(_) => 20,
        Test::Server(_) => 21,
    }
}
