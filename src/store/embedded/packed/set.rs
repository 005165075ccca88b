//! A sorted set of byte strings in little memory, in versions that share what they have in common.
//!
//! A block does not change: adding a string makes its block anew, and all other blocks are those of the version before.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::block::{self, Flat, Held, Packing, Without};

/// A block of more bytes is cut in two. Few in tests of this crate, so that few strings are many blocks.
const MOST_BYTES: usize = if cfg!(test) { 64 } else { 1024 };
/// What a block takes beside its strings: two allocations, their counters, and its place in the tree.
const BLOCK: usize = 112;

/// Bytes that versions share.
type Shared = Arc<[u8]>;

/// The set. A clone takes no time.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct PackedSet {
    /// The first string of each block -> the others, packed.
    blocks: OrdMap<Shared, Shared>,
    len: usize,
    bytes: usize,
}

impl PartialEq for PackedSet {
    fn eq(&self, other: &Self) -> bool {
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.len == other.len
            && self.range(all).map(|held| held.to_vec()).eq(other.range(all).map(|held| held.to_vec()))
    }
}

impl Eq for PackedSet {}

/// What to do with a string that is met, see [`PackedSet::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Met {
    Take,
    Leave,
    /// Leave it and all behind it.
    Stop,
}

/// Strings in order, from either end.
pub(in super::super) type InOrder<'a> = Box<dyn DoubleEndedIterator<Item = Held> + 'a>;

impl PackedSet {
    /// The set of these, which are in order.
    pub(in super::super) fn of_sorted<'s>(strings: impl Iterator<Item = &'s [u8]>) -> Self {
        let (mut set, mut packing) = (Self::default(), Packing::up_to(MOST_BYTES * 3 / 4));
        for string in strings {
            packing.push(string);
        }
        set.put_all(packing);
        set
    }

    /// How many there are.
    pub(in super::super) fn len(&self) -> usize {
        self.len
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About how much memory the set takes.
    pub(in super::super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in super::super) fn contains(&self, string: &[u8]) -> bool {
        self.block_at(string).is_some_and(|(first, rest)| block::contains(string, first, rest))
    }

    /// Adds a string; `false` when it is there.
    pub(in super::super) fn insert(&mut self, string: &[u8]) -> bool {
        let found = self.block_at(string).map(|(first, rest)| (Arc::clone(first), Arc::clone(rest)));
        let (before, first, packed) = match found {
            Some((first, rest)) => {
                let Some(packed) = block::with(string, &first, &rest) else { return false };
                (Some(size(&first, &rest)), first, packed)
            }
            None => match self.blocks.get_min().cloned() {
                None => (None, string.into(), Vec::new()),
                Some((first, rest)) => {
                    self.blocks.remove(&first);
                    (Some(size(&first, &rest)), string.into(), block::behind(string, &first, &rest))
                }
            },
        };
        self.len += 1;
        self.bytes -= before.unwrap_or_default();
        self.put(first, packed);
        true
    }

    /// Adds strings that are in order; returns how many were not there.
    pub(in super::super) fn insert_all(&mut self, strings: &[&[u8]]) -> usize {
        let (before, mut left) = (self.len, strings);
        while let Some(next) = left.first() {
            let found = self.block_at(next).map(|(first, rest)| (Arc::clone(first), Arc::clone(rest)));
            let Some((first, rest)) = found else {
                self.insert(next);
                left = &left[1..];
                continue;
            };
            let merged = block::with_all(&first, &rest, left, false);
            if merged.added > 0 {
                self.len += merged.added;
                self.bytes -= size(&first, &rest);
                self.put(first, merged.packed);
            }
            left = &left[merged.taken..];
        }
        self.len - before
    }

    /// Takes a string out; `false` when it is not there.
    pub(in super::super) fn remove(&mut self, string: &[u8]) -> bool {
        let found = self.block_at(string).map(|(first, rest)| (Arc::clone(first), Arc::clone(rest)));
        let Some((first, rest)) = found else { return false };
        match block::without(string, &first, &rest) {
            Without::Missing => return false,
            Without::Rest(packed) => self.put_block(Arc::clone(&first), packed.into()),
            Without::First(left) => {
                self.blocks.remove(&first);
                if let Some((first, packed)) = left {
                    self.put_block(first.into(), packed.into());
                }
            }
        }
        self.len -= 1;
        self.bytes -= size(&first, &rest);
        true
    }

    /// Meets the strings from `start` on in order, and takes some out. Returns them, and whether all were met.
    pub(in super::super) fn take(&mut self, start: &[u8], mut meet: impl FnMut(&[u8]) -> Met) -> (Vec<Vec<u8>>, bool) {
        let (mut taken, mut met_all) = (Vec::new(), true);
        let (mut left, mut swept) = (Packing::up_to(MOST_BYTES * 3 / 4), Vec::new());
        for (first, rest) in self.blocks.range::<_, [u8]>((self.bound_at(start), Bound::Unbounded)) {
            swept.push((Arc::clone(first), size(first, rest)));
            for string in flat(first, rest).strings() {
                let met = if !met_all || string < start { Met::Leave } else { meet(string) };
                if met == Met::Take {
                    taken.push(string.to_vec());
                } else {
                    left.push(string);
                }
                met_all &= met != Met::Stop;
            }
            if !met_all {
                break;
            }
        }
        for (first, size) in swept {
            self.blocks.remove(&first);
            self.bytes -= size;
        }
        self.len -= taken.len() + left.count;
        self.put_all(left);
        (taken, met_all)
    }

    /// The strings between two places, in order from either end.
    pub(in super::super) fn range(&self, (start, end): (Bound<&[u8]>, Bound<&[u8]>)) -> InOrder<'_> {
        let first = match start {
            Bound::Included(start) | Bound::Excluded(start) => self.bound_at(start),
            Bound::Unbounded => Bound::Unbounded,
        };
        let (own_start, own_end) = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        let blocks = self.blocks.range::<_, [u8]>((first, end));
        Box::new(blocks.flat_map(move |(first, rest)| flat(first, rest).between(&own_start, &own_end)))
    }

    /// The block that a string is in, if it is in any.
    fn block_at(&self, string: &[u8]) -> Option<(&Shared, &Shared)> {
        self.blocks.get_prev(string)
    }

    /// Where the block begins that a string would be in.
    fn bound_at(&self, string: &[u8]) -> Bound<&[u8]> {
        self.block_at(string).map_or(Bound::Unbounded, |(first, _)| Bound::Included(&**first))
    }

    /// Puts a block in, as two if it is long.
    fn put(&mut self, first: Shared, packed: Vec<u8>) {
        if packed.len() <= MOST_BYTES {
            return self.put_block(first, packed.into());
        }
        for (first, packed) in block::cut_up((first.to_vec(), packed), MOST_BYTES) {
            self.put_block(first.into(), packed.into());
        }
    }

    fn put_block(&mut self, first: Shared, rest: Shared) {
        self.bytes += size(&first, &rest);
        self.blocks.insert(first, rest);
    }

    fn put_all(&mut self, packing: Packing) {
        self.len += packing.count;
        for (first, packed) in packing.blocks {
            self.put_block(first.into(), packed.into());
        }
    }
}

/// What a block takes.
fn size(first: &[u8], rest: &[u8]) -> usize {
    BLOCK + first.len() + rest.len()
}

fn flat(first: &[u8], rest: &[u8]) -> Flat {
    Flat::of(first, rest).expect("only blocks are in a set")
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

    fn strings(set: &PackedSet) -> Vec<Vec<u8>> {
        set.range(ALL).map(|held| held.to_vec()).collect()
    }

    /// Few letters, so that many begin alike and some are the beginning of others.
    pub(in super::super) fn string() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![vec(0_u8..3, 0..12), vec(0_u8..2, 120..140)]
    }

    /// What the sizes of all blocks say, which the set keeps count of.
    fn measured(set: &PackedSet) -> (usize, usize) {
        let of_blocks =
            |(first, rest): (&Arc<[u8]>, &Arc<[u8]>)| (flat(first, rest).strings().count(), size(first, rest));
        set.blocks.iter().map(of_blocks).fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1))
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(Vec<u8>),
        InsertAll(BTreeSet<Vec<u8>>),
        Remove(Vec<u8>),
        /// From where on, how many, and of which lengths.
        Take(Vec<u8>, usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => string().prop_map(Step::Insert),
            1 => prop::collection::btree_set(string(), 0..60).prop_map(Step::InsertAll),
            2 => string().prop_map(Step::Remove),
            1 => (string(), 0_usize..20, 1_usize..4).prop_map(|(start, most, of)| Step::Take(start, most, of)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn it_holds_what_was_put_into_it_and_versions_do_not_change_each_other(
            steps in vec(step(), 1..120),
            probes in vec((string(), string()), 5),
        ) {
            let (mut set, mut expected) = (PackedSet::default(), BTreeSet::new());
            let mut versions = Vec::new();
            for step in steps {
                versions.push((set.clone(), expected.clone()));
                match step {
                    Step::Insert(string) => prop_assert_eq!(set.insert(&string), expected.insert(string)),
                    Step::InsertAll(strings) => {
                        let sorted: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
                        let new = strings.iter().filter(|string| expected.insert((*string).clone())).count();
                        prop_assert_eq!(set.insert_all(&sorted), new);
                    }
                    Step::Remove(string) => prop_assert_eq!(set.remove(&string), expected.remove(&string)),
                    Step::Take(start, most, of) => {
                        let mut met = 0;
                        let (taken, met_all) = set.take(&start, |string| {
                            met += 1;
                            match string.len().is_multiple_of(of) {
                                _ if met > most => Met::Stop,
                                true => Met::Take,
                                false => Met::Leave,
                            }
                        });
                        let concerned: Vec<_> = expected.range(start..).take(most).cloned().collect();
                        prop_assert_eq!(met_all, met <= most);
                        prop_assert_eq!(met.min(most), concerned.len());
                        let wanted: Vec<_> = concerned.into_iter().filter(|one| one.len().is_multiple_of(of)).collect();
                        prop_assert_eq!(&taken, &wanted);
                        expected.retain(|one| !wanted.contains(one));
                    }
                }
                prop_assert_eq!(set.len(), expected.len());
                prop_assert_eq!(measured(&set), (set.len(), set.bytes()));
                prop_assert!(set.blocks.values().all(|rest| rest.len() <= MOST_BYTES + 300));
            }
            versions.push((set, expected));
            for (set, expected) in &versions {
                prop_assert_eq!(strings(set), expected.iter().cloned().collect::<Vec<_>>());
            }
            let Some((set, expected)) = versions.last() else { return Ok(()) };
            prop_assert_eq!(&PackedSet::of_sorted(expected.iter().map(Vec::as_slice)), set);
            for (left, right) in probes {
                prop_assert_eq!(set.contains(&left), expected.contains(&left));
                let (low, high) = if left < right { (left, right) } else { (right, left) };
                let mut found = set.range((Bound::Included(&low), Bound::Excluded(&high)));
                let mut wanted = expected.range(low.clone()..high.clone());
                // From both ends in turns.
                loop {
                    let pair = (found.next().map(|held| held.to_vec()), wanted.next().cloned());
                    prop_assert_eq!(&pair.0, &pair.1);
                    let pair = (found.next_back().map(|held| held.to_vec()), wanted.next_back().cloned());
                    prop_assert_eq!(&pair.0, &pair.1);
                    if pair.0.is_none() {
                        break;
                    }
                }
                let found: Vec<_> = set.range((Bound::Excluded(&low), Bound::Included(&high))).map(|held| held.to_vec()).collect();
                let wanted = expected.range::<Vec<u8>, _>((Bound::Excluded(&low), Bound::Included(&high)));
                prop_assert_eq!(found, if low == high { Vec::new() } else { wanted.cloned().collect() });
            }
        }
    }

    #[test]
    fn strings_that_begin_alike_take_a_few_bytes_each() {
        let strings: Vec<Vec<u8>> =
            (0..1000_u64).map(|row| [b"monitored\0yes".as_slice(), &row.to_be_bytes()].concat()).collect();
        let set = PackedSet::of_sorted(strings.iter().map(Vec::as_slice));
        let packed: usize = set.blocks.values().map(|rest| rest.len()).sum();
        assert!(packed < 4 * 1000, "{packed}");
    }
}
