//! References that lead nowhere, for clients of a service that stores them. The permission travels with the request's
//! task, as its author does, so use cases need not hand it on.

use std::cell::RefCell;

use super::targets::Targets;
use crate::domain::object_fields::Reference;
use crate::domain::{Violation, Violations};

tokio::task_local! {
    static ACCEPTED: RefCell<Vec<Violation>>;
}

/// Does `work`, which may store references to objects that do not exist or have another type than the field allows.
/// Also gives what is wrong with those that were accepted, each once.
pub async fn accepted<T>(work: impl Future<Output = T>) -> (T, Vec<Violation>) {
    let noted = async {
        let outcome = work.await;
        (outcome, ACCEPTED.with(RefCell::take))
    };
    ACCEPTED.scope(RefCell::default(), noted).await
}

/// Refuses references that lead nowhere. Where this task accepts them, they are noted instead, and leave the list of
/// those that must exist when the unit takes effect.
pub(super) fn refuse(targets: &Targets, references: &mut Vec<Reference>) -> Violations {
    let wrong = targets.dangling(references);
    let is_accepted = ACCEPTED.try_with(|noted| {
        let mut noted = noted.borrow_mut();
        for violation in wrong.listed() {
            if !noted.contains(violation) {
                noted.push(violation.clone());
            }
        }
    });
    if is_accepted.is_err() {
        return wrong;
    }
    references.retain(|reference| targets.reason(reference).is_none());
    Violations::new()
}
