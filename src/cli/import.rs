//! `inventory-service import`: reads what `export` wrote into the store.

use std::path::PathBuf;
use std::sync::Arc;

use bson::DateTime;
use clap::Args;

use crate::app;
use crate::clock::{Clock, SystemClock};
use crate::history::entry::Action;
use crate::moving::import::{BadLine, ImportOptions, Stores, import};
use crate::moving::package::{Manifest, PackagePart};
use crate::progress;
use crate::service::claims::keeper::Keeper;
use crate::service::history::author;
use crate::service::history::recorder::Recorder;
use crate::settings::Settings;
use crate::store::Store;

use super::input::{in_words, opened};
use super::output::{note, say};
use super::tables::{self, TableOptions};
use super::{Outcome, bare_store, services_alone};

/// What to read, and how.
#[derive(Debug, Args)]
pub struct ImportCommand {
    /// The directory that `export` wrote; with --type a file.
    path: PathBuf,
    /// Say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Replace documents that the store has with other content; without this they are errors.
    #[arg(long)]
    update: bool,
    /// Accept objects with values, references or authors that are not valid any more.
    #[arg(long)]
    accept_unclean: bool,
    #[command(flatten)]
    table: TableOptions,
}

impl ImportCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        self.look()?;
        if let Some(type_name) = &self.table.type_name {
            let store = if self.dry_run {
                app::open_to_read(&settings).await?
            } else {
                // A new store has no types, and none is made.
                drop(app::open_aside(&settings.store).await?);
                bare_store(&settings).await?
            };
            let services = services_alone(&settings, store).await?;
            return tables::import(&services, &self.path, type_name, &self.table, self.dry_run).await;
        }
        let store = if self.dry_run { app::open_to_read(&settings).await? } else { bare_store(&settings).await? };
        let (plain, max_time) = (Arc::clone(&store) as Arc<dyn Store>, settings.query.max_time());
        let recorded = Recorder::around(Arc::clone(&plain), Arc::new(SystemClock), max_time).0;
        let recorded = Keeper::around(recorded, plain, Arc::default(), max_time);
        let stores = Stores { plain: &*store, recorded: &*recorded };
        let options = ImportOptions { update: self.update, accept_unclean: self.accept_unclean, dry_run: self.dry_run };
        let now = DateTime::from_chrono(SystemClock.now());
        let mut tell = |finding: &BadLine| note(format_args!("{finding}"));
        let progress = progress::on_stderr();
        let imported = import(stores, &self.path, options, now, &mut tell, &*progress);
        let summaries = author::as_action(Action::Import, imported).await?;
        let would = if self.dry_run { "would be " } else { "" };
        for summary in &summaries {
            if summary.part == PackagePart::History && summary.created + summary.unchanged == 0 {
                say!("history: not taken along; the package has none, or the store has entries of its own");
                continue;
            }
            say!(
                "{}: {} {would}created, {} {would}updated, {} unchanged",
                summary.part.things(),
                summary.created,
                summary.updated,
                summary.unchanged
            );
        }
        if summaries.iter().any(|summary| summary.part == PackagePart::Users && summary.created > 0) && !self.dry_run {
            say!("new users cannot sign in before they get a password: inventory-service user passwd NAME");
        }
        Ok(())
    }

    /// Looks at the path before a store is made for what is there.
    fn look(&self) -> Outcome {
        let path = self.path.display();
        if self.table.type_name.is_some() {
            opened(&self.path).map_err(|error| format!("{path}: {}", in_words(&error)))?;
        } else if self.path.is_file() {
            let message = "is a file: say of which --type its objects are; a package is a directory";
            return Err(format!("{path} {message}").into());
        } else if !self.path.exists() {
            return Err(format!("{path}: there is no such directory").into());
        } else {
            Manifest::read(&self.path)?.verify(&self.path)?;
        }
        Ok(())
    }
}
