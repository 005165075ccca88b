//! Authentication and rights: passwords, tokens, rights, and the throttle on guessing.
//!
//! Law: nothing in here prints, logs or returns a password, a hash, a key or a token, except the function whose task
//! that is. Types that carry one have a [`Secret`] or their own `Debug`.

pub mod header;
mod invalid_setting;
pub mod oidc;
pub mod password;
pub mod rights;
pub mod scram;
mod secret;
mod settings;
pub mod throttle;
pub mod token;

use std::time::Duration;

pub use self::header::Authorization;
pub use self::invalid_setting::InvalidSetting;
pub use self::password::{PasswordError, Passwords};
pub use self::rights::{Right, Rights};
pub use self::secret::Secret;
pub use self::settings::{Argon2Settings, AuthSettings, ThrottleSettings};
pub use self::throttle::{Throttle, network};
pub use self::token::{SigningKey, TokenError, Tokens};

/// Why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no readable `Authorization` header.
    #[error("sign in first: send the header Authorization: Bearer <token>")]
    Missing,
    /// Wrong user name or password, or an inactive user: one answer for all, so that it reveals nothing.
    #[error("the user name or the password is wrong")]
    WrongCredentials,
    /// The token is invalid, or no longer valid because the user changed.
    #[error("the token is not valid")]
    InvalidToken,
    /// The token has expired.
    #[error("the token has expired")]
    ExpiredToken,
    /// The token is of the issuer of OpenID Connect, and not for this service or not for now.
    #[error("the token is not valid: {reason}")]
    UnfitToken {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The keys of the issuer of OpenID Connect are not known, and the issuer does not answer.
    #[error("the issuer of the token does not answer, so the token cannot be checked now; try again")]
    IssuerUnavailable,
    /// Too many failed attempts; none is checked before `retry_after` has passed.
    #[error("too many failed attempts, try again later")]
    TooManyAttempts {
        /// How long to stay away.
        retry_after: Duration,
    },
    /// More concurrent sign-ins than the memory bound allows.
    #[error("too many sign-ins at once, try again in a moment")]
    Busy {
        /// How long to stay away.
        retry_after: Duration,
    },
    /// A stored hash or key is damaged, or the machine failed to compute one; for the log, not for the client.
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
