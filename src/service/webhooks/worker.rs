//! Gives each active webhook its turns.
//!
//! On MongoDB one of several instances does it, the one with the lease. The embedded store has one process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bson::DateTime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::parts::MOST_WEBHOOKS;
use super::turn::{End, take};
use crate::domain::document::integer;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::history::feed::Position;
use crate::service::lease::{Lease, LeaseTimes, Work};
use crate::service::services::Services;
use crate::store::collections::WEBHOOKS;
use crate::store::{FindQuery, StoreError};

/// How often is looked what is due, and whether webhooks were changed by other instances.
const TICK: Duration = Duration::from_millis(500);
/// How long a webhook waits when the store failed.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// What is known of an active webhook.
#[derive(Default)]
struct Known {
    is_running: bool,
    /// Nothing is to be sent up to here.
    done_to: Option<Position>,
    due_at: Option<DateTime>,
    /// Not before, because the store failed.
    not_before: Option<Instant>,
}

impl Known {
    fn is_due(&self, latest: Position, now: DateTime) -> bool {
        !self.is_running
            && self.done_to.is_none_or(|done_to| done_to < latest)
            && self.due_at.is_none_or(|due_at| due_at <= now)
            && self.not_before.is_none_or(|not_before| not_before <= Instant::now())
    }
}

/// Works until `stop` says so, in a [`LocalSet`](tokio::task::LocalSet). Then it waits for the attempts that are under way.
pub async fn run(services: Arc<Services>, mut stop: watch::Receiver<bool>) {
    let mut revision = None;
    while !*stop.borrow() {
        let now = services.store.revision(WEBHOOKS);
        let mut is_needed = false;
        if revision != Some(now) {
            match active(&services).await {
                Ok(ids) => {
                    is_needed = !ids.is_empty();
                    revision = Some(now);
                }
                Err(error) => log::warn!("webhooks cannot be read: {}", error.in_full()),
            }
        }
        if is_needed {
            revision = None;
            if let Err(error) = with_lease(&services, &mut stop).await {
                log::warn!("webhooks: {}", error.in_full());
            }
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn with_lease(services: &Arc<Services>, stop: &mut watch::Receiver<bool>) -> Result<(), StoreError> {
    if !services.store.is_remote() {
        return deliver(services, stop).await;
    }
    let mut lease = tokio::select! {
        lease = Lease::acquire(Work::Webhooks, &*services.store, LeaseTimes::default(), services.max_time) => lease?,
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

/// Delivers until there is no active webhook, or `stop` says so.
async fn deliver(services: &Arc<Services>, stop: &mut watch::Receiver<bool>) -> Result<(), StoreError> {
    let mut latest = services.feed.position().await?;
    let mut changes = services.feed.follow(latest);
    let mut known: HashMap<i64, Known> = HashMap::new();
    let mut turns: JoinSet<(i64, u64, Result<End, ServiceError>)> = JoinSet::new();
    let mut revision = None;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stop.borrow() {
        let now = services.store.revision(WEBHOOKS);
        if revision != Some(now) {
            let ids = active(services).await?;
            if ids.is_empty() && turns.is_empty() {
                return Ok(());
            }
            known = ids
                .into_iter()
                .map(|id| (id, Known { is_running: known.get(&id).is_some_and(|it| it.is_running), ..Known::default() }))
                .collect();
            revision = Some(now);
        }
        let time = services.now();
        for (id, webhook) in known.iter_mut().filter(|(_, webhook)| webhook.is_due(latest, time)) {
            webhook.is_running = true;
            let (services, id, stop) = (Arc::clone(services), *id, stop.clone());
            turns.spawn_local(async move { (id, now, take(&services, id, &stop).await) });
        }
        tokio::select! {
            events = changes.next(&services.feed) => {
                latest = latest.max(events?.last().map_or(latest, |event| event.sequence()));
            }
            Some(ended) = turns.join_next() => match ended {
                Ok((id, begun, end)) => note(&mut known, id, begun == now, end),
                Err(error) => {
                    log::error!("webhooks: a turn ended: {error}");
                    revision = None;
                    known.clear();
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

/// Notes how a turn ended. Of one that began before the last change of webhooks only the end is known.
fn note(known: &mut HashMap<i64, Known>, id: i64, is_current: bool, end: Result<End, ServiceError>) {
    let Some(webhook) = known.get_mut(&id) else { return };
    *webhook = Known::default();
    match end {
        Ok(_) if !is_current => {}
        Ok(End::Idle(position)) => webhook.done_to = Some(position),
        Ok(End::Later(due_at)) => webhook.due_at = Some(due_at),
        // The revision moves, and the webhook is no longer among the active ones.
        Ok(End::Off | End::Again) => {}
        Err(error) => {
            log::warn!("webhook {id}: {error}; it goes on in {} s", AFTER_FAILURE.as_secs());
            webhook.not_before = Some(Instant::now() + AFTER_FAILURE);
        }
    }
}
