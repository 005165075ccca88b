//! The body of an object (docs/api.md, Objects) and the stored document made from it.

use bson::{Bson, DateTime, Document, doc};

use super::object_fields::{FieldValue, Reference};
use super::object_member::{BODY, NAMES};
use super::schema::{Kind, Member, Schema, Unknown, version_numbers};
use super::unchanged::accepted_again;
use super::{DEFAULT_VERSION, Violation, Violations, keep_foreign, kept_if_same};
use crate::pointer;

/// The body of an object.
pub const OBJECT: Schema = Schema { members: &BODY, unknown: Unknown::RefusedUnlessRead };

/// Members of a body that objects do not have, see [`Schema::unknown_members`]. A field of the object's type that is outside
/// of `fields` is reported as such, whatever member has a similar name.
pub fn unknown_members(body: &Document, stored: Option<&Document>, is_field: impl Fn(&str) -> bool) -> Violations {
    let fields = || body.keys().filter(|name| is_field(name));
    OBJECT.unknown_members(body, stored).map(|violation| {
        let stray = fields().find(|name| violation.pointer.strip_prefix('/') == Some(&pointer::escaped(name)));
        match stray {
            Some(name) => {
                let message = format!("is unknown here; a field is sent as fields: {{{name:?}: ...}}");
                Violation::new(violation.pointer, message)
            }
            None => violation,
        }
    })
}

/// The body that says whether an object is active.
pub const STATE: Schema =
    Schema { members: &[Member::required("active", Kind::Boolean)], unknown: Unknown::RefusedUnlessRead };

/// A body that keeps the schema.
#[derive(Debug, Clone)]
pub struct ObjectInput {
    /// The id that the client wants.
    pub public_id: Option<i64>,
    /// The type; required for a new object. One that is written as a text is used too, in addition to the violation.
    pub type_id: Option<i64>,
    /// Kept as it comes; nothing depends on it.
    pub status: Option<bool>,
    /// Three numbers.
    pub version: Option<String>,
    /// The user who made the object.
    pub author_id: i64,
    /// Whether the object is in use.
    pub active: Option<bool>,
    /// The fields, in the body's order.
    pub fields: Vec<FieldValue>,
    /// Whether the body has them as a map from name to value.
    is_map: bool,
    /// A counter of the client's.
    pub views: Option<i64>,
}

impl ObjectInput {
    /// Checks a body against the schema; returns the readable part and all violations.
    pub fn read(body: &Document) -> (Self, Violations) {
        let (accepted, violations) = OBJECT.check_all(body);
        (Self::of(&accepted, body), violations)
    }

    /// As [`ObjectInput::read`]; what is as in the stored object is accepted again.
    pub fn read_again(body: &Document, stored: &Document) -> (Self, Violations) {
        let (mut accepted, violations) = OBJECT.check_all(body);
        let violations = accepted_again(&mut accepted, body, stored, violations);
        (Self::of(&accepted, body), violations)
    }

    fn of(accepted: &Document, body: &Document) -> Self {
        Self {
            public_id: accepted.get_i64("public_id").ok(),
            type_id: accepted.get_i64("type_id").ok().or_else(|| body.get_str("type_id").ok()?.parse().ok()),
            status: accepted.get_bool("status").ok(),
            version: accepted.get_str("version").ok().map(str::to_owned),
            author_id: accepted.get_i64("author_id").unwrap_or_default(),
            active: accepted.get_bool("active").ok(),
            fields: read_fields(accepted.get("fields")),
            is_map: matches!(body.get("fields"), Some(Bson::Document(_))),
            views: accepted.get_i64("views").ok(),
        }
    }

    /// The violations of [`FieldRules`](super::object_fields::FieldRules) at their places in the body.
    #[must_use]
    pub fn placed(&self, violations: Violations) -> Violations {
        if !self.is_map {
            return violations;
        }
        violations.map(|violation| match self.place(&violation.pointer) {
            Some(pointer) => Violation::new(pointer, violation.message),
            None => violation,
        })
    }

    /// The references that [`FieldRules`](super::object_fields::FieldRules) found, at their places in the body. Violations
    /// of them have these places and must not be [`placed`](Self::placed) again.
    #[must_use]
    pub fn placed_references(&self, mut references: Vec<Reference>) -> Vec<Reference> {
        for reference in references.iter_mut().filter(|_| self.is_map) {
            if let Some(pointer) = self.place(&reference.pointer) {
                reference.pointer = pointer;
            }
        }
        references
    }

    /// Where the map has the field at a position in the list.
    fn place(&self, pointer: &str) -> Option<String> {
        let mut steps = pointer.strip_prefix("/fields/")?.split('/');
        let field = steps.next()?.parse().ok().and_then(|position: usize| self.fields.get(position))?;
        let mut pointer = "/fields".to_owned();
        pointer::push(&mut pointer, &field.name);
        // What follows the name or the value of an entry is a place in the value.
        steps.skip(1).for_each(|step| pointer::push(&mut pointer, step));
        Some(pointer)
    }

    /// Where the body has the value of a field.
    #[must_use]
    pub fn place_of(&self, field: &str) -> String {
        match self.fields.iter().position(|entry| entry.name == field) {
            None => "/fields".to_owned(),
            Some(position) => {
                let pointer = format!("/fields/{position}/value");
                if self.is_map { self.place(&pointer).unwrap_or(pointer) } else { pointer }
            }
        }
    }

    /// The stored document of a new object.
    pub fn created(&self, public_id: i64, type_id: i64, fields: &[FieldValue], now: DateTime) -> Document {
        doc! {
            "public_id": public_id,
            "type_id": type_id,
            "status": self.status.unwrap_or(true),
            "version": self.version.as_deref().unwrap_or(DEFAULT_VERSION),
            "author_id": self.author_id,
            "creation_time": now,
            "last_edit_time": null,
            "active": self.active.unwrap_or(true),
            "fields": write_fields(fields),
            "editor_id": null,
            "views": self.views.unwrap_or(0),
        }
    }

    /// The stored document after an update by `editor`; ids, author, creation time, views and foreign members stay.
    pub fn updated(&self, stored: &Document, fields: &[FieldValue], editor: i64, now: DateTime) -> Document {
        let kept = |name: &str, default: Bson| stored.get(name).cloned().unwrap_or(default);
        let mut document = Document::new();
        document.extend(stored.get("_id").map(|id| ("_id".to_owned(), id.clone())));
        document.extend(doc! {
            "public_id": kept("public_id", Bson::Null),
            "type_id": kept("type_id", Bson::Null),
            "status": self.status.map_or_else(|| kept("status", true.into()), Bson::Boolean),
            "version": self.next_version(stored, fields),
            "author_id": kept("author_id", editor.into()),
            "creation_time": kept("creation_time", Bson::Null),
            "last_edit_time": now,
            "active": self.active.map_or_else(|| kept("active", true.into()), Bson::Boolean),
            "fields": write_fields(fields),
            "editor_id": editor,
            "views": kept("views", Bson::Int64(0)),
        });
        keep_foreign(&mut document, stored, &NAMES);
        kept_if_same(document, stored, &["last_edit_time", "editor_id"])
    }

    /// The body's version if it differs from the stored one, else the stored one, increased by the amount of change:
    /// docs/api.md, Versions.
    fn next_version(&self, stored: &Document, fields: &[FieldValue]) -> String {
        let current = stored.get_str("version").unwrap_or(DEFAULT_VERSION);
        if let Some(version) = self.version.as_deref().filter(|version| *version != current) {
            return version.to_owned();
        }
        let differs =
            |name: &str, sent: Option<bool>| sent.is_some_and(|sent| stored.get_bool(name).ok() != Some(sent));
        counted_on(stored, fields, differs("active", self.active) || differs("status", self.status))
    }
}

/// The version of a stored object after its fields became `fields`; `beside` says whether anything else changed.
pub fn counted_on(stored: &Document, fields: &[FieldValue], beside: bool) -> String {
    let current = stored.get_str("version").unwrap_or(DEFAULT_VERSION);
    let before = read_fields(stored.get("fields"));
    let changed = fields.iter().filter(|field| !before.contains(field)).count();
    let removed = before.iter().filter(|old| fields.iter().all(|field| field.name != old.name)).count();
    bumped(current, changed + removed, fields.len(), beside)
}

/// The body of a PUT with the effect of a merge patch (RFC 7396). A PUT keeps missing members, so only cleared members
/// must be explicit.
pub fn patched(mut patch: Document, stored: &Document) -> Document {
    let defaults = [("active", Bson::Boolean(true)), ("status", Bson::Boolean(true))];
    for (name, default) in defaults {
        if patch.get(name) == Some(&Bson::Null) {
            patch.insert(name, default);
        }
    }
    for name in ["public_id", "type_id", "version", "views", "fields"] {
        if patch.get(name) == Some(&Bson::Null) {
            patch.remove(name);
        }
    }
    if !patch.contains_key("author_id") {
        patch
            .insert("author_id", stored.get("author_id").filter(|id| id.as_i64().is_some()).unwrap_or(&Bson::Int64(0)));
    }
    patch
}

/// The entries of a stored `fields` member, without malformed ones.
pub fn read_fields(fields: Option<&Bson>) -> Vec<FieldValue> {
    let entries = fields.and_then(Bson::as_array).into_iter().flatten().filter_map(Bson::as_document);
    entries
        .filter_map(|entry| {
            let name = entry.get_str("name").ok()?.to_owned();
            Some(FieldValue { name, value: entry.get("value").cloned().unwrap_or(Bson::Null) })
        })
        .collect()
}

/// The `fields` member as it is stored.
pub fn write_fields(fields: &[FieldValue]) -> Bson {
    let entries = fields.iter().map(|field| doc! {"name": field.name.as_str(), "value": field.value.clone()});
    Bson::Array(entries.map(Bson::Document).collect())
}

fn bumped(current: &str, changed: usize, total: usize, beside: bool) -> String {
    let Some([major, minor, patch]) = version_numbers(current) else { return current.to_owned() };
    match changed {
        0 if !beside => current.to_owned(),
        _ if changed > 1 && changed >= total => format!("{}.0.0", major + 1),
        _ if changed * 2 > total && total > 1 => format!("{major}.{}.0", minor + 1),
        _ => format!("{major}.{minor}.{}", patch + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_move_by_how_much_changed() {
        assert_eq!(bumped("1.2.3", 0, 4, false), "1.2.3");
        assert_eq!(bumped("1.2.3", 0, 4, true), "1.2.4");
        assert_eq!(bumped("1.2.3", 1, 4, false), "1.2.4");
        assert_eq!(bumped("1.2.3", 2, 4, false), "1.2.4");
        assert_eq!(bumped("1.2.3", 3, 4, false), "1.3.0");
        assert_eq!(bumped("1.2.3", 4, 4, false), "2.0.0");
        assert_eq!(bumped("1.2.3", 1, 1, false), "1.2.4");
        assert_eq!(bumped("by hand", 1, 1, false), "by hand");
    }

    #[test]
    fn an_object_needs_an_author_and_whole_field_entries() {
        let body = doc! {"type_id": 1, "version": "1.0", "fields": [{"name": "a"}, {"value": 1}]};
        let violations = ObjectInput::read(&body).1;
        let places: Vec<&str> = violations.listed().iter().map(|violation| violation.pointer.as_str()).collect();
        assert_eq!(places, ["/version", "/author_id", "/fields/0/value", "/fields/1/name"]);
    }

    #[test]
    fn the_name_of_a_field_has_at_most_255_bytes() {
        let body = doc! {"author_id": 1, "fields": [{"name": "é".repeat(127), "value": 1}, {"name": "é".repeat(128), "value": 1}]};
        let violations = ObjectInput::read(&body).1;
        let expected = super::super::Violation::new("/fields/1/name", "must be a string of at most 255 bytes");
        assert_eq!(violations.listed(), [expected]);
    }

    #[test]
    fn a_value_that_json_cannot_say_is_refused() {
        let body = doc! {"author_id": 1, "fields": [{"name": "a", "value": {"$gt": [Bson::MaxKey]}}]};
        let violations = ObjectInput::read(&body).1;
        let places: Vec<&str> = violations.listed().iter().map(|violation| violation.pointer.as_str()).collect();
        assert_eq!(places, ["/fields/0/value/$gt", "/fields/0/value/$gt/0"]);
    }

    #[test]
    fn an_update_keeps_what_is_not_the_clients_to_change() {
        let (then, now) = (DateTime::from_millis(1), DateTime::from_millis(2));
        let stored = doc! {
            "_id": 1, "public_id": 9_i64, "type_id": 3_i64, "author_id": 4_i64, "creation_time": then, "views": 7_i64,
            "version": "1.0.0", "active": true, "status": true, "fields": [], "note": "by hand",
        };
        let (input, violations) = ObjectInput::read(&doc! {"author_id": 5, "views": 0, "active": false});
        assert!(violations.is_empty());
        let document = input.updated(&stored, &[], 6, now);
        let expected = doc! {
            "_id": 1, "public_id": 9_i64, "type_id": 3_i64, "status": true, "version": "1.0.1", "author_id": 4_i64,
            "creation_time": then, "last_edit_time": now, "active": false, "fields": [], "editor_id": 6_i64,
            "views": 7_i64, "note": "by hand",
        };
        assert_eq!(document, expected);
    }
}
