//! The size of the file: whether compaction pays, and compaction.
//!
//! The space of deleted documents is reused. But pages that redb does not use move along in the log like the others.
//! After many deletions they are most of the file, and the next start compacts it.

use std::cmp::Ordering;
use std::fmt;

use redb::{Database, ReadableTable, ReadableTableMetadata};

use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::BESIDE;
use crate::store::embedded::index::table::IndexTable;
use crate::store::embedded::open::files::{Access, StoreFiles};
use crate::store::embedded::open::opening::{self, IfMissing, Ready};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::open::replace;
use crate::store::embedded::read::snapshot::Snapshot;

/// Smaller files are left alone when a store is opened.
const WORTH_FROM_BYTES: u64 = 64 * 1024 * 1024;
/// The sample size: documents of a collection, and keys of an index.
const SAMPLES: usize = 64;
/// The bytes of an entry in addition to its key and value.
const ENTRY_BYTES: u64 = 24;
/// The size of redb's pages; a longer value has its own pages, a power of two of them.
const PAGE_BYTES: u64 = 4096;

/// What compacting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// What the file took on disk before, in bytes.
    pub before: u64,
    /// And after.
    pub after: u64,
}

/// The outcome for people. A file that grew says why: small ones do, and a restored backup, which is denser than a log.
impl fmt::Display for Compacted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after } = self;
        match after.cmp(before) {
            Ordering::Less => write!(formatter, "compacted from {before} to {after} bytes"),
            Ordering::Equal => write!(formatter, "nothing was unused: the file has {after} bytes, as before"),
            Ordering::Greater => write!(
                formatter,
                "nothing was unused: the file grew from {before} to {after} bytes, because a store is written in steps \
                 of 1 MiB and keeps about {BESIDE} bytes free for its next writes"
            ),
        }
    }
}

/// Opens a store; compacts it first when more than half of its file is unused.
pub(crate) fn open_compacted(files: &StoreFiles) -> Result<Ready, OpenError> {
    let opened = opening::open(files, IfMissing::Create)?;
    if files.access() == Access::Overlay
        || !pays(&opened.database, &opened.catalog, files.taken_bytes(), WORTH_FROM_BYTES)
    {
        return Ok(opened);
    }
    drop(opened);
    log::info!("more than half of {} is unused; compacting it", files.paths().file().display());
    match compact(files) {
        Ok(done) => log::info!("compacted from {} to {} MiB", done.before >> 20, done.after >> 20),
        Err(error) => log::warn!("it was not compacted: {error}"),
    }
    opening::open(files, IfMissing::Refuse)
}

/// Copies the store into a new file in the order of its keys, after comparing all checksums.
///
/// redb's own compaction would write to the file. This leaves it intact until the new one is on disk.
pub(crate) fn compact(files: &StoreFiles) -> Result<Compacted, OpenError> {
    let before = files.taken_bytes();
    replace::rewrite(files)?;
    Ok(Compacted { before, after: files.taken_bytes() })
}

/// Whether more than half of a file is unused. A few samples decide for most files. Only if they say yes, all pages are
/// counted, which takes as long as reading the file.
pub(crate) fn pays(database: &Database, catalog: &Catalog, taken: u64, worth_from: u64) -> bool {
    if taken < worth_from {
        return false;
    }
    let answer = failure::caught(|| -> Result<bool, redb::Error> {
        let taken = taken.saturating_sub(BESIDE);
        if estimate(database, catalog)?.saturating_mul(2) > taken {
            return Ok(false);
        }
        let transaction = database.begin_write()?;
        let stats = transaction.stats()?;
        transaction.abort()?;
        Ok(stats.allocated_pages().saturating_mul(PAGE_BYTES).saturating_mul(2) < taken)
    });
    // Where counting fails, copying would as well.
    matches!(answer, Ok(Ok(true)))
}

/// An estimate of the bytes of a file that hold neither documents nor keys: free pages, and free space in other pages.
/// Some always stays. `None` if there is no estimate.
pub(crate) fn unused(database: &Database, catalog: &Catalog, taken: u64) -> Option<u64> {
    let needed = failure::caught(|| estimate(database, catalog));
    Some(taken.saturating_sub(BESIDE).saturating_sub(needed.ok()?.ok()?))
}

/// About how many bytes the documents and keys need.
fn estimate(database: &Database, catalog: &Catalog) -> Result<u64, redb::Error> {
    let snapshot = Snapshot::take(database, catalog.clone())?;
    let mut bytes = 0;
    for collection in snapshot.collections() {
        let Ok(tables) = snapshot.tables(collection) else { continue };
        let mut sizes = EntrySizes::default();
        for sample in 0..SAMPLES as u64 {
            let from = collection.next_row / SAMPLES as u64 * sample;
            if let Some(entry) = tables.data.range(from..)?.next() {
                sizes.add(entry?.1.value().len() as u64);
            }
        }
        bytes += sizes.all(tables.data.len()?);
        for index in &tables.indexes {
            let mut sizes = EntrySizes::default();
            if let IndexTable::Packed(blocks, _) = index {
                for block in blocks.iter()?.take(SAMPLES) {
                    let (first, rest) = block?;
                    sizes.add((first.value().len() + rest.value().len()) as u64);
                }
                bytes += sizes.all(blocks.len()?);
                continue;
            }
            for entry in index.all()?.take(SAMPLES) {
                sizes.add(entry?.stored_key().len() as u64);
            }
            bytes += sizes.all(index.len()?);
        }
    }
    Ok(bytes)
}

/// The mean size of sampled entries.
#[derive(Default)]
struct EntrySizes {
    count: u64,
    bytes: u64,
}

impl EntrySizes {
    fn add(&mut self, length: u64) {
        self.count += 1;
        let needed = length + ENTRY_BYTES;
        self.bytes += if needed > PAGE_BYTES { needed.next_power_of_two() } else { needed };
    }

    fn all(&self, entries: u64) -> u64 {
        self.bytes.saturating_mul(entries) / self.count.max(1)
    }
}
