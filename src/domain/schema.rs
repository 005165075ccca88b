//! Schemas of request bodies, and their application, which reports all violations at once.
//!
//! Each schema is in the file that reads the body; docs/api.md shows them as tables. Unknown members are dropped unless
//! the schema refuses them. Integers are JSON integers only: `true`, `"1"` and `1.0` are refused.

use std::cell::OnceCell;
use std::collections::HashSet;

use bson::{Bson, Document, doc};

use super::unique::FOLD;
use super::violation::{MOST, quoted};
use super::{Violation, Violations};
use crate::pointer;
use crate::suggest;

/// The members that a document may have.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Its members, in the order in which they are stored.
    pub members: &'static [Member],
    /// What happens to members that are not listed.
    pub unknown: Unknown,
}

/// A member that a body had and that was not stored.
#[derive(Debug, Clone)]
pub struct Dropped {
    /// Its place, as a JSON pointer.
    pub pointer: String,
    /// Its name.
    pub name: String,
    /// The members that are known there.
    pub members: &'static [Member],
}

/// What happens to members that a schema does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// They are refused.
    Refused,
    /// They are refused by [`Schema::unknown_members`], except for [`READ_ONLY`] and what the stored document has.
    RefusedUnlessRead,
    /// They are dropped. [`Schema::unknown_members`] refuses those that look like a misspelt member.
    Dropped,
}

/// Members that reads show and the service sets, and those of old clients: bodies may repeat them, and nothing uses them.
pub const READ_ONLY: [&str; 10] = [
    "public_id", "creation_time", "last_edit_time", "editor_id", "registration_time", "status", "clean_db", "access",
    "category_id", "views",
];

/// The members of rendered objects.
const RENDERED: [&str; 3] = ["current_render_time", "object_information", "type_information"];

/// One member of a document.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it must be there.
    pub required: bool,
    /// Whether it may be null.
    pub nullable: bool,
}

/// The maximum length of a field name in bytes: each index key of a field's value contains the name.
pub const LONGEST_FIELD_NAME: usize = 255;

/// What a member holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A whole number; stored as Int64.
    Integer,
    /// A string.
    Text,
    /// A string that is short enough for the name of a field, see [`LONGEST_FIELD_NAME`].
    FieldName,
    /// A string that is a name in kebab case, see [`is_kebab_case`].
    Name,
    /// One of these strings.
    Word(&'static [&'static str]),
    /// A string of three numbers, `1.0.0`.
    Version,
    /// `true` or `false`.
    Boolean,
    /// `true`, `false` or `fold`.
    BooleanOrFold,
    /// A moment: `{"$date": <milliseconds>}`, or any object.
    Moment,
    /// Anything that JSON can say.
    Any,
    /// A document with these members.
    Map(&'static Schema),
    /// A document with these members, or an empty one.
    EmptyOr(&'static Schema),
    /// A document with any members.
    OpenMap,
    /// A document with any members; those of the schema are not misspelt.
    OpenMapOf(&'static Schema),
    /// A list of these.
    List(&'static Kind),
    /// The stages of a pipeline, whatever they hold.
    Stages,
    /// A list of entries with a `name` and a `value`, or the same as a map from name to value; a list once it is accepted.
    Entries(&'static Schema),
}

impl Member {
    /// A member that may be missing.
    pub const fn optional(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: false, nullable: false }
    }

    /// A member that must be there.
    pub const fn required(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: true, nullable: false }
    }

    /// The same member, which may also be null.
    #[must_use]
    pub const fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }
}

impl Schema {
    /// Checks the body and returns its known members, integers as Int64.
    ///
    /// # Errors
    /// Every violation, in the order of the body's members.
    pub fn apply(&self, body: &Document) -> Result<Document, Violations> {
        let (accepted, violations) = self.check_all(body);
        if violations.is_empty() { Ok(accepted) } else { Err(violations) }
    }

    /// As [`Schema::apply`], but also returns the valid part of a wrong body, so that further rules can be checked. A
    /// refused value is null there.
    pub fn check_all(&self, body: &Document) -> (Document, Violations) {
        let mut violations = Violations::new();
        let accepted = self.check(body, &mut String::new(), &mut violations);
        (accepted, violations)
    }

    fn check(&self, body: &Document, pointer: &mut String, violations: &mut Violations) -> Document {
        let mut accepted = Document::new();
        for member in self.members {
            let length = pointer.len();
            pointer::push(pointer, member.name);
            match body.get(member.name) {
                None if member.required => violations.push(Violation::new(pointer.as_str(), absent(body, member.name))),
                None => {}
                Some(Bson::Null) if member.nullable => {
                    accepted.insert(member.name, Bson::Null);
                }
                Some(value) => {
                    accepted.insert(member.name, member.kind.check(value, pointer, violations));
                }
            }
            pointer.truncate(length);
        }
        if self.unknown == Unknown::Refused {
            self.refuse_unknown(body, pointer, violations);
        }
        accepted
    }

    /// Members of a client's body that the schema does not list and does not let pass, see [`Unknown`]. `stored` is the document
    /// that the body changes. Members that it has pass: at the top those of its top, deeper those that it has anywhere.
    pub fn unknown_members(&self, body: &Document, stored: Option<&Document>) -> Violations {
        let mut violations = Violations::new();
        self.find_unknown(body, &StoredNames::of(stored), &mut String::new(), &mut |schema, pointer, name, _| {
            if violations.count() < MOST {
                violations.extend(schema.stranger(name, pointer));
            }
        });
        violations
    }

    /// The places of members that were dropped without a message: those of a body that is stored as `stored`. Nulls do not
    /// count.
    pub fn dropped(&self, body: &Document, stored: &Document) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        self.find_unknown(
            body,
            &StoredNames::of(Some(stored)),
            &mut String::new(),
            &mut |schema, pointer, name, value| {
                if schema.unknown == Unknown::Dropped && *value != Bson::Null {
                    dropped.push(Dropped {
                        pointer: pointer.to_owned(),
                        name: name.to_owned(),
                        members: schema.members,
                    });
                }
            },
        );
        dropped
    }

    /// Calls `found` with each member that is not listed, and its schema. Those of `stored`, and read-only ones, pass.
    fn find_unknown(
        &self,
        body: &Document,
        stored: &StoredNames<'_>,
        pointer: &mut String,
        found: &mut impl FnMut(&Self, &str, &str, &Bson),
    ) {
        let length = pointer.len();
        for (name, value) in body {
            pointer::push(pointer, name);
            if let Some(member) = self.members.iter().find(|member| member.name == name) {
                member.kind.find_unknown(value, stored, pointer, found);
            } else if !READ_ONLY.contains(&name.as_str()) && !stored.contain(name, length == 0) {
                found(self, pointer, name, value);
            }
            pointer.truncate(length);
        }
    }

    /// The violation of a member that is not listed, unless it is accepted here.
    fn stranger(&self, name: &str, pointer: &str) -> Option<Violation> {
        match (self.unknown, self.meant(name)) {
            (Unknown::Refused, _) | (Unknown::Dropped, None) => None,
            (_, meant) => Some(Violation::new(pointer, self.unknown_here(name, meant))),
        }
    }

    /// The member of which this may be a misspelt name.
    fn meant(&self, name: &str) -> Option<&'static str> {
        let known: Vec<&'static str> = self.members.iter().map(|member| member.name).collect();
        suggest::misspelt(name, &known)
    }

    fn unknown_here(&self, name: &str, meant: Option<&str>) -> String {
        let mut names = self.members.iter().map(|member| member.name);
        let id = names.find(|known| known.strip_suffix("_id") == Some(name));
        if let Some(meant) = meant.or(id) {
            return format!("is unknown here; did you mean {meant}?");
        }
        let known: Vec<&str> = self.members.iter().map(|member| member.name).collect();
        let has_entries = self.members.iter().any(|member| matches!(member.kind, Kind::Entries(_)));
        if has_entries && RENDERED.contains(&name) {
            return "is of a rendered object; change and send what GET /rest/objects/{id}/native answers".to_owned();
        }
        let field = if has_entries { format!("; a field is sent as fields: {{{name:?}: ...}}") } else { String::new() };
        format!("is unknown here; known are {}{field}", known.join(", "))
    }

    fn refuse_unknown(&self, body: &Document, pointer: &str, violations: &mut Violations) {
        for name in body.keys().filter(|name| self.members.iter().all(|member| member.name != name.as_str())) {
            let mut place = pointer.to_owned();
            pointer::push(&mut place, name);
            violations.push(Violation::new(place, self.unknown_here(name, self.meant(name))));
        }
    }
}

/// The message about a missing member. The whole answer to a GET may have been sent back.
fn absent(body: &Document, name: &str) -> &'static str {
    match body.get_document("result") {
        Ok(result) if result.contains_key(name) => {
            "is required; it is under result, so send what is under result alone"
        }
        _ => "is required",
    }
}

/// The names of all members of a stored document, collected on first use.
struct StoredNames<'a> {
    document: Option<&'a Document>,
    names: OnceCell<HashSet<&'a str>>,
}

impl<'a> StoredNames<'a> {
    fn of(document: Option<&'a Document>) -> Self {
        Self { document, names: OnceCell::new() }
    }

    /// Whether the document has a member of this name: at the top, or at whatever depth.
    fn contain(&self, name: &str, at_top: bool) -> bool {
        if at_top {
            return self.document.is_some_and(|document| document.contains_key(name));
        }
        let collected = self.names.get_or_init(|| {
            let mut names = HashSet::new();
            if let Some(document) = self.document {
                collect_names(document, &mut names);
            }
            names
        });
        collected.contains(name)
    }
}

fn collect_names<'a>(document: &'a Document, names: &mut HashSet<&'a str>) {
    fn within<'a>(value: &'a Bson, names: &mut HashSet<&'a str>) {
        match value {
            Bson::Document(document) => collect_names(document, names),
            Bson::Array(items) => items.iter().for_each(|item| within(item, names)),
            _ => {}
        }
    }
    for (name, value) in document {
        names.insert(name);
        within(value, names);
    }
}

/// A client's body that `read` understood, unless it has members that the schema does not let pass.
///
/// # Errors
/// What `read` found, and [`Schema::unknown_members`].
pub fn without_unknown(
    schema: &Schema,
    body: &Document,
    stored: Option<&Document>,
    read: Result<Document, Violations>,
) -> Result<Document, Violations> {
    without(schema.unknown_members(body, stored), read)
}

/// What was read, unless there are these violations too.
///
/// # Errors
/// What `read` found, and these.
pub fn without(others: Violations, read: Result<Document, Violations>) -> Result<Document, Violations> {
    match read {
        read if others.is_empty() => read,
        Ok(_) => Err(others),
        Err(mut found) => {
            found.append(others);
            Err(found)
        }
    }
}

impl Schema {
    /// What to write in place of a name alone.
    fn named(&self, name: &str) -> String {
        let required: Vec<&str> = self.members.iter().filter(|it| it.required).map(|it| it.name).collect();
        if !required.contains(&"name") {
            return String::new();
        }
        let member = |member: &&str| {
            let value =
                if ["name", "label"].contains(member) { format!("{:?}", quoted(name)) } else { "...".to_owned() };
            format!("\"{member}\": {value}")
        };
        format!("; write {{{}}}", required.iter().map(member).collect::<Vec<_>>().join(", "))
    }
}

impl Kind {
    fn find_unknown(
        &self,
        value: &Bson,
        stored: &StoredNames<'_>,
        pointer: &mut String,
        found: &mut impl FnMut(&Schema, &str, &str, &Bson),
    ) {
        match (self, value) {
            (Self::Map(schema) | Self::EmptyOr(schema) | Self::OpenMapOf(schema), Bson::Document(body)) => {
                schema.find_unknown(body, stored, pointer, found);
            }
            (Self::List(Self::Map(schema)) | Self::Entries(schema), Bson::Array(items)) => {
                let length = pointer.len();
                for (index, item) in items.iter().enumerate() {
                    pointer::push(pointer, &index.to_string());
                    if let Bson::Document(body) = item {
                        schema.find_unknown(body, stored, pointer, found);
                    }
                    pointer.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn check(&self, value: &Bson, pointer: &mut String, violations: &mut Violations) -> Bson {
        let accepted = match (self, value) {
            (Self::Integer, Bson::Int32(number)) => Some(Bson::Int64(i64::from(*number))),
            (Self::Integer, Bson::Int64(_))
            | (Self::Text, Bson::String(_))
            | (Self::Boolean, Bson::Boolean(_))
            | (Self::Moment, Bson::DateTime(_) | Bson::Document(_)) => Some(value.clone()),
            (Self::BooleanOrFold, Bson::Boolean(_)) => Some(value.clone()),
            (Self::BooleanOrFold, Bson::String(word)) if word == FOLD => Some(value.clone()),
            (Self::FieldName, Bson::String(name)) if name.len() <= LONGEST_FIELD_NAME => Some(value.clone()),
            (Self::Name, Bson::String(name)) if is_kebab_case(name) => Some(value.clone()),
            (Self::Word(words), Bson::String(word)) if words.contains(&word.as_str()) => Some(value.clone()),
            (Self::Version, Bson::String(version)) if version_numbers(version).is_some() => Some(value.clone()),
            (Self::Any, _) | (Self::OpenMap | Self::OpenMapOf(_), Bson::Document(_)) => {
                refuse_foreign_values(value, pointer, violations);
                Some(value.clone())
            }
            (Self::EmptyOr(_), Bson::Document(body)) if body.is_empty() => Some(value.clone()),
            (Self::Stages, Bson::Array(_)) => Some(value.clone()),
            (Self::Map(schema) | Self::EmptyOr(schema), Bson::Document(body)) => {
                Some(schema.check(body, pointer, violations).into())
            }
            (Self::List(kind), Bson::Array(items)) => Some(check_items(kind, items, pointer, violations)),
            (Self::Entries(schema), Bson::Array(items)) => {
                Some(check_items(&Self::Map(schema), items, pointer, violations))
            }
            (Self::Entries(_), Bson::Document(map)) => Some(check_map(map, pointer, violations)),
            _ => None,
        };
        accepted.unwrap_or_else(|| {
            let meant = match (self, value) {
                (Self::Integer, Bson::String(text)) if text.parse::<i64>().is_ok() => {
                    format!("; write {text} without quotes")
                }
                (Self::Map(schema), Bson::String(text)) => schema.named(text),
                (Self::Word(words), _) => format!(" {}", words.join(", ")),
                _ => String::new(),
            };
            violations.push(Violation::new(pointer.as_str(), format!("must be {}{meant}", self.expectation())));
            Bson::Null
        })
    }

    /// The expected kind, for the message of a violation.
    fn expectation(&self) -> &'static str {
        match self {
            Self::Integer => "a whole number without a fraction",
            Self::Text => "a string",
            Self::FieldName => "a string of at most 255 bytes",
            Self::Name => "a name in kebab case: letters, digits, _ and -, at least two of them not -, the first not -",
            Self::Word(_) => "one of",
            Self::Version => "a version of three numbers, for instance 1.0.0",
            Self::Boolean => "true or false",
            Self::BooleanOrFold => "true, false or \"fold\"",
            Self::Moment => "a moment, {\"$date\": <milliseconds since 1970>}",
            Self::Any => "a JSON value",
            Self::Map(_) | Self::EmptyOr(_) | Self::OpenMap | Self::OpenMapOf(_) => "an object",
            Self::List(_) => "an array",
            Self::Stages => "an array of stages",
            Self::Entries(_) => "an array of names and values, or an object from name to value",
        }
    }
}

fn check_items(kind: &Kind, items: &[Bson], pointer: &mut String, violations: &mut Violations) -> Bson {
    let length = pointer.len();
    let mut accepted = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        pointer::push(pointer, &index.to_string());
        accepted.push(kind.check(item, pointer, violations));
        pointer.truncate(length);
    }
    Bson::Array(accepted)
}

/// The entries that a map from name to value represents.
fn check_map(map: &Document, pointer: &mut String, violations: &mut Violations) -> Bson {
    let length = pointer.len();
    let mut entries = Vec::with_capacity(map.len());
    for (name, value) in map {
        pointer::push(pointer, name);
        let name = Kind::FieldName.check(&Bson::String(name.clone()), pointer, violations);
        let value = Kind::Any.check(value, pointer, violations);
        entries.push(Bson::Document(doc! { "name": name, "value": value }));
        pointer.truncate(length);
    }
    Bson::Array(entries)
}

/// Refuses values that JSON cannot express: BSON types in Extended JSON, and `$` names, which would read back
/// differently.
pub fn refuse_foreign_values(value: &Bson, pointer: &mut String, violations: &mut Violations) {
    let length = pointer.len();
    match value {
        Bson::Document(document) => {
            for (name, member) in document {
                pointer::push(pointer, name);
                if name.starts_with('$') || name.contains('\0') {
                    violations.push(Violation::new(pointer.as_str(), "a member's name must not start with $"));
                }
                refuse_foreign_values(member, pointer, violations);
                pointer.truncate(length);
            }
        }
        Bson::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer::push(pointer, &index.to_string());
                refuse_foreign_values(item, pointer, violations);
                pointer.truncate(length);
            }
        }
        Bson::Double(number) if !number.is_finite() => {
            violations.push(Violation::new(pointer.as_str(), "must be a finite number"));
        }
        Bson::Null
        | Bson::Boolean(_)
        | Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Double(_)
        | Bson::String(_)
        | Bson::DateTime(_)
        | Bson::ObjectId(_)
        | Bson::Decimal128(_) => {}
        _ => violations.push(Violation::new(pointer.as_str(), "must be a JSON value or {\"$date\": ...}")),
    }
}

/// Whether the whole of `name` matches `(\w+)-*(\w)([\w-]*)`, `\w` being Unicode's:
/// word characters and hyphens, a word character first and at least two of them.
pub fn is_kebab_case(name: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    name.chars().next().is_some_and(is_word)
        && name.chars().all(|character| is_word(character) || character == '-')
        && name.chars().filter(|character| is_word(*character)).count() >= 2
}

/// The three numbers of a version, `1.0.0`.
pub fn version_numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split('.').map(|part| {
        let plain = !part.is_empty() && part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse::<u32>().ok()).flatten()
    });
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    const INNER: Schema = Schema { members: &[Member::required("a", Kind::Integer)], unknown: Unknown::Refused };
    const OUTER: Schema = Schema {
        members: &[
            Member::required("name", Kind::Name),
            Member::optional("list", Kind::List(&Kind::Map(&INNER))),
            Member::optional("note", Kind::Text).or_null(),
        ],
        unknown: Unknown::Dropped,
    };

    #[test]
    fn every_violation_is_reported_with_its_place() {
        let body = doc! {"name": "x", "list": [{"a": true}, {"b": 1}, 7], "note": 1, "other": 1};
        let violations = OUTER.apply(&body).expect_err("the body is wrong in several places");
        let places: Vec<&str> = violations.listed().iter().map(|violation| violation.pointer.as_str()).collect();
        assert_eq!(places, ["/name", "/list/0/a", "/list/1/a", "/list/1/b", "/list/2", "/note"]);
    }

    #[test]
    fn a_whole_answer_that_is_sent_back_is_told() {
        let violations = OUTER.apply(&doc! {"result": {"name": "ab"}}).expect_err("the name is at another place");
        assert!(violations.listed()[0].message.ends_with("send what is under result alone"));
        let violations = OUTER.apply(&doc! {"result": {}}).expect_err("there is no name");
        assert_eq!(violations.listed()[0].message, "is required");
    }

    #[test]
    fn unknown_members_are_dropped_and_integers_widened() {
        let body = doc! {"other": 1, "name": "ab", "list": [{"a": 1}], "note": null};
        let accepted = OUTER.apply(&body).expect("the body is right");
        assert_eq!(accepted, doc! {"name": "ab", "list": [{"a": 1_i64}], "note": null});
    }

    #[test]
    fn kebab_case_follows_the_pattern_of_the_interface() {
        for good in ["ab", "a-b", "a--b", "a1-", "Ünter-Typ", "a_b-c"] {
            assert!(is_kebab_case(good), "{good}");
        }
        for bad in ["", "a", "-ab", "a-", "a b", "a.b", "a--", "ab!"] {
            assert!(!is_kebab_case(bad), "{bad}");
        }
    }

    #[test]
    fn versions_have_three_plain_numbers() {
        assert_eq!(version_numbers("1.20.3"), Some([1, 20, 3]));
        for bad in ["1.0", "1.0.0.0", "1.0.x", "", "+1.0.0", "1..0", "9999999999.0.0"] {
            assert_eq!(version_numbers(bad), None, "{bad}");
        }
    }
}
