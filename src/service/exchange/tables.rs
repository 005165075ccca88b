//! Types as tables: the columns of their objects, and the lines that sum up the objects to which these refer.
//!
//! *Invariant:* no column and no line has the value of a password.

use std::collections::{BTreeMap, HashMap, HashSet};

use bson::{Bson, DateTime, Document, doc};

use crate::domain::object_fields::ValueKind;
use crate::domain::object_type::{Field, ObjectType};
use crate::query::{Column, ColumnSource, QueryError, STORED, Table, value_of};
use crate::store::collections::OBJECTS;

/// What the names of tables begin with; the name of the type follows.
pub const PREFIX: &str = "type.";

/// The first columns.
const KEYS: [&str; 2] = ["_id", "public_id"];
/// The last columns. Fields come first where they have these names.
const MEMBERS: [&str; 4] = ["active", "version", "creation_time", "last_edit_time"];
/// The maximum number of types whose lines one table has, counted for each reference; further references show the id alone.
const MOST_LINES: usize = 1_000;
/// What stands between the values of a line.
const SEPARATOR: &str = " | ";

/// The names of columns that are taken.
struct Names(HashSet<String>);

impl Names {
    /// The name as one step of a path, with underscores at its end as long as another column has it.
    fn free(&mut self, wanted: &str) -> String {
        let mut name = step(wanted);
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

/// A name as one step of a path: paths have dots between their steps, and operators begin with `$`.
fn step(name: &str) -> String {
    let name = name.replace(['.', '\0'], "_");
    name.strip_prefix('$').map_or_else(|| name.clone(), |rest| format!("_{rest}"))
}

/// The table of a type. `types` are those that references may lead to.
///
/// # Errors
/// A type that makes no table.
pub fn table(object_type: &ObjectType, types: &[&ObjectType], now: DateTime) -> Result<Table, QueryError> {
    let mut names = Names(KEYS.map(str::to_owned).into());
    let shown: Vec<&Field> = object_type.fields.iter().filter(|field| !field.is_password()).collect();
    // A name that can stay as it is, does.
    let (same, others): (Vec<&Field>, Vec<&Field>) =
        shown.iter().copied().partition(|field| step(&field.name) == field.name);
    let columns: HashMap<&str, String> =
        same.into_iter().chain(others).map(|field| (field.name.as_str(), names.free(&field.name))).collect();
    let member = |(column, name): (String, &'static str)| (column, ColumnSource::Member(name));
    let mut list: Vec<Column> = KEYS.map(|name| member((name.to_owned(), name))).into();
    list.extend(shown.iter().map(|field| {
        let holds_arrays = ValueKind::of(field).may_be_list();
        (columns[field.name.as_str()].clone(), ColumnSource::Field { name: field.name.clone(), holds_arrays })
    }));
    list.extend(MEMBERS.map(|name| member((names.free(name), name))));
    let (mut stages, mut made, mut lines) = (Vec::new(), Vec::new(), 0);
    for field in shown.into_iter().filter(|field| field.is_reference()) {
        let column = &columns[field.name.as_str()];
        let summary = names.free(&format!("{column}_summary"));
        let targets = targets(object_type, field, types);
        lines += targets.len();
        let shown = if lines > MOST_LINES { label_and_id("") } else { line(field, &targets) };
        stages.extend(summed_up(column, &summary, field, shown));
        made.push(summary);
    }
    Table::new(object_type.public_id, list, (&stages[..], made), now)
}

/// The types that are tables, by the names of these. Of several types of one name, which other tools may have stored, it is the
/// first one.
pub fn named<'t>(types: &[&'t ObjectType]) -> BTreeMap<String, &'t ObjectType> {
    types.iter().rev().map(|object_type| (format!("{PREFIX}{}", object_type.name), *object_type)).collect()
}

/// All tables by name, each with the stages that make it of the collection of objects.
///
/// # Errors
/// As [`table`].
pub fn views(types: &[&ObjectType], now: DateTime) -> Result<Vec<(String, Vec<Document>)>, QueryError> {
    named(types).into_iter().map(|(name, one)| Ok((name, table(one, types, now)?.stages()))).collect()
}

/// The stages that add the lines of the objects to which a column refers.
fn summed_up(column: &str, summary: &str, field: &Field, line: Bson) -> [Bson; 2] {
    let (ids, found) = (format!("${column}"), format!("${summary}"));
    let lookup = doc! {
        "from": OBJECTS, "localField": column, "foreignField": "public_id", "as": summary,
        "pipeline": [{ "$project": { "_id": 0, "public_id": 1, "line": line } }],
    };
    let lines = if field.refers_to_several() {
        let is_it = doc! { "$eq": ["$$one.public_id", "$$id"] };
        let named = doc! { "$filter": { "input": &found, "as": "one", "cond": is_it } };
        let first = doc! { "$arrayElemAt": ["$$named.line", 0] };
        let each = doc! { "$let": { "vars": { "named": named }, "in": first } };
        let all = doc! { "$map": { "input": &ids, "as": "id", "in": each } };
        doc! { "$cond": [{ "$isArray": [&ids] }, all, "$$REMOVE"] }
    } else {
        doc! { "$arrayElemAt": [format!("{found}.line"), 0] }
    };
    [doc! { "$lookup": lookup }, doc! { "$set": { summary: lines } }].map(Bson::from)
}

/// The types to whose objects a field refers.
fn targets<'t>(object_type: &ObjectType, field: &Field, types: &[&'t ObjectType]) -> Vec<&'t ObjectType> {
    let named: HashSet<i64> = object_type.targets(field).collect();
    types.iter().copied().filter(|target| named.is_empty() || named.contains(&target.public_id)).collect()
}

/// The expression for the line of an object to which a field refers, by its type.
fn line(field: &Field, targets: &[&ObjectType]) -> Bson {
    let branch = |target: &&ObjectType| {
        let line = match field.summary_for(target.public_id) {
            Some(summary) if !summary.line.is_empty() => {
                let mut texts = summary.fields.iter().map(|name| text(target, name).unwrap_or_else(|| "".into()));
                let pieces = summary.line.iter().enumerate().flat_map(|(place, piece)| {
                    let value = if place == 0 { None } else { texts.next() };
                    value.into_iter().chain([literal(piece.clone())])
                });
                doc! { "$concat": pieces.collect::<Vec<Bson>>() }.into()
            }
            Some(summary) => joined(target, &summary.fields, own_line(target)),
            None => own_line(target),
        };
        doc! { "case": { "$eq": ["$type_id", target.public_id] }, "then": line }
    };
    let branches: Vec<Document> = targets.iter().map(branch).collect();
    let otherwise = label_and_id("");
    if branches.is_empty() {
        otherwise
    } else {
        doc! { "$switch": { "branches": branches, "default": otherwise } }.into()
    }
}

/// The line of an object after the summary of its type.
fn own_line(object_type: &ObjectType) -> Bson {
    joined(object_type, &object_type.summary_fields, label_and_id(&format!("{} ", object_type.label)))
}

fn label_and_id(label: &str) -> Bson {
    doc! { "$concat": [literal(format!("{}#", label.trim_start())), { "$toString": "$public_id" }] }.into()
}

/// The values of fields with separators; something else where all are empty.
fn joined(object_type: &ObjectType, names: &[String], otherwise: Bson) -> Bson {
    let texts: Vec<Bson> = names.iter().filter_map(|name| text(object_type, name)).collect();
    if texts.is_empty() {
        return otherwise;
    }
    let others = doc! { "$slice": ["$$texts", 1, i32::MAX] };
    let next = doc! { "$concat": ["$$value", SEPARATOR, "$$this"] };
    let all = doc! { "$reduce": { "input": others, "initialValue": { "$arrayElemAt": ["$$texts", 0] }, "in": next } };
    let line = doc! { "$cond": [{ "$setEquals": ["$$texts", [""]] }, otherwise, all] };
    doc! { "$let": { "vars": { "texts": texts }, "in": line } }.into()
}

/// The value of a field as text. Lists and documents have none, and neither have passwords and fields that there are not.
fn text(object_type: &ObjectType, name: &str) -> Option<Bson> {
    let field = object_type.field(name).filter(|field| !field.is_password())?;
    let value = value_of(STORED, &field.name);
    Some(doc! { "$convert": { "input": value, "to": "string", "onError": "", "onNull": "" } }.into())
}

fn literal(text: String) -> Bson {
    doc! { "$literal": text }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::document::raw;

    #[test]
    fn a_table_has_a_bounded_number_of_lines() {
        let reference = |name: &str| doc! { "type": "ref", "name": name, "label": name, "ref_types": [] };
        let of =
            |id: i64| doc! { "public_id": id, "name": format!("t{id}"), "fields": [reference("a"), reference("b")] };
        let types: Vec<ObjectType> =
            (0..600).map(|id| ObjectType::from_document(&raw(&of(id))).expect("a type")).collect();
        let types: Vec<&ObjectType> = types.iter().collect();
        let made = table(types[0], &types, DateTime::MIN).expect("a table").stages();
        let lines = format!("{made:?}").matches("$switch").count();
        assert_eq!(lines, 1, "the second reference shows ids");
    }
}
