//! The throttle on guessing passwords: more failures mean longer waits, by user name and by address.
//!
//! A few failures are free. Then each attempt is checked only after a delay, which doubles. From a number of failures
//! on, attempts are refused for a time, which doubles too. One failure is forgotten each `forget_one_after_s`, which
//! limits a steady guesser to that rate. A success clears the user name, but not the address: otherwise an attacker
//! with an account could guess the passwords of others without limit.
//!
//! It uses monotonic time, see [`Clock::steady`](crate::clock::Clock::steady): setting the clock changes no wait.
//!
//! The price: others can prevent a user from signing in by repeated failures in the user's name from many addresses.
//! Existing tokens still work.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ThrottleSettings;

/// What may be done with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Look at it after this delay.
    Go {
        /// Zero without recent failures.
        delay: Duration,
    },
    /// Do not look at it.
    Refuse {
        /// When a retry makes sense.
        retry_after: Duration,
    },
}

/// Who tries to sign in as whom.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The user name as sent; upper and lower case count as one.
    pub user_name: &'a str,
    /// The address of the client, if known.
    pub address: Option<IpAddr>,
}

/// Counts failures and derives waits from them. Memory is bounded, names are not kept.
#[derive(Debug)]
pub struct Throttle {
    settings: ThrottleSettings,
    /// With a random key, so that nobody can choose names that collide.
    hasher: RandomState,
    entries: Mutex<HashMap<Subject, AddressTries>>,
}

/// A hash of the user name or address, never the text itself: it may be long, and people type passwords there.
type Subject = u64;

#[derive(Debug, Clone, Copy)]
struct AddressTries {
    failures: u32,
    last: Duration,
}

impl Throttle {
    /// No failures yet.
    pub fn new(settings: ThrottleSettings) -> Self {
        Self { settings, hasher: RandomState::new(), entries: Mutex::default() }
    }

    /// What to do with an attempt now, in monotonic time.
    pub fn verdict(&self, attempt: Attempt<'_>, now: Duration) -> Verdict {
        let entries = self.entries();
        let mut delay = Duration::ZERO;
        let mut refused_until = Duration::ZERO;
        for (key, limit) in self.keys(attempt) {
            let Some(entry) = entries.get(&key) else { continue };
            let failures = self.remaining(*entry, now);
            match self.refusal(failures, limit) {
                Some(wait) => refused_until = refused_until.max(entry.last.saturating_add(wait)),
                None => delay = delay.max(self.delay(failures, limit)),
            }
        }
        let wait = refused_until.saturating_sub(now);
        if wait.is_zero() { Verdict::Go { delay } } else { Verdict::Refuse { retry_after: whole_seconds(wait) } }
    }

    /// Notes a failed attempt.
    pub fn failed(&self, attempt: Attempt<'_>, now: Duration) {
        let mut entries = self.entries();
        for (key, _) in self.keys(attempt) {
            if entries.len() >= self.settings.max_entries && !entries.contains_key(&key) {
                self.make_room(&mut entries, now);
            }
            let failures = entries.get(&key).map_or(0, |entry| self.remaining(*entry, now));
            entries.insert(key, AddressTries { failures: failures.saturating_add(1), last: now });
        }
    }

    /// Notes that the user gave the right password.
    pub fn succeeded(&self, user_name: &str) {
        self.entries().remove(&self.name_key(user_name));
    }

    /// The keys of an attempt, each with the number of failures from which on it is refused.
    fn keys(&self, attempt: Attempt<'_>) -> impl Iterator<Item = (Subject, u32)> {
        let name = (self.name_key(attempt.user_name), self.settings.user_failures);
        let address =
            attempt.address.map(|address| (self.hasher.hash_one(network(address)), self.settings.address_failures));
        std::iter::once(name).chain(address)
    }

    fn name_key(&self, user_name: &str) -> Subject {
        self.hasher.hash_one(user_name.to_lowercase())
    }

    /// The failures of an entry that are not forgotten yet.
    fn remaining(&self, entry: AddressTries, now: Duration) -> u32 {
        let quiet = now.saturating_sub(entry.last).as_secs();
        let forgotten = quiet / self.settings.forget_one_after_s.max(1);
        entry.failures.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    fn delay(&self, failures: u32, limit: u32) -> Duration {
        // An address is shared by many, so its free failures grow with its limit.
        let free = self.settings.free_failures.max(limit.saturating_sub(self.settings.user_failures));
        let Some(beyond) = failures.checked_sub(free.saturating_add(1)) else { return Duration::ZERO };
        Duration::from_millis(doubled(self.settings.first_delay_ms, beyond, self.settings.longest_delay_ms))
    }

    fn refusal(&self, failures: u32, limit: u32) -> Option<Duration> {
        let beyond = failures.checked_sub(limit)?;
        let seconds = doubled(self.settings.first_refusal_s, beyond, self.settings.longest_refusal_s);
        Some(Duration::from_secs(seconds))
    }

    /// Drops forgotten entries. If that is not enough, it drops the half with the fewest failures. So a flood of
    /// invented names does not evict the names under attack.
    fn make_room(&self, entries: &mut HashMap<Subject, AddressTries>, now: Duration) {
        entries.retain(|_, entry| self.remaining(*entry, now) > 0);
        if entries.len() < self.settings.max_entries {
            return;
        }
        let mut ranks: Vec<(u32, Duration, Subject)> =
            entries.iter().map(|(key, entry)| (self.remaining(*entry, now), entry.last, *key)).collect();
        ranks.sort_unstable();
        for (_, _, key) in &ranks[..ranks.len().div_ceil(2)] {
            entries.remove(key);
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Subject, AddressTries>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address of one household or host: an IPv4 address, or the upper half of an IPv6 address.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn doubled(first: u64, times: u32, most: u64) -> u64 {
    first.saturating_mul(1u64.checked_shl(times).unwrap_or(u64::MAX)).min(most)
}

/// `Retry-After` has whole seconds; one that is rounded down would bring the client back too early.
fn whole_seconds(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Duration {
        Duration::from_hours(12)
    }

    fn attempt<'a>(user_name: &'a str, address: &str) -> Attempt<'a> {
        Attempt { user_name, address: Some(address.parse().expect("an address")) }
    }

    fn throttle() -> Throttle {
        Throttle::new(ThrottleSettings::default())
    }

    fn fail(throttle: &Throttle, times: u32, who: Attempt<'_>) {
        for _ in 0..times {
            throttle.failed(who, noon());
        }
    }

    fn go(millis: u64) -> Verdict {
        Verdict::Go { delay: Duration::from_millis(millis) }
    }

    fn refuse(seconds: u64) -> Verdict {
        Verdict::Refuse { retry_after: Duration::from_secs(seconds) }
    }

    #[test]
    fn the_first_failures_cost_nothing() {
        let throttle = throttle();
        let who = attempt("ada", "192.0.2.1");
        assert_eq!(throttle.verdict(who, noon()), go(0));
        fail(&throttle, 3, who);
        assert_eq!(throttle.verdict(who, noon()), go(0));
    }

    #[test]
    fn the_delay_doubles_up_to_its_bound_and_then_attempts_are_refused() {
        let throttle = throttle();
        let who = attempt("ada", "192.0.2.1");
        fail(&throttle, 3, who);
        let mut verdicts = Vec::new();
        for _ in 0..8 {
            throttle.failed(who, noon());
            verdicts.push(throttle.verdict(who, noon()));
        }
        assert_eq!(verdicts, [go(250), go(500), go(1000), go(2000), go(4000), go(4000), refuse(30), refuse(60)]);
    }

    #[test]
    fn a_refusal_ends_at_the_time_that_it_names() {
        let throttle = throttle();
        let who = attempt("ada", "192.0.2.1");
        fail(&throttle, 10, who);
        assert_eq!(throttle.verdict(who, noon() + Duration::from_millis(100)), refuse(30));
        assert_eq!(throttle.verdict(who, noon() + Duration::from_secs(29)), refuse(1));
        assert!(matches!(throttle.verdict(who, noon() + Duration::from_secs(30)), Verdict::Go { .. }));
    }

    #[test]
    fn no_refusal_is_longer_than_the_longest() {
        let throttle = throttle();
        let who = attempt("ada", "192.0.2.1");
        fail(&throttle, 200, who);
        assert_eq!(throttle.verdict(who, noon()), refuse(15 * 60));
    }

    #[test]
    fn failures_count_for_the_user_name_from_wherever_they_come() {
        let throttle = throttle();
        for host in 1..=10 {
            throttle.failed(attempt("ada", &format!("192.0.2.{host}")), noon());
        }
        assert_eq!(throttle.verdict(attempt("ADA", "198.51.100.1"), noon()), refuse(30));
        assert_eq!(throttle.verdict(attempt("grace", "192.0.2.1"), noon()), go(0));
    }

    #[test]
    fn failures_count_for_the_address_whatever_the_user_name() {
        let throttle = throttle();
        for user in 0..50 {
            throttle.failed(attempt(&format!("user{user}"), "192.0.2.1"), noon());
        }
        assert_eq!(throttle.verdict(attempt("ada", "192.0.2.1"), noon()), refuse(30));
        assert_eq!(throttle.verdict(attempt("ada", "::ffff:192.0.2.1"), noon()), refuse(30));
        assert_eq!(throttle.verdict(attempt("ada", "192.0.2.2"), noon()), go(0));
    }

    #[test]
    fn an_address_of_version_six_counts_as_its_network() {
        let throttle = throttle();
        for host in 0..50 {
            throttle.failed(attempt(&format!("user{host}"), &format!("2001:db8::{host:x}")), noon());
        }
        assert_eq!(throttle.verdict(attempt("ada", "2001:db8::ffff:1"), noon()), refuse(30));
        assert_eq!(throttle.verdict(attempt("ada", "2001:db8:0:1::1"), noon()), go(0));
    }

    #[test]
    fn a_success_clears_the_user_name_but_not_the_address() {
        let throttle = throttle();
        let who = attempt("ada", "192.0.2.1");
        fail(&throttle, 49, who);
        throttle.succeeded("Ada");
        assert_eq!(throttle.verdict(attempt("ada", "192.0.2.9"), noon()), go(0));
        throttle.failed(attempt("grace", "192.0.2.1"), noon());
        assert_eq!(throttle.verdict(attempt("ada", "192.0.2.1"), noon()), refuse(30));
    }

    #[test]
    fn failures_are_forgotten_one_by_one() {
        let throttle = throttle();
        let who = attempt("ada", "192.0.2.1");
        fail(&throttle, 6, who);
        assert_eq!(throttle.verdict(who, noon()), go(1000));
        assert_eq!(throttle.verdict(who, noon() + Duration::from_mins(5)), go(500));
        assert_eq!(throttle.verdict(who, noon() + Duration::from_mins(15)), go(0));
    }

    #[test]
    fn an_attempt_from_nowhere_counts_for_the_user_name() {
        let throttle = throttle();
        let who = Attempt { user_name: "ada", address: None };
        fail(&throttle, 10, who);
        assert_eq!(throttle.verdict(who, noon()), refuse(30));
    }

    #[test]
    fn memory_is_bounded_and_the_name_under_attack_stays_known() {
        let throttle = Throttle::new(ThrottleSettings { max_entries: 10, ..ThrottleSettings::default() });
        fail(&throttle, 12, Attempt { user_name: "ada", address: None });
        for user in 0..1000 {
            throttle.failed(Attempt { user_name: &format!("user{user}"), address: None }, noon());
        }
        assert!(throttle.entries().len() <= 10);
        assert_eq!(throttle.verdict(Attempt { user_name: "ada", address: None }, noon()), refuse(120));
    }
}
