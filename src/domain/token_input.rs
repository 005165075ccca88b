//! The body of a token for a machine.

use std::collections::HashSet;

use bson::{Bson, Document};
use chrono::{DateTime, TimeDelta, Utc};
use validator::Validate;

use super::object_fields::parse_date;
use super::rules::{broken, not_blank};
use super::schema::{Kind, Member, Schema, Unknown};
use super::violation::quoted;
use super::{Violation, Violations};

/// The body of a token.
pub const TOKEN: Schema = Schema {
    members: &[
        Member::required("name", Kind::Text),
        Member::optional("expires_at", Kind::Any).or_null(),
        Member::optional("rights", Kind::List(&Kind::Text)).or_null(),
        Member::optional("mongodb", Kind::Boolean).or_null(),
    ],
    unknown: Unknown::Refused,
};

const LONGEST_NAME: u64 = 256;

/// Rules for the values of a body.
#[derive(Validate)]
struct Rules<'a> {
    #[validate(
        length(max = "LONGEST_NAME", message = "must have 1 to 256 characters"),
        custom(function = not_blank, message = "must have 1 to 256 characters")
    )]
    name: &'a str,
}

/// The default lifetime of a token.
const LIFETIME: TimeDelta = TimeDelta::days(90);

/// A new token, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// What it is called; unique per user.
    pub name: String,
    /// When it ends.
    pub expires_at: DateTime<Utc>,
    /// Its rights; `None`: those of its user.
    pub rights: Option<Vec<String>>,
    /// Whether MongoDB tools may sign in with it.
    pub mongodb: bool,
}

/// Checks a body.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read(body: &Document, now: DateTime<Utc>, is_right: impl Fn(&str) -> bool) -> Result<TokenRequest, Violations> {
    let accepted = TOKEN.apply(body)?;
    let name = accepted.get_str("name").unwrap_or_default().to_owned();
    let mut violations = broken(&Rules { name: &name }, &["name"]);
    let expires_at = match accepted.get("expires_at") {
        None | Some(Bson::Null) => Some(now + LIFETIME),
        Some(Bson::DateTime(time)) => Some(time.to_chrono()),
        Some(Bson::String(text)) => parse_date(text).map(bson::DateTime::to_chrono),
        Some(_) => None,
    };
    match expires_at {
        None => violations
            .push(Violation::new("/expires_at", "must be a time, for instance 2030-01-31 or 2030-01-31T12:00:00Z")),
        Some(time) if time <= now => violations.push(Violation::new("/expires_at", "must lie in the future")),
        Some(_) => {}
    }
    let rights = accepted.get_array("rights").ok().map(|names| texts(names));
    for (index, right) in rights.iter().flatten().enumerate().filter(|(_, right)| !is_right(right)) {
        let message = format!("{} is no right; GET /rest/rights/ lists them", quoted(right));
        violations.push(Violation::new(format!("/rights/{index}"), message));
    }
    match expires_at {
        Some(expires_at) if violations.is_empty() => {
            let mut seen = HashSet::new();
            let once = |rights: Vec<String>| rights.into_iter().filter(|right| seen.insert(right.clone())).collect();
            let mongodb = accepted.get_bool("mongodb").unwrap_or(false);
            Ok(TokenRequest { name, expires_at, rights: rights.map(once), mongodb })
        }
        _ => Err(violations),
    }
}

fn texts(items: &[Bson]) -> Vec<String> {
    items.iter().filter_map(Bson::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn noon() -> DateTime<Utc> {
        "2026-01-01T12:00:00Z".parse().expect("a time")
    }

    fn read_at_noon(body: &Document) -> Result<TokenRequest, Vec<String>> {
        let found = read(body, noon(), |name| name.starts_with("base."));
        found.map_err(|violations| violations.into_iter().map(|violation| violation.pointer).collect())
    }

    #[test]
    fn a_right_that_is_named_twice_is_kept_once() {
        let token = read_at_noon(&doc! {"name": "a", "rights": ["base.a", "base.b", "base.a"]}).expect("right");
        assert_eq!(token.rights, Some(vec!["base.a".to_owned(), "base.b".to_owned()]));
    }

    #[test]
    fn a_name_is_enough() {
        let token = read_at_noon(&doc! {"name": "backup"}).expect("right");
        let wanted =
            TokenRequest { name: "backup".into(), expires_at: noon() + LIFETIME, rights: None, mongodb: false };
        assert_eq!(token, wanted);
    }

    #[test]
    fn the_end_is_read_in_every_notation_of_the_interface() {
        let end: DateTime<Utc> = "2030-01-31T12:00:00Z".parse().expect("a time");
        for sent in ["2030-01-31T12:00:00", "2030-01-31 12:00:00.000000", "2030-01-31T13:00:00+01:00"] {
            assert_eq!(read_at_noon(&doc! {"name": "a", "expires_at": sent}).map(|token| token.expires_at), Ok(end));
        }
        let day: DateTime<Utc> = "2030-01-31T00:00:00Z".parse().expect("a time");
        let token = read_at_noon(&doc! {"name": "a", "expires_at": "2030-01-31"});
        assert_eq!(token.map(|token| token.expires_at), Ok(day));
        let date = bson::DateTime::from_chrono(end);
        assert_eq!(read_at_noon(&doc! {"name": "a", "expires_at": date}).map(|token| token.expires_at), Ok(end));
    }

    #[test]
    fn everything_wrong_with_a_token_is_named_at_once() {
        let body = doc! {"name": " ", "expires_at": "tomorrow", "rights": ["base.*", "all"]};
        assert_eq!(read_at_noon(&body), Err(vec!["/name".into(), "/expires_at".into(), "/rights/1".into()]));
        assert_eq!(
            read_at_noon(&doc! {"name": "a", "expires_at": "2020-01-01T00:00:00"}),
            Err(vec!["/expires_at".into()])
        );
        assert_eq!(read_at_noon(&doc! {"name": "a", "expires": 1}), Err(vec!["/expires".into()]));
    }
}
