//! A turn of one webhook: sends the events after its cursor, until there is nothing more, or an attempt fails.
//!
//! - After a status from 200 to 299 the cursor moves past the event.
//! - After 410 the webhook pauses.
//! - After anything else the same event comes again, after a pause of [`PAUSES`], and the webhook says that attempts
//!   fail. So it does when the filter takes too long. After [`WINDOW`] without a success the webhook pauses.
//!
//! The cursor is stored with each attempt. Events that need no delivery move it too. That is stored only now and then: a
//! restart looks at them again.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{DateTime, Document};
use chrono::TimeDelta;
use serde_json::json;
use tokio::sync::watch;
use url::Url;

use super::documents::{Cursor, Delivery};
use super::question::Asked;
use super::signature::message;
use crate::domain::document::{flag, integer, text};
use crate::domain::webhook_input;
use crate::metrics;
use crate::outgoing::Outcome;
use crate::service::error::ServiceError;
use crate::service::history::changes::{Teller, heard};
use crate::service::history::events::described;
use crate::service::history::feed::{Batch, Position};
use crate::service::resource::{self, Resource, Webhooks};
use crate::service::services::Services;
use crate::store::collections::WEBHOOKS;
use crate::store::{Change, StoreError, Unit};

/// Between the attempts for one event, in seconds; the last one is repeated.
const PAUSES: [i64; 6] = [5, 30, 120, 600, 1800, 3600];
/// The time during which failed attempts are repeated.
const WINDOW: TimeDelta = TimeDelta::hours(24);
/// The number of entries read at a time, and held while one of them is sent.
const BATCH: u64 = 10;
/// Skipped events are noted when their number reaches this,
const SKIPPED: Position = 500;
/// or when the last note is so old. What is older than the cursor may be removed from the history.
const NOTED: TimeDelta = TimeDelta::hours(1);
/// The right that a webhook needs of its author.
const RIGHT: &str = "base.system.edit";

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// There is nothing after this position.
    Idle(Position),
    /// It is to be tried again at this time.
    Later(DateTime),
    /// The webhook is not active.
    Off,
    /// Another request changed the webhook meanwhile.
    Again,
}

/// Why a webhook is paused, for its readers: nothing of what its author alone may see.
#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("{}", webhook_input::NO_AUTHOR)]
    NoAuthor,
    #[error("its author no longer has the right {RIGHT}")]
    NoRight,
    #[error("its author may no longer see all of its resources")]
    NotSeen,
    #[error("its filter cannot be understood any more; a field may be gone")]
    Filter,
    #[error("its filter fails on a document")]
    FilterFails,
    #[error("its filter takes too long for a document, for 24 hours now")]
    FilterSlow,
    #[error("its secret is gone; make the webhook anew")]
    NoSecret,
    #[error("changes behind its cursor are no longer kept; replay sets the cursor")]
    HistoryGone,
    #[error("the receiver answered 410: it wants no more events")]
    Gone,
    #[error("no delivery succeeded for 24 hours; the last attempt: {}", .0.words())]
    Failing(Outcome),
}

/// Why a turn cannot continue.
enum Stop {
    End(End),
    Pause(Reason),
    Error(ServiceError),
}

impl<E: Into<ServiceError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

struct Turn<'a> {
    services: &'a Services,
    id: i64,
    /// The webhook as it is stored.
    stored: RawDocumentBuf,
    webhook: Document,
    cursor: Cursor,
    /// The revision of the webhooks when this one was read.
    revision: u64,
    stop: &'a watch::Receiver<bool>,
}

/// Takes a turn of the webhook. The caller follows the feed, so that positions settle. Up to `done_to` an earlier turn
/// found nothing to be sent. It ends early when `stop` says so, between two events.
pub(super) async fn take(
    services: &Services,
    id: i64,
    done_to: Option<Position>,
    stop: &watch::Receiver<bool>,
) -> Result<End, ServiceError> {
    let revision = services.store.revision(WEBHOOKS);
    let Some(stored) = resource::find::<Webhooks>(services, id).await? else { return Ok(End::Off) };
    if !flag(&stored, "active").unwrap_or(false) {
        return Ok(End::Off);
    }
    let webhook = resource::decode(&stored)?;
    let Some(cursor) = Cursor::of(services, id).await? else {
        return pause(services, id, (&stored, &webhook), Vec::new(), &Reason::NoSecret).await;
    };
    let author = integer(&stored, "author_id").unwrap_or_default();
    let turn = Turn { services, id, stored, webhook, cursor, revision, stop };
    turn.run(author, done_to).await
}

impl Turn<'_> {
    async fn run(mut self, author: i64, done_to: Option<Position>) -> Result<End, ServiceError> {
        match self.go_on(author, done_to).await {
            Ok(end) | Err(Stop::End(end)) => Ok(end),
            Err(Stop::Pause(reason)) => {
                pause(self.services, self.id, (&self.stored, &self.webhook), Vec::new(), &reason).await
            }
            Err(Stop::Error(error)) => Err(error),
        }
    }

    async fn go_on(&mut self, author: i64, done_to: Option<Position>) -> Result<End, Stop> {
        let services = self.services;
        if let Some(due_at) = self.cursor.due_at.filter(|due_at| *due_at > services.now()) {
            return Ok(End::Later(due_at));
        }
        // Also before events that are not for this webhook, so that readers see the state.
        self.asked(author).await?;
        let begin = self.cursor.position;
        self.cursor.position = begin.max(done_to.unwrap_or(begin));
        if self.cursor.position < services.feed.oldest().await? {
            return Err(Stop::Pause(Reason::HistoryGone));
        }
        loop {
            let asked = self.asked(author).await?;
            let heard = heard(services, &asked.eyes, &asked.question).await?;
            let (batch, end) = services.feed.after(self.cursor.position, BATCH, &heard).await?;
            for entry in batch.entries() {
                if *self.stop.borrow() || services.store.revision(WEBHOOKS) != self.revision {
                    return Ok(End::Again);
                }
                // What an event costs counts as its author's.
                services.admission.ticket(author).scope(self.handle(author, entry)).await?;
            }
            self.cursor.position = end;
            if batch.entries().is_empty() {
                self.note_skipped(begin).await?;
                return Ok(End::Idle(self.cursor.position));
            }
        }
    }

    /// What the webhook asks for, as its author may see it now.
    async fn asked(&self, author: i64) -> Result<Asked, Stop> {
        let caller = self.services.directory.caller(author).await?.ok_or(Stop::Pause(Reason::NoAuthor))?;
        if !caller.rights.grants(RIGHT) {
            return Err(Stop::Pause(Reason::NoRight));
        }
        match Asked::read(self.services, &caller, &self.webhook).await {
            Ok(asked) => Ok(asked),
            Err(ServiceError::Refused { .. }) => Err(Stop::Pause(Reason::NotSeen)),
            Err(ServiceError::Violations(_) | ServiceError::Query(_)) => Err(Stop::Pause(Reason::Filter)),
            Err(error) => Err(Stop::Error(error)),
        }
    }

    /// Sends one event, if it is one for this webhook, and moves the cursor past it.
    async fn handle(&mut self, author: i64, entry: &RawDocumentBuf) -> Result<(), Stop> {
        let asked = self.asked(author).await?;
        let batch = Batch::of(vec![entry.clone()]);
        let found = async {
            Teller::new(self.services, &asked.eyes, (&asked.question, asked.view), &batch).await?.next().await
        };
        let found = match found.await {
            Err(ServiceError::Query(_) | ServiceError::Store(StoreError::Query { .. })) => {
                return Err(Stop::Pause(Reason::FilterFails));
            }
            Err(ServiceError::Store(StoreError::Timeout)) => return self.failed(None, Reason::FilterSlow, []).await,
            found => found?,
        };
        if let Some(told) = found {
            let (resource, mut data) = described(self.services, &asked.eyes, asked.view, told).await?;
            data["resource"] = resource.as_str().into();
            let kind = data["kind"].as_str().unwrap_or_default();
            let body = json!({ "type": format!("{resource}.{kind}"), "timestamp": data["time"], "data": data });
            self.send(entry, &body).await?;
        }
        self.cursor.position = integer(entry, "sequence").unwrap_or_default();
        Ok(())
    }

    async fn send(&mut self, entry: &RawDocument, body: &serde_json::Value) -> Result<(), Stop> {
        let services = self.services;
        let (now, begun) = (services.clock.now(), services.clock.steady());
        let url = Url::parse(text(&self.stored, "url").unwrap_or_default());
        let url =
            url.map_err(|error| StoreError::Corrupt { what: format!("the url of webhook {}: {error}", self.id) })?;
        // The same for all attempts, so that receivers can drop repetitions. After a restored backup a sequence comes again
        // for another event, but its hash does not.
        let sequence = integer(entry, "sequence").unwrap_or_default();
        let hash = entry
            .get_binary("hash")
            .map_or_else(|_| String::new(), |hash| hex::encode(hash.bytes.get(..4).unwrap_or_default()));
        let message_id = format!("evt-{}-{sequence}-{hash}", self.id);
        let message = message(url, &self.cursor.secret, message_id.clone(), now, body);
        let message = message.ok_or(Stop::Pause(Reason::NoSecret))?;
        let outcome = services.webhooks.sender.send(message).await;
        let duration = services.clock.steady().saturating_sub(begun);
        let delivery = Delivery {
            message_id: &message_id,
            time: DateTime::from_chrono(now),
            duration_ms: i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
            outcome,
        };
        let record = self.cursor.note(self.id, &delivery);
        self.settle(sequence, outcome, record).await
    }

    /// Stores what came of an attempt.
    async fn settle(&mut self, sequence: Position, outcome: Outcome, record: [Change; 2]) -> Result<(), Stop> {
        let (services, now) = (self.services, self.services.now());
        let ended = |outcome: metrics::Delivery| services.webhooks.deliveries.note(outcome as usize);
        if outcome.is_delivered() {
            self.cursor.position = sequence;
            self.cursor.attempts = 0;
            (self.cursor.failing_since, self.cursor.due_at) = (None, None);
            let told = self.tell(None)?;
            self.commit(record.into_iter().chain(told), now).await?;
            ended(metrics::Delivery::Delivered);
            return Ok(());
        }
        let gone = (outcome == Outcome::Answered(410)).then_some(Reason::Gone);
        let stop = self.failed(gone, Reason::Failing(outcome), record).await;
        let is_paused = matches!(stop, Err(Stop::End(End::Off)));
        ended(if is_paused { metrics::Delivery::Paused } else { metrics::Delivery::Failed });
        stop
    }

    /// Stores that the event could not be sent. The webhook pauses for the reason `at_once`, or for `at_last` when nothing
    /// has succeeded for long.
    async fn failed(
        &mut self,
        at_once: Option<Reason>,
        at_last: Reason,
        record: impl IntoIterator<Item = Change>,
    ) -> Result<(), Stop> {
        let (services, now) = (self.services, self.services.now());
        let since = *self.cursor.failing_since.get_or_insert(now);
        let is_over = now.to_chrono() - since.to_chrono() >= WINDOW;
        let reason = at_once.or_else(|| is_over.then_some(at_last));
        let pause_s = PAUSES[usize::try_from(self.cursor.attempts).unwrap_or_default().min(PAUSES.len() - 1)];
        let due_at = DateTime::from_chrono(now.to_chrono() + TimeDelta::seconds(pause_s));
        self.cursor.attempts += 1;
        self.cursor.due_at = Some(due_at);
        if let Some(reason) = reason {
            let mut changes = vec![self.cursor.save(now)?];
            changes.extend(record);
            let end = pause(services, self.id, (&self.stored, &self.webhook), changes, &reason).await?;
            return Err(Stop::End(end));
        }
        let since = since.try_to_rfc3339_string().unwrap_or_default();
        let told = self.tell(Some(format!("attempts fail since {since}; its deliveries say why")))?;
        self.commit(record.into_iter().chain(told), now).await?;
        Err(Stop::End(End::Later(due_at)))
    }

    /// The change that has the webhook show whether attempts fail; none if it shows that already.
    fn tell(&mut self, failing: Option<String>) -> Result<Option<Change>, Stop> {
        if self.webhook.get_str("reason").is_ok() == failing.is_some() {
            return Ok(None);
        }
        self.webhook.insert("reason", failing);
        let after = resource::encode(&self.webhook)?;
        let before = std::mem::replace(&mut self.stored, after.clone());
        Ok(Some(Change::Replace { collection: Webhooks::COLLECTION, before, after }))
    }

    async fn commit(&mut self, record: impl IntoIterator<Item = Change>, now: DateTime) -> Result<(), Stop> {
        let mut unit = Unit::of(self.cursor.save(now)?);
        unit.changes.extend(record);
        match self.services.store.commit(unit).await {
            // Another request set the cursor, or removed the webhook.
            Err(StoreError::Stale) => Err(Stop::End(End::Again)),
            outcome => Ok(outcome.map(drop)?),
        }
    }

    async fn note_skipped(&mut self, begin: Position) -> Result<(), Stop> {
        let now = self.services.now();
        let skipped = self.cursor.position - begin;
        let is_old = now.to_chrono() - self.cursor.saved_at.to_chrono() >= NOTED;
        if skipped >= SKIPPED || (skipped > 0 && is_old) { self.commit([], now).await } else { Ok(()) }
    }
}

/// Pauses the webhook, with further changes.
async fn pause(
    services: &Services,
    id: i64,
    (stored, webhook): (&RawDocumentBuf, &Document),
    changes: Vec<Change>,
    reason: &Reason,
) -> Result<End, ServiceError> {
    let after = resource::encode(&webhook_input::paused(webhook, &reason.to_string()))?;
    let change = Change::Replace { collection: Webhooks::COLLECTION, before: stored.clone(), after };
    let mut unit = Unit::of(change);
    unit.changes.extend(changes);
    match services.store.commit(unit).await {
        Err(StoreError::Stale) => Ok(End::Again),
        Err(error) => Err(error.into()),
        Ok(_) => {
            log::warn!("webhook {id} is paused: {reason}");
            Ok(End::Off)
        }
    }
}
