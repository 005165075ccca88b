//! Lists of objects by an index of their type. What is asked of the objects is asked of their values in `service.indexed`, whose
//! order is that of the list. Only the objects of the page are read.
//!
//! *Law:* the answer is that of the objects themselves. A document there has the values of single entries, so what holds for
//! `f.<name>` holds for its value. Where an object has more than that, or documents are still being made, no index answers. All is
//! read from one moment: the type, what is left to be made, the values, and the objects.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};
use futures::try_join;

use super::documents::{VALUES, unfit};
use super::state::{Left, is_made, works};
use crate::domain::document::{integer, number, raw};
use crate::domain::type_indexes::{IndexedField, TypeIndex};
use crate::query::{BOUNDS, BY_ADDRESS, Demand, Filter, Limits, Node, OWN_OPERATOR, Path, STORED, Sort};
use crate::service::types::catalog::{TypeCatalog, TypeEntry};
use crate::store::collections::{INDEXED, SLOTS, TYPES};
use crate::store::{Explanation, FindQuery, IndexUse, KeyUse, Located, Step, Store, StoreError, Total};

/// A page of more objects is not found by their ids.
const MOST: u64 = 1000;

/// A question of objects as one of their values in an index.
pub(in crate::service) struct IndexQuery<'q> {
    /// The question.
    query: &'q FindQuery,
    entry: Arc<TypeEntry>,
    slot: Slot,
    /// The same question of values.
    values: FindQuery,
}

/// What one document says, by the name of the member.
type Condition<'q> = (&'q str, &'q Bson);

impl<'q> IndexQuery<'q> {
    /// The question of values in an index of the type that the list is about, if one has all its conditions and its order.
    ///
    /// # Errors
    /// Errors of the store.
    pub(in crate::service) async fn of(
        types: &TypeCatalog,
        store: &dyn Store,
        query: &'q FindQuery,
    ) -> Result<Option<Self>, StoreError> {
        let may_have_one = (1..=MOST).contains(&query.limit) && !query.sort.is_empty() && store.traits().tells_edits;
        let Some((type_id, said)) = may_have_one.then(|| of_type(&query.filter)).flatten() else { return Ok(None) };
        let types = types.current(store, query.max_time).await?;
        let Some(entry) = types.get(type_id) else { return Ok(None) };
        let slots = SLOTS.into_iter().zip(TypeIndex::all_of(&entry.object_type));
        let mut asked = slots.filter_map(|(name, index)| {
            let slot = Slot { name, index };
            slot.asked(type_id, &said, query).map(|values| (slot, values))
        });
        Ok(asked.next().map(|(slot, values)| Self { query, entry: Arc::clone(entry), slot, values }))
    }

    /// The objects of the page, in one moment of the store; nothing where the index does not know all objects of the type.
    ///
    /// # Errors
    /// Errors of the store.
    pub(in crate::service) async fn located(
        &self,
        store: &dyn Store,
        total: Total,
    ) -> Result<Option<Located>, StoreError> {
        let store = store.frozen(self.query.max_time).await?;
        if !self.is_complete(&*store).await? {
            return Ok(None);
        }
        let page = store.read(INDEXED, &self.values, total).await?;
        let id = |document: &RawDocument| integer(document.get_document(self.slot.name).ok()?, "o");
        let ids: Vec<i64> = page.documents.iter().filter_map(id).collect();
        let count = ids.len();
        let filter = self.query.filter.clone().and(Filter::one_of("public_id", ids));
        let query = FindQuery { filter, skip: 0, limit: 0, is_counted: false, ..self.query.clone() };
        Ok(Some(Located { store, query, count, total: page.total }))
    }

    /// How the page is found; nothing as in [`IndexQuery::located`].
    ///
    /// # Errors
    /// Errors of the store.
    pub(in crate::service) async fn explained(&self, store: &dyn Store) -> Result<Option<Explanation>, StoreError> {
        let store = store.frozen(self.query.max_time).await?;
        if !self.is_complete(&*store).await? {
            return Ok(None);
        }
        let of_values = store.explain(INDEXED, &self.values).await?;
        Ok(Some(Explanation {
            plan: self.shown(of_values.plan),
            documents_examined: of_values.documents_examined.map(|examined| examined + of_values.returned),
            hint: None,
            ..of_values
        }))
    }

    /// Whether the documents are those of all objects, by the type as it is known here.
    async fn is_complete(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let (type_id, max_time) = (self.entry.object_type.public_id, self.query.max_time);
        let slot = Filter::equals(&self.slot.path("t"), unfit(type_id));
        let is_same = self.is_same_type(store, max_time);
        let (is_same, works, has_unfit) =
            try_join!(is_same, works(store, max_time), store.has_any(INDEXED, slot, max_time))?;
        Ok(is_same && is_made(&works) && !Left::of(&works).concerns(type_id) && !has_unfit)
    }

    async fn is_same_type(&self, store: &dyn Store, max_time: Duration) -> Result<bool, StoreError> {
        let indexes = self.entry.document.get("indexes").ok().flatten().and_then(|it| Bson::try_from(it).ok());
        let same = Filter::equals("public_id", self.entry.object_type.public_id)
            .and(Filter::equals("last_edit_time", self.entry.edited()))
            .and(Filter::equals("indexes", indexes.unwrap_or(Bson::Null)));
        let query = FindQuery::new(same, max_time).showing(&doc! { "_id": 1 }).limited(1);
        Ok(!store.find(TYPES, &query).await?.is_empty())
    }

    /// A plan in the words of the type.
    fn shown(&self, step: Step) -> Step {
        let all = |of: Vec<Step>| of.into_iter().map(|step| self.shown(step)).collect();
        match step {
            Step::Index(used) => Step::Index(IndexUse {
                index: format!("type {}: {}", self.entry.object_type.public_id, self.slot.names().join(", ")),
                keys: used.keys.into_iter().filter_map(|key| self.slot.shown(key)).collect(),
                ..used
            }),
            Step::Union { of } => Step::Union { of: all(of) },
            Step::Intersection { of } => Step::Intersection { of: all(of) },
            other => other,
        }
    }
}

/// The one type that a question is about, and what else it says; nothing where a caller may not see its objects.
fn of_type(filter: &Filter) -> Option<(i64, Vec<Condition<'_>>)> {
    if matches!(filter.tree(), Node::Path(path, _) if path.as_str() != "type_id") {
        return None;
    }
    let question = filter.guarded().map_or(filter, |guarded| &guarded.question);
    let mut said = Vec::new();
    parts(question.document(), &mut said);
    let (of_type, others): (Vec<Condition<'_>>, Vec<Condition<'_>>) =
        said.into_iter().partition(|(name, _)| *name == "type_id");
    let [(_, value)] = of_type[..] else { return None };
    let type_id = number(equal(value)?)?;
    let is_seen = filter.guarded().is_none_or(|guarded| {
        let is_about_types = guarded.guard.document().keys().eq(["type_id"]);
        is_about_types && guarded.guard.matches(&raw(&doc! { "type_id": type_id })).unwrap_or(false)
    });
    is_seen.then_some((type_id, others))
}

/// The conditions that must all hold.
fn parts<'q>(filter: &'q Document, said: &mut Vec<Condition<'q>>) {
    for (name, value) in filter {
        match value {
            Bson::Array(all) if name == "$and" => {
                all.iter().filter_map(Bson::as_document).for_each(|part| parts(part, said));
            }
            value => said.push((name, value)),
        }
    }
}

/// The value that a condition wants.
fn equal(said: &Bson) -> Option<&Bson> {
    match said {
        Bson::Document(operators) if operators.keys().eq(["$eq"]) => operators.get("$eq"),
        Bson::Document(_) => None,
        value => Some(value),
    }
}

/// Whether a value is compared with single values alone, and has only itself as an equal.
fn is_single(value: &Bson) -> bool {
    matches!(
        value,
        Bson::String(_)
            | Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Double(_)
            | Bson::Decimal128(_)
            | Bson::Boolean(_)
            | Bson::DateTime(_)
            | Bson::ObjectId(_)
    )
}

/// Whether a condition only compares with single values and null.
fn only_compares(said: &Bson) -> bool {
    let is_value = |value: &Bson| is_single(value) || *value == Bson::Null;
    match said {
        Bson::Document(operators) => operators.iter().all(|(operator, operand)| match (operator.as_str(), operand) {
            ("$in" | "$nin", Bson::Array(values)) => values.iter().all(is_value),
            ("$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte", value) => is_value(value),
            ("$exists", Bson::Boolean(_)) => true,
            _ => false,
        }),
        value => is_value(value),
    }
}

/// Whether a condition is bounds.
fn bounds(said: &Bson) -> bool {
    said.as_document().is_some_and(|said| said.keys().all(|operator| BOUNDS.contains(&operator.as_str())))
}

/// How many values a condition leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    One,
    Some,
}

/// A slot of the documents, with the index that is in it.
struct Slot {
    name: &'static str,
    index: TypeIndex,
}

impl Slot {
    fn names(&self) -> Vec<&str> {
        self.index.fields.iter().map(|field| field.name.as_str()).collect()
    }

    fn path(&self, member: &str) -> String {
        format!("{}.{member}", self.name)
    }

    fn value(&self, place: usize) -> String {
        self.path(VALUES[place].as_str())
    }

    /// A field of the index, with its place.
    fn field(&self, name: &str) -> Option<(usize, &IndexedField)> {
        self.index.fields.iter().enumerate().find(|(_, field)| field.name == name)
    }

    /// The question of the values in this slot.
    fn asked(&self, type_id: i64, said: &[Condition<'_>], query: &FindQuery) -> Option<FindQuery> {
        let mut leaves = vec![None; self.index.fields.len()];
        for (place, left) in said.iter().filter_map(|said| self.equality(*said)) {
            leaves[place] = if leaves[place] == Some(Leaves::One) { leaves[place] } else { Some(left) };
        }
        let bound = leaves.iter().take_while(|leaves| leaves.is_some()).count();
        let sort = self.order(&query.sort, (bound, &leaves))?;
        let mut conditions = vec![doc! { self.path("t"): type_id }];
        for said in said {
            // Others would be tested on many keys, and another index may be about them.
            conditions.push(self.condition(*said, bound)?);
        }
        let filter = Filter::parse(&doc! { "$and": conditions }, &Limits::NONE).ok()?;
        // The guard holds for all that is found here, and the same may be sent to a server.
        let is_plain = query.filter.guarded().is_none() || filter.demand() == Demand::Plain;
        let values = FindQuery { filter, projection: None, sort, max_bytes: usize::MAX, ..query.clone() };
        is_plain.then(|| values.showing(&doc! { "_id": 0, self.path("o"): 1 }))
    }

    /// The field that must have one of some values.
    fn equality(&self, (name, said): Condition<'_>) -> Option<(usize, Leaves)> {
        let entry = said.as_document().filter(|_| name == STORED)?.get_document("$elemMatch").ok()?;
        let (place, value) = self.entry(entry)?;
        match (equal(value), value) {
            (Some(one), _) => is_single(one).then_some((place, Leaves::One)),
            (None, Bson::Document(operators)) if operators.keys().eq(["$in"]) => {
                let values = operators.get_array("$in").ok()?;
                (!values.is_empty() && values.iter().all(is_single)).then_some((place, Leaves::Some))
            }
            _ => None,
        }
    }

    /// A condition on the entry of a field: its place, and what its value must be. One that an object without the entry could
    /// meet is none of the entry.
    fn entry<'q>(&self, entry: &'q Document) -> Option<(usize, &'q Bson)> {
        let (name, said) = (entry.get_str("name").ok()?, entry.get("value")?);
        let (place, field) = self.field(name)?;
        let is_missed = || {
            let filter = Filter::parse(&doc! { "value": said.clone() }, &Limits::NONE);
            filter.is_ok_and(|filter| !filter.matches(&raw(&doc! {})).unwrap_or(true))
        };
        (entry.len() == 2 && !field.is_by_address && only_compares(said) && is_missed()).then_some((place, said))
    }

    /// The same condition on values. It is about one of the first fields, up to `most`, or about the id.
    fn condition(&self, (name, said): Condition<'_>, most: usize) -> Option<Document> {
        let of_entry = |entry: &Document| {
            let (place, said) = self.entry(entry).filter(|(place, _)| *place <= most)?;
            Some(doc! { self.value(place): said.clone() })
        };
        match (name, said) {
            // Single ids are keys of another index.
            ("public_id", said) if only_compares(said) && (most == usize::MAX || self.is_bounded(said, most)) => {
                Some(doc! { self.path("o"): said.clone() })
            }
            (STORED, Bson::Document(said)) if said.len() == 1 => match (said.get("$elemMatch"), said.get("$not")) {
                (Some(Bson::Document(entry)), _) => of_entry(entry),
                (_, Some(Bson::Document(not))) if not.keys().eq(["$elemMatch"]) => {
                    Some(doc! { "$nor": [of_entry(not.get_document("$elemMatch").ok()?)?] })
                }
                _ => None,
            },
            (OWN_OPERATOR, Bson::Document(own)) => {
                let (place, field) = self.field(own.get_str("name").ok()?)?;
                let is_its = own.get_bool(BY_ADDRESS).unwrap_or(false) == field.is_by_address;
                let is_whole = !own.contains_key("rest") && place <= most;
                (is_its && is_whole).then(|| own.get("is").map(|said| doc! { self.value(place): said.clone() }))?
            }
            // Only a cursor has the id in alternatives.
            ("$or", Bson::Array(branches)) if most == usize::MAX || names_id(branches) => self.logical(name, branches),
            ("$and" | "$nor", Bson::Array(branches)) if most == usize::MAX => self.logical(name, branches),
            _ => None,
        }
    }

    /// Whether a condition is bounds of the key that comes next when all fields have their values.
    fn is_bounded(&self, said: &Bson, most: usize) -> bool {
        bounds(said) && most >= self.index.fields.len()
    }

    fn logical(&self, name: &str, branches: &[Bson]) -> Option<Document> {
        let branch = |branch: &Bson| {
            let all = branch.as_document()?.iter().map(|(name, said)| self.condition((name, said), usize::MAX));
            Some(doc! { "$and": all.collect::<Option<Vec<Document>>>().filter(|all| !all.is_empty())? })
        };
        Some(doc! { name: branches.iter().map(branch).collect::<Option<Vec<Document>>>()? })
    }

    /// The order of values that is this order of objects. `bound` fields have one of some values, as `leaves` says.
    fn order(&self, sort: &Sort, (bound, leaves): (usize, &[Option<Leaves>])) -> Option<Sort> {
        let (mut places, mut descending, mut of_id) = (Vec::new(), None, None);
        for key in sort.keys() {
            if key.path.as_str() == "public_id" {
                of_id = Some(key.descending);
                break;
            }
            let place = self.place_of(&key.path)?;
            if leaves[place] != Some(Leaves::One) {
                let is_same = descending.is_none_or(|descending| descending == key.descending);
                (places, descending) = is_same.then_some(([places, vec![place]].concat(), Some(key.descending)))?;
            }
        }
        let (of_id, count) = (of_id?, self.index.fields.len());
        let begin = count - places.len().min(count);
        if begin > bound || !places.into_iter().eq(begin..count) {
            return None;
        }
        let descending = descending.unwrap_or(of_id);
        let values = (begin..VALUES.len()).map(|place| self.value(place));
        let id = self.path(if of_id == descending { "o" } else { "n" });
        Some(values.chain([id]).fold(Sort::default(), |sort, path| sort.then(&path, descending)))
    }

    /// The place of the field whose whole value a path leads to.
    fn place_of(&self, path: &Path) -> Option<usize> {
        let entry = path.entry()?;
        let (place, field) = self.field(entry.name())?;
        let is_whole = path.as_str().strip_prefix("f.") == Some(entry.name());
        (is_whole && entry.is_by_address() == field.is_by_address).then_some(place)
    }

    /// A key in the words of the type; nothing for a place without a field.
    fn shown(&self, key: KeyUse) -> Option<KeyUse> {
        let member = key.path.strip_prefix(self.name)?.strip_prefix('.')?;
        let (path, order) = match member {
            "t" => ("type_id".to_owned(), key.order),
            "o" => ("public_id".to_owned(), key.order),
            "n" => ("public_id".to_owned(), -key.order),
            value => {
                let place = VALUES.iter().position(|name| name.as_str() == value)?;
                (format!("f.{}", self.index.fields.get(place)?.name), key.order)
            }
        };
        Some(KeyUse { path, order, ..key })
    }
}

fn names_id(branches: &[Bson]) -> bool {
    let has_it = |value: &Bson| match value {
        Bson::Document(document) => document.iter().any(|(name, value)| {
            name == "public_id" || (name == "$and" && value.as_array().is_some_and(|parts| names_id(parts)))
        }),
        _ => false,
    };
    branches.iter().any(has_it)
}
