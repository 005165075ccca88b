//! The refusal of a setting below `auth`. It stands below the settings, which have parts in several files.

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct InvalidSetting {
    /// The key, for instance `auth.token_lifetime_s`.
    pub key: &'static str,
    /// What it has to be.
    pub message: String,
}

/// The refusal of this setting.
pub(super) fn invalid(key: &'static str, message: &str) -> InvalidSetting {
    InvalidSetting { key, message: message.to_owned() }
}
