//! The number of the last commit that somebody was told of, kept in a small file beside the store.
//!
//! After a loss of power the last commit may not be whole, and the storage goes back to the one before. That is right
//! when nobody was told of it. When somebody was, all of it had been on disk, and something else has damaged it since:
//! to go back then would lose it without a word. This file tells the two apart. It is never synced: it is written
//! after the commit it speaks of is on disk, so what it says on disk is true, and at worst it is behind.

use std::path::Path;
use std::sync::Arc;

use redb::StorageBackend;

use super::storage::Storage;

/// The number, and the number with all its bits turned, so that a damaged file is told.
const BYTES: usize = 16;

/// The open file; none where it could not be made, which costs nothing but the knowledge.
pub(super) struct Acknowledged(Option<Box<dyn StorageBackend>>);

impl Acknowledged {
    pub(super) fn open(storage: &Arc<dyn Storage>, file: &Path) -> Self {
        match storage.create(file).and_then(|()| storage.open(file)) {
            Ok(opened) => Self(Some(opened)),
            Err(error) => {
                log::warn!("{} cannot be written: {error}", file.display());
                Self(None)
            }
        }
    }

    /// Somebody is going to be told of the commit.
    pub(super) fn note(&mut self, commit: u64) {
        let Some(file) = &self.0 else { return };
        let mut bytes = [0; BYTES];
        let (number, turned) = bytes.split_at_mut(BYTES / 2);
        number.copy_from_slice(&commit.to_le_bytes());
        turned.copy_from_slice(&(!commit).to_le_bytes());
        if let Err(error) = file.write(0, &bytes) {
            log::warn!("the number of the last commit cannot be noted: {error}");
            self.0 = None;
        }
    }
}

/// The number of the last commit that somebody was told of, as far as is known.
pub(super) fn read(storage: &Arc<dyn Storage>, file: &Path) -> u64 {
    let read = || -> Option<u64> {
        if storage.len(file).ok()?? < BYTES as u64 {
            return None;
        }
        let mut bytes = [0; BYTES];
        storage.open(file).ok()?.read(0, &mut bytes).ok()?;
        let (number, turned) = bytes.split_at(BYTES / 2);
        let (number, turned) =
            (u64::from_le_bytes(number.try_into().ok()?), u64::from_le_bytes(turned.try_into().ok()?));
        (number == !turned).then_some(number)
    };
    read().unwrap_or_default()
}
