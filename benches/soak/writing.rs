//! A client that writes: it creates objects, changes most of them, deletes some, and notes what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::api::{Api, Outcome, object};
use crate::harness::timing::Error;
use crate::ledger::Ledger;

/// A writer; of several on one ledger each has a name of its own.
pub(crate) struct Writer {
    api: Api,
    type_id: i64,
    name: String,
    number: usize,
    /// What was created and is to be changed: key and id.
    created: Option<(String, i64)>,
    ledger: Arc<Ledger>,
    tally: Arc<Tally>,
}

/// Counts of requests, from which the number of objects follows: what was begun may have happened, what was acknowledged has.
#[derive(Default)]
pub(crate) struct Tally {
    creating: AtomicU64,
    created: AtomicU64,
    deleting: AtomicU64,
    deleted: AtomicU64,
    acknowledged: AtomicU64,
}

/// A look at a [`Tally`], before a question.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    created: u64,
    deleted: u64,
}

impl Tally {
    /// How many writes were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(crate) fn before(&self) -> Before {
        Before { created: self.created.load(Ordering::SeqCst), deleted: self.deleted.load(Ordering::SeqCst) }
    }

    /// The least and the most objects that there were at any moment since then.
    pub(crate) fn since(&self, before: Before) -> (u64, u64) {
        let least = before.created.saturating_sub(self.deleting.load(Ordering::SeqCst));
        (least, self.creating.load(Ordering::SeqCst).saturating_sub(before.deleted))
    }
}

impl Writer {
    pub(crate) fn new(api: Api, type_id: i64, name: String, ledger: &Arc<Ledger>, tally: &Arc<Tally>) -> Self {
        Self { api, type_id, name, number: 0, created: None, ledger: Arc::clone(ledger), tally: Arc::clone(tally) }
    }

    /// Sends the next request; returns what came instead of an acknowledgement.
    ///
    /// # Errors
    /// As [`Api::send`].
    pub(crate) async fn step(&mut self) -> Result<Option<Outcome>, Error> {
        let refused = match self.created.take() {
            None => self.create().await?,
            Some((key, id)) => self.change(&key, id).await?,
        };
        if refused.is_none() {
            count(&self.tally.acknowledged);
        }
        Ok(refused)
    }

    async fn create(&mut self) -> Result<Option<Outcome>, Error> {
        let key = format!("{}-{}", self.name, self.number);
        self.number += 1;
        count(&self.tally.creating);
        let outcome = self.api.send("POST", "/objects/", Some(&object(self.type_id, &key, "new"))).await?;
        let Outcome::Answer(200, said) = outcome else {
            self.ledger.uncertain(&key, Some("new"));
            return Ok(Some(outcome));
        };
        count(&self.tally.created);
        let id = said["result_id"].as_i64().ok_or("no id")?;
        self.ledger.acknowledged(&key, id, Some("new"));
        self.created = (!self.number.is_multiple_of(4)).then_some((key, id));
        Ok(None)
    }

    async fn change(&mut self, key: &str, id: i64) -> Result<Option<Outcome>, Error> {
        let path = format!("/objects/{id}");
        let deletes = self.number % 4 == 3;
        let (method, body, value) = if deletes {
            count(&self.tally.deleting);
            ("DELETE", None, None)
        } else {
            ("PUT", Some(object(self.type_id, key, "changed")), Some("changed"))
        };
        let outcome = self.api.send(method, &path, body.as_ref()).await?;
        let Outcome::Answer(200, _) = outcome else {
            self.ledger.uncertain(key, value);
            return Ok(Some(outcome));
        };
        if deletes {
            count(&self.tally.deleted);
        }
        self.ledger.acknowledged(key, id, value);
        Ok(None)
    }
}

fn count(number: &AtomicU64) {
    number.fetch_add(1, Ordering::SeqCst);
}
