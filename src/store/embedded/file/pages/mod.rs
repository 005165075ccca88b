//! What is below redb: its pages, written one behind the other.
//!
//! redb copies each page that it changes to a free place, anywhere in its file. In a large store these places are far apart, and
//! making them durable takes the disk many times as long as writing the same bytes in one piece. So the file is a log: what redb
//! writes between two syncs goes to the end of it as one batch. A map in memory says where each page is. Map and segments take
//! about 3.5 MiB for a GiB. The map also holds a checksum of each page, which is compared whenever a page is read from the file: a
//! page that is not what was written is never taken for one.
//!
//! The log goes round. A segment of which no page counts any more is written again. A segment of which few pages count is
//! cleared: these pages are written anew, about twice as many as the batch has. So garbage is at most half of what counts,
//! beside 8 MiB and what was written since the last checkpoint.
//! From time to time the map is written as a whole, a checkpoint, so that opening has little to follow.
//!
//! Beside pages the log takes [records]: bytes that are durable at once, until the pages say the same.
//!
//! Each file here may import those before it, and no other:
//!
//! | file | what lives there |
//! |---|---|
//! | [`layout`], [`unopened`] | the bytes of the log; why a file is not opened as one |
//! | [`ahead`] | reading ahead |
//! | [`segments`], [`records`], [`promises`] | which segments are in use; where records are; what room was promised |
//! | [`recovery`] | reads the log when it is opened |
//! | [`log_writer`] | the state of the writer: phases of the file and of a batch |
//! | [`mod@log`] | the log in memory, and reading of pages |
//! | [`first_write`], [`parts`], [`clearing`], [`checkpoint`] | what a sync writes, and in which order |
//! | [`append`], [`reserve`] | records are appended; room is promised |
//! | [`backend`] | the file that redb sees |
//!
//! *Invariants:*
//! - A batch is there as a whole or not at all, and what a sync returned for is there.
//! - What recovery may read is not written over: neither the map of the newest superblock, nor the chain behind it with its
//!   records, nor a page that counts in either.
//! - Opening a file does not write to it.
//! - After a sync that failed nothing is believed that only the operating system's memory says, see [`first_write`]. So each part
//!   and each checkpoint rewrites the end of the log first, and nothing else writes a superblock or makes the file shorter. Making
//!   it longer needs no such care: that writes behind all that recovery reads.

mod ahead;
mod append;
mod backend;
mod checkpoint;
mod clearing;
mod first_write;
mod layout;
mod log;
mod log_writer;
mod parts;
mod promises;
mod records;
mod recovery;
mod reserve;
mod segments;
mod unopened;

pub(crate) use self::ahead::reading_ahead;
pub(crate) use self::backend::{BESIDE, Opened, Pages, lock};
pub(crate) use self::layout::LAYOUT;
pub(crate) use self::promises::Use;
pub(crate) use self::unopened::Unopened;
