//! Which moments can be asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use bson::DateTime;
use bson::raw::RawDocumentBuf;

use super::as_of::{AccessLists, Known};
use super::clocks::{self, latest};
use super::heads;
use super::kept::{last, last_before};
use super::past::{At, Back, LOOKS, Moment, Past, PastState, Visitor};
use super::resources::resource_of;
use crate::history::entry::state_of;
use crate::query::{Budget, Filter};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::Types;
use crate::store::{FindQuery, Store, StoreError};

/// Reads a moment: a sequence, or a time of RFC 3339. `name` is the parameter that has it.
///
/// # Errors
/// What is neither, the future, and [`ErrorCode::HistoryGone`].
pub async fn moment(services: &Services, name: &str, text: &str) -> Result<Moment, ServiceError> {
    let refused = |message: String| ServiceError::refused(ErrorCode::ParameterInvalid, format!("{name}: {message}"));
    let (time, sequence) = begun(services).await?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let wanted: i64 = text.parse().map_err(|_| refused(format!("{text} is too large for a sequence")))?;
        if !services.feed.has_stored(wanted) {
            let last = last(&*services.store, services.max_time).await?;
            if wanted > last {
                return Err(refused(format!("{text} is in the future; the last sequence is {last}")));
            }
        }
        return if wanted < sequence { Err(gone(time)) } else { Ok(Moment::Sequence(wanted)) };
    }
    let wanted = time_of(services, name, text, "the sequence of a log entry")?;
    if wanted < time { Err(gone(time)) } else { at_time(services, wanted).await.map(Moment::Time) }
}

/// The cursor of changes after this time: before all entries that may have come later.
///
/// # Errors
/// As [`moment`].
pub(super) async fn position_at(services: &Services, name: &str, text: &str) -> Result<i64, ServiceError> {
    let wanted = time_of(services, name, text, "a cursor of changes: the id of an event, or next of a page")?;
    let (since, oldest) = begun(services).await?;
    if wanted < since {
        return Err(gone(since));
    }
    let behind = DateTime::from_millis(wanted.timestamp_millis() + 1);
    let last = last_before(&*services.store, behind, services.max_time).await?.unwrap_or_default();
    Ok(last.max(oldest).max(at_time(services, wanted).await?.sequence))
}

/// Time and sequence from which on changes are kept. A history that was begun by a clock that was ahead has no such time.
async fn begun(services: &Services) -> Result<(DateTime, i64), ServiceError> {
    let (time, sequence) = services.feed.kept().await?.unwrap_or((DateTime::MIN, 0));
    Ok((if time > latest(services.now()) { DateTime::MIN } else { time }, sequence))
}

/// A time of the past. `other` is what the text may also be.
fn time_of(services: &Services, name: &str, text: &str, other: &str) -> Result<DateTime, ServiceError> {
    let refused = |message: String| ServiceError::refused(ErrorCode::ParameterInvalid, format!("{name}: {message}"));
    // Without a zone it is UTC, as in log entries.
    let in_utc = || chrono::DateTime::parse_from_rfc3339(&format!("{text}Z"));
    let wanted = chrono::DateTime::parse_from_rfc3339(text).or_else(|_| in_utc()).map_err(|_| {
        let example = meant(text);
        refused(format!("{text} is neither a time of RFC 3339, as {example}, nor {other}"))
    })?;
    let wanted = DateTime::from_chrono(wanted);
    if wanted > services.now() { Err(refused(format!("{text} is in the future"))) } else { Ok(wanted) }
}

async fn at_time(services: &Services, time: DateTime) -> Result<At, ServiceError> {
    let latest = latest(services.now());
    let sequence = clocks::made_before(&*services.store, time, services.max_time).await?;
    Ok(At { time, sequence, latest })
}

/// The time that a text probably stands for: a day begins in UTC, and a + that was sent unencoded has become a space.
fn meant(text: &str) -> String {
    let encoded = text.replace(' ', "+");
    if chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() {
        format!("{text}T00:00:00Z")
    } else if chrono::DateTime::parse_from_rfc3339(&encoded).is_ok() {
        encoded.replace('+', "%2B")
    } else {
        "2026-01-31T12:00:00Z".to_owned()
    }
}

fn gone(time: DateTime) -> ServiceError {
    let since = time.try_to_rfc3339_string().unwrap_or_default();
    ServiceError::refused(ErrorCode::HistoryGone, format!("the history goes back to {since} only"))
}

/// The services as of `moment`, for reading one resource. Refuses a moment before another tool changed it: what it was
/// then was not seen. An object that was hidden from the caller then counts as absent.
///
/// # Errors
/// [`ErrorCode::HistoryUnknown`], and errors of the store.
pub async fn as_of_read<R: Resource>(
    services: &Services,
    (caller, id): (&Caller, i64),
    moment: Moment,
    access: AccessLists,
) -> Result<Services, ServiceError> {
    let present = services.present().await?;
    let past = past_of::<R>((&*present.store, services.max_time), id, moment).await?;
    let known = Known { collection: R::COLLECTION, id, past: past.clone() };
    let then = services.before(present, (moment, Some(known)), access).await?;
    if let Some(past) = past {
        refuse_unless_hidden::<R>((services, &then), (caller, id), &past).await?;
    }
    Ok(then)
}

/// What one resource was, if it has changed since, with or without an entry.
async fn past_of<R: Resource>(
    (store, max_time): (&dyn Store, Duration),
    id: i64,
    moment: Moment,
) -> Result<Option<Past>, ServiceError> {
    let mut unseen = None;
    for _ in 0..LOOKS {
        let back = Back::new(store, R::COLLECTION, moment, max_time);
        let Only(past) = back.each(&[id], Only(None)).await?;
        if past.is_some() {
            return Ok(past);
        }
        // A change between the two questions has its entry at the next look.
        unseen = unseen_change::<R>((store, max_time), id).await?;
        if unseen.is_none() {
            break;
        }
    }
    Ok(unseen)
}

/// The past of one document.
struct Only(Option<Past>);

impl Visitor for Only {
    fn arrive(&mut self, _: i64, past: Past, _: &Budget) -> Result<(), StoreError> {
        self.0 = Some(past);
        Ok(())
    }
}

/// What was done to the document without an entry: by another tool, or just now.
async fn unseen_change<R: Resource>(
    (store, max_time): (&dyn Store, Duration),
    id: i64,
) -> Result<Option<Past>, ServiceError> {
    let Some(kind) = resource_of(R::COLLECTION) else { return Ok(None) };
    let heads = heads::of(store, &BTreeSet::from([(kind, id)]), max_time).await?;
    let Some(head) = heads.get(&(kind, id)) else { return Ok(None) };
    let present = store.first(R::COLLECTION, FindQuery::new(Filter::equals("public_id", id), max_time)).await?;
    let is_seen = head.state == present.as_deref().map(state_of);
    Ok((!is_seen).then(|| Past { state: PastState::Unknown, last: present.clone(), present }))
}

async fn refuse_unless_hidden<R: Resource>(
    (now, then): (&Services, &Services),
    (caller, id): (&Caller, i64),
    Past { state, last, present }: &Past,
) -> Result<(), ServiceError> {
    let types = now.types_of(present.as_deref()).await?;
    let types_then = then.types_of(last.as_deref()).await?;
    let is_object = R::COLLECTION == Objects::COLLECTION;
    let shows = |types: &Types, document: &Option<RawDocumentBuf>| {
        document.as_ref().is_some_and(|document| !is_object || types.shows(caller, document))
    };
    let is_hidden = !shows(&types_then, last);
    match state {
        PastState::Document(document) if !is_object || types_then.shows(caller, document) => Ok(()),
        PastState::Unknown if !is_hidden => {
            let message = format!(
                "nobody knows what {} {id} was then: another tool changed it since, or it was deleted on a full disk",
                R::NAME
            );
            Err(ServiceError::refused(ErrorCode::HistoryUnknown, message))
        }
        // Hidden then, or nothing: no difference shows.
        _ if shows(&types, present) || !is_hidden => {
            let message = format!("{} {id} was not there then; its history says since when it is", R::NAME);
            Err(ServiceError::refused(R::NOT_FOUND, message))
        }
        _ => Ok(()),
    }
}
