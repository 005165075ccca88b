//! Checks one line against the rules of its kind: those for a request with the same body.

use std::collections::{HashMap, HashSet};

use bson::{Bson, DateTime, Document};

use crate::auth::rights;
use crate::domain::group::ADMIN_GROUP;
use crate::domain::object_fields::{FieldRules, Reference};
use crate::domain::object_input::{self, ObjectInput};
use crate::domain::object_type::ObjectType;
use crate::domain::user::SHORTEST_PASSWORD;
use crate::domain::{self, Violation, Violations, category_input, group_input, setting_input, type_input, user_input};
use crate::moving::package::PackagePart;

/// The possible targets of references: stored documents, and documents of earlier files.
#[derive(Default)]
pub(super) struct World {
    pub(super) types: HashMap<i64, KnownType>,
    pub(super) groups: HashSet<i64>,
    pub(super) users: HashSet<i64>,
    /// The objects of the package so far, with their types; 0 where a line names none.
    pub(super) objects: HashMap<i64, i64>,
}

/// A type, compiled.
pub(super) struct KnownType {
    pub(super) object_type: ObjectType,
    pub(super) rules: FieldRules,
}

/// What a line says.
#[derive(Default)]
pub(super) struct Read {
    /// What can be accepted in no way.
    pub(super) wrong: Violations,
    /// Deviations that requests must not have, but stored documents may have after other changes: values that the type
    /// no longer allows, and deleted references and authors.
    pub(super) unclean: Violations,
    /// The members of the line, in the types in which they are stored.
    pub(super) members: Document,
    /// The defaults of members that a new document's line lacks.
    pub(super) defaults: Document,
    /// The references that the store or a later line must confirm.
    pub(super) references: Vec<Reference>,
}

/// The largest id that is imported.
const MOST_ID: i64 = 1 << 62;

/// Reads a line. `stored` is the document that it would replace.
pub(super) fn read(
    part: PackagePart,
    line: &Document,
    stored: Option<&Document>,
    world: &World,
    now: DateTime,
) -> Read {
    let mut read = Read { members: line.clone(), ..Read::default() };
    let id = integer(line, "public_id");
    if part != PackagePart::Settings {
        read.wrong.extend(match id {
            // An id of one store is valid in another, as long as ids are left after it.
            Some(id) => (!(1..=MOST_ID).contains(&id))
                .then(|| Violation::new("/public_id", format!("{id} is no id: ids are from 1 to {MOST_ID}"))),
            None => Some(Violation::new("/public_id", "is required: a whole number")),
        });
    }
    let id = id.unwrap_or_default();
    let defaults = match part {
        PackagePart::Types => type_input::read(line).map(|accepted| domain::created(accepted, id, now)),
        PackagePart::Categories => category_input::read(line).map(|accepted| domain::created(accepted, id, now)),
        PackagePart::Groups => group(line, id),
        PackagePart::Users => user(line, id, world, now),
        PackagePart::Settings => setting(line, world),
        // Entries are stored as they are.
        PackagePart::History => Ok(line.clone()),
        PackagePart::Objects => {
            object(line, id, stored, world, now, &mut read);
            return read;
        }
    };
    match defaults {
        Ok(defaults) => read.defaults = defaults,
        Err(found) => {
            read.wrong.append(found);
            read.wrong.keep_first_of_each_place();
        }
    }
    read
}

fn group(line: &Document, id: i64) -> Result<Document, Violations> {
    let accepted = group_input::read(line, |name| rights::find(name).is_some())?;
    let has_all =
        accepted.get_array("rights").is_ok_and(|rights| rights.iter().any(|right| right.as_str() == Some("base.*")));
    if id == ADMIN_GROUP && !has_all {
        return Err(Violation::new("/rights", "group 1 keeps the right base.*").into());
    }
    Ok(group_input::created(&accepted, id))
}

fn user(line: &Document, id: i64, world: &World, now: DateTime) -> Result<Document, Violations> {
    let (accepted, mut violations) = match user_input::read(line, SHORTEST_PASSWORD) {
        Ok(accepted) => (accepted, Violations::new()),
        Err(violations) => (Document::new(), violations),
    };
    if line.contains_key("password") {
        let message = "passwords are not imported; leave it out and set one with inventory-service user passwd";
        violations.push(Violation::new("/password", message));
    }
    let created = user_input::created(&accepted, id, now);
    let group_id = integer(line, "group_id").or_else(|| integer(&created, "group_id")).unwrap_or_default();
    if !world.groups.contains(&group_id) && !violations.has("/group_id") {
        violations.push(Violation::new("/group_id", format!("group {group_id} does not exist")));
    }
    if violations.is_empty() { Ok(created) } else { Err(violations) }
}

fn setting(line: &Document, world: &World) -> Result<Document, Violations> {
    let Some(user_id) = integer(line, "user_id") else {
        return Err(Violation::new("/user_id", "is required: a whole number").into());
    };
    let accepted = setting_input::read(line, user_id, None)?;
    if world.users.contains(&user_id) {
        Ok(accepted)
    } else {
        Err(Violation::new("/user_id", format!("user {user_id} does not exist")).into())
    }
}

fn object(line: &Document, id: i64, stored: Option<&Document>, world: &World, now: DateTime, read: &mut Read) {
    let (input, violations) = ObjectInput::read(line);
    read.wrong.append(violations);
    let Some(known) = input.type_id.and_then(|id| world.types.get(&id)) else {
        if !read.wrong.has("/type_id") {
            let reason =
                input.type_id.map_or_else(|| "is required".to_owned(), |id| format!("type {id} does not exist"));
            read.wrong.push(Violation::new("/type_id", reason));
        }
        return;
    };
    if !read.wrong.is_empty() {
        return;
    }
    if !world.users.contains(&input.author_id) {
        read.unclean.push(Violation::new("/author_id", format!("user {} does not exist", input.author_id)));
    }
    let type_id = known.object_type.public_id;
    let kept = stored.map(|stored| object_input::read_fields(stored.get("fields"))).unwrap_or_default();
    match known.rules.check_again(&input.fields, &kept) {
        Err(found) => {
            read.unclean.append(found);
            read.defaults = input.created(id, type_id, &input.fields, now);
        }
        Ok(accepted) => {
            // Texts that represent times are now times, and so on.
            for field in read.members.get_array_mut("fields").into_iter().flatten().filter_map(Bson::as_document_mut) {
                let name = field.get_str("name").unwrap_or_default();
                if let Some(value) = accepted.fields.iter().find(|accepted| accepted.name == name) {
                    field.insert("value", value.value.clone());
                }
            }
            read.defaults = input.created(id, type_id, &accepted.fields, now);
            read.references = accepted.references;
        }
    }
}

/// The whole number under a name, of any number type.
pub(super) fn integer(document: &Document, name: &str) -> Option<i64> {
    match document.get(name)? {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}
