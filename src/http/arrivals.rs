//! Arriving bodies: a bound on their memory, for all users and for each.
//!
//! A body counts by the bytes that have arrived, so a slow client takes nothing from others. One user gets one half, so
//! a user who sends many large bodies at once leaves room for all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;

/// How many imports may run at once; each holds its file and its objects in memory.
const AT_WORK: usize = 2;

/// How many files of one user may be arriving, waiting or running.
const FILES_OF_ONE: usize = 2;

/// All arriving bodies.
pub struct Arrivals {
    /// Most bytes of one user; of all users twice as many.
    most: usize,
    held: Mutex<Held>,
    at_work: Arc<Semaphore>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    users: HashMap<i64, OfOne>,
}

/// What one user sends at the moment.
struct OfOne {
    bodies: usize,
    bytes: usize,
    files: usize,
    /// One import of a user runs at a time.
    turn: Arc<Semaphore>,
}

/// A body of a user; its bytes count until this is dropped.
pub(super) struct Arriving {
    arrivals: Arc<Arrivals>,
    user_id: i64,
    bytes: usize,
    is_file: bool,
}

/// The right to work on a file.
pub(super) struct WorkPermit {
    _turn: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Arrivals {
    /// Arriving bodies of one user have at most this many bytes.
    pub fn new(most: usize) -> Self {
        Self { most, held: Mutex::default(), at_work: Arc::new(Semaphore::new(AT_WORK)) }
    }

    /// A body begins.
    pub(super) fn begin(self: &Arc<Self>, user_id: i64) -> Arriving {
        self.with(user_id, |_, of_one| of_one.bodies += 1);
        Arriving { arrivals: Arc::clone(self), user_id, bytes: 0, is_file: false }
    }

    fn with<T>(&self, user_id: i64, change: impl FnOnce(&mut usize, &mut OfOne) -> T) -> T {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Held { bytes, users } = &mut *held;
        let of_one = users.entry(user_id).or_insert_with(OfOne::new);
        let outcome = change(bytes, of_one);
        if of_one.bodies == 0 {
            users.remove(&user_id);
        }
        outcome
    }
}

impl OfOne {
    fn new() -> Self {
        Self { bodies: 0, bytes: 0, files: 0, turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Arriving {
    /// The body is a file.
    ///
    /// # Errors
    /// 503 when the user already sends the maximum number of files.
    pub(super) fn is_file(&mut self) -> Result<(), ApiError> {
        self.is_file = self.arrivals.with(self.user_id, |_, of_one| {
            let is_free = of_one.files < FILES_OF_ONE;
            of_one.files += usize::from(is_free);
            is_free
        });
        if self.is_file { Ok(()) } else { Err(ApiError::imports_busy()) }
    }

    /// So many more bytes have arrived.
    ///
    /// # Errors
    /// 503 when the arriving bodies of the user, or of all users, exceed their bound.
    pub(super) fn take(&mut self, more: usize) -> Result<(), ApiError> {
        let most = self.arrivals.most;
        let is_free = self.arrivals.with(self.user_id, |all, of_one| {
            let is_free = of_one.bytes + more <= most && *all + more <= 2 * most;
            if is_free {
                of_one.bytes += more;
                *all += more;
            }
            is_free
        });
        if !is_free {
            return Err(ApiError::bodies_busy());
        }
        self.bytes += more;
        Ok(())
    }

    /// Releases this many of the bytes.
    pub(super) fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.arrivals.with(self.user_id, |all, of_one| {
            *all -= bytes;
            of_one.bytes -= bytes;
        });
    }

    /// Waits for the turn of this file, which has arrived completely.
    ///
    /// # Errors
    /// When the service ends.
    pub(super) async fn place(&self) -> Result<WorkPermit, ApiError> {
        let turn = self.arrivals.with(self.user_id, |_, of_one| Arc::clone(&of_one.turn));
        let ended = |_| ApiError::imports_busy();
        let turn = turn.acquire_owned().await.map_err(ended)?;
        let place = Arc::clone(&self.arrivals.at_work).acquire_owned().await.map_err(ended)?;
        Ok(WorkPermit { _turn: turn, _place: place })
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.give_back(self.bytes);
        self.arrivals.with(self.user_id, |_, of_one| {
            of_one.files -= usize::from(self.is_file);
            of_one.bodies -= 1;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_meets_his_own_bound_and_leaves_room_for_others() {
        let arrivals = Arc::new(Arrivals::new(100));
        let (mut first, mut second, mut other) = (arrivals.begin(1), arrivals.begin(1), arrivals.begin(2));
        assert!(first.take(60).is_ok() && second.take(40).is_ok());
        assert!(second.take(1).is_err());
        assert!(other.take(100).is_ok());
        drop(first);
        assert!(second.take(60).is_ok());
        drop((second, other));
        assert!(arrivals.held.lock().is_ok_and(|held| held.bytes == 0 && held.users.is_empty()));
    }

    #[test]
    fn all_users_together_have_twice_as_much() {
        let arrivals = Arc::new(Arrivals::new(100));
        let mut bodies: Vec<Arriving> = (1..=3).map(|user_id| arrivals.begin(user_id)).collect();
        assert!(bodies[0].take(100).is_ok() && bodies[1].take(90).is_ok());
        assert!(bodies[2].take(10).is_ok() && bodies[2].take(1).is_err());
    }

    #[tokio::test]
    async fn one_import_of_a_user_works_at_a_time_and_a_third_file_is_refused() {
        let arrivals = Arc::new(Arrivals::new(100));
        let mut files: Vec<Arriving> = [1, 1, 1, 2].map(|user_id| arrivals.begin(user_id)).into();
        assert!(files[0].is_file().is_ok() && files[1].is_file().is_ok());
        assert!(files[2].is_file().is_err() && files[3].is_file().is_ok());
        let place = files[0].place().await.expect("a place");
        let mut waiting = Box::pin(files[1].place());
        assert!(futures::poll!(&mut waiting).is_pending());
        assert!(files[3].place().await.is_ok());
        drop(place);
        assert!(waiting.await.is_ok());
    }
}
