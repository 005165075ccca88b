//! The commands, a file each. All but `serve` end by themselves, and work on the store without a running service.

mod backup;
pub mod check;
mod compact;
mod demo;
mod export;
mod import;
mod migrate;
mod openapi;
mod restore;
mod serve;
mod tables;
pub mod user;

use std::error::Error;
use std::io::{self, BufReader};
use std::sync::Arc;

use clap::Subcommand;

use crate::app::{self, StartError};
use crate::clock::SystemClock;
use crate::service::Services;
use crate::service::first_start::FirstAdmin;
use crate::settings::Settings;
use crate::store::Store;

/// How a command ended: well, or with a sentence for whoever typed it and an exit code that is not 0.
pub type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// What the program can be told to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer requests (the default).
    Serve,
    /// Say whether the settings and the store are in order, or whether the running service is ready.
    Check(check::CheckCommand),
    /// Give the space that an embedded store does not use back to the disk.
    Compact(compact::CompactCommand),
    /// Fill an empty store with a data centre to try things out on.
    Demo(demo::DemoCommand),
    /// Write the inventory into a directory: types, categories, groups, users, objects, settings.
    Export(export::ExportCommand),
    /// Read what `export` wrote into the store, or objects of one type from a table.
    Import(import::ImportCommand),
    /// Copy an embedded store into a file, also while the service works on it.
    Backup(backup::BackupCommand),
    /// Put a backup in the place of an embedded store.
    Restore(restore::RestoreCommand),
    /// Copy everything from one store into another one, of whatever kind.
    Migrate(migrate::MigrateCommand),
    /// Print the description of the interface, in OpenAPI 3.1.
    Openapi,
    /// Manage users and the key of their tokens directly in the store.
    #[command(subcommand)]
    User(user::UserCommand),
}

impl Command {
    /// Carries the command out, on a runtime that it starts here: so the futures are compiled with the library, not once
    /// more with each program that uses it.
    ///
    /// # Errors
    /// With a sentence for whoever typed it.
    pub fn run(self, settings: Settings) -> Outcome {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.carry_out(settings))
    }

    async fn carry_out(self, settings: Settings) -> Outcome {
        match self {
            Self::Serve => serve::run(settings).await,
            Self::Check(command) => command.run(settings).await,
            Self::Compact(command) => command.run(settings).await,
            Self::Demo(command) => command.run(settings).await,
            Self::Export(command) => command.run(settings).await,
            Self::Import(command) => command.run(settings).await,
            Self::Backup(command) => command.run(settings).await,
            Self::Restore(command) => command.run(settings).await,
            Self::Migrate(command) => command.run(settings).await,
            Self::Openapi => openapi::run(),
            Self::User(command) => {
                let services = services(&settings).await?;
                let (mut input, mut output) = (BufReader::new(io::stdin()), io::stdout());
                Ok(command.run(&services, &mut input, &mut output).await?)
            }
        }
    }
}

/// The use cases without a server, for commands that work on the store directly.
async fn services(settings: &Settings) -> Result<Services, StartError> {
    let store = app::open_store(&settings.store).await?;
    let (services, first_admin) = app::build_services(settings, store, Arc::new(SystemClock)).await?;
    announce(first_admin.as_ref());
    Ok(services)
}

/// The store for commands that move data: ready for this version, but without users of its own making.
async fn bare_store(settings: &Settings) -> Result<Arc<dyn Store>, StartError> {
    let store = app::open_store(&settings.store).await?;
    app::make_ready(settings, &*store, &SystemClock).await?;
    Ok(store)
}

/// The use cases for commands that only read: on a store that is there, in which nothing is made or changed.
async fn reading_services(settings: &Settings) -> Result<Services, StartError> {
    let mut settings = settings.clone();
    // Nothing is signed here, and without one a key would be made and stored.
    settings.auth.signing_key.get_or_insert_with(|| NO_KEY.repeat(4).into());
    let store = app::open_to_read(&settings).await?;
    app::services_on(&settings, store, Arc::new(SystemClock)).await
}

/// In the place of a key where none is needed.
const NO_KEY: &str = "none is needed here; ";

/// Tells the operator how to sign in for the first time.
fn announce(first_admin: Option<&FirstAdmin>) {
    let Some(admin) = first_admin else { return };
    if let Some(password) = &admin.password {
        log::info!("first administrator: user {} with password {}", admin.user_name, password.expose());
    }
    if let Some(file) = &admin.file {
        log::info!("the password stands in {} too; sign in, change it, remove the file", file.display());
    }
}
