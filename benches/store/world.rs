//! The same objects in the embedded store, in bare redb and in a MongoDB server.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bson::doc;
use bson::raw::RawDocumentBuf;
use inventory_service::domain::document::raw;
use inventory_service::query::{Filter, Limits};
use inventory_service::store::collections::{ALL, OBJECTS, TYPES};
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{Change, Condition, Store, Unit};

use crate::arguments::Arguments;
use crate::bare::{Bare, Prepared};
use crate::harness::report::{Bound, Row, Unit as RowUnit};
use crate::harness::timing::{Error, Figure, Run};
use crate::mongod::Mongod;
use crate::objects;

/// How many objects are written as one while loading.
const PER_UNIT: u32 = 250;
/// The id of the type.
const TYPE: i64 = 1;

/// One size.
pub(crate) struct World {
    pub(crate) objects: u32,
    pub(crate) options: Options,
    pub(crate) folder: PathBuf,
    pub(crate) store: Arc<EmbeddedStore>,
    pub(crate) bare: Arc<Bare>,
    pub(crate) mongo: Option<mongodb::Collection<RawDocumentBuf>>,
    pub(crate) store_growth: Growth,
    pub(crate) bare_growth: Growth,
}

/// What was inserted on top of the objects of one of the stores.
pub(crate) struct Growth {
    objects: u32,
    inserted: AtomicU32,
}

impl Growth {
    fn on(objects: u32) -> Self {
        Self { objects, inserted: AtomicU32::new(0) }
    }

    /// New numbers for each client.
    pub(crate) fn numbers(&self, clients: u32, each: u32) -> impl Iterator<Item = Range<u32>> + use<> {
        let first = self.objects + 1 + self.inserted.fetch_add(clients * each, Ordering::Relaxed);
        (0..clients).map(move |client| first + client * each..first + (client + 1) * each)
    }

    pub(crate) fn is_none(&self) -> bool {
        self.inserted.load(Ordering::Relaxed) == 0
    }

    /// Whether it is more than a quarter; then it counts as removed.
    fn is_much(&self) -> bool {
        let is_much = self.inserted.load(Ordering::Relaxed) > self.objects / 4;
        if is_much {
            self.inserted.store(0, Ordering::Relaxed);
        }
        is_much
    }
}

impl World {
    /// Opens the stores of this size, filled.
    pub(crate) async fn open(
        arguments: &Arguments,
        objects: u32,
        folder: &Path,
        server: Option<&Mongod>,
    ) -> Result<(Self, Option<Row>), Error> {
        let folder = folder.join(objects.to_string());
        let is_filled = folder.join("bare-is-filled").exists() && folder.join("store-is-filled").exists();
        let options = arguments.options();
        let store = Arc::new(EmbeddedStore::open(&folder.join("store"), &options)?);
        let bare = Arc::new(Bare::open(&folder.join("bare"), options.cache_bytes)?);
        store.prepare(ALL).await?;
        let mongo = match server {
            Some(server) => Some(server.client().await.database(&format!("bench_{objects}")).collection("objects")),
            None => None,
        };
        let (store_growth, bare_growth) = (Growth::on(objects), Growth::on(objects));
        let world = Self { objects, options, folder, store, bare, mongo, store_growth, bare_growth };
        let row = if is_filled { None } else { Some(world.fill().await?) };
        world.add_type().await?;
        world.remove_from_store().await?;
        world.remove_from_bare().await?;
        world.fill_server().await?;
        Ok((world, row))
    }

    async fn fill(&self) -> Result<Row, Error> {
        eprintln!("loading {} objects", self.objects);
        let mut figures = Vec::new();
        // A store of another version can be taken away and loaded again without the other one.
        let (bare, store) = (self.folder.join("bare-is-filled"), self.folder.join("store-is-filled"));
        if !bare.exists() {
            figures.push(Figure::of("bare redb", self.objects, &[self.fill_bare().await?]));
            std::fs::write(bare, [])?;
        }
        if !store.exists() {
            figures.push(Figure::of("store", self.objects, &[self.fill_store().await?]));
            std::fs::write(store, [])?;
        }
        let operation = format!("load, {PER_UNIT} objects at a time");
        Ok(Row { operation, unit: RowUnit::Rate, figures, bounds: Vec::<Bound>::new() })
    }

    async fn fill_store(&self) -> Result<Run, Error> {
        let mut took = Duration::ZERO;
        for numbers in pieces(self.objects) {
            let mut unit = Unit::default();
            for number in numbers {
                unit = unit.and(self.insertion(number));
            }
            let start = Instant::now();
            self.store.commit(unit).await?;
            took += start.elapsed();
        }
        Ok(Run { wall: took, processor: Duration::ZERO, operations: self.objects })
    }

    async fn fill_bare(&self) -> Result<Run, Error> {
        let mut took = Duration::ZERO;
        for numbers in pieces(self.objects) {
            let documents = numbers.map(|number| self.prepared(number)).collect::<Result<Vec<_>, Error>>()?;
            let start = Instant::now();
            self.bare.write(documents).await?;
            took += start.elapsed();
        }
        Ok(Run { wall: took, processor: Duration::ZERO, operations: self.objects })
    }

    async fn fill_server(&self) -> Result<(), Error> {
        let Some(mongo) = &self.mongo else { return Ok(()) };
        for numbers in pieces(self.objects) {
            mongo.insert_many(numbers.map(|number| objects::object(number, self.objects))).await?;
        }
        Ok(())
    }

    /// The insertion of an object through the port.
    fn insertion(&self, number: u32) -> Change {
        Change::Insert { collection: OBJECTS, document: objects::object(number, self.objects) }
    }

    /// The unit in which the service creates an object: only together with an active type.
    pub(crate) fn creation(&self, number: u32) -> Unit {
        let filter = Filter::equals("public_id", TYPE).and(Filter::none_of("active", [false]));
        Unit::of(self.insertion(number)).given(Condition::Exists { collection: TYPES, filter })
    }

    /// The type of new objects.
    async fn add_type(&self) -> Result<(), Error> {
        let filter = Filter::equals("public_id", TYPE);
        if self.store.count(TYPES, &filter, Duration::from_mins(1)).await? == 0 {
            let document = raw(&doc! { "public_id": TYPE, "name": "object", "active": true });
            self.store.commit(Unit::of(Change::Insert { collection: TYPES, document })).await?;
        }
        Ok(())
    }

    /// The insertion of an object into bare redb.
    pub(crate) fn prepared(&self, number: u32) -> Result<Prepared, Error> {
        Prepared::new(u64::from(number - 1), objects::object(number, self.objects))
    }

    /// Removes what was inserted where it is a large part of all. A little is left: newest entries of indexes are worked
    /// in when there are more of them, and that has to be in the measured runs.
    pub(crate) async fn remove_much(&self) -> Result<(), Error> {
        if self.store_growth.is_much() {
            self.remove_from_store().await?;
        }
        if self.bare_growth.is_much() {
            self.remove_from_bare().await?;
        }
        Ok(())
    }

    async fn remove_from_store(&self) -> Result<(), Error> {
        let further = doc! { "public_id": { "$gt": i64::from(self.objects) } };
        let filter = Filter::parse(&further, &Limits::NONE)?;
        self.store.commit(Unit::of(Change::DeleteMany { collection: OBJECTS, filter })).await?;
        Ok(())
    }

    async fn remove_from_bare(&self) -> Result<(), Error> {
        self.bare.delete_from(u64::from(self.objects)).await
    }
}

/// The numbers of all objects, a piece at a time.
fn pieces(objects: u32) -> impl Iterator<Item = std::ops::RangeInclusive<u32>> {
    (1..=objects).step_by(PER_UNIT as usize).map(move |first| first..=objects.min(first + PER_UNIT - 1))
}
