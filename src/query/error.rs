//! Errors of filters, sorts and projections.

use std::fmt::Write as _;

use bson::{Bson, DateTime};

use super::budget::Budget;
use crate::admission::Denied;
use crate::pointer;

/// Why a filter, a sort or a projection was refused before it was run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct QueryError {
    /// The number that MongoDB reports for the same mistake.
    pub code: i32,
    /// Where it is, for people: `filter.fields.$elemMatch`.
    pub path: String,
    /// Its place, for programs: the JSON pointer `/fields/$elemMatch`.
    pub pointer: String,
    /// What was expected, and what to do.
    pub message: String,
    /// Whose rule was broken.
    pub kind: QueryErrorKind,
}

impl QueryError {
    /// Whether the parse stopped because it takes longer than allowed on the thread of the request.
    pub fn is_unfinished(&self) -> bool {
        self.code == code::EXCEEDED_TIME_LIMIT
    }

    /// The reason if it is not a refusal: the time was over, or there was no memory.
    pub fn interruption(&self) -> Option<EvalError> {
        let error = EvalError::new(self.code, self.message.as_str());
        (error.is_timeout() || error.is_busy()).then_some(error)
    }
}

/// The sorts of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryErrorKind {
    /// MongoDB refuses it too.
    Malformed,
    /// It is larger than this service allows.
    LimitExceeded,
    /// The service does not offer it, for instance server-side JavaScript.
    Refused,
}

/// A query that failed on a document, as it would have in MongoDB.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// The number that MongoDB reports.
    pub code: i32,
    /// What went wrong.
    pub message: String,
}

impl EvalError {
    /// The time of the query is over.
    pub(crate) fn timeout() -> Self {
        Self::new(code::MAX_TIME_EXPIRED, "the query took longer than its time budget")
    }

    /// There is no memory for it now, or one user may never have that much.
    pub(crate) fn denied(denied: &Denied) -> Self {
        match denied {
            Denied::TooMuch { .. } => Self::new(code::EXCEEDED_MEMORY_LIMIT, denied.to_string()),
            _ => Self::new(code::TEMPORARILY_UNAVAILABLE, "there is no memory for the query now; try again"),
        }
    }

    /// It takes longer than it may here.
    pub(crate) fn unfinished() -> Self {
        Self::new(code::EXCEEDED_TIME_LIMIT, "the query takes longer than it may at once")
    }

    /// Whether there was no memory for the query at that time.
    pub fn is_busy(&self) -> bool {
        self.code == code::TEMPORARILY_UNAVAILABLE
    }

    /// Whether the time of the query was over before there was an answer.
    pub fn is_timeout(&self) -> bool {
        self.code == code::MAX_TIME_EXPIRED
    }

    /// An error with MongoDB's number.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// MongoDB's numbers for the usual mistakes.
pub(crate) mod code {
    /// `BadValue`.
    pub(crate) const BAD_VALUE: i32 = 2;
    /// `NoSuchKey`.
    pub(crate) const NO_SUCH_KEY: i32 = 4;
    /// `FailedToParse`.
    pub(crate) const FAILED_TO_PARSE: i32 = 9;
    /// `TypeMismatch`.
    pub(crate) const TYPE_MISMATCH: i32 = 14;
    /// `MaxTimeMSExpired`.
    pub(crate) const MAX_TIME_EXPIRED: i32 = 50;
    /// `ExceededTimeLimit`: a parse that continues elsewhere.
    pub(crate) const EXCEEDED_TIME_LIMIT: i32 = 262;
    /// `TemporarilyUnavailable`: no memory for now.
    pub(crate) const TEMPORARILY_UNAVAILABLE: i32 = 365;
    /// `QueryExceededMemoryLimitNoDiskUseAllowed`.
    pub(crate) const EXCEEDED_MEMORY_LIMIT: i32 = 292;
    /// `QueryFeatureNotAllowed`: also what is refused here on purpose.
    pub(crate) const NOT_ALLOWED: i32 = 224;
}

/// Whether a text has more characters than that.
pub(crate) fn is_longer(text: &str, chars: usize) -> bool {
    text.len() > chars && text.chars().nth(chars).is_some()
}

/// The refusal of a regular expression with more characters than that.
pub(crate) fn regex_too_long(chars: usize) -> String {
    format!("a regular expression of more than {chars} characters; make it shorter")
}

/// The value of a variable of a pipeline.
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

    /// The value of a variable.
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
