//! MongoDB's aggregation expressions, for `$expr` in filters and for computed fields in projections.
//!
//! There are two phases, as in a compiler. [`Expression::parse`] checks names, arities and constant operands, resolves
//! variables, and computes everything that does not depend on a document. [`Expression::evaluate`] runs the rest.
//!
//! Laws:
//! - Missing is not null: `None` and `Bson::Null` are two values, see "missing fields" in MongoDB's manual.
//! - Every refusal and every failure carries MongoDB's number for it.
//! - This module reads no clock: the caller gives the value of `$$NOW` to the parser, once for the whole query.
//! - Operators that run JavaScript or need the server are refused by name when parsing, never skipped.

mod accumulate;
mod arithmetic;
mod array;
mod boolean;
mod comparisons;
mod convert;
mod core;
mod date;
mod decimal;
mod extremes;
mod flat;
mod hashed_key;
mod object;
mod operators;
mod rounding;
mod set;
mod sort_array;
mod string;
mod trigonometry;
mod value;

#[cfg(test)]
mod tests;

use bson::raw::RawDocument;
use bson::{Bson, DateTime};

use self::core::evaluate::{ExprNode, Root, Scope};
use self::core::{fold, parse};
use super::budget::Budget;
use super::demand::Demand;
use super::error::{EvalError, QueryError};
use super::parse_context::Location;
pub(in crate::query) use accumulate::{Deviation, Total};
pub(in crate::query) use arithmetic::Divisor;
pub(in crate::query) use comparisons::Comparisons;
pub(in crate::query) use extremes::Extremes;

/// An expression that was checked and is ready to run on documents.
#[derive(Debug, Clone)]
pub struct Expression {
    node: ExprNode,
    demand: Demand,
}

impl Expression {
    /// The names of the operators of expressions. Some are refused when they are used.
    pub fn operators() -> impl Iterator<Item = &'static str> {
        operators::TABLE.all().map(|operator| operator.name)
    }

    /// Reads an expression; `$$NOW` is the time of the location.
    ///
    /// # Errors
    /// Everything that MongoDB refuses before it reads a document, with its number. Also JavaScript, and operators that
    /// need the server.
    pub(in crate::query) fn parse(value: &Bson, location: &mut Location) -> Result<Self, QueryError> {
        let node = parse::ExprParser::new(location, operators::TABLE).expression(value)?;
        Self::folded(node, flat::operators(value).map_or(Demand::Service, Demand::of_flat), location)
    }

    fn folded(node: ExprNode, demand: Demand, location: &Location) -> Result<Self, QueryError> {
        let node =
            fold::fold(node, location.budget()).map_err(|error| location.malformed(error.code, error.message))?;
        Ok(Self { node, demand })
    }

    /// What it demands.
    pub(in crate::query) fn demand(&self) -> Demand {
        self.demand
    }

    /// As [`Expression::parse`], for an expression whose paths begin at a value that comes with the document, and so do the
    /// values of these variables.
    ///
    /// # Errors
    /// As there.
    pub(in crate::query) fn parse_on_current(
        value: &Bson,
        variables: &[&str],
        location: &mut Location,
    ) -> Result<Self, QueryError> {
        let node = parse::ExprParser::on_current(location, variables, operators::TABLE).expression(value)?;
        Self::folded(node, Demand::Service, location)
    }

    /// The value for a document and for where its paths begin, see [`Expression::parse_on_current`].
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub(in crate::query) fn evaluate_on(
        &self,
        document: &RawDocument,
        current: &Bson,
        variables: &[Bson],
        budget: &Budget,
    ) -> Result<Option<Bson>, EvalError> {
        let root = Root::new(document, budget);
        let frame: Vec<_> = std::iter::once(current).chain(variables).map(|value| Some(value.clone())).collect();
        self.node.evaluate(&Scope::inside(&Scope::top(&root), &frame))
    }

    /// The value, if it is the same for every document.
    pub(in crate::query) fn constant_value(&self) -> Option<&Option<Bson>> {
        self.node.constant()
    }

    /// As [`Expression::parse`], for an expression that is a whole document of its own; `now` becomes `$$NOW`.
    ///
    /// # Errors
    /// As there.
    pub fn parse_alone(value: &Bson, now: DateTime) -> Result<Self, QueryError> {
        Self::parse(value, &mut Location::new("expression").with_now(Some(now)))
    }

    /// Whether MongoDB knows an expression operator of this name, such as `$add`.
    pub fn is_operator(name: &str) -> bool {
        operators::TABLE.find(name).is_some()
    }

    /// Whether the expression is the same for every document.
    pub fn is_constant(&self) -> bool {
        matches!(self.node, ExprNode::Constant(_))
    }

    /// The comparisons in it that may be added to it as conditions, if it is a condition itself.
    pub(in crate::query) fn comparisons(&self) -> Option<Comparisons> {
        Comparisons::of(&self.node)
    }

    /// The value for a document; nothing when it is missing.
    ///
    /// # Errors
    /// What MongoDB reports for the operands that this document gives.
    pub fn evaluate(&self, document: &RawDocument) -> Result<Option<Bson>, EvalError> {
        self.evaluate_within(document, &Budget::default())
    }

    /// As [`Expression::evaluate`]. The value is counted in the budget from then on.
    pub(in crate::query) fn evaluate_within(
        &self,
        document: &RawDocument,
        budget: &Budget,
    ) -> Result<Option<Bson>, EvalError> {
        let root = Root::new(document, budget);
        self.node.evaluate(&Scope::top(&root))
    }

    /// Whether the value counts as true: all but missing, null, undefined, `false` and zero.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn is_true(&self, document: &RawDocument) -> Result<bool, EvalError> {
        self.is_true_within(document, &Budget::default())
    }

    /// As [`Expression::is_true`]; nothing stays counted in the budget.
    pub(in crate::query) fn is_true_within(&self, document: &RawDocument, budget: &Budget) -> Result<bool, EvalError> {
        let mark = budget.mark();
        let truth = value::is_true(self.evaluate_within(document, budget)?.as_ref());
        budget.drop_since(mark);
        Ok(truth)
    }
}

/// Refuses a name that no variable of a query can have.
pub(in crate::query) fn check_variable_name(location: &Location, name: &str) -> Result<(), QueryError> {
    parse::check_variable(location, name, true)
}

/// The double nearest to a number; nothing for other values.
pub(in crate::query) fn nearest_double(value: &Bson) -> Option<f64> {
    value::Number::of(value).map(value::Number::to_double)
}
