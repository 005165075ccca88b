//! Records: what is durable at once, and in the pages later.
//!
//! Making a few documents durable by their pages costs many pages, scattered over tables and indexes, each time. So whoever
//! writes may append what changed as a record, which is on disk when [`Log::append`] returns, and have the pages follow in
//! larger batches. Until then recovery finds the record in the chain, behind the pages.
//!
//! *Invariant:* no checkpoint is written while there is a record that has not been [released](Log::release).

use std::io;

use super::layout::{Content, Head, Place, SEGMENT, SLOT, offset};
use super::segments::{RESERVE, segment_of};
use super::{Log, Writer, is_full, page_number, room_at};

/// Where a record is.
#[derive(Debug)]
pub(super) struct Record {
    number: u64,
    bytes: u64,
    places: Vec<Place>,
}

impl Record {
    /// The one that these parts hold.
    pub(super) fn of(number: u64, bytes: u64, parts: &[(Head, u32)]) -> Self {
        let places = parts.iter().flat_map(|(head, slot)| {
            head.pages.iter().zip(slot + 1..).map(|((_, check), slot)| Place { slot, check: *check })
        });
        Self { number, bytes, places: places.collect() }
    }
}

fn held_slots(writer: &Writer) -> usize {
    writer.records.iter().map(|record| record.places.len()).sum()
}

impl Writer {
    /// How many pages followed these slots of records.
    fn learn(&mut self, slots: usize) {
        let pages = std::mem::take(&mut self.followed);
        if let Some(now) = pages.saturating_mul(16 + 4).checked_div(slots) {
            // What was needed lately may be needed again.
            let before = self.pages_for_16_slots - self.pages_for_16_slots / 8;
            self.pages_for_16_slots = u32::try_from(now).unwrap_or(u32::MAX).max(before);
        }
    }
}

impl Log {
    /// Appends a record, and returns when it is on disk. `false` where there is no room for it and for the pages that are to follow:
    /// then nothing was written.
    ///
    /// # Errors
    /// Writing failed; nothing more is written then until the log is opened again.
    pub(in super::super) fn append(&self, number: u64, record: &[u8]) -> io::Result<bool> {
        let mut writer = self.writer();
        writer.check()?;
        let slots = record.len().div_ceil(SLOT);
        if !self.has_room_for(&mut writer, slots)? {
            return Ok(false);
        }
        self.begin_writing(&mut writer)?;
        let content = Content::Record { number, bytes: record.len() as u64 };
        let mut places = Vec::with_capacity(slots);
        let mut rest = record;
        while !rest.is_empty() {
            let slot = writer.point.slot;
            let (now, later) = rest.split_at(rest.len().min(room_at(writer.point) * SLOT));
            rest = later;
            let mut buffer = std::mem::take(&mut writer.buffer);
            buffer.resize(SLOT, 0);
            buffer.extend_from_slice(now);
            buffer.resize(buffer.len().next_multiple_of(SLOT), 0);
            let mut pages = Vec::new();
            for (piece, slot) in buffer[SLOT..].chunks_exact(SLOT).zip(slot + 1..) {
                let place = Place::of(slot, page_number(places.len())?, piece);
                pages.push((page_number(places.len())?, place.check));
                places.push(place);
            }
            let next = self.next_part(&mut writer, pages.len())?;
            self.put_part(&mut writer, buffer, content, pages, next, rest.is_empty())?;
            writer.segments.pin(segment_of(slot));
        }
        writer.failing(|| self.file.sync_data())?;
        writer.records.push(Record { number, bytes: record.len() as u64, places });
        Ok(true)
    }

    /// Makes sure that the pages can follow, should the disk be full by then.
    fn has_room_for(&self, writer: &mut Writer, slots: usize) -> io::Result<bool> {
        let held = (held_slots(writer) + slots) as u64;
        let batch = (slots as u64 + held * u64::from(writer.pages_for_16_slots) / 16).div_ceil(u64::from(SEGMENT));
        let segments = usize::try_from(batch).unwrap_or(usize::MAX).saturating_add(2);
        let growth = 2 * held + RESERVE as u64 * u64::from(SEGMENT);
        while writer.segments.unused() < growth || !writer.segments.has_beside_reserve(segments) {
            if writer.is_full {
                return Ok(false);
            }
            match self.add_segment(writer) {
                Err(error) if is_full(&error) => return Ok(false),
                added => added?,
            }
        }
        Ok(true)
    }

    /// The records with larger numbers than this one, in the order in which they were appended.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when one is not what was written.
    pub(in super::super) fn records_after(&self, number: u64) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let writer = self.writer();
        let wanted = writer.records.iter().filter(|record| record.number > number);
        wanted.map(|record| Ok((record.number, self.read_record(record)?))).collect()
    }

    fn read_record(&self, record: &Record) -> io::Result<Vec<u8>> {
        let damaged = || io::Error::new(io::ErrorKind::UnexpectedEof, "a write in the log is not what was written");
        let mut bytes = vec![0; record.places.len() * SLOT];
        for ((number, place), piece) in (0..).zip(&record.places).zip(bytes.chunks_exact_mut(SLOT)) {
            self.file.read(offset(place.slot), piece)?;
            if !place.is_of(number, piece) {
                return Err(damaged());
            }
        }
        let length = usize::try_from(record.bytes).ok().filter(|length| *length <= bytes.len()).ok_or_else(damaged)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// The pages that are on disk say all that records up to this number say.
    ///
    /// # Errors
    /// Writing a checkpoint failed that had waited for this.
    pub(in super::super) fn release(&self, number: u64) -> io::Result<()> {
        let mut writer = self.writer();
        let held = held_slots(&writer);
        writer.records.retain(|record| record.number > number);
        if writer.records.is_empty() {
            writer.learn(held);
        }
        if !writer.has_written || writer.is_changed || !writer.records.is_empty() {
            return Ok(());
        }
        writer.check()?;
        self.checkpoint_if_due(&mut writer)?;
        self.win_room(&mut writer)
    }
}
