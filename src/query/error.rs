//! Errors of filters, sorts and projections.

use crate::admission::Denied;

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
