//! Trials: the store with failing disks, syncs that report false success, losses of power, kills, damage, and much
//! rewriting.
//!
//! Each trial runs a few rounds; a variable asks for more.

mod borders;
mod damage;
mod faults;
mod formats;
mod journal;
mod kill;
mod large;
mod lost;
mod many;
mod memory;
mod notes;
mod operations;
mod pages;
mod policy;
mod power;
mod refusals;
mod room;
mod slots;
mod space;
mod unsynced;
mod waiting;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use redb::Database;

use self::memory::Memory;
use crate::store::collections::up;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::paths::FILE;
use crate::store::embedded::open::recovery::{self, Unreplayed};
use crate::store::embedded::options::Options;
use crate::store::embedded::write::copy;

/// Where a store in memory believes it is.
fn directory() -> PathBuf {
    PathBuf::from("/store")
}

fn store_files(storage: &Arc<impl Storage + 'static>) -> StoreFiles {
    StoreFiles::on(Arc::clone(storage) as Arc<dyn Storage>, &directory(), &options()).expect("a directory")
}

/// A small cache, so that pages are really read and written.
fn options() -> Options {
    Options { cache_bytes: 1024 * 1024, ..Options::default() }
}

fn start(storage: &Arc<impl Storage + 'static>, options: &Options) -> EmbeddedStore {
    EmbeddedStore::start(store_files(storage), options).expect("the store can be opened")
}

/// The store as a file of redb's own, as backups are.
fn plain(memory: &Arc<Memory>) -> Arc<Memory> {
    let Unreplayed { database: from, catalog, .. } = recovery::open_overlay(&store_files(memory)).expect("it is sound");
    let files = Memory::of(BTreeMap::new());
    let name = directory().join(FILE);
    files.create(&name).expect("a file");
    let to = Database::builder().create_with_backend(files.file(&name).expect("it is there")).expect("an empty file");
    copy::everything(&from, &catalog, &to).expect("it is sound");
    drop(to);
    files
}

/// How many rounds a trial has: `usual`, or what the variable says.
fn rounds(variable: &str, usual: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the service")]
    std::env::var(variable).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

/// A number of the test's own, as stored in documents.
fn stored_number(number: usize) -> i64 {
    i64::try_from(number).expect("numbers of tests are small")
}

/// One of these, by a number.
fn one_of<const N: usize>(choices: [usize; N], number: i64) -> usize {
    choices[usize::try_from(number.unsigned_abs()).expect("numbers of tests are small") % N]
}

async fn assert_whole(store: &EmbeddedStore) {
    assert_eq!(store.check().await.expect("the store can be read"), Vec::<String>::new());
}

/// Numbers that look random and are the same each time (Vigna's splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }
}
