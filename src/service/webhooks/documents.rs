//! The documents of webhooks that no client writes: cursors, and records of deliveries.

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, doc};

use crate::auth::Secret;
use crate::domain::document::{integer, raw, text};
use crate::outgoing::Outcome;
use crate::query::{Filter, Update};
use crate::service::error::ServiceError;
use crate::service::history::feed::Position;
use crate::service::services::Services;
use crate::store::collections::{WEBHOOK_CURSORS, WEBHOOK_DELIVERIES};
use crate::store::{Change, FindQuery};

/// The maximum number of records kept of a webhook.
pub(super) const MOST_DELIVERIES: i64 = 200;

/// Where a webhook is.
pub(super) struct Cursor {
    /// The document as it is stored.
    stored: RawDocumentBuf,
    pub(super) secret: Secret,
    /// The position after the last event that was delivered, or needed no delivery.
    pub(super) position: Position,
    /// When that was stored.
    pub(super) saved_at: DateTime,
    /// How many attempts there were, ever.
    pub(super) number: i64,
    /// How many of them failed since the last delivery.
    pub(super) attempts: i64,
    pub(super) failing_since: Option<DateTime>,
    pub(super) due_at: Option<DateTime>,
}

/// A record of an attempt.
pub(super) struct Delivery<'a> {
    pub(super) message_id: &'a str,
    pub(super) time: DateTime,
    pub(super) duration_ms: i64,
    pub(super) outcome: Outcome,
}

impl Cursor {
    /// The change that stores the cursor of a new webhook.
    pub(super) fn begin(webhook: i64, secret: &Secret, position: Position, now: DateTime) -> Change {
        let document = raw(&doc! {
            "_id": ObjectId::new(),
            "public_id": webhook,
            "secret": secret.expose(),
            "position": position,
            "saved_at": now,
            "number": 0_i64,
            "attempts": 0_i64,
            "failing_since": Bson::Null,
            "due_at": Bson::Null,
        });
        Change::Insert { collection: WEBHOOK_CURSORS, document }
    }

    /// The cursor of a webhook, if it is there.
    pub(super) async fn of(services: &Services, webhook: i64) -> Result<Option<Self>, ServiceError> {
        let query = FindQuery::new(Filter::equals("public_id", webhook), services.max_time);
        Ok(services.store.first(WEBHOOK_CURSORS, query).await?.and_then(|stored| {
            Some(Self {
                secret: Secret::new(text(&stored, "secret")?),
                position: integer(&stored, "position")?,
                saved_at: stored.get_datetime("saved_at").unwrap_or(DateTime::MIN),
                number: integer(&stored, "number")?,
                attempts: integer(&stored, "attempts").unwrap_or_default(),
                failing_since: stored.get_datetime("failing_since").ok(),
                due_at: stored.get_datetime("due_at").ok(),
                stored,
            })
        }))
    }

    /// The change that stores it as it is now.
    pub(super) fn save(&mut self, now: DateTime) -> Result<Change, ServiceError> {
        self.saved_at = now;
        let mut after = crate::service::resource::decode(&self.stored)?;
        after.extend(doc! {
            "position": self.position,
            "saved_at": now,
            "number": self.number,
            "attempts": self.attempts,
            "failing_since": self.failing_since,
            "due_at": self.due_at,
        });
        let after = raw(&after);
        let before = std::mem::replace(&mut self.stored, after.clone());
        Ok(Change::Replace { collection: WEBHOOK_CURSORS, before, after })
    }

    /// The changes that note an attempt: the record, and the end of older ones.
    pub(super) fn note(&mut self, webhook: i64, delivery: &Delivery<'_>) -> [Change; 2] {
        self.number += 1;
        let document = raw(&doc! {
            "_id": ObjectId::new(),
            "webhook_id": webhook,
            "number": self.number,
            "message_id": delivery.message_id,
            "attempt": self.attempts + 1,
            "time": delivery.time,
            "duration_ms": delivery.duration_ms,
            "delivered": delivery.outcome.is_delivered(),
            "status": delivery.outcome.status().map(i64::from),
            "outcome": delivery.outcome.words(),
        });
        let old = doc! { "webhook_id": webhook, "number": { "$lte": self.number - MOST_DELIVERIES } };
        [
            Change::Insert { collection: WEBHOOK_DELIVERIES, document },
            Change::DeleteMany { collection: WEBHOOK_DELIVERIES, filter: Filter::ours(&old) },
        ]
    }
}

/// The change that has a webhook tried at once, as if nothing had failed.
pub(super) fn retry_now(webhook: i64) -> Change {
    updated(webhook, nothing_failed())
}

/// The change that sets the cursor, and has the webhook tried at once.
pub(super) fn go_to(webhook: i64, position: Position, now: DateTime) -> Change {
    updated(webhook, nothing_failed().and_set("position", position).and_set("saved_at", now))
}

fn nothing_failed() -> Update {
    Update::set("attempts", 0_i64).and_set("failing_since", Bson::Null).and_set("due_at", Bson::Null)
}

fn updated(webhook: i64, update: Update) -> Change {
    Change::UpdateMany { collection: WEBHOOK_CURSORS, filter: Filter::equals("public_id", webhook), update }
}

/// The changes that remove what the service keeps of a webhook.
pub(super) fn forget(webhook: i64) -> [Change; 2] {
    [
        Change::DeleteMany { collection: WEBHOOK_CURSORS, filter: Filter::equals("public_id", webhook) },
        Change::DeleteMany { collection: WEBHOOK_DELIVERIES, filter: Filter::equals("webhook_id", webhook) },
    ]
}
