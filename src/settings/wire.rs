//! The settings of the listener for MongoDB tools.

use std::net::IpAddr;

use serde::Deserialize;

use super::{SettingsError, StoreUri, invalid};

/// `wire.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireSettings {
    /// Host and port; empty: no listener.
    pub address: String,
    /// The name of the database that tools see.
    pub database: String,
}

/// Names that tools use for databases of the server's own.
pub(super) const RESERVED: [&str; 3] = ["admin", "config", "local"];

/// The longest name of a database in MongoDB.
const LONGEST: usize = 63;

impl WireSettings {
    /// Where to listen, if anywhere.
    pub fn address(&self) -> Option<&str> {
        Some(self.address.as_str()).filter(|address| !address.is_empty())
    }

    pub(super) fn validate(&self, store: &StoreUri, is_encrypted: bool) -> Result<(), SettingsError> {
        let name = &self.database;
        let is_wrong = |letter: char| letter.is_whitespace() || "/\\.\"$*<>:|?\0".contains(letter);
        if name.is_empty() || name.len() > LONGEST || name.contains(is_wrong) || RESERVED.contains(&name.as_str()) {
            let message = "must be a name of a MongoDB database, of 1 to 63 bytes, and not admin, config or local";
            return Err(invalid("wire.database", message));
        }
        let Some(address) = self.address() else { return Ok(()) };
        if matches!(store, StoreUri::MongoDb(_)) {
            let message = "is for the embedded store alone; with store.uri at MongoDB, tools connect to that server";
            return Err(invalid("wire.address", message));
        }
        let Some((host, _)) = address.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()) else {
            return Err(invalid("wire.address", "must be an address and a port, for instance 127.0.0.1:27017"));
        };
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_here = host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback());
        if !is_here && !is_encrypted {
            let message = "reaches beyond this machine, which needs TLS; set server.tls.certificate and server.tls.key, \
                           or use 127.0.0.1";
            return Err(invalid("wire.address", message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    fn refused(pairs: &[(&str, &str)]) -> String {
        Settings::defaults(pairs).expect_err("the setting must be refused").to_string()
    }

    #[test]
    fn an_address_beyond_this_machine_needs_tls() {
        for outside in ["0.0.0.0:27017", "[::]:27017", "inventory.example.org:27017", "192.0.2.1:0"] {
            assert!(refused(&[("wire.address", outside)]).contains("needs TLS"), "{outside}");
            let tls = [("server.tls.certificate", "a.pem"), ("server.tls.key", "b.pem"), ("wire.address", outside)];
            assert!(Settings::defaults(&tls).is_ok(), "{outside}");
        }
        for inside in ["127.0.0.1:27017", "[::1]:27017", "localhost:0", "127.0.0.2:1", ""] {
            assert!(Settings::defaults(&[("wire.address", inside)]).is_ok(), "{inside}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in ["127.0.0.1", "27017", "127.0.0.1:", "127.0.0.1:70000"] {
            assert!(refused(&[("wire.address", wrong)]).contains("an address and a port"), "{wrong}");
        }
    }

    #[test]
    fn a_store_on_mongodb_has_its_own_server_for_tools() {
        let pairs = [("store.uri", "mongodb://127.0.0.1/inventory"), ("wire.address", "127.0.0.1:27017")];
        assert!(refused(&pairs).contains("tools connect to that server"));
    }

    #[test]
    fn a_name_of_a_database_is_one_in_mongodb() {
        for wrong in ["", "admin", "a b", "a.b", "a$b", &"x".repeat(64)] {
            assert!(refused(&[("wire.database", wrong)]).contains("wire.database"), "{wrong}");
        }
    }
}
