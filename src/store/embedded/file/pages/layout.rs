//! What the file holds, byte by byte. All numbers are little endian.
//!
//! The file is a row of slots of 4 KiB. Four slots at its beginning are for superblocks; segments of 1 MiB each follow.
//!
//! A *superblock* says where a whole map of the pages is, and where the chain of parts continues from there. There are two
//! generations, each in two copies: the newer one that is sound counts.
//!
//! A *part* is a slot with a head, followed by up to 255 pages in the same segment. Its head names the pages and their
//! checksums, and says where the next part is. It also has the checksum of the head before it, so the parts are a chain.
//!
//! A *batch* is the parts between two syncs of the pages. Its last part says that the batch is complete.
//!
//! A *record* is bytes that are not pages, in parts of their own. Its last part says that it is complete. A record may be
//! between the parts of a batch.
//!
//! | layout | what is different |
//! |---|---|
//! | 1 | there are no records, and a part does not say whether it is the first of its batch |
//! | 2 | as above |

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// How many bytes a page has, and a slot.
pub(super) const SLOT: usize = crate::store::embedded::file::storage::BLOCK;
/// How many slots a segment has.
pub(super) const SEGMENT: u32 = 256;
/// How many slots superblocks have, before the first segment.
pub(super) const SUPERBLOCKS: u32 = 4;
/// The maximum number of pages in a part.
pub(super) const MOST_PAGES: usize = SEGMENT as usize - 1;
/// The version of all this that this build writes. It reads older ones too.
pub(crate) const LAYOUT: u32 = 2;

const SUPERBLOCK_BEGINS: [u8; 8] = *b"invpages";
const PART_BEGINS: [u8; 8] = *b"invparts";
/// How much of the head of a part comes before the pages.
const FIXED: usize = 80;
/// How much of a part's head one page takes.
const ENTRY: usize = 8;

/// The identity that distinguishes a file from every other one: what an old file left on the disk is not taken for a part of
/// this one.
pub(super) type Identity = u128;

/// Where a page is, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// 0: the page was never written, it is all zeros.
    pub(super) slot: u32,
    pub(super) check: u32,
}

impl Place {
    pub(super) fn of(slot: u32, page: u32, bytes: &[u8]) -> Self {
        Self { slot, check: check(page, bytes) }
    }

    /// Whether these are the bytes that were written.
    pub(super) fn is_of(self, page: u32, bytes: &[u8]) -> bool {
        self.check == check(page, bytes)
    }
}

/// The checksum of a page, which is not that of the same bytes on another page.
fn check(page: u32, bytes: &[u8]) -> u32 {
    let [a, b, c, d, ..] = xxh3_64_with_seed(bytes, u64::from(page)).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Where a slot begins, in bytes.
pub(super) fn offset(slot: u32) -> u64 {
    u64::from(slot) * SLOT as u64
}

/// A moment of the log from which it can be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    /// The number of the next part.
    pub(super) sequence: u64,
    /// The checksum of the head of the part before.
    pub(super) parent: u64,
    /// Where the next part begins.
    pub(super) slot: u32,
}

/// Consecutive segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) layout: u32,
    pub(super) generation: u64,
    pub(super) identity: Identity,
    /// The length that the log is read with, in bytes.
    pub(super) length: u64,
    pub(super) point: Point,
    /// Where the map is.
    pub(super) map: Run,
    /// Where the one before is, and the next one will be.
    pub(super) spare: Run,
    /// How many pages the map has.
    pub(super) map_pages: u32,
    pub(super) map_check: u64,
    /// Whether the log was closed here: then nothing was ever acknowledged after it.
    pub(super) is_closed: bool,
}

/// What a slot of a superblock holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// Something that begins as a superblock and is none.
    Damaged,
    /// A superblock of a layout that this build does not know.
    Newer {
        generation: u64,
        layout: u32,
    },
    Superblock(Superblock),
}

impl Superblock {
    /// The slots of both copies.
    pub(super) fn slots(self) -> [u32; 2] {
        let first = u32::from(self.generation % 2 == 1);
        [first, first + 2]
    }

    /// The beginning, up to the generation, and the checksum at the end of the slot are the same in all layouts to come.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Writing::new(SUPERBLOCK_BEGINS);
        bytes.u32(self.layout).u32(u32::from(self.is_closed)).u64(self.generation).u128(self.identity).u64(self.length);
        bytes.u64(self.point.sequence).u64(self.point.parent).u32(self.point.slot).u32(self.map_pages);
        bytes.u32(self.map.first).u32(self.map.count).u32(self.spare.first).u32(self.spare.count).u64(self.map_check);
        let mut bytes = bytes.0;
        bytes.resize(SLOT - 8, 0);
        let check = xxh3_64(&bytes);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Found {
        if !bytes.starts_with(&SUPERBLOCK_BEGINS) {
            return Found::Nothing;
        }
        let read = || {
            let (own, check) = bytes.split_at_checked(SLOT - 8)?;
            let mut reading = Reading(own);
            reading.take(8)?;
            let (layout, is_closed, generation) = (reading.u32()?, reading.u32()? == 1, reading.u64()?);
            if check != xxh3_64(own).to_le_bytes() {
                return None;
            }
            if layout > LAYOUT {
                return Some(Found::Newer { generation, layout });
            }
            let (identity, length) = (reading.u128()?, reading.u64()?);
            let (sequence, parent, slot) = (reading.u64()?, reading.u64()?, reading.u32()?);
            let map_pages = reading.u32()?;
            let map = Run { first: reading.u32()?, count: reading.u32()? };
            let spare = Run { first: reading.u32()?, count: reading.u32()? };
            let (point, map_check) = (Point { sequence, parent, slot }, reading.u64()?);
            Some(Found::Superblock(Self {
                layout,
                generation,
                identity,
                length,
                point,
                map,
                spare,
                map_pages,
                map_check,
                is_closed,
            }))
        };
        read().unwrap_or(Found::Damaged)
    }
}

/// The head of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) identity: Identity,
    pub(super) sequence: u64,
    pub(super) parent: u64,
    /// Where the next part will be.
    pub(super) next: u32,
    /// Whether the batch or the record is complete with this part.
    pub(super) is_last: bool,
    pub(super) content: Content,
    /// The numbers and checksums of the pages, in the order of the slots after the head. The slots of a record are numbered
    /// from 0 on.
    pub(super) pages: Vec<(u32, u32)>,
}

/// What a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Pages {
        /// The length of the log's content with this part, in bytes.
        length: u64,
        /// The smallest length there was since the part before: everything after it is zeros.
        floor: u64,
        /// Whether a batch begins: one before it that is not complete never will be.
        is_first: bool,
    },
    Record {
        number: u64,
        /// How long the whole record is; its last slot is filled up with zeros.
        bytes: u64,
    },
}

/// Flags of a part.
const IS_LAST: u32 = 1;
const IS_FIRST: u32 = 2;
const IS_RECORD: u32 = 4;

impl Content {
    /// Two numbers, and flags.
    fn encode(self) -> (u64, u64, u32) {
        match self {
            Self::Pages { length, floor, is_first } => (length, floor, if is_first { IS_FIRST } else { 0 }),
            Self::Record { number, bytes } => (bytes, number, IS_RECORD),
        }
    }

    fn decode(first: u64, second: u64, flags: u32) -> Self {
        if flags & IS_RECORD == 0 {
            Self::Pages { length: first, floor: second, is_first: flags & IS_FIRST != 0 }
        } else {
            Self::Record { number: second, bytes: first }
        }
    }
}

impl Head {
    /// Writes it into the slot, and returns its checksum.
    pub(super) fn encode(&self, slot: &mut [u8]) -> u64 {
        let mut bytes = Writing::new(PART_BEGINS);
        let (first, second, flags) = self.content.encode();
        bytes.u128(self.identity).u64(self.sequence).u64(self.parent).u64(first).u64(second);
        bytes.u32(self.next).u32(flags | if self.is_last { IS_LAST } else { 0 });
        bytes.u64(self.pages.len() as u64).u64(0);
        for (page, check) in &self.pages {
            bytes.u32(*page).u32(*check);
        }
        let used = bytes.0.len();
        let check = xxh3_64(&bytes.0);
        slot[..used].copy_from_slice(&bytes.0);
        slot[used..].fill(0);
        slot[FIXED - 8..FIXED].copy_from_slice(&check.to_le_bytes());
        check
    }

    /// The head in the slot, if it is the one that this point leads to, and its checksum.
    pub(super) fn decode(slot: &[u8], identity: Identity, point: Point) -> Option<(Self, u64)> {
        let mut reading = Reading(slot);
        if reading.take(8)? != PART_BEGINS || reading.u128()? != identity {
            return None;
        }
        let (sequence, parent, first, second) = (reading.u64()?, reading.u64()?, reading.u64()?, reading.u64()?);
        if (sequence, parent) != (point.sequence, point.parent) {
            return None;
        }
        let (next, flags) = (reading.u32()?, reading.u32()?);
        let count = usize::try_from(reading.u64()?).ok().filter(|count| *count <= MOST_PAGES)?;
        let check = reading.u64()?;
        let mut own = slot.get(..FIXED + count * ENTRY)?.to_vec();
        own[FIXED - 8..FIXED].fill(0);
        if xxh3_64(&own) != check {
            return None;
        }
        let pages = (0..count).map(|_| Some((reading.u32()?, reading.u32()?))).collect::<Option<Vec<_>>>()?;
        let (is_last, content) = (flags & IS_LAST != 0, Content::decode(first, second, flags));
        Some((Self { identity, sequence, parent, next, is_last, content, pages }, check))
    }
}

/// How many pages of a map are written or read at once.
pub(super) const MAP_PIECE: usize = 64 * 1024;

/// A piece of the map of the pages, as a superblock leads to it.
pub(super) fn encode_map(map: &[Place]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(map_bytes(map.len()));
    for place in map {
        bytes.extend_from_slice(&place.slot.to_le_bytes());
        bytes.extend_from_slice(&place.check.to_le_bytes());
    }
    bytes
}

/// The size in bytes of a map of this number of pages.
pub(super) fn map_bytes(pages: usize) -> usize {
    pages * ENTRY
}

/// The piece of a map in these bytes.
pub(super) fn decode_map(bytes: &[u8]) -> impl Iterator<Item = Place> {
    let mut reading = Reading(bytes);
    std::iter::from_fn(move || Some(Place { slot: reading.u32()?, check: reading.u32()? }))
}

/// The checksum of a map, which is taken a piece at a time.
#[derive(Default)]
pub(super) struct MapCheck(Xxh3);

impl MapCheck {
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.digest()
    }
}

struct Writing(Vec<u8>);

impl Writing {
    fn new(begins: [u8; 8]) -> Self {
        Self(begins.to_vec())
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn u128(&mut self, number: u128) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }
}

struct Reading<'a>(&'a [u8]);

impl<'a> Reading<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn u128(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(self.take(16)?.try_into().ok()?))
    }
}

/// Where a record is.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) places: Vec<Place>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        Point { sequence: 7, parent: 99, slot: 12 }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_only_where_it_belongs() {
        let pages: Vec<(u32, u32)> = (0..255).map(|page| (page * 3, page)).collect();
        let mut slot = vec![1; SLOT];
        for content in [
            Content::Record { number: 1 << 50, bytes: 77 },
            Content::Pages { length: 1 << 40, floor: 4096, is_first: false },
            Content::Pages { length: 1 << 40, floor: 4096, is_first: true },
        ] {
            for is_last in [false, true] {
                let pages = pages.clone();
                let head = Head { identity: 5, sequence: 7, parent: 99, next: 300, is_last, content, pages };
                let check = head.encode(&mut slot);
                assert_eq!(Head::decode(&slot, 5, point()), Some((head, check)));
            }
        }
        assert_eq!(Head::decode(&slot, 6, point()), None);
        assert_eq!(Head::decode(&slot, 5, Point { sequence: 8, ..point() }), None);
        assert_eq!(Head::decode(&slot, 5, Point { parent: 98, ..point() }), None);
        for at in 0..FIXED + 255 * ENTRY {
            slot[at] ^= 1;
            assert_eq!(Head::decode(&slot, 5, point()), None, "byte {at} is not covered");
            slot[at] ^= 1;
        }
    }

    #[test]
    fn a_superblock_is_read_as_it_was_written() {
        let superblock = Superblock {
            layout: LAYOUT,
            generation: 3,
            identity: 5,
            length: 1 << 40,
            point: point(),
            map: Run { first: 6, count: 2 },
            spare: Run { first: 9, count: 1 },
            map_pages: 1000,
            map_check: 17,
            is_closed: true,
        };
        assert_eq!(superblock.slots(), [1, 3]);
        let mut bytes = superblock.encode();
        assert_eq!(Superblock::decode(&bytes), Found::Superblock(superblock));
        for at in (8..200).chain([SLOT - 1]) {
            bytes[at] ^= 1;
            assert_eq!(Superblock::decode(&bytes), Found::Damaged, "byte {at} is not covered");
            bytes[at] ^= 1;
        }
        bytes[0] ^= 1;
        assert_eq!(Superblock::decode(&bytes), Found::Nothing);
    }

    #[test]
    fn a_superblock_of_a_newer_layout_is_known_as_one() {
        let mut bytes = vec![7; SLOT];
        bytes[..8].copy_from_slice(&SUPERBLOCK_BEGINS);
        bytes[8..12].copy_from_slice(&(LAYOUT + 1).to_le_bytes());
        bytes[16..24].copy_from_slice(&99_u64.to_le_bytes());
        let check = xxh3_64(&bytes[..SLOT - 8]);
        bytes[SLOT - 8..].copy_from_slice(&check.to_le_bytes());
        assert_eq!(Superblock::decode(&bytes), Found::Newer { generation: 99, layout: LAYOUT + 1 });
    }
}
