//! `$redact`: decides for a document, and for the documents in it, whether it stays.

use bson::raw::RawDocument;
use bson::{Bson, Document};

use super::parser::PipelineParser;
use super::{Budget, EvalError, QueryError};
use crate::query::error::code;
use crate::query::expr::Expression;
use crate::query::projection::encoded;

/// What the expression answers, and the variables of these values.
const KEEP: &str = "keep";
const PRUNE: &str = "prune";
const DESCEND: &str = "descend";

/// `$redact`.
#[derive(Debug, Clone)]
pub(super) struct Redact {
    expression: Expression,
    /// The values of the variables.
    words: [Bson; 3],
}

impl PipelineParser {
    pub(super) fn redact(&mut self, operand: &Bson) -> Result<Redact, QueryError> {
        // They are no constants, so nothing is computed of them before there is a document.
        let expression = Expression::parse_on_current(operand, &["KEEP", "PRUNE", "DESCEND"], &mut self.filter.at)?;
        Ok(Redact { expression, words: [KEEP, PRUNE, DESCEND].map(Bson::from) })
    }
}

impl Redact {
    /// What is left of the document.
    pub(super) fn apply(
        &self,
        document: &RawDocument,
        budget: &Budget,
    ) -> Result<Option<bson::raw::RawDocumentBuf>, EvalError> {
        let decoded =
            Document::try_from(document).map_err(|error| EvalError::new(code::BAD_VALUE, error.to_string()))?;
        match self.left_of(decoded, document, budget)? {
            Some(left) => encoded(&left).map(Some),
            None => Ok(None),
        }
    }

    fn left_of(&self, level: Document, root: &RawDocument, budget: &Budget) -> Result<Option<Document>, EvalError> {
        let mark = budget.mark();
        let current = Bson::Document(level);
        let decision = self.expression.evaluate_on(root, &current, &self.words, budget)?;
        budget.drop_since(mark);
        let Bson::Document(level) = current else { return Ok(None) };
        match decision.as_ref().and_then(Bson::as_str) {
            Some(KEEP) => Ok(Some(level)),
            Some(PRUNE) => Ok(None),
            Some(DESCEND) => {
                let mut left = Document::new();
                for (name, value) in level {
                    if let Some(value) = self.inside(value, root, budget)? {
                        left.insert(name, value);
                    }
                }
                Ok(Some(left))
            }
            _ => Err(EvalError::new(17053, "$redact decides by $$KEEP, $$PRUNE or $$DESCEND alone")),
        }
    }

    /// Documents in the value are decided one by one, also those in arrays in arrays.
    fn inside(&self, value: Bson, root: &RawDocument, budget: &Budget) -> Result<Option<Bson>, EvalError> {
        match value {
            Bson::Document(document) => Ok(self.left_of(document, root, budget)?.map(Bson::Document)),
            Bson::Array(items) => {
                let mut left = Vec::with_capacity(items.len());
                for item in items {
                    left.extend(self.inside(item, root, budget)?);
                }
                Ok(Some(Bson::Array(left)))
            }
            other => Ok(Some(other)),
        }
    }
}
