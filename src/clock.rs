//! The clock that everyone else is given: nothing but this file asks the machine for the time.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// This moment.
    fn now(&self) -> DateTime<Utc>;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks for the time")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// A clock that stands still until it is moved, for tests and for reproducible data.
#[derive(Debug)]
pub struct ManualClock {
    at: Mutex<DateTime<Utc>>,
}

impl ManualClock {
    /// A clock that shows `at`.
    pub fn new(at: DateTime<Utc>) -> Self {
        Self { at: Mutex::new(at) }
    }

    /// Moves the clock on (or back, by a negative step).
    pub fn advance(&self, step: TimeDelta) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) += step;
    }

    /// Makes the clock show `at`.
    pub fn set(&self, at: DateTime<Utc>) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
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
}
