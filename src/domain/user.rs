//! Users, without their credentials.

use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};
use chrono::{DateTime, Utc};
use unicode_security::skeleton;

use super::document::text;

/// What reads show in place of a password. Sent back, it keeps the password as it is.
pub const PASSWORD_MASK: &str = "{argon2id}********";

/// The fewest characters of a password, unless `auth.min_password_length` says otherwise.
pub const SHORTEST_PASSWORD: usize = 8;
/// The maximum number of characters of a password.
pub const LONGEST_PASSWORD: usize = 1024;

/// The name of the provider of users who have a password here: this service itself.
pub const LOCAL_AUTHENTICATOR: &str = "LocalAuthenticationProvider";
/// The name of the provider of users whom the issuer of OpenID Connect signs in.
pub const OIDC_AUTHENTICATOR: &str = "OidcAuthenticationProvider";

/// The first administrator, who cannot be deleted.
pub const FIRST_ADMIN: i64 = 1;

/// A new user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its id.
    pub public_id: i64,
    /// The name for signing in, in its original spelling.
    pub user_name: String,
    /// Whether it may sign in.
    pub active: bool,
    /// The group whose rights it has.
    pub group_id: i64,
    /// When it came to be.
    pub registration_time: DateTime<Utc>,
    /// Who signs it in.
    pub authenticator: &'static str,
    /// Mail address.
    pub email: Option<String>,
    /// A picture, by whatever the client finds it.
    pub image: Option<String>,
    /// Given name.
    pub first_name: Option<String>,
    /// Family name.
    pub last_name: Option<String>,
}

impl User {
    /// An active user with only a name and a group.
    pub fn new(public_id: i64, user_name: impl Into<String>, group_id: i64, registration_time: DateTime<Utc>) -> Self {
        Self {
            public_id,
            user_name: user_name.into(),
            active: true,
            group_id,
            registration_time,
            authenticator: LOCAL_AUTHENTICATOR,
            email: None,
            image: None,
            first_name: None,
            last_name: None,
        }
    }

    /// The user as it is stored: without a password.
    pub fn to_document(&self) -> Document {
        doc! {
            "_id": ObjectId::new(),
            "public_id": self.public_id,
            "user_name": &self.user_name,
            "active": self.active,
            "group_id": self.group_id,
            "registration_time": bson::DateTime::from_chrono(self.registration_time),
            "authenticator": self.authenticator,
            "email": optional(self.email.as_ref()),
            "image": optional(self.image.as_ref()),
            "first_name": optional(self.first_name.as_ref()),
            "last_name": optional(self.last_name.as_ref()),
        }
    }
}

fn optional(text: Option<&String>) -> Bson {
    text.map_or(Bson::Null, |text| Bson::String(text.clone()))
}

/// A stored user as clients see it: with the mask for a password, after `email`.
///
/// Every user in an answer passes through here. A `password` that another tool stored is left out.
pub fn shown(user: &RawDocument) -> RawDocumentBuf {
    let mut shown = RawDocumentBuf::new();
    let mut masked = false;
    for (name, value) in user.iter().flatten() {
        if name.as_str() == "password" {
            continue;
        }
        shown.append(name, value);
        if name.as_str() == "email" {
            shown.append(bson::cstr!("password"), PASSWORD_MASK);
            masked = true;
        }
    }
    if !masked {
        shown.append(bson::cstr!("password"), PASSWORD_MASK);
    }
    shown
}

/// The display name of a stored user: first and last name if both are known, else the user name.
pub fn display_name(user: &RawDocument) -> Option<String> {
    let known = |name| text(user, name).filter(|known| !known.is_empty());
    match (known("first_name"), known("last_name")) {
        (Some(first), Some(last)) => Some(format!("{first} {last}")),
        _ => known("user_name").map(str::to_owned),
    }
}

/// Whether a text of at least `shortest` characters may be a password.
///
/// # Errors
/// What is wrong with it, without showing it.
pub fn check_password(password: &str, shortest: usize) -> Result<(), String> {
    let length = password.chars().count();
    if length < shortest {
        let ending = if shortest == 1 { "" } else { "s" };
        return Err(format!("must have at least {shortest} character{ending}"));
    }
    if length > LONGEST_PASSWORD {
        return Err(format!("must have at most {LONGEST_PASSWORD} characters"));
    }
    Ok(())
}

/// The unique form of a user name, by which users sign in.
pub fn login_of(user_name: &str) -> String {
    user_name.to_lowercase()
}

/// The looks of a user name: no two users share any of these texts, so that no user can be mistaken for another.
///
/// The first is the skeleton (Unicode TS 39) of the name in small letters. The second is made in the other order. Some
/// letters look alike only as capitals (Cyrillic `\u{41d}` and Latin `H`), others only as small letters. Invisible
/// characters do not count.
pub fn looks_of(user_name: &str) -> Vec<String> {
    let seen: String = user_name.chars().filter(|letter| !is_invisible(*letter)).collect();
    let small: String = skeleton(&login_of(&seen)).collect();
    let capital = login_of(&skeleton(&seen).collect::<String>());
    if small == capital { vec![small] } else { vec![small, capital] }
}

/// Whether a character is invisible: `Default_Ignorable_Code_Point` of Unicode 16.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_new_user_is_stored_without_a_password() {
        let user = User::new(7, "ada", 2, DateTime::UNIX_EPOCH).to_document();
        assert!(!user.contains_key("password"));
        let names: Vec<&str> = user.keys().map(String::as_str).collect();
        let expected = [
            "_id", "public_id", "user_name", "active", "group_id", "registration_time", "authenticator", "email",
            "image", "first_name", "last_name",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_shown_user_has_the_mask_after_the_email() {
        let stored = rawdoc! {"public_id": 7_i64, "email": null, "image": null};
        let expected = rawdoc! {"public_id": 7_i64, "email": null, "password": PASSWORD_MASK, "image": null};
        assert_eq!(shown(&stored), expected);
    }

    #[test]
    fn a_password_that_another_tool_stored_is_never_shown() {
        let stored = rawdoc! {"public_id": 7_i64, "password": "0123abcd", "user_name": "ada"};
        let expected = rawdoc! {"public_id": 7_i64, "user_name": "ada", "password": PASSWORD_MASK};
        assert_eq!(shown(&stored), expected);
    }

    #[test]
    fn a_user_is_called_by_both_names_or_by_the_user_name() {
        let name = |first: &str, last: &str| {
            display_name(&rawdoc! {"user_name": "ada", "first_name": first, "last_name": last})
        };
        assert_eq!(name("Ada", "Lovelace").as_deref(), Some("Ada Lovelace"));
        assert_eq!(name("Ada", "").as_deref(), Some("ada"));
        assert_eq!(display_name(&rawdoc! {"user_name": "ada", "first_name": null}).as_deref(), Some("ada"));
        assert_eq!(display_name(&rawdoc! {"public_id": 7}), None);
    }

    #[test]
    fn the_length_of_a_password_is_counted_in_characters() {
        assert!(check_password("1234567", SHORTEST_PASSWORD).is_err());
        assert!(check_password("\u{e4}\u{f6}\u{fc}\u{df}\u{e4}\u{f6}\u{fc}", SHORTEST_PASSWORD).is_err());
        assert!(check_password("12345678", SHORTEST_PASSWORD).is_ok());
        assert!(check_password(&"\u{e4}".repeat(1024), SHORTEST_PASSWORD).is_ok());
        assert!(check_password(&"a".repeat(1025), SHORTEST_PASSWORD).is_err());
    }

    #[test]
    fn names_that_look_alike_share_a_look() {
        let alike = |one: &str, other: &str| looks_of(one).iter().any(|look| looks_of(other).contains(look));
        for other in ["\u{430}dmin", "\u{410}DMIN", "adrnin", "ad\u{200b}min", "adm\u{131}n", "\u{ff41}dmin", "ADMIN"] {
            assert!(alike("admin", other), "{other}");
        }
        assert!(alike("Ian", "lan") && alike("\u{41d}ANS", "hans") && alike("ren\u{e9}", "rene\u{301}"));
        for (one, other) in [("admin", "admins"), ("ada", "adb"), ("ren\u{e9}", "rene"), ("ian", "lan"), ("a b", "ab")]
        {
            assert!(!alike(one, other), "{one} {other}");
        }
    }
}
