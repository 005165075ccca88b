//! What users are called in views.

use bson::raw::RawDocument;

use super::RenderCatalog;
use crate::raw::{CorruptBson, Elements};

const UNKNOWN: &str = "unknown";

/// First and last name when both are set, else the user name, else `unknown`.
///
/// # Errors
/// When the stored user is not BSON.
pub fn display_name(user: &RawDocument) -> Result<String, CorruptBson> {
    let (mut first, mut last, mut login) = (None, None, None);
    let mut elements = Elements::of(user);
    while let Some(element) = elements.next_element()? {
        let place = match element.name {
            b"first_name" => &mut first,
            b"last_name" => &mut last,
            b"user_name" => &mut login,
            _ => continue,
        };
        *place = element.value.as_str().filter(|name| !name.trim().is_empty());
    }
    Ok(match (first, last) {
        (Some(first), Some(last)) => format!("{first} {last}"),
        _ => login.unwrap_or(UNKNOWN).to_owned(),
    })
}

/// The name of a user who may not exist.
pub(super) fn name_of<C: RenderCatalog + ?Sized>(id: Option<i64>, catalog: &C) -> &str {
    id.and_then(|id| catalog.user_name(id)).unwrap_or(UNKNOWN)
}
