//! Whether the issuer of OpenID Connect answers, if the settings name one.

use crate::oidc;
use crate::plural::counted;
use crate::settings::Settings;
use crate::store::inspection::Finding;

const SUBJECT: &str = "auth.oidc";

/// Asks the issuer who it is and for its keys, as the service does when it starts.
pub(super) async fn look(settings: &Settings) -> Result<Option<Finding>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(rules) = settings.auth.oidc.rules()? else { return Ok(None) };
    let (issuer, settings) = (rules.issuer, settings.auth.oidc.clone());
    let finding = move || match oidc::count_keys(&issuer, &settings) {
        Ok(0) => Finding::wrong(SUBJECT, format!("{issuer} shows no key that can be used; its tokens are refused")),
        Ok(count) => Finding::good(SUBJECT, format!("{issuer} answers and shows {}", counted(count, "key"))),
        Err(reason) => Finding::wrong(SUBJECT, format!("{reason}; until this is mended, its tokens are refused")),
    };
    Ok(Some(tokio::task::spawn_blocking(finding).await?))
}
