//! The tables of a store, for tests that put something into them which only a fault or another version would.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use inventory_service::store::embedded::Options;
use inventory_service::store::embedded::maintenance::{self, FILE_NAME};
use redb::Database;

/// Opens the tables of a closed store, which is a file of redb's own from then on, as backups are.
pub(crate) fn made_plain(directory: &Path) -> Database {
    let mut backup = maintenance::backup(directory, &Options::default()).expect("the store is closed");
    let file = directory.join(FILE_NAME);
    fs::remove_file(&file).expect("it is there");
    io::copy(&mut backup, &mut File::create(&file).expect("a file")).expect("it can be written");
    Database::open(file).expect("it is a file of redb's own")
}
