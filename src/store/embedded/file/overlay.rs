//! A copy-on-write view of a file: writes go to memory, and to a temporary file when they are many.
//!
//! Checking, repairing and compacting read a store through it, so they never change the file. A store of an old format
//! is upgraded in it, which changes most of its pages.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use crate::store::embedded::file::storage::{BLOCK, blocks};

/// The number of blocks in memory; small in tests of this crate.
const MOST_BLOCKS: usize = if cfg!(test) { 64 } else { 4096 };

/// Makes a file without a name.
type Scratch = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// A file with private changes.
pub(crate) struct Overlay {
    file: Box<dyn StorageBackend>,
    scratch: Scratch,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// The file counts up to here. A part that was cut off is zero when the file grows again.
    file_len: u64,
    /// By the position of the block in the file.
    blocks: BTreeMap<u64, Box<[u8]>>,
    spilled: Option<Spilled>,
}

/// What is no longer in memory.
#[derive(Debug)]
struct Spilled {
    /// Has holes where nothing was changed.
    file: File,
    /// Whether this has the block, by the position of the block.
    has: Vec<bool>,
}

impl Overlay {
    /// `scratch` makes the temporary file, if one is needed.
    pub(crate) fn new(
        file: Box<dyn StorageBackend>,
        scratch: impl Fn() -> io::Result<File> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let len = file.len()?;
        let changes = Changes { len, file_len: len, blocks: BTreeMap::new(), spilled: None };
        Ok(Self { file, scratch: Box::new(scratch), changes: Mutex::new(changes) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Overlay").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Changes {
    /// Reads from the file, and zeros beyond its end.
    fn read_below(&self, file: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (inside, outside) = out.split_at_mut(there);
        outside.fill(0);
        if !inside.is_empty() {
            file.read(offset, inside)?;
        }
        let Some(spilled) = &self.spilled else { return Ok(()) };
        for (number, part, piece) in blocks(offset, out.len()) {
            if spilled.has(number) {
                spilled.file.read_exact_at(&mut out[piece], number * BLOCK as u64 + part.start as u64)?;
            }
        }
        Ok(())
    }

    /// Moves the blocks in memory to the temporary file.
    fn spill(&mut self, scratch: &Scratch) -> io::Result<()> {
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled { file: scratch()?, has: Vec::new() }),
        };
        for (number, block) in &self.blocks {
            spilled.file.write_all_at(block, number * BLOCK as u64)?;
            spilled.note(*number)?;
        }
        self.blocks.clear();
        Ok(())
    }
}

impl Spilled {
    fn has(&self, number: u64) -> bool {
        usize::try_from(number).is_ok_and(|number| self.has.get(number).is_some_and(|has| *has))
    }

    fn note(&mut self, number: u64) -> io::Result<()> {
        let number = usize::try_from(number).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.has.resize(self.has.len().max(number + 1), false);
        self.has[number] = true;
        Ok(())
    }

    /// Drops everything after this length.
    fn cut_off(&mut self, len: u64) -> io::Result<()> {
        let kept = usize::try_from(len.div_ceil(BLOCK as u64)).unwrap_or(usize::MAX);
        self.has.truncate(kept);
        // The rest of the last block is zeros.
        self.file.set_len(self.file.metadata()?.len().min(len))?;
        self.file.set_len(self.has.len() as u64 * BLOCK as u64)
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
            if let Some(spilled) = &mut changes.spilled {
                spilled.cut_off(len)?;
            }
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
                if part.len() < BLOCK {
                    changes.read_below(self.file.as_ref(), number * BLOCK as u64, &mut block)?;
                }
                if changes.blocks.len() >= MOST_BLOCKS {
                    changes.spill(&self.scratch)?;
                }
                changes.blocks.insert(number, block);
            }
            if let Some(block) = changes.blocks.get_mut(&number) {
                block[part].copy_from_slice(&data[piece]);
            }
        }
        changes.len = changes.len.max(offset + data.len() as u64);
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
    fn what_is_written_is_read_from_wherever_it_is_kept() {
        let mut seed = 1_u64;
        let mut below = |bound: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).expect("31 bits") % bound
        };
        let (file, mut model) = (InMemoryBackend::new(), vec![7; 300 * BLOCK + 100]);
        file.set_len(model.len() as u64).expect("room");
        file.write(0, &model).expect("written");
        let overlay = Overlay::new(Box::new(file), tempfile::tempfile).expect("a length");
        for round in 0..3_000 {
            if round % 500 == 499 {
                let length = below(500 * BLOCK);
                overlay.set_len(length as u64).expect("a length");
                model.resize(length, 0);
                overlay.set_len(length as u64 + 50_000).expect("a length");
                model.resize(length + 50_000, 0);
            }
            let at = below(model.len());
            let length = (1 + below(2 * BLOCK)).min(model.len() - at);
            let byte = u8::try_from(below(256)).expect("a byte");
            overlay.write(at as u64, &vec![byte; length]).expect("written");
            model[at..at + length].fill(byte);
            assert!(overlay.changes().blocks.len() <= MOST_BLOCKS);
            let at = below(model.len());
            let length = below(3 * BLOCK).min(model.len() - at);
            assert!(read(&overlay, at as u64, length) == model[at..at + length], "round {round}");
        }
        assert!(overlay.changes().spilled.is_some());
        assert!(read(&overlay, 0, model.len()) == model);
        assert_eq!(read(overlay.file.as_ref(), 0, 300 * BLOCK + 100), vec![7; 300 * BLOCK + 100]);
    }

    #[test]
    fn what_is_written_is_read_and_the_file_stays_as_it_is() {
        let file = InMemoryBackend::new();
        file.set_len(10_000).expect("room");
        file.write(0, &[1; 10_000]).expect("written");
        let overlay = Overlay::new(Box::new(file), tempfile::tempfile).expect("a length");
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
