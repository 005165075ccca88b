//! Values of aggregation expressions: `$expr` in filters, computed members in projections.

use bson::Bson;
use bson::raw::RawDocument;

use super::budget::Budget;
use super::demand::Demand;
use super::error::{EvalError, QueryError};
use super::expr::{Comparisons, Expression};
use super::parse_context::Location;

/// An expression ready to run.
#[derive(Debug, Clone)]
pub struct Computed {
    expression: Expression,
}

impl Computed {
    /// Reads an expression.
    pub(super) fn parse(value: &Bson, at: &mut Location) -> Result<Self, QueryError> {
        Expression::parse(value, at).map(|expression| Self { expression })
    }

    /// The comparisons in it that MongoDB turns into conditions.
    pub(super) fn comparisons(&self) -> Option<Comparisons> {
        self.expression.comparisons()
    }

    /// What it demands.
    pub(super) fn demand(&self) -> Demand {
        self.expression.demand()
    }

    /// The value for a document; nothing when it is missing.
    pub(super) fn evaluate(&self, document: &RawDocument, budget: &Budget) -> Result<Option<Bson>, EvalError> {
        self.expression.evaluate_within(document, budget)
    }

    /// Whether the value for a document counts as true.
    pub(super) fn is_true(&self, document: &RawDocument, budget: &Budget) -> Result<bool, EvalError> {
        self.expression.is_true_within(document, budget)
    }
}
