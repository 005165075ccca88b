//! Who makes the changes of a request. It travels with the request's task, as its memory and turns do, so use cases need
//! not hand it on.

use std::cell::Cell;

use crate::history::entry::{Action, Author};

tokio::task_local! {
    static AUTHOR: Author;
    static ACTION: Action;
    static REHEARSAL: ();
    static CAUSE: CausedBy;
    static UNKEPT: Cell<bool>;
}

/// The entry of a type from which changes of its objects follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) enum CausedBy {
    /// The one of the same unit.
    TypeOfUnit,
    /// The one with this sequence.
    Entry(i64),
}

/// Does `work`; entries of objects name the entry of the type that caused them.
pub(in crate::service) async fn caused<T>(by: CausedBy, work: impl Future<Output = T>) -> T {
    CAUSE.scope(by, work).await
}

/// What this task was given as the cause of changes of objects.
pub(super) fn cause() -> Option<CausedBy> {
    CAUSE.try_with(|cause| *cause).ok()
}

/// Does `work`; entries of its changes name this author.
pub async fn by<T>(author: Author, work: impl Future<Output = T>) -> T {
    AUTHOR.scope(author, work).await
}

/// Does `work`, and returns whether it deleted what the history does not keep, as there was no room.
pub async fn noting_unkept<T>(work: impl Future<Output = T>) -> (T, bool) {
    UNKEPT.scope(Cell::new(false), async { (work.await, UNKEPT.with(Cell::get)) }).await
}

/// Does `work`; entries of its changes have this comment, unless the author gave another one.
pub async fn commented<T>(comment: String, work: impl Future<Output = T>) -> T {
    let author = current();
    let comment = author.comment.or(Some(comment));
    by(Author { comment, ..author }, work).await
}

/// The history does not keep what this task deleted.
pub(super) fn note_unkept() {
    // Outside of a request it is not reported.
    let _ = UNKEPT.try_with(|unkept| unkept.set(true));
}

/// Does `work`; entries of its changes have this action, except for removals.
pub async fn as_action<T>(action: Action, work: impl Future<Output = T>) -> T {
    ACTION.scope(action, work).await
}

/// Does `work` without storing what it changes. What the store would refuse is refused.
pub async fn rehearse<T>(work: impl Future<Output = T>) -> T {
    REHEARSAL.scope((), work).await
}

/// Whether this task is a dry run.
pub(in crate::service) fn is_rehearsal() -> bool {
    REHEARSAL.try_with(|()| ()).is_ok()
}

/// The author of what this task changes; none where no request is under way.
pub(in crate::service) fn current() -> Author {
    AUTHOR.try_with(Clone::clone).unwrap_or_default()
}

/// Whether this task notes what other tools have changed: nothing of its units is to be carried out.
pub(in crate::service) fn notes_others() -> bool {
    action() == Some(Action::Outside)
}

/// The action that this task was given.
pub(super) fn action() -> Option<Action> {
    ACTION.try_with(|action| *action).ok()
}
