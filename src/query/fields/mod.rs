//! `f.<name>`: the value of a field by its name, in filters, sorts, projections and expressions about objects.
//!
//! An object stores its fields as an array of entries with a name and a value. [`Entry`] says what `f.<name>` means.
//! Here a question is rewritten once into one on that array, which indexes and servers know. Where the rewritten question is
//! not exact, it finds more, and the service tests an additional condition.

mod addresses;
mod conditions;
mod expressions;
mod pipelines;
mod projected;
mod references;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Bson, DateTime, Document};

use super::budget::Effort;
use super::compare::number;
use super::entry::{Entry, STORED, VALUE};
use super::error::{QueryError, code};
use super::filter::{Filter, Limits};
use super::number::Number;
use super::parse_context::Location;
use super::path::Path;
use super::projection::Projection;
use crate::suggest;

use self::references::{Joins, Lookups};

pub use conditions::BOUNDS;
pub use pipelines::{keys_beside, order_stages};
pub use references::{ARROW, Hop, Join, Lookup, plant};

/// The prefix of a path that refers to a field.
pub(super) const PREFIX: &str = "f.";
/// The array of entries in a rendered object.
pub const RENDERED: &str = "type_information.fields";

/// The collection whose documents have fields.
const OBJECTS: &str = "framework.objects";

/// How many names are proposed in place of an unknown one.
const PROPOSED: usize = 3;

/// The maximum length of a name in a path, in bytes. It bounds the time to look up a path with many dots.
const LONGEST_NAME: usize = 1024;

/// Which names of fields there are, as far as the caller may know. `types` narrows them to some types, by their ids.
pub trait FieldNames: Send + Sync {
    /// Whether a type has a field of this name.
    fn is_known(&self, name: &str, types: Option<&[i64]>) -> bool;

    /// All known names, to propose one in place of an unknown one.
    fn known(&self, types: Option<&[i64]>) -> Vec<&str>;

    /// Whether a field of this name, of whatever type, may hold an array.
    fn holds_arrays(&self, name: &str) -> bool;

    /// Whether a field of this name holds addresses in all types that have it, so that they are ordered as such.
    fn holds_addresses(&self, _name: &str, _types: Option<&[i64]>) -> bool {
        false
    }

    /// The types whose objects a field of this name refers to, in all types that have it. `None`: some do not refer.
    fn targets(&self, _name: &str, _types: Option<&[i64]>) -> Option<Vec<i64>> {
        None
    }

    /// Whether there are types whose names the caller may not know here.
    fn hides_some(&self) -> bool {
        false
    }
}

/// Reads `f.<name>` in one question about objects.
#[derive(Clone)]
pub struct Fields {
    names: Arc<dyn FieldNames>,
    /// The types that the question is about, where it says so.
    types: Option<Vec<i64>>,
    /// Whether `f` is a member like any other: documents have one, or are no objects.
    is_plain: bool,
    /// Whether a name was refused.
    has_refused: Arc<AtomicBool>,
    /// What conditions through references look up; `None` where they are refused.
    lookups: Option<Arc<Lookups>>,
    /// The reference that leads to the objects.
    behind: Option<Arc<str>>,
    /// What is joined to the objects that are found; `None` where nothing is.
    joins: Option<Arc<Joins>>,
}

/// What follows `f.`.
#[derive(Clone, Copy)]
struct FieldPath<'p> {
    name: &'p str,
    /// The path into the value, if the path does not end at the field.
    rest: Option<&'p str>,
    /// Whether its values are in the order of addresses.
    is_by_address: bool,
}

impl FieldPath<'_> {
    /// The path of a key of an order.
    fn of_order(&self) -> Path {
        if self.is_by_address { Path::of_address(self.name) } else { Path::of_field(self.name, self.rest) }
    }

    /// The path from an entry to the member that the name addresses.
    fn in_entry(&self) -> String {
        self.rest.map_or_else(|| VALUE.to_owned(), |rest| format!("{VALUE}.{rest}"))
    }

    /// Whether it may lead to an element by its position, or to an array as a whole.
    fn goes_by_position(&self) -> bool {
        let step = self.rest.and_then(|rest| rest.split('.').next());
        step.is_some_and(|step| step.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

impl Fields {
    /// Reads the names of fields that the caller may know.
    pub fn new(names: Arc<dyn FieldNames>) -> Self {
        Self {
            names,
            types: None,
            is_plain: false,
            has_refused: Arc::default(),
            lookups: None,
            behind: None,
            joins: None,
        }
    }

    /// Whether a name was refused because no type has it, here or in a copy.
    pub fn have_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }

    /// The same for objects of one type.
    #[must_use]
    pub fn of_type(self, type_id: i64) -> Self {
        Self { types: Some(vec![type_id]), ..self }
    }

    /// The same for the types that a filter is about: by `type_id` at its top.
    #[must_use]
    pub fn within(self, filter: &Document) -> Self {
        let types = self.types.or_else(|| types_of(filter));
        Self { types, ..self }
    }

    /// Compiles a client's filter, see [`Filter::parse_with`].
    ///
    /// # Errors
    /// As [`Filter::parse_with`]; a name that no type has.
    pub fn filter(
        &self,
        document: &Document,
        limits: &Limits,
        now: DateTime,
        effort: &Effort,
    ) -> Result<Filter, QueryError> {
        // Errors refer to what the client wrote, so this is read first.
        let as_sent = Filter::parse_with(document, limits, now, effort)?;
        if !mentions_fields(document) {
            return Ok(as_sent);
        }
        let rewritten = conditions::rewritten(&self.clone().within(document), document, &mut Location::new("filter"))?;
        Filter::parse_with(&rewritten, &unlimited(limits), now, effort)
    }

    /// Compiles a client's projection, see [`Projection::parse_with`]. `array` is the path of the entries in what it is applied
    /// to: [`STORED`] or [`RENDERED`].
    ///
    /// # Errors
    /// As [`Projection::parse_with`]; a name that no type has; another value than 1 or 0 for a field.
    pub fn projection(
        &self,
        document: &Document,
        array: &'static str,
        filter: &Filter,
        (limits, now): (&Limits, DateTime),
        effort: &Effort,
    ) -> Result<Projection, QueryError> {
        let as_sent = Projection::parse_with(document, filter, limits, now, effort)?;
        if !mentions_fields(document) {
            return Ok(as_sent);
        }
        let (rest, entries) = projected::rewritten(self, document, array)?;
        let projection = Projection::parse_with(&rest, filter, &unlimited(limits), now, effort)?;
        Ok(projection.with_entries(entries))
    }

    /// The path that a key of an order is; `None` when it is not one of a field.
    ///
    /// # Errors
    /// A name that no type has.
    pub fn sort_key(&self, path: &str) -> Result<Option<Path>, QueryError> {
        let field = self.resolved(path, &Location::new("sort"))?;
        Ok(field.map(|field| field.of_order()))
    }

    /// The field that a path refers to. One through references is a field where it is joined.
    fn resolved<'p>(&self, path: &'p str, at: &Location) -> Result<Option<FieldPath<'p>>, QueryError> {
        if self.goes_through(path) {
            return self.joined(path, at).map(Some);
        }
        match path.strip_prefix(PREFIX).filter(|_| !self.is_plain) {
            Some(said) => self.named(said, at).map(Some),
            None => Ok(None),
        }
    }

    /// The field that a path without its prefix refers to.
    fn named<'p>(&self, said: &'p str, at: &Location) -> Result<FieldPath<'p>, QueryError> {
        let Some(end) = self.longest(said) else { return Err(self.refused(said, at)) };
        let (name, rest) = (&said[..end], said.get(end + 1..));
        let is_by_address = rest.is_none() && self.names.holds_addresses(name, self.types.as_deref());
        Ok(FieldPath { name, rest, is_by_address })
    }

    /// Where the name in a path ends. Names may have dots: the longest one that is known counts.
    fn longest(&self, said: &str) -> Option<usize> {
        let mut ends = said.match_indices('.').map(|(position, _)| position).chain([said.len()]);
        ends.rfind(|end| *end <= LONGEST_NAME && self.names.is_known(&said[..*end], self.types.as_deref()))
    }

    fn refused(&self, name: &str, at: &Location) -> QueryError {
        self.has_refused.store(true, Ordering::Relaxed);
        at.malformed(code::BAD_VALUE, self.unknown(name))
    }

    fn unknown(&self, name: &str) -> String {
        let which = match &self.behind {
            Some(reference) => format!(" that {reference} refers to"),
            None if self.types.is_some() => " with this type_id".to_owned(),
            None => String::new(),
        };
        // The routes of types list the fields of all of them.
        let seen = if self.names.hides_some() { " whose objects you may see" } else { "" };
        let mut known = self.names.known(self.types.as_deref());
        known.sort_unstable();
        let hint = match suggest::near(name, known.into_iter(), PROPOSED).as_slice() {
            [] => "; each type lists its fields".to_owned(),
            near => format!("; did you mean {}?", near.join(" or ")),
        };
        format!("no type{which}{seen} has a field named {name:?}{hint}")
    }
}

/// The limits for what the service makes of a question that keeps the client's.
fn unlimited(limits: &Limits) -> Limits {
    let Limits { max_depth, max_nodes, max_in_items, .. } = Limits::NONE;
    Limits { max_depth, max_nodes, max_in_items, own_operator: true, ..*limits }
}

/// Whether a name or a text anywhere in it begins as those of fields do.
fn mentions_fields(document: &Document) -> bool {
    document.iter().any(|(name, value)| name.starts_with(PREFIX) || name == "f" || value_mentions_fields(value))
}

fn value_mentions_fields(value: &Bson) -> bool {
    match value {
        Bson::String(text) => text.starts_with(expressions::PREFIX) || text.starts_with(PREFIX),
        Bson::Document(document) => mentions_fields(document),
        Bson::Array(items) => items.iter().any(value_mentions_fields),
        _ => false,
    }
}

/// The ids that a condition on `type_id` at the top of a filter lists; `None` when there is none.
fn types_of(filter: &Document) -> Option<Vec<i64>> {
    filter.iter().find_map(|(name, value)| match (name.as_str(), value) {
        ("type_id", Bson::Document(said)) => match (said.get("$eq"), said.get("$in")) {
            (Some(id), _) => whole(id).map(|id| vec![id]),
            (None, Some(Bson::Array(ids))) => Some(ids.iter().filter_map(whole).collect()),
            _ => None,
        },
        ("type_id", id) => whole(id).map(|id| vec![id]),
        ("$and", Bson::Array(parts)) => parts.iter().find_map(|part| types_of(part.as_document()?)),
        _ => None,
    })
}

fn whole(value: &Bson) -> Option<i64> {
    number(value.into()).and_then(Number::as_exact_int)
}

#[cfg(test)]
mod tests;
