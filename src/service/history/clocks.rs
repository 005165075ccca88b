//! Clocks that were ahead. An entry has the time of the clock by which it was made. When the clock is set back, entries stay
//! with times that are yet to come. A note says that they came before the entries that followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bson::{DateTime, doc};

use crate::domain::document::{integer, raw};
use crate::query::{Filter, Sort};
use crate::store::collections::HISTORY;
use crate::store::{Change, FindQuery, Numbered, Store, StoreError};

/// How far the clocks of instances may differ.
pub(super) const TOLERANCE: Duration = Duration::from_mins(1);

/// How many bytes a note has.
const NOTE_BYTES: usize = 100;

/// The latest time that an entry can truly have at `now`, by the clock of any instance.
pub(super) fn latest(now: DateTime) -> DateTime {
    let tolerance = i64::try_from(TOLERANCE.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_millis(now.timestamp_millis().saturating_add(tolerance))
}

/// The newest time that entries of this process have, or entries that were there before.
#[derive(Default)]
pub(super) struct Newest {
    time: AtomicI64,
    /// Notes record entries of later times than the clock's, up to this one.
    noted: AtomicI64,
}

impl Newest {
    /// Notes an entry of this time.
    pub(super) fn note(&self, time: DateTime) {
        self.time.fetch_max(time.timestamp_millis(), Ordering::AcqRel);
    }

    /// Notes that the clock was set back to `now`.
    pub(super) fn set_back(&self, now: DateTime) {
        let ahead = self.time.swap(now.timestamp_millis(), Ordering::AcqRel);
        self.noted.fetch_max(ahead, Ordering::AcqRel);
    }

    /// Whether an entry of this time was made before `now`: its clock was ahead, and a note says so, or [`Self::note_of`] does.
    pub(super) fn is_ahead(&self, time: DateTime, now: DateTime) -> bool {
        let noted = DateTime::from_millis(self.noted.load(Ordering::Acquire));
        time > latest(now) && (time <= noted || self.ahead(now).is_some_and(|newest| time <= newest))
    }

    /// The newest time, if the clock was set back since.
    fn ahead(&self, now: DateTime) -> Option<DateTime> {
        Some(DateTime::from_millis(self.time.load(Ordering::Acquire))).filter(|newest| *newest > latest(now))
    }

    /// The note that the clock was set back, if it was: in [`HISTORY`], `{_id: "clock <sequence>", made_by, until, time}`.
    /// Entries up to the sequence `made_by`, which the note takes for itself, with times up to `until`, were made before `time`.
    pub(super) fn note_of(&self, now: DateTime, floor: i64) -> Option<Change> {
        let until = self.ahead(now)?;
        let note = move |made_by: i64| {
            vec![raw(&doc! { "_id": format!("clock {made_by}"), "made_by": made_by, "until": until, "time": now })]
        };
        let (count, bytes, documents) = (1, NOTE_BYTES, Arc::new(note));
        Some(Change::Append(Numbered { collection: HISTORY, floor, count, bytes, documents }))
    }
}

/// The sequence up to which entries were made before this time, although their times may be later; 0 if there are none.
pub(super) async fn made_before(store: &dyn Store, time: DateTime, max_time: Duration) -> Result<i64, StoreError> {
    let notes = Filter::ours(&doc! { "made_by": { "$gt": 0_i64 }, "time": { "$lte": time }, "until": { "$gt": time } });
    let last = FindQuery::new(notes, max_time).sorted(Sort::by("made_by", true));
    Ok(store.first(HISTORY, last).await?.and_then(|note| integer(&note, "made_by")).unwrap_or_default())
}
