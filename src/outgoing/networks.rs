//! Which addresses requests may go to.

use std::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;

/// What is public of IPv6, apart from [`INTERNAL`].
const GLOBAL_UNICAST: &str = "2000::/3";

/// Networks of this machine, of its site, of its provider, and those that reach one of them by another way.
const INTERNAL: [&str; 21] = [
    "0.0.0.0/8",       // this machine
    "10.0.0.0/8",      // private
    "100.64.0.0/10",   // the provider's (CGNAT)
    "127.0.0.0/8",     // loopback
    "169.254.0.0/16",  // link-local; metadata of clouds
    "172.16.0.0/12",   // private
    "192.0.0.0/24",    // protocol assignments
    "192.0.2.0/24",    // documentation
    "192.88.99.0/24",  // relays from IPv6
    "192.168.0.0/16",  // private
    "198.18.0.0/15",   // benchmarks
    "198.51.100.0/24", // documentation
    "203.0.113.0/24",  // documentation
    "224.0.0.0/4",     // multicast
    "240.0.0.0/4",     // reserved; broadcast
    "2001::/23",       // protocol assignments; Teredo holds IPv4
    "2001:db8::/32",   // documentation
    "2002::/16",       // 6to4 holds IPv4
    "3fff::/20",       // documentation
    "64:ff9b::/96",    // NAT64 holds IPv4
    "::ffff:0:0/96",   // IPv4 in IPv6
];

static PUBLIC: LazyLock<(IpNet, Vec<IpNet>)> = LazyLock::new(|| {
    let network = |text: &str| text.parse().expect("a network");
    (network(GLOBAL_UNICAST), INTERNAL.into_iter().map(network).collect())
});

/// The networks that a setting allows in addition to the public addresses.
#[derive(Debug, Clone, Default)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// These networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether the setting names a network with this address.
    pub fn name(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether the setting names none, so that nothing goes anywhere without TLS.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether requests may go to this address. Without TLS they stay in networks that the setting names.
    pub fn allow(&self, address: IpAddr, is_encrypted: bool) -> bool {
        self.name(address) || (is_encrypted && is_public(address))
    }
}

fn is_public(address: IpAddr) -> bool {
    let (global, internal) = &*PUBLIC;
    let is_global = address.is_ipv4() || global.contains(&address);
    is_global && !internal.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn internal_addresses_are_refused_in_every_notation() {
        let none = Networks::default();
        for internal in [
            "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.31.255.255",
            "192.168.1.1", "224.0.0.1", "239.1.1.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "::", "::1",
            "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "fe80::1", "fc00::1", "fd12:3456::1", "ff02::1",
            "fec0::1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "100::1",
        ] {
            assert!(!none.allow(address(internal), true), "{internal}");
        }
        for public in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"] {
            assert!(none.allow(address(public), true), "{public}");
            assert!(!none.allow(address(public), false), "{public} without TLS");
        }
    }

    #[test]
    fn a_setting_allows_its_networks_and_nothing_else() {
        let own = Networks::new(vec!["10.1.0.0/16".parse().expect("a network")]);
        assert!(own.allow(address("10.1.2.3"), true) && own.allow(address("10.1.2.3"), false));
        assert!(!own.allow(address("10.2.0.1"), true));
        assert!(!own.allow(address("::ffff:10.1.2.3"), true), "an address has one notation");
    }
}
