//! What the body of a change of a type says apart from the type: the steps for its objects, how many of them should change, and
//! for which values new rules hold. docs/api.md, Migrations. None of it is stored in the type.

use bson::{Bson, Document};

use super::object_fields;
use super::schema::{Kind, Member, Schema, Unknown, without};
use super::type_input;
use super::{Violation, Violations};
use crate::suggest;

/// More steps are not taken at once.
pub const MOST_STEPS: usize = 256;

/// What happens to a value that cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The change is refused.
    Refuse,
    /// It becomes null.
    Null,
    /// It stays.
    Keep,
}

impl OnError {
    /// All names; the first is the default.
    pub const NAMES: [&str; 3] = ["refuse", "null", "keep"];

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::Null,
            "keep" => Self::Keep,
            _ => Self::Refuse,
        }
    }
}

/// Which objects get a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// Those without an entry for the field.
    Entry,
    /// These, and those with null there.
    Value,
}

impl Lacking {
    /// All names; the first is the default.
    pub const NAMES: [&str; 2] = ["missing", "null"];
}

/// A step of a migration, as a body has it.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The values of one field become those of another.
    Rename {
        /// The name that objects have.
        from: String,
        /// The name that they get.
        to: String,
    },
    /// The values become those of another kind.
    Convert {
        /// The field.
        field: String,
        /// The `type` of the field.
        to: String,
        /// What happens to the others.
        on_error: OnError,
    },
    /// Objects without a value get one.
    SetDefault {
        /// The field.
        field: String,
        /// The value.
        value: Bson,
        /// Which objects.
        lacking: Lacking,
    },
    /// Options get other names.
    MapOptions {
        /// The field.
        field: String,
        /// From name to name; nothing for an option that goes.
        map: Vec<(String, Option<String>)>,
    },
    /// The values go.
    Drop {
        /// The field.
        field: String,
    },
}

/// The names of the steps.
pub const STEPS: [&str; 5] = ["rename", "convert", "set_default", "map_options", "drop"];

impl Step {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rename { .. } => STEPS[0],
            Self::Convert { .. } => STEPS[1],
            Self::SetDefault { .. } => STEPS[2],
            Self::MapOptions { .. } => STEPS[3],
            Self::Drop { .. } => STEPS[4],
        }
    }

    /// The field whose values it changes, by the name that it has before the step.
    pub fn field(&self) -> &str {
        match self {
            Self::Rename { from: field, .. }
            | Self::Convert { field, .. }
            | Self::SetDefault { field, .. }
            | Self::MapOptions { field, .. }
            | Self::Drop { field } => field,
        }
    }

    /// It as a body has it.
    pub fn to_document(&self) -> Document {
        let step = match self {
            Self::Rename { from, to } => bson::doc! {"from": from, "to": to},
            Self::Convert { field, to, on_error } => {
                bson::doc! {"field": field, "to": to, "on_error": OnError::NAMES[*on_error as usize]}
            }
            Self::SetDefault { field, value, lacking } => {
                bson::doc! {"field": field, "value": value.clone(), "where": Lacking::NAMES[*lacking as usize]}
            }
            Self::MapOptions { field, map } => {
                let name = |name: &Option<String>| name.as_deref().map_or(Bson::Null, Bson::from);
                let map: Document = map.iter().map(|(from, to)| (from.clone(), name(to))).collect();
                bson::doc! {"field": field, "map": map}
            }
            Self::Drop { field } => bson::doc! {"field": field},
        };
        bson::doc! { self.name(): step }
    }
}

const RENAME: Schema = Schema {
    members: &[Member::required("from", Kind::Text), Member::required("to", Kind::FieldName)],
    unknown: Unknown::Refused,
};

/// The kinds that values can be converted to, and any JSON.
const fn kinds() -> [&'static str; object_fields::KIND_NAMES.len() + 1] {
    let mut all = ["json"; object_fields::KIND_NAMES.len() + 1];
    let mut index = 0;
    while index < object_fields::KIND_NAMES.len() {
        all[index] = object_fields::KIND_NAMES[index];
        index += 1;
    }
    all
}

/// What a `convert` may name.
pub const TARGETS: [&str; object_fields::KIND_NAMES.len() + 1] = kinds();

const CONVERT: Schema = Schema {
    members: &[
        Member::required("field", Kind::Text),
        Member::required("to", Kind::Word(&TARGETS)),
        Member::optional("on_error", Kind::Word(&OnError::NAMES)),
    ],
    unknown: Unknown::Refused,
};

const SET_DEFAULT: Schema = Schema {
    members: &[
        Member::required("field", Kind::Text),
        Member::required("value", Kind::Any),
        Member::optional("where", Kind::Word(&Lacking::NAMES)),
    ],
    unknown: Unknown::Refused,
};

const MAP_OPTIONS: Schema = Schema {
    members: &[Member::required("field", Kind::Text), Member::required("map", Kind::OpenMap)],
    unknown: Unknown::Refused,
};

const DROP: Schema = Schema { members: &[Member::required("field", Kind::Text)], unknown: Unknown::Refused };

/// A step: one of these members.
pub const STEP: Schema = Schema {
    members: &[
        Member::optional(STEPS[0], Kind::Map(&RENAME)),
        Member::optional(STEPS[1], Kind::Map(&CONVERT)),
        Member::optional(STEPS[2], Kind::Map(&SET_DEFAULT)),
        Member::optional(STEPS[3], Kind::Map(&MAP_OPTIONS)),
        Member::optional(STEPS[4], Kind::Map(&DROP)),
    ],
    unknown: Unknown::Refused,
};

const MIGRATION: &str = "migration";
const EXPECTED_COUNT: &str = "expected_count";
const ENFORCE: &str = "enforce";
/// What `enforce` can be.
pub const ENFORCED: [&str; 1] = ["new"];
const NAMES: [&str; 3] = [MIGRATION, EXPECTED_COUNT, ENFORCE];

const MIGRATION_MEMBER: Member = Member::optional(MIGRATION, Kind::List(&Kind::Map(&STEP))).or_null();
const COUNT_MEMBER: Member = Member::optional(EXPECTED_COUNT, Kind::Integer).or_null();
const ENFORCE_MEMBER: Member = Member::optional(ENFORCE, Kind::Word(&ENFORCED)).or_null();

/// These members alone.
const ASKED: Schema = Schema { members: &[MIGRATION_MEMBER, COUNT_MEMBER, ENFORCE_MEMBER], unknown: Unknown::Dropped };

const fn members() -> [Member; type_input::TYPE.members.len() + NAMES.len()] {
    let known = type_input::TYPE.members;
    let mut all = [MIGRATION_MEMBER; type_input::TYPE.members.len() + NAMES.len()];
    let mut index = 0;
    while index < known.len() {
        all[index] = known[index];
        index += 1;
    }
    all[known.len() + 1] = COUNT_MEMBER;
    all[known.len() + 2] = ENFORCE_MEMBER;
    all
}

const ALL_MEMBERS: [Member; type_input::TYPE.members.len() + NAMES.len()] = members();

/// The body of a change of a type: a type and these members.
pub const TYPE_CHANGE: Schema = Schema { members: &ALL_MEMBERS, unknown: Unknown::Dropped };

/// What a change of a type is to do with its objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// The steps.
    pub steps: Vec<Step>,
    /// How many objects should change.
    pub expected_count: Option<u64>,
    /// Whether values that are there may break new rules.
    pub only_new: bool,
}

impl Asked {
    /// Takes these members out of a body.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn split(mut body: Document) -> Result<(Document, Self), Violations> {
        let known = |name: &str| type_input::TYPE.members.iter().any(|member| member.name == name);
        let misspelt = body.keys().filter(|name| !known(name) && !NAMES.contains(&name.as_str())).filter_map(|name| {
            let meant = suggest::misspelt(name, &NAMES)?;
            let mut place = String::new();
            crate::pointer::push(&mut place, name);
            Some(Violation::new(place, format!("is unknown here; did you mean {meant}?")))
        });
        let misspelt: Violations = misspelt.collect();
        let accepted = without(misspelt, ASKED.apply(&body))?;
        for name in NAMES {
            body.remove(name);
        }
        let (mut steps, mut wrong) = (Vec::new(), Violations::new());
        let list = accepted.get_array(MIGRATION).map(Vec::as_slice).unwrap_or_default();
        if list.len() > MOST_STEPS {
            let message = format!("must have at most {MOST_STEPS} steps; it has {}", list.len());
            return Err(Violation::new(format!("/{MIGRATION}"), message).into());
        }
        for (index, step) in list.iter().filter_map(Bson::as_document).enumerate() {
            match Step::read(step) {
                Ok(step) => steps.push(step),
                Err((place, message)) => {
                    wrong.push(Violation::new(format!("/{MIGRATION}/{index}{place}"), message));
                }
            }
        }
        let count = accepted.get_i64(EXPECTED_COUNT).ok();
        let expected_count = count.and_then(|count| u64::try_from(count).ok());
        if count.is_some() && expected_count.is_none() {
            wrong.push(Violation::new(format!("/{EXPECTED_COUNT}"), "must be 0 or more"));
        }
        let only_new = accepted.get_str(ENFORCE).is_ok();
        if wrong.is_empty() { Ok((body, Self { steps, expected_count, only_new })) } else { Err(wrong) }
    }
}

impl Step {
    fn read(step: &Document) -> Result<Self, (String, String)> {
        let (Some((name, value)), 1) = (step.iter().next(), step.len()) else {
            return Err((String::new(), format!("must have one of {}", STEPS.join(", "))));
        };
        let empty = Document::new();
        let value = value.as_document().unwrap_or(&empty);
        let text = |name: &str| value.get_str(name).unwrap_or_default().to_owned();
        let field = text("field");
        Ok(match name.as_str() {
            "rename" => {
                let (from, to) = (text("from"), text("to"));
                if to.is_empty() {
                    return Err(("/rename/to".to_owned(), "must not be empty".to_owned()));
                }
                Self::Rename { from, to }
            }
            "convert" => Self::Convert { field, to: text("to"), on_error: OnError::named(&text("on_error")) },
            "set_default" => {
                let lacking = if text("where") == Lacking::NAMES[1] { Lacking::Value } else { Lacking::Entry };
                let value = value.get("value").cloned().unwrap_or(Bson::Null);
                if value == Bson::Null {
                    return Err(("/set_default/value".to_owned(), "must not be null".to_owned()));
                }
                Self::SetDefault { field, value, lacking }
            }
            "map_options" => {
                let map = value.get_document("map").unwrap_or(&empty);
                let mut pairs = Vec::with_capacity(map.len());
                for (from, to) in map {
                    let to = match to {
                        Bson::Null => None,
                        Bson::String(to) => Some(to.clone()),
                        _ => {
                            let mut place = "/map_options/map".to_owned();
                            crate::pointer::push(&mut place, from);
                            return Err((place, "must be the name of an option, or null".to_owned()));
                        }
                    };
                    pairs.push((from.clone(), to));
                }
                Self::MapOptions { field, map: pairs }
            }
            _ => Self::Drop { field },
        })
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn what_is_asked_of_objects_is_no_part_of_the_type() {
        let body = doc! {
            "name": "server", "enforce": "new", "expected_count": 3,
            "migration": [{"rename": {"from": "a", "to": "b"}}, {"convert": {"field": "b", "to": "number"}},
                {"set_default": {"field": "c", "value": 1, "where": "null"}}, {"map_options": {"field": "d", "map": {"x": "y", "z": null}}},
                {"drop": {"field": "e"}}],
        };
        let (rest, asked) = Asked::split(body.clone()).expect("a right body");
        assert_eq!(rest, doc! {"name": "server"});
        assert_eq!((asked.expected_count, asked.only_new, asked.steps.len()), (Some(3), true, 5));
        assert_eq!(asked.steps[1], Step::Convert { field: "b".into(), to: "number".into(), on_error: OnError::Refuse });
        let again: Vec<Bson> = asked.steps.iter().map(|step| step.to_document().into()).collect();
        let (_, same) = Asked::split(doc! {"migration": again}).expect("a right body");
        assert_eq!(same.steps, asked.steps);
    }

    #[test]
    fn wrong_steps_are_named() {
        let wrong = |body: Document| {
            let found = Asked::split(body).expect_err("a wrong body");
            found.listed().iter().map(|violation| violation.pointer.clone()).collect::<Vec<_>>()
        };
        assert_eq!(wrong(doc! {"migrations": []}), ["/migrations"]);
        assert_eq!(
            wrong(doc! {"migration": [{}, {"drop": {"field": "a"}, "rename": {"from": "a", "to": "b"}}]}),
            ["/migration/0", "/migration/1"]
        );
        assert_eq!(
            wrong(doc! {"migration": [{"convert": {"field": "a", "to": "integer"}}]}),
            ["/migration/0/convert/to"]
        );
        assert_eq!(wrong(doc! {"migration": [{"move": {}}]}), ["/migration/0/move"]);
        assert_eq!(
            wrong(doc! {"migration": [{"map_options": {"field": "a", "map": {"x": 1}}}]}),
            ["/migration/0/map_options/map/x"]
        );
        assert_eq!(wrong(doc! {"expected_count": -1}), ["/expected_count"]);
        assert_eq!(wrong(doc! {"enforce": "all"}), ["/enforce"]);
        let many: Vec<Bson> = (0..=MOST_STEPS).map(|_| doc! {"drop": {"field": "a"}}.into()).collect();
        assert_eq!(wrong(doc! {"migration": many}), ["/migration"]);
    }
}
