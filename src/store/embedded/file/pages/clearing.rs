//! Clearing: pages that still count leave segments that are mostly garbage.

use std::collections::BTreeSet;
use std::io;

use super::layout::{SEGMENT, SLOT, offset};
use super::log::{Log, MOST_STAGED};
use super::log_writer::LogWriter;
use super::segments::segment_of;

/// The minimum number of pages that clearing may rewrite for a batch, however small the batch is.
const CLEARED: usize = 64;

impl Log {
    /// Stages the live pages of segments that are mostly garbage, until there is at most `most` garbage. Leaves `kept` segments free, and
    /// the room that was promised.
    pub(super) fn clear_segments(&self, writer: &mut LogWriter, most: u64, kept: usize) -> io::Result<()> {
        // On a full disk a few slots count; heads of parts will take some again.
        let fullest = if writer.is_full { SEGMENT - 8 } else { SEGMENT * 9 / 10 };
        let mut garbage = writer.segments.clearable();
        let mut budget = CLEARED.max(2 * (writer.batch.pages_in_file() + self.shared().staged.len()));
        let mut cleared = BTreeSet::new();
        while garbage > most {
            let current = segment_of(writer.point.slot);
            let Some(victim) = writer.segments.victim(current, &cleared) else { break };
            let live = writer.segments.live_in(victim);
            if usize::from(live) > budget && !cleared.is_empty() {
                break;
            }
            // What is full would only be written again and again.
            if u32::from(live) > fullest || !self.has_room(writer, live.into(), kept)? {
                break;
            }
            self.clear_segment(writer, victim)?;
            budget = budget.saturating_sub(live.into());
            garbage = garbage.saturating_sub(u64::from(SEGMENT) - u64::from(live));
            cleared.insert(victim);
            if self.shared().staged.len() >= MOST_STAGED {
                self.write_parts(writer, false)?;
            }
        }
        Ok(())
    }

    /// Stages the live pages of a segment. One with a damaged page is kept as it is.
    fn clear_segment(&self, writer: &mut LogWriter, segment: u32) -> io::Result<()> {
        let pages: Vec<(u32, u32)> = writer.segments.pages_in(segment).collect();
        let (Some((first, _)), Some((last, _))) = (pages.first(), pages.last()) else { return Ok(()) };
        let mut bytes = vec![0; (last - first + 1) as usize * SLOT];
        let one_by_one = |bytes: &mut [u8]| {
            pages.iter().try_for_each(|(slot, _)| {
                self.file.read(offset(*slot), &mut bytes[(slot - first) as usize * SLOT..][..SLOT])
            })
        };
        let read = if pages.len() * 8 > bytes.len() / SLOT {
            // What cannot be read may be what no longer counts.
            self.file.read(offset(*first), &mut bytes).or_else(|_| one_by_one(&mut bytes))
        } else {
            one_by_one(&mut bytes)
        };
        let mut moved = Vec::with_capacity(pages.len());
        {
            let shared = self.shared();
            for (slot, page) in &pages {
                let place = shared.place(*page);
                if shared.staged.contains_key(page) || place.slot != *slot {
                    continue;
                }
                let own = &bytes[(slot - first) as usize * SLOT..][..SLOT];
                if read.is_err() || !place.is_of(*page, own) {
                    // It stays where it is. A failed read does not show what is there.
                    if read.is_ok() {
                        self.report_damage(*page, *slot);
                    }
                    writer.segments.keep(segment);
                    return Ok(());
                }
                moved.push((*page, Box::from(own)));
            }
        }
        writer.promises.note_moved(moved.len());
        self.shared_mut().staged.extend(moved);
        Ok(())
    }
}
