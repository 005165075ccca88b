//! The cookie of a session of the page. Only routes of the page read it.

use actix_web::http::header::{self, HeaderMap, HeaderValue};

const NAME: &str = "inventory_session";

/// The path that the cookie is sent to, and below which the page is.
pub const PAGE: &str = "/ui/";

/// The secret of a session, as the browser sent it.
pub fn secret(headers: &HeaderMap) -> Option<&str> {
    let sent = headers.get_all(header::COOKIE).filter_map(|value| value.to_str().ok());
    let mut cookies = sent.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == NAME).map(|(_, secret)| secret).filter(|secret| !secret.is_empty())
}

/// The header that gives a browser its secret. It ends with the browser; the session may end before.
pub fn begun(secret: &str, is_tls: bool) -> HeaderValue {
    cookie(secret, "", is_tls)
}

/// The header that takes the cookie away.
pub fn ended(is_tls: bool) -> HeaderValue {
    cookie("", "; Max-Age=0", is_tls)
}

fn cookie(secret: &str, age: &str, is_tls: bool) -> HeaderValue {
    let secure = if is_tls { "; Secure" } else { "" };
    let cookie = format!("{NAME}={secret}; Path={PAGE}; HttpOnly; SameSite=Strict{secure}{age}");
    HeaderValue::try_from(cookie).expect("a secret has hexadecimal digits only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; inventory_session2=x"));
        headers.append(header::COOKIE, HeaderValue::from_static("b=2; inventory_session=abc"));
        assert_eq!(secret(&headers), Some("abc"));
    }

    #[test]
    fn scripts_and_other_sites_do_not_get_the_cookie() {
        let begun = begun("abc", true);
        let begun = begun.to_str().expect("ASCII");
        assert_eq!(begun, "inventory_session=abc; Path=/ui/; HttpOnly; SameSite=Strict; Secure");
        assert!(!ended(false).to_str().expect("ASCII").contains("Secure"));
    }
}
