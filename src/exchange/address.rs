//! Addresses of hosts as people write them: with a network mask, with a port, in brackets.

use std::net::IpAddr;

/// An address in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAddress<'a> {
    /// The host, without brackets, mask and port.
    pub host: &'a str,
    /// The port after the host.
    pub port: Option<u16>,
    /// Whether the host is an address of IPv4 or IPv6, not a name.
    pub is_ip: bool,
}

impl<'a> HostAddress<'a> {
    /// Takes an address apart. A text that is none is used unchanged as a host.
    pub fn read(text: &'a str) -> Self {
        let text = without_mask(text.trim());
        if is_ip(text) {
            return Self { host: text, port: None, is_ip: true };
        }
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).filter(|(host, _)| is_ip(host));
        let (host, port) = match bracketed {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, rest.strip_prefix(':').and_then(port)),
            None => match text.rsplit_once(':').map(|(host, behind)| (without_mask(host), port(behind))) {
                Some((host, port @ Some(_))) if !host.is_empty() && !host.contains([':', '/']) => (host, port),
                _ => return Self { host: text, port: None, is_ip: false },
            },
        };
        Self { host, port, is_ip: is_ip(host) }
    }

    /// Host and port as one text. An address of IPv6 is in brackets before a port.
    pub fn with_port(self, port: Option<u16>) -> String {
        match port {
            Some(port) if self.host.contains(':') => format!("[{}]:{port}", self.host),
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_owned(),
        }
    }
}

/// `10.0.0.3` of `10.0.0.3/24` and of `10.0.0.3/255.255.255.0`.
fn without_mask(text: &str) -> &str {
    let Some((left, mask)) = text.rsplit_once('/') else { return text };
    let is_mask = mask.parse::<u8>().is_ok() || mask.parse::<IpAddr>().is_ok();
    let inner = left.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(left);
    if is_mask && is_ip(inner) { inner } else { text }
}

/// An address of IPv6 may name a network interface after a percent sign.
fn is_ip(text: &str) -> bool {
    text.split_once('%').map_or(text, |(address, _)| address).parse::<IpAddr>().is_ok()
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_ports_are_not_part_of_the_host() {
        for (text, host, port, is_ip) in [
            ("10.0.0.1", "10.0.0.1", None, true),
            (" 10.0.0.1 ", "10.0.0.1", None, true),
            ("10.0.0.3/24", "10.0.0.3", None, true),
            ("10.0.0.3/255.255.255.0", "10.0.0.3", None, true),
            ("10.0.0.6:9100", "10.0.0.6", Some(9100), true),
            ("10.0.0.6/24:9100", "10.0.0.6", Some(9100), true),
            ("2001:db8::7", "2001:db8::7", None, true),
            ("2001:db8::7/64", "2001:db8::7", None, true),
            ("[2001:db8::7]", "2001:db8::7", None, true),
            ("[2001:db8::7]/64", "2001:db8::7", None, true),
            ("[2001:db8::7]:9100", "2001:db8::7", Some(9100), true),
            ("fe80::1%eth0/64", "fe80::1%eth0", None, true),
            ("web-1", "web-1", None, false),
            ("web-1:9100", "web-1", Some(9100), false),
            ("w\u{eb}b 3", "w\u{eb}b 3", None, false),
            ("rack/24", "rack/24", None, false),
            ("web-1:https", "web-1:https", None, false),
            ("web-1:+80", "web-1:+80", None, false),
            ("web-1:70000", "web-1:70000", None, false),
            ("http://web-1:80", "http://web-1:80", None, false),
            (":80", ":80", None, false),
        ] {
            assert_eq!(HostAddress::read(text), HostAddress { host, port, is_ip }, "{text}");
        }
    }

    #[test]
    fn a_port_stands_behind_the_address_once() {
        let with = |text| HostAddress::read(text).with_port(Some(9100));
        assert_eq!(with("10.0.0.6:9100"), "10.0.0.6:9100");
        assert_eq!(with("2001:db8::7/64"), "[2001:db8::7]:9100");
        assert_eq!(HostAddress::read("10.0.0.6/8").with_port(None), "10.0.0.6");
    }
}
