//! The quota of request bodies that arrive: a bound on their memory, for all users and per user.
//!
//! A body counts by the bytes that have arrived, so a slow client takes nothing from others. One user gets one half, so
//! a user who sends many large bodies at once leaves room for all others.

use std::sync::Arc;

use super::error::ApiError;
use crate::admission::{Place, Places};

/// How many imports may run at once, of one user one; each holds its file and its objects in memory.
const AT_WORK: usize = 2;

/// How many files per user may be arriving, waiting or running.
const FILES_PER_USER: usize = 2;

/// The quota, and what of it is in use.
pub struct BodyQuota {
    bytes: Places,
    files: Places,
    work: Places,
}

/// A body of a user; its bytes count until this is dropped.
pub(super) struct Arriving {
    quota: Arc<BodyQuota>,
    user_id: i64,
    bytes: Option<Place>,
    file: Option<Place>,
}

impl BodyQuota {
    /// Arriving bodies of one user have at most this many bytes; those of all users twice as many.
    pub fn new(most: usize) -> Self {
        let bytes = Places::new(most.saturating_mul(2), most);
        Self { bytes, files: Places::of_each(FILES_PER_USER), work: Places::new(AT_WORK, 1) }
    }

    /// A body begins.
    pub(super) fn begin(self: &Arc<Self>, user_id: i64) -> Arriving {
        Arriving { quota: Arc::clone(self), user_id, bytes: None, file: None }
    }
}

impl Arriving {
    /// The body is a file.
    ///
    /// # Errors
    /// 503 when the user already sends the maximum number of files.
    pub(super) fn is_file(&mut self) -> Result<(), ApiError> {
        let file = self.quota.files.take(self.user_id, 1);
        self.file = Some(file.map_err(|_| ApiError::imports_busy())?);
        Ok(())
    }

    /// Counts bytes that have arrived.
    ///
    /// # Errors
    /// 503 when the arriving bodies of the user, or of all users, exceed their bound.
    pub(super) fn take(&mut self, more: usize) -> Result<(), ApiError> {
        let more = self.quota.bytes.take(self.user_id, more).map_err(|_| ApiError::bodies_busy())?;
        match &mut self.bytes {
            Some(bytes) => bytes.merge(more),
            bytes => *bytes = Some(more),
        }
        Ok(())
    }

    /// Releases this many of the bytes.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.bytes.iter_mut().for_each(|held| held.give_back(bytes));
    }

    /// Waits for the turn of this file, which has arrived completely.
    ///
    /// # Errors
    /// When the service ends.
    pub(super) async fn place(&self) -> Result<Place, ApiError> {
        self.quota.work.wait(self.user_id).await.map_err(|_| ApiError::imports_busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_meets_his_own_bound_and_leaves_room_for_others() {
        let quota = Arc::new(BodyQuota::new(100));
        let (mut first, mut second, mut other) = (quota.begin(1), quota.begin(1), quota.begin(2));
        assert!(first.take(60).is_ok() && second.take(40).is_ok());
        assert!(second.take(1).is_err());
        assert!(other.take(100).is_ok());
        drop(first);
        assert!(second.take(60).is_ok());
        drop((second, other));
        assert_eq!(quota.bytes.free(), 200);
    }

    #[test]
    fn all_users_together_have_twice_as_much() {
        let quota = Arc::new(BodyQuota::new(100));
        let mut bodies: Vec<Arriving> = (1..=3).map(|user_id| quota.begin(user_id)).collect();
        assert!(bodies[0].take(100).is_ok() && bodies[1].take(90).is_ok());
        assert!(bodies[2].take(10).is_ok() && bodies[2].take(1).is_err());
    }

    #[tokio::test]
    async fn one_import_of_a_user_works_at_a_time_and_a_third_file_is_refused() {
        let quota = Arc::new(BodyQuota::new(100));
        let mut files: Vec<Arriving> = [1, 1, 1, 2].map(|user_id| quota.begin(user_id)).into();
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
