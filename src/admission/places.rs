//! Places of which one user may have only some, so that others have the rest: turns, files, streams, bytes that arrive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Denied;

/// The places of all users, and those of each.
#[derive(Debug)]
pub struct Places {
    all: Arc<Semaphore>,
    most_of_one: usize,
    users: Mutex<HashMap<i64, Arc<Semaphore>>>,
}

/// Some places of a user; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    own: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl Places {
    /// `all` places, of which one user has at most `most_of_one`.
    pub fn new(all: usize, most_of_one: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.min(Semaphore::MAX_PERMITS)));
        Self { all, most_of_one: most_of_one.min(Semaphore::MAX_PERMITS), users: Mutex::default() }
    }

    /// At most `most_of_one` places for each user, with no bound on all together.
    pub fn of_each(most_of_one: usize) -> Self {
        Self::new(usize::MAX, most_of_one)
    }

    /// The number of free places.
    pub fn free(&self) -> usize {
        self.all.available_permits()
    }

    /// Takes `count` places for a user, without waiting.
    ///
    /// # Errors
    /// [`Denied::Busy`] when the user, or all together, would have too many.
    pub fn take(&self, user_id: i64, count: usize) -> Result<Place, Denied> {
        let count = u32::try_from(count).map_err(|_| Denied::Busy)?;
        let some_of = |places: Arc<Semaphore>| places.try_acquire_many_owned(count).map_err(|_| Denied::Busy);
        Ok(Place { own: some_of(self.of(user_id))?, of_all: some_of(Arc::clone(&self.all))? })
    }

    /// Waits for one place, in the order of arrival: after others of the user first, so that each user has only as many in
    /// the common queue as may have a place.
    ///
    /// # Errors
    /// [`Denied::Busy`] when the service ends.
    pub async fn wait(&self, user_id: i64) -> Result<Place, Denied> {
        let one_of = async |places: Arc<Semaphore>| places.acquire_owned().await.map_err(|_| Denied::Busy);
        Ok(Place { own: one_of(self.of(user_id)).await?, of_all: one_of(Arc::clone(&self.all)).await? })
    }

    fn of(&self, user_id: i64) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let own = users.entry(user_id).or_insert_with(|| Arc::new(Semaphore::new(self.most_of_one)));
        Arc::clone(own)
    }
}

impl Place {
    /// Adds places of the same kind and user.
    pub fn merge(&mut self, more: Self) {
        self.own.merge(more.own);
        self.of_all.merge(more.of_all);
    }

    /// Frees this many of the places, or all.
    pub fn give_back(&mut self, count: usize) {
        let count = count.min(self.own.num_permits());
        drop((self.own.split(count), self.of_all.split(count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_some_places_and_all_together_have_more() {
        let places = Places::new(5, 3);
        let mut own = places.take(1, 2).expect("there are places");
        own.merge(places.take(1, 1).expect("there is one more"));
        assert!(matches!(places.take(1, 1), Err(Denied::Busy)));
        let other = places.take(2, 2).expect("the others are free");
        assert!(matches!(places.take(3, 1), Err(Denied::Busy)));
        own.give_back(1);
        assert!(places.take(3, 1).is_ok(), "a refused place takes nothing from its user");
        drop((own, other));
        assert_eq!(places.free(), 5);
        assert!(places.take(1, 3).is_ok());
    }

    #[tokio::test]
    async fn a_user_waits_behind_his_own_first() {
        let places = Places::new(2, 1);
        let first = places.wait(1).await.expect("a place");
        let mut second = Box::pin(places.wait(1));
        assert!(futures::poll!(&mut second).is_pending());
        assert!(places.wait(2).await.is_ok());
        drop(first);
        assert!(second.await.is_ok());
    }
}
