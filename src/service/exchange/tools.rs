//! What MongoDB tools may read: collections as a caller sees them, with the rights and access lists of REST.
//!
//! Each type that a caller may see is one more of them, see [`tables`].
//!
//! Documents are the stored ones with their `_id`. Users come without a member `password`, which another tool may have
//! stored: it is taken out before anything of a query is evaluated.
//!
//! *Invariant:* a [`Reach`] is the only way to documents, and it carries the guard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::RawDocumentBuf;
use bson::{DateTime, doc};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::tables;
use crate::admission::{self, Means};
use crate::domain::acl::Permission;
use crate::domain::document::{integer, without};
use crate::domain::object_type::ObjectType;
use crate::query::pipeline::{Front, Terms, Unseen};
use crate::query::{Budget, Effort, Filter, Limits, Pipeline, QueryError, Table};
use crate::service::accounts::directory::Caller;
use crate::service::accounts::rights;
use crate::service::error::ServiceError;
use crate::service::services::Services;
use crate::service::types::catalog::{Types, VIEW_TYPES};
use crate::store::collections::{self, CATEGORIES, GROUPS, OBJECTS, SETTINGS, TYPES, USERS};
use crate::store::evaluate::{self, Results};
use crate::store::{self, AggregateQuery, Chunks, Documents, Explanation, FindQuery, IndexSpec, Step, StoreError};

/// A collection that tools know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolCollection {
    /// Its name.
    pub name: &'static str,
    right: &'static str,
}

/// All of them, by name.
pub const COLLECTIONS: [ToolCollection; 6] = [
    ToolCollection { name: CATEGORIES, right: "base.framework.category.view" },
    OF_OBJECTS,
    ToolCollection { name: TYPES, right: "base.framework.type.view" },
    ToolCollection { name: GROUPS, right: "base.user-management.group.view" },
    ToolCollection { name: USERS, right: VIEW_USERS },
    ToolCollection { name: SETTINGS, right: VIEW_USERS },
];

const OF_OBJECTS: ToolCollection = ToolCollection { name: OBJECTS, right: "base.framework.object.view" };

/// What pipelines do not see: passwords that another tool stored with users.
const UNSEEN: Unseen = Unseen { everywhere: None, of: Some((USERS, "password")) };

/// What `$lookup` and `$unionWith` of tools may read.
pub const LOOKED_UP: [&str; 4] = [OBJECTS, TYPES, CATEGORIES, tables::PREFIX];

/// How many bytes of results that need each other are held at a time.
const HELD: usize = 64 * 1024 * 1024;

const VIEW_USERS: &str = "base.user-management.user.view";

/// A list of at most this many documents is read at once, without a stream.
const SHORT: u64 = 101;
/// An answer of a short list has at most this many bytes.
const SHORT_BYTES: usize = 1024 * 1024;
/// The number of documents whose size is the estimate for the others.
const SAMPLE: u64 = 1000;

/// How a pipeline on a collection is read.
pub fn terms(collection: &str, limits: Limits, now: DateTime) -> Terms {
    let collection = ToolCollection::named(collection).map_or("", |collection| collection.name);
    Terms { place: "pipeline", collection, unseen: UNSEEN, limits, now }
}

impl ToolCollection {
    /// The one with this name. All others do not exist for tools.
    pub fn named(name: &str) -> Option<Self> {
        COLLECTIONS.into_iter().find(|collection| collection.name == name)
    }

    /// Its indexes, in addition to the one on `_id`.
    pub fn indexes(self) -> &'static [IndexSpec] {
        let found = collections::ALL.iter().find(|collection| collection.name == self.name);
        found.map_or(&[], |collection| collection.indexes)
    }

    /// Whether a caller sees anything of it.
    pub fn is_seen_by(self, caller: &Caller) -> bool {
        self.name == SETTINGS || caller.rights.grants(self.right)
    }

    /// The part of it that a caller sees.
    ///
    /// # Errors
    /// [`ErrorCode::RightMissing`](crate::service::ErrorCode::RightMissing) when it is none, and errors of the store.
    pub async fn reach(self, services: &Services, caller: &Caller) -> Result<Reach, ServiceError> {
        let guard = match self.name {
            SETTINGS if !caller.rights.grants(VIEW_USERS) => Some(Filter::equals("user_id", caller.user_id)),
            _ => {
                rights::require(&caller.rights, self.right)?;
                if self.name == OBJECTS {
                    let types = services.current_types().await?;
                    types.visible_to(caller)
                } else {
                    None
                }
            }
        };
        Ok(Reach { collection: self, guard, table: None })
    }
}

/// A collection as far as a caller sees it.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The collection; of a table that of its objects.
    pub collection: ToolCollection,
    guard: Option<Filter>,
    table: Option<Named>,
}

/// A table with its name.
#[derive(Debug, Clone)]
struct Named {
    name: String,
    /// The types that the table was made of.
    types: Arc<Types>,
    table: Arc<Table>,
}

/// What a caller sees of the collection or the table of this name; nothing where there is none.
///
/// # Errors
/// As [`ToolCollection::reach`]. A table that the caller may not see is none.
pub async fn reach(services: &Services, caller: &Caller, name: &str) -> Result<Option<Reach>, ServiceError> {
    if let Some(collection) = ToolCollection::named(name) {
        return Ok(Some(collection.reach(services, caller).await?));
    }
    let types = services.current_types().await?;
    let (name, guard, now) = (name.to_owned(), types.visible_to(caller), services.now());
    let (wanted, caller, made_of) = (name.clone(), caller.clone(), Arc::clone(&types));
    // The lines of references can make a table large.
    let build = move |_: &Means| {
        let seen = types_of_tables(&types, &caller);
        tables::named(&seen).remove(&*wanted).map(|object_type| tables::table(object_type, &seen, now)).transpose()
    };
    let Some(table) = admission::work(build).await?? else { return Ok(None) };
    let table = Named { name, types: made_of, table: Arc::new(table) };
    Ok(Some(Reach { collection: OF_OBJECTS, guard, table: Some(table) }))
}

/// The names of the tables that a caller sees.
///
/// # Errors
/// Errors of the store when it reads the types.
pub async fn table_names(services: &Services, caller: &Caller) -> Result<Vec<String>, ServiceError> {
    let types = services.current_types().await?;
    Ok(tables::named(&types_of_tables(&types, caller)).into_keys().collect())
}

/// Whether a caller has the rights that tables need.
fn may_see_tables(caller: &Caller) -> bool {
    caller.rights.grants(VIEW_TYPES) && OF_OBJECTS.is_seen_by(caller)
}

/// The types whose tables a caller sees: none without the rights that tables need.
fn types_of_tables<'t>(types: &'t Types, caller: &Caller) -> Vec<&'t ObjectType> {
    if !may_see_tables(caller) {
        return Vec::new();
    }
    let all = types.iter().map(|entry| &*entry.object_type);
    all.filter(|object_type| object_type.acl.allows(caller.group_id, Permission::Read)).collect()
}

/// The documents of an answer.
pub enum Found {
    /// All of them.
    All(Documents),
    /// In chunks, see [`Store::chunks`](crate::store::Store::chunks).
    Chunked(BoxStream<'static, Result<Documents, StoreError>>),
}

/// How much a caller sees of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Documents.
    pub documents: u64,
    /// Their bytes; of more than a thousand documents the bytes are estimated from a thousand.
    pub bytes: u64,
    /// Whether the bytes are estimated.
    pub is_estimated: bool,
}

impl Reach {
    /// Whether the caller still sees the same.
    ///
    /// # Errors
    /// As [`reach`].
    pub async fn is_seen_still(&self, services: &Services, caller: &Caller) -> Result<bool, ServiceError> {
        let document = |guard: &Option<Filter>| guard.as_ref().map(|guard| guard.document().clone());
        if let Some(named) = &self.table {
            let types = services.current_types().await?;
            // Of the same types comes the same table, and building it takes long.
            if Arc::ptr_eq(&types, &named.types) {
                let guard = types.visible_to(caller);
                return Ok(may_see_tables(caller) && document(&self.guard) == document(&guard));
            }
        }
        let name = self.table.as_ref().map_or(self.collection.name, |named| &named.name);
        let Some(now) = reach(services, caller, name).await? else { return Ok(false) };
        let is_same_table = match (&self.table, &now.table) {
            (Some(before), Some(now)) => before.table.is_as(&now.table),
            (before, now) => before.is_none() && now.is_none(),
        };
        Ok(is_same_table && document(&self.guard) == document(&now.guard))
    }

    /// Its indexes, in addition to the one on `_id`.
    pub fn indexes(&self) -> &'static [IndexSpec] {
        if self.table.is_some() { &[] } else { self.collection.indexes() }
    }

    /// Reads a question about a table as one about its objects.
    async fn read<T: Send + 'static>(
        table: &Arc<Table>,
        max_time: Duration,
        read: impl FnOnce(&Table, &Effort) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (table, end) = (Arc::clone(table), Instant::now().checked_add(max_time));
        let work = admission::work(move |means| read(&table, &Effort::Work(means.clone(), end)));
        Ok(work.await??)
    }

    /// The query on a table as one on its objects, and the stages on rows that are left of it.
    async fn front(table: &Arc<Table>, query: FindQuery) -> Result<(FindQuery, Pipeline), ServiceError> {
        let front = Front { filter: query.filter, sort: query.sort, skip: query.skip, limit: query.limit, stages: 0 };
        let (front, rest) = Self::read(table, query.max_time, |table, effort| table.front(front, effort)).await?;
        let (sort, skip, limit) = (front.sort, front.skip, front.limit);
        Ok((FindQuery { sort, skip, limit, ..FindQuery::new(front.filter, query.max_time) }, rest))
    }

    /// The results of a pipeline on the collection, which reads others within `reach`.
    async fn piped(
        &self,
        services: &Services,
        pipeline: Pipeline,
        max_time: Duration,
        mut reach: store::Reach,
    ) -> Result<Chunks, ServiceError> {
        let guard = self.guard.clone().unwrap_or_default();
        let pipeline = match &self.table {
            None => pipeline,
            Some(Named { table, .. }) => {
                // Rows show what the objects refer to.
                reach = reach.with(OBJECTS, guard.clone());
                Self::read(table, max_time, |table, effort| table.read(pipeline, effort)).await?
            }
        };
        let query = AggregateQuery { guard, reach, max_bytes: HELD, ..AggregateQuery::new(pipeline, max_time) };
        let chunks = services.store.aggregate(self.collection.name, &query).await?;
        Ok(admission::kept(chunks).boxed())
    }

    /// Whether something may be hidden from the caller.
    pub fn hides(&self) -> bool {
        self.guard.is_some()
    }

    /// The condition of what the caller sees, if it is not all.
    pub fn guard(&self) -> Option<&Filter> {
        self.guard.as_ref()
    }

    fn scope(&self, question: Filter) -> Filter {
        match &self.guard {
            Some(guard) => question.guarded_by(guard.clone()),
            None => question,
        }
    }

    /// The documents that a query selects.
    ///
    /// # Errors
    /// As [`Store::find`](crate::store::Store::find).
    pub async fn find(&self, services: &Services, query: FindQuery) -> Result<Found, ServiceError> {
        if self.collection.name == USERS {
            return Ok(Found::All(users(services, query).await?.0));
        }
        if self.table.is_some() {
            let FindQuery { filter, sort, skip, limit, projection, max_time, .. } = query;
            let mut pipeline = Pipeline::of(Front { filter, sort, skip, limit, stages: 0 });
            if let Some(projection) = projection {
                pipeline = pipeline.projected(projection);
            }
            return Ok(Found::Chunked(self.piped(services, pipeline, max_time, store::Reach::default()).await?));
        }
        let mut query = FindQuery { filter: self.scope(query.filter), ..query };
        if (1..=SHORT).contains(&query.limit) {
            query.max_bytes = SHORT_BYTES;
            match services.store.find(self.collection.name, &query).await {
                Err(StoreError::TooLarge) => query.max_bytes = usize::MAX,
                found => return Ok(Found::All(found?)),
            }
        }
        let chunks = services.store.chunks(self.collection.name, &query).await?;
        Ok(Found::Chunked(admission::kept(chunks.documents).boxed()))
    }

    /// How many documents match.
    ///
    /// # Errors
    /// As [`Store::count`](crate::store::Store::count).
    pub async fn count(&self, services: &Services, filter: Filter, max_time: Duration) -> Result<u64, ServiceError> {
        if self.collection.name == USERS {
            return Ok(users(services, FindQuery::new(filter, max_time)).await?.1);
        }
        if let Some(Named { table, .. }) = &self.table {
            let (query, rest) = Self::front(table, FindQuery::new(filter.clone(), max_time)).await?;
            if rest.is_done(0) {
                return Ok(services.store.count(OBJECTS, &self.scope(query.filter), max_time).await?);
            }
            let counting = Pipeline::parse(&[doc! { "$count": "n" }.into()], &Limits::NONE, services.now())?;
            let pipeline = Pipeline::matching(filter).then(counting);
            let mut counted = self.piped(services, pipeline, max_time, store::Reach::default()).await?;
            let counted = counted.try_next().await?.unwrap_or_default();
            return Ok(counted.first().and_then(|one| integer(one, "n")).map_or(0, i64::unsigned_abs));
        }
        Ok(services.store.count(self.collection.name, &self.scope(filter), max_time).await?)
    }

    /// How a query is answered. Figures about examined documents are left out where some are hidden.
    ///
    /// # Errors
    /// As [`Store::explain`](crate::store::Store::explain).
    pub async fn explain(&self, services: &Services, query: FindQuery) -> Result<Explanation, ServiceError> {
        if self.collection.name == USERS {
            let (documents, total) = users(services, query).await?;
            let returned = documents.len() as u64;
            return Ok(Explanation::in_memory(services.store.kind(), Step::Scan, (returned, total)));
        }
        let query = match &self.table {
            Some(Named { table, .. }) => Self::front(table, query).await?.0,
            None => query,
        };
        let query = FindQuery { filter: self.scope(query.filter), ..query };
        let explanation = services.store.explain(self.collection.name, &query).await?;
        Ok(if self.hides() { explanation.without_counts() } else { explanation })
    }

    /// The results of a pipeline that was read on [`terms`], and what else it reads: of other collections those in `looked_up`.
    ///
    /// # Errors
    /// As [`Store::aggregate`](crate::store::Store::aggregate).
    pub async fn aggregate(
        &self,
        services: &Services,
        caller: &Caller,
        pipeline: Pipeline,
        max_time: Duration,
        looked_up: &[&str],
    ) -> Result<(Chunks, Vec<Self>), ServiceError> {
        let (mut others, mut reach) = (Vec::new(), store::Reach::default());
        for name in pipeline.collections() {
            let is_table = name.starts_with(tables::PREFIX) && looked_up.contains(&tables::PREFIX);
            if !looked_up.contains(&name) && !is_table {
                continue;
            }
            let Some(other) = self::reach(services, caller, name).await? else { continue };
            reach = reach.with(other.collection.name, other.guard.clone().unwrap_or_default());
            if let Some(Named { name, table, .. }) = &other.table {
                reach = reach.with_table(name, Arc::clone(table));
            }
            others.push(other);
        }
        Ok((self.piped(services, pipeline, max_time, reach).await?, others))
    }

    /// How much the caller sees.
    ///
    /// # Errors
    /// As [`Store::count`](crate::store::Store::count).
    pub async fn size(&self, services: &Services) -> Result<Size, ServiceError> {
        let documents = self.count(services, Filter::all(), services.max_time).await?;
        let query = FindQuery::new(Filter::all(), services.max_time).limited(SAMPLE);
        let (mut seen, mut bytes) = (0_u64, 0_u64);
        let mut chunks = self.find(services, query).await?.into_chunks();
        while let Some(chunk) = chunks.try_next().await? {
            seen += chunk.len() as u64;
            bytes += chunk.bytes() as u64;
        }
        if documents <= seen || seen == 0 {
            return Ok(Size { documents, bytes, is_estimated: false });
        }
        let estimate = u128::from(bytes) * u128::from(documents) / u128::from(seen);
        Ok(Size { documents, bytes: u64::try_from(estimate).unwrap_or(u64::MAX), is_estimated: true })
    }
}

impl Found {
    /// The documents in chunks.
    pub fn into_chunks(self) -> BoxStream<'static, Result<Documents, StoreError>> {
        match self {
            Self::All(documents) => stream::iter([Ok(documents)]).boxed(),
            Self::Chunked(chunks) => chunks,
        }
    }
}

/// What a pipeline makes of documents that describe the store.
///
/// # Errors
/// A pipeline that reads a collection; failures on documents, and too much time or memory for them.
pub async fn described(
    documents: Documents,
    pipeline: Pipeline,
    max_time: Duration,
) -> Result<Documents, ServiceError> {
    AggregateQuery::new(pipeline.clone(), max_time).check_reach()?;
    if let Some(operator) = pipeline.needs_server() {
        return Err(StoreError::Unsupported { what: operator.to_owned() }.into());
    }
    let work = admission::work(move |means| {
        let budget = Budget::until(Instant::now().checked_add(max_time)).within(means);
        evaluate::piped_of((&pipeline, 0), &documents, &budget, Results::new(HELD, means))
    });
    Ok(work.await??)
}

/// Users without passwords: the whole collection is read, and the query is answered in memory. Returns the page, and
/// how many users match.
async fn users(services: &Services, query: FindQuery) -> Result<(Documents, u64), ServiceError> {
    let all = FindQuery::new(Filter::all(), query.max_time);
    let chunks: Vec<Documents> = services.store.chunks(USERS, &all).await?.documents.try_collect().await?;
    let page = admission::work(move |means| page_of(&chunks, &query, means)).await?;
    Ok(page?)
}

fn page_of(chunks: &[Documents], query: &FindQuery, means: &Means) -> Result<(Documents, u64), StoreError> {
    means.hold(chunks.iter().map(Documents::bytes).sum::<usize>() * 2)?;
    let users: Vec<RawDocumentBuf> =
        chunks.iter().flat_map(Documents::iter).map(|user| without(user, &["password"])).collect();
    let page = evaluate::page_of(users.iter().map(|user| &**user), query, means)?;
    Ok((page.documents, page.total))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::domain::document::raw;
    use crate::query::Sort;

    #[test]
    fn no_part_of_a_query_sees_a_password() {
        let users: Documents = [
            &*raw(&doc! { "_id": 1, "user_name": "ada", "password": "hash" }),
            &*raw(&doc! { "_id": 2, "user_name": "grace" }),
        ]
        .into_iter()
        .collect();
        let filter = |filter| Filter::ours(&filter);
        let asked = |filter, sort| {
            let query = FindQuery::new(filter, Duration::from_secs(9)).sorted(sort);
            page_of(std::slice::from_ref(&users), &query, &Means::default()).expect("a page")
        };
        assert_eq!(asked(filter(doc! { "password": { "$exists": true } }), Sort::default()).1, 0);
        let (page, _) = asked(Filter::all(), Sort::by("password", true).then("user_name", true));
        let names: Vec<&str> = page.iter().map(|user| user.get_str("user_name").expect("a name")).collect();
        assert_eq!(names, ["grace", "ada"]);
    }
}
