//! The address of a client that connects through proxies: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Each proxy appends the address of its peer. So only the end of the list is trustworthy, as far as trusted proxies
//! wrote it. Earlier addresses are claims of the first untrusted one.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::header::{self, HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Whether the address is in one of the networks. An IPv4 address may come as IPv6 (`::ffff:10.0.0.1`).
pub fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&address.to_canonical()))
}

/// The last address on the way from the client to `peer` that is no trusted proxy.
pub fn client_address(headers: &HeaderMap, peer: IpAddr, trusted: &[IpNet]) -> IpAddr {
    let mut nearest = peer;
    if !is_trusted(peer, trusted) {
        return nearest;
    }
    for name in way(headers).into_iter().rev() {
        // If a proxy hides its peer (`unknown`, `_name`), the proxy is the last known address.
        let Some(address) = read_address(&name) else { break };
        nearest = address;
        if !is_trusted(address, trusted) {
            break;
        }
    }
    nearest
}

/// The addresses as proxies wrote them, the client's first.
fn way(headers: &HeaderMap) -> Vec<String> {
    let lines = |name: HeaderName| headers.get_all(name).filter_map(|value| value.to_str().ok());
    if headers.contains_key(header::FORWARDED) {
        let hops = lines(header::FORWARDED).flat_map(|line| line.split(','));
        return hops.map(|hop| forwarded_for(hop).unwrap_or_default().to_owned()).collect();
    }
    lines(X_FORWARDED_FOR).flat_map(|line| line.split(',')).map(|name| name.trim().to_owned()).collect()
}

/// The `for` of one element of `Forwarded`.
fn forwarded_for(hop: &str) -> Option<&str> {
    hop.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
    })
}

/// An address with or without a port; that of IPv6 may be in brackets.
fn read_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const PROXIES: [&str; 3] = ["10.0.0.1/32", "10.0.0.2/32", "172.16.0.0/12"];

    fn client(peer: &str, header: &str, value: &str) -> String {
        let request = TestRequest::get().insert_header((header, value)).to_http_request();
        let trusted = PROXIES.map(|proxy| proxy.parse().expect("a network"));
        client_address(request.headers(), peer.parse().expect("an address"), &trusted).to_string()
    }

    #[test]
    fn a_stranger_says_nothing_about_others() {
        assert_eq!(client("192.0.2.9", "X-Forwarded-For", "198.51.100.1"), "192.0.2.9");
        assert_eq!(client("192.0.2.9", "Forwarded", "for=198.51.100.1"), "192.0.2.9");
    }

    #[test]
    fn what_the_client_claims_itself_is_not_believed() {
        assert_eq!(client("10.0.0.1", "X-Forwarded-For", "203.0.113.7, 198.51.100.1"), "198.51.100.1");
        assert_eq!(client("10.0.0.1", "Forwarded", "for=203.0.113.7, for=198.51.100.1"), "198.51.100.1");
    }

    #[test]
    fn trusted_proxies_in_a_row_are_passed_over() {
        assert_eq!(client("10.0.0.1", "X-Forwarded-For", "198.51.100.1, 10.0.0.2"), "198.51.100.1");
        assert_eq!(client("10.0.0.1", "X-Forwarded-For", "10.0.0.2"), "10.0.0.2");
    }

    #[test]
    fn every_address_of_a_trusted_network_is_a_proxy() {
        assert_eq!(client("172.20.0.3", "X-Forwarded-For", "198.51.100.1, 172.31.255.254"), "198.51.100.1");
        assert_eq!(client("::ffff:172.20.0.3", "X-Forwarded-For", "198.51.100.1"), "198.51.100.1");
        assert_eq!(client("172.32.0.1", "X-Forwarded-For", "198.51.100.1"), "172.32.0.1");
    }

    #[test]
    fn addresses_come_in_several_notations() {
        for (value, address) in [
            ("for=198.51.100.1:4711;proto=https", "198.51.100.1"),
            ("proto=https; For=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=\"[2001:db8::1]\"", "2001:db8::1"),
            ("for=unknown", "10.0.0.1"),
            ("for=_hidden, for=10.0.0.2", "10.0.0.2"),
            ("proto=https", "10.0.0.1"),
        ] {
            assert_eq!(client("10.0.0.1", "Forwarded", value), address, "{value}");
        }
        assert_eq!(client("10.0.0.1", "X-Forwarded-For", "2001:db8::1"), "2001:db8::1");
        assert_eq!(client("10.0.0.1", "X-Forwarded-For", "198.51.100.1:4711"), "198.51.100.1");
    }
}
