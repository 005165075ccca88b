//! Parts: how a batch gets into the file.
//!
//! Each part names the slot of the next one in its head. So the place of the next part is chosen before a part is written.

use std::io;

use super::layout::{Content, Head, MOST_PAGES, Place, Point, Run, SEGMENT, SLOT, offset};
use super::log::{Log, page_number};
use super::log_writer::{LogWriter, is_full};
use super::segments::{RESERVE, segment_of, slots_of};

/// More segments would not have numbers for their slots.
const MOST_SEGMENTS: u32 = u32::MAX / SEGMENT - 1;

impl Log {
    /// Writes all staged pages as parts. With `is_last` the batch is complete then.
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

    /// The slot of the part after one of this number of pages.
    pub(super) fn next_part(&self, writer: &mut LogWriter, pages: usize) -> io::Result<u32> {
        let behind = writer.point.slot + 1 + page_number(pages)?;
        let end = slots_of(segment_of(writer.point.slot)).end;
        // A part needs room for its head and a page.
        if end - behind >= 2 { Ok(behind) } else { self.next_segment(writer) }
    }

    /// Takes a free segment for parts, and returns its first slot. Makes the file longer first where few segments are free.
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

    /// Makes the file one segment longer, and notes whether the disk is full.
    pub(super) fn add_segment(&self, writer: &mut LogWriter) -> io::Result<()> {
        let added = self.fill(writer.segments.count());
        writer.is_full = added.as_ref().is_err_and(is_full);
        added?;
        writer.segments.add();
        Ok(())
    }

    /// Fills a new segment with zeros: when the disk is full that fails, and writing to the segment later does not.
    pub(super) fn fill(&self, segment: u32) -> io::Result<()> {
        if segment >= MOST_SEGMENTS {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let slots = slots_of(segment);
        self.file.write(offset(slots.start), &vec![0; slots.len() * SLOT])
    }

    /// Takes neighbouring segments for a map. Makes the file longer until there are enough.
    pub(super) fn take_run(&self, writer: &mut LogWriter, count: u32) -> io::Result<Run> {
        loop {
            if let Some(run) = writer.segments.take_run(count, u32::MAX) {
                return Ok(run);
            }
            self.add_segment(writer)?;
        }
    }

    /// Writes these staged pages as a part; from then on the map leads there.
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
        drop(shared);
        writer.segments.place(slot + 1, numbers.iter().copied());
        writer.batch.add_part(numbers.len());
        writer.promises.note_written(numbers.len());
        writer.floor = length;
        Ok(())
    }

    /// Writes the bytes of a part, and moves the point past it. Its slots are in the buffer, after one for its head.
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
}

/// The maximum number of slots that a part at this point can have in addition to its head.
pub(super) fn room_at(point: Point) -> usize {
    MOST_PAGES.min((slots_of(segment_of(point.slot)).end - point.slot - 1) as usize)
}
