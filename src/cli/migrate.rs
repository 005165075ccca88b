//! `inventory-service migrate`: copies everything from one store into another one, or lists the migrations of stored
//! documents.

use std::time::Instant;

use clap::Args;

use crate::app::{self, StartError};
use crate::moving::migrate::migrate;
use crate::plural::counted;
use crate::progress;
use crate::service::upkeep::migrations::{self, MigrationState};
use crate::settings::{Settings, StoreUri};

use super::Outcome;
use super::output::say;

/// Source and target; the default of each is the store that `store.uri` names.
#[derive(Debug, Args)]
pub struct MigrateCommand {
    /// The store to copy: embedded:DIRECTORY, or a mongodb:// URI.
    #[arg(long, value_name = "URI")]
    from: Option<String>,
    /// The store to fill. Nobody may use it meanwhile.
    #[arg(long, value_name = "URI")]
    to: Option<String>,
    /// Replace the contents of the target.
    #[arg(long)]
    force: bool,
    /// List the migrations of stored documents: the completed ones, and those of the next start.
    #[arg(long, conflicts_with_all = ["from", "to", "force"])]
    status: bool,
}

impl MigrateCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        if self.status {
            return status(&settings).await;
        }
        if self.from.is_none() && self.to.is_none() {
            return Err(
                "say which store: --to URI copies the store of store.uri there, --from URI copies from there".into()
            );
        }
        let (from, to) = (at(&settings, "--from", self.from.as_deref())?, at(&settings, "--to", self.to.as_deref())?);
        if is_same(&from, &to)? {
            return Err("--from and --to name the same store; name the one that store.uri does not name".into());
        }
        let source = app::open_aside(&from.store).await?;
        if matches!(to.store.location()?, StoreUri::MongoDb(_)) {
            log::warn!("no service may run on {} meanwhile, and this cannot know", app::without_password(&to.store));
        }
        let target = app::open_store(&to.store).await?;
        let progress = progress::on_stderr();
        let begun = Instant::now();
        let name = app::without_password(&from.store);
        let done = migrate(&*source, &*target, &name, self.force, &*progress).await?;
        let seconds = begun.elapsed().as_secs_f64();
        for (collection, documents) in &done.collections {
            say!("{collection}: {}, verified", counted(documents, "document"));
        }
        if !done.of_one_moment {
            say!("make sure that nobody wrote to the source meanwhile");
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = done.written as f64 / seconds.max(0.001);
        let written = counted(done.written, "document");
        say!("copied {written} in {seconds:.1} s ({rate:.0} a second, verification included)");
        Ok(())
    }
}

/// The same settings on another store.
fn at(settings: &Settings, option: &str, uri: Option<&str>) -> Result<Settings, String> {
    let mut settings = settings.clone();
    if let Some(uri) = uri {
        settings.store.uri = uri.into();
        settings.store.location().map_err(|error| error.to_string().replacen("store.uri", option, 1))?;
    }
    Ok(settings)
}

/// Whether both name the same store, as far as the names show it.
fn is_same(one: &Settings, other: &Settings) -> Result<bool, StartError> {
    if let (StoreUri::Embedded(one), StoreUri::Embedded(other)) = (one.store.location()?, other.store.location()?) {
        return Ok(
            one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
        );
    }
    Ok(one.store.uri.expose() == other.store.uri.expose())
}

async fn status(settings: &Settings) -> Outcome {
    let store = app::open_aside(&settings.store).await?;
    let max_time = settings.query.max_time();
    for made in migrations::made(&*store, max_time).await? {
        let at = made.at.try_to_rfc3339_string().unwrap_or_default();
        say!("{} {}: made at {at}", made.number, made.name);
    }
    match migrations::state(&*store, migrations::ALL, max_time).await? {
        MigrationState::Done => {
            say!("no migration is pending");
        }
        MigrationState::Pending(numbers) => {
            for migration in migrations::ALL.iter().filter(|migration| numbers.contains(&migration.number)) {
                say!("{} {}: pending, the next start makes it", migration.number, migration.name);
            }
        }
        MigrationState::Newer(number) => {
            return Err(format!("a newer version made migration {number}; use that version").into());
        }
        MigrationState::Incomplete(from) => {
            return Err(format!("a migration from {from} into this store did not end; repeat it").into());
        }
    }
    Ok(())
}
