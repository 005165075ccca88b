//! What is below redb: its pages, written one behind the other.
//!
//! redb copies each page that it changes to a place that is free, anywhere in its file. Of a large store these places are far
//! apart, and making them durable takes the disk many times as long as writing the same bytes in one piece. So the
//! file is a log: what redb writes between two syncs goes to the end of it as one batch, and a map in memory says where each page
//! is. With what is known of the segments it takes about 3.5 MiB for a GiB. It holds a checksum of each page as well, which is compared whenever a page is read
//! from the file: a page that is not what was written is never taken for one.
//!
//! The log goes round. A segment of which no page counts any more is written again. A segment of which few pages count is
//! cleared: these pages are written anew, about twice as many as the batch has. So garbage is at most half of what counts,
//! beside 8 MiB and what was written since the last checkpoint.
//! From time to time the map is written as a whole, a checkpoint, so that opening has little to follow.
//!
//! Beside pages the log takes [records]: bytes that are durable at once, until the pages say the same.
//!
//! *Invariants:*
//! - A batch is there as a whole or not at all, and what a sync returned for is there.
//! - What recovery may read is not written over: neither the map of the newest superblock, nor the chain behind it with its
//!   records, nor a page that counts in either.
//! - Opening a file does not write to it.
//! - After a sync that failed nothing is believed that only the operating system's memory says, see [`Log::sync_found`](log::Log::sync_found).

mod ahead;
mod append;
mod layout;
mod log;
mod promises;
mod records;
mod recovery;
mod reserve;
mod segments;
mod unopened;

pub(crate) use self::ahead::reading_ahead;
pub(crate) use self::layout::LAYOUT;
pub(crate) use self::log::{BESIDE, Opened, Pages, lock};
pub(crate) use self::promises::Use;
pub(crate) use self::unopened::Unopened;
