//! A lease: one of several instances does the work, and the others wait.
//!
//! It is a document in `service.migrations`: `{_id, holder, beat}`. Its `_id` is the name of the lease. The holder
//! increases `beat` from time to time. A waiting instance that sees no change for long takes the lease over. No clocks
//! are compared, so they may differ. A holder that was only slow notices it at its next beat and stops. One that lost the
//! store, and stopped, takes its own lease over at once.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use bson::doc;
use bson::raw::{RawDocument, RawDocumentBuf};

use crate::domain::document::{integer, raw, text};
use crate::query::Filter;
use crate::store::collections::MIGRATIONS;
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// What a lease is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Preparing the store at a start.
    Migrations,
    /// Delivering to webhooks.
    Webhooks,
    /// Completing the index of words.
    Search,
    /// Changing objects after their type.
    TypeMigrations,
}

impl Work {
    /// The `_id` of the document.
    fn name(self) -> &'static str {
        match self {
            Self::Migrations => "lease",
            Self::Webhooks => "webhooks",
            Self::Search => "search",
            Self::TypeMigrations => "type_migrations",
        }
    }

    /// What it does, for messages.
    fn doing(self) -> &'static str {
        match self {
            Self::Migrations => "preparing the store",
            Self::Webhooks => "delivering to webhooks",
            Self::Search => "completing the index of words",
            Self::TypeMigrations => "changing objects after their type",
        }
    }
}

/// How a lease is kept.
#[derive(Debug, Clone, Copy)]
pub struct LeaseTimes {
    /// The interval of the holder's heartbeats.
    pub beat: Duration,
    /// Without a heartbeat for this long the holder counts as dead.
    pub abandoned_after: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self { beat: Duration::from_secs(3), abandoned_after: Duration::from_secs(30) }
    }
}

/// Who holds a lease: one caller of [`Lease::acquire`], which holds no other lease of this work meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Holder(String);

impl Holder {
    /// An owner's name that was never used before.
    pub(crate) fn new() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }

    fn has(&self, lease: &RawDocument) -> bool {
        text(lease, "holder") == Some(&self.0)
    }
}

/// A lease that is held.
pub(crate) struct Lease<'a> {
    work: Work,
    store: &'a dyn Store,
    times: LeaseTimes,
    holder: Holder,
    beat: i64,
    stored: RawDocumentBuf,
}

impl<'a> Lease<'a> {
    /// Waits until no other process holds it.
    ///
    /// # Errors
    /// As [`Store::find`] and [`Store::commit`].
    pub(crate) async fn acquire(
        (work, holder): (Work, Holder),
        store: &'a dyn Store,
        times: LeaseTimes,
        max_time: Duration,
    ) -> Result<Self, StoreError> {
        let (mut beat, mut own) = (0, document(work, &holder, 0));
        let mut seen: Option<(RawDocumentBuf, Instant)> = None;
        loop {
            let query = FindQuery::new(Filter::equals("_id", work.name()), max_time);
            let change = match store.first(MIGRATIONS, query).await? {
                None => Change::Insert { collection: MIGRATIONS, document: own.clone() },
                Some(now) if holder.has(&now) => {
                    // The last beat, or giving the lease back, may take effect late: then it must not find the document that
                    // it expects.
                    beat = integer(&now, "beat").unwrap_or_default() + 2;
                    own = document(work, &holder, beat);
                    Change::Replace { collection: MIGRATIONS, before: now, after: own.clone() }
                }
                Some(now) => match &seen {
                    Some((before, since)) if before.as_bytes() == now.as_bytes() => {
                        if since.elapsed() < times.abandoned_after {
                            tokio::time::sleep(times.beat / 4).await;
                            continue;
                        }
                        Change::Replace { collection: MIGRATIONS, before: before.clone(), after: own.clone() }
                    }
                    _ => {
                        if seen.is_none() {
                            log::info!(
                                "an instance is {}, or was before it ended or lost the store; waiting for its lease",
                                work.doing()
                            );
                        }
                        seen = Some((now, Instant::now()));
                        continue;
                    }
                },
            };
            match store.commit(Unit::of(change)).await {
                Ok(_) => return Ok(Self { work, store, times, holder, beat, stored: own }),
                // Another instance was faster.
                Err(StoreError::Duplicate { .. } | StoreError::Stale) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Does the work, with heartbeats meanwhile.
    ///
    /// # Errors
    /// Those of the work; [`StoreError::Unavailable`] when another process took the lease over.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                outcome = &mut work => return outcome,
                () = tokio::time::sleep(self.times.beat) => self.give_a_sign().await?,
            }
        }
    }

    async fn give_a_sign(&mut self) -> Result<(), StoreError> {
        self.beat += 1;
        let after = document(self.work, &self.holder, self.beat);
        let before = std::mem::replace(&mut self.stored, after.clone());
        match self.store.commit(Unit::of(Change::Replace { collection: MIGRATIONS, before, after })).await {
            Ok(_) => Ok(()),
            Err(StoreError::Stale) => {
                Err(StoreError::Unavailable { reason: format!("another instance took over {}", self.work.doing()) })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the lease up, so that others can take it.
    pub(crate) async fn release(self) {
        let delete = Change::Delete { collection: MIGRATIONS, before: self.stored };
        if let Err(error) = self.store.commit(Unit::of(delete)).await {
            // It is taken over when its time is up.
            log::warn!("the lease {} could not be given back: {error}", self.work.name());
        }
    }
}

fn document(work: Work, holder: &Holder, beat: i64) -> RawDocumentBuf {
    raw(&doc! {"_id": work.name(), "holder": &holder.0, "beat": beat})
}
