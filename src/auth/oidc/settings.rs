//! The settings below `auth.oidc`.

use chrono::TimeDelta;
use serde::Deserialize;
use url::{Host, Url};

use crate::auth::invalid_setting::{InvalidSetting, invalid};

/// A clock that is further off than this is a defect to mend, not to allow for.
const LARGEST_SKEW_S: u32 = 300;

/// `auth.oidc.*`: an issuer of OpenID Connect whose tokens open the service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcSettings {
    /// The issuer, as its tokens name it in `iss`. Empty: there is none.
    pub issuer: String,
    /// The audience that tokens for this service name in `aud`.
    pub audience: String,
    /// The claim that names a new user. A token without it: `sub`.
    pub user_claim: String,
    /// The claim with the groups of the user.
    pub groups_claim: String,
    /// `<value of the claim> = <name of a group here>`, separated by semicolons; the first one that fits counts.
    pub groups: String,
    /// The name of the group of users whom no other group fits. Empty: they are refused.
    pub default_group: String,
    /// How far the clocks of the issuer and of the service may differ, in seconds.
    pub clock_skew_s: u32,
    /// File with the certificates of authorities that may have signed the issuer's certificate. Empty: the public ones.
    pub ca_certificates: String,
}

/// What a token of the issuer has to be, and how its claims are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRules {
    /// What `iss` has to be.
    pub issuer: String,
    /// What `aud` has to name.
    pub(super) audience: String,
    /// The claim with the name of the user.
    pub(super) user_claim: String,
    /// The claim with the groups of the user.
    pub(super) groups_claim: String,
    /// Values of that claim, with names of groups.
    pub(super) groups: Vec<(String, String)>,
    /// The name of the group for everybody else.
    pub(super) default_group: Option<String>,
    /// How far clocks may differ.
    pub(super) skew: TimeDelta,
}

impl Default for OidcSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: String::new(),
            user_claim: "preferred_username".to_owned(),
            groups_claim: "groups".to_owned(),
            groups: String::new(),
            default_group: String::new(),
            clock_skew_s: 30,
            ca_certificates: String::new(),
        }
    }
}

impl OidcSettings {
    /// The rules for tokens; `None` without an issuer.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn rules(&self) -> Result<Option<TokenRules>, InvalidSetting> {
        if self.issuer.is_empty() {
            let useless = [
                ("auth.oidc.audience", &self.audience),
                ("auth.oidc.groups", &self.groups),
                ("auth.oidc.default_group", &self.default_group),
                ("auth.oidc.ca_certificates", &self.ca_certificates),
            ];
            return match useless.into_iter().find(|(_, value)| !value.is_empty()) {
                Some((key, _)) => Err(invalid("auth.oidc.issuer", &format!("is needed, because {key} is given"))),
                None => Ok(None),
            };
        }
        check_issuer(&self.issuer).map_err(|message| invalid("auth.oidc.issuer", message))?;
        let needed = [
            ("auth.oidc.audience", &self.audience),
            ("auth.oidc.user_claim", &self.user_claim),
            ("auth.oidc.groups_claim", &self.groups_claim),
        ];
        if let Some((key, _)) = needed.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(invalid(key, "is needed, because auth.oidc.issuer is given"));
        }
        let groups = mapping(&self.groups).map_err(|message| invalid("auth.oidc.groups", &message))?;
        let default_group = Some(self.default_group.clone()).filter(|name| !name.is_empty());
        if groups.is_empty() && default_group.is_none() {
            let message = "nobody could sign in; write for instance \"inventory-admins = admin\", or set \
                           auth.oidc.default_group";
            return Err(invalid("auth.oidc.groups", message));
        }
        if self.clock_skew_s > LARGEST_SKEW_S {
            return Err(invalid("auth.oidc.clock_skew_s", &format!("must be at most {LARGEST_SKEW_S}")));
        }
        Ok(Some(TokenRules {
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            user_claim: self.user_claim.clone(),
            groups_claim: self.groups_claim.clone(),
            groups,
            default_group,
            skew: TimeDelta::seconds(i64::from(self.clock_skew_s)),
        }))
    }
}

impl TokenRules {
    /// The names of all groups that callers can get.
    pub fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(_, name)| name.as_str()).chain(self.default_group.as_deref())
    }
}

/// Whether keys may come from there: over TLS, or from this machine.
pub fn may_be_asked(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Domain(name))) => name == "localhost",
        ("http", Some(Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(Host::Ipv6(address))) => address.is_loopback(),
        _ => false,
    }
}

fn check_issuer(issuer: &str) -> Result<(), &'static str> {
    let url = Url::parse(issuer).map_err(|_| "is no URL; write for instance https://login.example.org/realms/main")?;
    if !may_be_asked(&url) {
        return Err("must start with https://; http:// is for an issuer on this machine alone");
    }
    if issuer.contains(char::is_whitespace) {
        return Err("must have no spaces");
    }
    let is_plain = url.query().is_none() && url.fragment().is_none();
    if !is_plain || !url.username().is_empty() || url.password().is_some() {
        return Err("must have neither a user nor a query nor a fragment");
    }
    Ok(())
}

/// Reads `<value> = <group>; ...`. A value may have equals signs, as names in directories do; the last one counts.
fn mapping(text: &str) -> Result<Vec<(String, String)>, String> {
    let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
    let pair = |entry: &str| {
        let (value, group) = entry.rsplit_once('=')?;
        let (value, group) = (value.trim(), group.trim());
        (!value.is_empty() && !group.is_empty()).then(|| (value.to_owned(), group.to_owned()))
    };
    entries
        .map(|entry| {
            let message = || format!("{entry:?} has no equals sign between a value of the claim and a group");
            pair(entry).ok_or_else(message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> OidcSettings {
        OidcSettings {
            issuer: "https://login.example.org/realms/main".to_owned(),
            audience: "inventory".to_owned(),
            default_group: "user".to_owned(),
            ..OidcSettings::default()
        }
    }

    fn refused(change: impl FnOnce(&mut OidcSettings)) -> String {
        let mut settings = settings();
        change(&mut settings);
        settings.rules().expect_err("the setting must be refused").to_string()
    }

    #[test]
    fn without_an_issuer_there_are_no_rules() {
        assert_eq!(OidcSettings::default().rules(), Ok(None));
        assert!(settings().rules().is_ok_and(|rules| rules.is_some()));
    }

    #[test]
    fn an_issuer_is_asked_over_tls_or_on_this_machine() {
        for issuer in ["https://a.example", "http://127.0.0.1:8080/x", "http://localhost", "http://[::1]:1/"] {
            assert!(OidcSettings { issuer: issuer.to_owned(), ..settings() }.rules().is_ok(), "{issuer}");
        }
        for issuer in [
            "http://login.example.org", "http://127.0.0.1.example.org", "http://localhost.example.org",
            "http://10.0.0.1", "ftp://localhost", "file:///etc/passwd", "https://user@login.example.org",
            "https://user:secret@login.example.org", "https://login.example.org?realm=x",
            "https://login.example.org#x", "login.example.org", " https://login.example.org",
            "https://login.example.org/a b",
        ] {
            assert!(refused(|it| it.issuer = issuer.to_owned()).starts_with("auth.oidc.issuer: "), "{issuer}");
        }
    }

    #[test]
    fn a_refusal_names_the_key_and_the_remedy() {
        let needed = "is needed, because auth.oidc.issuer is given";
        assert_eq!(refused(|it| it.audience.clear()), format!("auth.oidc.audience: {needed}"));
        assert_eq!(refused(|it| it.user_claim.clear()), format!("auth.oidc.user_claim: {needed}"));
        assert_eq!(refused(|it| it.groups_claim.clear()), format!("auth.oidc.groups_claim: {needed}"));
        assert_eq!(refused(|it| it.clock_skew_s = 301), "auth.oidc.clock_skew_s: must be at most 300");
        assert!(refused(|it| it.default_group.clear()).starts_with("auth.oidc.groups: nobody could sign in"));
        for wrong in ["admins", "admins =", "= admin", "a = b; c"] {
            let message = refused(|it| it.groups = wrong.to_owned());
            assert!(message.starts_with("auth.oidc.groups: \""), "{message}");
        }
    }

    #[test]
    fn groups_are_read_in_their_order_and_may_be_names_in_a_directory() {
        let pairs = mapping(" /admins = admin ; CN=Editors,OU=Groups,DC=example = editors;").expect("pairs");
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(value, group)| (value.as_str(), group.as_str())).collect();
        assert_eq!(pairs, [("/admins", "admin"), ("CN=Editors,OU=Groups,DC=example", "editors")]);
    }
}
