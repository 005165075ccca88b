//! The operations that are measured, and what is asked of them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Document, doc};
use futures::TryStreamExt;
use futures::future::{LocalBoxFuture, try_join_all};
use inventory_service::query::{Filter, Limits, Sort};
use inventory_service::store::collections::OBJECTS;
use inventory_service::store::{FindQuery, Store, Unit};

use crate::arguments::Arguments;
use crate::harness::process;
use crate::harness::report::{Bound, Row, Unit as RowUnit};
use crate::harness::timing::{Error, Outcome, Run, Runner, in_turns};
use crate::objects::{self, Numbers};
use crate::world::World;

const STORE: &str = "store";
const BARE: &str = "bare redb";
const MONGOD: &str = "mongod";
/// What a page of the file costs that is in the memory of the operating system and in no cache of the store.
const PAGE: &str = "a page of the file";
const MAX_TIME: Duration = Duration::from_mins(1);
/// Of redb.
const PAGE_BYTES: u32 = 4096;

/// Of a run, and of bare redb, which is the same from the first object on.
const MOST_INSERTS: u32 = 24_000;
const MOST_INSERTS_BARE: u32 = 8_000;
/// The number of documents in a large store before it is measured: then it works newest entries of its indexes in as fast as
/// they come.
const FILLING: u32 = 80_000;

/// How often things are done in one run.
struct Effort {
    reads: u32,
    pages: u32,
}

impl Effort {
    fn of(arguments: &Arguments) -> Self {
        if arguments.quick { Self { reads: 500, pages: 20 } } else { Self { reads: 50_000, pages: 2_000 } }
    }
}

/// Measures everything that needs open stores.
pub(crate) async fn all(
    arguments: &Arguments,
    worlds: &[World],
    mongod: Option<u32>,
    done: &mut impl FnMut(Row),
) -> Result<(), Error> {
    let effort = Effort::of(arguments);
    let turns = Turns { arguments, worlds, mongod };
    turns.warm().await?;
    if arguments.wants("read") {
        done(turns.read(effort.reads).await?);
    }
    if arguments.wants("page") {
        done(turns.page(effort.pages).await?);
    }
    if arguments.wants("elemMatch") {
        done(turns.elem_match(effort.pages).await?);
    }
    if arguments.wants("scan") {
        let note = |of| doc! { "note": objects::note(7, of) };
        done(turns.scan("scan, a text at the top", note).await?);
        let part = |_| doc! { "fields.value": { "$regex": "0123\\.example" } };
        done(turns.scan("scan, a regular expression in the fields", part).await?);
    }
    for clients in [16, 128] {
        if arguments.wants("insert") {
            done(turns.insert(clients).await?);
        }
    }
    Ok(())
}

struct Turns<'a> {
    arguments: &'a Arguments,
    worlds: &'a [World],
    mongod: Option<u32>,
}

impl<'a> Turns<'a> {
    async fn row(&self, operation: impl Into<String>, unit: RowUnit, runners: Vec<Runner<'a>>) -> Result<Row, Error> {
        let mut runners = runners;
        let operation = operation.into();
        eprintln!("measuring: {operation}");
        let figures = in_turns(self.arguments.runs, &mut runners).await?;
        Ok(Row { operation, unit, figures, bounds: Vec::new() })
    }

    /// Reads every object in order, and by its rack: what a cache can hold is in it, and the file is in the memory of the
    /// operating system.
    async fn warm(&self) -> Result<(), Error> {
        for world in self.worlds {
            if self.arguments.wants("read") {
                world.bare.read(1..=world.objects, |bytes| drop(std::hint::black_box(bytes.to_vec())))?;
                for number in 1..=world.objects {
                    read_one(&*world.store, number).await?;
                }
            }
            if self.arguments.wants("elemMatch") {
                for rack in 0..objects::racks(world.objects) {
                    read_rack(world, rack).await?;
                }
            }
        }
        Ok(())
    }

    async fn read(&self, reads: u32) -> Result<Row, Error> {
        let mut runners = Vec::new();
        for world in self.worlds {
            let mut seed = 0;
            runners.push(runner(STORE, world, move || {
                seed += 1;
                let numbers = Numbers::below(world.objects, seed);
                Box::pin(here(read_by_port(&*world.store, numbers, reads)))
            }));
            let mut seed = 0;
            runners.push(runner(BARE, world, move || {
                seed += 1;
                let mut numbers = Numbers::below(world.objects, seed);
                Box::pin(here(async move {
                    let numbers = (0..reads).map(|_| numbers.next() + 1);
                    world.bare.read(numbers, |bytes| drop(std::hint::black_box(bytes.to_vec())))
                }))
            }));
            let mut seed = 0;
            runners.push(runner(PAGE, world, move || {
                seed += 1;
                Box::pin(here(async move { read_pages(world, seed, reads) }))
            }));
        }
        let mut row = self.row("read by public_id, raw bytes", RowUnit::Time, runners).await?;
        bound_by_reference(&mut row, BARE, 1.5, self.worlds.first());
        self.bound_by_size(&mut row, 1.5);
        Ok(row)
    }

    async fn page(&self, pages: u32) -> Result<Row, Error> {
        let runners = self.of_store(|world| {
            let mut seed = 0;
            move || {
                seed += 1;
                let mut types = Numbers::below(objects::TYPES, seed);
                Box::pin(here(async move {
                    for _ in 0..pages {
                        let query = query(&doc! { "type_id": i64::from(types.next() + 1) })?;
                        let query = query.sorted(Sort::parse(&doc! { "public_id": 1 })?).limited(10);
                        let page = world.store.page(OBJECTS, &query).await?;
                        expect(page.total, u64::from(world.objects / objects::TYPES))?;
                        expect(page.documents.len() as u64, 10)?;
                    }
                    Ok(pages)
                }))
            }
        });
        let mut row = self.row("page of 10 by index and sort, exact total", RowUnit::Time, runners).await?;
        self.bound_by_size(&mut row, 2.0);
        Ok(row)
    }

    async fn elem_match(&self, pages: u32) -> Result<Row, Error> {
        let runners = self.of_store(|world| {
            let mut seed = 0;
            move || {
                seed += 1;
                let mut racks = Numbers::below(objects::racks(world.objects), seed);
                Box::pin(here(async move {
                    for _ in 0..pages {
                        read_rack(world, racks.next()).await?;
                    }
                    Ok(pages)
                }))
            }
        });
        let mut row = self.row("$elemMatch on field name and value, 10 hits", RowUnit::Time, runners).await?;
        self.bound_by_size(&mut row, 2.0);
        Ok(row)
    }

    async fn scan(&self, name: &str, filter: fn(u32) -> Document) -> Result<Row, Error> {
        let mut runners = Vec::new();
        for world in self.worlds {
            // A run takes long enough to be measured well.
            let times = (200_000 / world.objects).clamp(1, 20);
            runners.push(runner(STORE, world, move || {
                Box::pin(here(async move {
                    let query = query(&filter(world.objects))?;
                    for _ in 0..times {
                        std::hint::black_box(world.store.find(OBJECTS, &query).await?);
                    }
                    Ok(times)
                }))
            }));
            let (Some(mongo), Some(pid)) = (&world.mongo, self.mongod) else { continue };
            runners.push(runner(MONGOD, world, move || {
                Box::pin(Run::of(pid, async move {
                    for _ in 0..times {
                        let found: Vec<RawDocumentBuf> = mongo.find(filter(world.objects)).await?.try_collect().await?;
                        let ours = world.store.find(OBJECTS, &query(&filter(world.objects))?.limited(1)).await?;
                        expect(found.is_empty().into(), ours.is_empty().into())?;
                    }
                    Ok(times)
                }))
            }));
        }
        let mut row = self.row(name, RowUnit::Time, runners).await?;
        for world in self.worlds {
            bound_by_reference(&mut row, MONGOD, 1.0, Some(world));
        }
        Ok(row)
    }

    async fn insert(&self, clients: u32) -> Result<Row, Error> {
        let mut runners = Vec::new();
        for world in self.worlds {
            if world.objects > 4 * FILLING && world.store_growth.is_none() {
                insert_by_port(world, clients, FILLING / clients).await?;
            }
            let each = |most| (world.objects / 2).clamp(2 * clients, most) / clients;
            let (own, bare) = (each(MOST_INSERTS), each(MOST_INSERTS_BARE));
            runners.push(runner(STORE, world, move || Box::pin(insert_by_port(world, clients, own))));
            runners.push(runner(BARE, world, move || Box::pin(insert_bare(world, clients, bare))));
        }
        let mut row = self.row(format!("durable insert, {clients} clients"), RowUnit::Rate, runners).await?;
        if let Some(world) = self.worlds.first()
            && let (Some(own), Some(bare)) = (row.figure(STORE, world.objects), row.figure(BARE, world.objects))
        {
            row.bounds.push(Bound::at_least(format!("rate, of {BARE} at {}", world.objects), bare / own, 0.8));
        }
        for (small, large) in pairs(self.worlds) {
            for (who, limit) in [(STORE, 0.7), (BARE, 0.0)] {
                if let (Some(at_small), Some(at_large)) = (row.figure(who, small), row.figure(who, large)) {
                    let of = format!("rate of {who} at {large}, of that at {small}");
                    row.bounds.push(Bound::at_least(of, at_small / at_large, limit));
                }
            }
        }
        Ok(row)
    }

    /// One runner for each size.
    fn of_store<M, R>(&self, make: M) -> Vec<Runner<'a>>
    where
        M: Fn(&'a World) -> R,
        R: FnMut() -> LocalBoxFuture<'a, Outcome> + 'a,
    {
        self.worlds.iter().map(|world| runner(STORE, world, make(world))).collect()
    }

    /// The time of the store at a larger size, of that at the smallest.
    fn bound_by_size(&self, row: &mut Row, limit: f64) {
        for (small, large) in pairs(self.worlds) {
            if let (Some(at_small), Some(at_large)) = (row.figure(STORE, small), row.figure(STORE, large)) {
                row.bounds.push(Bound::at_most(
                    format!("time at {large}, of that at {small}"),
                    at_large / at_small,
                    limit,
                ));
            }
        }
    }
}

/// The time of the store, of the reference's at the same size.
fn bound_by_reference(row: &mut Row, reference: &str, limit: f64, world: Option<&World>) {
    let Some(objects) = world.map(|world| world.objects) else { return };
    if let (Some(own), Some(other)) = (row.figure(STORE, objects), row.figure(reference, objects)) {
        row.bounds.push(Bound::at_most(format!("time, of {reference} at {objects}"), own / other, limit));
    }
}

fn runner<'a>(who: &'static str, world: &World, run: impl FnMut() -> LocalBoxFuture<'a, Outcome> + 'a) -> Runner<'a> {
    Runner { who, objects: world.objects, run: Box::new(run) }
}

/// Times `work` in this process.
async fn here(work: impl Future<Output = Result<u32, Error>>) -> Outcome {
    Run::of(std::process::id(), work).await
}

/// The smallest size with each larger one.
fn pairs(worlds: &[World]) -> Vec<(u32, u32)> {
    let Some((first, others)) = worlds.split_first() else { return Vec::new() };
    others.iter().map(|other| (first.objects, other.objects)).collect()
}

pub(crate) fn query(filter: &Document) -> Result<FindQuery, Error> {
    Ok(FindQuery::new(Filter::parse(filter, &Limits::default())?, MAX_TIME))
}

/// As the service asks for one object.
pub(crate) async fn read_by_port(store: &dyn Store, mut numbers: Numbers, reads: u32) -> Result<u32, Error> {
    for _ in 0..reads {
        read_one(store, numbers.next() + 1).await?;
    }
    Ok(reads)
}

async fn read_one(store: &dyn Store, number: u32) -> Result<(), Error> {
    let filter = Filter::equals("public_id", i64::from(number));
    let found = store.find(OBJECTS, &FindQuery::new(filter, MAX_TIME).limited(1)).await?;
    std::hint::black_box(found.first().ok_or("no such object")?.as_bytes());
    Ok(())
}

/// Reads the objects in a rack.
async fn read_rack(world: &World, rack: u32) -> Result<(), Error> {
    let rack = objects::rack(rack, world.objects);
    let query = query(&doc! { "fields": { "$elemMatch": { "name": "rack", "value": rack } } })?;
    let found = world.store.page(OBJECTS, &query.limited(10)).await?;
    expect(found.total, u64::from(objects::PER_RACK))
}

/// Reads pages of the store's file at random, past redb.
fn read_pages(world: &World, seed: u64, reads: u32) -> Result<u32, Error> {
    let file = File::open(world.folder.join("store").join("inventory.redb"))?;
    let pages = u32::try_from(file.metadata()?.len() / u64::from(PAGE_BYTES))?;
    let (mut numbers, mut page) = (Numbers::below(pages, seed), [0; PAGE_BYTES as usize]);
    for _ in 0..reads {
        file.read_exact_at(&mut page, u64::from(numbers.next()) * u64::from(PAGE_BYTES))?;
        std::hint::black_box(&page);
    }
    Ok(reads)
}

async fn insert_by_port(world: &World, clients: u32, each: u32) -> Outcome {
    let work: Vec<Vec<Unit>> =
        world.store_growth.numbers(clients, each).map(|numbers| numbers.map(|n| world.creation(n)).collect()).collect();
    let run = here(async {
        let clients_at_work = work.into_iter().map(|units| {
            let store = Arc::clone(&world.store);
            tokio::spawn(async move {
                for unit in units {
                    store.commit(unit).await?;
                }
                Ok::<(), Error>(())
            })
        });
        try_join_all(clients_at_work).await?.into_iter().collect::<Result<(), Error>>()?;
        Ok(clients * each)
    });
    let run = run.await?;
    world.remove_much().await?;
    Ok(run)
}

async fn insert_bare(world: &World, clients: u32, each: u32) -> Outcome {
    let work = (world.bare_growth.numbers(clients, each))
        .map(|numbers| numbers.map(|n| world.prepared(n)).collect::<Result<Vec<_>, Error>>())
        .collect::<Result<Vec<_>, Error>>()?;
    let run = here(async {
        let clients_at_work = work.into_iter().map(|documents| {
            let bare = Arc::clone(&world.bare);
            tokio::spawn(async move {
                for document in documents {
                    bare.write(vec![document]).await?;
                }
                Ok::<(), Error>(())
            })
        });
        try_join_all(clients_at_work).await?.into_iter().collect::<Result<(), Error>>()?;
        Ok(clients * each)
    });
    let run = run.await?;
    world.remove_much().await?;
    Ok(run)
}

fn expect(found: u64, wanted: u64) -> Result<(), Error> {
    if found == wanted { Ok(()) } else { Err(format!("found {found} where {wanted} were to be found").into()) }
}

/// The process of the server on this port.
pub(crate) fn server_process(uri: &str) -> Option<u32> {
    let port = uri.split(':').nth(2)?.split('/').next()?;
    process::find("mongod", port)
}
