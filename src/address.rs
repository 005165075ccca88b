//! Addresses of networks and devices: the one spelling that is stored, and their order.
//!
//! - An address is written in lower case and compressed: `10.0.0.7`, `2001:db8::7`. All of an IPv6 address is hexadecimal,
//!   `::ffff:a00:7` too.
//! - A network is its first address with the length of its prefix: `10.0.0.0/24`.
//! - IPv4 comes before IPv6. Of equal addresses the one without a prefix comes first, then the shorter prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// How many bits an address of this family has.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address that a text spells, if it is one without a prefix.
pub fn parsed_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// The address with its prefix that a text spells, if it has one.
fn parsed_network(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    let address = parsed_ip(address)?;
    let is_short = prefix == "0" || !prefix.starts_with('0');
    let prefix = prefix.bytes().all(|byte| byte.is_ascii_digit()).then(|| prefix.parse().ok())??;
    IpNet::new(address, prefix).ok().filter(|_| is_short && prefix <= bits(address))
}

/// An address as it is stored.
pub fn written_ip(address: IpAddr) -> String {
    match address {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => {
            let [.., high, low] = six.segments();
            format!("::ffff:{high:x}:{low:x}")
        }
        address => address.to_string(),
    }
}

/// What an address must be, for people.
pub const IP: &str = "an IPv4 or IPv6 address (10.0.0.7 or 2001:db8::7)";
/// What a network must be, for people.
pub const NETWORK: &str = "a network with the length of its prefix (10.0.0.0/24 or 2001:db8::/32)";
/// What the address of a device must be, for people.
pub const MAC: &str = "a MAC address of 12 hexadecimal digits (00:1b:44:11:3a:b7)";

/// The stored form of an address.
///
/// # Errors
/// What it must be.
pub fn ip(text: &str) -> Result<String, String> {
    match (parsed_ip(text), parsed_network(text)) {
        (Some(address), _) => Ok(written_ip(address)),
        (None, Some(_)) => Err(format!("{IP} without a prefix; a field of the kind network takes prefixes")),
        (None, None) => Err(IP.to_owned()),
    }
}

/// The network that a text spells.
///
/// # Errors
/// What it must be.
pub fn parsed(text: &str) -> Result<IpNet, String> {
    let network = parsed_network(text).ok_or_else(|| NETWORK.to_owned())?;
    if network.addr() == network.network() {
        return Ok(network);
    }
    let meant = written_network(network.trunc());
    Err(format!("{NETWORK}; this address lies in {meant}, and a field of the kind ip takes addresses"))
}

/// The stored form of a network.
///
/// # Errors
/// What it must be.
pub fn network(text: &str) -> Result<String, String> {
    parsed(text).map(written_network)
}

fn written_network(network: IpNet) -> String {
    format!("{}/{}", written_ip(network.network()), network.prefix_len())
}

/// The stored form of the address of a device: pairs of digits with colons. It may be sent with colons or dashes between
/// pairs, with dots between groups of four, or without separators.
///
/// # Errors
/// What it must be.
pub fn mac(text: &str) -> Result<String, String> {
    let separator = text.chars().find(|character| !character.is_ascii_hexdigit());
    let group = match separator {
        None => 12,
        Some(':' | '-') => 2,
        Some('.') => 4,
        Some(_) => return Err(MAC.to_owned()),
    };
    let groups: Vec<&str> = separator.map_or_else(|| vec![text], |separator| text.split(separator).collect());
    let is_group = |part: &&str| part.len() == group && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if groups.len() * group != 12 || !groups.iter().all(is_group) {
        return Err(MAC.to_owned());
    }
    let digits = groups.concat().to_ascii_lowercase();
    let pairs: Vec<&str> = (0..6).map(|pair| &digits[2 * pair..2 * pair + 2]).collect();
    Ok(pairs.join(":"))
}

/// A text that is ordered among others of this function as its address is among theirs: `4` and four times three decimal
/// digits, or `6` and eight times four hexadecimal digits. A prefix follows as `/` with three digits. `None` for a text that
/// is no address.
pub fn key(text: &str) -> Option<String> {
    // IPv6 with a part in decimal digits is not stored.
    if text.contains(':') && text.contains('.') {
        return None;
    }
    let (address, prefix) = match parsed_network(text) {
        Some(network) => (network.addr(), format!("/{:03}", network.prefix_len())),
        None => (parsed_ip(text)?, String::new()),
    };
    let digits = match address {
        IpAddr::V4(four) => four.octets().map(|octet| format!("{octet:03}")).concat(),
        IpAddr::V6(six) => six.segments().map(|segment| format!("{segment:04x}")).concat(),
    };
    Some(format!("{}{digits}{prefix}", if address.is_ipv4() { 4 } else { 6 }))
}

/// The first and the last address of the network that a text spells.
pub fn edges(text: &str) -> Option<(String, String)> {
    let network = parsed_network(text)?;
    Some((written_ip(network.network()), written_ip(network.broadcast())))
}

/// Addresses that a device may have in a network, in order: of IPv4 neither the first one, which names the network, nor the
/// last one, which reaches all of it. Networks of one or two addresses have no such ones.
pub fn hosts(network: IpNet) -> Hosts {
    let number = |address: IpAddr| match address {
        IpAddr::V4(four) => u128::from(u32::from(four)),
        IpAddr::V6(six) => u128::from(six),
    };
    let (first, last) = (number(network.network()), number(network.broadcast()));
    let is_four = network.network().is_ipv4();
    let edge = u128::from(is_four && network.prefix_len() < 31);
    Hosts { next: Some(first + edge), last: last - edge, is_four }
}

/// See [`hosts`].
#[derive(Debug, Clone)]
pub struct Hosts {
    next: Option<u128>,
    last: u128,
    is_four: bool,
}

impl Iterator for Hosts {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let number = self.next?;
        self.next = (number < self.last).then(|| number + 1);
        let four = || u32::try_from(number).ok().map(|number| IpAddr::V4(Ipv4Addr::from(number)));
        let address = if self.is_four { four()? } else { IpAddr::V6(Ipv6Addr::from(number)) };
        Some(written_ip(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_spelling() {
        for (sent, stored) in [
            ("10.0.0.7", "10.0.0.7"),
            ("2001:DB8:0:0:0:0:0:7", "2001:db8::7"),
            ("::", "::"),
            ("::FFFF:10.0.0.7", "::ffff:a00:7"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ] {
            assert_eq!(ip(sent).as_deref(), Ok(stored));
            assert_eq!(ip(stored).as_deref(), Ok(stored));
        }
        for odd in
            ["", " 10.0.0.7", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.1/32", "fe80::1%eth0", "host", "1::2::3"]
        {
            assert!(ip(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_network_has_no_bits_behind_its_prefix() {
        for (sent, stored) in
            [("10.0.0.0/24", "10.0.0.0/24"), ("0.0.0.0/0", "0.0.0.0/0"), ("2001:DB8:0::/32", "2001:db8::/32")]
        {
            assert_eq!(network(sent).as_deref(), Ok(stored));
        }
        assert!(network("10.0.0.7/24").is_err_and(|reason| reason.contains("lies in 10.0.0.0/24")));
        for odd in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/024", "::/129", "10.0.0.0/", "10.0.0.0/+8", "/8"] {
            assert!(network(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_mac_address_may_be_sent_in_the_usual_spellings() {
        for sent in ["00:1B:44:11:3a:b7", "00-1b-44-11-3A-B7", "001b.4411.3ab7", "001B44113AB7"] {
            assert_eq!(mac(sent).as_deref(), Ok("00:1b:44:11:3a:b7"));
        }
        for odd in [
            "", "00:1b:44:11:3a", "00:1b-44:11:3a:b7", "00:1b:44:11:3a:b7:00:00", "0:1b:44:11:3a:b7",
            "g0:1b:44:11:3a:b7", "é",
        ] {
            assert!(mac(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn keys_are_in_the_order_of_addresses() {
        let ordered = [
            "0.0.0.0", "9.255.255.255", "10.0.0.0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.9", "10.0.0.10", "255.0.0.0",
            "::", "::1", "2001:db8::", "2001:db8::/32", "2001:db8::9", "2001:db8::10", "ffff::",
        ];
        let keys: Vec<String> = ordered.iter().map(|text| key(text).expect("an address")).collect();
        assert!(keys.is_sorted_by(|one, other| one < other), "{keys:?}");
        for odd in ["", "host", "10.0.0.0.0", "::ffff:10.0.0.7", "1:2"] {
            assert_eq!(key(odd), None, "{odd}");
        }
    }

    #[test]
    fn hosts_leave_out_what_names_an_ipv4_network_and_reaches_all_of_it() {
        let all = |text: &str| hosts(parsed(text).expect("a network")).collect::<Vec<_>>();
        assert_eq!(all("10.0.0.0/30"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(all("10.0.0.0/31"), ["10.0.0.0", "10.0.0.1"]);
        assert_eq!(all("255.255.255.255/32"), ["255.255.255.255"]);
        assert_eq!(all("2001:db8::/127"), ["2001:db8::", "2001:db8::1"]);
        assert_eq!(hosts(parsed("::/0").expect("a network")).next().as_deref(), Some("::"));
    }
}
