//! Records: changes that are durable at once, and in the pages later.
//!
//! A few documents change pages of several tables and indexes, all over the file. Writing these pages for each commit
//! costs many times the size of the documents. So the writer appends the changes as a record. A record is on disk when
//! [`Log::append`] returns. The pages follow later, in larger batches. Until then recovery finds the record in the chain.
//!
//! This module does not know what a record says. [The journal](crate::store::embedded::write::journal) describes the
//! entries. When they change, the number of the log's layout rises.
//!
//! *Invariants:*
//! - No checkpoint is written while there is a record that has not been [released](Log::release).
//! - Pages have [reserved](Log::promise) room before they change. So the pages that follow a record fit into segments
//!   that the file has already, even on a full disk.

use std::io;

use super::layout::{Content, Place, Record, SLOT, offset};
use super::log::{Log, page_number};
use super::log_writer::Phase;
use super::parts::room_at;
use super::segments::{RESERVE, segment_of};

impl Log {
    /// Appends a record, and returns when it is on disk. `false` where there is no room for it in addition to the pages that
    /// are to follow: then nothing was written.
    ///
    /// # Errors
    /// Writing failed; nothing more is written then until the log is opened again.
    pub(crate) fn append(&self, number: u64, record: &[u8]) -> io::Result<bool> {
        let mut writer = self.writer();
        writer.check()?;
        let slots = record.len().div_ceil(SLOT);
        if !self.has_room(&mut writer, slots as u64, RESERVE)? {
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
        // Readers may have redb write a page meanwhile, and are not to wait for the disk.
        drop(writer);
        let synced = self.file.sync_data();
        let mut writer = self.writer();
        writer.failing(|| synced)?;
        writer.records.push(Record { number, bytes: record.len() as u64, places });
        Ok(true)
    }

    /// Whether there was no room for another segment.
    pub(crate) fn is_full(&self) -> bool {
        self.writer().is_full
    }

    /// The records with larger numbers than this one, in the order in which they were appended.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when one is not what was written.
    pub(crate) fn records_after(&self, number: u64) -> io::Result<Vec<(u64, Vec<u8>)>> {
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

    /// The pages on disk contain everything in the records up to this number.
    ///
    /// # Errors
    /// Writing a checkpoint failed that had waited for this.
    pub(crate) fn release(&self, number: u64) -> io::Result<()> {
        let mut writer = self.writer();
        writer.records.retain(|record| record.number > number);
        writer.promises.end();
        writer.check()?;
        if writer.phase != Phase::Written || writer.batch.is_begun() || self.shared().length != writer.floor {
            return Ok(());
        }
        // Pages that are only staged are in no map.
        self.checkpoint_if_due(&mut writer)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use redb::StorageBackend;
    use redb::backends::FileBackend;

    use super::super::backend::{Opened, Pages};
    use super::super::layout::{Found, LAYOUT, SUPERBLOCKS, Superblock};
    use super::*;

    fn file(path: &Path) -> Box<dyn StorageBackend> {
        let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        Box::new(FileBackend::new(file.expect("a file")).expect("nobody has it"))
    }

    fn opened(path: &Path) -> Pages {
        match Pages::open(file(path)).expect("it is sound") {
            Opened::Log(log) => log,
            Opened::Plain(_) => panic!("it is a log"),
        }
    }

    fn superblocks(path: &Path) -> Vec<(u32, Superblock)> {
        let file = file(path);
        let mut bytes = vec![0; SLOT];
        let read = |slot| {
            file.read(offset(slot), &mut bytes).expect("it is there");
            match Superblock::decode(&bytes) {
                Found::Superblock(found) => Some((slot, found)),
                _ => None,
            }
        };
        (0..SUPERBLOCKS).filter_map(read).collect()
    }

    #[test]
    fn a_log_of_the_layout_before_records_is_of_this_one_when_it_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let log = Pages::create(file(&path)).expect("a new log");
        log.write(0, &[7; 3 * SLOT]).expect("it is written");
        log.sync_data().expect("it is synced");
        log.close().expect("it is closed");
        drop(log);
        for (slot, found) in superblocks(&path) {
            let bytes = Superblock { layout: 1, ..found }.encode();
            file(&path).write(offset(slot), &bytes).expect("it is written");
        }
        assert!(superblocks(&path).iter().all(|(_, found)| found.layout == 1));
        let log = opened(&path);
        assert!(log.append(1, b"a record").expect("it is written"));
        drop(log);
        let newest = superblocks(&path).into_iter().max_by_key(|(_, found)| found.generation);
        assert_eq!(newest.map(|(_, found)| found.layout), Some(LAYOUT));
        let log = opened(&path);
        assert_eq!(log.records_after(0).expect("it is sound"), [(1, b"a record".to_vec())]);
        let mut page = vec![0; SLOT];
        log.read(SLOT as u64, &mut page).expect("it is there");
        assert_eq!(page, [7; SLOT]);
    }

    #[test]
    fn much_that_is_written_beside_a_few_records_keeps_little_more_room_free() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let log = Pages::create(file(&path)).expect("a new log");
        let mut lengths = Vec::new();
        for number in 1..40 {
            assert!(log.append(number, &[1; 5_000]).expect("it is written"));
            if number % 4 == 0 {
                // As a large import does.
                log.write(0, &vec![2; 4_000 * SLOT]).expect("it is written");
                log.sync_data().expect("it is synced");
                log.release(number).expect("it is written");
            }
            lengths.push(std::fs::metadata(&path).expect("it is there").len() >> 20);
        }
        // What counts is 16 MiB, a batch as much, and what was cleared for it.
        assert!(lengths.iter().all(|length| *length < 80), "{lengths:?}");
    }
}
