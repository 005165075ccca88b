//! A store as it was at an earlier moment: whatever is asked of objects, types and categories is true of that moment.
//!
//! Only what changed since is read from the history. All other documents are the present ones. So the work grows with the
//! number of changes since the moment, not with the store. Both are read from a frozen present ([`Store::frozen`]), so what is
//! written meanwhile does not show.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document};
use tokio::sync::OnceCell;

use super::past::{Moment, Past, PastState, changed_since};
use super::resources::{RESOURCES, unreadable};
use crate::admission;
use crate::domain::document::raw;
use crate::query::{Budget, Filter, Sort, SortValue};
use crate::store::collections::TYPES;
use crate::store::inspection::Finding;
use crate::store::{
    AggregateQuery, Chunks, CollectionSpec, Documents, Explanation, FindQuery, Page, Store, StoreError, Unit,
};

/// Questions for at most this many ids read the entries of these ids alone.
const MOST_IDS: usize = 1000;

/// So many documents are tested where the question is asked, for at most [`BRIEF`]. More are work in a turn.
const FEW: usize = 16;
const BRIEF: Duration = Duration::from_millis(5);

/// Whose access lists the types have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLists {
    /// Those of today: they decide what a caller may see of the past.
    OfToday,
    /// Those of the moment: they are part of what the type was.
    OfThen,
}

/// The past of another store. It takes no changes.
pub struct AsOf {
    inner: Arc<dyn Store>,
    moment: Moment,
    access: AccessLists,
    max_time: Duration,
    known: Option<Known>,
    changed: [OnceCell<Arc<Changed>>; RESOURCES.len()],
}

type Changed = BTreeMap<i64, Past>;

/// What was read already: whether one document has changed since the moment, and what it was.
pub struct Known {
    pub(super) collection: &'static str,
    pub(super) id: i64,
    pub(super) changed: Arc<Changed>,
}

impl AsOf {
    /// The store as it was at `moment`.
    pub(in crate::service) fn over(
        inner: Arc<dyn Store>,
        (moment, known): (Moment, Option<Known>),
        access: AccessLists,
        max_time: Duration,
    ) -> Arc<Self> {
        Arc::new(Self { inner, moment, access, max_time, known, changed: Default::default() })
    }

    /// Whether no type has changed since.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub(in crate::service) async fn has_types_of_today(&self) -> Result<bool, StoreError> {
        let changed = self.changed(TYPES, &Filter::all()).await?;
        Ok(changed.is_none_or(|changed| changed.is_empty()))
    }

    /// What changed since, as far as it concerns the question; nothing for collections without a history.
    async fn changed(&self, collection: &str, filter: &Filter) -> Result<Option<Arc<Changed>>, StoreError> {
        let Some(place) = RESOURCES.iter().position(|(name, _)| *name == collection) else { return Ok(None) };
        if let Some(all) = self.changed[place].get() {
            return Ok(Some(Arc::clone(all)));
        }
        let asked = ids_of(filter.document());
        let is_known = |known: &&Known| known.collection == collection && asked.as_deref() == Some(&[known.id]);
        if let Some(known) = self.known.as_ref().filter(is_known) {
            return Ok(Some(Arc::clone(&known.changed)));
        }
        let read = async |ids: Option<&[i64]>| {
            let changed = changed_since(&*self.inner, collection, self.moment, ids, self.max_time).await?;
            Ok::<_, StoreError>(Arc::new(changed))
        };
        match asked {
            Some(ids) if ids.len() <= MOST_IDS => Ok(Some(read(Some(&ids)).await?)),
            _ => Ok(Some(Arc::clone(self.changed[place].get_or_try_init(|| read(None)).await?))),
        }
    }

    /// What the changed documents add to the answer of today, and take from it.
    async fn different(
        &self,
        collection: &str,
        changed: &Arc<Changed>,
        query: &FindQuery,
    ) -> Result<Different, StoreError> {
        let wanted = Wanted {
            changed: Arc::clone(changed),
            access_of_today: self.access == AccessLists::OfToday && collection == TYPES,
            filter: query.filter.clone(),
            sort: query.sort.clone(),
        };
        if changed.len() <= FEW {
            let most = query.max_time.min(BRIEF);
            match wanted.found(&Budget::until(Instant::now().checked_add(most))) {
                Err(StoreError::Timeout) if most < query.max_time => {}
                found => return found,
            }
        }
        let until = Instant::now().checked_add(query.max_time);
        admission::work(move |means| wanted.found(&Budget::until(until).within(means)))
            .await
            .map_err(StoreError::from)?
    }

    async fn answer(&self, collection: &str, query: &FindQuery, counted: bool) -> Result<Page, StoreError> {
        let ask = async |query: &FindQuery| {
            if counted {
                return self.inner.page(collection, query).await;
            }
            self.inner.find(collection, query).await.map(|documents| Page { documents, ..Page::default() })
        };
        let Some(changed) = self.changed(collection, &query.filter).await? else { return ask(query).await };
        if changed.is_empty() {
            return ask(query).await;
        }
        let Different { then, now } = self.different(collection, &changed, query).await?;
        if are_all_changed(&query.filter, &changed) {
            let documents = merged(&Documents::new(), &then, (0, query))?;
            return Ok(Page { documents, total: then.len() as u64, hint: None });
        }
        // Those of today that were the same: their place is moved by at most as many as were different.
        let begun = query.skip.saturating_sub(then.len() as u64);
        let same = FindQuery {
            filter: unchanged(query.filter.clone(), &changed),
            projection: None,
            skip: begun,
            limit: if query.limit == 0 { 0 } else { query.limit.saturating_add(query.skip - begun) },
            ..query.clone()
        };
        let found = self.inner.find(collection, &same).await?;
        let documents = merged(&found, &then, (begun, query))?;
        let total = if counted {
            self.unchanged_count(collection, (&query.filter, &changed), now, query.max_time).await? + then.len() as u64
        } else {
            0
        };
        Ok(Page { documents, total, hint: None })
    }

    /// How many documents match that have not changed: those of today without the changed ones. Leaving these out by their
    /// ids would have each document looked at.
    async fn unchanged_count(
        &self,
        collection: &str,
        (filter, changed): (&Filter, &Changed),
        now: Option<u64>,
        max_time: Duration,
    ) -> Result<u64, StoreError> {
        match now {
            Some(now) => Ok(self.inner.count(collection, filter, max_time).await?.saturating_sub(now)),
            None => self.inner.count(collection, &unchanged(filter.clone(), changed), max_time).await,
        }
    }
}

/// The changed documents that matter to a question.
struct Different {
    /// Those that match as they were then, in the order of the sort.
    then: Vec<Old>,
    /// How many match as they are now; nothing when the filter fails on one, as it may not have failed then.
    now: Option<u64>,
}

/// A document that was different then, with its place in the order.
struct Old {
    key: SortValue,
    document: RawDocumentBuf,
}

/// Which of the changed documents are asked for.
struct Wanted {
    changed: Arc<Changed>,
    /// Whether these are types, with the access lists that they have today.
    access_of_today: bool,
    filter: Filter,
    sort: Sort,
}

impl Wanted {
    fn found(&self, budget: &Budget) -> Result<Different, StoreError> {
        let (mut then, mut now) = (Vec::new(), Some(0));
        for past in self.changed.values() {
            if let Some(present) = &past.present {
                let matches = self.filter.matches_within(present, budget).ok();
                now = now.zip(matches).map(|(now, matches)| now + u64::from(matches));
            }
            let PastState::Document(document) = &past.state else { continue };
            let document =
                if self.access_of_today { with_access_list(document, past.last.as_deref())? } else { document.clone() };
            if self.filter.matches_within(&document, budget)? {
                then.push(Old { key: self.sort.key_of(&document)?, document });
            }
        }
        then.sort_by(|one, other| self.sort.compare(&one.key, &other.key));
        Ok(Different { then, now })
    }
}

/// The page of the query among both kinds of documents, each in the order of the sort. `begun` is how many of `same` were
/// passed over.
fn merged(same: &Documents, different: &[Old], (begun, query): (u64, &FindQuery)) -> Result<Documents, StoreError> {
    let is_before = |old: &Old, document: &RawDocument, sort: &Sort| {
        let key = sort.key_of(document)?;
        Ok::<_, StoreError>(!sort.is_empty() && sort.compare(&old.key, &key) == Ordering::Less)
    };
    let mut old = different.iter().peekable();
    let mut place = begun;
    if begun > 0 {
        // Without any left, everything lies before the page.
        let Some(first) = same.first() else { return Ok(Documents::new()) };
        while let Some(next) = old.peek() {
            if !is_before(next, first, &query.sort)? {
                break;
            }
            old.next();
            place += 1;
        }
    }
    let end = if query.limit == 0 { u64::MAX } else { query.skip.saturating_add(query.limit) };
    let mut documents = Documents::new();
    let mut take = |document: &RawDocument| {
        if (query.skip..end).contains(&place) {
            match &query.projection {
                Some(projection) => documents.push(&projection.apply(document, &query.filter)?),
                None => documents.push(document),
            }
        }
        place += 1;
        if documents.bytes() > query.max_bytes { Err(StoreError::TooLarge) } else { Ok(()) }
    };
    for document in same.iter() {
        while let Some(next) = old.peek() {
            if !is_before(next, document, &query.sort)? {
                break;
            }
            take(&next.document)?;
            old.next();
        }
        take(document)?;
    }
    for rest in old {
        take(&rest.document)?;
    }
    Ok(documents)
}

/// The question, of those documents alone that are as they were.
fn unchanged(filter: Filter, changed: &Changed) -> Filter {
    filter.and(Filter::none_of("public_id", changed.keys().copied().map(Bson::Int64).collect()))
}

/// Whether the filter asks only for ids that were different then.
fn are_all_changed(filter: &Filter, changed: &Changed) -> bool {
    ids_of(filter.document()).is_some_and(|ids| ids.iter().all(|id| changed.contains_key(id)))
}

/// The ids that a filter names, if it asks for some alone.
fn ids_of(filter: &Document) -> Option<Vec<i64>> {
    if let Some(parts) = filter.get("$and").and_then(Bson::as_array) {
        return parts.iter().filter_map(Bson::as_document).find_map(ids_of);
    }
    let whole = |value: &Bson| value.as_i64().or_else(|| value.as_i32().map(i64::from));
    match filter.get("public_id")? {
        Bson::Document(condition) => match condition.get("$eq") {
            Some(id) => Some(vec![whole(id)?]),
            None => condition.get_array("$in").ok()?.iter().map(whole).collect(),
        },
        id => Some(vec![whole(id)?]),
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

fn refused<T>(what: &str) -> Result<T, StoreError> {
    Err(StoreError::Unsupported { what: format!("{what} of the past") })
}

#[async_trait]
impl Store for AsOf {
    async fn prepare(&self, _: &[CollectionSpec]) -> Result<(), StoreError> {
        refused("indexes")
    }

    async fn find(&self, collection: &str, query: &FindQuery) -> Result<Documents, StoreError> {
        Ok(self.answer(collection, query, false).await?.documents)
    }

    async fn page(&self, collection: &str, query: &FindQuery) -> Result<Page, StoreError> {
        self.answer(collection, query, true).await
    }

    async fn frozen(&self, _: Duration) -> Result<Arc<dyn Store>, StoreError> {
        refused("moments")
    }

    async fn explain(&self, _: &str, _: &FindQuery) -> Result<Explanation, StoreError> {
        refused("explain")
    }

    async fn count(&self, collection: &str, filter: &Filter, max_time: Duration) -> Result<u64, StoreError> {
        let Some(changed) = self.changed(collection, filter).await? else {
            return self.inner.count(collection, filter, max_time).await;
        };
        let query = FindQuery::new(filter.clone(), max_time);
        let Different { then, now } = self.different(collection, &changed, &query).await?;
        let then = then.len() as u64;
        if are_all_changed(filter, &changed) {
            return Ok(then);
        }
        Ok(self.unchanged_count(collection, (filter, &changed), now, max_time).await? + then)
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

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError> {
        self.inner.inspect(collections, now).await
    }

    fn largest_unit(&self) -> usize {
        self.inner.largest_unit()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }
}
