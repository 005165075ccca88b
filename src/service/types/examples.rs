//! Objects that are named as examples, with a value and a reason: a bounded number, with bounded texts.

use std::collections::HashSet;

use bson::Bson;
use bson::raw::RawBsonRef;

use crate::domain::migration_input::Step;
use crate::domain::object_fields::HIDDEN;
use crate::domain::object_type::{Field, ObjectType};
use crate::domain::violation::Violation;

/// How many objects are named in one place.
pub const MOST_NAMED: usize = 100;
/// How many characters of a text are shown, and how many bytes of a list or a document.
const LONGEST_TEXT: usize = 200;
const LONGEST_VALUE: usize = 512;

/// An object that does not fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Its id.
    pub public_id: i64,
    /// What it has there; null for nothing. The value of a password is hidden, and a long one is cut.
    pub value: Bson,
    /// Why the type does not take it.
    pub reason: String,
}

impl Example {
    /// Adds an example to a list that has room. Returns how many bytes it keeps.
    pub(super) fn keep(list: &mut Vec<Self>, public_id: i64, example: impl FnOnce() -> (Bson, String)) -> usize {
        if list.len() >= MOST_NAMED {
            return 0;
        }
        let (value, reason) = example();
        // Long reasons are clipped as those of bodies are.
        let reason = Violation::new("", reason).message;
        let bytes = size_of::<Self>() + reason.len() + LONGEST_VALUE;
        list.push(Self { public_id, value, reason });
        bytes
    }
}

/// A value as it is shown.
pub(super) fn shown(value: RawBsonRef<'_>, is_plain: bool) -> Bson {
    match value {
        RawBsonRef::Null => Bson::Null,
        _ if !is_plain => Bson::from(HIDDEN),
        RawBsonRef::String(text) if text.chars().nth(LONGEST_TEXT).is_some() => {
            Bson::from(format!("{}...", text.chars().take(LONGEST_TEXT).collect::<String>()))
        }
        RawBsonRef::Array(list) if list.as_bytes().len() > LONGEST_VALUE => Bson::from("a long list"),
        RawBsonRef::Document(document) if document.as_bytes().len() > LONGEST_VALUE => Bson::from("a large document"),
        RawBsonRef::Binary(_) => Bson::from("bytes"),
        value => Bson::try_from(value).unwrap_or(Bson::Null),
    }
}

/// The fields that hold no passwords, neither before a change nor after it. A field that a type does not have may have held some
/// at an earlier time.
pub(super) fn plain_fields(was: &ObjectType, now: &ObjectType) -> HashSet<String> {
    let is_secret = |name: &str| now.field(name).is_some_and(Field::is_password);
    was.plain_fields().filter(|name| !is_secret(name)).map(str::to_owned).collect()
}

/// What a step means for the fields whose values are shown: one that another gives its values to is shown if both are.
pub(super) fn follow(plain: &mut HashSet<String>, step: &Step, now: &ObjectType) {
    if let Step::Rename { from, to } = step {
        let is_secret = now.field(to).is_some_and(Field::is_password);
        if plain.contains(from) && !is_secret {
            plain.insert(to.clone());
        } else {
            plain.remove(to);
        }
    }
}
