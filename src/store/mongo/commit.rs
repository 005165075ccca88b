//! Units: how changes and their conditions take effect together, one after the other.
//!
//! All units of all instances take effect in one order. Each transaction begins with a change of one document, the
//! [`super::order`]. Of two transactions that overlap one meets a write conflict there, and begins again after the other.
//! So conditions hold when a unit takes effect, without locks; and [`Numbered`](crate::store::Numbered) documents have numbers
//! in this order.
//!
//! A process has one transaction under way. Units that come meanwhile wait, and go into the next one together, so they share its
//! journey to the disks of a majority:
//!
//! 1. Take the units that wait, as long as none reads what another one changes, and no document is changed twice.
//! 2. Move the order, check the conditions, compare the documents to change with how they were read, change them, commit.
//! 3. A unit that is refused gets its answer, and the others begin again without it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::ClientSession;
use mongodb::error::TRANSIENT_TRANSACTION_ERROR;

use super::Inner;
use super::counters::{catch_up, ids_of_insertions, raise, raise_anyway};
use super::error::{Failure, command_error, unavailable};
use super::footprint::{Footprint, changed_collections};
use super::order::{self, Beat};
use super::rounds::{Asker, Rounds, refuse};
use super::transaction::{Refused, attempt};
use crate::store::{Change, StoreError, Unit};

/// How long a transaction is tried again while others conflict with it.
const BUDGET: Duration = Duration::from_secs(30);
const LONGEST_PAUSE_MS: u64 = 50;

/// The units that wait for a transaction.
pub(super) type Waiting = Rounds<Unit, Vec<u64>>;
type Waiter = Asker<Unit, Vec<u64>>;

/// Carries out a unit.
pub(super) async fn commit(inner: &Arc<Inner>, unit: Unit) -> Result<Vec<u64>, StoreError> {
    raise_counters(inner, &unit.changes).await?;
    let changed = changed_collections(&unit);
    let place = inner.waiting.join(unit);
    if place.serves {
        tokio::spawn(serve(Arc::clone(inner)));
    }
    let outcome = place.answer().await;
    // Also after a failure: a broken connection hides the outcome.
    for collection in changed {
        inner.revisions.bump(collection);
    }
    if let Err(StoreError::Duplicate { collection, key }) = &outcome
        && key == "public_id"
    {
        catch_up(inner, collection).await?;
    }
    outcome
}

/// The counter moves past a `public_id` that the client chose, before its document is stored.
async fn raise_counters(inner: &Inner, changes: &[Change]) -> Result<(), StoreError> {
    let mut highest: Vec<(&str, i64)> = Vec::new();
    for (collection, id) in ids_of_insertions(changes) {
        match highest.last_mut() {
            Some((of, highest)) if *of == collection => *highest = id.max(*highest),
            _ => highest.push((collection, id)),
        }
    }
    for (collection, id) in highest {
        raise(inner, collection, id).await?;
    }
    Ok(())
}

/// Carries out the units that wait, until none does.
async fn serve(inner: Arc<Inner>) {
    let mut waiting: VecDeque<Waiter> = VecDeque::new();
    let mut session = None;
    let serving = inner.waiting.serving();
    loop {
        waiting.extend(if waiting.is_empty() { inner.waiting.next() } else { inner.waiting.more() });
        let group = next_group(&mut waiting);
        if group.is_empty() {
            return serving.end();
        }
        match session_or(&inner, session.take()).await {
            Ok(own) => session = together(&inner, own, group).await,
            Err(error) => refuse(group, &error),
        }
    }
}

/// This session, or a new one.
async fn session_or(inner: &Inner, session: Option<ClientSession>) -> Result<ClientSession, StoreError> {
    match session {
        Some(session) => Ok(session),
        None => inner.database.client().start_session().await.map_err(|error| command_error(&error)),
    }
}

/// Carries out a group. Returns the session if it can be used again.
async fn together(inner: &Arc<Inner>, mut session: ClientSession, mut group: Vec<Waiter>) -> Option<ClientSession> {
    let _beat = Beat::begin(inner, session.id()).await;
    let began = Instant::now();
    let mut pause = 1;
    loop {
        let units: Vec<&Unit> = group.iter().map(|waiter| &waiter.question).collect();
        let failure = match attempt(inner, &mut session, &units, began + BUDGET).await {
            Ok(touched) => {
                for (waiter, touched) in group.into_iter().zip(touched) {
                    waiter.reply(Ok(touched));
                }
                return Some(session);
            }
            Err(Refused::Unit(index, error)) => {
                group.remove(index).reply(Err(error));
                if group.is_empty() {
                    return Some(session);
                }
                continue;
            }
            Err(Refused::Behind(counters)) => {
                // A lost primary took them back.
                for (collection, id) in counters {
                    if let Err(error) = raise_anyway(inner, collection, id).await {
                        refuse(group, &error);
                        return None;
                    }
                }
                continue;
            }
            // Carried out again, its units could find their own changes.
            Err(Refused::Unsure(failure)) => {
                refuse(group, &unavailable(format!("a transaction may have taken effect: {failure}")));
                return None;
            }
            Err(Refused::All(failure)) => failure,
        };
        if !failure.has_label(TRANSIENT_TRANSACTION_ERROR) {
            return each(inner, session, group, failure).await;
        }
        if began.elapsed() >= BUDGET {
            refuse(group, &unavailable(format!("a transaction found no quiet moment: {failure}")));
            return None;
        }
        order::end_abandoned(inner, began.elapsed()).await;
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..=pause))).await;
        pause = (pause * 2).min(LONGEST_PAUSE_MS);
    }
}

/// Carries out the units of a group that failed, each in a transaction of its own.
async fn each(
    inner: &Arc<Inner>,
    session: ClientSession,
    mut group: Vec<Waiter>,
    failure: Failure,
) -> Option<ClientSession> {
    let error = failure.into_store_error(&inner.indexes);
    if group.len() == 1 {
        group.remove(0).reply(Err(error));
        return None;
    }
    if matches!(error, StoreError::Unavailable { .. }) {
        refuse(group, &error);
        return None;
    }
    let (began, mut session) = (Instant::now(), Some(session));
    for waiter in group {
        let own = match session.take() {
            None if began.elapsed() >= BUDGET => Err(unavailable("units before it took too long")),
            own => session_or(inner, own).await,
        };
        match own {
            Ok(own) => session = Box::pin(together(inner, own, vec![waiter])).await,
            Err(error) => waiter.reply(Err(error)),
        }
    }
    session
}

/// Takes units from the front of the queue that can share a transaction.
fn next_group(waiting: &mut VecDeque<Waiter>) -> Vec<Waiter> {
    let (mut group, mut shared) = (Vec::new(), Footprint::default());
    while let Some(next) = waiting.front() {
        let footprint = Footprint::of(&next.question);
        if !group.is_empty() && !shared.has_place_for(&footprint) {
            break;
        }
        shared.add(footprint);
        group.extend(waiting.pop_front());
    }
    group
}
