//! The log itself: batches, segments, the map, and the file that redb sees.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{Bound, Deref};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use redb::{BackendError, StorageBackend};
use rustix::io::Errno;

use super::ahead::{self, Version};
use super::layout::{
    Content, Head, LAYOUT, MAP_PIECE, MOST_PAGES, MapCheck, Place, Point, Run, SEGMENT, SLOT, Superblock, encode_map,
    map_bytes, offset,
};
use super::promises::Promises;
use super::records::Record;
use super::recovery::{End, Recovered, recover, resize};
#[cfg(test)]
use super::segments::segments_in;
use super::segments::{RESERVE, Segments, segment_of, segments_for, slots_of};
use super::unopened::Unopened;
use crate::store::embedded::file::storage::blocks;

/// What a log takes beside its pages and their garbage, in bytes: the segments that are kept free, those of two maps and the one
/// that is written to.
pub(crate) const BESIDE: u64 = (RESERVE as u64 + 3) * SEGMENT as u64 * SLOT as u64;
/// Garbage that is left alone in any case, in slots: clearing costs a small store more than the room is worth.
const SLACK: u64 = 2048;
/// So many slots are written at least between two checkpoints.
const CHECKPOINT: u64 = 512;
/// So many parts are followed at the most when a log is opened.
const MOST_PARTS: u64 = 16_384;
/// So often one sync clears segments on a full disk.
pub(super) const MOST_ROUNDS: usize = 64;
/// More would not have numbers for their slots.
const MOST_SEGMENTS: u32 = u32::MAX / SEGMENT - 1;
/// How many pages a batch may write anew at least, however small it is.
const CLEARED: usize = 64;
/// So many pages are staged before they are written, unless there is a sync: redb gives some out of its hand that change again.
const MOST_STAGED: usize = if cfg!(test) { MOST_PAGES } else { 2048 };

/// What redb gets in the place of a page that is not what was written. It is no page of any kind, and its numbers of entries and
/// offsets lie outside of it. Zeros would be a page without entries: joining it with the one beside it would lose its entries.
const NO_PAGE: u8 = 0xff;

/// A file that was opened.
#[derive(Debug)]
pub(crate) enum Opened {
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

/// What a [`Pages`] is.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) file: Box<dyn StorageBackend>,
    /// See [`Log::was_closed`].
    pub(super) was_closed: bool,
    pub(super) shared: RwLock<Shared>,
    pub(super) writer: Mutex<LogWriter>,
}

/// What reading needs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) length: u64,
    pub(super) map: Vec<Place>,
    /// Another one with each change of the map.
    pub(super) version: Version,
    /// Pages that are not in the file yet.
    pub(super) staged: BTreeMap<u32, Box<[u8]>>,
}

/// What this process may do to the file, and what it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The file is as it was when it was opened, in what it says. Closing leaves it so.
    Opened,
    /// The file was written to. Closing writes a checkpoint.
    Written,
    /// A write or a sync failed, and nobody knows what is in the file. Nothing more is written.
    Failed,
    /// The file is closed. Another process may have it, so nothing more is written.
    Closed,
}

/// The batch: the pages that redb writes between two syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batch {
    /// No change since the last sync: the next sync has nothing to do.
    Empty,
    /// All changes are in memory: staged pages, or another length.
    Staged,
    /// The first parts are in the file. The next sync completes the batch.
    Begun {
        /// How many pages of the batch are in the file.
        pages: usize,
    },
}

impl Batch {
    /// The batch has a change that is not in the file.
    pub(super) fn stage(&mut self) {
        if *self == Self::Empty {
            *self = Self::Staged;
        }
    }

    /// So many pages were written to the file as a part.
    fn add_part(&mut self, pages: usize) {
        *self = Self::Begun { pages: self.written() + pages };
    }

    /// How many pages of the batch are in the file.
    fn written(self) -> usize {
        match self {
            Self::Empty | Self::Staged => 0,
            Self::Begun { pages } => pages,
        }
    }

    /// Whether a part of the batch is in the file.
    pub(super) fn is_begun(self) -> bool {
        matches!(self, Self::Begun { .. })
    }
}

/// What writing needs.
#[derive(Debug)]
pub(super) struct LogWriter {
    pub(super) phase: Phase,
    pub(super) batch: Batch,
    pub(super) segments: Segments,
    pub(super) point: Point,
    pub(super) superblock: Superblock,
    /// Where pages are that are newer in the batch that is being written.
    pub(super) replaced: Vec<u32>,
    /// The smallest length since the last part.
    pub(super) floor: u64,
    /// How many slots were written since the last checkpoint.
    pub(super) slots: u64,
    /// How many it has to be before a checkpoint is tried again that there was no room for.
    pub(super) retry_from: u64,
    /// The end of the log as it was opened, see [`Log::sync_found`]; `None` when it is on disk for sure.
    pub(super) found: Option<End>,
    /// Whether there was no room for another segment.
    pub(super) is_full: bool,
    /// What the pages do not say yet, see [`records`](super::records).
    pub(super) records: Vec<Record>,
    /// What was promised, see [`Log::promise`].
    pub(super) promises: Promises,
    pub(super) buffer: Vec<u8>,
}

impl Pages {
    /// Opens a file that is not empty, and keeps other processes from opening it.
    pub(crate) fn open(file: Box<dyn StorageBackend>) -> Result<Opened, Unopened> {
        lock(&*file)?;
        match recover(&*file)? {
            None => Ok(Opened::Plain(file)),
            Some(log) => Ok(Opened::Log(Self(Arc::new(Log::of(file, log))))),
        }
    }

    /// Makes an empty file a log without pages.
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
        pages.write_superblock(&mut writer, superblock)?;
        drop(writer);
        Ok(pages)
    }
}

#[cfg(test)]
impl Pages {
    /// Has the file become so long, as that of a large store. What is new is a hole, which the log keeps for a map.
    pub(crate) fn leap(&self, length: u64) -> io::Result<()> {
        let mut writer = self.writer();
        self.begin_writing(&mut writer)?;
        let count = segments_in(length).saturating_sub(writer.segments.count());
        (0..count).for_each(|_| writer.segments.add());
        let spare = writer.segments.take_run(count, u32::MAX).ok_or(io::ErrorKind::InvalidInput)?;
        let before = writer.superblock;
        self.file.set_len(offset(slots_of(writer.segments.count()).start))?;
        self.write_superblock(&mut writer, Superblock { spare, ..before })?;
        writer.segments.give_back(before.spare);
        Ok(())
    }
}

impl Log {
    fn of(file: Box<dyn StorageBackend>, log: Recovered) -> Self {
        let segments = {
            let maps = [log.superblock.map, log.superblock.spare];
            Segments::of(&log.map, maps, &log.pinned, segment_of(log.point.slot), log.segments)
        };
        let writer = LogWriter {
            phase: Phase::Opened,
            batch: Batch::Empty,
            segments,
            point: log.point,
            superblock: log.superblock,
            replaced: Vec::new(),
            floor: log.length,
            slots: log.slots,
            retry_from: 0,
            found: Some(log.end),
            is_full: false,
            records: log.records,
            promises: Promises::default(),
            buffer: Vec::new(),
        };
        let shared = Shared { length: log.length, map: log.map, version: Version::new(), staged: BTreeMap::new() };
        let was_closed = log.superblock.is_closed && log.slots == 0;
        Self { file, was_closed, shared: RwLock::new(shared), writer: Mutex::new(writer) }
    }

    pub(super) fn shared(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shared_mut(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Taken before what is shared, and never while holding that.
    pub(super) fn writer(&self) -> MutexGuard<'_, LogWriter> {
        self.writer.lock().unwrap_or_else(|poisoned| {
            let mut writer = poisoned.into_inner();
            writer.phase = Phase::Failed;
            writer
        })
    }

    /// Reads whole pages; `false` when one of them is damaged.
    fn read_pages(&self, shared: &Shared, first: u32, out: &mut [u8]) -> io::Result<bool> {
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
            match ahead::read(&*self.file, shared.version, place.slot, piece) {
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

    /// The page as it is now.
    pub(super) fn page(&self, page: u32) -> io::Result<Box<[u8]>> {
        let mut bytes = vec![0; SLOT].into_boxed_slice();
        if self.read_pages(&self.shared(), page, &mut bytes)? { Ok(bytes) } else { Err(damaged(page)) }
    }

    /// How many pages count.
    pub(crate) fn count(&self) -> u64 {
        self.writer().segments.live()
    }

    /// Whether the log had been closed properly when it was opened. If it was not, the last batch that was acknowledged may be
    /// missing where the file is damaged, and nothing here can tell.
    pub(crate) fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// Writes what is staged as parts; with `is_last` the batch is complete then.
    pub(super) fn write_parts(&self, writer: &mut LogWriter, is_last: bool) -> io::Result<()> {
        self.begin_writing(writer)?;
        let numbers: Vec<u32> = self.shared().staged.keys().copied().collect();
        writer.promises.note_early(&numbers);
        let mut rest = numbers.as_slice();
        loop {
            let (now, later) = rest.split_at(rest.len().min(room_at(writer.point)));
            rest = later;
            let next = self.next_part(writer, now.len())?;
            self.write_part(writer, now, next, is_last && rest.is_empty())?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Makes the file one that is being written to, by this version.
    pub(super) fn begin_writing(&self, writer: &mut LogWriter) -> io::Result<()> {
        self.sync_found(writer)?;
        writer.note_written();
        if writer.superblock.is_closed || writer.superblock.layout < LAYOUT {
            self.write_superblock(writer, Superblock { is_closed: false, ..writer.superblock })?;
        }
        Ok(())
    }

    /// Where the part behind one of so many pages will be: that stands in the one before.
    pub(super) fn next_part(&self, writer: &mut LogWriter, pages: usize) -> io::Result<u32> {
        let behind = writer.point.slot + 1 + page_number(pages)?;
        let end = slots_of(segment_of(writer.point.slot)).end;
        // A part needs room for its head and a page.
        if end - behind >= 2 { Ok(behind) } else { self.next_segment(writer) }
    }

    /// Makes durable what was found when the log was opened. It may be in the operating system's memory alone, and after a sync
    /// that failed pages there may count as written that are not: to sync them again proves nothing. Only the newest superblock
    /// and the end of the chain can be such, as nothing is completed behind a sync that failed. So these are written again.
    fn sync_found(&self, writer: &mut LogWriter) -> io::Result<()> {
        let Some(End { passed, parts }) = writer.found.take() else { return Ok(()) };
        let superblock = writer.superblock;
        writer.failing(|| {
            for (head, slot) in &passed {
                self.write_again(*slot, head, &[])?;
            }
            for (head, slot) in &parts {
                self.write_again(*slot, head, &head.pages)?;
            }
            for slot in superblock.slots() {
                self.file.write(offset(slot), &superblock.encode())?;
            }
            self.file.sync_data()
        })
    }

    /// Writes the head in a slot again, and these pages behind it.
    fn write_again(&self, slot: u32, head: &Head, pages: &[(u32, u32)]) -> io::Result<()> {
        let mut bytes = vec![0; (1 + pages.len()) * SLOT];
        self.file.read(offset(slot), &mut bytes)?;
        head.encode(&mut bytes[..SLOT]);
        for ((page, check), bytes) in pages.iter().zip(bytes[SLOT..].chunks_exact(SLOT)) {
            if !(Place { slot, check: *check }).is_of(*page, bytes) {
                return Err(io::Error::other("the end of the log is no longer what it was when it was opened"));
            }
        }
        self.file.write(offset(slot), &bytes)
    }

    /// Where a segment begins that can be written to.
    ///
    /// A new segment is filled with zeros first: when the disk is full that fails, and writing to it later does not.
    fn next_segment(&self, writer: &mut LogWriter) -> io::Result<u32> {
        while !writer.segments.has(RESERVE + 1) {
            match self.add_segment(writer) {
                Err(error) if is_full(&error) => break,
                added => added?,
            }
        }
        let segment = writer.segments.take().ok_or(io::ErrorKind::StorageFull)?;
        Ok(slots_of(segment).start)
    }

    pub(super) fn add_segment(&self, writer: &mut LogWriter) -> io::Result<()> {
        let added = self.fill(writer.segments.count());
        writer.is_full = added.as_ref().is_err_and(is_full);
        added?;
        writer.segments.add();
        Ok(())
    }

    pub(super) fn fill(&self, segment: u32) -> io::Result<()> {
        if segment >= MOST_SEGMENTS {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let slots = slots_of(segment);
        self.file.write(offset(slots.start), &vec![0; slots.len() * SLOT])
    }

    /// Segments in a row, for a map.
    pub(super) fn take_run(&self, writer: &mut LogWriter, count: u32) -> io::Result<Run> {
        loop {
            if let Some(run) = writer.segments.take_run(count, u32::MAX) {
                return Ok(run);
            }
            self.add_segment(writer)?;
        }
    }

    fn write_part(&self, writer: &mut LogWriter, numbers: &[u32], next: u32, is_last: bool) -> io::Result<()> {
        let slot = writer.point.slot;
        let mut buffer = std::mem::take(&mut writer.buffer);
        buffer.resize(SLOT, 0);
        let mut places = Vec::with_capacity(numbers.len());
        let shared = self.shared();
        for (number, slot) in numbers.iter().zip(slot + 1..) {
            let Some(bytes) = shared.staged.get(number) else { continue };
            places.push(Place::of(slot, *number, bytes));
            buffer.extend_from_slice(bytes);
        }
        let length = shared.length;
        drop(shared);
        let pages = numbers.iter().zip(&places).map(|(number, place)| (*number, place.check)).collect();
        let content = Content::Pages { length, floor: writer.floor, is_first: !writer.batch.is_begun() };
        self.put_part(writer, buffer, content, pages, next, is_last)?;
        let mut shared = self.shared_mut();
        for (number, place) in numbers.iter().zip(places) {
            shared.staged.remove(number);
            let before = shared.map.get_mut(*number as usize).map(|known| std::mem::replace(known, place));
            writer.replaced.extend(before.map(|before| before.slot).filter(|slot| *slot > 0));
        }
        shared.version = Version::new();
        drop(shared);
        writer.segments.place(slot + 1, numbers.iter().copied());
        writer.batch.add_part(numbers.len());
        writer.promises.note_written(numbers.len());
        writer.floor = length;
        Ok(())
    }

    /// Writes a part. Its slots are in the buffer, behind one for its head.
    pub(super) fn put_part(
        &self,
        writer: &mut LogWriter,
        mut buffer: Vec<u8>,
        content: Content,
        pages: Vec<(u32, u32)>,
        next: u32,
        is_last: bool,
    ) -> io::Result<()> {
        let Point { slot, sequence, parent } = writer.point;
        let head = Head { identity: writer.superblock.identity, sequence, parent, next, is_last, content, pages };
        let check = head.encode(&mut buffer[..SLOT]);
        writer.failing(|| self.file.write(offset(slot), &buffer))?;
        buffer.clear();
        writer.buffer = buffer;
        writer.slots += 1 + head.pages.len() as u64;
        writer.point = Point { sequence: sequence + 1, parent: check, slot: next };
        Ok(())
    }

    /// Stages the pages that still count in segments that are mostly garbage, if there is more than `most` of it. So many segments
    /// are left free, and the room for what was promised.
    pub(super) fn clear_segments(&self, writer: &mut LogWriter, most: u64, kept: usize) -> io::Result<()> {
        // On a full disk a few slots count; heads of parts will take some again.
        let fullest = if writer.is_full { SEGMENT - 8 } else { SEGMENT * 9 / 10 };
        let mut garbage = writer.segments.clearable();
        let mut budget = CLEARED.max(2 * (writer.batch.written() + self.shared().staged.len()));
        let mut cleared = BTreeSet::new();
        while garbage > most {
            let current = segment_of(writer.point.slot);
            let Some(victim) = writer.segments.victim(current, &cleared) else { break };
            let live = writer.segments.live_in(victim);
            if usize::from(live) > budget && !cleared.is_empty() {
                break;
            }
            // What is full would only be written again and again.
            if u32::from(live) > fullest || !self.has_room(writer, live.into(), kept)? {
                break;
            }
            self.clear_segment(writer, victim)?;
            budget = budget.saturating_sub(live.into());
            garbage = garbage.saturating_sub(u64::from(SEGMENT) - u64::from(live));
            cleared.insert(victim);
            if self.shared().staged.len() >= MOST_STAGED {
                self.write_parts(writer, false)?;
            }
        }
        Ok(())
    }

    fn clear_segment(&self, writer: &mut LogWriter, segment: u32) -> io::Result<()> {
        let pages: Vec<(u32, u32)> = writer.segments.pages_in(segment).collect();
        let (Some((first, _)), Some((last, _))) = (pages.first(), pages.last()) else { return Ok(()) };
        let mut bytes = vec![0; (last - first + 1) as usize * SLOT];
        let one_by_one = |bytes: &mut [u8]| {
            pages.iter().try_for_each(|(slot, _)| {
                self.file.read(offset(*slot), &mut bytes[(slot - first) as usize * SLOT..][..SLOT])
            })
        };
        let read = if pages.len() * 8 > bytes.len() / SLOT {
            // What cannot be read may be what no longer counts.
            self.file.read(offset(*first), &mut bytes).or_else(|_| one_by_one(&mut bytes))
        } else {
            one_by_one(&mut bytes)
        };
        let mut moved = Vec::with_capacity(pages.len());
        {
            let shared = self.shared();
            for (slot, page) in &pages {
                let place = shared.place(*page);
                if shared.staged.contains_key(page) || place.slot != *slot {
                    continue;
                }
                let own = &bytes[(slot - first) as usize * SLOT..][..SLOT];
                if read.is_err() || !place.is_of(*page, own) {
                    log::error!("page {page} of the store is damaged; it stays where it is, at {}", offset(*slot));
                    writer.segments.keep(segment);
                    return Ok(());
                }
                moved.push((*page, Box::from(own)));
            }
        }
        writer.promises.note_moved(moved.len());
        self.shared_mut().staged.extend(moved);
        Ok(())
    }

    /// Makes the batch durable; what it has replaced is free then.
    pub(super) fn commit(&self, writer: &mut LogWriter) -> io::Result<()> {
        self.write_parts(writer, true)?;
        writer.failing(|| self.file.sync_data())?;
        writer.batch = Batch::Empty;
        for slot in writer.replaced.drain(..) {
            writer.segments.release(slot);
        }
        writer.segments.settle(segment_of(writer.point.slot));
        self.checkpoint_if_due(writer)
    }

    /// Recovery begins at a checkpoint, so that nothing of a record that is still needed may be before it.
    pub(super) fn checkpoint_if_due(&self, writer: &mut LogWriter) -> io::Result<()> {
        if !writer.records.is_empty() {
            return Ok(());
        }
        let usual = if writer.is_full { u64::from(SEGMENT) } else { CHECKPOINT.max(writer.segments.live() / 8) };
        let parts = writer.point.sequence - writer.superblock.point.sequence;
        if writer.slots >= writer.retry_from && (writer.slots >= usual || parts >= MOST_PARTS) {
            self.checkpoint(writer, false)?;
        }
        Ok(())
    }

    /// Writes the whole map, so that recovery begins here; only when all that was written is on disk.
    fn checkpoint(&self, writer: &mut LogWriter, is_closed: bool) -> io::Result<()> {
        // Nobody else changes the map meanwhile.
        let (pages, length) = {
            let shared = self.shared();
            (shared.map.len(), shared.length)
        };
        let needed = segments_for(map_bytes(pages).div_ceil(SLOT));
        let spare = writer.superblock.spare;
        // Further to the front is better: what is free at the end can be given back.
        let map = if let Some(run) = writer.segments.take_run(spare.count.max(needed), spare.first) {
            run
        } else if spare.count >= needed {
            spare
        } else {
            let run = self.take_run(writer, needed + needed / 4);
            let run = match run.or_else(|error| writer.segments.take_run(needed, u32::MAX).ok_or(error)) {
                Err(error) if is_full(&error) => None,
                run => Some(run?),
            };
            // Not what was promised.
            let is_there = run.is_some() && self.has_room(writer, 0, 1)?;
            match run {
                Some(run) if is_there => run,
                run => {
                    writer.segments.give_back(run.unwrap_or_default());
                    // What was written is on disk all the same; the next opening has more to follow.
                    log::warn!("there is no room for a map of the pages of the store");
                    writer.retry_from = 2 * writer.slots;
                    return Ok(());
                }
            }
        };
        let mut check = MapCheck::default();
        writer.failing(|| {
            let start = offset(slots_of(map.first).start);
            for first in (0..pages).step_by(MAP_PIECE) {
                let piece = encode_map(&self.shared().map[first..pages.min(first + MAP_PIECE)]);
                check.add(&piece);
                self.file.write(start + map_bytes(first) as u64, &piece)?;
            }
            self.file.sync_data()
        })?;
        let before = writer.superblock;
        let (point, map_check, map_pages, spare) = (writer.point, check.value(), page_number(pages)?, before.map);
        let superblock = Superblock { length, point, map, spare, map_pages, map_check, is_closed, ..before };
        self.write_superblock(writer, superblock)?;
        if map != before.spare {
            writer.segments.give_back(before.spare);
        }
        writer.segments.unpin(segment_of(point.slot));
        (writer.slots, writer.retry_from) = (0, 0);
        let kept = if is_closed { 0 } else { writer.promises.take_most() };
        match writer.segments.trim(is_closed, kept) {
            Some(left) => writer.failing(|| self.file.set_len(offset(slots_of(left).start))),
            None => Ok(()),
        }
    }

    /// Writes this as the next generation; what it leads to is on disk.
    pub(super) fn write_superblock(&self, writer: &mut LogWriter, superblock: Superblock) -> io::Result<()> {
        let superblock = Superblock { layout: LAYOUT, generation: superblock.generation + 1, ..superblock };
        writer.failing(|| {
            for slot in superblock.slots() {
                self.file.write(offset(slot), &superblock.encode())?;
            }
            self.file.sync_data()
        })?;
        writer.superblock = superblock;
        writer.note_written();
        Ok(())
    }
}

impl LogWriter {
    /// The file is written to from now on. Nothing leads back from a failure.
    fn note_written(&mut self) {
        if self.phase == Phase::Opened {
            self.phase = Phase::Written;
        }
    }

    /// After an error of this work nothing more is written.
    pub(super) fn failing<T>(&mut self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let done = work();
        if let Err(error) = &done {
            self.phase = Phase::Failed;
            self.is_full |= is_full(error);
        }
        done
    }

    pub(super) fn check(&self) -> io::Result<()> {
        match self.phase {
            Phase::Opened | Phase::Written => Ok(()),
            Phase::Failed | Phase::Closed => Err(io::Error::other("writing to the store has failed before")),
        }
    }
}

impl Shared {
    pub(super) fn place(&self, page: u32) -> Place {
        self.map.get(page as usize).copied().unwrap_or_default()
    }

    pub(super) fn set_length(&mut self, length: u64) {
        self.length = length;
        self.version = Version::new();
        resize(&mut self.map, length);
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
            log::error!("page {first} of the store is damaged, at {} of the file", offset(shared.place(first).slot));
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
        self.sync_found(&mut writer)?;
        if writer.batch == Batch::Empty {
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
        // What was not synced was not meant to stay.
        if writer.phase == Phase::Written && writer.batch == Batch::Empty && writer.records.is_empty() {
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

/// Keeps other processes from opening a file, until it is closed.
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

/// How many slots a part here can have beside its head.
pub(super) fn room_at(point: Point) -> usize {
    MOST_PAGES.min((slots_of(segment_of(point.slot)).end - point.slot - 1) as usize)
}

/// The page that a byte is in.
pub(super) fn page_of(at: u64) -> io::Result<u32> {
    u32::try_from(at / SLOT as u64).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

pub(super) fn page_number(count: usize) -> io::Result<u32> {
    u32::try_from(count).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

pub(super) fn damaged(page: u32) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("page {page} of the store is not what was written"))
}
