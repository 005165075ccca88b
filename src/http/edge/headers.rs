//! Headers that every answer has, for the browsers among the clients.

use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::http::session::PAGE;

/// The path of the page with the API description.
const DOCS: &str = "/docs";

/// Browsers must not run, show or frame an answer.
const API_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");

/// The page runs only scripts of this service and calls no other address. It writes inline styles.
const DOCS_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; \
     connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
);

/// The page for people has no scripts, and one sheet of styles. Its forms are sent to this service alone.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// No cache may keep the answer. Handlers set it for answers with a secret, which are not compressed either.
pub(in crate::http) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Adds the headers that the answer does not set itself. `hsts` is the value of `Strict-Transport-Security`, under TLS.
pub(in crate::http) fn secure(path: &str, headers: &mut HeaderMap, hsts: Option<&HeaderValue>) {
    let is_docs = path.strip_prefix(DOCS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_page = path.starts_with(PAGE);
    let policy = if is_page {
        PAGE_POLICY
    } else if is_docs {
        DOCS_POLICY
    } else {
        API_POLICY
    };
    let mut set = |name: HeaderName, value: HeaderValue| {
        if !headers.contains_key(&name) {
            headers.insert(name, value);
        }
    };
    set(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    set(header::CONTENT_SECURITY_POLICY, policy);
    set(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // Without a referrer a browser sends `Origin: null` with a form, which the page refuses.
    let referrer = if is_page { "same-origin" } else { "no-referrer" };
    set(header::REFERRER_POLICY, HeaderValue::from_static(referrer));
    set(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    if !is_docs {
        // An answer with an entity tag may be cached and revalidated; it sets its own header.
        set(header::CACHE_CONTROL, NO_STORE);
    }
    if let Some(hsts) = hsts {
        set(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
}

/// The value of `Strict-Transport-Security`; `None` for no time at all.
pub fn strict_transport(max_age_s: u64) -> Option<HeaderValue> {
    if max_age_s == 0 {
        return None;
    }
    HeaderValue::try_from(format!("max-age={max_age_s}")).ok()
}
