//! The rows: what is asked of everybody, in turns, and what has to come out of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::arguments::Arguments;
use crate::bare::{Bare, Prepared};
use crate::drive::{Figure, Load, Sample, run};
use crate::harness::process;
use crate::harness::report::{Bound, save};
use crate::harness::timing::Error;
use crate::innocent::{self, Beside};
use crate::mongod::{self, Deployment, Mongod};
use crate::objects;
use crate::past::{self, Past};
use crate::servers::Server;
use crate::table::{Named, Row};
use crate::world::{Question, World, get, get_openly, sign_in, sign_in_request};

const EMBEDDED: &str = "embedded";
const MONGODB: &str = "mongodb";
const FIXED: &str = "fixed bytes";
const OPEN: &str = "fixed bytes for anybody";
const DRIVER: &str = "bare driver";
const BARE: &str = "bare redb";

/// At which number of connections the bounds are asked.
const BOUND_AT: usize = 16;

/// One operation: its name, and what is asked of whom.
struct Operation {
    name: &'static str,
    /// Of the rate of fixed bytes of the same size, on the embedded store.
    of_fixed: Option<f64>,
    /// Of the rate of the bare handler over the driver.
    of_driver: Option<f64>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Native,
    Rendered,
    List(u32, &'static str),
    Filter,
    OfType,
    Quarter,
    Contains,
    Search(usize),
    Tree,
    Unchanged,
    Post,
    Put,
    Login,
    Authentication,
}

const fn operation(name: &'static str, kind: Kind, of_fixed: Option<f64>, of_driver: Option<f64>) -> Operation {
    Operation { name, of_fixed, of_driver, kind }
}

const OPERATIONS: &[Operation] = &[
    operation("native read", Kind::Native, Some(0.5), Some(0.85)),
    operation("rendered read", Kind::Rendered, Some(0.4), Some(0.7)),
    operation("list of 10, native", Kind::List(10, ""), Some(0.35), None),
    operation("list of 10, rendered", Kind::List(10, "&view=render"), Some(0.25), None),
    operation("list of 100, native", Kind::List(100, ""), Some(0.35), None),
    operation("list of 10 of a type", Kind::OfType, None, None),
    operation("filter by a field", Kind::Filter, None, None),
    operation("filter that many match", Kind::Quarter, None, None),
    operation("filter by a part of a text", Kind::Contains, None, None),
    operation("search for one word", Kind::Search(1), None, None),
    operation("search for three words", Kind::Search(3), None, None),
    operation("category tree", Kind::Tree, None, None),
    operation("not modified", Kind::Unchanged, Some(0.6), None),
    operation("authentication", Kind::Authentication, None, None),
    operation("login", Kind::Login, None, None),
    operation("put", Kind::Put, None, None),
    operation("post", Kind::Post, None, None),
];

/// Everything that is measured.
struct Bench<'a> {
    arguments: &'a Arguments,
    folder: &'a Path,
    worlds: Vec<World>,
    mongod: Option<u32>,
    driver: Option<Server>,
}

/// Who is measured in a row.
struct Runner {
    who: &'static str,
    objects: u32,
    load: Option<Load>,
}

/// Measures the innocent reader on each store.
pub(crate) async fn innocent(arguments: &Arguments, folder: &Path) -> Result<(), Error> {
    println!("{}", innocent::HEAD);
    let mut rows = Vec::new();
    let mut done = |beside: Beside| {
        println!("{}", beside.line());
        rows.push(beside);
    };
    on_each_world(arguments, folder, async |world| {
        innocent::measure(world, |name| arguments.wants(name), &mut done).await
    })
    .await?;
    println!("written to {}", save(&arguments.output, &rows)?.display());
    Ok(())
}

/// Measures the history on each store.
pub(crate) async fn history(arguments: &Arguments, folder: &Path) -> Result<(), Error> {
    println!("{}", past::HEAD);
    let mut rows = Vec::new();
    let mut done = |figure: Past| {
        println!("{}", figure.line());
        rows.push(figure);
    };
    on_each_world(arguments, folder, async |world| past::measure(world, &mut done).await).await?;
    if arguments.wants("pruning") {
        done(past::pruning(folder).await?);
    }
    println!("written to {}", save(&arguments.output, &rows)?.display());
    Ok(())
}

/// Fills a world of each size on each store that is wanted.
async fn on_each_world(
    arguments: &Arguments,
    folder: &Path,
    mut measure: impl AsyncFnMut(&mut World) -> Result<(), Error>,
) -> Result<(), Error> {
    let stores = |name: &str| arguments.stores.iter().any(|store| store == name);
    let mut mongo = None;
    for &objects in &arguments.sizes {
        let mut worlds = Vec::new();
        if stores(EMBEDDED) {
            worlds.push(World::embedded(objects, folder, arguments.keep.as_ref()).await?);
        }
        if let Some(program) = mongod::program().filter(|_| stores(MONGODB)) {
            let server = Mongod::start(program, Deployment::ReplicaSet).await;
            worlds.push(World::mongodb(objects, &server.uri(&format!("bench_{objects}"))).await?);
            mongo = Some(server);
        }
        for world in &mut worlds {
            measure(world).await?;
        }
    }
    drop(mongo);
    Ok(())
}

/// Measures all rows.
pub(crate) async fn all(arguments: &Arguments, folder: &Path, done: &mut impl FnMut(Row)) -> Result<(), Error> {
    if arguments.wants("start") {
        starts(arguments, folder).await?;
    }
    let stores = |name: &str| arguments.stores.iter().any(|store| store == name);
    let mut mongo = None;
    let mut bench = Bench { arguments, folder, worlds: Vec::new(), mongod: None, driver: None };
    for &objects in &arguments.sizes {
        if stores(EMBEDDED) {
            bench.worlds.push(World::embedded(objects, folder, arguments.keep.as_ref()).await?);
        }
        if !stores(MONGODB) {
            continue;
        }
        if mongo.is_none() {
            mongo = match mongod::program() {
                Some(program) => Some(Mongod::start(program, Deployment::ReplicaSet).await),
                None => continue,
            };
        }
        let Some(server) = &mongo else { continue };
        let uri = server.uri(&format!("bench_{objects}"));
        bench.mongod = uri.split(':').nth(2).and_then(|rest| process::find("mongod", rest.split('/').next()?));
        bench.worlds.push(World::mongodb(objects, &uri).await?);
        if bench.driver.is_none() {
            bench.driver = Some(Server::driver(&uri).await?);
        }
    }
    for operation in OPERATIONS.iter().filter(|operation| arguments.wants(operation.name)) {
        for row in bench.measure(operation).await? {
            done(row);
        }
    }
    for World { store, objects, server, .. } in bench.worlds {
        println!("{store} at {objects}: {} after the load", memory(server.pid()));
        server.stop()?;
    }
    Ok(())
}

impl Bench<'_> {
    async fn measure(&self, operation: &Operation) -> Result<Vec<Row>, Error> {
        if operation.kind == Kind::Authentication {
            return self.authentication(operation.name).await;
        }
        let mut runners = Vec::new();
        for world in &self.worlds {
            let question = self.question(world, operation.kind).await?;
            let mongod = self.mongod.filter(|_| world.store == MONGODB);
            let server = &world.server;
            runners.push(Runner {
                who: world.store,
                objects: world.objects,
                load: Some(Load {
                    port: server.port,
                    requests: question.requests,
                    status: question.status,
                    service: server.pid(),
                    mongod,
                }),
            });
        }
        let fixed = if operation.of_fixed.is_some() { self.fixed(operation, &mut runners).await? } else { None };
        if operation.of_driver.is_some() {
            self.driver(&mut runners);
        }
        let is_post = operation.kind == Kind::Post;
        if is_post {
            runners.push(Runner { who: BARE, objects: 0, load: None });
        }
        let mut rows = Vec::new();
        for &connections in &self.arguments.connections {
            let mut row = self.in_turns(operation.name, connections, &runners).await?;
            if connections == BOUND_AT || (is_post && connections > 1) {
                self.bound(operation, &mut row);
            }
            rows.push(row);
        }
        if let Some(server) = fixed {
            server.stop()?;
        }
        Ok(rows)
    }

    async fn question(&self, world: &World, kind: Kind) -> Result<Question, Error> {
        Ok(match kind {
            Kind::Native => world.native_reads(),
            Kind::Rendered => world.rendered_reads(),
            Kind::List(limit, view) => world.lists(limit, view),
            Kind::Filter => world.filters(),
            Kind::OfType => world.lists_of_type(),
            Kind::Quarter => world.filters_of_many(),
            Kind::Contains => world.filters_by_part(),
            Kind::Search(words) => world.searches(words),
            Kind::Tree => world.category_tree(),
            Kind::Unchanged => world.unchanged().await?,
            Kind::Post => world.insertions(),
            Kind::Put => world.replacements(),
            Kind::Login | Kind::Authentication => Question { requests: vec![sign_in_request()], status: 200 },
        })
    }

    /// The same server, sending the first answer of the first embedded store from memory.
    async fn fixed(&self, operation: &Operation, runners: &mut Vec<Runner>) -> Result<Option<Server>, Error> {
        let Some(world) = self.worlds.iter().find(|world| world.store == EMBEDDED) else { return Ok(None) };
        let folder = self.folder.join("fixed").join(operation.name);
        fs::create_dir_all(&folder)?;
        let (path, status) = if operation.kind == Kind::Unchanged {
            ("/rest/unchanged", 304)
        } else {
            let question = self.question(world, operation.kind).await?;
            let path = question.path().ok_or("nothing is asked")?;
            fs::write(folder.join("body"), world.read(&path).await?)?;
            ("/rest/fixed/body", 200)
        };
        let server = Server::fixed(&format!("embedded:{}", self.folder.join("fixed-store").display()), &folder).await?;
        let requests = vec![get(path, &sign_in(server.port).await?)];
        let load = Load { port: server.port, requests, status, service: server.pid(), mongod: None };
        runners.push(Runner { who: FIXED, objects: 0, load: Some(load) });
        Ok(Some(server))
    }

    /// The same bytes for a caller with a token and a right, and for anybody.
    async fn authentication(&self, name: &str) -> Result<Vec<Row>, Error> {
        let folder = self.folder.join("fixed").join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("body"), "{}")?;
        let server = Server::fixed(&format!("embedded:{}", self.folder.join("fixed-store").display()), &folder).await?;
        let load = |request| {
            Some(Load { port: server.port, requests: vec![request], status: 200, service: server.pid(), mongod: None })
        };
        let token = sign_in(server.port).await?;
        let runners = [
            Runner { who: FIXED, objects: 0, load: load(get("/rest/fixed/body", &token)) },
            Runner { who: OPEN, objects: 0, load: load(get_openly("/rest/open/body")) },
        ];
        let mut rows = Vec::new();
        for &connections in &self.arguments.connections {
            let mut row = self.in_turns(name, connections, &runners).await?;
            let processor = |who| row.figure(who, 0).map(|figure| figure.service_cpu_us);
            if let (Some(known), Some(open)) = (processor(FIXED), processor(OPEN)) {
                row.bounds.push(Bound::at_most("microseconds of the processor for it", known - open, 10.0));
            }
            rows.push(row);
        }
        server.stop()?;
        Ok(rows)
    }

    fn driver(&self, runners: &mut Vec<Runner>) {
        let Some(server) = &self.driver else { return };
        let Some(world) = self.worlds.iter().find(|world| world.store == MONGODB) else { return };
        let load = Load {
            port: server.port,
            requests: world.bare_reads(),
            status: 200,
            service: server.pid(),
            mongod: self.mongod,
        };
        runners.push(Runner { who: DRIVER, objects: world.objects, load: Some(load) });
    }

    /// Lets each run once to warm up, then all of them in turns.
    async fn in_turns(&self, name: &str, connections: usize, runners: &[Runner]) -> Result<Row, Error> {
        eprintln!("measuring: {name}, {connections} connections");
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); runners.len()];
        for turn in 0..=self.arguments.runs {
            for (runner, samples) in runners.iter().zip(&mut samples) {
                let sample = match &runner.load {
                    Some(load) => run(load, connections, self.arguments.run()).await?,
                    None => self.bare(connections).await?,
                };
                if turn > 0 {
                    samples.push(sample);
                }
            }
        }
        let figures = runners.iter().zip(&samples).map(|(runner, samples)| Named {
            who: runner.who.to_owned(),
            objects: runner.objects,
            figure: Figure::of(samples),
        });
        Ok(Row { operation: name.to_owned(), connections, figures: figures.collect(), bounds: Vec::new() })
    }

    /// Bare redb, with a writer that commits what is waiting; in this process, without HTTP.
    async fn bare(&self, clients: usize) -> Result<Sample, Error> {
        let folder = tempfile::TempDir::new_in(self.folder)?;
        let bare = Arc::new(Bare::open(folder.path(), 64 * 1024 * 1024)?);
        let each = 20_000 / clients.max(16);
        let mut work = Vec::new();
        for client in 0..clients {
            let first = client * each;
            let numbers = (first..first + each).map(u32::try_from);
            let prepared = numbers.map(|number| prepared(number?)).collect::<Result<Vec<_>, Error>>()?;
            work.push(prepared);
        }
        let start = Instant::now();
        let until = start + self.arguments.run();
        let clients = work.into_iter().map(|documents| write(Arc::clone(&bare), documents, until));
        let latencies = try_join_all(clients).await?.concat();
        Sample::of(latencies, start.elapsed(), Duration::ZERO, Duration::ZERO)
    }

    fn bound(&self, operation: &Operation, row: &mut Row) {
        let at = self.arguments.sizes.first().copied().unwrap_or_default();
        let rate = |row: &Row, who, objects| row.figure(who, objects).map(|figure| figure.requests_per_s);
        let mut bounds = Vec::new();
        let ratio = |who, of, of_objects| Some(rate(row, who, at)? / rate(row, of, of_objects)?);
        let references = [
            (operation.of_fixed, EMBEDDED, FIXED, 0),
            (operation.of_driver, MONGODB, DRIVER, at),
            (Some(0.6).filter(|_| operation.kind == Kind::Post), EMBEDDED, BARE, 0),
            (Some(1.0).filter(|_| operation.kind == Kind::Post), EMBEDDED, MONGODB, at),
        ];
        for (limit, who, of, objects) in references {
            if let (Some(limit), Some(ratio)) = (limit, ratio(who, of, objects)) {
                bounds.push(Bound::at_least(format!("rate of {who}, of {of}"), ratio, limit));
            }
        }
        for &size in self.arguments.sizes.iter().skip(1) {
            for store in [EMBEDDED, MONGODB] {
                if let (Some(large), Some(small)) = (rate(row, store, size), rate(row, store, at)) {
                    let of = format!("rate of {store} at {size}, of that at {at}");
                    bounds.push(Bound::at_least(of, large / small, 2.0 / 3.0));
                }
            }
        }
        for named in row.figures.iter().filter(|named| [EMBEDDED, MONGODB].contains(&&*named.who)) {
            let of = format!("p99.9 of {} at {}, of its p50", named.who, named.objects);
            bounds.push(Bound::at_most(of, named.figure.p999_us / named.figure.p50_us, 20.0));
        }
        row.bounds = bounds;
    }
}

fn prepared(number: u32) -> Result<Prepared, Error> {
    Prepared::new(u64::from(number), objects::object(number + 1, 10_000))
}

async fn write(bare: Arc<Bare>, documents: Vec<Prepared>, until: Instant) -> Result<Vec<u32>, Error> {
    let mut latencies = Vec::with_capacity(documents.len());
    for document in documents {
        let begun = Instant::now();
        if begun >= until {
            break;
        }
        bare.write(vec![document]).await?;
        latencies.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(latencies)
}

/// The first start on an empty directory, and later ones; memory when nothing happens.
async fn starts(arguments: &Arguments, folder: &Path) -> Result<(), Error> {
    let mut first = Vec::new();
    let mut later = Vec::new();
    let mut resident = String::new();
    for run in 0..=arguments.runs {
        let uri = format!("embedded:{}", folder.join(format!("empty-{run}")).display());
        for times in [&mut first, &mut later] {
            let server = Server::product(&uri, &[]).await?;
            times.push(server.started_in.as_secs_f64() * 1e3);
            tokio::time::sleep(Duration::from_millis(500)).await;
            resident = memory(server.pid());
            server.stop()?;
        }
    }
    for (name, mut times) in [("first start, which makes the administrator", first), ("later start", later)] {
        times.sort_by(f64::total_cmp);
        println!("{name}, empty store: {:.0} ms (bound 100)", crate::harness::timing::median(&times));
    }
    println!("at rest on an empty store: {resident} (bound 40 MiB)\n");
    Ok(())
}

fn memory(pid: u32) -> String {
    let mib = |line| f64::from(u32::try_from(process::memory(pid, line) / 1024).unwrap_or(u32::MAX)) / 1024.0;
    format!("{:.1} MiB resident, {:.1} MiB at the most", mib("VmRSS"), mib("VmHWM"))
}
