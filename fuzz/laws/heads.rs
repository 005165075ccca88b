//! Laws for the heads of requests, and for compressed bodies.

use std::net::IpAddr;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use inventory_service::auth::Authorization;
use inventory_service::http::edge::coding::{CODINGS, Coding, Unpacked};
use inventory_service::http::edge::forwarded::{client_address, is_trusted};

/// More than this is never unpacked.
const MOST: usize = 10_000;

/// Reads the value of a header, and takes the bytes for a packed body.
pub fn hold(bytes: &[u8]) {
    for coding in CODINGS {
        packed(coding, bytes);
    }
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    forwarded(&value);
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("accept-encoding"), value.clone());
    let _ = Coding::accepted(&headers);
    if let Ok(text) = value.to_str() {
        authorization(text);
    }
}

fn packed(coding: Coding, bytes: &[u8]) {
    if let Unpacked::Whole(unpacked) = coding.unpack(bytes, MOST) {
        assert!(unpacked.len() <= MOST, "{} bytes", unpacked.len());
    }
    let Ok(packed) = coding.pack(bytes) else { panic!("{coding:?} refuses") };
    match coding.unpack(&packed, bytes.len()) {
        Unpacked::Whole(unpacked) => assert_eq!(unpacked, bytes, "{coding:?}"),
        other => panic!("{coding:?}: {other:?}"),
    }
    if !bytes.is_empty() {
        assert!(matches!(coding.unpack(&packed, bytes.len() - 1), Unpacked::TooLarge), "{coding:?}");
    }
}

/// Headers of untrusted addresses are ignored, and only named proxies are trusted.
fn forwarded(value: &HeaderValue) {
    let trusted = ["10.0.0.0/8", "::1/128"].map(|network| network.parse().expect("a network"));
    let [proxy, stranger] = ["10.0.0.1", "192.0.2.9"].map(|address| address.parse::<IpAddr>().expect("an address"));
    for name in ["forwarded", "x-forwarded-for"] {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), value.clone());
        assert_eq!(client_address(&headers, stranger, &trusted), stranger);
        let found = client_address(&headers, proxy, &trusted);
        let is_named = value.to_str().is_ok_and(|text| {
            let words = text.split(|c: char| !(c.is_ascii_hexdigit() || c == '.' || c == ':'));
            words
                .flat_map(|word| [Some(word), word.rsplit_once(':').map(|(word, _)| word)])
                .flatten()
                .any(|word| word.parse::<IpAddr>().is_ok_and(|address| address == found))
        });
        assert!(found == proxy || is_named, "{found} of {value:?}");
        let _ = is_trusted(found, &trusted);
    }
}

fn authorization(text: &str) {
    match Authorization::parse(text) {
        Some(Authorization::Token(token)) => {
            assert!(!token.expose().is_empty() && text.contains(token.expose()));
            let again = Authorization::parse(&format!("Bearer {}", token.expose()));
            assert_eq!(again, Some(Authorization::Token(token)));
        }
        Some(Authorization::Basic { user_name, .. }) => assert!(!user_name.contains(':')),
        None => {}
    }
}
