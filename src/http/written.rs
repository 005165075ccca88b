//! A cache of the JSON of objects that lists showed before.
//!
//! The key of an entry is all stored bytes of an object, and its JSON depends on nothing else. So the cache cannot be
//! stale and needs no invalidation. Access was checked before, when the bytes were read. Comparing them costs a small
//! part of writing the JSON.

use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

/// How many objects with equal hashes are kept.
const WAYS: usize = 4;
/// The maximum number of stored bytes and JSON of one object.
const LARGEST: usize = 4096;
/// The beginning of an object, with its `_id`, distinguishes it from others.
const HASHED: usize = 48;

/// A bounded number of objects.
#[derive(Debug)]
pub struct WrittenCache(Box<[Mutex<Set>]>);

/// Objects whose hashes fall together.
#[derive(Debug, Default)]
struct Set {
    kept: [CachedText; WAYS],
    /// Which one goes next.
    oldest: usize,
    /// Hashes of recently written objects that are not cached yet: an object that is written only once is not worth its
    /// memory.
    seen: [u64; WAYS],
    oldest_seen: usize,
}

/// Stored bytes, followed by their JSON.
#[derive(Debug, Default)]
struct CachedText {
    both: Box<[u8]>,
    stored: usize,
}

impl WrittenCache {
    /// A cache of at most this many bytes; 0: no cache.
    pub fn of_bytes(bytes: usize) -> Self {
        Self((0..bytes / (WAYS * LARGEST)).map(|_| Mutex::default()).collect())
    }

    /// Appends the output of `write` for the stored bytes, which must be deterministic.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn append<E>(
        &self,
        stored: &[u8],
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let hash = xxh3_64(&stored[..stored.len().min(HASHED)]);
        let Some(set) = usize::try_from(hash).ok().and_then(|hash| self.0.get(hash.checked_rem(self.0.len())?)) else {
            return write(out);
        };
        let lock = || set.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = lock().find(stored) {
            out.extend_from_slice(text);
            return Ok(());
        }
        let begin = out.len();
        write(out)?;
        lock().note(hash, stored, &out[begin..]);
        Ok(())
    }
}

impl Set {
    fn find(&self, stored: &[u8]) -> Option<&[u8]> {
        self.kept.iter().find_map(|kept| kept.text_of(stored))
    }

    fn note(&mut self, hash: u64, stored: &[u8], text: &[u8]) {
        if stored.len() + text.len() > LARGEST {
            return;
        }
        if self.seen.contains(&hash) {
            self.kept[self.oldest] = CachedText { both: [stored, text].concat().into(), stored: stored.len() };
            self.oldest = (self.oldest + 1) % WAYS;
        } else {
            self.seen[self.oldest_seen] = hash;
            self.oldest_seen = (self.oldest_seen + 1) % WAYS;
        }
    }
}

impl CachedText {
    fn text_of(&self, stored: &[u8]) -> Option<&[u8]> {
        let (known, text) = self.both.split_at(self.stored);
        (known == stored && !known.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// The text, and whether it was new.
    fn appended(written: &WrittenCache, stored: &[u8]) -> (Vec<u8>, bool) {
        let (mut out, mut was_made) = (b"before:".to_vec(), false);
        let write = |out: &mut Vec<u8>| {
            was_made = true;
            out.extend(stored.iter().rev());
            Ok::<(), Infallible>(())
        };
        written.append(stored, &mut out, write).unwrap();
        (out.split_off("before:".len()), was_made)
    }

    #[test]
    fn what_is_written_again_and_again_is_made_twice() {
        let written = WrittenCache::of_bytes(WAYS * LARGEST);
        let made: Vec<_> = (0..4).map(|_| appended(&written, b"abc")).collect();
        let text = b"cba".to_vec();
        assert_eq!(made, [(text.clone(), true), (text.clone(), true), (text.clone(), false), (text, false)]);
    }

    #[test]
    fn another_byte_behind_the_same_beginning_is_another_object() {
        let written = WrittenCache::of_bytes(WAYS * LARGEST);
        let (mut before, mut after) = ([7; 200], [7; 200]);
        (before[199], after[199]) = (1, 2);
        for stored in [&before, &after, &before, &after, &before, &after] {
            assert!(appended(&written, stored).0.iter().eq(stored.iter().rev()));
        }
        assert_eq!((appended(&written, &before).1, appended(&written, &after).1), (false, false));
    }

    #[test]
    fn of_many_objects_only_so_many_are_kept() {
        let written = WrittenCache::of_bytes(2 * WAYS * LARGEST);
        for round in 0..3 {
            for number in 0..1000_u32 {
                let stored = number.to_le_bytes();
                assert!(appended(&written, &stored).0.iter().eq(stored.iter().rev()), "{round} {number}");
            }
        }
        let kept = (0..1000_u32).filter(|number| !appended(&written, &number.to_le_bytes()).1).count();
        assert!(kept <= 2 * WAYS, "{kept}");
    }

    #[test]
    fn large_objects_are_not_kept_and_nothing_is_where_nothing_may_be() {
        let (written, none) = (WrittenCache::of_bytes(WAYS * LARGEST), WrittenCache::of_bytes(0));
        for _ in 0..4 {
            assert!(appended(&written, &[1; LARGEST]).1);
            assert!(appended(&none, b"abc").1);
        }
    }

    #[test]
    fn what_cannot_be_written_is_not_kept() {
        let written = WrittenCache::of_bytes(WAYS * LARGEST);
        for _ in 0..3 {
            assert!(written.append(b"abc", &mut Vec::new(), |_| Err("damaged")).is_err());
        }
        assert!(appended(&written, b"abc").1);
    }
}
