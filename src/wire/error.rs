//! Errors in the form of MongoDB's tools: a number, its name, a message.

use bson::raw::cstr;
use bson::{rawbson, rawdoc};

use crate::auth::AuthError;
use crate::query::QueryError;
use crate::rate_limits::TooFast;
use crate::service::accounts::AccountError;
use crate::service::{ErrorCode, ServiceError};
use crate::store::StoreError;

/// The answer to a command that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct WireError {
    /// MongoDB's number.
    pub(super) code: i32,
    /// For people: what is wrong, where, what to do.
    pub(super) message: String,
    /// Whether the connection ends with this answer.
    pub(super) closes: bool,
}

/// MongoDB's codes that this server returns.
pub(super) mod code {
    /// `InternalError`.
    pub(in crate::wire) const INTERNAL_ERROR: i32 = 1;
    /// `BadValue`.
    pub(in crate::wire) const BAD_VALUE: i32 = 2;
    /// `HostUnreachable`.
    pub(in crate::wire) const HOST_UNREACHABLE: i32 = 6;
    /// `FailedToParse`.
    pub(in crate::wire) const FAILED_TO_PARSE: i32 = 9;
    /// `Unauthorized`.
    pub(in crate::wire) const UNAUTHORIZED: i32 = 13;
    /// `TypeMismatch`.
    pub(in crate::wire) const TYPE_MISMATCH: i32 = 14;
    /// `Overflow`.
    pub(in crate::wire) const OVERFLOW: i32 = 15;
    /// `AuthenticationFailed`.
    pub(in crate::wire) const AUTHENTICATION_FAILED: i32 = 18;
    /// `IllegalOperation`.
    pub(in crate::wire) const ILLEGAL_OPERATION: i32 = 20;
    /// `InvalidBSON`.
    pub(in crate::wire) const INVALID_BSON: i32 = 22;
    /// `CursorNotFound`.
    pub(in crate::wire) const CURSOR_NOT_FOUND: i32 = 43;
    /// `MaxTimeMSExpired`.
    pub(in crate::wire) const MAX_TIME_EXPIRED: i32 = 50;
    /// `CommandNotFound`.
    pub(in crate::wire) const COMMAND_NOT_FOUND: i32 = 59;
    /// `InvalidOptions`.
    pub(in crate::wire) const INVALID_OPTIONS: i32 = 72;
    /// `InvalidNamespace`.
    pub(in crate::wire) const INVALID_NAMESPACE: i32 = 73;
    /// `OperationFailed`.
    pub(in crate::wire) const OPERATION_FAILED: i32 = 96;
    /// `CommandNotSupported`.
    pub(in crate::wire) const NOT_SUPPORTED: i32 = 115;
    /// `QueryPlanKilled`.
    pub(in crate::wire) const QUERY_PLAN_KILLED: i32 = 175;
    /// `SnapshotTooOld`.
    pub(in crate::wire) const SNAPSHOT_TOO_OLD: i32 = 239;
    /// `APIVersionError`.
    pub(in crate::wire) const API_VERSION_ERROR: i32 = 322;
    /// `APIStrictError`.
    pub(in crate::wire) const API_STRICT_ERROR: i32 = 323;
    /// `MechanismUnavailable`.
    pub(in crate::wire) const MECHANISM_UNAVAILABLE: i32 = 334;
    /// `UnsupportedOpQueryCommand`.
    pub(in crate::wire) const UNSUPPORTED_OP_QUERY: i32 = 352;
    /// `TemporarilyUnavailable`.
    pub(in crate::wire) const TEMPORARILY_UNAVAILABLE: i32 = 365;
    /// `IngressRequestRateLimitExceeded`, of later servers than the one that this is compared with.
    pub(in crate::wire) const TOO_FAST: i32 = 462;
    /// `BSONObjectTooLarge`.
    pub(in crate::wire) const TOO_LARGE: i32 = 10334;
    /// There is no search server.
    pub(in crate::wire) const SEARCH_NOT_ENABLED: i32 = 31082;
    /// `NamespaceNotFound`.
    pub(in crate::wire) const NAMESPACE_NOT_FOUND: i32 = 26;
    /// A member that a command does not know.
    pub(in crate::wire) const UNKNOWN_FIELD: i32 = 40415;
    /// A member that a command needs.
    pub(in crate::wire) const MISSING_FIELD: i32 = 40414;
}

/// The names of MongoDB's numbers; other numbers have none of their own.
const NAMES: &[(i32, &str)] = &[
    (code::INTERNAL_ERROR, "InternalError"),
    (code::BAD_VALUE, "BadValue"),
    (4, "NoSuchKey"),
    (code::HOST_UNREACHABLE, "HostUnreachable"),
    (code::FAILED_TO_PARSE, "FailedToParse"),
    (code::UNAUTHORIZED, "Unauthorized"),
    (code::TYPE_MISMATCH, "TypeMismatch"),
    (code::OVERFLOW, "Overflow"),
    (code::AUTHENTICATION_FAILED, "AuthenticationFailed"),
    (code::ILLEGAL_OPERATION, "IllegalOperation"),
    (code::INVALID_BSON, "InvalidBSON"),
    (code::NAMESPACE_NOT_FOUND, "NamespaceNotFound"),
    (code::CURSOR_NOT_FOUND, "CursorNotFound"),
    (code::MAX_TIME_EXPIRED, "MaxTimeMSExpired"),
    (code::COMMAND_NOT_FOUND, "CommandNotFound"),
    (code::INVALID_OPTIONS, "InvalidOptions"),
    (code::INVALID_NAMESPACE, "InvalidNamespace"),
    (code::OPERATION_FAILED, "OperationFailed"),
    (code::NOT_SUPPORTED, "CommandNotSupported"),
    (146, "ExceededMemoryLimit"),
    (code::QUERY_PLAN_KILLED, "QueryPlanKilled"),
    (167, "CommandNotSupportedOnView"),
    (224, "QueryFeatureNotAllowed"),
    (code::SNAPSHOT_TOO_OLD, "SnapshotTooOld"),
    (241, "ConversionFailure"),
    (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    (code::API_VERSION_ERROR, "APIVersionError"),
    (code::API_STRICT_ERROR, "APIStrictError"),
    (code::MECHANISM_UNAVAILABLE, "MechanismUnavailable"),
    (code::UNSUPPORTED_OP_QUERY, "UnsupportedOpQueryCommand"),
    (code::TEMPORARILY_UNAVAILABLE, "TemporarilyUnavailable"),
    (code::TOO_FAST, "IngressRequestRateLimitExceeded"),
    (code::TOO_LARGE, "BSONObjectTooLarge"),
    (code::SEARCH_NOT_ENABLED, "SearchNotEnabled"),
];

impl WireError {
    /// An error with MongoDB's number.
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), closes: false }
    }

    /// The same; the connection ends with it.
    #[must_use]
    pub(super) fn and_close(self) -> Self {
        Self { closes: true, ..self }
    }

    /// A value of a wrong kind.
    pub(super) fn mismatch(command: &str, name: &str, found: &str, wanted: &str) -> Self {
        let message = format!("BSON field '{command}.{name}' is the wrong type '{found}', expected type '{wanted}'");
        Self::new(code::TYPE_MISMATCH, message)
    }

    /// A failure of the service whose details are not for clients.
    fn internal(error: &dyn std::error::Error) -> Self {
        log::error!("a command of a MongoDB tool failed: {error}");
        Self::new(code::INTERNAL_ERROR, "the command failed inside the server; its log says why")
    }

    /// The name of the number.
    pub(super) fn name(&self) -> String {
        let known = NAMES.iter().find(|(code, _)| *code == self.code);
        known.map_or_else(|| format!("Location{}", self.code), |(_, name)| (*name).to_owned())
    }

    /// The answer.
    pub(super) fn to_document(&self) -> Vec<u8> {
        let name = self.name();
        let mut answer = rawdoc! { "ok": 0.0, "errmsg": self.message.as_str(), "code": self.code, "codeName": name };
        if self.code == code::TOO_FAST {
            // Drivers that know them try again on their own, after a while.
            answer.append(cstr!("errorLabels"), rawbson!(["SystemOverloadedError", "RetryableError"]));
        }
        answer.into_bytes()
    }
}

impl From<TooFast> for WireError {
    fn from(refused: TooFast) -> Self {
        Self::new(code::TOO_FAST, format!("{refused}; try again in {} s", refused.wait))
    }
}

impl From<QueryError> for WireError {
    fn from(error: QueryError) -> Self {
        match error.interruption() {
            Some(interrupted) => StoreError::from(interrupted).into(),
            None => Self::new(error.code, error.to_string()),
        }
    }
}

impl From<StoreError> for WireError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Query { code, .. } => *code,
            StoreError::Timeout => {
                return Self::new(code::MAX_TIME_EXPIRED, "operation exceeded time limit");
            }
            StoreError::TooLarge => code::TOO_LARGE,
            StoreError::Busy => code::TEMPORARILY_UNAVAILABLE,
            StoreError::Unsupported { .. } => code::NOT_SUPPORTED,
            StoreError::Unavailable { .. } => {
                log::error!("a command of a MongoDB tool failed: {error}");
                return Self::new(code::HOST_UNREACHABLE, "the store is not available, try again");
            }
            _ => return Self::internal(&error),
        };
        Self::new(code, error.to_string())
    }
}

impl From<ServiceError> for WireError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Query(error) => error.into(),
            ServiceError::Store(error) => error.into(),
            ServiceError::Refused { code: ErrorCode::RightMissing, message } => Self::new(code::UNAUTHORIZED, message),
            ServiceError::Refused { message, .. } => Self::new(code::BAD_VALUE, message),
            other => Self::internal(&other),
        }
    }
}

impl From<AccountError> for WireError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Auth(AuthError::TooManyAttempts { retry_after }) => Self::new(
                code::AUTHENTICATION_FAILED,
                format!("too many failed attempts, try again in {} s", retry_after.as_secs()),
            ),
            AccountError::Auth(AuthError::InvalidToken | AuthError::ExpiredToken) => {
                Self::new(code::AUTHENTICATION_FAILED, "the token of this session is no longer valid; sign in again")
            }
            AccountError::Auth(AuthError::Internal { .. }) => Self::internal(&error),
            AccountError::Auth(_) => Self::new(code::AUTHENTICATION_FAILED, "Authentication failed."),
            AccountError::Store(error) => error.into(),
            other @ AccountError::PasswordFile { .. } => Self::internal(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_name_is_a_location_as_in_mongodb() {
        assert_eq!(WireError::new(13, "").name(), "Unauthorized");
        assert_eq!(WireError::new(40415, "").name(), "Location40415");
    }

    #[test]
    fn what_fails_inside_shows_nothing_of_the_inside() {
        let error = WireError::from(StoreError::Corrupt { what: "/var/lib/secret".to_owned() });
        assert_eq!(error.code, code::INTERNAL_ERROR);
        assert!(!error.message.contains("secret"), "{error}");
    }
}
