//! The present moment of a replica set or a sharded cluster, for questions that are to have one.
//!
//! The server keeps its history for `minSnapshotHistoryWindowInSeconds`, by default 300: longer than a request lasts.

use bson::Timestamp;

use super::Inner;
use super::dump::common_moment;
use super::error::{command_error, is_away, is_snapshot_lost};
use crate::store::{SCOPES, StoreError};

/// The present moment; none while the collections are new.
pub(super) async fn now(inner: &Inner) -> Result<Option<Timestamp>, StoreError> {
    let known = [SCOPES.to_owned()];
    let mut now = common_moment(inner, &known).await;
    if now.as_ref().is_err_and(is_away) {
        now = common_moment(inner, &known).await;
    }
    match now {
        Err(error) if is_snapshot_lost(&error) => Ok(None),
        outcome => outcome.map_err(|error| command_error(&error)),
    }
}
