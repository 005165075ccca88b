//! The settings of webhooks.

use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

use super::{SettingsError, invalid, networks};

/// `webhooks.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Networks that webhooks may go to in addition to the public addresses, separated by commas.
    pub allowed_networks: String,
    /// How long a receiver may take to answer, in milliseconds.
    pub timeout_ms: u64,
    /// File with certificates of the authorities that receivers are checked with; empty: the public ones.
    pub ca_certificates: String,
}

/// A shorter time would be over before a connection is there.
const SHORTEST_MS: u64 = 100;
/// A receiver that takes longer should take the message and work later.
const LONGEST_MS: u64 = 30_000;

impl WebhookSettings {
    /// How long a receiver may take to answer.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The networks that webhooks may go to; an address is a network of one.
    ///
    /// # Errors
    /// When one of them is neither.
    pub fn networks(&self) -> Result<Vec<IpNet>, SettingsError> {
        networks("webhooks.allowed_networks", &self.allowed_networks)
    }

    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        self.networks()?;
        if !(SHORTEST_MS..=LONGEST_MS).contains(&self.timeout_ms) {
            let message = format!("must be from {SHORTEST_MS} to {LONGEST_MS}");
            return Err(invalid("webhooks.timeout_ms", &message));
        }
        Ok(())
    }
}
