//! What conditions demand: who may evaluate them, and on which documents.
//!
//! This is the one place that decides it. No arm stands for what is left, so a new operator does not compile until it is sorted
//! in here.

mod conditions;

use bson::{Bson, Document};

/// How many operators the expressions of a filter may have together for a server to be asked.
const MOST_OPERATORS: usize = 16;

/// What a condition demands, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// A comparison: it cannot fail, and takes next to no time. The store or the service
    /// evaluates it, also on hidden documents.
    Plain,
    /// A regular expression, which may take long. A server may be asked where nothing is hidden.
    Pattern,
    /// Expressions with this number of operators, all of them flat. A server may be asked where nothing is hidden.
    Flat(usize),
    /// It is evaluated in the service, within the memory and the time of the request.
    Service,
}

impl Demand {
    /// The most that a server is asked for.
    pub const MOST_OF_SERVER: Self = Self::Flat(MOST_OPERATORS);

    /// The least that a condition demands by the operators that are written in it, wherever they stand.
    pub(super) fn of_written(condition: &Document) -> Self {
        let demands = condition.iter().map(|(name, value)| match name.as_str() {
            "$expr" | "$jsonSchema" => Self::Flat(0),
            "$regex" => Self::Pattern,
            _ => Self::of_written_value(value),
        });
        demands.max().unwrap_or(Self::Plain)
    }

    fn of_written_value(value: &Bson) -> Self {
        match value {
            Bson::RegularExpression(_) => Self::Pattern,
            Bson::Document(document) => Self::of_written(document),
            Bson::Array(items) => items.iter().map(Self::of_written_value).max().unwrap_or(Self::Plain),
            _ => Self::Plain,
        }
    }

    /// What both demand together.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Flat(one), Self::Flat(two)) => Self::of_flat(one + two),
            (one, other) => one.max(other),
        }
    }

    /// The demand of an expression with this number of flat operators.
    pub(in crate::query) fn of_flat(operators: usize) -> Self {
        if operators <= MOST_OPERATORS { Self::Flat(operators) } else { Self::Service }
    }

    pub(super) fn of_all(demands: impl Iterator<Item = Self>) -> Self {
        demands.fold(Self::Plain, Self::and)
    }
}
