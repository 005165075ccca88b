//! The file that redb sees: opens or creates a log, and reads and writes its pages.

use std::collections::BTreeSet;
use std::io;
use std::ops::{Bound, Deref};
use std::sync::Arc;

use redb::{BackendError, StorageBackend};
use rustix::io::Errno;

use super::layout::{LAYOUT, MapCheck, Point, Run, SEGMENT, SLOT, Superblock};
use super::log::{Log, MOST_STAGED, damaged, page_of};
use super::log_writer::{PageBatch, Phase};
use super::recovery::{End, Recovered, Unopened, recover};
use super::segments::{RESERVE, slots_of};
use crate::store::embedded::file::storage::blocks;

/// The bytes of a log in addition to its pages and their garbage: the segments that are kept free, those of two maps, and
/// the one for the next part.
pub(crate) const BESIDE: u64 = (RESERVE as u64 + 3) * SEGMENT as u64 * SLOT as u64;
/// The maximum number of garbage slots that are left alone: in a small store clearing costs more than the room is worth.
const SLACK: u64 = 2048;

/// What redb gets instead of a damaged page. It is no page of any kind, and its numbers of entries and
/// offsets lie outside of it. Zeros would be a page without entries: joining it with its neighbour would lose the
/// neighbour's entries.
const NO_PAGE: u8 = 0xff;

/// A file that was opened.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A log of pages.
    Log(Pages),
    /// redb's own file: a backup, or a store from before there were logs.
    Plain(Box<dyn StorageBackend>),
}

/// A log of pages, which is a file to redb. Clones are the same log.
#[derive(Debug, Clone)]
pub(crate) struct Pages(Arc<Log>);

impl Deref for Pages {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.0
    }
}

impl Pages {
    /// Opens and locks a file that is not empty.
    pub(crate) fn open(file: Box<dyn StorageBackend>) -> Result<Opened, Unopened> {
        lock(&*file)?;
        match recover(&*file)? {
            None => Ok(Opened::Plain(file)),
            Some(log) => Ok(Opened::Log(Self(Arc::new(Log::of(file, log))))),
        }
    }

    /// Writes a log without pages to an empty file.
    pub(crate) fn create(file: Box<dyn StorageBackend>) -> io::Result<Self> {
        let superblock = Superblock {
            layout: LAYOUT,
            generation: 0,
            identity: rand::random(),
            length: 0,
            point: Point { sequence: 0, parent: 0, slot: slots_of(0).start },
            map: Run::default(),
            spare: Run::default(),
            map_pages: 0,
            map_check: MapCheck::default().value(),
            is_closed: false,
        };
        let (point, pinned) = (superblock.point, BTreeSet::new());
        let (map, records, end) = (Vec::new(), Vec::new(), End::default());
        let log = Recovered { length: 0, map, pinned, point, slots: 0, segments: 0, superblock, records, end };
        let pages = Self(Arc::new(Log::of(file, log)));
        let mut writer = pages.writer();
        pages.fill(0)?;
        let map = pages.take_run(&mut writer, 1)?;
        let superblock = Superblock { map, spare: pages.take_run(&mut writer, 1)?, ..superblock };
        for _ in 0..RESERVE {
            pages.add_segment(&mut writer)?;
        }
        // All that is in the file is of this process.
        writer.end_in_doubt = None;
        pages.write_superblock(&mut writer, superblock)?;
        drop(writer);
        Ok(pages)
    }
}

impl StorageBackend for Pages {
    fn len(&self) -> io::Result<u64> {
        Ok(self.shared().length)
    }

    /// A page that is not what was written is given out as [`NO_PAGE`], which redb refuses: an error here would keep it from
    /// reading and writing all the others until it is opened again. That is right when the disk cannot be read, as that may pass.
    fn read(&self, from: u64, out: &mut [u8]) -> io::Result<()> {
        let shared = self.shared();
        if from.checked_add(out.len() as u64).is_none_or(|end| end > shared.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let first = page_of(from)?;
        let is_sound = if from.is_multiple_of(SLOT as u64) && out.len().is_multiple_of(SLOT) {
            self.read_pages(&shared, first, out)?
        } else {
            let mut bytes = vec![0; SLOT];
            let mut is_sound = true;
            for (number, part, piece) in blocks(from, out.len()) {
                is_sound &= self.read_pages(&shared, page_of(number * SLOT as u64)?, &mut bytes)?;
                out[piece].copy_from_slice(&bytes[part]);
            }
            is_sound
        };
        if !is_sound {
            self.report_damage(first, shared.place(first).slot);
            if first == 0 {
                // What redb knows of the whole file.
                return Err(damaged(first));
            }
            out.fill(NO_PAGE);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut writer = self.writer();
        writer.check()?;
        page_of(length)?;
        let before = self.shared().length;
        let cut = usize::try_from(length % SLOT as u64).unwrap_or_default();
        if length < before && cut > 0 {
            let last = page_of(length)?;
            let mut bytes = self.page(last)?;
            bytes[cut..].fill(0);
            self.shared_mut().staged.insert(last, bytes);
        }
        let mut shared = self.shared_mut();
        let kept = page_of(length.next_multiple_of(SLOT as u64))?;
        drop(shared.staged.split_off(&kept));
        let cut_off = shared.map.get(kept as usize..).unwrap_or_default();
        writer.replaced.extend(cut_off.iter().map(|place| place.slot).filter(|slot| *slot > 0));
        shared.set_length(length);
        writer.floor = writer.floor.min(length);
        if length != before {
            writer.batch.stage();
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut writer = self.writer();
        writer.check()?;
        self.rewrite_end(&mut writer)?;
        if writer.batch == PageBatch::Empty {
            return Ok(());
        }
        // A full disk is cleared when somebody needs the room.
        if !writer.is_full {
            let most = writer.segments.live() / 2 + SLACK;
            self.clear_segments(&mut writer, most, RESERVE)?;
        }
        self.commit(&mut writer)
    }

    fn write(&self, from: u64, data: &[u8]) -> io::Result<()> {
        let mut writer = self.writer();
        writer.check()?;
        writer.batch.stage();
        let end = from + data.len() as u64;
        page_of(end)?;
        let mut pages = Vec::with_capacity(data.len() / SLOT + 2);
        for (number, part, piece) in blocks(from, data.len()) {
            let page = page_of(number * SLOT as u64)?;
            let bytes = if part.len() == SLOT {
                Box::from(&data[piece])
            } else {
                let mut bytes = self.page(page)?;
                bytes[part].copy_from_slice(&data[piece]);
                bytes
            };
            pages.push((page, bytes));
        }
        let mut shared = self.shared_mut();
        shared.staged.extend(pages);
        if end > shared.length {
            shared.set_length(end);
        }
        let staged = shared.staged.len();
        drop(shared);
        if staged >= MOST_STAGED { self.write_parts(&mut writer, false) } else { Ok(()) }
    }

    fn close(&self) -> io::Result<()> {
        let mut writer = self.writer();
        // What was not synced need not be kept.
        if writer.phase == Phase::Written && writer.batch == PageBatch::Empty && writer.records.is_empty() {
            self.checkpoint(&mut writer, true)?;
        }
        writer.phase = Phase::Closed;
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

/// Locks a file: until it is closed, no other process can open it.
pub(crate) fn lock(file: &dyn StorageBackend) -> Result<(), Unopened> {
    match file.try_lock_range(Bound::Unbounded, Bound::Unbounded).map_err(io::Error::from) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unopened::InUse),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(Unopened::NoLocks),
        // Of a file system in the network that was mounted without them.
        Err(error) if error.raw_os_error() == Some(Errno::NOLCK.raw_os_error()) => Err(Unopened::NoLocks),
        Err(error) => Err(Unopened::Io(error)),
    }
}
