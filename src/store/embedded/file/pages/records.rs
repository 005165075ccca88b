//! Where the records of a log are.

use super::layout::{Head, Place};

/// Where a record is.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) places: Vec<Place>,
}

impl Record {
    /// The one that these parts hold.
    pub(super) fn of(number: u64, bytes: u64, parts: &[(Head, u32)]) -> Self {
        let places = parts.iter().flat_map(|(head, slot)| {
            head.pages.iter().zip(slot + 1..).map(|((_, check), slot)| Place { slot, check: *check })
        });
        Self { number, bytes, places: places.collect() }
    }
}
