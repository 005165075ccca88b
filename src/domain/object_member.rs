//! What objects have in addition to their fields, in one table: bodies, columns of tables, `check --deep`, hints and the
//! names in rendered views come from it.

use std::hash::{Hash, Hasher};

use super::object_fields::ValueKind;
use super::schema::{Kind, Member, Schema, Unknown};

/// A member of objects.
#[derive(Debug)]
pub struct ObjectMember {
    /// Its name in stored objects.
    pub name: &'static str,
    /// What it holds.
    pub kind: ValueKind,
    /// How bodies have it; the service alone sets what they do not have.
    body: Option<Member>,
    /// Whether a line of an import sets it.
    pub is_imported: bool,
    /// Whether an export has its column unasked.
    pub is_exported: bool,
    /// Where rendered objects have it. What they show must be of its kind, see [`super::stored`].
    pub rendered: Option<&'static str>,
}

const FIELD: Schema = Schema {
    members: &[Member::required("name", Kind::FieldName), Member::required("value", Kind::Any).or_null()],
    unknown: Unknown::Dropped,
};

const LENGTH: usize = 10;
/// How many of them bodies have.
const IN_BODIES: usize = 9;

/// All of them, in the order of columns. `fields` and the store's `_id` are not here.
pub static MEMBERS: [ObjectMember; LENGTH] = TABLE;

/// The names of all members that an object may have; other members came from other tools.
pub const NAMES: [&str; LENGTH + 2] = names();

/// The members of bodies.
pub const BODY: [Member; IN_BODIES + 1] = bodies();

const TABLE: [ObjectMember; LENGTH] = [
    ObjectMember {
        is_exported: true,
        ..ObjectMember::new("public_id", ValueKind::Number, Some(Kind::Integer)).shown("object_information.object_id")
    },
    ObjectMember {
        is_exported: true,
        ..ObjectMember::new("active", ValueKind::Checkbox, Some(Kind::Boolean))
            .imported()
            .shown("object_information.active")
    },
    ObjectMember::new("type_id", ValueKind::Number, Some(Kind::Integer)).shown("type_information.type_id"),
    ObjectMember::new("status", ValueKind::Checkbox, Some(Kind::Boolean)).imported(),
    ObjectMember::new("version", ValueKind::Text, Some(Kind::Version)).imported().shown("object_information.version"),
    ObjectMember {
        body: Some(Member::required("author_id", Kind::Integer)),
        ..ObjectMember::new("author_id", ValueKind::Number, None).imported().shown("object_information.author_id")
    },
    ObjectMember::new("editor_id", ValueKind::Number, None).shown("object_information.editor_id"),
    ObjectMember {
        body: Some(Member::optional("creation_time", Kind::Moment).or_null()),
        ..ObjectMember::new("creation_time", ValueKind::Date, None).shown("object_information.creation_time")
    },
    ObjectMember {
        body: Some(Member::optional("last_edit_time", Kind::Moment).or_null()),
        ..ObjectMember::new("last_edit_time", ValueKind::Date, None).shown("object_information.last_edit_time")
    },
    ObjectMember::new("views", ValueKind::Number, Some(Kind::Integer)).imported(),
];

const fn names() -> [&'static str; LENGTH + 2] {
    let mut names = ["_id"; LENGTH + 2];
    names[1] = "fields";
    let mut place = 0;
    while place < LENGTH {
        names[place + 2] = TABLE[place].name;
        place += 1;
    }
    names
}

const fn bodies() -> [Member; IN_BODIES + 1] {
    let mut bodies = [Member::optional("fields", Kind::Entries(&FIELD)); IN_BODIES + 1];
    let (mut place, mut next) = (0, 0);
    while place < LENGTH {
        if let Some(member) = TABLE[place].body {
            bodies[next] = member;
            next += 1;
        }
        place += 1;
    }
    bodies
}

impl ObjectMember {
    const fn new(name: &'static str, kind: ValueKind, body: Option<Kind>) -> Self {
        let body = match body {
            Some(kind) => Some(Member::optional(name, kind)),
            None => None,
        };
        Self { name, kind, body, is_imported: false, is_exported: false, rendered: None }
    }

    const fn imported(mut self) -> Self {
        self.is_imported = true;
        self
    }

    const fn shown(mut self, place: &'static str) -> Self {
        self.rendered = Some(place);
        self
    }

    /// The member of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MEMBERS.iter().find(|member| member.name == name)
    }

    /// The member that rendered objects have under this name, in whatever part.
    pub fn rendered_as(name: &str) -> Option<&'static Self> {
        MEMBERS.iter().find(|member| member.rendered.and_then(|place| place.rsplit('.').next()) == Some(name))
    }
}

impl PartialEq for ObjectMember {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ObjectMember {}

impl Hash for ObjectMember {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
