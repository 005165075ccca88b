//! The command line: reads settings, starts logging, and runs the chosen command.

use std::io::{BufReader, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use inventory_service::app::{Application, StartError, build_services, open_store};
use inventory_service::cli::user::UserCommand;
use inventory_service::clock::SystemClock;
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
        Some(Command::User { command }) => runtime.block_on(manage_users(settings, command)),
        None | Some(Command::Serve) => runtime.block_on(serve(settings)).map_err(|error| error.to_string()),
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
    let address = application.address().map_err(listen_error)?;
    tell_first_admin(application.first_admin());
    log::info!("listening on http://{address}");
    log::info!("next: POST http://{address}/rest/auth/login with user_name and password, as README.md shows");
    application.run().await.map_err(listen_error)
}

fn tell_first_admin(made: Option<&FirstAdmin>) {
    let Some(admin) = made else { return };
    if let Some(password) = &admin.password {
        log::info!("first administrator: user {} with password {}", admin.user_name, password.expose());
    }
    if let Some(file) = &admin.file {
        log::info!("the password stands in {} too; sign in, change it, remove the file", file.display());
    }
}

async fn manage_users(settings: Settings, command: &UserCommand) -> Result<(), String> {
    let store = open_store(&settings.store).await.map_err(|error| error.to_string())?;
    let built = build_services(&settings, store, Arc::new(SystemClock)).await.map_err(|error| error.to_string())?;
    let (services, first_admin) = built;
    tell_first_admin(first_admin.as_ref());
    let (mut input, mut output) = (BufReader::new(stdin()), stdout());
    command.run(&services, &mut input, &mut output).await.map_err(|error| error.to_string())
}

fn listen_error(source: std::io::Error) -> StartError {
    StartError::Listen { address: "the address".to_owned(), source }
}
