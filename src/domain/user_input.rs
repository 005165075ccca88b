//! The body of a user (docs/api.md, Users) and the stored document made from it.

use bson::{Bson, DateTime, Document};
use validator::{Validate, ValidationError};

use super::group::USER_GROUP;
use super::rules::broken;
use super::schema::{Kind, Member, Schema, Unknown};
use super::user::{LOCAL_AUTHENTICATOR, OIDC_AUTHENTICATOR, PASSWORD_MASK, User, check_password};
use super::{Violation, Violations};

/// The body of a user.
pub const USER: Schema = Schema {
    members: &[
        Member::optional("public_id", Kind::Integer),
        Member::required("user_name", Kind::Text),
        Member::optional("active", Kind::Boolean),
        Member::optional("group_id", Kind::Integer),
        Member::optional("registration_time", Kind::Any).or_null(),
        Member::optional("authenticator", Kind::Text),
        Member::optional("email", Kind::Text).or_null(),
        Member::optional("password", Kind::Text).or_null(),
        Member::optional("image", Kind::Text).or_null(),
        Member::optional("first_name", Kind::Text).or_null(),
        Member::optional("last_name", Kind::Text).or_null(),
    ],
    unknown: Unknown::RefusedUnlessRead,
};

/// The body of a sign-in.
pub const LOGIN: Schema = Schema {
    members: &[Member::required("user_name", Kind::Text), Member::required("password", Kind::Text)],
    unknown: Unknown::Dropped,
};

/// The body that gives a user another password.
pub const PASSWORD: Schema =
    Schema { members: &[Member::required("password", Kind::Text)], unknown: Unknown::RefusedUnlessRead };

/// Members that need `base.user-management.user.edit`, even on the caller's own user.
pub const PROTECTED: [&str; 4] = ["group_id", "active", "authenticator", "registration_time"];

/// Members that a body without them clears.
const NULLABLE: [&str; 4] = ["email", "image", "first_name", "last_name"];

const LONGEST_NAME: u64 = 256;

/// Rules for the values of a body.
#[derive(Validate)]
struct Rules<'a> {
    #[validate(
        length(min = 1, max = "LONGEST_NAME", message = "must have 1 to 256 characters"),
        custom(function = is_clean, message = "must have no control characters, and no space at either end")
    )]
    user_name: Option<&'a str>,
    #[validate(custom(function = is_known))]
    authenticator: Option<&'a str>,
}

fn is_clean(name: &str) -> Result<(), ValidationError> {
    let clean = name.trim() == name && !name.chars().any(char::is_control);
    if clean { Ok(()) } else { Err(ValidationError::new("user_name")) }
}

/// Whether a user may have this name.
pub fn is_name(name: &str) -> bool {
    let rules = Rules { user_name: Some(name), authenticator: None };
    rules.validate().is_ok()
}

fn is_known(authenticator: &str) -> Result<(), ValidationError> {
    if [LOCAL_AUTHENTICATOR, OIDC_AUTHENTICATOR].contains(&authenticator) {
        return Ok(());
    }
    let message = format!("is not known; known are {LOCAL_AUTHENTICATOR} and {OIDC_AUTHENTICATOR}");
    Err(ValidationError::new("authenticator").with_message(message.into()))
}

/// Checks the body of a new user; `shortest` is the fewest characters of a password.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read_new(body: &Document, shortest: usize) -> Result<Document, Violations> {
    let mut violations = Violations::new();
    let accepted = read_into(body, shortest, &mut violations);
    if new_password(body).is_none() && !violations.has("/password") {
        violations.push(Violation::new("/password", "is required"));
    }
    violations.append(by_issuer(&accepted, None, None));
    if violations.is_empty() { Ok(accepted) } else { Err(violations) }
}

/// Checks the body of a change; `shortest` is the fewest characters of a password.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read(body: &Document, shortest: usize) -> Result<Document, Violations> {
    let mut violations = Violations::new();
    let accepted = read_into(body, shortest, &mut violations);
    if violations.is_empty() { Ok(accepted) } else { Err(violations) }
}

fn read_into(body: &Document, shortest: usize, violations: &mut Violations) -> Document {
    let accepted = USER.apply(body).unwrap_or_else(|found| {
        violations.append(found);
        Document::new()
    });
    let text = |name| body.get_str(name).ok();
    let rules = Rules { user_name: text("user_name"), authenticator: text("authenticator") };
    violations.append(broken(&rules, &["user_name", "authenticator"]));
    if let Some(Err(message)) = new_password(body).map(|password| check_password(password, shortest)) {
        violations.push(Violation::new("/password", message));
    }
    accepted
}

/// What is wrong with who signs a user in: only the first sign-in at the issuer makes a user of the issuer, and such a
/// user has no password.
pub fn by_issuer(accepted: &Document, stored: Option<&Document>, password: Option<&str>) -> Violations {
    let is_of_issuer = |user: &Document| user.get_str("authenticator").is_ok_and(|name| name == OIDC_AUTHENTICATOR);
    let (was, stays) = (stored.is_some_and(is_of_issuer), is_of_issuer(accepted));
    let mut violations = Violations::new();
    if stays && !was {
        let message = "is the one of users whom their first sign-in at the issuer makes";
        violations.push(Violation::new("/authenticator", message));
    } else if was && (stays || !accepted.contains_key("authenticator")) && password.is_some() {
        let message = format!(
            "is not for this user, who signs in at the issuer; send authenticator {LOCAL_AUTHENTICATOR} with it"
        );
        violations.push(Violation::new("/password", message));
    }
    violations
}

/// The password that a body sets. Null, a missing member and the mask of reads set none.
pub fn new_password(body: &Document) -> Option<&str> {
    body.get_str("password").ok().filter(|password| *password != PASSWORD_MASK)
}

/// The stored document of a new user.
pub fn created(accepted: &Document, public_id: i64, now: DateTime) -> Document {
    let text = |name| accepted.get_str(name).ok().map(str::to_owned);
    let user = User {
        public_id,
        user_name: text("user_name").unwrap_or_default(),
        active: accepted.get_bool("active").unwrap_or(true),
        group_id: accepted.get_i64("group_id").unwrap_or(USER_GROUP),
        registration_time: now.to_chrono(),
        authenticator: LOCAL_AUTHENTICATOR,
        email: text("email"),
        image: text("image"),
        first_name: text("first_name"),
        last_name: text("last_name"),
    };
    user.to_document()
}

/// The stored document after an update. Members that decide about access stay if the body omits them. Members of other
/// tools stay too.
pub fn updated(accepted: &Document, stored: &Document) -> Document {
    let mut document = stored.clone();
    for name in ["user_name", "active", "group_id", "authenticator"] {
        if let Some(value) = accepted.get(name) {
            document.insert(name, value.clone());
        }
    }
    for name in NULLABLE {
        document.insert(name, accepted.get(name).cloned().unwrap_or(Bson::Null));
    }
    document
}

/// The protected members that a body would change.
pub fn protected_changes(accepted: &Document, stored: &Document) -> Vec<&'static str> {
    let changes = |name: &&str| match (accepted.get(name), stored.get(name)) {
        (None, _) => false,
        (Some(Bson::Null), _) if *name == "registration_time" => false,
        (Some(Bson::String(sent)), Some(Bson::DateTime(kept))) => *sent != as_shown(*kept),
        (Some(Bson::Int64(sent)), Some(Bson::Int32(kept))) => *sent != i64::from(*kept),
        (Some(sent), kept) => Some(sent) != kept,
    };
    PROTECTED.into_iter().filter(changes).collect()
}

/// A time as reads of users show it: docs/api.md, Times.
fn as_shown(time: DateTime) -> String {
    time.to_chrono().format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::super::user::SHORTEST_PASSWORD;
    use super::*;

    fn places(result: Result<Document, Violations>) -> Vec<String> {
        result.expect_err("the body is wrong").into_iter().map(|violation| violation.pointer).collect()
    }

    #[test]
    fn a_new_user_needs_a_name_and_a_password() {
        assert_eq!(places(read_new(&doc! {}, SHORTEST_PASSWORD)), ["/user_name", "/password"]);
        assert_eq!(
            places(read_new(&doc! {"user_name": "ada", "password": PASSWORD_MASK}, SHORTEST_PASSWORD)),
            ["/password"]
        );
        assert_eq!(places(read_new(&doc! {"user_name": "ada", "password": "short"}, SHORTEST_PASSWORD)), ["/password"]);
        assert_eq!(
            places(read_new(&doc! {"user_name": "ada", "password": 12_345_678}, SHORTEST_PASSWORD)),
            ["/password"]
        );
        assert!(read_new(&doc! {"user_name": "ada", "password": "long enough"}, SHORTEST_PASSWORD).is_ok());
    }

    #[test]
    fn everything_wrong_with_a_user_is_named_at_once() {
        let body = doc! {"user_name": " ", "active": 1, "group_id": "1", "authenticator": "Ldap", "email": 7};
        assert_eq!(
            places(read(&body, SHORTEST_PASSWORD)),
            ["/active", "/group_id", "/email", "/user_name", "/authenticator"]
        );
    }

    #[test]
    fn a_new_user_gets_the_defaults() {
        let user = created(&doc! {"user_name": "ada"}, 7, DateTime::from_millis(0));
        assert_eq!(user.get("active"), Some(&Bson::Boolean(true)));
        assert_eq!(user.get("group_id"), Some(&Bson::Int64(2)));
        assert_eq!(user.get_str("authenticator").ok(), Some(LOCAL_AUTHENTICATOR));
    }

    #[test]
    fn an_update_keeps_access_and_foreign_members_and_clears_the_rest() {
        let stored =
            doc! {"_id": 1, "user_name": "ada", "active": false, "group_id": 3_i64, "email": "a@b", "theme": "x"};
        let after = updated(&doc! {"user_name": "Ada", "first_name": "Ada"}, &stored);
        let expected = doc! {
            "_id": 1, "user_name": "Ada", "active": false, "group_id": 3_i64, "email": null, "theme": "x",
            "image": null, "first_name": "Ada", "last_name": null,
        };
        assert_eq!(after, expected);
    }

    #[test]
    fn what_was_read_and_is_sent_back_changes_nothing_that_is_protected() {
        let time = DateTime::from_millis(1_700_000_000_123);
        let stored = doc! {"active": true, "group_id": 2_i32, "registration_time": time};
        let shown = doc! {"active": true, "group_id": 2_i64, "registration_time": "2023-11-14 22:13:20.123000"};
        assert!(protected_changes(&shown, &stored).is_empty());
        assert!(protected_changes(&doc! {"registration_time": time}, &stored).is_empty());
        let lifted = doc! {"active": false, "group_id": 1_i64, "registration_time": "2020"};
        assert_eq!(protected_changes(&lifted, &stored), ["group_id", "active", "registration_time"]);
    }
}
