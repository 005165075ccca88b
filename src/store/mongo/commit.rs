//! Units: how several changes and their conditions take effect together.
//!
//! # The problem
//!
//! An object is inserted given that its type exists, while its type is deleted given that no object of it exists. The two write
//! different documents, so neither a transaction nor a unique index keeps them apart: each would see the state before the
//! other. And the first of them is the most frequent write of all, so it must not wait for others of its kind.
//!
//! # The protocol
//!
//! - The *remover* (rare) puts a mark on the document that it will remove, and only then looks whether anything relies on it.
//! - The one who *relies* (frequent) stores its documents first, and only then looks whether what it relies on is there and
//!   unmarked. No mark: done, with one question more than a bare insert. A mark: it waits until the mark is gone and looks again;
//!   the document gone, too: it takes its own documents back, and the condition does not hold.
//!
//! Each side writes, and then reads what the other one writes. All writes are confirmed by a majority, and the reads belong to
//! the same causally consistent session as the write before them: a read sees everything that was written before its session's last
//! write. So of two units that overlap, at least one sees the other, whichever wrote first. A standalone server has one order of
//! all operations, there the same follows without sessions.
//!
//! The remover checks its condition in the transaction that also deletes the document and takes down its mark. Whoever
//! cleared the mark in the meantime (as abandoned) makes that transaction fail. Without transactions each
//! step begins by renewing the mark.
//!
//! Why marks are documents of their own: see [`marks`](super::marks). Why nothing is swept after a removal: what a process
//! stored and died over before it looked for the mark was never acknowledged, and cannot be told from what another tool
//! stored on purpose. Before the removal takes effect such a document counts, and refuses it; after it, it is an
//! object without type, which reads as one.
//!
//! # Which unit goes which way
//!
//! | Unit | Way |
//! |---|---|
//! | one change of one document, no condition | the bare command |
//! | inserts, or one replace, with `Exists` | optimistic: change, look, take back if need be |
//! | `None`; many documents changed beside a removal; anything else with `Exists` | exclusive: marks first, then a transaction |
//! | `Unchanged` | in the transaction; two of one scope write the same counter document, so one of them starts anew and sees it moved |
//! | everything else | a transaction |
//!
//! On a standalone server `Unchanged` marks its scope, and [`steps`](super::steps) take the place of the transaction.

use std::collections::BTreeSet;

use bson::Bson;
use mongodb::ClientSession;

use super::Inner;
use super::change::{Failure, apply, collection_of, commands, id_of};
use super::conditions::{Scopes, advance_scopes, broken, check, look, relies};
use super::counters::{catch_up, raise, whole_number};
use super::error::command_error;
use super::marks::{Key, Marks, Wait, clear_abandoned};
use super::steps::{self, inverse};
use super::transaction::Transaction;
use crate::store::{Change, Condition, SCOPES, StoreError, Unit};

/// Carries out a unit.
pub(super) async fn commit(inner: &Inner, unit: &Unit) -> Result<Vec<u64>, StoreError> {
    raise_counters(inner, &unit.changes).await?;
    let mut session = inner.database.client().start_session().await.map_err(|error| command_error(&error))?;
    let outcome = run(inner, &mut session, unit).await.map_err(|failure| failure.into_store_error(&inner.indexes));
    // Also after a failure: a broken connection does not tell what happened, and what is taken back was there for a moment.
    for collection in unit.changes.iter().map(collection_of).collect::<BTreeSet<_>>() {
        inner.revisions.bump(collection);
    }
    if unit.conditions.iter().any(|condition| matches!(condition, Condition::Unchanged { .. })) {
        inner.revisions.bump(SCOPES);
    }
    if let Err(StoreError::Duplicate { collection, key }) = &outcome
        && key == "public_id"
    {
        catch_up(inner, collection).await?;
    }
    outcome
}

/// Before a document with a `public_id` of the client's choice is stored, the counter moves past it.
async fn raise_counters(inner: &Inner, changes: &[Change]) -> Result<(), StoreError> {
    let mut highest: Vec<(&str, i64)> = Vec::new();
    for command in commands(changes) {
        let ids = command.iter().filter_map(|change| match change {
            Change::Insert { document, .. } => public_id(document),
            _ => None,
        });
        if let (Some(change), Some(id)) = (command.first(), ids.max()) {
            highest.push((collection_of(change), id));
        }
    }
    for (collection, id) in highest {
        raise(inner, collection, id).await?;
    }
    Ok(())
}

fn public_id(document: &bson::RawDocument) -> Option<i64> {
    let id = document.get("public_id").ok().flatten()?;
    Bson::try_from(id).ok().as_ref().and_then(whole_number)
}

async fn run(inner: &Inner, session: &mut ClientSession, unit: &Unit) -> Result<Vec<u64>, Failure> {
    match Way::of(unit, inner) {
        Way::Plain => carry_out(inner, session, &unit.changes).await,
        Way::Optimistic => optimistic(inner, session, unit).await,
        Way::Exclusive => exclusive(inner, session, unit).await,
        Way::Transaction => {
            Transaction { marks: None, conditions: &unit.conditions, changes: &unit.changes }.run(inner, session).await
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Optimistic,
    Exclusive,
    Transaction,
}

impl Way {
    fn of(unit: &Unit, inner: &Inner) -> Self {
        let removes = unit.changes.iter().any(|change| removed(change).is_some());
        let has_many = unit.changes.iter().any(is_many);
        let only_exists = unit.conditions.iter().all(|condition| matches!(condition, Condition::Exists { .. }));
        let has_scope = unit.conditions.iter().any(|condition| matches!(condition, Condition::Unchanged { .. }));
        if unit.conditions.is_empty() && !(removes && has_many) {
            return Self::Plain;
        }
        if only_exists && (unit.changes.iter().all(is_insert) || matches!(unit.changes[..], [Change::Replace { .. }])) {
            return Self::Optimistic;
        }
        let is_scope_alone = has_scope && unit.conditions.len() == 1 && !(removes && has_many);
        if is_scope_alone && inner.topology.has_transactions() { Self::Transaction } else { Self::Exclusive }
    }
}

fn is_insert(change: &Change) -> bool {
    matches!(change, Change::Insert { .. })
}

fn is_many(change: &Change) -> bool {
    matches!(change, Change::DeleteMany { .. } | Change::UpdateMany { .. })
}

/// The document that others could rely on and that the change takes from them.
fn removed(change: &Change) -> Option<&bson::RawDocument> {
    match change {
        Change::Delete { before, .. } | Change::Replace { before, .. } => Some(before),
        Change::Insert { .. } | Change::DeleteMany { .. } | Change::UpdateMany { .. } => None,
    }
}

/// Changes without conditions.
async fn carry_out(inner: &Inner, session: &mut ClientSession, changes: &[Change]) -> Result<Vec<u64>, Failure> {
    match changes {
        [] => Ok(Vec::new()),
        [change] if !is_many(change) => apply(inner, session, changes).await,
        _ if inner.topology.has_transactions() => {
            Transaction { marks: None, conditions: &[], changes }.run(inner, session).await
        }
        _ => steps::run(inner, session, None, changes).await,
    }
}

/// Changes first, then looks whether what they rely on is there.
async fn optimistic(inner: &Inner, session: &mut ClientSession, unit: &Unit) -> Result<Vec<u64>, Failure> {
    if !unit.changes.iter().all(is_insert) {
        // Readers would see a replaced document for a moment; so only where the condition breaks at this very moment.
        check(inner, session, &unit.conditions, Scopes::Compare).await?;
    }
    let touched = match carry_out(inner, session, &unit.changes).await {
        Ok(touched) => touched,
        Err(failure) => {
            // A condition that does not hold comes before anything that the changes themselves run into.
            if matches!(failure, Failure::Store(_)) || super::error::is_refused(&failure) {
                check(inner, session, &unit.conditions, Scopes::Compare).await?;
            }
            return Err(failure);
        }
    };
    if let Err(failure) = confirm(inner, session, &unit.conditions).await {
        let undo: Vec<Change> = unit.changes.iter().rev().map(inverse).collect();
        take_back(inner, session, &undo).await?;
        return Err(failure);
    }
    Ok(touched)
}

/// Waits until it is certain whether the documents that the unit relies on are there.
async fn confirm(inner: &Inner, session: &mut ClientSession, conditions: &[Condition]) -> Result<(), Failure> {
    let mut wait = Wait::new();
    loop {
        let reliance = look(inner, session, conditions).await?;
        if let Some(index) = reliance.missing() {
            return Err(broken(index));
        }
        let Some(key) = reliance.in_doubt() else { return Ok(()) };
        clear_abandoned(inner, session, key).await?;
        wait.pause().await?;
    }
}

async fn take_back(inner: &Inner, session: &mut ClientSession, undo: &[Change]) -> Result<(), Failure> {
    if undo.len() > 1 && inner.topology.has_transactions() {
        match (Transaction { marks: None, conditions: &[], changes: undo }).run(inner, session).await {
            Ok(_) => return Ok(()),
            // Somebody changed or removed one of the documents: the others still have to go.
            Err(Failure::Store(StoreError::Stale)) => {}
            Err(failure) => return Err(failure),
        }
    }
    steps::take_back(inner, session, undo.iter().rev().cloned().collect()).await
}

/// Keeps everybody else away from the documents concerned, then checks and changes.
async fn exclusive(inner: &Inner, session: &mut ClientSession, unit: &Unit) -> Result<Vec<u64>, Failure> {
    let keys = keys_of(inner, session, unit).await?;
    let marks = Marks::acquire(inner, session, keys).await?;
    let outcome = if inner.topology.has_transactions() {
        let transaction = Transaction { marks: Some(&marks), conditions: &unit.conditions, changes: &unit.changes };
        transaction.run(inner, session).await
    } else {
        stepwise(inner, session, unit, &marks).await
    };
    // A transaction that took effect has taken them down.
    if outcome.is_err() || !inner.topology.has_transactions() {
        marks.give_up(inner, session).await;
    }
    outcome
}

async fn keys_of(inner: &Inner, session: &mut ClientSession, unit: &Unit) -> Result<Vec<Key>, Failure> {
    let mut keys = Vec::new();
    for change in &unit.changes {
        if let Some(document) = removed(change) {
            keys.push(Key { collection: collection_of(change).to_owned(), document: id_of(document)? });
        }
    }
    if relies(&unit.conditions) {
        let reliance = look(inner, session, &unit.conditions).await?;
        keys.extend(reliance.documents().cloned());
    }
    if !inner.topology.has_transactions() {
        keys.extend(unit.conditions.iter().filter_map(scope_key));
    }
    Ok(keys)
}

fn scope_key(condition: &Condition) -> Option<Key> {
    match condition {
        Condition::Unchanged { scope, .. } => Some(Key { collection: SCOPES.to_owned(), document: Bson::from(*scope) }),
        Condition::Exists { .. } | Condition::None { .. } => None,
    }
}

async fn stepwise(inner: &Inner, session: &mut ClientSession, unit: &Unit, marks: &Marks) -> Result<Vec<u64>, Failure> {
    check(inner, session, &unit.conditions, Scopes::Compare).await?;
    let touched = steps::run(inner, session, Some(marks), &unit.changes).await?;
    // Under the scope's mark, and after the changes: who reads the new number sees them.
    advance_scopes(inner, session, &unit.conditions).await?;
    Ok(touched)
}
