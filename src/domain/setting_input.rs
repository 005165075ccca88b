//! The body of a user's setting: docs/api.md, Settings of users.

use bson::{Bson, Document, doc};
use validator::{Validate, ValidationError};

use super::rules::broken;
use super::schema::{Kind, Member, Schema, Unknown};
use super::violation::quoted;
use super::{Violation, Violations, default_to};

/// The body of a setting.
pub const SETTING: Schema = Schema {
    members: &[
        Member::optional("identifier", Kind::Text),
        Member::optional("user_id", Kind::Integer),
        Member::optional("payload", Kind::OpenMap),
        Member::required("setting_type", Kind::Text),
    ],
    unknown: Unknown::RefusedUnlessRead,
};

/// What `setting_type` may be.
pub const SETTING_TYPES: [&str; 3] = ["GLOBAL", "APPLICATION", "SERVER"];

/// In characters.
const LONGEST_IDENTIFIER: u64 = 256;

/// Rules for the values of a body.
#[derive(Validate)]
struct Rules<'a> {
    #[validate(length(min = 1, max = "LONGEST_IDENTIFIER", message = "must have 1 to 256 characters"))]
    identifier: Option<&'a str>,
    #[validate(custom(function = is_setting_type))]
    setting_type: &'a str,
}

fn is_setting_type(sent: &str) -> Result<(), ValidationError> {
    if SETTING_TYPES.contains(&sent) {
        return Ok(());
    }
    let message = format!("must be one of {}", SETTING_TYPES.join(", "));
    Err(ValidationError::new("setting_type").with_message(message.into()))
}

/// Checks a body. The path names the user, and for a change the setting. The body may omit or repeat them.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read(body: &Document, user_id: i64, identifier: Option<&str>) -> Result<Document, Violations> {
    let mut accepted = SETTING.apply(body)?;
    let mut violations = Violations::new();
    match (accepted.get_str("identifier").ok(), identifier) {
        (None, None) => violations.push(Violation::new("/identifier", "is required")),
        (Some(sent), Some(path)) if sent != path => {
            let message = format!("is {}, but the path says {}; leave it out", quoted(sent), quoted(path));
            violations.push(Violation::new("/identifier", message));
        }
        _ => {}
    }
    if accepted.get_i64("user_id").is_ok_and(|sent| sent != user_id) {
        violations.push(Violation::new("/user_id", format!("the path says {user_id}; leave it out")));
    }
    let new = accepted.get_str("identifier").ok().filter(|_| identifier.is_none());
    let rules = Rules { identifier: new, setting_type: accepted.get_str("setting_type").unwrap_or_default() };
    violations.append(broken(&rules, &["identifier", "setting_type"]));
    violations.none()?;
    default_to(&mut accepted, "payload", Document::new());
    let identifier = identifier.map_or_else(|| accepted.get("identifier").cloned(), |path| Some(Bson::from(path)));
    Ok(doc! {
        "identifier": identifier.unwrap_or(Bson::Null),
        "user_id": user_id,
        "payload": accepted.get("payload").cloned(),
        "setting_type": accepted.get("setting_type").cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(result: Result<Document, Violations>) -> Vec<String> {
        result.expect_err("the body is wrong").into_iter().map(|violation| violation.pointer).collect()
    }

    #[test]
    fn the_least_body_gets_an_empty_payload() {
        let accepted = read(&doc! {"identifier": "theme", "setting_type": "GLOBAL"}, 7, None).expect("right");
        let expected = doc! {"identifier": "theme", "user_id": 7_i64, "payload": {}, "setting_type": "GLOBAL"};
        assert_eq!(accepted, expected);
    }

    #[test]
    fn path_and_body_must_agree() {
        let body = doc! {"identifier": "theme", "user_id": 8, "setting_type": "SERVER"};
        assert_eq!(places(read(&body, 7, Some("colour"))), ["/identifier", "/user_id"]);
        assert!(read(&doc! {"setting_type": "SERVER"}, 7, Some("colour")).is_ok());
    }

    #[test]
    fn identifier_and_a_known_type_are_needed() {
        assert_eq!(places(read(&doc! {"setting_type": "OTHER"}, 7, None)), ["/identifier", "/setting_type"]);
        assert_eq!(places(read(&doc! {"identifier": "x"}, 7, None)), ["/setting_type"]);
        assert_eq!(
            places(read(&doc! {"identifier": "x", "setting_type": "GLOBAL", "payload": []}, 7, None)),
            ["/payload"]
        );
    }
}
