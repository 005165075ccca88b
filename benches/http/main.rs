//! Measures the service over HTTP, as it is released, against what would be possible: the same server sending the same
//! bytes from memory, a bare handler over the MongoDB driver, and bare redb that commits in groups.
//!
//! `cargo bench --bench http`, see `docs/performance.md`. Prints a table, and leaves it as `bench-http.json` in the folder
//! of the build.

#![expect(clippy::disallowed_types, reason = "the driver that is measured beside the service is asked directly")]

mod arguments;
mod attacks;
#[path = "../store/bare.rs"]
#[expect(dead_code, reason = "the store's own measurements read, too")]
mod bare;
mod client;
mod drive;
#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "the store's measurements time in another way")]
mod harness;
mod innocent;
#[path = "../../tests/it/support/mongod.rs"]
#[expect(dead_code, reason = "tests do more with a server than measuring needs")]
mod mongod;
#[path = "../store/objects.rs"]
mod objects;
mod past;
mod rows;
mod servers;
mod table;
mod world;

use mimalloc::MiMalloc;
use tempfile::TempDir;

use self::arguments::{Arguments, What};
use self::harness::report::{save, target_folder};
use self::harness::timing::Error;

/// As the service has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<(), Error> {
    let arguments = Arguments::read();
    if let Some([role, store_uri, place]) = arguments.role.as_deref() {
        // As the program itself does it.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(servers::play(role, store_uri, place));
    }
    if let Some(program) = &arguments.service {
        servers::measure_instead(program.clone());
    }
    // One thread: the measuring process shall take as little as possible from the measured one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&arguments))
}

async fn measure(arguments: &Arguments) -> Result<(), Error> {
    // On the disk that the build is on, as a temporary directory may be in memory.
    let folder = TempDir::new_in(target_folder()?)?;
    match arguments.what {
        What::Rows => {}
        What::Innocent => return rows::innocent(arguments, folder.path()).await,
        What::History => return rows::history(arguments, folder.path()).await,
    }
    println!("{}", table::HEAD);
    let mut rows = Vec::new();
    let mut done = |row: table::Row| {
        println!("{}", row.lines());
        rows.push(row);
    };
    let outcome = rows::all(arguments, folder.path(), &mut done).await;
    println!("written to {}", save(&arguments.output, &rows)?.display());
    outcome
}
