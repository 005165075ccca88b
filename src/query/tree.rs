//! The compiled form of a filter, for the matcher and the planner of indexes.
//!
//! Law: the tree is completely checked, compiled, split and sorted when it is made.

use bson::Bson;

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

/// Types whose equal values are equal bytes. Doubles and decimals are not among them, nor are types that contain them.
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
