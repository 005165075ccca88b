//! How redb opens and closes a database.

use std::ops::{Deref, DerefMut};

use redb::{Builder, Database};

use crate::store::embedded::failure;
use crate::store::embedded::open::files::StoreFiles;

/// How far redb's recovery is when it finds the last commit torn.
const LAST_COMMIT_IS_TORN: f64 = 0.3;

/// What to do about a torn last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Torn {
    /// Give up.
    Refuse,
    /// Take the commit before it.
    GoBack,
}

/// redb's settings for the file of a store.
pub(super) fn builder(files: &StoreFiles, torn: Torn) -> Builder {
    let mut builder = Database::builder();
    let file = files.paths().file().display().to_string();
    builder.set_cache_size(files.options().cache_bytes).set_repair_callback(move |repair| {
        let progress = repair.progress();
        if (progress - LAST_COMMIT_IS_TORN).abs() < 1e-9 {
            if torn == Torn::Refuse {
                return repair.abort();
            }
            log::warn!("{file}: the last commit is not whole, as after a loss of power; looking at the one before it");
        }
        log::warn!("{file} was not closed properly; checking it, {:.0} % done", progress * 100.0);
    });
    builder
}

/// An open database. Closing it commits what redb has freed. On a damaged file that can panic, and nothing is lost by it: what was
/// acknowledged is on disk already.
pub(crate) struct Engine(Option<Database>);

impl From<Database> for Engine {
    fn from(database: Database) -> Self {
        Self(Some(database))
    }
}

impl Deref for Engine {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("only closing takes it away")
    }
}

impl DerefMut for Engine {
    fn deref_mut(&mut self) -> &mut Database {
        self.0.as_mut().expect("only closing takes it away")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let database = self.0.take();
        if let Err(panic) = failure::caught(|| drop(database)) {
            log::error!("closing the file: {panic}");
        }
    }
}
