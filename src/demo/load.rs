//! Brings the demo into an empty store, through the same use cases as requests do.

use std::fmt;
use std::time::{Duration, Instant};

use bson::Document;
use futures::{StreamExt, TryStreamExt, stream};

use super::bodies::{category_bodies, type_body};
use super::model::DemoKind;
use super::plan::DemoPlan;
use super::things::object_body;
use crate::domain::user::FIRST_ADMIN;
use crate::progress::Progress;
use crate::query::Filter;
use crate::service::resource::{Categories, Objects, Resource, Types};
use crate::service::types::categories;
use crate::service::{Caller, ServiceError, Services, objects, types};
use crate::store::StoreError;

/// Objects that are on their way at the same time: while the store writes one group of them, the next one gets ready.
const IN_FLIGHT: usize = 512;

/// What was loaded.
#[derive(Debug, Clone, Copy)]
pub struct Loaded {
    /// Number of types.
    pub types: u64,
    /// Number of categories.
    pub categories: u64,
    /// Number of objects.
    pub objects: u32,
    /// How long the objects took.
    pub elapsed: Duration,
}

impl fmt::Display for Loaded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { types, categories, objects, elapsed } = self;
        let seconds = elapsed.as_secs_f64();
        let rate = f64::from(*objects) / seconds.max(0.001);
        write!(
            formatter,
            "loaded {types} types, {categories} categories and {objects} objects in {seconds:.1} s ({rate:.0} objects a second)"
        )
    }
}

/// Why the demo was not loaded, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// There is something in the store already; nothing was changed.
    #[error(
        "the store already holds {what}; the demo fills an empty one, for instance with --set store.uri=embedded:demo"
    )]
    NotEmpty {
        /// `types`, `categories` or `objects`.
        what: &'static str,
    },
    /// The first administrator, in whose name the demo is loaded, is locked or gone.
    #[error("user {FIRST_ADMIN} is gone or not active; the demo is loaded in his name")]
    NoAdministrator,
    /// The store failed before anything was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Loading stopped half way.
    #[error("loading stopped at {what}: {source}; what was loaded is still there, begin again with an empty store")]
    Stopped {
        /// What could not be stored.
        what: String,
        /// Why.
        source: ServiceError,
    },
}

/// Fills an empty store with this many objects, their types and categories.
///
/// # Errors
/// [`DemoError`], with the remedy.
pub async fn load(services: &Services, objects: u32, progress: &dyn Progress) -> Result<Loaded, DemoError> {
    check_empty(services).await?;
    let caller = services.directory.caller(FIRST_ADMIN).await?.ok_or(DemoError::NoAdministrator)?;
    let mut loaded = Loaded { types: 0, categories: 0, objects, elapsed: Duration::ZERO };
    for kind in DemoKind::ALL {
        let created = types::create_type(services, &caller, &type_body(kind)).await;
        created.map_err(|source| stopped(format!("type {}", kind.model().name), source))?;
        loaded.types += 1;
    }
    for body in category_bodies() {
        let created = categories::create_category(services, &body).await;
        created.map_err(|source| stopped(format!("category {}", body.get_str("name").unwrap_or_default()), source))?;
        loaded.categories += 1;
    }
    let begin = Instant::now();
    load_objects(services, &caller, &DemoPlan::new(objects), progress).await?;
    Ok(Loaded { elapsed: begin.elapsed(), ..loaded })
}

async fn check_empty(services: &Services) -> Result<(), DemoError> {
    for (collection, what) in
        [(Types::COLLECTION, "types"), (Categories::COLLECTION, "categories"), (Objects::COLLECTION, "objects")]
    {
        if services.store.has_any(collection, Filter::all(), services.max_time).await? {
            return Err(DemoError::NotEmpty { what });
        }
    }
    Ok(())
}

/// One kind after the other, because things refer to things of earlier kinds.
async fn load_objects(
    services: &Services,
    caller: &Caller,
    plan: &DemoPlan,
    progress: &dyn Progress,
) -> Result<(), DemoError> {
    progress.begin("objects", u64::from(plan.total()));
    for kind in DemoKind::ALL {
        let bodies = (0..plan.count(kind)).map(|index| object_body(plan, kind, index));
        let creations = bodies.map(|body| create(services, caller, body));
        stream::iter(creations)
            .buffer_unordered(IN_FLIGHT)
            .try_for_each(async |()| {
                progress.advance(1, kind.model().label);
                Ok(())
            })
            .await?;
    }
    progress.end();
    Ok(())
}

async fn create(services: &Services, caller: &Caller, body: Document) -> Result<(), DemoError> {
    match objects::create_object(services, caller, &body).await {
        Ok(_) => Ok(()),
        Err(source) => Err(stopped(format!("object {}", body.get_i64("public_id").unwrap_or_default()), source)),
    }
}

fn stopped(what: String, source: ServiceError) -> DemoError {
    DemoError::Stopped { what, source }
}
