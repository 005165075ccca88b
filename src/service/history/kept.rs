//! How far the history goes back, and which moments can be asked for.

use std::time::Duration;

use bson::{DateTime, Document, doc};

use super::past::Moment;
use crate::domain::document::raw;
use crate::query::{Filter, Limits, Sort};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::services::Services;
use crate::store::collections::{HISTORY, LOGS};
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// The document of [`HISTORY`] that says since when changes are kept: `{_id: "kept", time, sequence}`. States of later
/// moments are known, and entries after this sequence are there.
const KEPT: &str = "kept";

/// Begins the history of a store at `now`, unless it has begun.
///
/// # Errors
/// Errors of the store.
pub async fn begin(store: &dyn Store, now: DateTime, max_time: Duration) -> Result<(), StoreError> {
    if kept(store, max_time).await?.is_some() {
        return Ok(());
    }
    let document = raw(&doc! { "_id": KEPT, "time": now, "sequence": 0_i64 });
    match store.commit(Unit::of(Change::Insert { collection: HISTORY, document })).await {
        // Another instance was faster.
        Ok(_) | Err(StoreError::Duplicate { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) async fn kept(store: &dyn Store, max_time: Duration) -> Result<Option<(DateTime, i64)>, StoreError> {
    let query = FindQuery::new(Filter::equals("_id", KEPT), max_time).limited(1);
    let found = store.find(HISTORY, &query).await?;
    Ok(found.first().and_then(|kept| Some((kept.get_datetime("time").ok()?, kept.get_i64("sequence").ok()?))))
}

/// The last sequence; 0 without entries.
pub(super) async fn last(store: &dyn Store, max_time: Duration) -> Result<i64, StoreError> {
    let query = FindQuery::new(has_sequence(), max_time).sorted(Sort::by("sequence", true)).limited(1);
    let found = store.find(LOGS, &query).await?;
    Ok(found.first().and_then(|entry| entry.get_i64("sequence").ok()).unwrap_or_default())
}

/// The entries of this service, for their index: DATAGERRY's have no sequence.
pub(super) fn has_sequence() -> Filter {
    let document: Document = doc! { "sequence": { "$exists": true } };
    Filter::parse(&document, &Limits::NONE).expect("the condition is made of known operators")
}

/// Reads a moment: a sequence, or a time of RFC 3339. `name` is the parameter that has it.
///
/// # Errors
/// What is neither, the future, and [`ErrorCode::HistoryGone`].
pub async fn moment(services: &Services, name: &str, text: &str) -> Result<Moment, ServiceError> {
    let refused = |message: String| ServiceError::refused(ErrorCode::ParameterInvalid, format!("{name}: {message}"));
    let (store, max_time) = (&*services.store, services.max_time);
    let (time, sequence) = kept(store, max_time).await?.unwrap_or((DateTime::MIN, 0));
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let wanted: i64 = text.parse().map_err(|_| refused(format!("{text} is too large for a sequence")))?;
        let last = last(store, max_time).await?;
        if wanted > last {
            return Err(refused(format!("{text} is in the future; the last sequence is {last}")));
        }
        return if wanted < sequence { Err(gone(time)) } else { Ok(Moment::Sequence(wanted)) };
    }
    let wanted = chrono::DateTime::parse_from_rfc3339(text).map_err(|_| {
        refused(format!(
            "{text} is neither a time of RFC 3339, as 2026-01-31T12:00:00Z, nor the sequence of a log entry"
        ))
    })?;
    let wanted = DateTime::from_chrono(wanted);
    if wanted > services.now() {
        return Err(refused(format!("{text} is in the future")));
    }
    if wanted < time { Err(gone(time)) } else { Ok(Moment::Time(wanted)) }
}

fn gone(time: DateTime) -> ServiceError {
    let since = time.try_to_rfc3339_string().unwrap_or_default();
    ServiceError::refused(ErrorCode::HistoryGone, format!("the history goes back to {since} only"))
}
