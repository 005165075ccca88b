//! The watermark: the number of the last acknowledged commit, in a small file next to the store.
//!
//! After a loss of power the last commit may be incomplete, and the storage goes back to the one before. That is right
//! for a commit that was never acknowledged. An acknowledged commit had been complete on disk, so something else has
//! damaged it since. Going back would then silently lose it. This file distinguishes the two cases. It is never synced.
//! It is written after its commit is on disk, so it may be too old, but never too new.
//!
//! It is compared with any file at that path: an older copy that somebody put there lacks writes too. To replace the file on
//! purpose, remove the watermark first. Where there is no file at all, or an empty one, it says that one was lost.

use std::path::Path;
use std::sync::Arc;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64;

use crate::store::embedded::file::storage::Storage;

/// Bytes without a meaning, the number, and a hash of both. Earlier builds had an identity of the file in the first ones.
const BYTES: usize = UNUSED + 8 + 8;
const UNUSED: usize = 16;

/// The open file; none if it could not be created. Then only the check is missing.
pub(crate) struct Acknowledged {
    file: Option<Box<dyn StorageBackend>>,
}

impl Acknowledged {
    /// For notes in this file.
    pub(crate) fn open(storage: &Arc<dyn Storage>, file: &Path) -> Self {
        let opened = storage.create(file).and_then(|()| storage.open(file));
        let opened = opened.inspect_err(|error| log::warn!("{} cannot be written: {error}", file.display()));
        Self { file: opened.ok() }
    }

    /// For a store that is only read.
    pub(crate) fn nowhere() -> Self {
        Self { file: None }
    }

    /// The commit is about to be acknowledged.
    pub(crate) fn note(&mut self, commit: u64) {
        let Some(file) = &self.file else { return };
        if let Err(error) = file.write(0, &bytes_of(commit)) {
            log::warn!("the number of the last commit cannot be noted: {error}");
            self.file = None;
        }
    }
}

/// What the file holds.
pub(crate) fn bytes_of(commit: u64) -> [u8; BYTES] {
    noted([0; UNUSED], commit)
}

fn noted(unused: [u8; UNUSED], commit: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..UNUSED].copy_from_slice(&unused);
    bytes[UNUSED..BYTES - 8].copy_from_slice(&commit.to_le_bytes());
    let hash = xxh3_64(&bytes[..BYTES - 8]);
    bytes[BYTES - 8..].copy_from_slice(&hash.to_le_bytes());
    bytes
}

/// The number of the last acknowledged commit; 0 if it is not known.
pub(crate) fn read(storage: &Arc<dyn Storage>, file: &Path) -> u64 {
    read_noted(storage, file).or_else(|| read_format_1(storage, file)).unwrap_or_default()
}

fn read_noted(storage: &Arc<dyn Storage>, file: &Path) -> Option<u64> {
    if storage.len(file).ok()?? < BYTES as u64 {
        return None;
    }
    let mut bytes = [0; BYTES];
    storage.open(file).ok()?.read(0, &mut bytes).ok()?;
    let commit = u64::from_le_bytes(bytes[UNUSED..BYTES - 8].try_into().ok()?);
    (bytes == noted(bytes[..UNUSED].try_into().ok()?, commit)).then_some(commit)
}

/// The form that builds of format 1 wrote: the number, and the number with all bits inverted.
fn read_format_1(storage: &Arc<dyn Storage>, file: &Path) -> Option<u64> {
    let mut bytes = [0; 16];
    storage.len(file).ok()??;
    storage.open(file).ok()?.read(0, &mut bytes).ok()?;
    let commit = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    (bytes[8..] == (!commit).to_le_bytes()).then_some(commit)
}
