//! The parser of pipelines: where it is, its limits and its refusals.

use bson::{DateTime, Document};

use super::{QueryError, Unseen};
use crate::query::budget::{Budget, Effort};
use crate::query::filter::Limits;
use crate::query::filter::parser::Parser as FilterParser;
use crate::query::parse_context::Binding;
use crate::suggest::hint;

/// The state of one parse. [`parse`](super::parse) and the files of the stages read with it.
pub(super) struct PipelineParser {
    pub(super) filter: FilterParser,
    pub(super) stages: usize,
    pub(super) depth: usize,
    pub(super) within_facet: bool,
    pub(super) unseen: Unseen,
}

impl PipelineParser {
    pub(super) fn new(limits: Limits, now: Option<DateTime>) -> Self {
        Self::at("pipeline", limits, now)
    }

    /// A parser of what messages call that.
    pub(super) fn at(place: &'static str, limits: Limits, now: Option<DateTime>) -> Self {
        let filter = FilterParser::at(limits, place);
        let filter = match now {
            Some(now) => filter.with_now(now),
            None => filter,
        };
        Self { filter, stages: 0, depth: 0, within_facet: false, unseen: Unseen::default() }
    }

    /// The same parser; documents enter its pipelines without these members.
    pub(super) fn without(self, unseen: Unseen) -> Self {
        Self { unseen, ..self }
    }

    /// The same parser with no more effort than that.
    pub(super) fn with_effort(self, effort: &Effort) -> Self {
        Self { filter: self.filter.with_effort(effort), ..self }
    }

    /// The same parser; what it computes ahead has this budget.
    pub(super) fn with_budget(self, budget: Budget) -> Self {
        Self { filter: self.filter.with_budget(budget), ..self }
    }

    /// The same parser where these variables are bound.
    pub(super) fn with_bindings(mut self, bindings: Vec<(String, Binding)>) -> Self {
        for (name, binding) in bindings {
            self.filter.at.bind(&name, binding);
        }
        self
    }

    /// Whether documents of a collection lose a member before stages see them.
    pub(super) fn hides_of(&self, collection: &str) -> bool {
        self.unseen.everywhere.is_some() || self.unseen.of_collection(collection).is_some()
    }

    /// The member that nobody may ask a collection for.
    pub(super) fn hidden_of(&self, collection: &str) -> Option<&'static str> {
        self.unseen.of_collection(collection)
    }

    /// Refuses the first member that the stage does not know.
    pub(super) fn only(&mut self, options: &Document, known: &[&str], code: i32) -> Result<(), QueryError> {
        match options.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let message = format!("no such option{}", hint(name, known));
                self.within(name, |parser| parser.fail(code, message))
            }
        }
    }

    /// Parses within one more step of the location.
    pub(super) fn within<T>(
        &mut self,
        step: &str,
        parse: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.filter.at.enter(step);
        let parsed = parse(self)?;
        self.filter.at.leave();
        Ok(parsed)
    }

    /// MongoDB's refusal of what is here.
    pub(super) fn fail<T>(&self, code: i32, message: impl Into<String>) -> Result<T, QueryError> {
        Err(self.filter.at.malformed(code, message))
    }
}
