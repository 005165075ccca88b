//! The layer below redb: it writes the pages of redb as a log.
//!
//! redb copies each page that it changes to a free place, anywhere in its file. In a large store these places are far apart. A
//! disk takes much longer to sync them than to sync the same bytes in one piece. So the real file is a log: all pages that redb
//! writes between two syncs are appended as one batch. A page map in memory says where each page is. The page map and the segment
//! table take about 3.5 MiB for each GiB of the file. The page map also holds the checksum of each page. It is compared whenever a
//! page is read from the file, so a changed page is never used.
//!
//! The log reuses its segments. A segment without live pages is free. A segment with few live pages is cleared: its live pages
//! are written again elsewhere. So garbage is at most half of the live pages, plus 8 MiB, plus what was written since the last
//! checkpoint. A checkpoint writes the whole page map from time to time, so that opening has a short log to follow.
//!
//! The log also takes records: the changes of a commit as bytes. A record makes them durable before their pages are.
//!
//! Each file here may import the files before it, and no other:
//!
//! | file | what lives there |
//! |---|---|
//! | [`layout`] | the bytes of the log; where records are |
//! | [`segments`], [`promises`] | which segments are in use; which space is promised |
//! | [`recovery`] | reads the log when it is opened; why a file is not opened as one |
//! | [`log_writer`] | the state of the writer: phases of the file and of a batch |
//! | [`mod@log`] | the log in memory, and reading of pages |
//! | [`first_write`], [`parts`], [`clearing`], [`checkpoint`] | what a sync writes, and in which order |
//! | [`append`], [`reserve`] | appends records; promises space |
//! | [`backend`] | the file that redb sees |
//!
//! *Invariants:*
//! - A batch is there as a whole or not at all. If its sync succeeded, it is there.
//! - The log never overwrites what recovery may read: the page map of the newest superblock, the chain after it with its records,
//!   and the live pages of both.
//! - Opening a file does not write to it.
//! - After a failed sync, the end of the log may exist only in the memory of the operating system, see [`first_write`]. So each
//!   part and each checkpoint first rewrites that end. Nothing else writes a superblock or makes the file shorter. Making the file
//!   longer is always safe, because recovery does not read there.

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
mod recovery;
mod reserve;
mod segments;

pub(crate) use self::backend::{BESIDE, Opened, Pages, lock};
pub(crate) use self::layout::LAYOUT;
pub(crate) use self::promises::Use;
pub(crate) use self::recovery::Unopened;
