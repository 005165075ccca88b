//! Sorted strings in one block. Each is stored without the prefix that it shares with the one before it.
//!
//! | of each string but the first, which is stored apart | |
//! |---|---|
//! | how many bytes it has in common with the one before | LEB128 |
//! | how many others it has | LEB128 |
//! | these | |

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Deref, Range};
use std::sync::Arc;

/// A first string, and the others packed.
pub(super) type Block = (Vec<u8>, Vec<u8>);

/// The packed strings after a string that comes before all of them.
pub(super) fn behind(string: &[u8], first: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(rest.len() + first.len() + 8);
    let shared = common(string, first);
    pack(&mut packed, shared, &[&first[shared..]]);
    packed.extend_from_slice(rest);
    packed
}

/// A block after the removal of a string.
pub(super) enum Without {
    /// It was not there.
    Missing,
    /// The first string is what it was.
    Rest(Vec<u8>),
    /// The first string was removed. The rest is nothing, or this.
    First(Option<Block>),
}

/// The block without a string.
pub(super) fn without(string: &[u8], first: &[u8], rest: &[u8]) -> Without {
    match Spot::of(string, first, rest) {
        Spot::Missing => Without::Missing,
        Spot::There(gone) => {
            let mut packed = Vec::with_capacity(rest.len());
            packed.extend_from_slice(&rest[..gone.start]);
            if let Some(next) = PackedString::at(rest, gone.end) {
                // What it has in common with the one that goes, and that one not with the one before.
                let lost = &gone.rest[..next.shared.saturating_sub(gone.shared)];
                pack(&mut packed, next.shared.min(gone.shared), &[lost, next.rest]);
                packed.extend_from_slice(&rest[next.end..]);
            }
            Without::Rest(packed)
        }
        Spot::First => Without::First(
            PackedString::at(rest, 0)
                .map(|next| ([&first[..next.shared], next.rest].concat(), rest[next.end..].to_vec())),
        ),
    }
}

/// Whether a string is in a block whose first string is not greater.
pub(super) fn contains(string: &[u8], first: &[u8], rest: &[u8]) -> bool {
    !matches!(Spot::of(string, first, rest), Spot::Missing)
}

/// Shows `visit` each string of a block, until it breaks. Whether it did; nothing if the block cannot be unpacked.
pub(super) fn each<E>(
    first: &[u8],
    rest: &[u8],
    string: &mut Vec<u8>,
    visit: &mut impl FnMut(&[u8]) -> Result<ControlFlow<()>, E>,
) -> Result<Option<ControlFlow<()>>, E> {
    string.clear();
    string.extend_from_slice(first);
    let mut at = 0;
    loop {
        if visit(string)?.is_break() {
            return Ok(Some(ControlFlow::Break(())));
        }
        if at == rest.len() {
            return Ok(Some(ControlFlow::Continue(())));
        }
        let Some(item) = PackedString::at(rest, at).filter(|item| item.shared <= string.len()) else { return Ok(None) };
        string.truncate(item.shared);
        string.extend_from_slice(item.rest);
        at = item.end;
    }
}

/// What strings do to a block.
pub(super) struct Merged {
    /// The packed strings then.
    pub(super) packed: Vec<u8>,
    /// How many of the strings are new.
    pub(super) added: usize,
}

/// Merges sorted strings, greater than the first one of the block, into the packed strings.
///
/// Strings that are not next to a new one are copied unchanged.
pub(super) fn with_all<S: AsRef<[u8]>>(first: &[u8], rest: &[u8], strings: &[S]) -> Merged {
    let more: usize = strings.iter().take(64).map(|string| string.as_ref().len() + 4).sum();
    let mut merged = Merged { packed: Vec::with_capacity(rest.len() + more), added: 0 };
    let mut strings = strings.iter().map(AsRef::as_ref);
    let Some(mut string) = strings.next() else {
        merged.packed.extend_from_slice(rest);
        return merged;
    };
    // With the string before, old or new.
    let mut in_common = common(string, first);
    let mut is_there = string == first;
    // Up to here the block is copied.
    let mut copied = 0;
    let mut next = PackedString::at(rest, 0);
    loop {
        if !is_there && let Some(item) = next {
            // One that has more in common with the one before it than `string` has is smaller, as that one is.
            let order = match item.shared.cmp(&in_common) {
                Ordering::Greater => Ordering::Less,
                Ordering::Less => Ordering::Greater,
                Ordering::Equal => item.rest.cmp(&string[in_common..]),
            };
            if order != Ordering::Greater {
                if item.shared == in_common {
                    in_common += common(&string[in_common..], item.rest);
                }
                is_there = order == Ordering::Equal;
                if item.is_changed {
                    pack(&mut merged.packed, item.shared, &[item.rest]);
                    copied = item.end;
                }
                next = PackedString::at(rest, item.end);
                continue;
            }
        }
        if !is_there {
            let at = next.map_or(rest.len(), |item| item.start);
            merged.packed.extend_from_slice(&rest[copied..at]);
            copied = at;
            pack(&mut merged.packed, in_common, &[&string[in_common..]]);
            merged.added += 1;
            if let Some(item) = &mut next {
                // From now on it follows this one.
                let shared = if item.shared < in_common { 0 } else { common(&string[item.shared..], item.rest) };
                item.rest = &item.rest[shared..];
                item.shared += shared;
                item.is_changed = true;
            }
        }
        let Some(following) = strings.next() else { break };
        (in_common, is_there) = (common(following, string), following == string);
        string = following;
    }
    if let Some(item) = next.filter(|item| item.is_changed) {
        pack(&mut merged.packed, item.shared, &[item.rest]);
        copied = item.end;
    }
    merged.packed.extend_from_slice(&rest[copied..]);
    merged
}

/// Splits the block into parts of about equal length, of at most this many packed bytes unless a single string is
/// longer.
pub(super) fn cut_up((first, packed): Block, most: usize) -> Vec<Block> {
    let count = packed.len().div_ceil(most.max(1)).max(1);
    if count == 1 {
        return vec![(first, packed)];
    }
    let length = packed.len() / count;
    let mut string = first.clone();
    let (mut pieces, mut piece_first, mut start, mut at) = (Vec::with_capacity(count), first, 0, 0);
    while let Some(item) = PackedString::at(&packed, at) {
        string.truncate(item.shared);
        string.extend_from_slice(item.rest);
        at = item.end;
        if at - start > length {
            let before = std::mem::replace(&mut piece_first, string.clone());
            pieces.push((before, packed[start..item.start].to_vec()));
            start = at;
        }
    }
    pieces.push((piece_first, packed[start..].to_vec()));
    pieces
}

/// A string of a block, which lives as long as it is held.
#[derive(Debug, Clone)]
pub(crate) struct HeldString {
    flat: Arc<Flat>,
    place: Range<usize>,
}

impl Deref for HeldString {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.flat.bytes[self.place.clone()]
    }
}

/// The strings of a block, as they are.
#[derive(Debug, Default)]
pub(super) struct Flat {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Flat {
    /// `None` when this is no block.
    pub(super) fn of(first: &[u8], rest: &[u8]) -> Option<Self> {
        let mut flat = Self { bytes: Vec::with_capacity(4 * rest.len() + first.len()), ends: Vec::with_capacity(64) };
        flat.bytes.extend_from_slice(first);
        flat.ends.push(first.len());
        let (mut at, mut before) = (0, 0_usize);
        while at < rest.len() {
            let item = PackedString::at(rest, at)?;
            let start = flat.bytes.len();
            let shared = before.checked_add(item.shared).filter(|end| *end <= start)?;
            flat.bytes.extend_from_within(before..shared);
            flat.bytes.extend_from_slice(item.rest);
            flat.ends.push(flat.bytes.len());
            (at, before) = (item.end, start);
        }
        Some(flat)
    }

    fn place(&self, number: usize) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[number]
    }

    /// Those between two places.
    pub(super) fn between(self, start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) -> Between {
        let from = self.first_where(|string| match start {
            Bound::Included(start) => string >= start.as_slice(),
            Bound::Excluded(start) => string > start.as_slice(),
            Bound::Unbounded => true,
        });
        let to = self.first_where(|string| match end {
            Bound::Included(end) => string > end.as_slice(),
            Bound::Excluded(end) => string >= end.as_slice(),
            Bound::Unbounded => false,
        });
        Between { flat: Arc::new(self), numbers: from..to }
    }

    /// The position of the first string for which this holds; it holds for all later ones too.
    fn first_where(&self, holds: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            if holds(&self.bytes[self.place(middle)]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// The strings of a block that were not returned yet.
pub(super) struct Between {
    flat: Arc<Flat>,
    numbers: Range<usize>,
}

impl Between {
    fn held(&self, number: usize) -> HeldString {
        HeldString { place: self.flat.place(number), flat: Arc::clone(&self.flat) }
    }
}

impl Iterator for Between {
    type Item = HeldString;

    fn next(&mut self) -> Option<HeldString> {
        self.numbers.next().map(|number| self.held(number))
    }
}

impl DoubleEndedIterator for Between {
    fn next_back(&mut self) -> Option<HeldString> {
        self.numbers.next_back().map(|number| self.held(number))
    }
}

/// A string in a block, packed.
#[derive(Debug, Clone, Copy)]
struct PackedString<'p> {
    /// How many bytes it has in common with the one before.
    shared: usize,
    /// The others.
    rest: &'p [u8],
    /// Where it begins in the block.
    start: usize,
    /// Where the next one does.
    end: usize,
    /// Whether it differs from the block, because there is a new string before it.
    is_changed: bool,
}

impl<'p> PackedString<'p> {
    fn at(packed: &'p [u8], start: usize) -> Option<Self> {
        let mut at = start;
        let shared = number(packed, &mut at)?;
        let length = number(packed, &mut at)?;
        let end = at.checked_add(length)?;
        Some(Self { shared, rest: packed.get(at..end)?, start, end, is_changed: false })
    }
}

/// The position of a string in a block whose first string is not greater.
enum Spot<'p> {
    First,
    There(PackedString<'p>),
    Missing,
}

impl<'p> Spot<'p> {
    fn of(string: &[u8], first: &[u8], rest: &'p [u8]) -> Self {
        let mut in_common = common(string, first);
        if in_common == string.len() && string.len() == first.len() {
            return Self::First;
        }
        let mut at = 0;
        while let Some(item) = PackedString::at(rest, at) {
            // One that has more in common with the one before it than `string` has is smaller, as that one is.
            if item.shared <= in_common {
                let (wanted, more) = (&string[item.shared..], common(&string[item.shared..], item.rest));
                if more == wanted.len() && more == item.rest.len() {
                    return Self::There(item);
                }
                if wanted < item.rest {
                    return Self::Missing;
                }
                in_common = item.shared + more;
            }
            at = item.end;
        }
        Self::Missing
    }
}

/// How many bytes both begin with.
fn common(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

fn pack(packed: &mut Vec<u8>, shared: usize, rest: &[&[u8]]) {
    write_number(packed, shared);
    write_number(packed, rest.iter().map(|piece| piece.len()).sum());
    for piece in rest {
        packed.extend_from_slice(piece);
    }
}

fn write_number(packed: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        packed.push(0x80 | u8::try_from(number & 0x7f).unwrap_or_default());
        number >>= 7;
    }
    packed.push(u8::try_from(number).unwrap_or_default());
}

fn number(packed: &[u8], at: &mut usize) -> Option<usize> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = *packed.get(*at)?;
        *at += 1;
        number |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}
