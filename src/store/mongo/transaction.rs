//! The units of a group as one transaction.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use mongodb::ClientSession;
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::{ReadConcern, TransactionOptions};

use super::change::{Statement, statements};
use super::conditions::Checked;
use super::connect::write_concern;
use super::error::{Failure, at};
use super::{Inner, order};
use crate::store::copying::COUNTERS;
use crate::store::{Change, StoreError, Unit};

/// Why a transaction did not take effect, or may not have.
pub(super) enum Refused {
    /// This unit is refused; the others may take effect without it.
    Unit(usize, StoreError),
    /// All of them.
    All(Failure),
    /// All of them, until the counters of these collections are raised.
    Behind(Vec<(&'static str, i64)>),
    /// All of them, and the commit may have taken effect.
    Unsure(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::All(failure)
    }
}

/// Runs the transaction once. Returns how many documents each change of each unit touched.
///
/// Units that share a transaction change different documents, and none reads what another one changes.
pub(super) async fn attempt(
    inner: &Inner,
    session: &mut ClientSession,
    units: &[&Unit],
    until: Instant,
) -> Result<Vec<Vec<u64>>, Refused> {
    session.start_transaction().with_options(options(inner)).await.map_err(at(COUNTERS))?;
    match body(inner, session, units).await {
        Ok(touched) => {
            commit(session, until.max(Instant::now() + inner.write_bound())).await?;
            Ok(touched)
        }
        Err(refused) => {
            // The server ends abandoned transactions on its own, so a failure here is harmless.
            let _ = session.abort_transaction().await;
            Err(refused)
        }
    }
}

async fn body(inner: &Inner, session: &mut ClientSession, units: &[&Unit]) -> Result<Vec<Vec<u64>>, Refused> {
    let numbered = units.iter().flat_map(|unit| &unit.changes).filter_map(|change| match change {
        Change::Append(numbered) => Some(numbered),
        _ => None,
    });
    let mut next = order::advance(inner, session, numbered).await?;
    let checked = Checked::of(inner, session, units).await?;
    let behind = checked.behind(units, inner.topology);
    if !behind.is_empty() {
        return Err(Refused::Behind(behind));
    }
    for (index, unit) in units.iter().enumerate() {
        if let Err(failure) = checked.check(inner, session, &unit.conditions).await {
            return Err(of_unit(index, failure));
        }
    }
    let mut made: HashMap<(usize, usize), Vec<RawDocumentBuf>> = HashMap::new();
    for (unit, changes) in units.iter().map(|unit| &unit.changes).enumerate() {
        for (position, change) in changes.iter().enumerate() {
            if let Change::Append(numbered) = change {
                made.insert((unit, position), (numbered.documents)(next));
                next += i64::from(numbered.count);
            }
        }
    }
    let mut touched: Vec<Vec<u64>> = units.iter().map(|unit| vec![0; unit.changes.len()]).collect();
    for statement in statements(units, &made) {
        run(inner, session, &statement, &mut touched).await?;
    }
    Ok(touched)
}

async fn run(
    inner: &Inner,
    session: &mut ClientSession,
    statement: &Statement<'_>,
    touched: &mut [Vec<u64>],
) -> Result<(), Refused> {
    match statement.run(inner, session).await {
        Ok(counts) => {
            for ((unit, position), count) in statement.places().zip(counts) {
                touched[unit][position] += count;
            }
            Ok(())
        }
        Err((Some(unit), failure)) => Err(of_unit(unit, failure)),
        Err((None, failure)) => Err(Refused::All(failure)),
    }
}

/// A failure of the store is that of the unit, one of the server is that of the transaction.
fn of_unit(unit: usize, failure: Failure) -> Refused {
    match failure {
        Failure::Store(error) => Refused::Unit(unit, error),
        failure @ Failure::Driver { .. } => Refused::All(failure),
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
async fn commit(session: &mut ClientSession, until: Instant) -> Result<(), Refused> {
    loop {
        match session.commit_transaction().await {
            Ok(()) => return Ok(()),
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => return Err(at(COUNTERS)(error).into()),
            Err(error) => return Err(Refused::Unsure(at(COUNTERS)(error))),
        }
    }
}
