//! The settings of the history.

use serde::Deserialize;

use super::{SettingsError, invalid};

/// `history.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistorySettings {
    /// For how many days changes are kept; 0: forever.
    pub keep_days: u32,
}

/// A hundred years.
const MOST_DAYS: u32 = 36_500;

impl HistorySettings {
    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        if self.keep_days > MOST_DAYS {
            return Err(invalid("history.keep_days", "must be a number of days up to 36500, or 0 for ever"));
        }
        Ok(())
    }
}
