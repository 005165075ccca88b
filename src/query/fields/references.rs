//! `f.rack->hostname`: the field of the object that a reference leads to.
//!
//! It means what MongoDB would mean by `f.rack.hostname` if the id in `f.rack` were replaced by the fields of the object with
//! this id: `{"f": {"rack": {"hostname": "web-1"}}}`. A list of ids is a list of such documents. The id of an object that is
//! missing, hidden or of a type that the field does not refer to stays a number, which has no members.
//!
//! A condition is rewritten into one on the reference, so the objects that meet it are looked up before. The question is
//! read twice: first it notes its [`Lookup`]s, then it takes the ids that were found. In sorts and projections the values are
//! joined to the objects that are found, as fields with the path as their name, see [`Join`] and [`plant`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{Bson, Document, doc};

use super::{FieldPath, Fields, PREFIX, VALUE};
use crate::query::error::{QueryError, code};
use crate::query::parse_context::Location;

/// What leads from a reference to a field of the object.
pub const ARROW: &str = "->";
/// How many references a path may go through.
const MOST_HOPS: usize = 3;
/// How many lookups one question may need.
const MOST_LOOKUPS: usize = 16;
/// How many objects a lookup may find.
const MOST_FOUND: usize = 100_000;
/// How many paths one question may join.
const MOST_JOINS: usize = 16;

/// A path through references.
pub(super) struct Through<'p> {
    /// The path as the client wrote it.
    path: &'p str,
    /// The references on the way with the types that they lead to.
    hops: Vec<(&'p str, Vec<i64>)>,
    /// What follows the first reference.
    pub(super) rest: &'p str,
    /// The field at its end.
    pub(super) field: FieldPath<'p>,
    /// Reads the fields of the objects at its end.
    pub(super) reader: Fields,
    /// Whether a reference on the way may be a list.
    pub(super) holds_several: bool,
}

impl<'p> Through<'p> {
    /// The reference that it begins with.
    pub(super) fn reference(&self) -> FieldPath<'p> {
        FieldPath { name: self.hops[0].0, rest: None, is_by_address: false }
    }

    /// The path without its prefix, up to the end of the name of the field.
    fn name(&self) -> &'p str {
        let after = self.field.rest.map_or(0, |rest| rest.len() + 1);
        &self.path[PREFIX.len()..self.path.len() - after]
    }
}

/// The objects that must be known before a question is asked: those of these types that meet a condition.
#[derive(Debug, Clone)]
pub struct Lookup {
    /// The path of the condition that needs it.
    pub path: String,
    /// The types of the objects.
    pub types: Vec<i64>,
    /// The condition on their fields, as a client would write it.
    pub condition: Document,
    /// How many objects it may find.
    pub most: usize,
    /// The refusal of more.
    pub too_many: QueryError,
    /// The ids that were found.
    pub found: Option<Arc<[i64]>>,
}

impl Lookup {
    /// The filter that finds its objects.
    pub fn filter(&self) -> Document {
        let mut filter = doc! { "type_id": { "$in": self.types.clone() } };
        filter.extend(self.condition.clone());
        filter
    }
}

/// The lookups of one question.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<Vec<Lookup>>);

impl Lookups {
    fn all(&self) -> MutexGuard<'_, Vec<Lookup>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that is joined to objects: the field of an object that is referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The path without `f.`, which is the name of the joined field.
    pub name: String,
    /// The references on the way, the object's own one first.
    pub hops: Vec<Hop>,
    /// The field of the object at its end.
    pub field: String,
}

/// A reference on the way of a [`Join`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The name of the field.
    pub field: String,
    /// The types of the objects that it leads to.
    pub types: Vec<i64>,
}

/// What one sort or projection joins.
#[derive(Debug, Default)]
pub(super) struct Joins(Mutex<Vec<Join>>);

impl Joins {
    fn all(&self) -> MutexGuard<'_, Vec<Join>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fields {
    /// The same; conditions may go through references. Ask for [`Fields::unanswered`] when the question is read.
    #[must_use]
    pub fn looking_up(self) -> Self {
        Self { lookups: Some(Arc::default()), ..self }
    }

    /// The same without conditions through references.
    #[must_use]
    pub fn without_lookups(self) -> Self {
        Self { lookups: None, ..self }
    }

    /// The same for a sort or a projection whose [`Fields::joined_paths`] are joined to what is found.
    #[must_use]
    pub fn joining(self) -> Self {
        let joins = self.lookups.is_some().then(Arc::default);
        Self { joins, ..self }
    }

    /// The lookups whose ids are missing. The question that noted them holds nothing of them yet.
    pub fn unanswered(&self) -> Vec<Lookup> {
        self.looked_up().into_iter().filter(|lookup| lookup.found.is_none()).collect()
    }

    /// All lookups, here or in a copy.
    pub fn looked_up(&self) -> Vec<Lookup> {
        self.lookups.as_ref().map_or_else(Vec::new, |lookups| lookups.all().clone())
    }

    /// How many ids were found.
    pub fn ids_found(&self) -> usize {
        let found = self.looked_up().into_iter().filter_map(|lookup| lookup.found);
        found.map(|found| found.len()).sum()
    }

    /// Takes the ids of objects that a lookup found.
    pub fn answer(&self, lookup: &Lookup, found: Vec<i64>) {
        let Some(lookups) = &self.lookups else { return };
        let mut lookups = lookups.all();
        let is_it = |known: &&mut Lookup| known.types == lookup.types && known.condition == lookup.condition;
        if let Some(known) = lookups.iter_mut().find(is_it) {
            known.found = Some(found.into());
        }
    }

    /// What a sort or a projection joins that was read by this.
    pub fn joined_paths(&self) -> Vec<Join> {
        self.joins.as_ref().map_or_else(Vec::new, |joins| joins.all().clone())
    }

    /// Whether a field of this name is joined.
    pub(super) fn is_joined(&self, name: &str) -> bool {
        self.joins.as_ref().is_some_and(|joins| joins.all().iter().any(|join| join.name == name))
    }

    /// Whether a path goes through references. A name that has an arrow itself comes first.
    pub(super) fn goes_through(&self, path: &str) -> bool {
        path.strip_prefix(PREFIX).is_some_and(|said| !self.is_plain && self.first_hop(said).is_some())
    }

    /// The reference that a path begins with, and what follows it.
    fn first_hop<'p>(&self, said: &'p str) -> Option<(&'p str, &'p str)> {
        let (reference, rest) = said.split_once(ARROW)?;
        let is_known = self.names.is_known(reference, self.types.as_deref());
        match self.longest(said) {
            Some(end) if end > reference.len() || !is_known => None,
            _ => Some((reference, rest)),
        }
    }

    /// The path through references.
    pub(super) fn through<'p>(&self, path: &'p str, at: &Location) -> Result<Through<'p>, QueryError> {
        let (mut reader, mut rest, mut hops) = (self.clone(), &path[PREFIX.len()..], Vec::new());
        let mut holds_several = false;
        while let Some((reference, after)) = reader.first_hop(rest) {
            if hops.len() == MOST_HOPS {
                return Err(at.limit(format!("a path goes through {MOST_HOPS} references at most; use a $lookup")));
            }
            let types = reader.types.as_deref();
            if !reader.names.is_known(reference, types) {
                return Err(reader.refused(reference, at));
            }
            let Some(targets) = reader.names.targets(reference, types) else {
                let message = format!(
                    "{reference} is no reference in some types that have it, so nothing follows it; write a field of the kind \
                     ref or refs in front of {ARROW}, and a type_id at the top of the filter to say which types"
                );
                return Err(at.malformed(code::BAD_VALUE, message));
            };
            holds_several |= reader.names.holds_arrays(reference);
            reader = Self { types: Some(targets.clone()), behind: Some(reference.into()), ..reader };
            hops.push((reference, targets));
            rest = after;
        }
        let field = reader.named(rest, at)?;
        let rest = path.split_once(ARROW).map_or("", |(_, rest)| rest);
        Ok(Through { path, hops, rest, field, reader, holds_several })
    }

    /// The ids of the objects at the end of the first reference that meet a condition; none before they are looked up.
    pub(super) fn ids(&self, path: &Through<'_>, condition: Document, at: &Location) -> Result<Vec<Bson>, QueryError> {
        let Some(lookups) = &self.lookups else { return Err(refusal(path.path, at)) };
        let (mut lookups, types) = (lookups.all(), &path.hops[0].1);
        if let Some(known) = lookups.iter().find(|known| known.types == *types && known.condition == condition) {
            let ids = known.found.iter().flat_map(|found| found.iter().copied());
            return Ok(ids.map(Bson::Int64).collect());
        }
        if lookups.len() == MOST_LOOKUPS {
            let message = format!("more than {MOST_LOOKUPS} lookups through references; send several requests");
            return Err(at.limit(message));
        }
        let too_many = at.limit(format!(
            "more than {MOST_FOUND} objects that are referred to must be looked up for this; narrow the condition, or use a \
             pipeline with $lookup"
        ));
        let (path, types) = (path.path.to_owned(), types.clone());
        lookups.push(Lookup { path, types, condition, most: MOST_FOUND, too_many, found: None });
        Ok(Vec::new())
    }

    /// The field that stands for a path through references once it is joined.
    pub(super) fn joined<'p>(&self, path: &'p str, at: &Location) -> Result<FieldPath<'p>, QueryError> {
        let through = self.through(path, at)?;
        let Some(joins) = &self.joins else { return Err(refusal(path, at)) };
        let hop = |(field, types): &(&str, Vec<i64>)| Hop { field: (*field).to_owned(), types: types.clone() };
        let name = through.name();
        let join = Join {
            name: name.to_owned(),
            hops: through.hops.iter().map(hop).collect(),
            field: through.field.name.to_owned(),
        };
        let mut joins = joins.all();
        if !joins.contains(&join) {
            if joins.len() == MOST_JOINS {
                return Err(at.limit(format!("more than {MOST_JOINS} paths through references; send several requests")));
            }
            joins.push(join);
        }
        Ok(FieldPath { name, ..through.field })
    }
}

fn refusal(path: &str, at: &Location) -> QueryError {
    let message = format!(
        "{path} goes through a reference; {ARROW} is for conditions of filters, and for sort and projection of lists: here use \
         fields of the objects themselves, or a pipeline with $lookup"
    );
    at.malformed(code::BAD_VALUE, message)
}

/// Adds joined values to the entries of an object; `array` is the path of these.
pub fn plant(object: &mut Document, array: &str, values: &[(&str, Bson)]) {
    let (mut inner, mut steps) = (object, array.split('.').peekable());
    while let Some(step) = steps.next() {
        if steps.peek().is_some() {
            let Ok(next) = inner.get_document_mut(step) else { return };
            inner = next;
            continue;
        }
        if let Ok(entries) = inner.get_array_mut(step) {
            entries.extend(values.iter().map(|(name, value)| Bson::from(doc! { "name": *name, VALUE: value.clone() })));
        }
    }
}
