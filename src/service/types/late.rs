//! Types that another instance has made since they were remembered here: what they hide is hidden, and nothing is refused
//! because they are not remembered yet. [`TypeCatalog`](crate::service::types::catalog::TypeCatalog) says how they are looked up.
//!
//! *Invariant:* no document of a type that the catalog does not know is shown before the type was looked up.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};
use futures::{StreamExt, TryStreamExt};

use super::catalog::{TypeEntry, Types, stored};
use crate::admission;
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::query::{Budget, Filter, Projection};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::queries::list_query::ListQuery;
use crate::service::resource::{self, ATTEMPTS, Listed, Resource};
use crate::service::services::Services;
use crate::store::{ChunkedPage, Chunks, Documents, Page, Store, StoreError};

/// The member that says of which type a document is: an object, or an entry about one.
const TYPE_ID: &str = "type_id";

impl Services {
    /// The types, with those of these documents.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn types_of<'d>(
        &self,
        documents: impl IntoIterator<Item = &'d RawDocument>,
    ) -> Result<Arc<Types>, ServiceError> {
        let ids = types_in(documents);
        let types = self.current_types().await?;
        self.types_knowing(types, ids).await
    }

    /// These types; newer ones if those lack one with these ids.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn types_knowing(&self, types: Arc<Types>, ids: Vec<i64>) -> Result<Arc<Types>, ServiceError> {
        self.types.knowing(&*self.store, self.max_time, types, ids).await
    }

    /// The type with this id, if there is one.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn type_with_id(&self, id: i64) -> Result<Option<Arc<TypeEntry>>, ServiceError> {
        let types = self.current_types().await?;
        Ok(self.types_knowing(types, vec![id]).await?.get(id).cloned())
    }

    /// The types as they are remembered.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn current_types(&self) -> Result<Arc<Types>, ServiceError> {
        self.types.current(&*self.store, self.max_time).await
    }

    /// The types as they are in the store, whatever is remembered.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn types_anew(&self) -> Result<Arc<Types>, ServiceError> {
        self.types.anew(&*self.store, self.max_time).await
    }

    /// Decides by the types. What is refused because of a type or a field is decided again if the types have changed since
    /// they were cached.
    ///
    /// # Errors
    /// Those of the decision, and errors of the store.
    pub(crate) async fn by_the_types<T>(
        &self,
        decide: impl AsyncFn() -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let remembered = self.current_types().await?;
        match decide().await {
            Err(ServiceError::Violations(found))
                if is_about_types(&found) && !self.types_anew().await?.is_as(&remembered) =>
            {
                decide().await
            }
            outcome => outcome,
        }
    }
}

/// Whether another state of the types could have other violations.
pub(crate) fn is_about_types(violations: &crate::domain::Violations) -> bool {
    violations.has("/type_id") || violations.has_below("/fields")
}

/// The types that these documents are of.
pub(crate) fn types_in<'d>(documents: impl IntoIterator<Item = &'d RawDocument>) -> Vec<i64> {
    let mut ids: Vec<i64> = documents.into_iter().filter_map(|document| integer(document, TYPE_ID)).collect();
    ids.dedup();
    ids
}

/// One page of documents that have types, guarded by what `guard` makes of the types; and these types.
///
/// # Errors
/// As [`resource::list`].
pub(crate) async fn list<R: Resource>(
    services: &Services,
    caller: &Caller,
    query: &ListQuery,
    guard: impl Fn(&Types) -> Option<Filter>,
) -> Result<(Listed, Arc<Types>), ServiceError> {
    let mut types = services.current_types().await?;
    for _ in 0..ATTEMPTS {
        let mut asked = query.clone();
        let is_looked_at = services.store.is_remote() && !query.explain;
        let rest = if is_looked_at { Rest::of(&mut asked, services.max_time) } else { Rest::Nothing };
        if let Some(guard) = guard(&types) {
            asked.filter = asked.filter.guarded_by(guard);
        }
        let listed = match resource::list::<R>(services, &asked).await? {
            Listed::Chunked(page) => {
                let screen = Screen::of(services, caller, Arc::clone(&types));
                let documents = if is_looked_at { screen.over(page.documents, rest) } else { page.documents };
                return Ok((Listed::Chunked(ChunkedPage { documents, ..page }), types));
            }
            listed => listed,
        };
        let newer = match &listed {
            Listed::Page(page) | Listed::Keyed(page, _) if is_looked_at => {
                services.types_knowing(Arc::clone(&types), types_in(page.documents.iter())).await?
            }
            _ => Arc::clone(&types),
        };
        if Arc::ptr_eq(&newer, &types) {
            let left = |page: Page| Ok::<_, StoreError>(Page { documents: rest.left(page.documents)?, ..page });
            let listed = match listed {
                Listed::Page(page) => Listed::Page(left(page)?),
                Listed::Keyed(page, behind) => Listed::Keyed(left(page)?, behind),
                listed => listed,
            };
            return Ok((listed, types));
        }
        types = newer;
    }
    Err(ServiceError::Contended("the list of types".to_owned()))
}

/// What remains to be done with documents that were read with their types.
#[derive(Debug, Clone)]
enum Rest {
    /// They are as they were asked for.
    Nothing,
    /// They have their types in addition.
    Strip,
    /// They are whole.
    Project(Box<Projection>, Filter, Duration),
}

impl Rest {
    /// Sees to it that the documents come with their types.
    fn of(query: &mut ListQuery, max_time: Duration) -> Self {
        let Some(projection) = query.projection.take() else { return Self::Nothing };
        let (projection, rest) = match projection.with_member(TYPE_ID) {
            Some((wider, true)) => (Some(wider), Self::Strip),
            Some((same, false)) => (Some(same), Self::Nothing),
            None => (None, Self::Project(Box::new(projection), query.filter.clone(), max_time)),
        };
        query.projection = projection;
        rest
    }

    fn left(&self, documents: Documents) -> Result<Documents, StoreError> {
        let mut left = Documents::new();
        match self {
            Self::Nothing => return Ok(documents),
            Self::Strip => {
                for document in documents.iter() {
                    left.push(&without_type(document)?);
                }
            }
            Self::Project(projection, filter, max_time) => {
                let budget = Budget::until(Instant::now().checked_add(*max_time));
                for document in documents.iter() {
                    left.push(&projection.apply_within(document, filter, &budget)?);
                }
            }
        }
        Ok(left)
    }
}

fn without_type(document: &RawDocument) -> Result<RawDocumentBuf, StoreError> {
    let mut left = RawDocumentBuf::new();
    for member in document {
        let (name, value) = member.map_err(StoreError::backend)?;
        if name.as_str() != TYPE_ID {
            left.append(name, value);
        }
    }
    Ok(left)
}

/// Leaves out documents of types that another instance has made meanwhile and that hide them from the caller.
pub(crate) struct Screen {
    store: Arc<dyn Store>,
    types: Arc<Types>,
    group_id: i64,
    max_time: Duration,
}

impl Screen {
    /// For documents that were found by a query which is guarded by these types.
    pub(crate) fn of(services: &Services, caller: &Caller, types: Arc<Types>) -> Self {
        Self { store: Arc::clone(&services.store), types, group_id: caller.group_id, max_time: services.max_time }
    }

    /// What the caller may see of each chunk.
    fn over(self, documents: Chunks, rest: Rest) -> Chunks {
        let (screen, rest) = (Arc::new(self), Arc::new(rest));
        let seen = documents.and_then(move |chunk| {
            let (screen, rest) = (Arc::clone(&screen), Arc::clone(&rest));
            async move {
                let chunk = screen.seen(chunk).await?;
                match &*rest {
                    Rest::Project(..) => admission::work(move |_| rest.left(chunk)).await?,
                    rest => rest.left(chunk),
                }
            }
        });
        seen.try_filter(|chunk| std::future::ready(!chunk.is_empty())).boxed()
    }

    /// The same for documents that are wanted whole.
    pub(crate) fn over_whole(self, documents: Chunks) -> Chunks {
        if self.store.is_remote() { self.over(documents, Rest::Nothing) } else { documents }
    }

    async fn seen(&self, chunk: Documents) -> Result<Documents, StoreError> {
        let mut lacking = types_in(chunk.iter());
        lacking.retain(|id| !self.types.knows(*id));
        if lacking.is_empty() {
            return Ok(chunk);
        }
        let found = stored(&*self.store, self.max_time, &lacking).await?;
        let hides = |entry: &Arc<TypeEntry>| !entry.object_type.acl.allows(self.group_id, Permission::Read);
        let hidden: HashSet<i64> =
            found.iter().filter(|entry| hides(entry)).map(|entry| entry.object_type.public_id).collect();
        let is_seen = |document: &&RawDocument| integer(document, TYPE_ID).is_none_or(|id| !hidden.contains(&id));
        Ok(if hidden.is_empty() { chunk } else { chunk.iter().filter(is_seen).collect() })
    }
}
