//! What a stored document must be, so that the service shows all of it. Reading is tolerant, because other tools write
//! documents too; these rules name what reading passes over.

use std::collections::HashSet;
use std::sync::LazyLock;

use bson::raw::RawDocument;
use bson::{Bson, Document};

use super::document::number;
use super::object_fields::ValueKind;
use super::object_member::MEMBERS;

/// The problems of one document that are named; the others are counted.
const MOST_PROBLEMS: usize = 10;

/// What a stored document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// An object.
    Object,
    /// A type of objects.
    Type,
    /// A category of types.
    Category,
    /// A user.
    User,
    /// A group of users.
    Group,
    /// A setting of a user.
    Setting,
    /// What a user signs in with.
    Credential,
    /// The token of a machine.
    Token,
}

/// What a member holds. Null counts as absent.
#[derive(Debug, Clone, Copy)]
enum Holds {
    Integer,
    Text,
    Flag,
    Moment,
    Map(&'static [Rule]),
    List(&'static Holds),
    /// A list of documents with different names.
    Named(&'static [Rule]),
    /// A list of whole numbers, or a single one.
    Integers,
}

/// A member, and whether it must be there.
#[derive(Debug, Clone, Copy)]
struct Rule {
    name: &'static str,
    holds: Holds,
    required: bool,
}

const fn must(name: &'static str, holds: Holds) -> Rule {
    Rule { name, holds, required: true }
}

const fn may(name: &'static str, holds: Holds) -> Rule {
    Rule { name, holds, required: false }
}

/// The members that rendered objects show.
static OBJECT: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let shown = MEMBERS.iter().filter(|member| member.rendered.is_some() && member.name != "public_id");
    let rules = shown.map(|member| Rule {
        name: member.name,
        required: member.name == "type_id",
        holds: match member.kind {
            ValueKind::Checkbox => Holds::Flag,
            ValueKind::Date => Holds::Moment,
            ValueKind::Text => Holds::Text,
            _ => Holds::Integer,
        },
    });
    rules.chain([may("fields", Holds::Named(&[]))]).collect()
});

const FIELD: &[Rule] = &[
    may("type", Holds::Text),
    may("label", Holds::Text),
    may("required", Holds::Flag),
    may("regex", Holds::Text),
    may("options", Holds::List(&Holds::Map(&[must("name", Holds::Text)]))),
    may("ref_types", Holds::Integers),
    may("summaries", Holds::List(&Holds::Map(&[must("type_id", Holds::Integer)]))),
];

const TEXTS: Holds = Holds::List(&Holds::Text);

const SECTION: &[Rule] =
    &[may("type", Holds::Text), may("name", Holds::Text), may("label", Holds::Text), may("fields", TEXTS)];

const EXTERNAL: &[Rule] =
    &[may("name", Holds::Text), may("href", Holds::Text), may("label", Holds::Text), may("fields", TEXTS)];

const RENDER_META: &[Rule] = &[
    may("icon", Holds::Text),
    may("sections", Holds::List(&Holds::Map(SECTION))),
    may("externals", Holds::List(&Holds::Map(EXTERNAL))),
    may("summary", Holds::Map(&[may("fields", TEXTS)])),
];

const TYPE: &[Rule] = &[
    must("name", Holds::Text),
    may("label", Holds::Text),
    may("description", Holds::Text),
    may("active", Holds::Flag),
    may("version", Holds::Text),
    may("author_id", Holds::Integer),
    may("creation_time", Holds::Moment),
    may("fields", Holds::Named(FIELD)),
    may("indexes", Holds::List(&TEXTS)),
    may("render_meta", Holds::Map(RENDER_META)),
    may("acl", Holds::Map(&[])),
];

const CATEGORY: &[Rule] = &[
    must("name", Holds::Text),
    may("label", Holds::Text),
    may("parent", Holds::Integer),
    may("types", Holds::List(&Holds::Integer)),
    may("meta", Holds::Map(&[may("order", Holds::Integer), may("icon", Holds::Text)])),
];

const USER: &[Rule] = &[
    must("user_name", Holds::Text),
    must("group_id", Holds::Integer),
    may("active", Holds::Flag),
    may("registration_time", Holds::Moment),
    may("email", Holds::Text),
    may("first_name", Holds::Text),
    may("last_name", Holds::Text),
];

const GROUP: &[Rule] = &[must("name", Holds::Text), may("label", Holds::Text), may("rights", TEXTS)];

const SETTING: &[Rule] = &[must("user_id", Holds::Integer), must("identifier", Holds::Text)];

const CREDENTIAL: &[Rule] =
    &[must("user_id", Holds::Integer), must("epoch", Holds::Integer), must("login", Holds::Text)];

const TOKEN: &[Rule] = &[
    must("user_id", Holds::Integer),
    must("name", Holds::Text),
    must("hash", Holds::Text),
    must("expires_at", Holds::Moment),
];

impl Stored {
    /// Whether others refer to such a document by its `public_id`.
    pub fn has_public_id(self) -> bool {
        !matches!(self, Self::Setting | Self::Credential)
    }

    fn rules(self) -> &'static [Rule] {
        match self {
            Self::Object => &OBJECT,
            Self::Type => TYPE,
            Self::Category => CATEGORY,
            Self::User => USER,
            Self::Group => GROUP,
            Self::Setting => SETTING,
            Self::Credential => CREDENTIAL,
            Self::Token => TOKEN,
        }
    }

    /// What is wrong with the document, each in a few words without the values of its members.
    pub fn problems(self, document: &RawDocument) -> Vec<String> {
        let document = match Document::try_from(document) {
            Ok(document) => document,
            Err(error) => return vec![format!("cannot be read: {error}")],
        };
        let mut problems = Problems::default();
        if self.has_public_id() {
            match present(&document, "public_id") {
                None => problems.add("public_id is missing".to_owned()),
                Some(value) if number(value).is_none_or(|id| id < 1) => {
                    problems.add("public_id must be a whole number from 1".to_owned());
                }
                Some(_) => {}
            }
        }
        members(&document, self.rules(), "", &mut problems);
        problems.named()
    }
}

#[derive(Default)]
struct Problems {
    listed: Vec<String>,
    others: usize,
}

impl Problems {
    fn add(&mut self, problem: String) {
        if self.listed.len() < MOST_PROBLEMS { self.listed.push(problem) } else { self.others += 1 }
    }

    fn named(mut self) -> Vec<String> {
        if self.others > 0 {
            self.listed.push(format!("and {} more", self.others));
        }
        self.listed
    }
}

fn members(document: &Document, rules: &[Rule], place: &str, problems: &mut Problems) {
    for rule in rules {
        match present(document, rule.name) {
            Some(value) => check(value, rule.holds, &format!("{place}{}", rule.name), problems),
            None if rule.required => problems.add(format!("{place}{} is missing", rule.name)),
            None => {}
        }
    }
}

fn check(value: &Bson, holds: Holds, place: &str, problems: &mut Problems) {
    match (holds, value) {
        (Holds::Integer | Holds::Integers, value) if number(value).is_some() => {}
        (Holds::Text, Bson::String(_)) | (Holds::Flag, Bson::Boolean(_)) | (Holds::Moment, Bson::DateTime(_)) => {}
        (Holds::Map(rules), Bson::Document(document)) => members(document, rules, &format!("{place}."), problems),
        (Holds::List(holds), Bson::Array(items)) => {
            for (position, item) in items.iter().enumerate() {
                check(item, *holds, &format!("{place}.{position}"), problems);
            }
        }
        (Holds::Integers, Bson::Array(items)) => {
            check(&Bson::Array(items.clone()), Holds::List(&Holds::Integer), place, problems);
        }
        (Holds::Named(rules), Bson::Array(items)) => named(items, rules, place, problems),
        _ => problems.add(format!("{place} must be {}", holds.expectation())),
    }
}

fn named(items: &[Bson], rules: &[Rule], place: &str, problems: &mut Problems) {
    let mut names = HashSet::new();
    for (position, item) in items.iter().enumerate() {
        let Bson::Document(entry) = item else {
            problems.add(format!("{place}.{position} must be a document"));
            continue;
        };
        match entry.get("name") {
            Some(Bson::String(name)) if names.insert(name) => {}
            Some(Bson::String(_)) => problems.add(format!("{place}.{position} has the name of an earlier entry")),
            Some(_) => problems.add(format!("{place}.{position}.name must be a text")),
            None => problems.add(format!("{place}.{position}.name is missing")),
        }
        members(entry, rules, &format!("{place}.{position}."), problems);
    }
}

impl Holds {
    fn expectation(self) -> &'static str {
        match self {
            Self::Integer => "a whole number",
            Self::Text => "a text",
            Self::Flag => "true or false",
            Self::Moment => "a date",
            Self::Map(_) => "a document",
            Self::List(_) | Self::Named(_) => "an array",
            Self::Integers => "an array of whole numbers",
        }
    }
}

/// The member, unless it is null.
fn present<'a>(document: &'a Document, name: &str) -> Option<&'a Bson> {
    document.get(name).filter(|value| !matches!(value, Bson::Null))
}

#[cfg(test)]
mod tests {
    use bson::{doc, oid::ObjectId};
    use chrono::DateTime;

    use super::super::document::raw;
    use super::super::group::built_in;
    use super::super::user::User;
    use super::*;

    fn of(stored: Stored, document: &Document) -> Vec<String> {
        stored.problems(&raw(document))
    }

    #[test]
    fn what_the_service_stores_has_no_problem() {
        let entry = doc! {"name": "a", "value": [1]};
        let object = doc! {"_id": ObjectId::new(), "public_id": 1.0, "type_id": 2, "fields": [entry], "active": true,
        "version": "1.0.0", "last_edit_time": Bson::Null, "editor_id": Bson::Null, "foreign": "kept"};
        assert!(of(Stored::Object, &object).is_empty());
        assert!(built_in().iter().all(|group| of(Stored::Group, &group.to_document()).is_empty()));
        let user = User::new(1, "ada", 2, DateTime::UNIX_EPOCH);
        assert!(of(Stored::User, &user.to_document()).is_empty());
        let field = doc! {"name": "rack", "type": "ref", "ref_types": 9};
        assert!(of(Stored::Type, &doc! {"public_id": 3, "name": "server", "fields": [field]}).is_empty());
    }

    #[test]
    fn a_public_id_is_a_whole_number_from_1() {
        let category = |id: Bson| of(Stored::Category, &doc! {"public_id": id, "name": "racks"});
        assert_eq!(category(Bson::Null), ["public_id is missing"]);
        for id in [Bson::from(0), (-1_i64).into(), 1.5.into(), "7".into()] {
            assert_eq!(category(id), ["public_id must be a whole number from 1"]);
        }
        assert!(of(Stored::Setting, &doc! {"user_id": 1, "identifier": "theme"}).is_empty());
    }

    #[test]
    fn members_of_a_wrong_kind_are_named_with_their_place() {
        let entries = vec![Bson::from(doc! {"name": "a"}), 5.into(), doc! {"value": 1}.into(), doc! {"name": 1}.into()];
        let object = doc! {"public_id": 1, "type_id": "x", "fields": entries, "active": "yes", "creation_time": "now"};
        assert_eq!(
            of(Stored::Object, &object),
            [
                "active must be true or false", "type_id must be a whole number", "creation_time must be a date",
                "fields.1 must be a document", "fields.2.name is missing", "fields.3.name must be a text",
            ]
        );
        let twice = doc! {"public_id": 1, "type_id": 1, "fields": [{"name": "a"}, {"name": "a"}]};
        assert_eq!(of(Stored::Object, &twice), ["fields.1 has the name of an earlier entry"]);
        assert_eq!(of(Stored::Object, &doc! {"public_id": 1, "fields": {"a": 1}}).len(), 2);
        let object_type = doc! {"public_id": 1, "name": "a", "render_meta": {"sections": [{"name": "s", "fields": [1]}]},
        "fields": [{"name": "rack", "ref_types": [1, "2"]}]};
        assert_eq!(
            of(Stored::Type, &object_type),
            ["fields.0.ref_types.1 must be a whole number", "render_meta.sections.0.fields.0 must be a text"]
        );
        assert_eq!(of(Stored::User, &doc! {"public_id": 1}), ["user_name is missing", "group_id is missing"]);
    }

    #[test]
    fn a_document_that_is_wrong_in_many_places_is_told_in_few_words() {
        let problems = of(Stored::Object, &doc! {"public_id": 1, "type_id": 1, "fields": vec![Bson::from(1); 1000]});
        assert_eq!(problems.len(), MOST_PROBLEMS + 1);
        assert_eq!(problems.last().map(String::as_str), Some("and 990 more"));
    }

    #[test]
    fn bytes_that_are_no_document_are_a_problem_too() {
        let mut bytes = raw(&doc! {"public_id": 1}).into_bytes();
        bytes[4] = 0x55;
        let damaged = RawDocument::from_bytes(&bytes).expect("only its lengths are checked");
        let problems = Stored::Object.problems(damaged);
        assert!(problems.len() == 1 && problems[0].starts_with("cannot be read: "), "{problems:?}");
    }
}
