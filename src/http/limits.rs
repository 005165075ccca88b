//! Bounds on bodies of requests, the count of panics, and idempotency keys in use.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::body_quota::BodyQuota;
use crate::settings::Settings;

/// The bounds on decompressed bodies, and on the time of their arrival.
pub struct BodyLimits {
    /// In bytes.
    pub max_bytes: usize,
    /// In bytes, where a body holds many objects.
    pub max_bulk_bytes: usize,
    /// How many objects such a body may hold.
    pub max_bulk: usize,
    /// In bytes, where a body is a file.
    pub max_import_bytes: usize,
    /// From the head of the request to the last byte.
    pub timeout: Duration,
    /// Bodies that are on their way in.
    pub body_quota: Arc<BodyQuota>,
}

impl BodyLimits {
    /// As the settings say.
    pub fn new(settings: &Settings) -> Self {
        Self {
            max_bytes: settings.server.max_body_bytes,
            max_bulk_bytes: settings.api.max_bulk_body_bytes,
            max_bulk: usize::try_from(settings.api.max_bulk).unwrap_or(usize::MAX),
            max_import_bytes: settings.api.max_import_bytes,
            timeout: settings.server.limits.body_timeout(),
            body_quota: Arc::new(BodyQuota::new(settings.largest_body())),
        }
    }
}

/// How many panics of handlers were caught since the start.
#[derive(Debug, Default)]
pub struct Panics(AtomicU64);

impl Panics {
    /// There is one more.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A caller, a method with its path, and an idempotency key.
pub type KeyOfRequest = (i64, String, String);

/// The idempotency keys of requests that are under way on this instance.
#[derive(Debug, Clone, Default)]
pub struct KeysUnderWay(Arc<Mutex<HashSet<KeyOfRequest>>>);

impl KeysUnderWay {
    /// Notes a request; false if another one under its key is under way.
    pub fn begin(&self, key: KeyOfRequest) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key)
    }

    /// The request is over.
    pub fn end(&self, key: KeyOfRequest) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}
