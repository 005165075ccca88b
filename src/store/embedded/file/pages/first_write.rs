//! What precedes the first write to a log that was opened: its end becomes durable, and its superblock says that it is open.

use std::io;

use super::layout::{Head, LAYOUT, Place, SLOT, Superblock, offset};
use super::log::Log;
use super::log_writer::LogWriter;
use super::recovery::End;

impl Log {
    /// Precedes each part: makes the file one that is being written to, by this version.
    pub(super) fn begin_writing(&self, writer: &mut LogWriter) -> io::Result<()> {
        self.rewrite_end(writer)?;
        writer.note_written();
        if writer.superblock.is_closed || writer.superblock.layout < LAYOUT {
            self.write_superblock(writer, Superblock { is_closed: false, ..writer.superblock })?;
        }
        Ok(())
    }

    /// Makes the end of the log durable, once after opening. It may be in the operating system's memory alone. After a sync that failed,
    /// pages there may count as written that are not: to sync them again proves nothing. Only the newest superblock and the end of
    /// the chain can be such, as nothing is completed after a sync that failed. So these are written again, and synced.
    pub(super) fn rewrite_end(&self, writer: &mut LogWriter) -> io::Result<()> {
        let Some(End { passed, parts }) = writer.end_in_doubt.take() else { return Ok(()) };
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

    /// Writes the head in a slot again, with these pages after it.
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
}
