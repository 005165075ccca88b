//! How deliveries to webhooks, sign-ins and look-ups in caches ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver has the event.
    Delivered,
    /// It is tried again.
    Failed,
    /// The webhook was paused.
    Paused,
}

impl Delivery {
    const ALL: [Self; 3] = [Self::Delivered, Self::Failed, Self::Paused];

    /// Its name in the label `outcome`.
    fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Paused => "paused",
        }
    }
}

/// How many attempts ended in which way since the start.
#[derive(Debug, Default)]
pub struct Deliveries([AtomicU64; 3]);

impl Deliveries {
    /// One more ended.
    pub fn note(&self, outcome: Delivery) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers, by the name of the outcome.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        Delivery::ALL.map(|outcome| (outcome.name(), self.0[outcome as usize].load(Ordering::Relaxed)))
    }
}

/// How a sign-in ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignIn {
    /// Name and password were right.
    Accepted,
    /// They were not, or the user is locked.
    Refused,
    /// Refused unchecked after too many failures.
    HeldBack,
}

impl SignIn {
    const ALL: [Self; 3] = [Self::Accepted, Self::Refused, Self::HeldBack];

    /// Its name in the label `outcome`.
    fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::HeldBack => "held_back",
        }
    }
}

/// How many sign-ins ended in which way since the start.
#[derive(Debug, Default)]
pub struct SignIns([AtomicU64; 3]);

impl SignIns {
    /// One more ended.
    pub fn note(&self, outcome: SignIn) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers, by the name of the outcome.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        SignIn::ALL.map(|outcome| (outcome.name(), self.0[outcome as usize].load(Ordering::Relaxed)))
    }
}

/// Hits and misses since they were last taken.
#[derive(Debug, Default)]
pub struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Tally {
    /// Notes a look-up in the cache.
    pub fn note(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes hits and misses, and starts again from zero.
    pub(super) fn take(&self) -> (u64, u64) {
        (self.hits.swap(0, Ordering::Relaxed), self.misses.swap(0, Ordering::Relaxed))
    }
}
