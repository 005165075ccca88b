//! Whether there is a primary, and whether it is a new one, as the driver's monitor sees it.
//!
//! While there is none, an operation waits for one, up to the time limit for finding a server. A new primary is elected
//! within seconds, and the operation continues. After that limit all operations are refused at once, running ones too,
//! until the monitor sees a server again. So no queue builds up in an outage, and it ends without a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescription};
use mongodb::options::ServerAddress;
use mongodb::{ServerType, TopologyType};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// A server that did not answer the driver's monitor for this long may be silent. The monitor checks every second.
const SILENCE: Duration = Duration::from_secs(2);

/// Counts the times that connections to the server broke.
#[derive(Debug, Clone, Default)]
pub(super) struct Epoch(Arc<AtomicU64>);

impl Epoch {
    /// Connections broke: the comparison must be repeated.
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often they broke.
    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is known of the server that takes writes.
#[derive(Debug, Clone)]
pub(super) struct Presence {
    state: Arc<watch::Sender<PresenceState>>,
    /// How long there may be none before operations are refused.
    patience: Duration,
    /// Where the driver has its connections and its own tasks.
    runtime: Handle,
}

#[derive(Debug)]
struct PresenceState {
    standing: Met,
    /// The last one of a replica set.
    primary: Option<ServerAddress>,
    /// Moves when another one takes its place.
    term: Term,
    /// When the server last answered the driver's monitor.
    heard: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Met {
    /// None was seen yet: connecting has a wait of its own.
    Unmet,
    There,
    AwaySince(Instant),
}

/// The time in which one server was the primary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Term(u64);

/// Why waiting for an operation should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No server has taken writes for too long.
    Lost,
    /// Another server is the primary now; the one before it may never answer.
    Succession,
}

impl Presence {
    /// A deployment of which nothing is known yet, to be used from the present runtime.
    pub(super) fn new(patience: Duration) -> Self {
        let state = PresenceState { standing: Met::Unmet, primary: None, term: Term::default(), heard: None };
        Self { state: Arc::new(watch::Sender::new(state)), patience, runtime: Handle::current() }
    }

    /// Where operations are carried out.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The handler of the driver's events. Knowledge about a server does not hold for its successor.
    pub(super) fn listener(&self, epoch: &Epoch) -> EventHandler<SdamEvent> {
        let (presence, epoch) = (self.clone(), epoch.clone());
        EventHandler::callback(move |event| match event {
            SdamEvent::TopologyDescriptionChanged(event) => {
                let now = &event.new_description;
                if now.topology_type() == TopologyType::Unknown && now.servers().is_empty() {
                    // The client itself closes: no operation waits for a server any more.
                    return;
                }
                if presence.note(now.has_writable_server(), primary(now)) {
                    epoch.advance();
                }
            }
            SdamEvent::ServerHeartbeatSucceeded(event) => presence.hear(&event.server_address),
            _ => {}
        })
    }

    /// Notes a sign of life of a server.
    pub(super) fn hear(&self, server: &ServerAddress) {
        self.state.send_if_modified(|state| {
            if state.primary.as_ref().is_none_or(|primary| primary == server) {
                state.heard = Some(Instant::now());
            }
            // Nobody waits for this.
            false
        });
    }

    /// Whether the server that takes writes gave a sign of life just now.
    pub(super) fn answers(&self) -> bool {
        let state = self.state.borrow();
        matches!(state.standing, Met::There) && state.heard.is_some_and(|heard| heard.elapsed() < SILENCE)
    }

    /// Notes the present servers; true when a primary has a successor.
    pub(super) fn note(&self, is_there: bool, primary: Option<ServerAddress>) -> bool {
        let mut is_succession = false;
        self.state.send_if_modified(|state| {
            if primary.is_some() && primary != state.primary {
                is_succession = state.primary.is_some();
                state.term.0 += u64::from(is_succession);
                state.primary = primary;
            }
            match (state.standing, is_there) {
                (Met::AwaySince(_), true) => log::info!("a MongoDB server takes writes again"),
                (Met::There, false) => log::warn!("no MongoDB server takes writes"),
                (Met::There, true) if is_succession => log::warn!("another MongoDB server takes writes"),
                (Met::Unmet, true) => {}
                (Met::Unmet | Met::AwaySince(_), false) | (Met::There, true) => return false,
            }
            state.standing = if is_there { Met::There } else { Met::AwaySince(Instant::now()) };
            true
        });
        is_succession
    }

    /// The present term.
    pub(super) fn term(&self) -> Term {
        self.state.borrow().term
    }

    /// Whether the primary of this term is still known to be one.
    pub(super) fn holds(&self, term: Term) -> bool {
        let state = self.state.borrow();
        state.term == term && !matches!(state.standing, Met::AwaySince(_))
    }

    /// Whether no server has been there for too long.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state.borrow().standing, Met::AwaySince(since) if since.elapsed() >= self.patience)
    }

    /// Waits until there has been no server for too long, or until there is another primary than in this term. This may
    /// never happen.
    pub(super) async fn trouble(&self, term: Option<Term>) -> Trouble {
        let mut changes = self.state.subscribe();
        loop {
            let (standing, now) = {
                let state = changes.borrow_and_update();
                (state.standing, state.term)
            };
            if term.is_some_and(|term| term != now) {
                return Trouble::Succession;
            }
            // The sender lives as long as this borrow of it, so that waiting for a change cannot fail.
            match standing {
                Met::Unmet | Met::There => drop(changes.changed().await),
                Met::AwaySince(since) => {
                    if timeout_at(since + self.patience, changes.changed()).await.is_err() {
                        return Trouble::Lost;
                    }
                }
            }
        }
    }
}

fn primary(topology: &TopologyDescription) -> Option<ServerAddress> {
    let servers = topology.servers();
    let found = servers.into_iter().find(|(_, server)| server.server_type() == ServerType::RsPrimary);
    found.map(|(address, _)| address.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str) -> Option<ServerAddress> {
        Some(ServerAddress::Tcp { host: host.to_owned(), port: None })
    }

    #[tokio::test]
    async fn a_deployment_is_lost_when_nobody_was_there_for_long_enough() {
        let presence = Presence::new(Duration::ZERO);
        presence.note(false, None);
        assert!(!presence.is_lost(), "it was not met yet");
        presence.note(true, None);
        assert!(!presence.is_lost());
        presence.note(false, None);
        assert!(presence.is_lost());
        assert_eq!(presence.trouble(None).await, Trouble::Lost);
        presence.note(false, None);
        assert!(presence.is_lost(), "still the same absence");
        presence.note(true, None);
        assert!(!presence.is_lost());
    }

    #[tokio::test]
    async fn a_server_that_comes_back_in_time_was_not_lost() {
        let presence = Presence::new(Duration::from_hours(1));
        presence.note(true, server("one"));
        presence.note(false, None);
        assert!(!presence.is_lost());
        let waiting = tokio::spawn({
            let presence = presence.clone();
            async move { presence.trouble(Some(presence.term())).await }
        });
        tokio::task::yield_now().await;
        presence.note(true, server("one"));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        waiting.abort();
    }

    #[tokio::test]
    async fn a_term_ends_when_another_server_is_the_primary() {
        let presence = Presence::new(Duration::from_hours(1));
        assert!(!presence.note(true, server("one")), "nobody was there before");
        let first = presence.term();
        assert!(presence.holds(first));
        assert!(!presence.note(false, None));
        assert!(!presence.holds(first), "there is no primary");
        assert!(!presence.note(true, server("one")), "the same one again");
        assert!(presence.holds(first));
        assert!(presence.note(true, server("two")), "at once");
        assert_eq!(presence.trouble(Some(first)).await, Trouble::Succession);
        assert!(!presence.holds(first));
        let second = presence.term();
        presence.note(false, None);
        assert!(presence.note(true, server("one")), "after a time without any");
        assert_eq!(presence.trouble(Some(second)).await, Trouble::Succession);
    }
}
