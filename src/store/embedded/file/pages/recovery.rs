//! Reads where the pages are: the map of the newest superblock, and the chain of parts after it.
//!
//! Recovery writes nothing. The chain may end with a batch or a record that is not complete, or that lacks slots. It was
//! never acknowledged, because the sync after it did not return. The log ends before it.
//!
//! Only the last one can be incomplete. Whatever is complete is on disk before the next batch or record begins. A process
//! that opens the file syncs what it found before it writes.
//!
//! Parts of a batch may follow a record whose sync has not returned: readers have redb write pages meanwhile. Such
//! parts prove nothing about the record before them.

use std::collections::BTreeSet;
use std::io;

use redb::StorageBackend;

use super::layout::{
    Content, Found, Head, MAP_PIECE, MapCheck, Place, Point, Record, SLOT, SUPERBLOCKS, Superblock, decode_map,
    map_bytes, offset,
};
use super::segments::{segment_of, segments_in, slots_of};

/// A log as a file has it.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) length: u64,
    pub(super) map: Vec<Place>,
    /// The segments that the chain is in.
    pub(super) pinned: BTreeSet<u32>,
    /// Where the log continues.
    pub(super) point: Point,
    /// How many slots the chain has.
    pub(super) slots: u64,
    /// How many segments there is room for in the file.
    pub(super) segments: u32,
    /// The newest superblock.
    pub(super) superblock: Superblock,
    /// The records of the chain, in its order.
    pub(super) records: Vec<Record>,
    /// The end of the chain.
    pub(super) end: End,
}

/// Heads, with their slots, that the last sync may not have made durable. Empty where later parts prove that it has.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The parts since what was complete before. Some may be of a batch that was given up: then only their heads count.
    pub(super) passed: Vec<(Head, u32)>,
    /// The parts of the last batch or record, which may have begun before that.
    pub(super) parts: Vec<(Head, u32)>,
}

/// Reads the log; `None` when the file is none.
pub(super) fn recover(file: &dyn StorageBackend) -> Result<Option<Recovered>, Unopened> {
    let Some(superblock) = newest_superblock(file)? else { return Ok(None) };
    let map = read_map(file, &superblock)?;
    let mut log = Recovered {
        length: superblock.length,
        map,
        pinned: BTreeSet::new(),
        point: superblock.point,
        slots: 0,
        segments: segments_in(file.len().map_err(Unopened::Io)?),
        superblock,
        records: Vec::new(),
        end: End::default(),
    };
    follow(file, &mut log)?;
    Ok(Some(log))
}

fn newest_superblock(file: &dyn StorageBackend) -> Result<Option<Superblock>, Unopened> {
    let (mut newest, mut newer, mut is_log): (Option<Superblock>, _, _) = (None, None, false);
    let mut bytes = vec![0; SLOT];
    for slot in 0..SUPERBLOCKS {
        if !read_slot(file, slot, &mut bytes)? {
            continue;
        }
        match Superblock::decode(&bytes) {
            Found::Nothing => {}
            Found::Damaged => is_log = true,
            Found::Newer { generation, layout } => newer = newer.max(Some((generation, layout))),
            Found::Superblock(found) => {
                if newest.is_none_or(|newest| newest.generation < found.generation) {
                    newest = Some(found);
                }
            }
        }
    }
    match (newest, newer) {
        (newest, Some((generation, layout))) if newest.is_none_or(|newest| newest.generation < generation) => {
            Err(Unopened::Newer(layout))
        }
        (None, _) if is_log => Err(Unopened::Damaged("nothing of what it begins with is whole".to_owned())),
        (newest, _) => Ok(newest),
    }
}

/// Whether the file has this slot.
fn read_slot(file: &dyn StorageBackend, slot: u32, bytes: &mut [u8]) -> Result<bool, Unopened> {
    match file.read(offset(slot), bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Unopened::Io(error)),
    }
}

fn read_map(file: &dyn StorageBackend, superblock: &Superblock) -> Result<Vec<Place>, Unopened> {
    let damaged = || Unopened::Damaged("the map of its pages is not what was written".to_owned());
    let (pages, start) = (superblock.map_pages as usize, offset(slots_of(superblock.map.first).start));
    if pages > 0 && start + map_bytes(pages) as u64 > file.len().map_err(Unopened::Io)? {
        return Err(damaged());
    }
    let (mut map, mut check) = (Vec::with_capacity(pages), MapCheck::default());
    for first in (0..pages).step_by(MAP_PIECE) {
        let mut piece = vec![0; map_bytes(MAP_PIECE.min(pages - first))];
        file.read(start + map_bytes(first) as u64, &mut piece).map_err(Unopened::Io)?;
        check.add(&piece);
        map.extend(decode_map(&piece));
    }
    if check.value() == superblock.map_check { Ok(map) } else { Err(damaged()) }
}

/// A batch or a record that was read as a whole, and where the log continues after it.
struct Complete {
    end: End,
    next: Point,
}

/// Follows the chain as far as it is whole.
fn follow(file: &dyn StorageBackend, log: &mut Recovered) -> Result<(), Unopened> {
    let mut at = log.point;
    let mut bytes = vec![0; SLOT];
    let (mut batch, mut record, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    let mut complete: Option<Complete> = None;
    while at.slot >= SUPERBLOCKS && read_slot(file, at.slot, &mut bytes)? {
        let Some((head, check)) = Head::decode(&bytes, log.superblock.identity, at) else { break };
        if let Some(proven) = complete.take_if(|complete| complete.is_on_disk_before(&head)) {
            log.apply(proven);
        }
        let (parts, begins) = match head.content {
            Content::Pages { is_first, .. } => (&mut batch, is_first),
            Content::Record { .. } => (&mut record, head.pages.first().is_some_and(|(number, _)| *number == 0)),
        };
        if begins {
            // What a process left that did not come to its end.
            parts.clear();
        }
        let is_last = head.is_last;
        let next = Point { sequence: at.sequence + 1, parent: check, slot: head.next };
        passed.push((head.clone(), at.slot));
        parts.push((head, at.slot));
        if is_last {
            let end = End { passed: std::mem::take(&mut passed), parts: std::mem::take(parts) };
            complete = Some(Complete { end, next });
        }
        at = next;
    }
    if let Some(complete) = complete
        && complete.is_whole(file, &mut bytes)?
    {
        log.end = log.apply(complete);
    }
    Ok(())
}

impl Complete {
    /// Whether a part with this head is written only when this is on disk.
    fn is_on_disk_before(&self, head: &Head) -> bool {
        let is_record = |head: &Head| matches!(head.content, Content::Record { .. });
        head.is_last || is_record(head) || !self.end.parts.first().is_some_and(|(own, _)| is_record(own))
    }

    /// Whether all its slots are there.
    fn is_whole(&self, file: &dyn StorageBackend, bytes: &mut [u8]) -> Result<bool, Unopened> {
        for (head, slot) in &self.end.parts {
            for ((page, check), slot) in head.pages.iter().zip(slot + 1..) {
                if !read_slot(file, slot, bytes)? || !(Place { slot, check: *check }).is_of(*page, bytes) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Recovered {
    fn apply(&mut self, Complete { end, next }: Complete) -> End {
        for (head, slot) in &end.passed {
            self.pinned.insert(segment_of(*slot));
            self.slots += 1 + head.pages.len() as u64;
        }
        self.point = next;
        if let Some((Head { content: Content::Record { number, bytes }, .. }, _)) = end.parts.first() {
            self.records.push(Record::of(*number, *bytes, &end.parts));
        }
        for (head, slot) in &end.parts {
            let Content::Pages { length, floor, .. } = head.content else { continue };
            resize(&mut self.map, floor.min(self.length));
            resize(&mut self.map, length);
            for ((page, check), slot) in head.pages.iter().zip(slot + 1..) {
                if let Some(place) = self.map.get_mut(*page as usize) {
                    *place = Place { slot, check: *check };
                }
            }
            self.length = length;
        }
        end
    }
}

/// Gives a map this length in bytes; new bytes are zero.
pub(super) fn resize(map: &mut Vec<Place>, length: u64) {
    map.resize(usize::try_from(length.div_ceil(SLOT as u64)).unwrap_or(usize::MAX), Place::default());
}

/// Why a file could not be read as a log.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// Another process has it open.
    InUse,
    /// Nothing can keep others from opening it.
    NoLocks,
    /// A newer version wrote it.
    Newer(u32),
    Damaged(String),
    Io(io::Error),
}
