//! Stored objects and rendered ones have different members: which member of the other form a name corresponds to.

use bson::Bson;

use super::{plain, quoted};
use crate::domain::object_member::ObjectMember;

/// The members of a rendered object.
const MEMBERS: [&str; 3] = ["current_render_time", "object_information", "type_information"];

/// What to ask for in place of a path of rendered objects, or of a type's name.
pub(super) fn instead_of(path: &str, compared: Option<&Bson>) -> Option<String> {
    let (first, last) = (path.split('.').next()?, path.rsplit('.').next()?);
    if ["type_name", "type_label"].contains(&last) && (MEMBERS.contains(&first) || first == last) {
        return Some(format!("did you mean type_id? {}", type_found_by(&last["type_".len()..], compared)));
    }
    if !MEMBERS.contains(&first) {
        return None;
    }
    let stored = ObjectMember::rendered_as(last).or_else(|| ObjectMember::named(last));
    let meant = stored.map(|member| format!("did you mean {}? ", member.name)).unwrap_or_default();
    Some(format!("{meant}only view=render has {}", plain(first)))
}

/// How a type is found by its name.
fn type_found_by(member: &str, compared: Option<&Bson>) -> String {
    id_found_by("types", member, compared)
}

/// How an id is found by the name of what has it.
pub(super) fn id_found_by(list: &str, member: &str, compared: Option<&Bson>) -> String {
    let name = compared.and_then(Bson::as_str).map_or_else(|| "...".to_owned(), plain);
    format!("its value is found by GET /rest/{list}/?filter={{\"{member}\":\"{name}\"}}")
}

/// About a path in the projection of rendered objects that none of them has.
pub(super) fn absent(path: &str, is_field: impl Fn(&str) -> bool) -> Option<String> {
    let first = path.split('.').next().unwrap_or(path);
    if MEMBERS.contains(&first) {
        return None;
    }
    let instead = match first {
        "fields" | "type_name" | "type_label" | "sections" | "summaries" | "summary_line" | "externals" => {
            format!("did you mean type_information.{first}?")
        }
        name if let Some(place) = ObjectMember::named(name).and_then(|member| member.rendered) => {
            format!("did you mean {place}?")
        }
        name if is_field(name) => format!("a field is asked for as f.{}", plain(name)),
        _ => format!("it has {}", MEMBERS.join(", ")),
    };
    Some(format!("no rendered object has {}; {instead}", quoted(first)))
}
