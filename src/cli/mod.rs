//! The commands, a file each. All but `serve` end without a signal. They work on the store
//! without a running service, or ask it.

mod backup;
pub mod check;
mod demo;
mod export;
mod history;
mod import;
mod input;
mod migrate;
mod openapi;
pub mod output;
mod reindex;
mod serve;
mod tables;
pub mod user;
mod views;

use std::error::Error;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::app::{self, StartError};
use crate::clock::SystemClock;
use crate::service::Services;
use crate::settings::Settings;
use crate::store::{Copying, Store};

/// How a command ended: successfully, or with a sentence for the user and an exit code other than 0.
pub type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// An inventory of types, objects and categories over REST.
#[derive(Parser)]
#[command(name = "inventory-service", version = VERSION, about)]
pub struct CommandLine {
    /// Sets a setting over files and environment, for instance `--set server.port=0`.
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    pub settings: Vec<String>,
    /// The command; `serve` when none is given.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The values of every `--set` of a valid command line, in order. Where there are some before and after the command, the
/// parser keeps only those after it.
pub fn all_settings(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut arguments = arguments.take_while(|argument| argument != "--");
    let mut settings = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--set" {
            settings.extend(arguments.next());
        } else if let Some(value) = argument.strip_prefix("--set=") {
            settings.push(value.to_owned());
        }
    }
    settings
}

/// The version, and the commit with its day where the program was built from a checkout.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("INVENTORY_COMMIT"));

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer requests (the default).
    Serve(serve::ServeCommand),
    /// Say whether the settings and the store are in order, or whether the running service is ready.
    Check(check::CheckCommand),
    /// Free the unused space of an embedded store.
    Compact(backup::CompactCommand),
    /// Fill an empty store with a data centre to try things out on.
    Demo(demo::DemoCommand),
    /// Write the inventory into a directory: types, categories, groups, users, objects, settings, history.
    Export(export::ExportCommand),
    /// Read what `export` wrote into the store, or objects of one type from a table.
    Import(import::ImportCommand),
    /// Copy an embedded store into a file, also while the service runs.
    Backup(backup::BackupCommand),
    /// Replace an embedded store with a backup.
    Restore(backup::RestoreCommand),
    /// Copy everything from one store into another one of any kind.
    Migrate(migrate::MigrateCommand),
    /// Have the index of words that search uses made again.
    Reindex(reindex::ReindexCommand),
    /// Make each type a view of a MongoDB store, with a column for each field.
    Views(views::ViewsCommand),
    /// Print the description of the interface, in OpenAPI.
    Openapi(openapi::OpenapiCommand),
    /// Check the history of changes.
    #[command(subcommand)]
    History(history::HistoryCommand),
    /// Manage users and the key of their tokens, also while the service runs.
    #[command(subcommand)]
    User(user::UserCommand),
    /// Print shell completions of the commands and their options.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, for man -l or a directory of manual pages.
    Man,
}

impl Default for Command {
    fn default() -> Self {
        Self::Serve(serve::ServeCommand::default())
    }
}

impl Command {
    /// The settings that options of the command set.
    pub fn settings(&self) -> Vec<(String, String)> {
        let Self::Serve(command) = self else { return Vec::new() };
        let wire = command.wire.clone().map(|address| ("wire.address".to_owned(), address));
        let port = command.port.map(|port| ("server.port".to_owned(), port.to_string()));
        wire.into_iter().chain(port).collect()
    }

    /// Carries the command out, on a runtime that it starts here: so the futures are compiled with the library, and not
    /// again with each program that uses it.
    ///
    /// # Errors
    /// With a sentence for the user.
    pub fn run(self, settings: Settings) -> Outcome {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.carry_out(settings))
    }

    async fn carry_out(self, settings: Settings) -> Outcome {
        match self {
            Self::Serve(_) => serve::run(settings).await,
            Self::Check(command) => command.run(settings).await,
            Self::Compact(command) => command.run(settings).await,
            Self::Demo(command) => command.run(settings).await,
            Self::Export(command) => command.run(settings).await,
            Self::Import(command) => command.run(settings).await,
            Self::Backup(command) => command.run(settings).await,
            Self::Restore(command) => command.run(settings).await,
            Self::Migrate(command) => command.run(settings).await,
            Self::Reindex(command) => command.run(settings).await,
            Self::Views(command) => command.run(settings).await,
            Self::Openapi(command) => command.run(),
            Self::History(command) => command.run(settings).await,
            Self::User(command) => command.execute(settings).await,
            Self::Completions { shell } => openapi::completions(shell),
            Self::Man => openapi::man(),
        }
    }
}

/// The use cases without a server, for commands that work on the store directly.
async fn services(settings: &Settings) -> Result<Services, StartError> {
    let store = app::open_store(&settings.store).await?;
    Ok(app::build_services(settings, store, Arc::new(SystemClock)).await?.0)
}

/// The store for commands that move data: ready for this version, but without users of its own making.
async fn bare_store(settings: &Settings) -> Result<Arc<dyn Copying>, StartError> {
    let store = app::open_store(&settings.store).await?;
    app::make_ready(settings, &*store, &SystemClock).await?;
    Ok(store)
}

/// The use cases for commands, on a store that is ready. Neither a user nor a key is made.
async fn services_alone(settings: &Settings, store: Arc<dyn Store>) -> Result<Services, StartError> {
    let mut settings = settings.clone();
    // Nothing is signed here, and without one a key would be made and stored.
    settings.auth.signing_key.get_or_insert_with(|| NO_KEY.repeat(4).into());
    app::services_on(&settings, store, Arc::new(SystemClock)).await
}

/// Used instead of a key where none is needed.
const NO_KEY: &str = "none is needed here; ";
