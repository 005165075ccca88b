//! What the index of words lacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bson::doc;
use bson::raw::RawDocument;

use crate::domain::document::{integer, raw, text};
use crate::plural::counted;
use crate::query::Filter;
use crate::store::collections::{OBJECTS, SEARCH, SEARCH_WORK};
use crate::store::{Change, Documents, FindQuery, Store, StoreError, Unit};

/// The `_id` of the document that says by which rules the documents were made: `{_id: "state", format}`.
const STATE: &str = "state";
/// The `_id` of the work on all objects: `{_id: "all", after}`.
const ALL: &str = "all";
/// Increase it with each change of the terms of an object: the next start makes all documents of search again.
const FORMAT: i64 = 2;

/// Where work begins: after this `public_id`.
pub(super) const WORK_BEGIN: i64 = 0;

/// What is left to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Left {
    /// All objects after this one are not searched yet.
    pub all_after: Option<i64>,
    /// The objects of these types have changed terms that are not there yet.
    pub types: Vec<i64>,
}

impl Left {
    /// Whether search knows all objects.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// In how many parts.
    pub fn parts(&self) -> u64 {
        u64::from(self.all_after.is_some()) + self.types.len() as u64
    }

    /// What is left in the store.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn read(store: &dyn Store, max_time: Duration) -> Result<Self, StoreError> {
        Ok(Self::of(&works(store, max_time).await?))
    }

    /// What these documents of work say.
    pub(super) fn of(works: &Documents) -> Self {
        let all = works.iter().find(|work| text(work, "_id") == Some(ALL));
        let all_after = all.map(|work| integer(work, "after").unwrap_or(WORK_BEGIN));
        Self { all_after, types: works.iter().filter_map(|work| integer(work, "_id")).collect() }
    }

    /// Whether objects of a type are among it.
    pub(super) fn concerns(&self, type_id: i64) -> bool {
        self.all_after.is_some() || self.types.contains(&type_id)
    }
}

/// What is left, remembered until it changes.
pub struct Searched {
    /// The store, without what others add to units: making documents changes no object.
    pub(in crate::service) plain: Arc<dyn Store>,
    left: ArcSwapOption<(u64, Left)>,
    /// How many objects this process has looked at.
    pub(super) looked_at: AtomicU64,
}

impl Searched {
    /// In this store, to whose units nothing is added.
    pub fn of(plain: Arc<dyn Store>) -> Self {
        Self { plain, left: ArcSwapOption::empty(), looked_at: AtomicU64::new(0) }
    }

    /// How many objects this process has looked at to complete the index.
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::Relaxed)
    }

    /// What is left in the store.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn left(&self, store: &dyn Store, max_time: Duration) -> Result<Left, StoreError> {
        let revision = store.revision(SEARCH_WORK);
        if let Some(known) = self.left.load_full().filter(|known| known.0 == revision) {
            return Ok(known.1.clone());
        }
        let left = Left::read(store, max_time).await?;
        self.left.store(Some(Arc::new((revision, left.clone()))));
        Ok(left)
    }

    /// What was left when it was last looked up.
    pub fn last(&self) -> Option<Left> {
        self.left.load_full().map(|known| known.1.clone())
    }
}

pub(super) async fn works(store: &dyn Store, max_time: Duration) -> Result<Documents, StoreError> {
    store.find(SEARCH_WORK, &FindQuery::new(Filter::all(), max_time)).await
}

/// Notes what a store needs that was made before there was a search, or by other rules: for a start.
///
/// # Errors
/// Errors of the store.
pub async fn begin(store: &dyn Store, max_time: Duration) -> Result<(), StoreError> {
    let found = works(store, max_time).await?;
    if is_made(&found) {
        return Ok(());
    }
    let has_any = async |collection| store.has_any(collection, Filter::all(), max_time).await;
    match store.commit(noted(&found, has_any(OBJECTS).await? || has_any(SEARCH).await?)).await {
        // Another instance was faster.
        Err(StoreError::Stale | StoreError::Duplicate { .. }) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Whether search knows all objects of the store, in words, for an operator.
///
/// # Errors
/// Errors of the store.
pub async fn in_words(store: &dyn Store, max_time: Duration) -> Result<(bool, String), StoreError> {
    let found = works(store, max_time).await?;
    if !is_made(&found) {
        return Ok((false, "the next start begins to make the index of words".to_owned()));
    }
    let left = Left::read(store, max_time).await?;
    if left.all_after.is_some() {
        let known = store.count(SEARCH, &Filter::all(), max_time).await?;
        let all = store.count(OBJECTS, &Filter::all(), max_time).await?;
        return Ok((false, format!("the index of words is being made: {known} of {}", counted(all, "object"))));
    }
    Ok(match left.types.len() as u64 {
        0 => (true, "the index of words is complete".to_owned()),
        types => (false, format!("the index of words is being made again for {}", counted(types, "type"))),
    })
}

/// Whether a document of work is some work.
pub(super) fn is_work(document: &RawDocument) -> bool {
    text(document, "_id") != Some(STATE)
}

/// Whether these documents of work say that the index is made by the rules of this version.
pub(in crate::service) fn is_made(work: &Documents) -> bool {
    let state = work.iter().find(|work| text(work, "_id") == Some(STATE));
    state.and_then(|state| integer(state, "format")) == Some(FORMAT)
}

/// Has all documents of search made again, in the background.
///
/// # Errors
/// Errors of the store.
pub async fn begin_again(store: &dyn Store, max_time: Duration) -> Result<(), StoreError> {
    store.commit(noted(&works(store, max_time).await?, true)).await.map(drop)
}

/// Has the documents of the objects of a type made again, in the background.
///
/// # Errors
/// Errors of the store.
pub(in crate::service) async fn begin_type(
    store: &dyn Store,
    type_id: i64,
    max_time: Duration,
) -> Result<(), StoreError> {
    loop {
        let Some(work) = type_work(store, type_id, true, max_time).await? else { return Ok(()) };
        match store.commit(Unit::of(work)).await {
            // A step of the same work was faster.
            Err(StoreError::Stale | StoreError::Duplicate { .. }) => {}
            outcome => return outcome.map(drop),
        }
    }
}

/// The change after which the documents of all objects of a type are to be made, or none of them. A step that has read objects
/// before it fails: `turn` is another one.
///
/// # Errors
/// Errors of the store.
pub(super) async fn type_work(
    store: &dyn Store,
    type_id: i64,
    is_wanted: bool,
    max_time: Duration,
) -> Result<Option<Change>, StoreError> {
    let found = store.first(SEARCH_WORK, FindQuery::new(Filter::equals("_id", type_id), max_time)).await?;
    let turn = found.as_deref().and_then(|found| integer(found, "turn")).unwrap_or_default() + 1;
    let work = is_wanted.then(|| raw(&doc! { "_id": type_id, "after": WORK_BEGIN, "turn": turn }));
    Ok(Change::between(SEARCH_WORK, found, work))
}

fn noted(found: &Documents, has_work: bool) -> Unit {
    let state = doc! { "_id": STATE, "format": FORMAT };
    let all = doc! { "_id": ALL, "after": WORK_BEGIN };
    let mut unit = Unit::default();
    for document in [Some(state), has_work.then_some(all)].into_iter().flatten() {
        let before = found.iter().find(|work| text(work, "_id") == document.get_str("_id").ok());
        unit.changes.push(Change::put(SEARCH_WORK, before.map(RawDocument::to_owned), raw(&document)));
    }
    unit
}
