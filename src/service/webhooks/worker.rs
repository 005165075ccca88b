//! Gives each active webhook its turns.
//!
//! On MongoDB one of several instances does it, the one with the lease. The embedded store has one process.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bson::DateTime;
use futures::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::parts::MOST_WEBHOOKS;
use super::turn::{End, take};
use crate::domain::document::integer;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::history::feed::Position;
use crate::service::services::Services;
use crate::service::upkeep::lease::{Holder, Lease, LeaseTimes, Work};
use crate::store::collections::WEBHOOKS;
use crate::store::{FindQuery, StoreError};

/// How often is looked what is due, and whether webhooks were changed by other instances.
const TICK: Duration = Duration::from_millis(500);
/// How long a webhook waits when the store failed.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// What is known of an active webhook.
#[derive(Default)]
struct Known {
    /// Nothing is to be sent up to here.
    done_to: Option<Position>,
    due_at: Option<DateTime>,
    /// Not before, because the store failed.
    not_before: Option<Instant>,
}

impl Known {
    fn is_due(&self, latest: Position, now: DateTime) -> bool {
        self.done_to.is_none_or(|done_to| done_to < latest)
            && self.due_at.is_none_or(|due_at| due_at <= now)
            && self.not_before.is_none_or(|not_before| not_before <= Instant::now())
    }
}

/// Works until `stop` says so, in a [`LocalSet`](tokio::task::LocalSet). Then it waits for the attempts that are under way.
pub async fn run(services: Arc<Services>, mut stop: watch::Receiver<bool>) {
    let (mut revision, mut is_out, holder) = (None, false, Holder::new());
    // One line for an outage, however long it takes.
    let mut failed = |error: Option<&StoreError>| {
        if let Some(error) = error.filter(|_| !is_out) {
            log::warn!("webhooks wait for the store: {error}");
        } else if error.is_none() && is_out {
            log::info!("webhooks go on");
        }
        is_out = error.is_some();
    };
    while !*stop.borrow() {
        let now = services.store.revision(WEBHOOKS);
        let mut is_needed = false;
        if revision != Some(now) {
            match active(&services).await {
                Ok(ids) => {
                    is_needed = !ids.is_empty();
                    revision = Some(now);
                    if !is_needed {
                        failed(None);
                    }
                }
                Err(error) => failed(Some(&error)),
            }
        }
        if is_needed {
            revision = None;
            failed(with_lease(&services, &holder, &mut stop).await.as_ref().err());
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn with_lease(
    services: &Arc<Services>,
    holder: &Holder,
    stop: &mut watch::Receiver<bool>,
) -> Result<(), StoreError> {
    if !services.store.is_remote() {
        return deliver(services, stop).await;
    }
    let (work, store) = ((Work::Webhooks, holder.clone()), &*services.store);
    let mut lease = tokio::select! {
        lease = Lease::acquire(work, store, LeaseTimes::default(), services.max_time) => lease?,
        _ = stop.changed() => return Ok(()),
    };
    let outcome = lease.during(deliver(services, stop)).await;
    lease.release().await;
    outcome
}

/// The ids of the active webhooks.
async fn active(services: &Services) -> Result<Vec<i64>, StoreError> {
    let query = FindQuery::new(Filter::equals("active", true), services.max_time).limited(MOST_WEBHOOKS);
    let found = services.store.find(WEBHOOKS, &query).await?;
    Ok(found.iter().filter_map(|webhook| integer(webhook, "public_id")).collect())
}

/// A turn that has ended.
struct Ended {
    id: i64,
    /// The revision of the webhooks when it began.
    revision: u64,
    /// The last position that was known then.
    latest: Position,
    /// Nothing after a panic.
    end: Option<Result<End, ServiceError>>,
}

/// Delivers until there is no active webhook, or `stop` says so.
async fn deliver(services: &Arc<Services>, stop: &mut watch::Receiver<bool>) -> Result<(), StoreError> {
    let mut latest = services.feed.position().await?;
    let mut changes = services.feed.follow(latest, None);
    let (mut known, mut running) = (HashMap::<i64, Known>::new(), HashSet::<i64>::new());
    let mut turns: JoinSet<Ended> = JoinSet::new();
    let mut revision = None;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stop.borrow() {
        let now = services.store.revision(WEBHOOKS);
        if revision != Some(now) {
            known = active(services).await?.into_iter().map(|id| (id, Known::default())).collect();
            revision = Some(now);
            if known.is_empty() && running.is_empty() {
                return Ok(());
            }
        }
        let time = services.now();
        for (id, webhook) in known.iter().filter(|(_, webhook)| webhook.is_due(latest, time)) {
            // A webhook has one turn at a time, whatever is changed meanwhile.
            if running.insert(*id) {
                turns.spawn_local(turn(Arc::clone(services), (*id, webhook.done_to), (now, latest), stop.clone()));
            }
        }
        tokio::select! {
            batch = changes.next(&services.feed) => latest = latest.max(batch?.end().unwrap_or(latest)),
            Some(Ok(ended)) = turns.join_next() => {
                running.remove(&ended.id);
                if let Some(webhook) = known.get_mut(&ended.id).filter(|_| ended.revision == now) {
                    *webhook = after(ended);
                }
            },
            _ = ticks.tick() => {}
            _ = stop.changed() => {}
        }
    }
    // What is under way is sent and noted.
    while turns.join_next().await.is_some() {}
    Ok(())
}

async fn turn(
    services: Arc<Services>,
    (id, done_to): (i64, Option<Position>),
    (revision, latest): (u64, Position),
    stop: watch::Receiver<bool>,
) -> Ended {
    let end = AssertUnwindSafe(take(&services, id, done_to, &stop)).catch_unwind().await.ok();
    Ended { id, revision, latest, end }
}

/// What is known of a webhook after its turn.
fn after(ended: Ended) -> Known {
    let failed = || Known { not_before: Some(Instant::now() + AFTER_FAILURE), ..Known::default() };
    match ended.end {
        // Not every position has an event.
        Some(Ok(End::Idle(position))) => Known { done_to: Some(position.max(ended.latest)), ..Known::default() },
        Some(Ok(End::Later(due_at))) => Known { due_at: Some(due_at), ..Known::default() },
        Some(Ok(End::Again)) => Known::default(),
        // Others see that it is off as soon as the revision moves.
        Some(Ok(End::Off)) => failed(),
        Some(Err(error)) => {
            log::warn!("webhook {}: {error}; it goes on in {} s", ended.id, AFTER_FAILURE.as_secs());
            failed()
        }
        None => {
            log::error!("webhook {}: a defect ended its turn; it goes on in {} s", ended.id, AFTER_FAILURE.as_secs());
            failed()
        }
    }
}
