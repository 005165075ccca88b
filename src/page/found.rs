//! Finds objects for the page: by a filter, by a text, by numbers. What may not be read is not found.

use std::collections::{BTreeMap, BTreeSet};

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};

use super::VIEW;
use super::visitor::Visitor;
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::domain::object_type::ObjectType;
use crate::http::error::ApiError;
use crate::http::objects::with_known_fields;
use crate::query::{Filter, Limits, Sort};
use crate::render::summary_line;
use crate::service::ListQuery;
use crate::service::objects::{self, View};
use crate::service::types::catalog::{Types, VIEW_TYPES};
use crate::store::Documents;

/// The right whose holders see the values of password fields.
pub const EDIT: &str = "base.framework.object.edit";

/// An object in few words.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its number.
    pub id: i64,
    /// Its type's number.
    pub type_id: i64,
    /// Its type's name for people.
    pub type_label: String,
    /// What it is called.
    pub line: String,
}

/// The first objects of a filter in an order, and how many there are. None for a visitor who may not see objects.
///
/// # Errors
/// Errors of the store.
pub async fn some(visitor: &Visitor, filter: Filter, sort: Sort, limit: u64) -> Result<(Documents, u64), ApiError> {
    if !visitor.may(VIEW) {
        return Ok((Documents::new(), 0));
    }
    let query = ListQuery::first(filter, sort, limit);
    let listed = objects::list_objects(visitor.services(), &visitor.caller, query, View::Native).await?;
    Ok(listed.into_page().map(|page| (page.documents, page.total)).unwrap_or_default())
}

/// A filter in the language of REST.
///
/// # Errors
/// What cannot be understood; errors of the store.
pub async fn filter(visitor: &Visitor, condition: &serde_json::Value) -> Result<Filter, ApiError> {
    let (state, text) = (&visitor.guest.state, condition.to_string());
    with_known_fields(state, &visitor.caller, async |fields| state.object_filter(&text, fields).await).await
}

/// Whether the visitor may read the objects of a type.
pub fn may_read(visitor: &Visitor, object_type: &ObjectType) -> bool {
    object_type.acl.allows(visitor.caller.group_id, Permission::Read)
}

/// Whether the visitor may see a type by its name, and read its objects.
pub fn may_list(visitor: &Visitor, object_type: &ObjectType) -> bool {
    visitor.may(VIEW_TYPES) && may_read(visitor, object_type)
}

/// An object in few words.
pub fn named(visitor: &Visitor, types: &Types, object: &RawDocument) -> Named {
    let id = integer(object, "public_id").unwrap_or_default();
    let type_id = integer(object, "type_id").unwrap_or_default();
    let object_type = types.get(type_id).map(|entry| &entry.object_type);
    let line = object_type.and_then(|object_type| summary_line(object, object_type, visitor.may(EDIT)).ok());
    Named {
        id,
        type_id,
        type_label: object_type.map(|object_type| object_type.label.clone()).unwrap_or_default(),
        line: line.unwrap_or_else(|| format!("#{id}")),
    }
}

/// The objects with these numbers that the visitor may read, by number.
///
/// # Errors
/// Errors of the store.
pub async fn by_numbers(visitor: &Visitor, ids: &BTreeSet<i64>) -> Result<BTreeMap<i64, Named>, ApiError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let filter = Filter::one_of("public_id", ids.iter().copied());
    let (found, _) = some(visitor, filter, Sort::by("public_id", false), ids.len() as u64).await?;
    let types = visitor.services().current_types().await?;
    Ok(found.iter().map(|object| named(visitor, &types, object)).map(|named| (named.id, named)).collect())
}

/// The numbers of the objects that a value refers to.
pub fn ids_in(value: &Bson) -> impl Iterator<Item = i64> {
    let (items, one) = match value {
        Bson::Array(items) => (items.as_slice(), None),
        one => (&[][..], one.as_i64()),
    };
    items.iter().filter_map(Bson::as_i64).chain(one)
}

/// The number that a text names: `7`, `#7`, or a name with `(#7)` at its end, as [`with_number`] writes it.
pub fn number_in(text: &str) -> Option<i64> {
    let text = text.trim();
    let inner = text.strip_suffix(')').and_then(|rest| rest.rsplit_once("(#")).map(|(_, number)| number);
    let number = inner.unwrap_or_else(|| text.strip_prefix('#').unwrap_or(text));
    number.parse().ok().filter(|number| *number > 0)
}

/// A name with the number of the object.
pub fn with_number(line: &str, id: i64) -> String {
    format!("{line} (#{id})")
}

/// The objects that have a text as a part of a value, or the number that it names: for references, where a part of a name is
/// enough.
///
/// # Errors
/// Errors of the store.
pub async fn by_text(
    visitor: &Visitor,
    text: &str,
    of_types: &[i64],
    limit: u64,
) -> Result<(Vec<Named>, u64), ApiError> {
    let types = visitor.services().current_types().await?;
    let filter = Filter::parse(&condition(&types, text, of_types), &Limits::NONE)?;
    let (found, total) = some(visitor, filter, Sort::by("public_id", false), limit).await?;
    let mut all: Vec<Named> = found.iter().map(|object| named(visitor, &types, object)).collect();
    let wanted = text.trim().to_lowercase();
    all.sort_by_key(|named| !named.line.to_lowercase().starts_with(&wanted));
    Ok((all, total))
}

fn condition(types: &Types, text: &str, of_types: &[i64]) -> Document {
    let secret: BTreeSet<&str> = types
        .iter()
        .flat_map(|entry| entry.object_type.fields.iter())
        .filter(|field| field.is_password())
        .map(|field| field.name.as_str())
        .collect();
    let secret: Vec<&str> = secret.into_iter().collect();
    let holds = doc! { "name": { "$nin": secret }, "value": { "$regex": escaped(text.trim()), "$options": "i" } };
    let mut ways = vec![doc! { "fields": { "$elemMatch": holds } }];
    ways.extend(number_in(text).map(|number| doc! { "public_id": number }));
    let mut condition = doc! { "$or": ways };
    if !of_types.is_empty() {
        condition.insert("type_id", doc! { "$in": of_types.to_vec() });
    }
    condition
}

/// A text as a pattern that matches this text alone.
pub fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_from_all_its_forms() {
        assert_eq!(["7", " #7 ", "web-1 (#7)", "a (#1) (#7)"].map(number_in), [Some(7); 4]);
        assert_eq!(["", "web-1", "-7", "0", "web (7)"].map(number_in), [None; 5]);
    }
}
