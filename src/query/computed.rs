//! Values made up by aggregation expressions: `$expr` in filters, computed members in projections.

use bson::Bson;
use bson::raw::RawDocument;

use super::error::{EvalError, Location, QueryError, code};

/// An expression ready to run.
#[derive(Debug, Clone)]
pub struct Computed {
    literal: Bson,
}

impl Computed {
    /// Reads an expression.
    pub(super) fn parse(value: &Bson, at: &mut Location) -> Result<Self, QueryError> {
        let literal = match value {
            Bson::Document(_) | Bson::Array(_) => None,
            Bson::String(text) if text.starts_with('$') => None,
            value => Some(value.clone()),
        };
        literal
            .map(|literal| Self { literal })
            .ok_or_else(|| at.malformed(code::BAD_VALUE, "expressions are not supported"))
    }

    /// The value for a document; nothing when it is missing.
    pub(super) fn evaluate(&self, _document: &RawDocument) -> Result<Option<Bson>, EvalError> {
        Ok(Some(self.literal.clone()))
    }
}
