//! Syncs: a batch becomes durable, and from time to time a checkpoint follows.
//!
//! A checkpoint is written in this order: the page map into free segments, a sync, both copies of the superblock, a sync.

use std::io;

use super::layout::{LAYOUT, MAP_PIECE, MapCheck, Run, SEGMENT, SLOT, Superblock, encode_map, map_bytes, offset};
use super::log::{Log, page_number};
use super::log_writer::{LogWriter, PageBatch, is_full};
#[cfg(test)]
use super::segments::segments_in;
use super::segments::{segment_of, segments_for, slots_of};

/// The minimum number of slots written between two checkpoints.
const CHECKPOINT: u64 = 512;
/// The maximum number of parts written between two checkpoints: opening follows them one by one.
const MOST_PARTS: u64 = 16_384;

impl Log {
    /// Completes the batch and makes it durable. The slots that it has replaced are free then.
    pub(super) fn commit(&self, writer: &mut LogWriter) -> io::Result<()> {
        self.write_parts(writer, true)?;
        writer.failing(|| self.file.sync_data())?;
        writer.batch = PageBatch::Empty;
        for slot in writer.replaced.drain(..) {
            writer.segments.release(slot);
        }
        writer.segments.settle(segment_of(writer.point.slot));
        self.checkpoint_if_due(writer)
    }

    /// Writes a checkpoint where one is due. Recovery begins there, so a record that is still needed forbids it.
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

    /// Writes the page map as a whole, so that recovery begins here. All that was written has to be on disk before: what this process
    /// has written is synced by its callers, and what it found is rewritten here.
    pub(super) fn checkpoint(&self, writer: &mut LogWriter, is_closed: bool) -> io::Result<()> {
        self.rewrite_end(writer)?;
        // Nobody else changes the map meanwhile.
        let (pages, length) = {
            let shared = self.shared();
            (shared.map.len(), shared.length)
        };
        let Some(map) = self.room_for_map(writer, pages)? else {
            // What was written is on disk all the same; the next opening has more to follow.
            log::warn!("there is no room for a map of the pages of the store");
            writer.retry_from = 2 * writer.slots;
            return Ok(());
        };
        let check = self.write_map(writer, map, pages)?;
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

    /// Segments for a map of this number of pages; `None` when the disk is full.
    fn room_for_map(&self, writer: &mut LogWriter, pages: usize) -> io::Result<Option<Run>> {
        let needed = segments_for(map_bytes(pages).div_ceil(SLOT));
        let spare = writer.superblock.spare;
        // Further to the front is better: what is free at the end can be given back.
        if let Some(run) = writer.segments.take_run(spare.count.max(needed), spare.first) {
            return Ok(Some(run));
        }
        if spare.count >= needed {
            return Ok(Some(spare));
        }
        let run = self.take_run(writer, needed + needed / 4);
        let run = match run.or_else(|error| writer.segments.take_run(needed, u32::MAX).ok_or(error)) {
            Err(error) if is_full(&error) => return Ok(None),
            run => run?,
        };
        // Not the room that was promised.
        if self.has_room(writer, 0, 1)? {
            return Ok(Some(run));
        }
        writer.segments.give_back(run);
        Ok(None)
    }

    /// Writes the map of this number of pages and syncs it.
    fn write_map(&self, writer: &mut LogWriter, map: Run, pages: usize) -> io::Result<MapCheck> {
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
        Ok(check)
    }

    /// Writes the next generation of the superblock. What it leads to has to be on disk before.
    pub(super) fn write_superblock(&self, writer: &mut LogWriter, superblock: Superblock) -> io::Result<()> {
        debug_assert!(writer.end_in_doubt.is_none(), "the end of the log that was found may not be on disk");
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

#[cfg(test)]
impl Log {
    /// Makes the file as long as that of a large store. The new part is a hole, which the log keeps for a map.
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
