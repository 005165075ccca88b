//! What a parser knows while it reads a client's document: where it is, its variables, its limits and its budget.

use std::fmt::Write as _;

use bson::{Bson, DateTime};

use super::budget::Budget;
use super::error::{QueryError, QueryErrorKind, code};
use crate::pointer;

/// Whether a text has more characters than that.
pub(crate) fn is_longer(text: &str, chars: usize) -> bool {
    text.len() > chars && text.chars().nth(chars).is_some()
}

/// The refusal of a regular expression with more characters than that.
pub(crate) fn regex_too_long(chars: usize) -> String {
    format!("a regular expression of more than {chars} characters; make it shorter")
}

/// What a variable of a pipeline stands for.
#[derive(Debug, Clone)]
pub(crate) enum Binding {
    /// A value that each document gives: the pipeline is read again with it.
    Later,
    /// This value; nothing for a missing one.
    Known(Option<Bson>),
}

/// Where in the client's document the parser is.
#[derive(Debug)]
pub(crate) struct Location {
    root: &'static str,
    steps: Vec<String>,
    max_regex_chars: usize,
    now: Option<DateTime>,
    /// Variables of pipelines, the innermost last.
    bindings: Vec<(String, Binding)>,
    /// For what is computed ahead.
    budget: Budget,
}

impl Location {
    /// At the top of the document that `root` names: `filter`, `sort`, `projection`.
    pub(crate) fn new(root: &'static str) -> Self {
        Self {
            root,
            steps: Vec::new(),
            max_regex_chars: usize::MAX,
            now: None,
            bindings: Vec::new(),
            budget: Budget::default(),
        }
    }

    /// Binds a variable for what is read from here on.
    pub(crate) fn bind(&mut self, name: &str, binding: Binding) {
        self.bindings.push((name.to_owned(), binding));
    }

    /// Forgets the newest variables.
    pub(crate) fn unbind(&mut self, count: usize) {
        self.bindings.truncate(self.bindings.len().saturating_sub(count));
    }

    /// All variables.
    pub(crate) fn bindings(&self) -> &[(String, Binding)] {
        &self.bindings
    }

    /// What a variable stands for.
    pub(crate) fn binding(&self, name: &str) -> Option<&Binding> {
        self.bindings.iter().rev().find(|(known, _)| known == name).map(|(_, binding)| binding)
    }

    /// The document that it is in.
    pub(crate) fn root(&self) -> &'static str {
        self.root
    }

    /// With a limit to the length of regular expressions.
    pub(crate) fn with_max_regex_chars(self, max_regex_chars: usize) -> Self {
        Self { max_regex_chars, ..self }
    }

    /// With the time that `$$NOW` is.
    pub(crate) fn with_now(self, now: Option<DateTime>) -> Self {
        Self { now, ..self }
    }

    /// The value of `$$NOW`, if the caller gave one.
    pub(crate) fn now(&self) -> Option<DateTime> {
        self.now
    }

    /// How many characters a regular expression may have.
    pub(crate) fn max_regex_chars(&self) -> usize {
        self.max_regex_chars
    }

    /// With a budget for what is computed and compiled.
    pub(crate) fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Refuses a regular expression that is too long, or whose compilation exceeds the time.
    pub(crate) fn check_regex(&self, pattern: &str) -> Result<(), QueryError> {
        let most = self.max_regex_chars;
        if is_longer(pattern, most) {
            return Err(self.limit(regex_too_long(most)));
        }
        self.budget.compile(pattern).map_err(|error| self.malformed(error.code, error.message))
    }

    /// Goes into the member or the position.
    pub(crate) fn enter(&mut self, step: impl Into<String>) {
        self.steps.push(step.into());
    }

    /// Goes back out.
    pub(crate) fn leave(&mut self) {
        self.steps.pop();
    }

    /// The budget of values that the parse computes.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// How deep the parser is.
    pub(crate) fn depth(&self) -> usize {
        self.steps.len()
    }

    /// MongoDB's refusal of what is here.
    pub(crate) fn malformed(&self, code: i32, message: impl Into<String>) -> QueryError {
        self.error(code, QueryErrorKind::Malformed, message.into())
    }

    /// A refusal of the service's own.
    pub(crate) fn refused(&self, message: impl Into<String>) -> QueryError {
        self.error(code::NOT_ALLOWED, QueryErrorKind::Refused, message.into())
    }

    /// A limit that is exceeded here.
    pub(crate) fn limit(&self, message: impl Into<String>) -> QueryError {
        self.error(code::BAD_VALUE, QueryErrorKind::LimitExceeded, message.into())
    }

    fn error(&self, code: i32, kind: QueryErrorKind, message: String) -> QueryError {
        let mut path = self.root.to_owned();
        let mut pointer = String::new();
        for step in &self.steps {
            // Writing into a string cannot fail.
            let _ = write!(path, ".{step}");
            pointer::push(&mut pointer, step);
        }
        QueryError { code, path, pointer, message, kind }
    }
}
