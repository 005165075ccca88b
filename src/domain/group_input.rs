//! The body of a group (docs/api.md, Groups) and the stored document made from it.

use bson::{Bson, Document, doc};
use validator::Validate;

use super::rules::{broken, not_blank};
use super::schema::{Kind, Member, Schema, Unknown};
use super::violation::quoted;
use super::{Violation, Violations, default_to, title_case};

/// The body of a group.
pub const GROUP: Schema = Schema {
    members: &[
        Member::optional("public_id", Kind::Integer),
        Member::required("name", Kind::Text),
        Member::optional("label", Kind::Text),
        Member::optional("rights", Kind::List(&Kind::Any)),
    ],
    unknown: Unknown::RefusedUnlessRead,
};

/// Rules for the values of a body.
#[derive(Validate)]
struct Rules<'a> {
    #[validate(custom(function = not_blank, message = "must not be empty"))]
    name: &'a str,
}

/// Checks a body and fills in the defaults. Rights may be names, or records as reads show them; `is_right` knows them all.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read(body: &Document, is_right: impl Fn(&str) -> bool) -> Result<Document, Violations> {
    let mut accepted = GROUP.apply(body)?;
    let name = accepted.get_str("name").unwrap_or_default().to_owned();
    let mut violations = broken(&Rules { name: &name }, &["name"]);
    let sent = accepted.remove("rights");
    let sent = sent.as_ref().and_then(Bson::as_array).map_or(&[][..], Vec::as_slice);
    let rights = read_rights(sent, is_right, &mut violations);
    violations.none()?;
    default_to(&mut accepted, "label", title_case(&name));
    accepted.insert("rights", rights);
    Ok(accepted)
}

/// The names of known rights, each once, in the order in which they were sent.
fn read_rights(sent: &[Bson], is_right: impl Fn(&str) -> bool, violations: &mut Violations) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(sent.len());
    for (index, item) in sent.iter().enumerate() {
        let name = match item {
            Bson::String(name) => Some(name.as_str()),
            Bson::Document(record) => record.get_str("name").ok(),
            _ => None,
        };
        let message = match name {
            Some(name) if is_right(name) => {
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
                continue;
            }
            Some(name) => format!("{} is no right; GET /rest/rights/ lists them", quoted(name)),
            None => "must be the name of a right".to_owned(),
        };
        violations.push(Violation::new(format!("/rights/{index}"), message));
    }
    names
}

/// The stored document of a new group.
pub fn created(accepted: &Document, public_id: i64) -> Document {
    let mut document = doc! {"public_id": public_id};
    document.extend(without_id(accepted));
    document
}

/// The stored document after an update; members of other tools stay.
pub fn updated(accepted: &Document, stored: &Document) -> Document {
    let mut document = stored.clone();
    document.extend(without_id(accepted));
    document
}

fn without_id(accepted: &Document) -> Document {
    let mut members = accepted.clone();
    members.remove("public_id");
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(name: &str) -> bool {
        name.starts_with("base.system.")
    }

    #[test]
    fn the_least_body_gets_every_default() {
        let accepted = read(&doc! {"name": "night shift"}, is_right).expect("the body is right");
        assert_eq!(accepted, doc! {"name": "night shift", "label": "Night Shift", "rights": []});
    }

    #[test]
    fn rights_are_names_or_records_and_count_once() {
        let record = doc! {"name": "base.system.view", "level": 50};
        let body = doc! {"name": "ops", "rights": ["base.system.edit", record, "base.system.edit"]};
        let accepted = read(&body, is_right).expect("the body is right");
        assert_eq!(accepted.get_array("rights").expect("rights").len(), 2);
    }

    #[test]
    fn each_right_that_there_is_not_is_named() {
        let body = doc! {"name": " ", "rights": ["base.system.edit", "base.nothing", 7]};
        let places: Vec<String> =
            read(&body, is_right).expect_err("wrong").into_iter().map(|found| found.pointer).collect();
        assert_eq!(places, ["/name", "/rights/1", "/rights/2"]);
    }

    #[test]
    fn an_update_keeps_the_id_and_foreign_members() {
        let stored = doc! {"_id": 1, "public_id": 5_i64, "name": "a", "label": "A", "rights": ["x"], "colour": "red"};
        let after = updated(&doc! {"public_id": 9_i64, "name": "b", "label": "B", "rights": []}, &stored);
        let expected = doc! {"_id": 1, "public_id": 5_i64, "name": "b", "label": "B", "rights": [], "colour": "red"};
        assert_eq!(after, expected);
    }
}
