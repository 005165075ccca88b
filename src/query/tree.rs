//! The compiled form of a filter, for the matcher and the planner of indexes.
//!
//! Law: the tree is completely checked, compiled, split and sorted when it is made.

use std::mem::{replace, take};

use bson::Bson;

use super::arrange::{absorbed, has_expression, schemas_as_alternatives, sorted, sorted_in_and};
use super::bits::BitTest;
use super::compare::{compare_values, number, rank_of_kind};
use super::computed::Computed;
use super::number::Number;
use super::path::Path;
use super::raw::{Owned, Value, View, kind};
use super::regex::Regex;
use super::schema::Schema;
use super::types::TypeSet;

/// A condition on a document.
#[derive(Debug, Clone)]
pub enum Node {
    /// Every document matches: `{}`.
    Always,
    /// `$alwaysTrue`, and `$or` with an entry that always holds: like [`Node::Always`], but evaluated last.
    Holds,
    /// No document matches, as with `{a: {$in: []}}`.
    Never,
    /// All of them hold: `$and`, and several members of one document.
    And(Vec<Node>),
    /// At least one holds: `$or`.
    Or(Vec<Node>),
    /// None holds: `$nor`.
    Nor(Vec<Node>),
    /// A test of what a path leads to.
    Path(Path, Test),
    /// `$expr`: the value of an expression counts as true.
    Expr(Box<Computed>),
    /// `$jsonSchema`.
    Schema(Box<Schema>),
    /// `$text`, or an operator of geometry: only a MongoDB server can answer.
    Server(&'static str),
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

/// A condition on what a path leads to.
///
/// A path can lead to several values: the elements of an array, and then the array. The test holds when it
/// holds for one of them, except where the variant says otherwise.
#[derive(Debug, Clone)]
pub enum Test {
    /// `$eq`, and a plain value. `null` also holds for a missing value.
    Eq(Operand),
    /// `$gt`.
    Gt(Operand),
    /// `$gte`.
    Gte(Operand),
    /// `$lt`.
    Lt(Operand),
    /// `$lte`.
    Lte(Operand),
    /// `$in`.
    In(InSet),
    /// `$regex`, and a plain regular expression.
    Regex(Regex),
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$size`: the length of the array.
    Size(i64),
    /// `$mod`.
    Mod {
        /// Not zero.
        divisor: i64,
        /// With the sign of the number tested.
        remainder: i64,
    },
    /// `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.
    Bits(BitTest),
    /// `$all`, and several operators under `$not`: each test holds, though maybe for another value.
    /// An empty list never holds.
    All(Vec<Test>),
    /// `$elemMatch` on documents: one element of the array, a document or an array, matches the node.
    ElemMatchDocument(Box<Node>),
    /// `$elemMatch` on values: one element of the array passes all tests; arrays in it count as one value.
    ElemMatchValue(Vec<Test>),
    /// `$not`, `$ne`, `$nin`, `$exists: false`: the test holds for none of the values.
    Not(Box<Test>),
    /// A geometry operator: only a MongoDB server can answer.
    Server(&'static str),
}

/// A value to compare with, in the forms in which it is needed.
#[derive(Debug, Clone)]
pub struct Operand {
    bson: Bson,
    encoded: Owned,
    rank: i8,
    is_nan: bool,
    is_bytes: bool,
}

impl Operand {
    /// Prepares a value.
    ///
    /// # Errors
    /// When BSON cannot hold it: a zero byte in a name.
    pub fn new(bson: Bson) -> Result<Self, bson::error::Error> {
        let encoded = Owned::encode(&bson)?;
        let is_nan = matches!(encoded.value().kind(), kind::DOUBLE | kind::DECIMAL)
            && number(encoded.value().view()).is_some_and(Number::is_nan);
        let is_bytes = has_one_encoding(encoded.value().kind());
        Ok(Self { rank: rank_of_kind(encoded.value().kind()), bson, encoded, is_nan, is_bytes })
    }

    /// The value as the client sent it.
    pub fn bson(&self) -> &Bson {
        &self.bson
    }

    /// The value as bytes.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        self.encoded.value()
    }

    /// The value as it is compared.
    #[inline]
    pub fn view(&self) -> View<'_> {
        self.encoded.value().view()
    }

    /// The place of its type in the order of types.
    #[inline]
    pub fn rank(&self) -> i8 {
        self.rank
    }

    /// Whether a value of the same type is equal exactly when its bytes are.
    #[inline]
    pub fn is_bytes(&self) -> bool {
        self.is_bytes
    }

    /// Whether it is a NaN, which equals itself and is neither below nor above anything.
    #[inline]
    pub fn is_nan(&self) -> bool {
        self.is_nan
    }
}

/// Types whose equal values are equal bytes. Doubles and decimals are none, nor is what contains them.
fn has_one_encoding(kind: u8) -> bool {
    matches!(
        kind,
        kind::STRING | kind::SYMBOL | kind::INT32 | kind::INT64 | kind::OBJECT_ID | kind::DATE | kind::TIMESTAMP
    )
}

/// The operand of `$in`.
#[derive(Debug, Clone, Default)]
pub struct InSet {
    values: Vec<Operand>,
    regexes: Vec<Regex>,
    has_null: bool,
}

impl InSet {
    /// Sorts the values and drops repeated ones.
    pub fn new(mut values: Vec<Operand>, regexes: Vec<Regex>) -> Self {
        // Ids mostly come in order, each once.
        if !values.is_sorted_by(|left, right| compare_values(left.value(), right.value()).is_lt()) {
            values.sort_by(|left, right| compare_values(left.value(), right.value()));
            values.dedup_by(|left, right| compare_values(left.value(), right.value()).is_eq());
        }
        let has_null = values.iter().any(|value| matches!(value.view(), View::Null));
        Self { values, regexes, has_null }
    }

    /// The simplest test for it: one value alone is an equality.
    pub fn into_test(mut self) -> Test {
        match (self.values.len(), self.regexes.len()) {
            (1, 0) => Test::Eq(self.values.remove(0)),
            (0, 1) => Test::Regex(self.regexes.remove(0)),
            _ => Test::In(self),
        }
    }

    /// The values, in order, each once.
    pub fn values(&self) -> &[Operand] {
        &self.values
    }

    /// The regular expressions among them.
    pub fn regexes(&self) -> &[Regex] {
        &self.regexes
    }

    /// Whether nothing is in it, so that it never holds.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.regexes.is_empty()
    }

    /// Whether `null` is in it, which a missing value equals.
    pub fn has_null(&self) -> bool {
        self.has_null
    }

    /// Whether the value equals one of the values.
    #[inline]
    pub fn contains(&self, value: Value<'_>) -> bool {
        self.values.binary_search_by(|operand| compare_values(operand.value(), value)).is_ok()
    }
}
