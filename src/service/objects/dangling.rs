//! What a rule forbids and some clients may store: references that lead nowhere, and rules of a type that have no effect. The
//! permission travels with the request's task, as its author does, so use cases need not hand it on.

use std::cell::RefCell;

use super::targets::Targets;
use crate::domain::object_fields::Reference;
use crate::domain::{Violation, Violations};

tokio::task_local! {
    static ACCEPTED: RefCell<Vec<Violation>>;
}

/// Does `work`, which may store what breaks such a rule. Also gives what is wrong with what was accepted, each once.
pub async fn accepted<T>(work: impl Future<Output = T>) -> (T, Vec<Violation>) {
    let noted = async {
        let outcome = work.await;
        (outcome, ACCEPTED.with(RefCell::take))
    };
    ACCEPTED.scope(RefCell::default(), noted).await
}

/// What of these violations is refused: all of them, or none where this task accepts them. These are noted.
pub(crate) fn refused(wrong: Violations) -> Violations {
    let is_accepted = ACCEPTED.try_with(|noted| {
        let mut noted = noted.borrow_mut();
        for violation in wrong.listed() {
            if !noted.contains(violation) {
                noted.push(violation.clone());
            }
        }
    });
    if is_accepted.is_ok() { Violations::new() } else { wrong }
}

/// Refuses references that lead nowhere. Where this task accepts them, they leave the list of those that must exist when the
/// unit takes effect.
pub(crate) fn refuse(targets: &Targets, references: &mut Vec<Reference>) -> Violations {
    let wrong = refused(targets.dangling(references));
    if wrong.is_empty() {
        references.retain(|reference| targets.reason(reference).is_none());
    }
    wrong
}
