//! Who is calling and what they may do: rights, passwords, tokens, and the brake on guessing.
//!
//! Law: nothing in here prints, logs or returns a password, a hash, a key or a token, except the function whose task
//! that is; types that carry one have a [`Secret`] or a `Debug` of their own.

pub mod header;
pub mod password;
pub mod rights;
mod secret;
mod settings;
pub mod throttle;
pub mod token;

use std::time::Duration;

pub use self::header::Authorization;
pub use self::password::{PasswordError, Passwords};
pub use self::rights::{Right, Rights};
pub use self::secret::Secret;
pub use self::settings::{Argon2Settings, AuthSettings, InvalidSetting, ThrottleSettings};
pub use self::throttle::{Throttle, network};
pub use self::token::{SigningKey, TokenError, Tokens};

/// Why a caller is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request names no user: there is no `Authorization` header, or none that can be read.
    #[error("sign in first: send the header Authorization: Bearer <token>")]
    Missing,
    /// User name and password do not belong together, or the user is inactive: one answer for all, so that it tells nothing.
    #[error("the user name or the password is wrong")]
    WrongCredentials,
    /// The token is not one of ours, or is no longer good because the user changed.
    #[error("the token is not valid")]
    InvalidToken,
    /// The token was good and its time is over.
    #[error("the token has expired")]
    ExpiredToken,
    /// Too many failed attempts; none is looked at before `retry_after` has passed.
    #[error("too many failed attempts, try again later")]
    TooManyAttempts {
        /// How long to stay away.
        retry_after: Duration,
    },
    /// More sign-ins at once than the machine is to spend its memory on.
    #[error("too many sign-ins at once, try again in a moment")]
    Busy {
        /// How long to stay away.
        retry_after: Duration,
    },
    /// A hash or a key of ours is damaged, or the machine failed to compute one; for the log, not for the client.
    #[error("the sign-in failed: {reason}")]
    Internal {
        /// What happened.
        reason: String,
    },
}

impl From<TokenError> for AuthError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Invalid => Self::InvalidToken,
            TokenError::Expired => Self::ExpiredToken,
            TokenError::NoKey => Self::Internal { reason: error.to_string() },
        }
    }
}

impl From<PasswordError> for AuthError {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Busy => Self::Busy { retry_after: Duration::from_secs(1) },
            PasswordError::Damaged | PasswordError::Failed { .. } => Self::Internal { reason: error.to_string() },
        }
    }
}
