//! The body of a category (docs/api.md, Categories) and the stored document made from it.

use bson::{Bson, DateTime, Document, doc};

use super::schema::{Kind, Member, Schema, Unknown};
use super::{Violations, default_to, kept_if_same, title_case};

const META: Schema = Schema {
    members: &[Member::optional("icon", Kind::Text), Member::optional("order", Kind::Integer).or_null()],
    unknown: Unknown::RefusedUnlessRead,
};

/// The body of a category.
pub const CATEGORY: Schema = Schema {
    members: &[
        Member::optional("public_id", Kind::Integer),
        Member::required("name", Kind::Name),
        Member::optional("label", Kind::Text),
        Member::optional("parent", Kind::Integer).or_null(),
        Member::optional("types", Kind::List(&Kind::Integer)),
        Member::optional("meta", Kind::Map(&META)),
    ],
    unknown: Unknown::RefusedUnlessRead,
};

/// Members that the service owns; everything else on a stored category came from other tools.
/// The members of a stored document that the service knows.
pub const KNOWN: [&str; 9] =
    ["_id", "public_id", "name", "label", "parent", "types", "meta", "creation_time", "last_edit_time"];

/// Checks a body against the schema and fills in the defaults; `public_id` is in the result when the body has one.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read(body: &Document) -> Result<Document, Violations> {
    let mut accepted = CATEGORY.apply(body)?;
    let label = title_case(accepted.get_str("name").unwrap_or_default());
    default_to(&mut accepted, "label", label);
    default_to(&mut accepted, "parent", Bson::Null);
    default_to(&mut accepted, "types", Bson::Array(Vec::new()));
    let given = accepted.remove("meta");
    let mut meta = doc! {"icon": "", "order": null};
    if let Some(Bson::Document(given)) = given {
        meta.extend(given);
    }
    accepted.insert("meta", meta);
    Ok(accepted)
}

/// The stored document after an update; creation time, id and foreign members stay.
pub fn updated(accepted: Document, stored: &Document, now: DateTime) -> Document {
    kept_if_same(super::updated(accepted, stored, &KNOWN, now), stored, &["last_edit_time"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_body_gets_every_default() {
        let accepted = read(&doc! {"name": "hard-ware"}).expect("the body is right");
        let expected = doc! {
            "name": "hard-ware", "label": "Hard-Ware", "parent": null, "types": [], "meta": {"icon": "", "order": null},
        };
        assert_eq!(accepted, expected);
    }

    #[test]
    fn a_part_of_meta_keeps_the_other_default() {
        let accepted = read(&doc! {"name": "ab", "meta": {"order": 3}}).expect("the body is right");
        assert_eq!(accepted.get("meta"), Some(&doc! {"icon": "", "order": 3_i64}.into()));
    }
}
