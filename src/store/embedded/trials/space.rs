//! The size of the file over time, and compacting it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::memory::Memory;
use super::{Random, directory, options, rounds, start, store_files, stored_number, up};
use crate::query::{Filter, Sort};
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::pages::BESIDE;
use crate::store::embedded::file::storage::BLOCK;
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::opening::{self, IfMissing, Ready};
use crate::store::embedded::open::recovery::{self, Unreplayed};
use crate::store::embedded::options::Options;
use crate::store::embedded::upkeep::repair;
use crate::store::embedded::upkeep::space;
use crate::store::{Change, CollectionSpec, FindQuery, IndexSpec, Store, StoreError, Unit};

/// How many documents there are.
const DOCUMENTS: &str = "INVENTORY_REWRITTEN_DOCUMENTS";
/// How often each is rewritten.
const TIMES: &str = "INVENTORY_REWRITTEN_TIMES";
pub(super) const THINGS: &str = "things";
const WRITERS: usize = 8;
const READERS: usize = 4;

const COLLECTIONS: &[CollectionSpec] = &[CollectionSpec {
    name: THINGS,
    indexes: &[IndexSpec::unique("public_id", &[up("public_id")]), IndexSpec::plain("rank", &[up("rank")])],
}];

/// A document of about 1 KB.
pub(super) fn document(id: usize, rank: i64) -> RawDocumentBuf {
    let document =
        doc! { "_id": stored_number(id), "public_id": stored_number(id), "rank": rank, "text": "x".repeat(940) };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

/// Rewrites documents of one writer's share, each at random, until all were rewritten `times` times on average.
async fn rewrite(store: &EmbeddedStore, ids: Vec<usize>, times: usize, seed: u64) {
    let mut random = Random(seed);
    let mut ranks = vec![0_i64; ids.len()];
    for _ in 0..ids.len() * times {
        let which = random.below(ids.len());
        let rank = stored_number(random.below(1_000_000));
        let (before, after) = (document(ids[which], ranks[which]), document(ids[which], rank));
        store.commit(Unit::of(Change::Replace { collection: THINGS, before, after })).await.expect("it is there");
        ranks[which] = rank;
    }
}

/// Reads pages and single documents until the stop flag is set.
async fn read(store: Arc<EmbeddedStore>, documents: usize, seed: u64) {
    let mut random = Random(seed);
    let budget = Duration::from_mins(1);
    loop {
        let id = stored_number(random.below(documents));
        let one = FindQuery::new(Filter::equals("public_id", id), budget);
        assert_eq!(store.find(THINGS, &one).await.expect("an answer").len(), 1);
        let page = FindQuery::new(Filter::all(), budget).sorted(Sort::by("rank", false)).limited(20);
        store.find(THINGS, &page).await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(super) async fn filled(store: &EmbeddedStore, documents: usize) {
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    for ids in (0..documents).collect::<Vec<_>>().chunks(500) {
        let insert = |id: &usize| Change::Insert { collection: THINGS, document: document(*id, 0) };
        let unit = Unit { conditions: Vec::new(), changes: ids.iter().map(insert).collect() };
        store.commit(unit).await.expect("ids are free");
    }
}

const MIB: u64 = 1024 * 1024;

/// The maximum size of the file on disk for this number of bytes of content, in whatever groups the commits come. How many
/// units a group has depends on the load of the machine, and the size of the file depends on the groups.
///
/// In proportion to the content, five halves of it:
/// - Pages take 4/3 of it: a page of 4 KiB has three documents of 1 KB.
/// - Garbage that is not cleared is at most half of the pages.
/// - What was written since the last checkpoint and the one before is a quarter of the pages, an eighth each time.
/// - This makes 4/3 × 7/4 = 7/3. The rest is for the indexes and for pages that redb may not use again yet.
///
/// In addition, for a store of so few documents:
/// - 8 MiB of garbage are left alone, and [`BESIDE`] is what a log of any size has.
/// - What was written since the two checkpoints is 512 slots each time, where an eighth of the pages is less.
/// - A batch follows when its records take a 256th of the file: 200 KB, as a file of 50 MB has. That is 200 units of 1 KB. They change
///   200 pages of documents, and 140 other ones of indexes and of redb. Twice as many pages are cleared for a batch: 1,020 slots.
/// - The next batch is promised room before it is written, see `reserve.rs`. That is twice what redb has in memory, and what it has
///   written early. In memory are 255 staged pages, 128 of the cache, and 18 for one more unit; 340 are early, and 45 come with any
///   commit. This makes 1,187 pages, and 1,230 slots with the heads of parts.
///
/// A large store needs none of this: its pages take less than 4/3 of the content.
fn most_bytes(documents: usize, content: u64) -> u64 {
    let beside = 8 * MIB + BESIDE + (2 * 512 + 1_020 + 1_230) * BLOCK as u64;
    content * 5 / 2 + if documents > 50_000 { 0 } else { beside }
}

/// The disk space of a file, and its length. redb doubles the length of a full file; parts that were never written take
/// no space.
fn sizes(directory: &Path) -> (u64, u64) {
    let file = fs::metadata(directory.join("inventory.redb")).expect("it is there");
    (file.blocks() * 512, file.len())
}

/// The bytes of all documents and keys.
fn live_bytes(files: &StoreFiles) -> u64 {
    let Unreplayed { database, .. } = recovery::open_overlay(files).expect("it can be opened");
    let transaction = database.begin_write().expect("a transaction");
    transaction.stats().expect("it can be read").stored_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_rewriting_leaves_the_file_at_most_two_and_a_half_times_as_large_as_what_it_holds() {
    let (documents, times) = (rounds(DOCUMENTS, 8_000), rounds(TIMES, 5));
    let directory = tempfile::tempdir().expect("a directory for the test");
    // The small cache of the other trials would make millions of documents a matter of hours.
    let options = if documents > 10_000 { Options::default() } else { options() };
    let store = Arc::new(EmbeddedStore::open(directory.path(), &options).expect("a new store"));
    filled(&store, documents).await;
    let loaded = sizes(directory.path());
    let mut readers = tokio::task::JoinSet::new();
    (0..READERS).for_each(|reader| drop(readers.spawn(read(Arc::clone(&store), documents, reader as u64))));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        let ids = (writer..documents).step_by(WRITERS).collect();
        writers.spawn(async move { rewrite(&store, ids, times, 99 + writer as u64).await });
    }
    writers.join_all().await;
    readers.shutdown().await;
    let rewritten = sizes(directory.path());
    assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new());
    drop(store);
    let closed = sizes(directory.path());
    let files = StoreFiles::prepare(directory.path(), &options).expect("it is there");
    let live = live_bytes(&files);
    space::compact(&files).expect("it is sound");
    let percent = |(taken, length): (u64, u64)| (taken * 100 / live, length * 100 / live);
    let compacted = sizes(directory.path());
    eprintln!(
        "{documents} documents rewritten {times} times, {live} bytes live; in percent of that, on disk and by length:"
    );
    for (when, sizes) in [("loaded", loaded), ("rewritten", rewritten), ("closed", closed), ("compacted", compacted)] {
        eprintln!("  {when:9} {:?}", percent(sizes));
    }
    let (largest, most) = (rewritten.0.max(closed.0), most_bytes(documents, live));
    assert!(largest <= most, "the file grew too large: {largest} bytes, and {most} is the most");
    // A compacted file ends in the segment of its last page.
    assert!(compacted.1 <= compacted.0 + compacted.0 / 20 + MIB, "{compacted:?}");
    assert_eq!(repair::check_at(&files).expect("it can be opened").problems, []);
}

#[tokio::test]
async fn compacting_pays_when_most_documents_are_gone_and_not_before() {
    let memory = Memory::of(std::collections::BTreeMap::new());
    let store = start(&memory, &options());
    filled(&store, 8_000).await;
    drop(store);
    let pays = || {
        let files = store_files(&memory);
        let Ready { database, catalog, .. } = opening::open(&files, IfMissing::Create).expect("it can be opened");
        space::pays(&database, &catalog, files.length(), 0)
    };
    assert!(!pays());
    let store = start(&memory, &options());
    let filter = Filter::parse(&doc! { "public_id": { "$gte": 500 } }, &crate::query::Limits::default());
    let most = Change::DeleteMany { collection: THINGS, filter: filter.expect("a filter") };
    store.commit(Unit::of(most)).await.expect("no condition");
    let count = |store: EmbeddedStore| async move {
        let all: Result<u64, StoreError> = store.count(THINGS, &Filter::all(), Duration::from_mins(1)).await;
        all.expect("an answer")
    };
    assert_eq!(count(store).await, 500);
    assert!(pays());
    let done = space::compact(&store_files(&memory)).expect("it is sound");
    assert!(done.after * 2 < done.before, "{done:?}");
    assert!(!pays());
    assert_eq!(count(start(&memory, &options())).await, 500);
    let files: Vec<_> = memory.contents().into_keys().collect();
    assert_eq!(files, ["inventory.redb", "inventory.redb.acknowledged"].map(|name| directory().join(name)));
}
