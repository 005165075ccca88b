//! The command line: reads settings, starts logging, and runs the chosen command.

use std::io::{self, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use inventory_service::app::{self, Application, StartError};
use inventory_service::cli::user::UserCommand;
use inventory_service::clock::SystemClock;
use inventory_service::demo;
use inventory_service::service::Services;
use inventory_service::service::first_start::FirstAdmin;
use inventory_service::settings::{Overrides, Settings};

/// An inventory of types, objects and categories over REST.
#[derive(Parser)]
#[command(version, about)]
struct CommandLine {
    /// Sets a setting over files and environment, for instance `--set server.port=0`.
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    settings: Vec<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests (the default).
    Serve,
    /// Fill an empty store with a data centre to try things out on.
    Demo {
        /// How many objects, from 200 to 1000000.
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = demo::plan::accepted_size)]
        objects: u32,
    },
    /// Manage users and the key of their tokens directly in the store.
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    match run(&line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("inventory-service: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(line: &CommandLine) -> Result<(), String> {
    let overrides = read_overrides(&line.settings)?;
    let settings = Settings::load(Path::new("."), &overrides).map_err(|error| error.to_string())?;
    env_logger::Builder::new().parse_filters(&settings.log.level).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    match &line.command {
        None | Some(Command::Serve) => runtime.block_on(serve(settings)).map_err(|error| error.to_string()),
        Some(Command::Demo { objects }) => runtime.block_on(load_demo(settings, *objects)),
        Some(Command::User { command }) => runtime.block_on(manage_users(settings, command)),
    }
}

fn read_overrides(pairs: &[String]) -> Result<Overrides, String> {
    let mut overrides = Overrides::default();
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("--set {pair}: write KEY=VALUE"))?;
        overrides.values.push((key.to_owned(), value.to_owned()));
    }
    Ok(overrides)
}

async fn serve(settings: Settings) -> Result<(), StartError> {
    let application = Application::build(settings).await?;
    announce(application.first_admin());
    log::info!("next: sign in by POST /rest/auth/login with user_name and password, as README.md shows");
    application.run().await.map_err(listen_error)
}

async fn load_demo(settings: Settings, objects: u32) -> Result<(), String> {
    let services = services(&settings).await.map_err(|error| error.to_string())?;
    let progress = demo::progress::on_stderr();
    let loaded = demo::load(&services, objects, &*progress).await.map_err(|error| error.to_string())?;
    println!("{loaded}");
    Ok(())
}

async fn manage_users(settings: Settings, command: &UserCommand) -> Result<(), String> {
    let services = services(&settings).await.map_err(|error| error.to_string())?;
    let (mut input, mut output) = (BufReader::new(io::stdin()), io::stdout());
    command.run(&services, &mut input, &mut output).await.map_err(|error| error.to_string())
}

/// The use cases without a server, for commands that work on the store directly.
async fn services(settings: &Settings) -> Result<Services, StartError> {
    let store = app::open_store(&settings.store).await?;
    let (services, first_admin) = app::build_services(settings, store, Arc::new(SystemClock)).await?;
    announce(first_admin.as_ref());
    Ok(services)
}

fn announce(first_admin: Option<&FirstAdmin>) {
    let Some(admin) = first_admin else { return };
    if let Some(password) = &admin.password {
        log::info!("first administrator: user {} with password {}", admin.user_name, password.expose());
    }
    if let Some(file) = &admin.file {
        log::info!("the password stands in {} too; sign in, change it, remove the file", file.display());
    }
}

fn listen_error(source: std::io::Error) -> StartError {
    StartError::Listen { address: "the address".to_owned(), source }
}
