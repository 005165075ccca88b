//! The clock: only this file asks the machine for the time.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

/// A source of the time.
pub trait Clock: Send + Sync + 'static {
    /// This moment.
    fn now(&self) -> DateTime<Utc>;

    /// Monotonic time since some earlier moment, for waits. It never goes back, even if somebody sets the clock.
    fn steady(&self) -> Duration;
}

/// The beginning of the machine's monotonic time.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks for the time")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn steady(&self) -> Duration {
        BEGINNING.elapsed()
    }
}

/// A clock that does not advance until it is moved, for tests and for reproducible data.
#[derive(Debug)]
pub struct ManualClock {
    at: Mutex<(DateTime<Utc>, Duration)>,
}

impl ManualClock {
    /// A clock that shows `at`.
    pub fn new(at: DateTime<Utc>) -> Self {
        Self { at: Mutex::new((at, Duration::ZERO)) }
    }

    /// Lets time pass. A negative step sets the clock back, and no time passes.
    pub fn advance(&self, step: TimeDelta) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.0 += step;
        at.1 += step.to_std().unwrap_or_default();
    }

    /// Makes the clock show `at`; no time passes.
    pub fn set(&self, at: DateTime<Utc>) {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).0 = at;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn steady(&self) -> Duration {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_still_until_it_is_moved() {
        let start = DateTime::UNIX_EPOCH;
        let clock = ManualClock::new(start);
        assert_eq!(clock.now(), start);
        clock.advance(TimeDelta::seconds(3));
        assert_eq!(clock.now(), start + TimeDelta::seconds(3));
        clock.set(start);
        assert_eq!(clock.now(), start);
    }

    #[test]
    fn steady_time_passes_and_never_goes_back() {
        let clock = ManualClock::new(DateTime::UNIX_EPOCH);
        clock.advance(TimeDelta::seconds(3));
        clock.advance(TimeDelta::days(-5));
        clock.set(DateTime::UNIX_EPOCH);
        assert_eq!(clock.steady(), Duration::from_secs(3));
        let before = SystemClock.steady();
        assert!(SystemClock.steady() >= before);
    }
}
