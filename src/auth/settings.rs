//! The settings below `auth`, with safe defaults.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer};

use super::Secret;
use super::invalid_setting::{InvalidSetting, invalid};
use super::oidc::OidcSettings;
use crate::domain::user::{LONGEST_PASSWORD, SHORTEST_PASSWORD, check_password};

/// `auth.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthSettings {
    /// The lifetime of a token in seconds.
    pub token_lifetime_s: u32,
    /// The claim `iss` of tokens; tokens with another one are refused.
    pub issuer: String,
    /// The key that signs tokens, 32 characters at least, the same on all instances. Empty: a key is made at the first
    /// start and kept in the store.
    #[serde(deserialize_with = "filled")]
    pub signing_key: Option<Secret>,
    /// How many checked tokens are remembered, so that a request costs no signature check.
    pub token_cache: u64,
    /// Whether requests may carry user name and password (`Authorization: Basic`) in place of a token.
    pub basic: bool,
    /// The fewest characters of a new password.
    pub min_password_length: usize,
    /// The password of the first administrator. Empty: the first start generates one.
    #[serde(deserialize_with = "filled")]
    pub initial_admin_password: Option<Secret>,
    /// Where a made-up first password is written. Empty: the directory of the embedded store, else the working directory.
    pub initial_admin_password_directory: String,
    /// What hashing a password costs.
    pub argon2: Argon2Settings,
    /// How many passwords are hashed at the same time; each takes `auth.argon2.memory_kib` of memory.
    pub max_parallel_hashes: usize,
    /// How many more sign-ins may wait for their turn; further ones are refused with `Retry-After`.
    pub max_waiting_hashes: usize,
    /// What slows down guessing.
    pub throttle: ThrottleSettings,
    /// Another issuer whose tokens open the service.
    pub oidc: OidcSettings,
}

/// `auth.argon2.*`: the cost of one Argon2id hash. A hash made at another cost is renewed when its user signs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argon2Settings {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub iterations: u32,
    /// Lanes.
    pub parallelism: u32,
}

/// `auth.throttle.*`: failed attempts are counted by user name and by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThrottleSettings {
    /// The number of failures without a consequence: people mistype.
    pub free_failures: u32,
    /// The delay before the next attempt is looked at, in milliseconds; it doubles with each further failure.
    pub first_delay_ms: u64,
    /// The longest delay, in milliseconds.
    pub longest_delay_ms: u64,
    /// The number of failures for one user name after which attempts are refused for a while.
    pub user_failures: u32,
    /// The number of failures from one address after which attempts are refused for a while. An office can share one
    /// address.
    pub address_failures: u32,
    /// The first refusal, in seconds; it doubles with each further failure.
    pub first_refusal_s: u64,
    /// The longest refusal, in seconds.
    pub longest_refusal_s: u64,
    /// After this many seconds one failure is forgotten.
    pub forget_one_after_s: u64,
    /// The maximum number of names and addresses remembered.
    pub max_entries: usize,
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self {
            token_lifetime_s: 12 * 60 * 60,
            issuer: "inventory-service".to_owned(),
            signing_key: None,
            token_cache: 10_000,
            basic: false,
            min_password_length: SHORTEST_PASSWORD,
            initial_admin_password: None,
            initial_admin_password_directory: String::new(),
            argon2: Argon2Settings::default(),
            max_parallel_hashes: 2,
            max_waiting_hashes: 64,
            throttle: ThrottleSettings::default(),
            oidc: OidcSettings::default(),
        }
    }
}

impl Default for Argon2Settings {
    /// The lowest of the equally strong settings in OWASP's password storage cheat sheet that needs one lane: 19 MiB, 2 passes.
    fn default() -> Self {
        Self { memory_kib: 19 * 1024, iterations: 2, parallelism: 1 }
    }
}

impl Default for ThrottleSettings {
    fn default() -> Self {
        Self {
            free_failures: 3,
            first_delay_ms: 250,
            longest_delay_ms: 4_000,
            user_failures: 10,
            address_failures: 50,
            first_refusal_s: 30,
            longest_refusal_s: 15 * 60,
            forget_one_after_s: 5 * 60,
            max_entries: 50_000,
        }
    }
}

/// A signing key shorter than the hash it is used with could be guessed from any token.
const SHORTEST_SIGNING_KEY: usize = 32;
/// A key of fewer different bytes was not drawn at random: spaces, or one character over and over.
const LEAST_VARIED_SIGNING_KEY: usize = 8;

impl AuthSettings {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        at_least("auth.token_lifetime_s", self.token_lifetime_s, 1)?;
        at_least("auth.token_cache", self.token_cache, 1)?;
        at_least("auth.max_parallel_hashes", self.max_parallel_hashes, 1)?;
        if self.issuer.is_empty() {
            return Err(invalid("auth.issuer", "must not be empty"));
        }
        if let Some(key) = &self.signing_key {
            check_signing_key(key.expose()).map_err(|message| invalid("auth.signing_key", message))?;
        }
        if !(1..=LONGEST_PASSWORD).contains(&self.min_password_length) {
            let message = format!("must be between 1 and {LONGEST_PASSWORD}");
            return Err(invalid("auth.min_password_length", &message));
        }
        if let Some(password) = &self.initial_admin_password {
            check_password(password.expose(), self.min_password_length)
                .map_err(|message| invalid("auth.initial_admin_password", &message))?;
        }
        self.argon2.validate()?;
        self.throttle.validate()?;
        if !self.oidc.issuer.is_empty() && self.oidc.issuer == self.issuer {
            return Err(invalid("auth.oidc.issuer", "must not be auth.issuer, which is the name of this service"));
        }
        self.oidc.rules().map(drop)
    }
}

impl Argon2Settings {
    fn validate(self) -> Result<(), InvalidSetting> {
        at_least("auth.argon2.iterations", self.iterations, 1)?;
        within("auth.argon2.parallelism", self.parallelism, 1, 64)?;
        // The algorithm needs eight blocks of 1 KiB a lane; more than 4 GiB for one sign-in is a slip of the pen.
        within("auth.argon2.memory_kib", self.memory_kib, 8 * self.parallelism, 4 * 1024 * 1024)
    }
}

impl ThrottleSettings {
    fn validate(self) -> Result<(), InvalidSetting> {
        at_least("auth.throttle.user_failures", self.user_failures, 1)?;
        at_least("auth.throttle.address_failures", self.address_failures, 1)?;
        at_least("auth.throttle.first_refusal_s", self.first_refusal_s, 1)?;
        at_least("auth.throttle.longest_refusal_s", self.longest_refusal_s, self.first_refusal_s)?;
        at_least("auth.throttle.longest_delay_ms", self.longest_delay_ms, self.first_delay_ms)?;
        at_least("auth.throttle.forget_one_after_s", self.forget_one_after_s, 1)?;
        at_least("auth.throttle.max_entries", self.max_entries, 2)
    }
}

fn check_signing_key(key: &str) -> Result<(), &'static str> {
    if key.len() < SHORTEST_SIGNING_KEY {
        return Err("must have at least 32 characters");
    }
    if key.bytes().collect::<HashSet<_>>().len() < LEAST_VARIED_SIGNING_KEY {
        return Err("has too few different characters; make one, for instance with openssl rand -hex 32");
    }
    Ok(())
}

/// Environment variables and files can say "none" only by an empty text.
fn filled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    let text = Option::<Secret>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.expose().is_empty()))
}

fn at_least<T: PartialOrd + Copy + std::fmt::Display>(
    key: &'static str,
    value: T,
    least: T,
) -> Result<(), InvalidSetting> {
    if value < least { Err(invalid(key, &format!("must be at least {least}"))) } else { Ok(()) }
}

fn within(key: &'static str, value: u32, least: u32, most: u32) -> Result<(), InvalidSetting> {
    if value < least || value > most {
        return Err(invalid(key, &format!("must be between {least} and {most}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut AuthSettings)) -> String {
        let mut settings = AuthSettings::default();
        change(&mut settings);
        settings.validate().expect_err("the setting must be refused").to_string()
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(AuthSettings::default().validate(), Ok(()));
    }

    #[test]
    fn a_refusal_names_the_key() {
        assert_eq!(refused(|it| it.token_lifetime_s = 0), "auth.token_lifetime_s: must be at least 1");
        assert_eq!(
            refused(|it| it.signing_key = Some(Secret::new("short"))),
            "auth.signing_key: must have at least 32 characters"
        );
        for simple in [" ".repeat(40), "ab".repeat(20)] {
            let refusal = refused(|it| it.signing_key = Some(Secret::new(simple.clone())));
            assert!(refusal.starts_with("auth.signing_key: has too few different characters"), "{refusal}");
        }
        assert_eq!(refused(|it| it.argon2.memory_kib = 7), "auth.argon2.memory_kib: must be between 8 and 4194304");
        assert_eq!(
            refused(|it| it.throttle.longest_refusal_s = 2),
            "auth.throttle.longest_refusal_s: must be at least 30"
        );
    }

    #[test]
    fn a_short_first_password_is_refused_without_showing_it() {
        let message = refused(|it| it.initial_admin_password = Some(Secret::new("admin")));
        assert_eq!(message, "auth.initial_admin_password: must have at least 8 characters");
    }

    #[test]
    fn settings_do_not_print_their_secrets() {
        let settings = AuthSettings { signing_key: Some(Secret::new("k".repeat(40))), ..AuthSettings::default() };
        assert!(!format!("{settings:?}").contains("kkkk"));
    }
}
