//! Plain data and its rules: checks of bodies, and the stored documents that result.
//!
//! Nothing here knows stores or requests. A stored document keeps members of other tools.

pub mod acl;
pub mod category_input;
pub mod conversion;
pub mod document;
pub mod group;
pub mod group_input;
pub mod link_template;
pub mod migration_input;
pub mod object_fields;
pub mod object_input;
pub mod object_member;
pub mod object_type;
pub mod on_delete;
pub mod references;
pub mod report_input;
pub mod revert_input;
pub mod rules;
pub mod schema;
pub mod searchable;
pub mod setting_input;
pub mod stored;
pub mod token_input;
pub mod type_changes;
pub mod type_indexes;
pub mod type_input;
pub mod type_migration;
pub mod unchanged;
pub mod unique;
pub mod user;
pub mod user_input;
pub mod violation;
pub mod webhook_input;
pub mod words;

use bson::{Bson, DateTime, Document, doc};

pub use self::violation::{Violation, Violations};

/// The `version` of what is created without one.
pub const DEFAULT_VERSION: &str = "1.0.0";

/// A name as a label: each run of letters begins with a capital and continues in small letters.
pub fn title_case(name: &str) -> String {
    let mut label = String::with_capacity(name.len());
    let mut inside = false;
    for character in name.chars() {
        if inside {
            label.extend(character.to_lowercase());
        } else {
            label.extend(character.to_uppercase());
        }
        inside = character.is_alphabetic();
    }
    label
}

/// Puts `value` where the member is missing.
fn default_to(document: &mut Document, name: &str, value: impl Into<Bson>) {
    if !document.contains_key(name) {
        document.insert(name, value);
    }
}

/// The stored document of a new type or category.
pub fn created(mut accepted: Document, public_id: i64, now: DateTime) -> Document {
    accepted.remove("public_id");
    let mut document = doc! {"public_id": public_id};
    document.extend(accepted);
    document.insert("creation_time", now);
    document.insert("last_edit_time", Bson::Null);
    document
}

/// The stored document after an update. It keeps ids, creation time, and members that are not in `known`, which other
/// tools wrote.
fn updated(mut accepted: Document, stored: &Document, known: &[&str], now: DateTime) -> Document {
    accepted.remove("public_id");
    let mut document = Document::new();
    for name in ["_id", "public_id"] {
        document.extend(stored.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    document.extend(accepted);
    document.insert("creation_time", stored.get("creation_time").cloned().unwrap_or(Bson::Null));
    document.insert("last_edit_time", now);
    keep_foreign(&mut document, stored, known);
    document
}

/// The stored document if the updated one differs from it in nothing but these notes of the change.
fn kept_if_same(updated: Document, stored: &Document, notes: &[&str]) -> Document {
    let mut names = stored.keys().chain(updated.keys()).filter(|name| !notes.contains(&name.as_str()));
    if names.all(|name| stored.get(name) == updated.get(name)) { stored.clone() } else { updated }
}

fn keep_foreign(document: &mut Document, stored: &Document, known: &[&str]) {
    for (name, value) in stored {
        if !known.contains(&name.as_str()) && !document.contains_key(name) {
            document.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_case_capitalises_each_run_of_letters() {
        assert_eq!(title_case("data-center_RACK2b"), "Data-Center_Rack2B");
        assert_eq!(title_case("ünter"), "Ünter");
        assert_eq!(title_case(""), "");
    }
}
