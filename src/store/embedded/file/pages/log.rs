//! The log in memory: where its pages are, and how they are read.
//!
//! Readers take [`Shared`], writers [`LogWriter`] and then [`Shared`] for a moment. The other files of this folder add to [`Log`] what
//! they write: `parts`, `first_write`, `checkpoint`, `clearing`, `append`, `reserve`.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use redb::StorageBackend;

use super::layout::{MOST_PAGES, Place, SLOT, offset};
use super::log_writer::{LogWriter, PageBatch, Phase};
use super::promises::Promises;
use super::recovery::{Recovered, resize};
use super::segments::{Segments, segment_of};

/// The maximum number of pages staged before a part is written, unless a sync comes first: redb writes some pages several
/// times.
pub(super) const MOST_STAGED: usize = if cfg!(test) { MOST_PAGES } else { 2048 };

/// A log of pages: the file, and what is known of it.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) file: Box<dyn StorageBackend>,
    /// Set when a page was read that is not what was written.
    damage: OnceLock<Arc<AtomicBool>>,
    shared: RwLock<Shared>,
    writer: Mutex<LogWriter>,
}

/// What reading needs, and writing changes.
#[derive(Debug)]
pub(super) struct Shared {
    /// The length of the file that redb sees.
    pub(super) length: u64,
    /// Where each page is.
    pub(super) map: Vec<Place>,
    /// The pages of the batch that are not in the file yet.
    pub(super) staged: BTreeMap<u32, Box<[u8]>>,
}

impl Log {
    /// As recovery has found it.
    pub(super) fn of(file: Box<dyn StorageBackend>, log: Recovered) -> Self {
        let maps = [log.superblock.map, log.superblock.spare];
        let writer = LogWriter {
            phase: Phase::Opened,
            batch: PageBatch::Empty,
            segments: Segments::of(&log.map, maps, &log.pinned, segment_of(log.point.slot), log.segments),
            point: log.point,
            superblock: log.superblock,
            replaced: Vec::new(),
            floor: log.length,
            slots: log.slots,
            retry_from: 0,
            end_in_doubt: Some(log.end),
            is_full: false,
            records: log.records,
            promises: Promises::default(),
            buffer: Vec::new(),
        };
        let shared = Shared { length: log.length, map: log.map, staged: BTreeMap::new() };
        Self { file, damage: OnceLock::new(), shared: RwLock::new(shared), writer: Mutex::new(writer) }
    }

    /// Has this set when a page is read that is not what was written.
    pub(crate) fn report_damage_to(&self, damage: &Arc<AtomicBool>) {
        // This is called once, when a log is opened.
        let _ = self.damage.set(Arc::clone(damage));
    }

    /// Says that a page is not what was written.
    pub(super) fn report_damage(&self, page: u32, slot: u32) {
        log::error!("page {page} of the store is damaged, at {} of the file", offset(slot));
        if let Some(damage) = self.damage.get() {
            damage.store(true, Ordering::Relaxed);
        }
    }

    /// Locks what readers need, to read it.
    pub(super) fn shared(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks what readers need, to change it.
    pub(super) fn shared_mut(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the writer. Lock it before [`Log::shared`], never while holding that.
    pub(super) fn writer(&self) -> MutexGuard<'_, LogWriter> {
        self.writer.lock().unwrap_or_else(|poisoned| {
            let mut writer = poisoned.into_inner();
            writer.fail();
            writer
        })
    }

    /// Reads whole pages: from memory, or runs of neighbours from the file. `false` when one of them is damaged.
    pub(super) fn read_pages(&self, shared: &Shared, first: u32, out: &mut [u8]) -> io::Result<bool> {
        let count = out.len() / SLOT;
        let mut done = 0;
        while done < count {
            let page = first + page_number(done)?;
            if let Some(staged) = shared.staged.get(&page) {
                out[done * SLOT..(done + 1) * SLOT].copy_from_slice(staged);
                done += 1;
                continue;
            }
            let place = shared.place(page);
            if place.slot == 0 {
                out[done * SLOT..(done + 1) * SLOT].fill(0);
                done += 1;
                continue;
            }
            // Pages that were written together lie together.
            let mut run = 1;
            while done + run < count {
                let (next, ahead) = (first + page_number(done + run)?, page_number(run)?);
                if shared.place(next).slot != place.slot + ahead || shared.staged.contains_key(&next) {
                    break;
                }
                run += 1;
            }
            let piece = &mut out[done * SLOT..(done + run) * SLOT];
            match self.file.read(offset(place.slot), piece) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                read => read?,
            }
            for (number, bytes) in (page..).zip(piece.chunks_exact(SLOT)) {
                if !shared.place(number).is_of(number, bytes) {
                    return Ok(false);
                }
            }
            done += run;
        }
        Ok(true)
    }

    /// A page as it is now, staged or in the file.
    pub(super) fn page(&self, page: u32) -> io::Result<Box<[u8]>> {
        let mut bytes = vec![0; SLOT].into_boxed_slice();
        if self.read_pages(&self.shared(), page, &mut bytes)? { Ok(bytes) } else { Err(damaged(page)) }
    }

    /// How many pages are live.
    pub(crate) fn count(&self) -> u64 {
        self.writer().segments.live()
    }
}

impl Shared {
    /// Where a page is; nowhere, if it was never written.
    pub(super) fn place(&self, page: u32) -> Place {
        self.map.get(page as usize).copied().unwrap_or_default()
    }

    /// Makes the file that redb sees longer or shorter. New pages are zeros.
    pub(super) fn set_length(&mut self, length: u64) {
        self.length = length;
        resize(&mut self.map, length);
    }
}

/// The page that a byte is in.
pub(super) fn page_of(at: u64) -> io::Result<u32> {
    u32::try_from(at / SLOT as u64).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// A number of pages, or a difference of them, as the log stores it.
pub(super) fn page_number(count: usize) -> io::Result<u32> {
    u32::try_from(count).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// The error of a page that is not what was written.
pub(super) fn damaged(page: u32) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("page {page} of the store is not what was written"))
}
