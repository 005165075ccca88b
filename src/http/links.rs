//! Absolute URLs, as the client sees this service.

use std::net::IpAddr;

use actix_web::HttpRequest;
use actix_web::http::header;
use ipnet::IpNet;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::edge::forwarded;

/// Characters that need no encoding in the value of a query parameter.
const QUERY_VALUE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'+')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'|')
    .add(b'\\')
    .add(b'^')
    .add(b'[')
    .add(b']');

/// How absolute URLs begin.
#[derive(Debug, Clone)]
pub struct LinkSettings {
    /// The setting `api.base_url`; empty: taken from the request.
    pub base_url: String,
    /// Networks of proxies with trusted forwarding headers.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether clients use TLS with this service directly.
    pub tls: bool,
    /// Host and port of the listener, for requests without a host.
    pub address: String,
}

impl LinkSettings {
    /// The client's address; with a trusted proxy, the one that the proxy names.
    pub fn client_address(&self, request: &HttpRequest) -> Option<IpAddr> {
        let peer = request.peer_addr()?.ip();
        Some(forwarded::client_address(request.headers(), peer, &self.trusted_proxies))
    }

    /// Scheme, host and port as the client sees them, without a slash at the end.
    pub fn origin(&self, request: &HttpRequest) -> String {
        if !self.base_url.is_empty() {
            return self.base_url.trim_end_matches('/').to_owned();
        }
        let scheme = if self.tls { "https" } else { "http" };
        let peer = request.peer_addr().map(|address| address.ip());
        let info = request.connection_info();
        if peer.is_some_and(|peer| forwarded::is_trusted(peer, &self.trusted_proxies)) && is_host(info.host()) {
            return format!("{}://{}", if info.scheme() == "https" { "https" } else { scheme }, info.host());
        }
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.filter(|host| is_host(host)).unwrap_or(&self.address);
        format!("{scheme}://{host}")
    }
}

/// The URL of a path below `/rest`.
pub fn resource_url(origin: &str, path: &str) -> String {
    format!("{origin}/rest{path}")
}

/// Every character but the unreserved ones of RFC 3986, which no URL encodes.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one segment of a path.
pub fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A query string of these parameters, encoded.
pub fn encode_query<'a>(parameters: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = parameters.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, QUERY_VALUE)));
    pairs.collect::<Vec<_>>().join("&")
}

/// A valid host of a URL; anything else in the header would be an injection.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 255
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']' | b'_'))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn settings(base_url: &str, proxies: &[&str]) -> LinkSettings {
        let trusted_proxies = proxies.iter().map(|proxy| proxy.parse().expect("a network")).collect();
        LinkSettings { base_url: base_url.to_owned(), trusted_proxies, tls: false, address: "localhost".to_owned() }
    }

    fn request(peer: &str) -> HttpRequest {
        TestRequest::get()
            .insert_header(("Host", "inventory.local:8080"))
            .insert_header(("X-Forwarded-Host", "evil.example"))
            .insert_header(("X-Forwarded-Proto", "https"))
            .peer_addr(format!("{peer}:1000").parse().expect("an address"))
            .to_http_request()
    }

    #[test]
    fn forwarding_headers_count_only_from_trusted_proxies() {
        assert_eq!(settings("", &[]).origin(&request("10.0.0.9")), "http://inventory.local:8080");
        assert_eq!(settings("", &["10.0.0.9/32"]).origin(&request("10.0.0.9")), "https://evil.example");
        assert_eq!(settings("", &["10.0.0.8/32"]).origin(&request("10.0.0.9")), "http://inventory.local:8080");
    }

    #[test]
    fn the_setting_wins_over_the_request() {
        assert_eq!(settings("https://x.example/cmdb/", &[]).origin(&request("10.0.0.9")), "https://x.example/cmdb");
    }

    #[test]
    fn a_host_header_that_is_no_host_is_not_repeated() {
        let request = TestRequest::get().insert_header(("Host", "a/b?<x>")).to_http_request();
        assert!(!settings("", &[]).origin(&request).contains('<'));
    }
}
