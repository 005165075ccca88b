//! Memory that all requests share: a pool of bytes, sub-pools of single users, and shares of one query or request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Denied, Ticket};

/// What a share takes from its pool at a time, so that counting costs nothing where values are made.
const CHUNK: usize = 512 * 1024;
/// The uncounted part of a share: an ordinary request never uses the pool.
const FREE: usize = 256 * 1024;

/// Bytes that may be in use, of all requests or of those of a user.
#[derive(Debug)]
pub struct Pool {
    size: usize,
    free: AtomicUsize,
    /// What this is a part of.
    whole: Option<Arc<Pool>>,
}

impl Pool {
    /// A pool of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { size: bytes, free: AtomicUsize::new(bytes), whole: None }
    }

    /// A pool that takes from `whole`, but never holds more than this many bytes.
    pub fn part_of(whole: &Arc<Self>, bytes: usize) -> Self {
        Self { whole: Some(Arc::clone(whole)), ..Self::new(bytes) }
    }

    /// How many bytes are left.
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    /// Takes `more` bytes for a share that then has `all`.
    fn take(&self, more: usize, all: usize) -> Result<(), Denied> {
        if all > self.size {
            return Err(Denied::TooMuch { most: self.size });
        }
        self.take_some(more)
    }

    fn take_some(&self, bytes: usize) -> Result<(), Denied> {
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(bytes));
        taken.map_err(|_| Denied::Busy)?;
        let Some(whole) = &self.whole else { return Ok(()) };
        whole.take_some(bytes).inspect_err(|_| {
            self.free.fetch_add(bytes, Ordering::Relaxed);
        })
    }

    fn give_back(&self, bytes: usize) {
        self.free.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

/// Bytes taken from a pool. Dropping it returns them. Without a pool it has no bound.
#[derive(Debug, Default)]
pub struct Share {
    pool: Option<Arc<Pool>>,
    taken: usize,
    heir: Option<Ticket>,
}

impl Share {
    /// Nothing yet, of this pool.
    pub fn of(pool: Option<Arc<Pool>>) -> Self {
        Self { pool, taken: 0, heir: None }
    }

    /// The same; the taken bytes continue to count as that request's.
    #[must_use]
    pub fn left_to(mut self, heir: Ticket) -> Self {
        self.heir = Some(heir);
        self
    }

    /// Takes the missing part of this many bytes. Returns the number up to which no more must be taken.
    ///
    /// # Errors
    /// [`Denied::Busy`] when the pool has too few left, [`Denied::TooMuch`] when the whole pool has fewer; bytes already
    /// taken stay taken.
    pub fn cover(&mut self, bytes: usize) -> Result<usize, Denied> {
        let Some(pool) = &self.pool else { return Ok(usize::MAX) };
        let missing = bytes.saturating_sub(FREE + self.taken).div_ceil(CHUNK).saturating_mul(CHUNK);
        if missing > 0 {
            pool.take(missing, self.taken + missing)?;
            self.taken += missing;
        }
        Ok(FREE + self.taken)
    }

    /// As [`Share::cover`], but to the byte, for what stays: of much that is kept, the free parts would add up.
    ///
    /// # Errors
    /// As there.
    pub(super) fn cover_whole(&mut self, bytes: usize) -> Result<(), Denied> {
        let Some(pool) = &self.pool else { return Ok(()) };
        let missing = bytes.saturating_sub(self.taken);
        pool.take(missing, self.taken + missing)?;
        self.taken += missing;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        match self.heir.take() {
            Some(heir) => heir.inherit(Self { pool: Some(pool), taken: self.taken, heir: None }),
            None => pool.give_back(self.taken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_takes_chunks_and_gives_all_of_them_back() {
        let pool = Arc::new(Pool::new(4 * CHUNK));
        let mut share = Share::of(Some(Arc::clone(&pool)));
        assert_eq!(share.cover(FREE).expect("free of charge"), FREE);
        assert_eq!(pool.free(), 4 * CHUNK);
        assert_eq!(share.cover(FREE + 1).expect("there is room"), FREE + CHUNK);
        assert_eq!(pool.free(), 3 * CHUNK);
        drop(share);
        assert_eq!(pool.free(), 4 * CHUNK);
    }

    #[test]
    fn what_stays_is_counted_to_the_byte() {
        let pool = Arc::new(Pool::new(4 * CHUNK));
        let mut share = Share::of(Some(Arc::clone(&pool)));
        share.cover_whole(10).expect("there is room");
        assert_eq!(pool.free(), 4 * CHUNK - 10);
        share.cover_whole(4).expect("it is taken already");
        assert!(matches!(share.cover_whole(4 * CHUNK + 1), Err(Denied::TooMuch { .. })));
        assert_eq!(pool.free(), 4 * CHUNK - 10);
        drop(share);
        assert_eq!(pool.free(), 4 * CHUNK);
    }

    #[test]
    fn an_empty_pool_refuses_and_what_was_taken_stays_taken() {
        let pool = Arc::new(Pool::new(2 * CHUNK));
        let mut first = Share::of(Some(Arc::clone(&pool)));
        let mut second = Share::of(Some(Arc::clone(&pool)));
        first.cover(FREE + 2 * CHUNK).expect("there is room");
        assert!(matches!(second.cover(FREE + 1), Err(Denied::Busy)));
        assert!(first.cover(FREE + 2 * CHUNK).is_ok());
        drop(first);
        assert!(second.cover(FREE + 1).is_ok());
    }

    #[test]
    fn a_part_never_takes_all_and_a_refusal_of_the_whole_leaves_the_part_as_it_was() {
        let whole = Arc::new(Pool::new(3 * CHUNK));
        let parts = [2, 2].map(|chunks| Arc::new(Pool::part_of(&whole, chunks * CHUNK)));
        let [mut first, mut second] = parts.each_ref().map(|part| Share::of(Some(Arc::clone(part))));
        assert!(matches!(first.cover(FREE + 3 * CHUNK), Err(Denied::TooMuch { most }) if most == 2 * CHUNK));
        first.cover(FREE + 2 * CHUNK).expect("there is room");
        assert!(matches!(second.cover(FREE + 2 * CHUNK), Err(Denied::Busy)));
        assert_eq!(parts[1].free(), 2 * CHUNK);
        second.cover(FREE + CHUNK).expect("there is room");
        drop((first, second));
        assert_eq!((whole.free(), parts[0].free()), (3 * CHUNK, 2 * CHUNK));
    }
}
