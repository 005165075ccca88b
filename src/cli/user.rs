//! `inventory-service user`: manages users when nobody can sign in.
//!
//! A service that has the embedded store open carries the command out. Else the command works on the store.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use bson::doc;
use bson::raw::RawDocument;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::app;
use crate::auth::Secret;
use crate::clock::SystemClock;
use crate::domain::document::integer;
use crate::domain::{document, user};
use crate::moving::control::ask_about_users;
use crate::query::{Filter, Sort};
use crate::service::accounts::first_start::made_up_password;
use crate::service::accounts::keys::OldKeys;
use crate::service::accounts::users;
use crate::service::precondition::IfMatch;
use crate::service::resource::{Groups, NewState, Resource, Users};
use crate::service::{Caller, ServiceError, Services};
use crate::settings::{Settings, StoreUri};
use crate::store::{FindQuery, StoreError};
use crate::suggest;

use super::Outcome;
use super::output::{harmless, stdout};

/// What can be done with users.
#[derive(Debug, Subcommand, Serialize, Deserialize)]
pub enum UserCommand {
    /// Add a user. The password is read from standard input; with `--generate` it is generated and printed.
    Add {
        /// What the user signs in as.
        user_name: String,
        /// The name of the group to put the user into; `admin` may do everything.
        #[arg(long, default_value = "user")]
        group: String,
        /// Make a password up and print it.
        #[arg(long)]
        generate: bool,
    },
    /// Give a user another password, and end all sessions of the user. It comes as with `add`.
    Passwd {
        /// What the user signs in as.
        user_name: String,
        /// Make a password up and print it.
        #[arg(long)]
        generate: bool,
    },
    /// List all users.
    List,
    /// Keep a user out until `unlock`.
    Lock {
        /// What the user signs in as.
        user_name: String,
    },
    /// Let a locked user in again.
    Unlock {
        /// What the user signs in as.
        user_name: String,
    },
    /// Sign tokens with a new key from now on; tokens of the old one stay valid until they expire.
    RotateKey {
        /// Drop the old keys at once, which signs everybody out: for a leaked key.
        #[arg(long)]
        drop_old: bool,
    },
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum UserCommandError {
    /// The service refused it.
    #[error("{}", in_full(.0))]
    Service(#[from] ServiceError),
    /// There is no such user or group.
    #[error("there is no {what} {name}{remedy}")]
    Unknown {
        /// `user` or `group`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// Which ones there are.
        remedy: String,
    },
    /// The answer could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The settings give the key.
    #[error("auth.signing_key gives the key that signs tokens; change the setting instead")]
    KeyFromSettings,
}

impl From<StoreError> for UserCommandError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

/// Carries out what [`UserCommand::execute`] sent to the service; gives the output. Blocks the thread.
pub(super) fn answer(services: &Services, question: &str) -> Result<String, String> {
    let (command, password): (UserCommand, Option<Secret>) =
        serde_json::from_str(question).map_err(|_| "use the same version of the service and the command")?;
    let mut output = Vec::new();
    let done = Handle::current().block_on(command.run(services, password, &mut output));
    done.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output).into_owned();
    if !matches!(command, UserCommand::List) {
        log::info!("inventory-service user: {}", said.lines().last().unwrap_or_default());
    }
    Ok(said)
}

impl UserCommand {
    /// Asks for a password if one is needed, and lets the running service carry the command out, or does it here.
    pub(super) async fn execute(self, settings: Settings) -> Outcome {
        // Nobody types a password for a store that is not there.
        if let StoreUri::Embedded(directory) = settings.store.location()?
            && !directory.exists()
        {
            app::open_existing(&settings).await?;
        }
        let is_typed = matches!(self, Self::Add { generate: false, .. } | Self::Passwd { generate: false, .. });
        let password = is_typed.then(typed_password).transpose()?;
        if let StoreUri::Embedded(directory) = settings.store.location()? {
            let question = serde_json::to_string(&(&self, password.as_ref().map(Secret::expose)))?;
            let place = directory.display().to_string();
            let asked = tokio::task::spawn_blocking(move || ask_about_users(&directory, &question)).await?;
            if let Some(said) = asked.map_err(|error| format!("{place}: {error}"))? {
                write!(stdout(), "{}", harmless(said))?;
                return Ok(());
            }
        }
        let store = app::open_existing(&settings).await?;
        let services = app::services_on(&settings, store, Arc::new(SystemClock)).await?;
        match self.run(&services, password, &mut stdout()).await {
            Err(UserCommandError::Io(error)) => Err(error.into()),
            outcome => Ok(outcome?),
        }
    }

    /// Runs the command. Without a password it makes one up, if it needs one. `output` receives the output.
    ///
    /// # Errors
    /// [`UserCommandError`], with a sentence for the operator.
    pub async fn run(
        &self,
        services: &Services,
        password: Option<Secret>,
        output: &mut (dyn Write + Send),
    ) -> Result<(), UserCommandError> {
        let is_made_up = password.is_none();
        let password = password.unwrap_or_else(made_up_password);
        match self {
            Self::Add { user_name, group, .. } => {
                let group_id = group_named(services, group).await?;
                let body = doc! {"user_name": user_name, "group_id": group_id, "password": password.expose()};
                let created = users::create_user(services, &Caller::operator(), &body).await?;
                let id = integer(&created, "public_id").unwrap_or_default();
                show(is_made_up, &password, output)?;
                writeln!(output, "user {id}, {user_name}, added to the group {group}")?;
            }
            Self::Passwd { user_name, .. } => {
                let id = user_named(services, user_name).await?;
                let body = doc! {"password": password.expose()};
                users::change_password(services, &Caller::operator(), id, &IfMatch::Absent, &body).await?;
                services.accounts.forget_failures(user_name);
                show(is_made_up, &password, output)?;
                writeln!(output, "user {id}, {user_name}, has a new password")?;
            }
            Self::List => list(services, output).await?,
            Self::Lock { user_name } => set_active(services, user_name, false, output).await?,
            Self::Unlock { user_name } => {
                set_active(services, user_name, true, output).await?;
                services.accounts.forget_failures(user_name);
            }
            Self::RotateKey { drop_old } => {
                let old = if *drop_old { OldKeys::Drop } else { OldKeys::Keep };
                if !services.accounts.keys().rotate(old, services.clock.now()).await? {
                    return Err(UserCommandError::KeyFromSettings);
                }
                let ended = if *drop_old { "; everybody has to sign in again" } else { "" };
                writeln!(output, "a new key signs tokens in a few seconds{ended}")?;
            }
        }
        Ok(())
    }
}

/// A password from the standard input: a line, or, on a terminal, typed twice without being shown.
///
/// # Errors
/// When nothing can be read, or the two are not the same.
fn typed_password() -> io::Result<Secret> {
    if !io::stdin().is_terminal() {
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        let password = line.trim_end_matches(['\r', '\n']);
        if password.is_empty() {
            let message = "the standard input holds no password; write one there, or say --generate";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        return Ok(password.into());
    }
    let password = rpassword::prompt_password("new password (not shown): ")?;
    if rpassword::prompt_password("the same again: ")? == password {
        return Ok(password.into());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the two passwords are not the same; nothing was changed"))
}

/// A made-up password is shown once it is one.
fn show(generated: bool, password: &Secret, output: &mut (dyn Write + Send)) -> io::Result<()> {
    if generated { writeln!(output, "password: {}", password.expose()) } else { Ok(()) }
}

async fn set_active(
    services: &Services,
    user_name: &str,
    active: bool,
    output: &mut (dyn Write + Send),
) -> Result<(), UserCommandError> {
    let id = user_named(services, user_name).await?;
    let patch = serde_json::json!({"active": active});
    users::change_user(services, &Caller::operator(), id, &IfMatch::Absent, NewState::Patch(&patch)).await?;
    writeln!(output, "user {id}, {user_name}, is {}", if active { "active" } else { "locked" })?;
    Ok(())
}

async fn list(services: &Services, output: &mut (dyn Write + Send)) -> Result<(), UserCommandError> {
    let all =
        |services: &Services| FindQuery::new(Filter::all(), services.max_time).sorted(Sort::by("public_id", false));
    let groups = services.store.find(Groups::COLLECTION, &all(services)).await?;
    let name_of = |id: Option<i64>| {
        let group = groups.iter().find(|group| integer(group, "public_id") == id);
        group.and_then(|group| document::text(group, "name")).unwrap_or("-").to_owned()
    };
    writeln!(output, "{:>6}  {:<24}  {:<16}  state", "id", "user name", "group")?;
    for stored in services.store.find(Users::COLLECTION, &all(services)).await?.iter() {
        let id = integer(stored, "public_id").unwrap_or_default();
        let name = document::text(stored, "user_name").unwrap_or("-");
        let state = if document::flag(stored, "active") == Some(true) { "active" } else { "locked" };
        let (name, group) = (harmless(name), harmless(name_of(integer(stored, "group_id"))));
        writeln!(output, "{id:>6}  {name:<24}  {group:<16}  {state}")?;
    }
    Ok(())
}

async fn user_named(services: &Services, user_name: &str) -> Result<i64, UserCommandError> {
    // Not by the credentials: a user that another tool stored has none until a password is set here.
    let all = FindQuery::new(Filter::all(), services.max_time);
    let found = services.store.find(Users::COLLECTION, &all).await?;
    let name = |stored: &RawDocument| document::text(stored, "user_name").unwrap_or_default().to_owned();
    let is_meant = |stored: &&RawDocument| user::login_of(&name(stored)) == user::login_of(user_name);
    // Other tools take names apart that differ in case alone.
    found
        .iter()
        .find(|stored| name(stored) == user_name)
        .or_else(|| found.iter().find(is_meant))
        .and_then(|stored| integer(stored, "public_id"))
        .ok_or_else(|| UserCommandError::Unknown {
            what: "user",
            name: user_name.to_owned(),
            remedy: "; inventory-service user list shows them".to_owned(),
        })
}

async fn group_named(services: &Services, name: &str) -> Result<i64, UserCommandError> {
    let groups = services.store.find(Groups::COLLECTION, &FindQuery::new(Filter::all(), services.max_time)).await?;
    let named = groups.iter().filter_map(|group| Some((document::text(group, "name")?, group)));
    let named: Vec<(&str, &RawDocument)> = named.collect();
    let meant = named.iter().find(|(known, _)| *known == name);
    meant.and_then(|(_, group)| integer(group, "public_id")).ok_or_else(|| {
        let names: Vec<&str> = named.iter().map(|(known, _)| *known).collect();
        let remedy = match suggest::nearest(name, &names) {
            Some(nearest) => format!(", did you mean {nearest}?"),
            None => format!("; the groups are {}", names.join(", ")),
        };
        UserCommandError::Unknown { what: "group", name: name.to_owned(), remedy }
    })
}

/// A refusal with all its places: on the command line there is no body of an answer.
fn in_full(error: &ServiceError) -> String {
    match error {
        ServiceError::Violations(violations) => {
            let places = violations
                .listed()
                .iter()
                .map(|found| format!("{}: {}", found.pointer.trim_start_matches('/'), found.message));
            places.collect::<Vec<_>>().join("; ")
        }
        error => error.to_string(),
    }
}
