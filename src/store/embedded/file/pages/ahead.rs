//! Reading ahead for a reader of many pages in the order of their keys.
//!
//! Such pages were mostly written one after the other, and lie near each other in the file. A call of the operating
//! system for each page takes longer than copying it. So one call reads a chunk of the file, and the next pages come
//! from this chunk.
//!
//! *Invariant:* a chunk is used only while the map is the one of its reading. Nothing is written to a slot that the map
//! leads to.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::StorageBackend;

use super::layout::{SLOT, offset};

/// How many slots a piece has.
const PIECE: u32 = 16;
/// How many pieces a thread keeps: between pages of one table lie those of others.
const KEPT: usize = 8;
/// After so many pieces it is judged whether they are worth reading.
const JUDGED: u32 = 32;
/// They are when each gives so many pages.
const WORTH: u32 = 3;
/// So many pages are read one by one when they are not, before it is tried again.
const PAUSE: u32 = 2048;

thread_local! {
    static AHEAD: RefCell<Option<Ahead>> = const { RefCell::new(None) };
}

/// A state of a map, of all maps of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    /// One that there was not before.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Does some work for which this thread reads many pages in the order of their keys.
pub(crate) fn reading_ahead<T>(work: impl FnOnce() -> T) -> T {
    /// Ends it however the work ends.
    struct Ends(Option<Ahead>);
    impl Drop for Ends {
        fn drop(&mut self) {
            AHEAD.set(self.0.take());
        }
    }
    let _ends = Ends(AHEAD.replace(Some(Ahead::default())));
    work()
}

/// Reads a page that the map leads to in this version.
pub(super) fn read(file: &dyn StorageBackend, version: Version, slot: u32, out: &mut [u8]) -> io::Result<()> {
    AHEAD.with_borrow_mut(|ahead| match ahead {
        Some(ahead) if out.len() == SLOT => ahead.read(file, version, slot, out),
        _ => file.read(offset(slot), out),
    })
}

/// What a thread has read ahead.
#[derive(Default)]
struct Ahead {
    /// The one that was used last comes last.
    pieces: Vec<Piece>,
    /// How many were read since they were last judged, and how many pages they gave.
    tried: u32,
    given: u32,
    /// How many pages are still read one by one.
    pause: u32,
}

struct Piece {
    version: Version,
    first: u32,
    bytes: Vec<u8>,
}

impl Ahead {
    fn read(&mut self, file: &dyn StorageBackend, version: Version, slot: u32, out: &mut [u8]) -> io::Result<()> {
        let first = slot - slot % PIECE;
        let place = (slot - first) as usize * SLOT;
        let known = self.pieces.iter().rposition(|piece| piece.first == first && piece.version == version);
        if let Some(known) = known {
            self.given += 1;
            out.copy_from_slice(&self.pieces[known].bytes[place..place + SLOT]);
            self.pieces[known..].rotate_left(1);
            return Ok(());
        }
        if self.pause > 0 {
            self.pause -= 1;
            return file.read(offset(slot), out);
        }
        let kept = if self.pieces.len() < KEPT { None } else { Some(self.pieces.remove(0)) };
        let mut bytes = kept.map_or_else(|| vec![0; PIECE as usize * SLOT], |piece| piece.bytes);
        if file.read(offset(first), &mut bytes).is_err() {
            // It may be the end of the file, or a place in the piece that nobody asked for.
            return file.read(offset(slot), out);
        }
        out.copy_from_slice(&bytes[place..place + SLOT]);
        self.pieces.push(Piece { version, first, bytes });
        self.judge();
        Ok(())
    }

    fn judge(&mut self) {
        self.tried += 1;
        self.given += 1;
        if self.tried == JUDGED {
            if self.given < JUDGED * WORTH {
                self.pause = PAUSE;
            }
            (self.tried, self.given) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    /// 100 slots, each filled with its number.
    fn file() -> InMemoryBackend {
        let file = InMemoryBackend::new();
        file.set_len(100 * SLOT as u64).expect("there is memory");
        (0..100_u8).for_each(|slot| fill(&file, slot, slot));
        file
    }

    fn fill(file: &InMemoryBackend, slot: u8, byte: u8) {
        file.write(offset(slot.into()), &[byte; SLOT]).expect("it is in the file");
    }

    fn byte(file: &InMemoryBackend, version: Version, slot: u8) -> u8 {
        let mut out = [0; SLOT];
        read(file, version, slot.into(), &mut out).expect("it is in the file");
        assert_eq!(out, [out[0]; SLOT]);
        out[0]
    }

    #[test]
    fn what_is_read_ahead_is_used_until_the_map_changes() {
        let (file, version) = (file(), Version::new());
        reading_ahead(|| {
            assert_eq!(
                (33..40).map(|slot| byte(&file, version, slot)).collect::<Vec<_>>(),
                (33..40).collect::<Vec<_>>()
            );
            fill(&file, 35, 200);
            assert_eq!(byte(&file, version, 35), 35, "the map of this version leads to what was there");
            assert_eq!(byte(&file, Version::new(), 35), 200);
        });
        assert_eq!(byte(&file, version, 35), 200, "nothing is kept behind the work");
    }

    #[test]
    fn the_last_slots_of_a_file_are_read_though_there_is_no_whole_piece() {
        let (file, version) = (file(), Version::new());
        reading_ahead(|| assert_eq!(byte(&file, version, 99), 99));
        let mut out = [0; SLOT];
        reading_ahead(|| read(&file, version, 100, &mut out)).expect_err("it is behind the file");
    }

    #[test]
    fn pages_far_from_each_other_are_soon_read_one_by_one() {
        let (file, version) = (file(), Version::new());
        reading_ahead(|| {
            for turn in 0..200_u32 {
                byte(
                    &file,
                    if turn % 6 == 0 { Version::new() } else { version },
                    u8::try_from(turn * 16 % 96).expect("it is small"),
                );
                let pieces = AHEAD.with_borrow(|ahead| ahead.as_ref().map_or(0, |ahead| ahead.pieces.len()));
                assert!(pieces <= KEPT);
            }
        });
        let mut ahead = Ahead::default();
        for turn in 0..JUDGED {
            let mut out = [0; SLOT];
            ahead.read(&file, Version::new(), turn % 90, &mut out).expect("it is in the file");
        }
        assert_eq!(ahead.pause, PAUSE);
    }
}
