//! A store as it was at an earlier moment: all answers about objects, types and categories are those of that moment.
//!
//! Only what changed since is read from the history. All other documents are the present ones. So the work grows with the
//! number of changes since the moment, not with the store. Both are read from a frozen present ([`Store::frozen`]), so what is
//! written meanwhile does not show.
//!
//! A question rolls the changed documents back twice, a few at a time. First it keeps their ids, in its order. Then it rolls
//! back only those of its page, between those that did not change. Its conditions on ids and types, its guard included, are
//! evaluated on the entries: nothing else is read.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document};
use futures::{StreamExt, TryStreamExt, stream};

use super::past::{Back, Moment, Past, PastState, Visitor, of_entries};
use super::resources::{RESOURCES, unreadable};
use crate::admission::{self, Share};
use crate::domain::document::{number, raw};
use crate::query::{Budget, Filter, Sort, SortValue};
use crate::store::collections::TYPES;
use crate::store::inspection::Finding;
use crate::store::{
    AggregateQuery, Best, CHUNK_BYTES, CHUNK_DOCUMENTS, ChunkedPage, Chunks, CollectionSpec, Documents, Explanation,
    FindQuery, Health, Page, Store, StoreError, Total, Traits, Unit, chunks_of, gathered,
};

/// The maximum number of documents of a page that is read at once, and of bytes.
const SHORT: u64 = 500;
const SHORT_BYTES: usize = 1024 * 1024;
/// The number of documents of a page that are rolled back at first, and the maximum, if that is not too much.
const FIRST: usize = 8;
const MOST: usize = 128;

/// Whose access lists the types have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLists {
    /// Those of today: they decide what a caller may see of the past.
    OfToday,
    /// Those of the moment: they are part of what the type was.
    OfThen,
}

/// The past of another store. It takes no changes.
#[derive(Clone)]
pub struct AsOf {
    inner: Arc<dyn Store>,
    moment: Moment,
    access: AccessLists,
    max_time: Duration,
    known: Option<Known>,
    /// Earlier queries of entries, and the ids that have changed.
    changed: Arc<Mutex<Vec<Asked>>>,
}

/// Ids in ascending order.
type Ids = Arc<Vec<i64>>;

/// A collection, the query of its entries, and the ids that have changed.
type Asked = (&'static str, Document, Ids);

/// What was read already: whether one document has changed since the moment, and what it was.
#[derive(Clone)]
pub struct Known {
    pub(super) collection: &'static str,
    pub(super) id: i64,
    pub(super) past: Option<Past>,
}

impl AsOf {
    /// The store as it was at `moment`.
    pub(in crate::service) fn over(
        inner: Arc<dyn Store>,
        (moment, known): (Moment, Option<Known>),
        access: AccessLists,
        max_time: Duration,
    ) -> Arc<Self> {
        Arc::new(Self { inner, moment, access, max_time, known, changed: Arc::default() })
    }

    /// Whether no type has changed since.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub(in crate::service) async fn has_types_of_today(&self) -> Result<bool, StoreError> {
        let changed = self.changed(TYPES, &Filter::all()).await?;
        Ok(changed.is_none_or(|changed| changed.is_empty()))
    }

    /// The ids that have changed since, as far as they concern the question; nothing for collections without a history.
    async fn changed(&self, collection: &str, filter: &Filter) -> Result<Option<Ids>, StoreError> {
        let Some((collection, _)) = RESOURCES.iter().find(|(name, _)| *name == collection) else { return Ok(None) };
        if let Some(known) = self.known(collection, filter) {
            return Ok(Some(Arc::new(known.past.iter().map(|_| known.id).collect())));
        }
        let which = of_entries(collection, filter);
        let asked = which.document().clone();
        let is_same = |(name, before, _): &&Asked| name == collection && *before == asked;
        let known = self.changed.lock().unwrap_or_else(PoisonError::into_inner).iter().find(is_same).cloned();
        if let Some((_, _, ids)) = known {
            return Ok(Some(ids));
        }
        let ids = Arc::new(self.back(collection, self.max_time).ids(which).await?);
        let mut known = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        known.push((collection, asked, Arc::clone(&ids)));
        Ok(Some(ids))
    }

    /// What was read already, if the question is for that alone.
    fn known(&self, collection: &str, filter: &Filter) -> Option<&Known> {
        let known = self.known.as_ref().filter(|known| known.collection == collection)?;
        (ids_of(filter.document())? == [known.id]).then_some(known)
    }

    fn back<'s>(&'s self, collection: &'s str, max_time: Duration) -> Back<'s> {
        Back::new(&*self.inner, collection, self.moment, max_time)
    }

    /// Whether types have the access lists that they have today.
    fn closes(&self, collection: &str) -> bool {
        self.access == AccessLists::OfToday && collection == TYPES
    }

    /// Turns these back.
    async fn each<V: Visitor>(
        &self,
        collection: &str,
        (ids, filter): (&[i64], &Filter),
        mut visitor: V,
    ) -> Result<V, StoreError> {
        if let Some(Known { id, past: Some(past), .. }) = self.known(collection, filter) {
            let end = Instant::now().checked_add(self.max_time);
            visitor.arrive(*id, past.clone(), &Budget::until(end))?;
            return Ok(visitor);
        }
        self.back(collection, self.max_time).each(ids, visitor).await
    }

    /// What the changed documents add to the answer of today, and take from it.
    async fn different(&self, collection: &str, changed: &Ids, query: &FindQuery) -> Result<Different, StoreError> {
        let wanted = Wanted {
            access_of_today: self.closes(collection),
            filter: query.filter.clone(),
            sort: query.sort.clone(),
            best: Best::new(query, admission::current().share()),
            count: 0,
        };
        let Wanted { best, count, .. } = self.each(collection, (changed, &query.filter), wanted).await?;
        let (then, share) = best.into_sorted();
        Ok(Different { then: then.into(), count, _share: share })
    }

    /// The documents of the answer, each read on demand, and how many of the changed ones match.
    async fn answer(
        self: Arc<Self>,
        collection: &str,
        changed: &Ids,
        query: &FindQuery,
    ) -> Result<(u64, Chunks), StoreError> {
        let different = self.different(collection, changed, query).await?;
        let count = different.count;
        // Those of today that were the same: their place is moved by at most as many as were different.
        let begun = query.skip.saturating_sub(count);
        let same = FindQuery {
            filter: unchanged(query.filter.clone(), changed),
            projection: None,
            skip: begun,
            limit: if query.limit == 0 { 0 } else { query.limit.saturating_add(query.skip - begun) },
            is_counted: false,
            max_bytes: SHORT_BYTES,
            ..query.clone()
        };
        let same = if are_all_changed(&query.filter, changed) {
            chunks_of(Documents::new())
        } else if same.limit > SHORT {
            self.inner.chunks(collection, &same).await?.documents
        } else {
            match self.inner.find(collection, &same).await {
                Err(StoreError::TooLarge) => self.inner.chunks(collection, &same).await?.documents,
                found => chunks_of(found?),
            }
        };
        let (store, query, collection) = (self, query.clone(), collection.to_owned());
        let most = FIRST;
        let merging = Merging {
            store,
            collection,
            query,
            same,
            chunk: Documents::new(),
            next: 0,
            different,
            turned: VecDeque::new(),
            most,
            place: begun,
            is_done: false,
        };
        let chunks =
            stream::try_unfold(merging, async |mut merging| Ok(merging.chunk().await?.map(|chunk| (chunk, merging))));
        Ok((count, chunks.boxed()))
    }

    /// How many documents match that have not changed: those of today without the changed ones. Leaving these out by their
    /// ids would have each document looked at.
    async fn unchanged_count(
        &self,
        collection: &str,
        (filter, changed): (&Filter, &Ids),
        max_time: Duration,
    ) -> Result<u64, StoreError> {
        if are_all_changed(filter, changed) {
            return Ok(0);
        }
        let of_changed = filter.clone().and(Filter::one_of("public_id", changed.iter().copied()));
        match self.inner.count(collection, &of_changed, max_time).await {
            // The filter fails on one as it is now. It may not have failed then.
            Err(StoreError::Query { .. }) => {
                self.inner.count(collection, &unchanged(filter.clone(), changed), max_time).await
            }
            now => Ok(self.inner.count(collection, filter, max_time).await?.saturating_sub(now?)),
        }
    }
}

/// The changed documents that match as they were then.
struct Different {
    /// Their ids, with their places in the order: those of the page, and before it.
    then: VecDeque<(SortValue, u64)>,
    /// How many there are.
    count: u64,
    /// What counts their memory.
    _share: Share,
}

/// Which of the changed documents are asked for.
struct Wanted {
    /// Whether these are types, with the access lists that they have today.
    access_of_today: bool,
    filter: Filter,
    sort: Sort,
    best: Best,
    count: u64,
}

impl Visitor for Wanted {
    fn is_costly(&self) -> bool {
        self.filter.tree().is_costly()
    }

    fn arrive(&mut self, id: i64, past: Past, budget: &Budget) -> Result<(), StoreError> {
        let Some(document) = document_of(past, self.access_of_today)? else { return Ok(()) };
        if self.filter.matches_within(&document, budget)? {
            self.count += 1;
            self.best.offer(self.sort.key_of(&document)?, id.cast_unsigned())?;
        }
        Ok(())
    }
}

/// Documents as they were, by their ids.
struct Turned {
    access_of_today: bool,
    documents: BTreeMap<i64, RawDocumentBuf>,
}

impl Visitor for Turned {
    fn arrive(&mut self, id: i64, past: Past, _: &Budget) -> Result<(), StoreError> {
        self.documents.extend(document_of(past, self.access_of_today)?.map(|document| (id, document)));
        Ok(())
    }
}

/// What it was; nothing if it did not exist, or its state is unknown.
fn document_of(past: Past, access_of_today: bool) -> Result<Option<RawDocumentBuf>, StoreError> {
    let PastState::Document(document) = past.state else { return Ok(None) };
    Ok(Some(if access_of_today { with_access_list(&document, past.last.as_deref())? } else { document }))
}

/// The page of a query among both kinds of documents, each in the order of the sort.
struct Merging {
    store: Arc<AsOf>,
    collection: String,
    query: FindQuery,
    /// Those that are as they were, and those of them that were read.
    same: Chunks,
    chunk: Documents,
    next: usize,
    different: Different,
    /// The next of the changed ones, as they were.
    turned: VecDeque<Option<RawDocumentBuf>>,
    /// How many of them are rolled back at a time.
    most: usize,
    /// How many documents come before the next one.
    place: u64,
    is_done: bool,
}

impl Merging {
    /// The next documents; nothing at the end.
    async fn chunk(&mut self) -> Result<Option<Documents>, StoreError> {
        let end = if self.query.limit == 0 { u64::MAX } else { self.query.skip.saturating_add(self.query.limit) };
        let mut documents = Documents::new();
        while self.place < end && documents.len() < CHUNK_DOCUMENTS && documents.bytes() < CHUNK_BYTES {
            if self.next == self.chunk.len() && !self.is_done {
                let chunk = self.same.try_next().await?;
                self.is_done = chunk.is_none();
                (self.chunk, self.next) = (chunk.unwrap_or_default(), 0);
                continue;
            }
            let is_wanted = self.place >= self.query.skip;
            if self.is_changed_next(self.chunk.get(self.next))? {
                if is_wanted && self.turned.is_empty() {
                    self.turn_back(end - self.place).await?;
                }
                self.different.then.pop_front();
                let turned = if is_wanted { self.turned.pop_front().flatten() } else { None };
                if let Some(document) = turned {
                    documents.push(&document);
                }
            } else {
                let Some(same) = self.chunk.get(self.next) else { break };
                if is_wanted {
                    documents.push(same);
                }
                self.next += 1;
            }
            self.place += 1;
        }
        if documents.is_empty() { Ok(None) } else { Ok(Some(self.projected(documents).await?)) }
    }

    /// Whether a changed document comes before this one.
    fn is_changed_next(&self, same: Option<&RawDocument>) -> Result<bool, StoreError> {
        let Some((key, _)) = self.different.then.front() else { return Ok(false) };
        let (Some(same), sort) = (same, &self.query.sort) else { return Ok(true) };
        Ok(!sort.is_empty() && sort.compare(key, &sort.key_of(same)?) == Ordering::Less)
    }

    /// Rolls back the next documents, of which at most `left` are on the page.
    async fn turn_back(&mut self, left: u64) -> Result<(), StoreError> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(self.most);
        let mut ids: Vec<i64> = self.different.then.iter().take(most).map(|(_, id)| id.cast_signed()).collect();
        let access_of_today = self.store.closes(&self.collection);
        let (collection, question) = (&self.collection, &self.query.filter);
        let back = self.store.back(collection, self.query.max_time);
        let mut turned = Turned { access_of_today, documents: BTreeMap::new() };
        if self.store.known(collection, question).is_some() {
            turned = self.store.each(collection, (&ids, question), turned).await?;
        } else {
            loop {
                match back.read(&ids).await? {
                    Some(read) => {
                        turned = back.turn_back(read, turned).await?;
                        break;
                    }
                    None => ids.truncate(ids.len() / 2),
                }
            }
            self.most = if ids.len() == self.most { (self.most * 4).min(MOST) } else { ids.len().max(1) };
        }
        self.turned = ids.iter().map(|id| turned.documents.remove(id)).collect();
        Ok(())
    }

    async fn projected(&mut self, documents: Documents) -> Result<Documents, StoreError> {
        let Some(projection) = self.query.projection.clone() else { return Ok(documents) };
        let (filter, end) = (self.query.filter.clone(), Instant::now().checked_add(self.query.max_time));
        admission::work(move |means| {
            let budget = Budget::until(end).within(means);
            let mut projected = Documents::new();
            for document in documents.iter() {
                projected.push(&projection.apply_within(document, &filter, &budget)?);
            }
            Ok(projected)
        })
        .await?
    }
}

/// The question, of those documents alone that are as they were.
fn unchanged(filter: Filter, changed: &Ids) -> Filter {
    filter.and(Filter::none_of("public_id", changed.iter().copied()))
}

/// Whether the filter asks only for ids that were different then.
fn are_all_changed(filter: &Filter, changed: &Ids) -> bool {
    ids_of(filter.document()).is_some_and(|ids| ids.iter().all(|id| changed.binary_search(id).is_ok()))
}

/// The ids that a filter names, if it asks for some alone.
fn ids_of(filter: &Document) -> Option<Vec<i64>> {
    if let Some(parts) = filter.get("$and").and_then(Bson::as_array) {
        return parts.iter().filter_map(Bson::as_document).find_map(ids_of);
    }
    match filter.get("public_id")? {
        Bson::Document(condition) => match condition.get("$eq") {
            Some(id) => Some(vec![number(id)?]),
            None => condition.get_array("$in").ok()?.iter().map(number).collect(),
        },
        id => Some(vec![number(id)?]),
    }
}

/// The type with the access list that it has today, or had last.
fn with_access_list(document: &RawDocument, last: Option<&RawDocument>) -> Result<RawDocumentBuf, StoreError> {
    let mut document = Document::try_from(document).map_err(unreadable)?;
    let last = last.map(Document::try_from).transpose().map_err(unreadable)?;
    match last.as_ref().and_then(|last| last.get("acl")) {
        Some(acl) => drop(document.insert("acl", acl.clone())),
        None => drop(document.remove("acl")),
    }
    Ok(raw(&document))
}

impl AsOf {
    /// The documents of the answer together.
    async fn documents(&self, collection: &str, query: &FindQuery) -> Result<Page, StoreError> {
        let documents = match self.changed_some(collection, &query.filter).await? {
            None => self.inner.find(collection, query).await?,
            Some(changed) => {
                gathered(Arc::new(self.clone()).answer(collection, &changed, query).await?.1, query.max_bytes).await?
            }
        };
        Ok(Page { documents, ..Page::default() })
    }

    /// The same, with the total.
    async fn counted(&self, collection: &str, query: &FindQuery) -> Result<Page, StoreError> {
        if self.changed_some(collection, &query.filter).await?.is_none() {
            return self.inner.page(collection, query).await;
        }
        let ChunkedPage { total, documents, .. } = self.chunks(collection, query).await?;
        Ok(Page { documents: gathered(documents, query.max_bytes).await?, total, hint: None })
    }

    /// How many documents matched.
    async fn total(&self, collection: &str, filter: &Filter, max_time: Duration) -> Result<u64, StoreError> {
        let Some(changed) = self.changed_some(collection, filter).await? else {
            return self.inner.count(collection, filter, max_time).await;
        };
        // The first one represents all: they are counted.
        let then = self.different(collection, &changed, &FindQuery::new(filter.clone(), max_time).limited(1)).await?;
        Ok(self.unchanged_count(collection, (filter, &changed), max_time).await? + then.count)
    }

    /// The ids that have changed since, if there are any.
    async fn changed_some(&self, collection: &str, filter: &Filter) -> Result<Option<Ids>, StoreError> {
        Ok(self.changed(collection, filter).await?.filter(|changed| !changed.is_empty()))
    }
}

fn refused<T>(what: &str) -> Result<T, StoreError> {
    Err(StoreError::Unsupported { what: format!("{what} of the past") })
}

#[async_trait]
impl Store for AsOf {
    async fn prepare(&self, _: &[CollectionSpec]) -> Result<(), StoreError> {
        refused("indexes")
    }

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        match total {
            Total::Unasked => self.documents(collection, query).await,
            Total::Asked => self.counted(collection, query).await,
            Total::Alone => {
                let total = self.total(collection, &query.filter, query.max_time).await?;
                Ok(Page { total, ..Page::default() })
            }
        }
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        let Some(changed) = self.changed_some(collection, &query.filter).await? else {
            return self.inner.chunks(collection, query).await;
        };
        let (then, documents) = Arc::new(self.clone()).answer(collection, &changed, query).await?;
        let same = self.unchanged_count(collection, (&query.filter, &changed), query.max_time).await?;
        Ok(ChunkedPage { total: same + then, hint: None, documents })
    }

    async fn frozen(&self, _: Duration) -> Result<Arc<dyn Store>, StoreError> {
        refused("moments")
    }

    async fn explain(&self, _: &str, _: &FindQuery) -> Result<Explanation, StoreError> {
        refused("explain")
    }

    async fn aggregate(&self, _: &str, _: &AggregateQuery) -> Result<Chunks, StoreError> {
        refused("pipelines")
    }

    async fn reserve_ids(&self, _: &str, _: u32) -> Result<i64, StoreError> {
        refused("ids")
    }

    async fn commit(&self, _: Unit) -> Result<Vec<u64>, StoreError> {
        refused("changes")
    }

    /// The past does not change.
    fn revision(&self, collection: &str) -> u64 {
        if RESOURCES.iter().any(|(name, _)| *name == collection) { 0 } else { self.inner.revision(collection) }
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.inner.health().await
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError> {
        self.inner.inspect(collections, now).await
    }

    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
        std::future::pending().await
    }

    fn traits(&self) -> Traits {
        self.inner.traits()
    }
}
