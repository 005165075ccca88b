//! The body of a report: docs/api.md, Reports.

use bson::{Bson, DateTime, Document, doc};
use validator::{Validate, ValidationError};

use super::rules::{broken, not_blank};
use super::schema::{Kind, Member, Schema, Unknown};
use super::{Violation, Violations};

/// The body of a report.
pub const REPORT: Schema = Schema {
    members: &[
        Member::optional("title", Kind::Text).or_null(),
        Member::required("pipeline", Kind::Stages),
        Member::optional("format", Kind::Text),
    ],
    unknown: Unknown::RefusedUnlessRead,
};

/// The forms of results; the first is the default.
pub const FORMATS: [&str; 3] = ["json", "csv", "xlsx"];
/// In characters, of a name and of a title.
pub const LONGEST_NAME: u64 = 256;

/// Rules for the values of a body.
#[derive(Validate)]
struct Rules<'a> {
    #[validate(
        length(max = "LONGEST_NAME", message = "must have 1 to 256 characters"),
        custom(function = not_blank, message = "must have 1 to 256 characters")
    )]
    title: Option<&'a str>,
    #[validate(custom(function = is_format))]
    format: Option<&'a str>,
}

fn is_format(format: &str) -> Result<(), ValidationError> {
    if FORMATS.contains(&format) {
        return Ok(());
    }
    Err(ValidationError::new("format").with_message(format!("must be one of {}", FORMATS.join(", ")).into()))
}

/// Checks a body, and gives it every default. Whether the pipeline can be run is not checked here.
///
/// # Errors
/// Everything that is wrong with the body, and a name that a report cannot have.
pub fn read(body: &Document, name: &str) -> Result<Document, Violations> {
    let mut accepted = REPORT.apply(body)?;
    let rules = Rules { title: accepted.get_str("title").ok(), format: accepted.get_str("format").ok() };
    let mut violations = broken(&rules, &["title", "format"]);
    if name.trim().is_empty() || name.chars().count() as u64 > LONGEST_NAME {
        violations.push(Violation::new("/name", "must have 1 to 256 characters; it is the last part of the path"));
    }
    violations.none()?;
    let format = rules.format.unwrap_or(FORMATS[0]).to_owned();
    let (title, pipeline) = (accepted.remove("title").unwrap_or(Bson::Null), accepted.remove("pipeline"));
    Ok(doc! { "name": name, "title": title, "format": format, "pipeline": pipeline })
}

/// The stored report: `of` and `owner_id` say whose it is.
pub fn stored(accepted: Document, id: i64, (of, owner_id): (&str, i64), (author_id, now): (i64, DateTime)) -> Document {
    let mut document = doc! { "public_id": id, "of": of, "owner_id": owner_id };
    document.extend(accepted);
    document.extend(doc! { "author_id": author_id, "last_edit_time": now });
    document
}
