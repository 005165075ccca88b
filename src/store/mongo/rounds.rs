//! Combines concurrent equal queries into one.
//!
//! Each caller takes a place in the queue, and the first one also serves the queue. Each round takes all waiting
//! callers and then begins, so no answer is older than its query.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::error::unavailable;
use crate::store::StoreError;

/// A queue of queries of the kind `Q`, each answered with an `A`.
#[derive(Debug)]
pub(super) struct Rounds<Q, A>(Mutex<Queue<Q, A>>);

#[derive(Debug)]
struct Queue<Q, A> {
    waiting: Vec<Asker<Q, A>>,
    /// A caller serves the queue, and will check it again.
    served: bool,
}

/// A waiting caller.
#[derive(Debug)]
pub(super) struct Asker<Q, A> {
    /// The work to do.
    pub(super) question: Q,
    answer: oneshot::Sender<Result<A, StoreError>>,
}

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Seat<A> {
    /// No caller served the queue: the caller with this place must.
    pub(super) serves: bool,
    answer: oneshot::Receiver<Result<A, StoreError>>,
}

impl<A> Seat<A> {
    /// Waits for the answer.
    pub(super) async fn answer(self) -> Result<A, StoreError> {
        self.answer.await.unwrap_or_else(|_| Err(unavailable("a question to the server was given up")))
    }
}

impl<Q, A> Asker<Q, A> {
    /// Sends the answer. It does no harm if nobody waits any more.
    pub(super) fn reply(self, answer: Result<A, StoreError>) {
        let _ = self.answer.send(answer);
    }
}

impl<Q, A> Rounds<Q, A> {
    /// Takes a place in the queue.
    pub(super) fn join(&self, question: Q) -> Seat<A> {
        let (sender, answer) = oneshot::channel();
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.push(Asker { question, answer: sender });
        Seat { serves: !std::mem::replace(&mut queue.served, true), answer }
    }

    /// All waiting callers. If there are none, the queue is no longer served.
    pub(super) fn next(&self) -> Vec<Asker<Q, A>> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.served = !queue.waiting.is_empty();
        std::mem::take(&mut queue.waiting)
    }

    /// The callers who came meanwhile; the queue stays served.
    pub(super) fn more(&self) -> Vec<Asker<Q, A>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }
}

impl<Q, A> Default for Rounds<Q, A> {
    fn default() -> Self {
        Self(Mutex::new(Queue { waiting: Vec::new(), served: false }))
    }
}

/// Answers all callers of a round with a failure.
pub(super) fn refuse<Q, A>(round: Vec<Asker<Q, A>>, error: &StoreError) {
    for waiting in round {
        waiting.reply(Err(match error {
            StoreError::Unavailable { reason } => unavailable(reason),
            StoreError::Timeout => StoreError::Timeout,
            other => StoreError::backend(other.to_string()),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_serves_and_everybody_gets_an_answer() {
        let rounds = Rounds::<u32, u32>::default();
        let places = [rounds.join(1), rounds.join(2)];
        assert!(places[0].serves && !places[1].serves);
        for waiting in rounds.next() {
            let doubled = waiting.question * 2;
            waiting.reply(Ok(doubled));
        }
        let mut answers = Vec::new();
        for place in places {
            answers.push(place.answer().await.expect("answered"));
        }
        assert_eq!(answers, [2, 4]);
        assert!(rounds.next().is_empty());
        assert!(rounds.join(3).serves, "nobody serves it after an empty round");
    }
}
