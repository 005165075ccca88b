//! A unit as one transaction, if the deployment has them.

use std::time::{Duration, Instant};

use mongodb::ClientSession;
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::{ReadConcern, TransactionOptions};

use super::Inner;
use super::change::{Failure, apply, at, commands};
use super::conditions::{Scopes, check};
use super::connect::write_concern;
use super::error::unavailable;
use super::marks::{Marks, REMOVALS};
use crate::store::{Change, Condition};

/// How long all attempts together may take before the last one begins.
const BUDGET: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// One transaction, in this order: remove `marks`, check `conditions`, make `changes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transaction<'a> {
    pub(super) marks: Option<&'a Marks>,
    pub(super) conditions: &'a [Condition],
    pub(super) changes: &'a [Change],
}

impl Transaction<'_> {
    /// Runs it until it commits or fails. Conflicting writes of others make it start again.
    pub(super) async fn run(self, inner: &Inner, session: &mut ClientSession) -> Result<Vec<u64>, Failure> {
        let until = Instant::now() + BUDGET;
        let mut pause = Duration::from_millis(2);
        loop {
            let failure = match self.attempt(inner, session, until).await {
                Ok(touched) => return Ok(touched),
                Err(failure) => failure,
            };
            if !failure.has_label(TRANSIENT_TRANSACTION_ERROR) {
                return Err(failure);
            }
            if Instant::now() >= until {
                return Err(unavailable(format!(
                    "a transaction found no quiet moment: {failure}; that of a command that was killed is over within a minute"
                )).into());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(self, inner: &Inner, session: &mut ClientSession, until: Instant) -> Result<Vec<u64>, Failure> {
        session.start_transaction().with_options(options(inner)).await.map_err(at(REMOVALS))?;
        match self.body(inner, session).await {
            Ok(touched) => {
                commit(session, until).await?;
                Ok(touched)
            }
            Err(failure) => {
                // The server ends abandoned transactions by itself, so a failure here is harmless.
                let _ = session.abort_transaction().await;
                Err(failure)
            }
        }
    }

    async fn body(self, inner: &Inner, session: &mut ClientSession) -> Result<Vec<u64>, Failure> {
        if let Some(marks) = self.marks {
            marks.release(inner, session).await?;
        }
        check(inner, session, self.conditions, Scopes::Advance).await?;
        let mut touched = Vec::with_capacity(self.changes.len());
        for command in commands(self.changes) {
            touched.append(&mut apply(inner, session, command).await?);
        }
        Ok(touched)
    }
}

fn options(inner: &Inner) -> TransactionOptions {
    TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .write_concern(write_concern(&inner.options))
        .max_commit_time(inner.write_bound())
        .build()
}

/// Commits, and repeats the commit if the answer was lost. The server recognises the same commit.
async fn commit(session: &mut ClientSession, until: Instant) -> Result<(), Failure> {
    loop {
        match session.commit_transaction().await {
            Ok(()) => return Ok(()),
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return Err(at(REMOVALS)(error)),
        }
    }
}
