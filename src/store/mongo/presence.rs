//! Whether a server that takes writes is there, as the driver's monitor sees it.
//!
//! While there is none, an operation waits for one, as long as finding a server may take: a new primary is elected within
//! seconds, and the operation goes on as if nothing had been. After that time all are refused at once, those under way
//! too, until the monitor sees a server again. So an outage piles nothing up, and ends without a restart.

use std::sync::Arc;
use std::time::Duration;

use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Whether a server takes writes.
#[derive(Debug, Clone)]
pub(super) struct Presence(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, Copy)]
enum State {
    /// None was met yet: whoever connects waits by other means.
    Unmet,
    There,
    AwaySince(Instant),
}

impl Presence {
    /// A deployment of which nothing is known.
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(State::Unmet)))
    }

    /// What the driver has to tell its news to.
    pub(super) fn listener(&self) -> EventHandler<SdamEvent> {
        let presence = self.clone();
        EventHandler::callback(move |event| {
            if let SdamEvent::TopologyDescriptionChanged(event) = event {
                presence.note(event.new_description.has_writable_server());
            }
        })
    }

    fn note(&self, is_there: bool) {
        self.0.send_if_modified(|state| {
            match (*state, is_there) {
                (State::AwaySince(_), true) => log::info!("a MongoDB server takes writes again"),
                (State::There, false) => log::warn!("no MongoDB server takes writes"),
                (State::Unmet, true) => {}
                (State::Unmet | State::AwaySince(_), false) | (State::There, true) => return false,
            }
            *state = if is_there { State::There } else { State::AwaySince(Instant::now()) };
            true
        });
    }

    /// Whether no server has been there for so long.
    pub(super) fn is_lost(&self, patience: Duration) -> bool {
        matches!(*self.0.borrow(), State::AwaySince(since) if since.elapsed() >= patience)
    }

    /// Waits until no server has been there for so long, which may be for ever.
    pub(super) async fn lost(&self, patience: Duration) {
        let mut changes = self.0.subscribe();
        loop {
            let state = *changes.borrow_and_update();
            // The sender lives as long as this borrow of it, so that waiting for a change cannot fail.
            match state {
                State::Unmet | State::There => drop(changes.changed().await),
                State::AwaySince(since) => {
                    if timeout_at(since + patience, changes.changed()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_deployment_is_lost_when_nobody_was_there_for_long_enough() {
        let presence = Presence::new();
        presence.note(false);
        assert!(!presence.is_lost(Duration::ZERO), "it was not met yet");
        presence.note(true);
        assert!(!presence.is_lost(Duration::ZERO));
        presence.note(false);
        assert!(!presence.is_lost(Duration::from_hours(1)));
        presence.lost(PATIENCE).await;
        assert!(presence.is_lost(PATIENCE));
        presence.note(false);
        assert!(presence.is_lost(PATIENCE), "still the same absence");
        presence.note(true);
        assert!(!presence.is_lost(Duration::ZERO));
    }

    #[tokio::test]
    async fn a_server_that_comes_back_in_time_was_not_lost() {
        let presence = Presence::new();
        presence.note(true);
        presence.note(false);
        let waiting = tokio::spawn({
            let presence = presence.clone();
            async move { presence.lost(Duration::from_hours(1)).await }
        });
        presence.note(true);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        waiting.abort();
    }
}
