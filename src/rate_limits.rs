//! Rate limits of clients: one by user and one by address, independent of each other. Requests over HTTP and commands of
//! MongoDB tools take from the same allowance.
//!
//! A client may send a burst, and then as many requests as its rate gives back. Memory is bounded: beyond the maximum
//! number of users or addresses, further ones share a fixed number of slots. An unpredictable hash chooses the slot.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::auth::network;
use crate::settings::{Pace, RateLimitSettings};

/// How many slots the clients beyond the maximum share.
const SHARED_PLACES: u64 = 1024;

/// Without free room, it is searched again after this many requests.
const REQUESTS_BETWEEN_CLEANINGS: u64 = 1024;

/// The limits of this instance.
pub struct RateLimits<C: Clock = DefaultClock> {
    users: Option<Limit<C>>,
    addresses: Option<Limit<C>>,
}

/// One kind of client with its pace.
struct Limit<C: Clock> {
    policy: &'static str,
    limiter: RateLimiter<Bucket, DashMapStateStore<Bucket>, C, StateInformationMiddleware>,
    clock: C,
    pace: Pace,
    max_keys: usize,
    hasher: RandomState,
    without_room: AtomicU64,
}

/// Who is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Bucket {
    /// A hash of a user or of an address.
    Own(u64),
    /// A place that several share.
    Shared(u64),
}

/// The remaining allowance of a client after an accepted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Requests at once.
    pub limit: u32,
    /// How many of them are left.
    pub remaining: u32,
    /// Seconds until the whole burst is available again.
    pub reset: u64,
    /// Seconds in which a whole burst becomes available.
    pub window: u64,
    /// What the limit is called.
    pub policy: &'static str,
}

/// The allowance of a client is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this {} sends requests faster than server.rate_limit allows", .left.policy)]
pub struct TooFast {
    /// Seconds until the next request would be accepted.
    pub wait: u64,
    /// What is left.
    pub left: Allowance,
}

impl RateLimits {
    /// Nothing was sent yet.
    pub fn new(settings: &RateLimitSettings) -> Self {
        Self::with_clock(settings, &DefaultClock::default())
    }
}

impl<C: Clock + Clone> RateLimits<C> {
    /// The same by another clock.
    pub fn with_clock(settings: &RateLimitSettings, clock: &C) -> Self {
        let limit = |policy: &'static str, pace: Option<Pace>| {
            pace.map(|pace| Limit::new(policy, pace, settings.max_keys, clock.clone()))
        };
        Self { users: limit("user", settings.user()), addresses: limit("address", settings.address()) }
    }

    /// Counts a request from an address. `None`: there is no limit.
    ///
    /// # Errors
    /// When its allowance is used up.
    pub fn address(&self, address: IpAddr) -> Result<Option<Allowance>, TooFast> {
        let Some(limit) = &self.addresses else { return Ok(None) };
        limit.count(network(address)).map(Some)
    }

    /// Counts a request of a user. `None`: there is no limit.
    ///
    /// # Errors
    /// When the allowance is used up.
    pub fn user(&self, user_id: i64) -> Result<Option<Allowance>, TooFast> {
        let Some(limit) = &self.users else { return Ok(None) };
        limit.count(user_id).map(Some)
    }
}

impl<C: Clock + Clone> Limit<C> {
    fn new(policy: &'static str, pace: Pace, max_keys: usize, clock: C) -> Self {
        let quota = Quota::per_minute(pace.per_minute).allow_burst(pace.burst);
        let limiter = RateLimiter::dashmap_with_clock(quota, clock.clone()).with_middleware();
        Self { policy, limiter, clock, pace, max_keys, hasher: RandomState::new(), without_room: AtomicU64::new(0) }
    }

    fn count(&self, who: impl std::hash::Hash) -> Result<Allowance, TooFast> {
        let key = self.key(self.hasher.hash_one(who));
        match self.limiter.check_key(&key) {
            Ok(state) => Ok(self.allowance(state.remaining_burst_capacity())),
            Err(refused) => {
                let wait = whole_seconds(refused.wait_time_from(self.clock.now()));
                Err(TooFast { wait, left: self.allowance(0) })
            }
        }
    }

    fn key(&self, hash: u64) -> Bucket {
        if self.limiter.len() < self.max_keys {
            return Bucket::Own(hash);
        }
        if self.without_room.fetch_add(1, Ordering::Relaxed).is_multiple_of(REQUESTS_BETWEEN_CLEANINGS) {
            self.limiter.retain_recent();
        }
        Bucket::Shared(hash % SHARED_PLACES)
    }

    fn allowance(&self, remaining: u32) -> Allowance {
        let limit = self.pace.burst.get();
        let seconds_for = |requests: u32| (u64::from(requests) * 60).div_ceil(u64::from(self.pace.per_minute.get()));
        let reset = seconds_for(limit.saturating_sub(remaining));
        Allowance { limit, remaining, reset, window: seconds_for(limit), policy: self.policy }
    }
}

impl Allowance {
    /// The smaller of two allowances, which is the one that matters to the client.
    #[must_use]
    pub fn narrower(self, other: Option<Self>) -> Self {
        other.filter(|other| other.remaining < self.remaining).unwrap_or(self)
    }
}

/// A wait that is rounded down would bring the client back too early.
fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn limits(per_minute: u32, burst: u32, max_keys: usize) -> (RateLimits<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let settings = RateLimitSettings {
            user_per_minute: per_minute,
            user_burst: burst,
            address_per_minute: per_minute,
            address_burst: burst,
            max_keys,
        };
        (RateLimits::with_clock(&settings, &clock), clock)
    }

    #[test]
    fn a_burst_goes_through_and_then_the_pace_counts() {
        let (limits, clock) = limits(6, 2, 100);
        let left = |remaining, reset| Some(Allowance { limit: 2, remaining, reset, window: 20, policy: "user" });
        assert_eq!(limits.user(1).expect("let through"), left(1, 10));
        assert_eq!(limits.user(1).expect("let through"), left(0, 20));
        assert!(limits.user(1).is_err());
        assert!(limits.user(2).is_ok());
        clock.advance(Duration::from_secs(9));
        assert!(limits.user(1).is_err());
        clock.advance(Duration::from_secs(1));
        assert!(limits.user(1).is_ok());
    }

    #[test]
    fn no_pace_is_no_limit() {
        let (limits, _) = limits(0, 0, 100);
        assert_eq!(limits.user(1).expect("let through"), None);
        assert_eq!(limits.address(IpAddr::from([192, 0, 2, 1])).expect("let through"), None);
    }

    #[test]
    fn the_addresses_of_one_network_count_as_one() {
        let (limits, _) = limits(1, 1, 100);
        let address = |text: &str| text.parse().expect("an address");
        assert!(limits.address(address("2001:db8::1")).is_ok());
        assert!(limits.address(address("2001:db8::2")).is_err());
        assert!(limits.address(address("2001:db8:0:1::1")).is_ok());
        assert!(limits.address(address("192.0.2.1")).is_ok());
        assert!(limits.address(address("::ffff:192.0.2.1")).is_err());
    }

    #[test]
    fn strangers_without_number_take_no_memory_without_number() {
        let (limits, clock) = limits(1, 1, 10);
        for user_id in 0..20_000 {
            let _ = limits.user(user_id);
        }
        let remembered = || limits.users.as_ref().expect("a limit").limiter.len();
        assert!(remembered() <= 10 + usize::try_from(SHARED_PLACES).expect("a number"));
        clock.advance(Duration::from_mins(5));
        for _ in 0..=REQUESTS_BETWEEN_CLEANINGS {
            let _ = limits.user(1);
        }
        assert!(remembered() <= 2, "those who went away are forgotten");
    }

    #[test]
    fn the_narrower_allowance_is_told() {
        let left = |remaining, reset| Allowance { limit: 9, remaining, reset, window: 9, policy: "user" };
        let (wide, narrow) = (left(5, 1), left(2, 3));
        assert_eq!(wide.narrower(Some(narrow)), narrow);
        assert_eq!(narrow.narrower(Some(wide)), narrow);
        assert_eq!(wide.narrower(None), wide);
    }
}
