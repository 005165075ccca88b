//! What needs a process of its own: starting after a kill, and memory under load.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, thread};

use bson::doc;
use inventory_service::query::{Filter, Sort};
use inventory_service::store::collections::OBJECTS;
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{Change, Store, Unit};

use crate::arguments::Arguments;
use crate::harness::process;
use crate::harness::report::{Bound, Row, Unit as RowUnit};
use crate::harness::timing::{Error, Figure, Run};
use crate::objects::{self, Numbers};
use crate::rows::{query, read_by_port};

const WRITERS: u32 = 16;
/// How long a process writes before it is killed.
const BEFORE_KILL: Duration = Duration::from_millis(500);
const MIB: f64 = 1024.0 * 1024.0;

/// Opens the store of this size after it was closed, and after its process was killed while it wrote.
pub(crate) fn starts(arguments: &Arguments, objects: u32, folder: &Path, options: &Options) -> Result<Row, Error> {
    let directory = folder.join("store");
    eprintln!("measuring: start at {objects}");
    let mut clean = Vec::new();
    let mut killed = Vec::new();
    for _ in 0..arguments.runs {
        clean.push(opening(&directory, options)?);
        let mut victim = child(arguments, "write", &directory)?;
        await_line(&mut victim)?;
        thread::sleep(BEFORE_KILL);
        victim.kill()?;
        victim.wait()?;
        killed.push(opening(&directory, options)?);
    }
    let figures = vec![Figure::of("clean", objects, &clean), Figure::of("after kill -9", objects, &killed)];
    let mut row = Row { operation: "start".to_owned(), unit: RowUnit::Time, figures, bounds: Vec::new() };
    for (who, limit) in [("clean", 1.0), ("after kill -9", 3.0)] {
        let took = row.figure(who, objects).unwrap_or_default();
        row.bounds.push(Bound::at_most(format!("{who}, seconds"), took / 1e9, limit));
    }
    Ok(row)
}

fn opening(directory: &Path, options: &Options) -> Result<Run, Error> {
    let start = Instant::now();
    let store = EmbeddedStore::open(directory, options)?;
    let wall = start.elapsed();
    drop(store);
    Ok(Run { wall, processor: Duration::ZERO, operations: 1 })
}

/// The maximum memory of a process while it read, wrote and listed.
pub(crate) fn memory(arguments: &Arguments, objects: u32, folder: &Path, options: &Options) -> Result<Row, Error> {
    eprintln!("measuring: memory at {objects}");
    let mut worker = child(arguments, "load", &folder.join("store"))?;
    await_line(&mut worker)?;
    thread::sleep(Duration::from_secs(arguments.memory_seconds));
    let most = process::memory(worker.id(), "VmHWM");
    let now = process::memory(worker.id(), "VmRSS");
    worker.kill()?;
    worker.wait()?;
    let bytes = |who, bytes| {
        let wall = Duration::from_nanos(bytes);
        Figure::of(who, objects, &[Run { wall, processor: Duration::ZERO, operations: 1 }])
    };
    let figures = vec![bytes("resident, most", most), bytes("resident, at the end", now)];
    let above = Duration::from_nanos(most).as_secs_f64() * 1e9 / MIB
        - Duration::from_nanos(options.cache_bytes as u64).as_secs_f64() * 1e9 / MIB;
    let bounds = vec![Bound::at_most("the most above the cache, MiB", above, 150.0)];
    Ok(Row { operation: "memory under reads, writes and lists".to_owned(), unit: RowUnit::Bytes, figures, bounds })
}

/// What [`child`] started does.
pub(crate) async fn play(role: &str, directory: &Path, options: &Options) -> Result<(), Error> {
    let store = Arc::new(EmbeddedStore::open(directory, options)?);
    let existing = store.count(OBJECTS, &Filter::all(), Duration::from_mins(1)).await?;
    let existing = u32::try_from(existing)?;
    println!("open");
    std::io::stdout().flush()?;
    let mut tasks = Vec::new();
    for _ in 0..WRITERS {
        tasks.push(tokio::spawn(write(Arc::clone(&store), existing)));
    }
    if role == "load" {
        for reader in 0..4 {
            tasks.push(tokio::spawn(read(Arc::clone(&store), existing, reader)));
        }
        for reader in 0..2 {
            tasks.push(tokio::spawn(list(Arc::clone(&store), existing, reader)));
        }
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn write(store: Arc<EmbeddedStore>, existing: u32) -> Result<(), Error> {
    loop {
        let number = u32::try_from(store.reserve_ids(OBJECTS, 1).await?)?;
        let insertion = Change::Insert { collection: OBJECTS, document: objects::object(number, existing) };
        store.commit(Unit::of(insertion)).await?;
        let filter = Filter::equals("public_id", i64::from(number));
        store.commit(Unit::of(Change::DeleteMany { collection: OBJECTS, filter })).await?;
    }
}

async fn read(store: Arc<EmbeddedStore>, existing: u32, seed: u64) -> Result<(), Error> {
    for round in 0_u64.. {
        read_by_port(&*store, Numbers::below(existing, seed + 100 * round), 1000).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn list(store: Arc<EmbeddedStore>, existing: u32, seed: u64) -> Result<(), Error> {
    let mut numbers = Numbers::below(existing, seed);
    let newest_first = Sort::parse(&doc! { "public_id": -1 })?;
    loop {
        let rack = objects::rack(numbers.next(), existing);
        let of_rack = query(&doc! { "fields": { "$elemMatch": { "name": "rack", "value": rack } } })?;
        store.page(OBJECTS, &of_rack).await?;
        let of_type = query(&doc! { "type_id": i64::from(numbers.next() % objects::TYPES + 1) })?;
        store.page(OBJECTS, &of_type.sorted(newest_first.clone()).limited(100)).await?;
        let noted = query(&doc! { "note": objects::note(numbers.next(), existing) })?;
        store.page(OBJECTS, &noted.limited(10)).await?;
    }
}

fn child(arguments: &Arguments, role: &str, directory: &Path) -> Result<Child, Error> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments.of_the_store()).arg("--role").arg(role).arg(directory);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
}

fn await_line(child: &mut Child) -> Result<(), Error> {
    let output = child.stdout.take().ok_or("no pipe")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    if line == "open\n" { Ok(()) } else { Err("the process could not open the store".into()) }
}
