//! Conditions on `f.<name>` as conditions on the entries of the array.

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use super::{FieldPath, Fields, STORED, expressions};
use crate::query::error::{Location, QueryError};
use crate::query::filter::{Filter, Limits};
use crate::query::operators::{is_operators, truthy};

/// The operators that may match an object without the entry, whatever their operand.
const NEGATIVE: [&str; 4] = ["$ne", "$nin", "$not", "$exists"];

/// A filter without `f.`.
pub(super) fn rewritten(fields: &Fields, filter: &Document) -> Result<Document, QueryError> {
    conditions(fields, filter, &mut Location::new("filter"))
}

/// The conditions of a document, without `f.`.
pub(super) fn conditions(fields: &Fields, filter: &Document, at: &mut Location) -> Result<Document, QueryError> {
    let (mut others, mut entries) = (Document::new(), Vec::new());
    for (name, value) in filter {
        at.enter(name.as_str());
        match (name.as_str(), value) {
            ("$and" | "$or" | "$nor", Bson::Array(branches)) => {
                others.insert(name, self::branches(fields, branches, at)?);
            }
            ("$expr", value) => {
                others.insert(name, expressions::rewritten(fields, STORED, value, at)?);
            }
            (path, value) => match fields.resolved(path, at)? {
                Some(path) => entries.extend(field(&path, value)),
                None => drop(others.insert(name, value.clone())),
            },
        }
        at.leave();
    }
    Ok(joined(others, entries))
}

fn branches(fields: &Fields, branches: &[Bson], at: &mut Location) -> Result<Bson, QueryError> {
    let mut rewritten = Vec::with_capacity(branches.len());
    for (index, branch) in branches.iter().enumerate() {
        at.enter(index.to_string());
        rewritten.push(match branch {
            Bson::Document(filter) => Bson::Document(conditions(fields, filter, at)?),
            other => other.clone(),
        });
        at.leave();
    }
    Ok(Bson::Array(rewritten))
}

/// All of it holds. One condition stands beside the others where the name is free.
fn joined(mut others: Document, mut conditions: Vec<Document>) -> Document {
    if conditions.len() == 1 && conditions[0].keys().all(|name| !others.contains_key(name)) {
        others.extend(conditions.remove(0));
        return others;
    }
    if conditions.is_empty() {
        return others;
    }
    if !others.is_empty() {
        conditions.insert(0, others);
    }
    doc! { "$and": conditions }
}

/// What is said of one field: one condition for what an entry must be, and one for each negation.
fn field(path: &FieldPath<'_>, said: &Bson) -> Vec<Document> {
    let Bson::Document(operators) = said else { return vec![some_entry(path, said)] };
    if !is_operators(operators) {
        return vec![some_entry(path, said)];
    }
    let (mut together, mut conditions) = (Document::new(), Vec::new());
    for (operator, operand) in operators {
        match operator.as_str() {
            "$ne" => conditions.push(no_entry(path, &doc! { "$eq": operand }.into())),
            "$nin" => conditions.push(no_entry(path, &doc! { "$in": operand }.into())),
            "$not" => conditions.push(not(path, operand)),
            "$exists" => conditions.push(exists(path, truthy(operand))),
            _ => drop(together.insert(operator, operand.clone())),
        }
    }
    if !together.is_empty() {
        conditions.insert(0, some_entry(path, &together.into()));
    }
    conditions
}

/// No entry does what is negated. What is negated twice is said as such: two negations cancel.
fn not(path: &FieldPath<'_>, negated: &Bson) -> Document {
    match negated {
        Bson::Document(operators) if operators.keys().any(|operator| NEGATIVE.contains(&operator.as_str())) => {
            doc! { "$nor": [joined(Document::new(), field(path, negated))] }
        }
        _ => no_entry(path, negated),
    }
}

fn exists(path: &FieldPath<'_>, wanted: bool) -> Document {
    let entry = match path.rest {
        None => doc! { "name": path.name },
        Some(_) => doc! { "name": path.name, path.in_entry(): { "$exists": true } },
    };
    if wanted {
        doc! { STORED: { "$elemMatch": entry } }
    } else {
        doc! { STORED: { "$not": { "$elemMatch": entry } } }
    }
}

/// Some entry has such a value. An object without the entry has a missing one: it matches where MongoDB lets missing values
/// match, as with null.
fn some_entry(path: &FieldPath<'_>, said: &Bson) -> Document {
    let entry = doc! { STORED: { "$elemMatch": { "name": path.name, path.in_entry(): said } } };
    if matches_missing(said) {
        doc! { "$or": [entry, exists(&FieldPath { rest: None, ..*path }, false)] }
    } else {
        entry
    }
}

fn no_entry(path: &FieldPath<'_>, said: &Bson) -> Document {
    doc! { STORED: { "$not": { "$elemMatch": { "name": path.name, path.in_entry(): said } } } }
}

fn matches_missing(said: &Bson) -> bool {
    let filter = Filter::parse(&doc! { "value": said }, &Limits::NONE);
    filter.is_ok_and(|filter| filter.matches(&RawDocumentBuf::new()).unwrap_or(false))
}
