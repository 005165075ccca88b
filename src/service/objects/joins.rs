//! Values of objects that others refer to, joined to these: `f.rack->hostname` in sorts and projections.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};
use futures::TryStreamExt;

use super::rendering::EDIT;
use crate::admission::{self, Share, is_over};
use crate::domain::document::integer;
use crate::domain::object_type::Field;
use crate::json;
use crate::query::compare::number;
use crate::query::number::Number;
use crate::query::{Filter, Hop, Join, RENDERED, STORED, Sort, plant};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::queries::list_query::ListQuery;
use crate::service::resource::{self, Listed, Objects, Resource};
use crate::service::services::Services;
use crate::service::types::late;
use crate::store::{Best, Documents, FindQuery, Page, SortedBy, StoreError};

/// The values that are joined to one object, by their names.
pub type Joined = Vec<(String, Bson)>;

/// How many objects one query looks up.
const AT_ONCE: usize = 10_000;
/// A page may have this many bytes.
const MAX_PAGE_BYTES: usize = 64 * 1024 * 1024;

/// Reads the objects that others refer to, and remembers what it needs of them.
pub struct Joiner<'a> {
    services: &'a Services,
    caller: &'a Caller,
    joins: &'a [Join],
    /// For each join and each reference on its way: by the ids of the objects what the next step takes of them.
    known: Vec<Vec<HashMap<i64, Option<Bson>>>>,
    hides_passwords: bool,
    bytes: usize,
    share: Share,
}

impl<'a> Joiner<'a> {
    /// For objects that are shown rendered or as they are stored.
    pub fn new(services: &'a Services, caller: &'a Caller, joins: &'a [Join], is_rendered: bool) -> Self {
        let known = joins.iter().map(|join| vec![HashMap::new(); join.hops.len()]).collect();
        let hides_passwords = is_rendered && !caller.rights.grants(EDIT);
        Self { services, caller, joins, known, hides_passwords, bytes: 0, share: admission::current().share() }
    }

    /// The values that are joined to each of the objects.
    ///
    /// # Errors
    /// Errors of the store, and too much memory.
    pub async fn values(&mut self, objects: &Documents) -> Result<Vec<Joined>, ServiceError> {
        let mut all: Vec<Joined> = vec![Vec::new(); objects.len()];
        for (index, join) in self.joins.iter().enumerate() {
            let first = &join.hops[0].field;
            let references: Vec<Option<Bson>> = objects.iter().map(|object| value_of(object, first)).collect();
            let mut ids: BTreeSet<i64> = references.iter().flatten().flat_map(ids_in).collect();
            for (depth, hop) in join.hops.iter().enumerate() {
                let next = join.hops.get(depth + 1).map_or(&join.field, |next| &next.field);
                self.read((index, depth), hop, next, &ids).await?;
                let values = ids.iter().filter_map(|id| self.known[index][depth].get(id)?.as_ref());
                ids = values.flat_map(ids_in).collect();
            }
            for (joined, reference) in all.iter_mut().zip(&references) {
                let value = reference.as_ref().and_then(|reference| led_to(reference, &self.known[index]));
                joined.extend(value.map(|value| (join.name.clone(), value)));
            }
        }
        Ok(all)
    }

    /// Reads what is not known yet.
    async fn read(
        &mut self,
        (join, depth): (usize, usize),
        hop: &Hop,
        field: &str,
        ids: &BTreeSet<i64>,
    ) -> Result<(), ServiceError> {
        let missing: Vec<i64> = ids.iter().copied().filter(|id| !self.known[join][depth].contains_key(id)).collect();
        let types = self.services.current_types().await?;
        for ids in missing.chunks(AT_ONCE) {
            let filter = doc! { "public_id": { "$in": ids }, "type_id": { "$in": hop.types.clone() } };
            let filter = types.scope(self.caller, Filter::ours(&filter));
            let query = FindQuery::new(filter, self.services.max_time)
                .showing(&doc! { "public_id": 1, "type_id": 1, STORED: 1, "_id": 0 });
            let found = self.services.store.find(Objects::COLLECTION, &query).await?;
            let is_hidden = |object: &RawDocument| {
                let entry = integer(object, "type_id").and_then(|id| types.get(id));
                let field = entry.and_then(|entry| entry.object_type.field(field));
                // A field that the type does not have may have held passwords.
                self.hides_passwords && field.is_none_or(Field::is_password)
            };
            let values = found.iter().filter_map(|object| {
                let value = value_of(object, field).filter(|_| !is_hidden(object));
                Some((integer(object, "public_id")?, value))
            });
            let values: HashMap<i64, Option<Bson>> = values.collect();
            self.bytes += found.bytes() + ids.len() * 2 * size_of::<Bson>();
            self.known[join][depth].extend(ids.iter().map(|id| (*id, None)));
            self.known[join][depth].extend(values);
            self.share.cover(self.bytes)?;
        }
        Ok(())
    }
}

/// The values that are joined to each object of a page.
///
/// # Errors
/// As [`Joiner::values`].
pub async fn values(
    services: &Services,
    caller: &Caller,
    joins: &[Join],
    (page, is_rendered): (&Documents, bool),
) -> Result<Vec<Joined>, ServiceError> {
    Joiner::new(services, caller, joins, is_rendered).values(page).await
}

/// The object with joined values among its entries, whose path is `array`.
///
/// # Errors
/// When it becomes too large.
pub fn with_values(
    mut object: Document,
    array: &str,
    joined: &[(String, Bson)],
) -> Result<RawDocumentBuf, ServiceError> {
    let values: Vec<(&str, Bson)> = joined.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    plant(&mut object, array, &values);
    resource::encode(&object)
}

/// A view with joined values. Views are written directly as JSON, so the JSON is parsed here: projections of views are rare.
///
/// # Errors
/// As [`with_values`].
pub fn view_with_values(view: &[u8], joined: &[(String, Bson)]) -> Result<RawDocumentBuf, ServiceError> {
    let text = std::str::from_utf8(view).expect("a view is JSON text");
    let document = json::read::trusted_document_from_str(text)
        .map_err(|error| StoreError::Corrupt { what: format!("a rendered view: {error}") })?;
    with_values(document, RENDERED, joined)
}

/// The value of a field; of several entries of one name an array.
fn value_of(object: &RawDocument, field: &str) -> Option<Bson> {
    let entries = object.get_array(STORED).ok()?;
    let entries = entries.into_iter().filter_map(|entry| entry.ok()?.as_document());
    let named = entries.filter(|entry| entry.get_str("name").is_ok_and(|name| name == field));
    let mut values: Vec<Bson> = named.filter_map(|entry| Bson::try_from(entry.get("value").ok()??).ok()).collect();
    if values.len() > 1 { Some(values.into()) } else { values.pop() }
}

/// The ids in a reference.
fn ids_in(reference: &Bson) -> Vec<i64> {
    match reference {
        Bson::Array(items) => items.iter().filter_map(id_of).collect(),
        one => id_of(one).into_iter().collect(),
    }
}

fn id_of(value: &Bson) -> Option<i64> {
    number(value.into()).and_then(Number::as_exact_int)
}

/// What a reference leads to by these steps; of a list what its elements lead to.
fn led_to(reference: &Bson, steps: &[HashMap<i64, Option<Bson>>]) -> Option<Bson> {
    let Some((known, further)) = steps.split_first() else { return Some(reference.clone()) };
    let one = |id: &Bson| led_to(known.get(&id_of(id)?)?.as_ref()?, further);
    match reference {
        Bson::Array(items) => Some(items.iter().filter_map(one).collect::<Vec<_>>().into()),
        id => one(id),
    }
}

/// A page of a list in an order that goes through references. All objects that match are read, so that their keys can be
/// compared: what must be kept of them counts in the memory of the request, as in a sort without an index.
///
/// # Errors
/// Too many objects or a page that is too large, and errors of the store.
pub async fn list(services: &Services, caller: &Caller, mut query: ListQuery) -> Result<Listed, ServiceError> {
    let sort = std::mem::take(&mut query.sort);
    if query.explain {
        let listed = late::list::<Objects>(services, caller, &query, |types| types.visible_to(caller)).await?.0;
        return Ok(match listed {
            Listed::Explained(mut explanation) => {
                explanation.sort = SortedBy::Memory;
                Listed::Explained(explanation)
            }
            listed => listed,
        });
    }
    let guard = services.types_anew().await?.visible_to(caller);
    let filter = guard.map_or_else(|| query.filter.clone(), |guard| query.filter.clone().guarded_by(guard));
    let (ids, total) = ordered(services, caller, (&query, filter.clone()), &sort).await?;
    let one_of = filter.and(Filter::one_of("public_id", ids.iter().copied()));
    let question =
        FindQuery { filter: one_of, projection: query.projection, ..FindQuery::new(Filter::all(), services.max_time) };
    let found = services.store.find(Objects::COLLECTION, &question.within(MAX_PAGE_BYTES)).await;
    let found = match found {
        Err(StoreError::TooLarge) => {
            let message = format!("limit: the page has more than {} MiB; ask for fewer", MAX_PAGE_BYTES >> 20);
            return Err(ServiceError::refused(ErrorCode::ParameterInvalid, message));
        }
        found => found?,
    };
    let places: HashMap<i64, usize> =
        found.iter().enumerate().filter_map(|(place, object)| Some((integer(object, "public_id")?, place))).collect();
    let documents = ids.iter().filter_map(|id| found.get(*places.get(id)?)).collect();
    Ok(Listed::Page(Page { documents, total, hint: None }))
}

/// The ids of a page in its order, and how many objects match.
async fn ordered(
    services: &Services,
    caller: &Caller,
    (query, filter): (&ListQuery, Filter),
    sort: &Sort,
) -> Result<(Vec<i64>, u64), ServiceError> {
    let end = Instant::now().checked_add(services.max_time);
    let mut question = FindQuery::new(filter, services.max_time);
    question.is_counted = false;
    let mut best = Best::new(
        &FindQuery { skip: (query.page - 1).saturating_mul(query.limit), ..question.clone() }
            .sorted(sort.clone())
            .limited(query.limit),
        admission::current().share(),
    );
    let mut joiner = Joiner::new(services, caller, &query.through.sort, false);
    let mut chunks = services.store.chunks(Objects::COLLECTION, &question).await?.documents;
    let mut total = 0;
    while let Some(chunk) = chunks.try_next().await? {
        if end.is_some_and(is_over) {
            return Err(StoreError::Timeout.into());
        }
        let joined = joiner.values(&chunk).await?;
        total += chunk.len() as u64;
        let sort = sort.clone();
        let offered = admission::work(move |_| {
            for (object, joined) in chunk.iter().zip(joined) {
                let id = integer(object, "public_id").and_then(|id| u64::try_from(id).ok()).unwrap_or_default();
                let whole = with_values(resource::decode(object)?, STORED, &joined)?;
                let key = sort.key_of(&whole)?;
                best.offer(key, id)?;
            }
            Ok::<_, ServiceError>(best)
        });
        best = offered.await??;
    }
    Ok((best.into_page().filter_map(|id| i64::try_from(id).ok()).collect(), total))
}
