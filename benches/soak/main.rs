//! Load and fault: the released service under many clients while things break, and a ledger of what it acknowledged.
//!
//! `cargo bench --bench soak -- --seconds 600`, or `--only mixed`; see `docs/performance.md`. Ends with an error when an
//! acknowledged write was lost or doubled, or when a time was exceeded that the service promises.

#![expect(clippy::disallowed_types, reason = "the servers of a replica set are set up by asking them directly")]

mod api;
#[path = "../http/client.rs"]
mod client;
mod crowd;
mod ending;
mod failover;
#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "measuring needs more of it")]
mod harness;
mod instances;
mod ledger;
mod mixed;
#[path = "../../tests/it/support/mongod.rs"]
#[expect(dead_code, reason = "tests do more with a server")]
mod mongod;
mod replicas;
#[path = "../http/servers.rs"]
#[expect(dead_code, reason = "measuring starts other servers, too")]
mod servers;
mod writing;

use std::time::Duration;

use clap::Parser;
use mimalloc::MiMalloc;
use tempfile::TempDir;

use self::harness::report::target_folder;
use self::harness::timing::Error;
use self::mongod::{Deployment, Mongod};
use self::replicas::{Pace, Replicas};

/// As the service has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Puts load on the service and breaks what it depends on.
#[derive(Debug, Clone, Parser)]
struct Arguments {
    /// For how many seconds each part runs that has no end of its own.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Only parts whose name contains this: mixed, crowd, ending, instances, failover.
    #[arg(long)]
    only: Option<String>,
    /// Leaves to MongoDB how soon the servers of a replica set notice that one of them is gone; the promised times are then
    /// exceeded.
    #[arg(long)]
    mongodb_defaults: bool,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| part.contains(only.as_str()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let folder = TempDir::new_in(target_folder()?)?;
    let time = Duration::from_secs(arguments.seconds);
    let store = |name: &str| format!("embedded:{}", folder.path().join(name).display());
    if arguments.wants("mixed") {
        mixed::run("embedded", &store("mixed"), time).await?;
        if let Some(program) = mongod::program() {
            let server = Mongod::start(program, Deployment::ReplicaSet).await;
            mixed::run("mongodb", &server.uri("mixed"), time).await?;
        }
    }
    if arguments.wants("crowd") {
        crowd::run(&store("crowd"), time).await?;
    }
    if arguments.wants("ending") {
        ending::run(&store("ending")).await?;
    }
    if (arguments.wants("instances") || arguments.wants("failover"))
        && let Some(program) = mongod::program()
    {
        let pace = if arguments.mongodb_defaults { Pace::Default } else { Pace::Recommended };
        let mut replicas = Replicas::start(program, folder.path(), pace).await?;
        if arguments.wants("instances") {
            instances::run(&replicas.uri("instances"), time).await?;
        }
        if arguments.wants("failover") {
            failover::run(&mut replicas).await?;
        }
    }
    Ok(())
}
