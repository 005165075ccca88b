//! Whether webhooks can be sent as the settings say.

use crate::app;
use crate::settings::Settings;
use crate::store::inspection::Finding;

/// Reads the certificate authorities, as the service does when it starts. Nothing where there are none.
pub(super) fn look(settings: &Settings) -> Option<Finding> {
    const SUBJECT: &str = "webhooks.ca_certificates";
    match app::webhook_sender(settings) {
        Ok(_) if settings.webhooks.ca_certificates.is_empty() => None,
        Ok(_) => Some(Finding::good(SUBJECT, "the certificates can be used")),
        Err(error) => Some(Finding::wrong(SUBJECT, error.to_string())),
    }
}
