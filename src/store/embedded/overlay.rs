//! A file that is looked at and stays as it is: what is written goes to memory.
//!
//! Checking, repairing and compacting read a store through it, so that they never touch the file they read.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::storage::{BLOCK, blocks};

/// A file with changes that nobody else sees.
#[derive(Debug)]
pub(super) struct Overlay {
    file: Box<dyn StorageBackend>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// The file counts up to here; what was cut off is zero when it is added again.
    file_len: u64,
    /// By the position of the block in the file.
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    pub(super) fn new(file: Box<dyn StorageBackend>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, changes: Mutex::new(Changes { len, file_len: len, blocks: BTreeMap::new() }) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Changes {
    /// Reads what the file has of this, and zeros behind its end.
    fn read_below(&self, file: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (inside, outside) = out.split_at_mut(there);
        outside.fill(0);
        if inside.is_empty() { Ok(()) } else { file.read(offset, inside) }
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > changes.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        changes.read_below(self.file.as_ref(), offset, out)?;
        for (number, part, piece) in blocks(offset, out.len()) {
            if let Some(block) = changes.blocks.get(&number) {
                out[piece].copy_from_slice(&block[part]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes();
        if len < changes.len {
            changes.blocks.split_off(&len.div_ceil(BLOCK as u64));
            if let Some(last) = changes.blocks.get_mut(&(len / BLOCK as u64)) {
                last[usize::try_from(len % BLOCK as u64).unwrap_or_default()..].fill(0);
            }
            changes.file_len = changes.file_len.min(len);
        }
        changes.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        for (number, part, piece) in blocks(offset, data.len()) {
            if !changes.blocks.contains_key(&number) {
                let mut block = vec![0; BLOCK].into_boxed_slice();
                changes.read_below(self.file.as_ref(), number * BLOCK as u64, &mut block)?;
                changes.blocks.insert(number, block);
            }
            if let Some(block) = changes.blocks.get_mut(&number) {
                block[part].copy_from_slice(&data[piece]);
            }
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    fn read(file: &dyn StorageBackend, offset: u64, length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        file.read(offset, &mut out).expect("it is inside");
        out
    }

    #[test]
    fn what_is_written_is_read_and_the_file_stays_as_it_is() {
        let file = InMemoryBackend::new();
        file.set_len(10_000).expect("room");
        file.write(0, &[1; 10_000]).expect("written");
        let overlay = Overlay::new(Box::new(file)).expect("a length");
        overlay.write(4090, &[2; 20]).expect("written");
        assert_eq!(read(&overlay, 4088, 24), [&[1; 2][..], &[2; 20], &[1; 2]].concat());
        assert_eq!(read(overlay.file.as_ref(), 4088, 24), [1; 24]);
        overlay.set_len(4095).expect("cut");
        assert!(overlay.read(4090, &mut [0; 6]).is_err());
        overlay.set_len(20_000).expect("longer");
        assert_eq!(read(&overlay, 4089, 8), [1, 2, 2, 2, 2, 2, 0, 0]);
        assert_eq!(read(&overlay, 9_990, 20), [0; 20]);
    }
}
