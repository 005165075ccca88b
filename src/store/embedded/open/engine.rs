//! An open database of redb that is closed in order, whatever its pages say.

use std::ops::{Deref, DerefMut};

use redb::Database;

use crate::store::embedded::failure;

/// Closing a database commits what redb has freed. On a damaged file that can panic, and nothing is lost by it: what was
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
