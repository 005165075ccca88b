//! What a stage keeps in memory, and values as its keys: equal when they compare as equal.

use std::hash::{Hash, Hasher};

use bson::Bson;

use super::{Budget, EvalError};
use crate::admission::Share;
use crate::query::compare::{compare_bson, type_rank};
use crate::query::expr::nearest_double;

/// How much a stage may keep, as in MongoDB.
const MAX_HELD: usize = 100 * 1024 * 1024;
/// `QueryExceededMemoryLimitNoDiskUseAllowed`.
const EXCEEDED_MEMORY_LIMIT: i32 = 292;

/// The bytes that a stage keeps, taken from the memory of all requests.
pub(super) struct Held {
    share: Share,
    bytes: usize,
    covered: usize,
}

impl Held {
    /// Nothing yet.
    pub(super) fn new(budget: &Budget) -> Self {
        Self { share: budget.share(), bytes: 0, covered: 0 }
    }

    /// Takes this number of bytes in addition.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// Frees `before` bytes, and takes `now` bytes.
    pub(super) fn exchange(&mut self, before: usize, now: usize) -> Result<(), EvalError> {
        self.set(self.bytes.saturating_add(now).saturating_sub(before))
    }

    /// Sets the number of bytes held in all.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.bytes = bytes;
        if bytes > MAX_HELD {
            let message = "a stage needs more than 100 MiB of memory; ask for less with $match, $project or $limit";
            return Err(EvalError::new(EXCEEDED_MEMORY_LIMIT, message));
        }
        if bytes > self.covered {
            self.covered = self.share.cover(bytes).map_err(|denied| EvalError::denied(&denied))?;
        }
        Ok(())
    }

    /// How many there are.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A value that is a key of groups and sets; a missing value is `None`.
#[derive(Debug, Clone)]
pub(super) struct Key(pub(super) Option<Bson>);

impl Key {
    fn value(&self) -> &Bson {
        // Missing and undefined compare as equal.
        self.0.as_ref().unwrap_or(&Bson::Undefined)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        compare_bson(self.value(), other.value()).is_eq()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.value(), state);
    }
}

/// Equal values have equal hashes. Numbers are hashed as the nearest double, which equal ones share.
fn hash<H: Hasher>(value: &Bson, state: &mut H) {
    state.write_i8(type_rank(value.into()));
    match value {
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => state.write(text.as_bytes()),
        Bson::Document(members) => {
            for (name, member) in members {
                state.write(name.as_bytes());
                hash(member, state);
            }
        }
        Bson::Array(items) => items.iter().for_each(|item| hash(item, state)),
        Bson::Boolean(truth) => state.write_u8(u8::from(*truth)),
        Bson::DateTime(date) => state.write_i64(date.timestamp_millis()),
        Bson::ObjectId(id) => state.write(&id.bytes()),
        Bson::Timestamp(time) => state.write_u64(u64::from(time.time) << 32 | u64::from(time.increment)),
        Bson::Binary(binary) => state.write_usize(binary.bytes.len()),
        Bson::RegularExpression(regex) => state.write(regex.pattern.as_str().as_bytes()),
        other => {
            if let Some(nearest) = nearest_double(other) {
                let same = if nearest.is_nan() { f64::NAN } else { nearest + 0.0 };
                state.write_u64(same.to_bits());
            }
        }
    }
}
