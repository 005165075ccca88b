//! How deliveries to webhooks ended.

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
