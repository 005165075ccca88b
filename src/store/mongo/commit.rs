//! Units: how several changes and their conditions take effect together.
//!
//! # The problem
//!
//! One unit inserts an object on the condition that its type exists. Another deletes the type on the condition that no
//! object of it exists. They write different documents, so neither a transaction nor a unique index serialises them:
//! each would see the state before the other. The insert is the most frequent write of all, so inserts must not wait
//! for each other.
//!
//! # The protocol
//!
//! - The *remover* (rare) marks the document that it will remove, and only then checks whether anything relies on it.
//! - The *relying* unit (frequent) stores its documents first, and only then checks that the documents it relies on
//!   exist without a mark. Without a mark it is done, with one query more than a bare insert. With a mark it waits
//!   until the mark is gone and checks again. If the document is gone, it undoes its own writes, and the condition does
//!   not hold.
//!
//! Each side writes, and then reads what the other one writes. A majority confirms all writes. Each read belongs to the
//! same causally consistent session as the write before it, so it sees everything written before its session's last
//! write. So of two overlapping units at least one sees the other. A standalone server has one order of all operations,
//! so the same holds without sessions.
//!
//! The remover checks its condition in the transaction that also deletes the document and its mark. If somebody has
//! cleared the mark as abandoned, that transaction fails. Without transactions each step begins by renewing the mark.
//!
//! Marks are separate documents: see [`marks`](super::marks). Nothing is cleaned up after a removal. A process may die
//! after it stored a document and before it looked for the mark. That document was never acknowledged, and looks like
//! one that another tool stored on purpose. Before the removal takes effect, it refuses the removal. After it, it is an
//! object without a type.
//!
//! # Which unit goes which way
//!
//! | Unit | Way |
//! |---|---|
//! | one change of one document, no condition | together: the bare command |
//! | inserts, or one replace beside inserts, with `Exists` | optimistic: change, look, take back if need be |
//! | `None`; many documents changed beside a removal; anything else with `Exists` | exclusive: marks first, then a transaction |
//! | `Unchanged` alone | together: two of one scope write the same counter document, so one of them starts anew and sees it moved |
//! | everything else | together: a transaction |
//!
//! On a standalone server `Unchanged` is exclusive, too: it marks its scope, and [`steps`] take the place of the
//! transaction. Removals that are too large for a transaction are [thinned out](super::thinning) before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::Bson;
use mongodb::ClientSession;

use super::change::{Failure, apply, commands, id_of};
use super::conditions::{Scopes, advance_scopes, broken, check};
use super::connect::Topology;
use super::counters::{catch_up, raise, whole_number};
use super::error::{command_error, is_refused};
use super::marks::{Marked, Marks, Wait, clear_abandoned};
use super::reliance::{look, look_together, relies};
use super::thinning::thin_out;
use super::transaction::Transaction;
use super::undo::{self, inverse};
use super::{Inner, steps};
use crate::store::{Change, Condition, SCOPES, StoreError, Unit};

/// Carries out a unit.
pub(super) async fn commit(inner: &Arc<Inner>, unit: Unit) -> Result<Vec<u64>, StoreError> {
    raise_counters(inner, &unit.changes).await?;
    let mut session = inner.database.client().start_session().await.map_err(|error| command_error(&error))?;
    let concerned = concerned(&unit);
    let outcome = run(inner, &mut session, unit).await.map_err(|failure| failure.into_store_error(&inner.indexes));
    // Also after a failure: a broken connection hides the outcome, and undone writes were visible for a moment.
    for collection in concerned {
        inner.revisions.bump(collection);
    }
    if let Err(StoreError::Duplicate { collection, key }) = &outcome
        && key == "public_id"
    {
        catch_up(inner, collection).await?;
    }
    outcome
}

/// The collections in which the unit may change something.
fn concerned(unit: &Unit) -> BTreeSet<&'static str> {
    let mut concerned: BTreeSet<_> = unit.changes.iter().map(Change::collection).collect();
    if unit.conditions.iter().any(|condition| matches!(condition, Condition::Unchanged { .. })) {
        concerned.insert(SCOPES);
    }
    concerned
}

/// The counter moves past a `public_id` that the client chose, before its document is stored.
async fn raise_counters(inner: &Inner, changes: &[Change]) -> Result<(), StoreError> {
    let mut highest: Vec<(&str, i64)> = Vec::new();
    for command in commands(changes) {
        let ids = command.iter().filter_map(|change| match change {
            Change::Insert { document, .. } => public_id(document),
            _ => None,
        });
        if let (Some(change), Some(id)) = (command.first(), ids.max()) {
            highest.push((change.collection(), id));
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

async fn run(inner: &Arc<Inner>, session: &mut ClientSession, unit: Unit) -> Result<Vec<u64>, Failure> {
    match Way::of(&unit, inner.topology) {
        Way::Together => together(inner, session, &unit, None).await,
        Way::Optimistic => optimistic(inner, session, unit).await,
        Way::Exclusive => exclusive(inner, session, &unit).await,
    }
}

/// How a unit keeps its conditions; the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Together,
    Optimistic,
    Exclusive,
}

impl Way {
    fn of(unit: &Unit, topology: Topology) -> Self {
        let removes = unit.changes.iter().any(|change| removed(change).is_some());
        let removes_beside_many = removes && unit.changes.iter().any(is_many);
        let is_optimistic = match unit.changes.split_first() {
            Some((Change::Replace { .. } | Change::Insert { .. }, rest)) => rest.iter().all(is_insert),
            _ => false,
        };
        let only = |kind: fn(&Condition) -> bool| unit.conditions.iter().all(kind);
        if unit.conditions.is_empty() {
            return if removes_beside_many { Self::Exclusive } else { Self::Together };
        }
        if is_optimistic && only(|condition| matches!(condition, Condition::Exists { .. })) {
            return Self::Optimistic;
        }
        let only_scopes = only(|condition| matches!(condition, Condition::Unchanged { .. }));
        if only_scopes && topology.has_transactions() && !removes_beside_many {
            return Self::Together;
        }
        Self::Exclusive
    }
}

fn is_insert(change: &Change) -> bool {
    matches!(change, Change::Insert { .. })
}

fn is_many(change: &Change) -> bool {
    matches!(change, Change::DeleteMany { .. } | Change::UpdateMany { .. })
}

/// The document that the change removes and that others could rely on.
fn removed(change: &Change) -> Option<&bson::RawDocument> {
    match change {
        Change::Delete { before, .. } | Change::Replace { before, .. } => Some(before),
        Change::Insert { .. } | Change::DeleteMany { .. } | Change::UpdateMany { .. } => None,
    }
}

/// Checks and changes in a transaction, or step by step if the deployment has none.
async fn together(
    inner: &Inner,
    session: &mut ClientSession,
    unit: &Unit,
    marks: Option<&Marks>,
) -> Result<Vec<u64>, Failure> {
    match &unit.changes[..] {
        [change] if marks.is_none() && unit.conditions.is_empty() && !is_many(change) => {
            apply(inner, session, &unit.changes).await
        }
        changes if inner.topology.has_transactions() => {
            let before = thin_out(inner, session, unit, marks).await?;
            let transaction = Transaction { marks, conditions: &unit.conditions, changes };
            let touched = transaction.run(inner, session).await?;
            Ok(touched.iter().zip(&before).map(|(touched, before)| touched + before).collect())
        }
        changes => {
            check(inner, session, &unit.conditions, Scopes::Compare).await?;
            let touched = steps::run(inner, session, marks, changes).await?;
            // Under the marks of the scopes, and after the changes: a reader of the new number sees the changes.
            advance_scopes(inner, session, &unit.conditions).await?;
            Ok(touched)
        }
    }
}

/// Makes the changes first, then checks that the documents they rely on exist.
async fn optimistic(inner: &Arc<Inner>, session: &mut ClientSession, unit: Unit) -> Result<Vec<u64>, Failure> {
    let (conditions, changes) = (unit.conditions, Unit { conditions: Vec::new(), changes: unit.changes });
    if !changes.changes.iter().all(is_insert) {
        // Readers see the replaced document for a moment, but only if the condition breaks at that moment.
        check(inner, session, &conditions, Scopes::Compare).await?;
    }
    let touched = match together(inner, session, &changes, None).await {
        Ok(touched) => touched,
        Err(failure) => {
            // A failed condition takes precedence over errors of the changes.
            if is_refused(&failure) {
                check(inner, session, &conditions, Scopes::Compare).await?;
            }
            return Err(failure);
        }
    };
    if let Err(failure) = confirm(inner, session, &conditions).await {
        let undo: Vec<Change> = changes.changes.iter().rev().map(inverse).collect();
        take_back(inner, session, &undo).await?;
        return Err(failure);
    }
    Ok(touched)
}

/// Waits until it is certain whether the documents that the unit relies on exist.
async fn confirm(inner: &Arc<Inner>, session: &mut ClientSession, conditions: &[Condition]) -> Result<(), Failure> {
    let mut wait = Wait::new();
    loop {
        let reliance = look_together(inner, session, conditions).await?;
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
            // Somebody changed or removed one of the documents: the others must still be removed.
            Err(Failure::Store(StoreError::Stale)) => {}
            Err(failure) => return Err(failure),
        }
    }
    undo::take_back(inner, session, undo.iter().rev().cloned().collect()).await
}

/// Locks the documents concerned with marks, then checks and changes.
async fn exclusive(inner: &Inner, session: &mut ClientSession, unit: &Unit) -> Result<Vec<u64>, Failure> {
    let keys = keys_of(inner, session, unit).await?;
    let marks = Marks::acquire(inner, session, keys).await?;
    let outcome = together(inner, session, unit, Some(&marks)).await;
    // A committed transaction has removed the marks.
    if outcome.is_err() || !inner.topology.has_transactions() {
        marks.give_up(inner, session).await;
    }
    outcome
}

async fn keys_of(inner: &Inner, session: &mut ClientSession, unit: &Unit) -> Result<Vec<Marked>, Failure> {
    let mut keys = Vec::new();
    for change in &unit.changes {
        if let Some(document) = removed(change) {
            keys.push(Marked { collection: change.collection().to_owned(), document: id_of(document)? });
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

fn scope_key(condition: &Condition) -> Option<Marked> {
    match condition {
        Condition::Unchanged { scope, .. } => {
            Some(Marked { collection: SCOPES.to_owned(), document: Bson::from(&**scope) })
        }
        Condition::Exists { .. } | Condition::None { .. } => None,
    }
}
