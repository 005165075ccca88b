//! Measures the embedded store alone, through its port, and bare redb and a real MongoDB server in the same run.
//!
//! `cargo bench --bench store`, see `docs/performance.md`. Prints a table, and leaves it as `bench-store.json` in the
//! folder of the build.

#![expect(clippy::disallowed_types, reason = "the server that is measured beside the store is asked directly")]

mod arguments;
mod bare;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../../tests/it/support/mongod.rs"]
#[expect(dead_code, reason = "tests do more with a server than measuring needs")]
mod mongod;
mod objects;
mod others;
mod rows;
mod world;

use std::path::{Path, PathBuf};

use mimalloc::MiMalloc;
use tempfile::TempDir;

use self::arguments::Arguments;
use self::harness::report::{Row, save, target_folder};
use self::harness::timing::Error;
use self::mongod::{Deployment, Mongod};
use self::world::World;

/// As the service has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::read();
    if let Some([role, directory]) = arguments.role.as_deref() {
        return others::play(role, Path::new(directory), &arguments.options()).await;
    }
    let mut rows = Vec::new();
    measure(&arguments, &mut |row| {
        println!("{}", row.lines());
        rows.push(row);
    })
    .await?;
    println!("written to {}", save("bench-store.json", &rows)?.display());
    Ok(())
}

async fn measure(arguments: &Arguments, done: &mut impl FnMut(Row)) -> Result<(), Error> {
    let folder = Folder::of(arguments)?;
    let server = match mongod::program().filter(|_| arguments.wants("scan")) {
        Some(program) => Some(Mongod::start(program, Deployment::Unbounded).await),
        None => None,
    };
    let mut worlds = Vec::new();
    for objects in &arguments.sizes {
        let (world, load) = World::open(arguments, *objects, folder.path(), server.as_ref()).await?;
        worlds.push(world);
        load.into_iter().for_each(&mut *done);
    }
    let pid = server.as_ref().and_then(|server| rows::server_process(&server.uri("")));
    rows::all(arguments, &worlds, pid, done).await?;
    drop(server);
    for World { objects, folder, options, store, bare, .. } in worlds {
        drop((store, bare));
        if arguments.wants("memory") {
            done(others::memory(arguments, objects, &folder, &options)?);
        }
        if arguments.wants("start") {
            done(others::starts(arguments, objects, &folder, &options)?);
        }
    }
    Ok(())
}

/// Where the stores are: on the disk that the build is on, as a temporary directory may be in memory.
enum Folder {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl Folder {
    fn of(arguments: &Arguments) -> Result<Self, Error> {
        Ok(match &arguments.keep {
            Some(folder) => Self::Kept(folder.clone()),
            None => Self::Temporary(TempDir::new_in(target_folder()?)?),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(folder) => folder,
            Self::Temporary(folder) => folder.path(),
        }
    }
}
