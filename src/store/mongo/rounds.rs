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

    /// Serves the queue with an answer to each round, until nobody waits.
    pub(super) async fn serve<F: Future<Output = ()>>(&self, answer: impl Fn(Vec<Asker<Q, A>>) -> F) {
        let serving = self.serving();
        loop {
            let round = self.next();
            if round.is_empty() {
                return serving.end();
            }
            answer(round).await;
        }
    }

    /// To be kept by who serves the queue, until nobody waits.
    pub(super) fn serving(&self) -> Serving<'_, Q, A> {
        Serving(self)
    }

    /// The callers who came meanwhile; the queue stays served.
    pub(super) fn more(&self) -> Vec<Asker<Q, A>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }
}

/// If a panic or the end of a runtime stops who serves, those who wait are given up, and the next caller serves the queue.
pub(super) struct Serving<'r, Q, A>(&'r Rounds<Q, A>);

impl<Q, A> Serving<'_, Q, A> {
    /// Nobody waits: the next caller may serve the queue already.
    pub(super) fn end(self) {
        std::mem::forget(self);
    }
}

impl<Q, A> Drop for Serving<'_, Q, A> {
    fn drop(&mut self) {
        let mut queue = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.served = false;
        queue.waiting.clear();
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
    use std::sync::Arc;

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

    #[tokio::test]
    async fn somebody_else_serves_after_one_who_was_stopped() {
        let rounds = Arc::new(Rounds::<u32, u32>::default());
        let place = rounds.join(1);
        let serving = Arc::clone(&rounds);
        let broken = tokio::spawn(async move { serving.serve(|_| async { panic!("a defect") }).await });
        assert!(broken.await.is_err() && place.answer().await.is_err());
        let place = rounds.join(2);
        assert!(place.serves);
        let serving = Arc::clone(&rounds);
        let stopped = tokio::spawn(async move { serving.serve(|_| std::future::pending()).await });
        tokio::task::yield_now().await;
        stopped.abort();
        assert!(stopped.await.is_err() && place.answer().await.is_err());
        assert!(rounds.join(3).serves);
    }
}
