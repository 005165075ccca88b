//! How sign-ins ended.

use std::sync::atomic::{AtomicU64, Ordering};

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
