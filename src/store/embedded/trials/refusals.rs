//! Stores that cannot be opened: each is refused with a sentence that names the place and the remedy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::StorageBackend;
use rustix::io::Errno;

use super::formats::set_format;
use super::memory::Memory;
use super::{directory, options, plain, start, store_files};
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::catalog::meta::FORMAT;
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::upkeep::backup::{self, RestoreError};
use crate::store::embedded::upkeep::repair::{self, RepairError};
use crate::store::embedded::upkeep::space;

/// A storage whose every step after the directory is refused in one way.
#[derive(Debug)]
struct Refusing(io::ErrorKind);

impl Refusing {
    fn refuse<T>(&self) -> io::Result<T> {
        Err(self.0.into())
    }
}

impl Storage for Refusing {
    fn make_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn len(&self, _: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn taken(&self, _: &Path) -> io::Result<u64> {
        self.refuse()
    }

    fn id(&self, _: &Path) -> io::Result<u64> {
        self.refuse()
    }

    fn create(&self, _: &Path) -> io::Result<()> {
        self.refuse()
    }

    fn open(&self, _: &Path) -> io::Result<Box<dyn StorageBackend>> {
        self.refuse()
    }

    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        self.refuse()
    }

    fn replace(&self, _: &Path, _: &Path) -> io::Result<()> {
        self.refuse()
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.refuse()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn refusal(kind: io::ErrorKind) -> String {
    let files = StoreFiles::on(Arc::new(Refusing(kind)), &directory(), &options()).expect("a directory");
    let refused = EmbeddedStore::start(files, &options()).err().expect("it cannot be opened");
    refused.to_string()
}

#[test]
fn a_directory_that_cannot_be_written_says_whose_right_is_missing() {
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
        let said = refusal(kind);
        assert!(
            said.starts_with("/store or a file in it cannot be written: ")
                && said.contains("give the user of this service"),
            "{said}"
        );
    }
}

#[test]
fn a_full_disk_says_that_there_is_no_room() {
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let said = refusal(kind);
        assert!(said.contains("no room left for /store/inventory.redb") && said.contains("make room"), "{said}");
    }
}

#[test]
fn a_place_where_nothing_can_be_made_is_refused() {
    // Not even the superuser makes a directory there.
    let refused = EmbeddedStore::open(Path::new("/proc/inventory"), &options()).err().expect("it cannot be made");
    assert!(refused.to_string().contains("/proc/inventory"), "{refused}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let refused = EmbeddedStore::open(file.path(), &options()).err().expect("it is no directory");
    assert!(matches!(refused, OpenError::NotADirectory(_)), "{refused}");
    let below = EmbeddedStore::open(&file.path().join("below"), &options()).err().expect("it is no directory");
    assert!(matches!(below, OpenError::NotADirectory(_)), "{below}");
}

#[test]
fn only_an_existing_store_can_be_checked_repaired_or_compacted() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    for refused in [
        repair::check(directory.path(), &options()).err().map(|error| error.to_string()),
        repair::repair(directory.path(), &options()).err().map(|error| error.to_string()),
        repair::compact(directory.path(), &options()).err().map(|error| error.to_string()),
    ] {
        let said = refused.expect("there is nothing");
        assert!(said.starts_with("there is no store in "), "{said}");
    }
    assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 0);
}

#[test]
fn a_store_in_use_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let _store = EmbeddedStore::open(directory.path(), &options()).expect("a new store");
    for refused in [
        EmbeddedStore::open(directory.path(), &options()).err(),
        EmbeddedStore::open_aside(directory.path(), &options()).err(),
        repair::check(directory.path(), &options()).err(),
        repair::compact(directory.path(), &options()).err(),
        backup::backup(directory.path(), &options()).err(),
    ] {
        assert!(matches!(refused, Some(OpenError::InUse(_))), "{refused:?}");
        assert!(refused.expect("an error").to_string().contains("stop that one first"));
    }
    let repaired = repair::repair(directory.path(), &options()).err();
    assert!(matches!(repaired, Some(RepairError::Open(OpenError::InUse(_)))), "{repaired:?}");
    let restored = backup::restore(directory.path(), &options(), &mut io::empty(), true).err();
    assert!(matches!(restored, Some(RestoreError::Open(OpenError::InUse(_)))), "{restored:?}");
}

#[test]
fn a_store_that_nothing_keeps_a_second_process_from_is_refused() {
    let memory = Memory::of(std::collections::BTreeMap::new());
    drop(start(&memory, &options()));
    let files = memory.contents();
    for errno in [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS] {
        memory.set_lockless(Some(errno));
        for refused in [
            EmbeddedStore::start(store_files(&memory), &options()).err(),
            EmbeddedStore::start(store_files(&memory).overlaid(), &options()).err(),
            repair::check_at(&store_files(&memory)).err(),
            space::compact(&store_files(&memory)).err(),
            store_files(&memory).lock().err(),
        ] {
            let said = refused.expect("there are no locks").to_string();
            assert!(said.contains("has no locks") && said.contains("store.uri"), "{errno:?}: {said}");
        }
    }
    assert!(memory.contents() == files);
    memory.set_lockless(None);
    drop(start(&memory, &options()));
}

/// The file of a new store with some bytes changed.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> (PathBuf, OpenError) {
    let memory = Memory::of(std::collections::BTreeMap::new());
    drop(start(&memory, &options()));
    changed_in(&memory, change)
}

fn changed_in(memory: &Arc<Memory>, change: impl FnOnce(&mut Vec<u8>)) -> (PathBuf, OpenError) {
    let name = directory().join("inventory.redb");
    let mut files = memory.contents();
    change(files.get_mut(&name).expect("the file"));
    let memory = Memory::of(files);
    let refused = EmbeddedStore::start(store_files(&memory), &options()).err().expect("it cannot be opened");
    (name, refused)
}

/// Where redb's header has the version of its format, once for each of the last two commits.
const STORAGE_VERSIONS: [usize; 2] = [64, 64 + 128];

#[test]
fn another_file_format_of_the_storage_is_refused() {
    let memory = Memory::of(std::collections::BTreeMap::new());
    drop(start(&memory, &options()));
    let memory = plain(&memory);
    let (_, older) = changed_in(&memory, |bytes| STORAGE_VERSIONS.iter().for_each(|at| bytes[*at] = 1));
    assert!(matches!(older, OpenError::OlderStorage { found: 1, .. } | OpenError::Damaged { .. }), "{older}");
    let (_, newer) = changed_in(&memory, |bytes| STORAGE_VERSIONS.iter().for_each(|at| bytes[*at] = 200));
    assert!(matches!(newer, OpenError::OlderStorage { .. } | OpenError::Damaged { .. }), "{newer}");
}

#[test]
fn a_newer_layout_of_the_pages_is_refused() {
    let (name, newer) = changed(|bytes| {
        for slot in bytes[..4 * 4096].chunks_mut(4096) {
            slot[8] = 9;
            let check = xxhash_rust::xxh3::xxh3_64(&slot[..4096 - 8]);
            slot[4096 - 8..].copy_from_slice(&check.to_le_bytes());
        }
    });
    assert_eq!(
        newer.to_string(),
        format!("{} has the page layout 9, this version reads up to 2; use the version that wrote it", name.display())
    );
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let memory = Memory::of(std::collections::BTreeMap::new());
    drop(start(&memory, &options()));
    set_format(&memory, FORMAT + 1);
    let before = memory.contents();
    let refused = EmbeddedStore::start(store_files(&memory), &options()).err().expect("it cannot be opened");
    assert_eq!(
        refused.to_string(),
        format!(
            "/store/inventory.redb has the format {}, this version reads up to {FORMAT}; use the version that wrote it",
            FORMAT + 1
        )
    );
    let looked = repair::check_at(&store_files(&memory)).expect_err("it cannot be opened");
    assert!(matches!(looked, OpenError::NewerFormat { found, .. } if found == FORMAT + 1), "{looked}");
    assert!(before.keys().eq(memory.contents().keys()));
}

#[test]
fn a_file_of_something_else_is_refused() {
    let (name, refused) = changed(|bytes| bytes[..5 * 4096].fill(b'#'));
    assert!(refused.to_string().starts_with(&format!("{} is not a store", name.display())), "{refused}");
    let (_, refused) = changed(|bytes| bytes.truncate(5));
    assert!(matches!(refused, OpenError::UnknownFormat(_)), "{refused}");
}

#[test]
fn a_file_that_was_cut_off_is_damaged() {
    let (name, refused) = changed(|bytes| bytes.truncate(8 * 4096));
    let said = refused.to_string();
    assert!(said.starts_with(&format!("{} is damaged: ", name.display())), "{said}");
    assert!(said.contains("check --deep") && said.contains("restore a backup"), "{said}");
}
