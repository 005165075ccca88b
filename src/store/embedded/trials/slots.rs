//! Files of redb's own, as backups are. redb notes its last two commits in two slots at the beginning. Whatever happens
//! to the slots, such a file gives all committed documents, or is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use bson::raw::{RawDocument, RawDocumentBuf};
use redb::{Database, ReadableTable};

use super::memory::Memory;
use super::{Random, directory, options, plain, rounds, start, store_files, up};
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::catalog::meta::{META, META_COMMIT};
use crate::store::embedded::file::acknowledged;
use crate::store::embedded::index::table::{DataDefinition, data_name};
use crate::store::embedded::open::paths::FILE;
use crate::store::embedded::open::recovery::{self, Unreplayed};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::upkeep::repair;
use crate::store::{Change, CollectionSpec, FindQuery, IndexSpec, Store, Unit};

/// Each how many bytes one is damaged: 1 for all.
const STRIDE: &str = "INVENTORY_SLOT_STRIDE";
/// How many files have one changed byte.
const ROUNDS: &str = "INVENTORY_PLAIN_DAMAGE_ROUNDS";
const THINGS: &str = "things";
const DOCUMENTS: i64 = 30;
/// Where redb's header has the flags of the file, and where its two slots begin.
const FLAGS: usize = 9;
const SLOTS: [usize; 2] = [64, 192];
const SLOT: usize = 128;
const PAGE: usize = 4096;
/// The last commit gives each document this version, and the commit before it the version below.
const LAST: i64 = 5;

const COLLECTIONS: &[CollectionSpec] =
    &[CollectionSpec { name: THINGS, indexes: &[IndexSpec::unique("public_id", &[up("public_id")])] }];

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn document(id: i64, version: i64) -> RawDocumentBuf {
    let document = doc! { "_id": id, "public_id": id, "version": version, "text": "x".repeat(300) };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

fn database(files: &Arc<Memory>) -> Database {
    let file = files.file(&directory().join(FILE)).expect("it is there");
    Database::builder().create_with_backend(file).expect("it is sound")
}

/// Makes this the version of each document, in one commit.
fn rewrite(database: &Database, version: i64) {
    let name = data_name(0);
    let transaction = database.begin_write().expect("a transaction");
    {
        let mut table = transaction.open_table(DataDefinition::new(&name)).expect("it is there");
        let rows: Vec<(u64, i64)> = table
            .iter()
            .expect("it can be read")
            .map(|entry| entry.expect("it can be read"))
            .map(|(row, stored)| (row.value(), id_of(RawDocument::from_bytes(stored.value()).expect("a document"))))
            .collect();
        for (row, id) in rows {
            table.insert(row, document(id, version).as_bytes()).expect("it can be written");
        }
        let mut meta = transaction.open_table(META).expect("it is there");
        let commit = meta.get(META_COMMIT).expect("it can be read").expect("it is there").value().to_vec();
        let commit = u64::from_le_bytes(commit.try_into().expect("a number")) + 1;
        meta.insert(META_COMMIT, commit.to_le_bytes().as_slice()).expect("it can be written");
    }
    transaction.commit().expect("it can be written");
}

fn id_of(document: &RawDocument) -> i64 {
    document.get_i64("public_id").expect("a number")
}

/// A file that was rewritten a few times, by a process that then closes it or is killed. Its watermark names the last
/// commit, or is missing.
async fn rewritten(is_closed: bool, is_noted: bool) -> Files {
    let memory = Memory::of(Files::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    for id in 0..DOCUMENTS {
        let insertion = Change::Insert { collection: THINGS, document: document(id, 0) };
        store.commit(Unit::of(insertion)).await.expect("ids are free");
    }
    drop(store);
    let files = plain(&memory);
    let database = database(&files);
    (1..=LAST).for_each(|version| rewrite(&database, version));
    let mut contents = files.contents();
    drop(database);
    if is_closed {
        contents = files.contents();
    }
    let Unreplayed { catalog, .. } =
        recovery::open_overlay(&store_files(&Memory::of(contents.clone()))).expect("it is sound");
    if is_noted {
        let note = acknowledged::bytes_of(catalog.commit);
        contents.insert(directory().join("inventory.redb.acknowledged"), note.to_vec());
    }
    contents
}

/// The version of all documents; an error where the store does not give them all.
async fn version(store: &EmbeddedStore) -> Result<i64, String> {
    let query = FindQuery::new(Filter::all(), Duration::from_mins(1));
    let found = store.find(THINGS, &query).await.map_err(|error| error.to_string())?;
    assert_eq!(found.len(), usize::try_from(DOCUMENTS).expect("it is small"), "some are gone in silence");
    let version_of = |found: &RawDocument| {
        let version = found.get_i64("version").expect("a number");
        assert_eq!(found.as_bytes(), document(id_of(found), version).as_bytes(), "it is not what was written");
        version
    };
    let versions: BTreeSet<i64> = found.iter().map(version_of).collect();
    assert_eq!(versions.len(), 1, "parts of different commits: {versions:?}");
    Ok(versions.into_iter().next().unwrap_or_default())
}

/// Whether a damaged file gives all documents, else `None`. `oldest` is the version that it may go back to.
async fn given(files: &Files, oldest: i64, what: &str) -> Option<i64> {
    let memory = Memory::of(files.clone());
    let is_sound = match repair::check_at(&store_files(&memory)) {
        Ok(findings) => findings.is_sound(),
        Err(error) => {
            assert_refusal(&error, what);
            false
        }
    };
    let mut given = None;
    for files in [store_files(&memory).overlaid(), store_files(&memory)] {
        let version = match EmbeddedStore::start(files, &options()) {
            Ok(store) => version(&store).await.ok(),
            Err(error) => {
                assert_refusal(&error, what);
                None
            }
        };
        assert!(version.is_none_or(|version| (oldest..=LAST).contains(&version)), "{what}: {version:?}");
        assert!(version.is_some() || !is_sound, "{what}: it was called sound");
        given = version;
    }
    given
}

fn assert_refusal(error: &OpenError, what: &str) {
    let is_refusal =
        matches!(error, OpenError::Damaged { .. } | OpenError::UnknownFormat(_) | OpenError::OlderStorage { .. });
    assert!(is_refusal, "{what}: {error}");
}

type Alteration = Box<dyn Fn(&mut [u8])>;

/// What can happen to the slots.
fn damages() -> Vec<(String, Alteration)> {
    let mut damages = Vec::new();
    let mut add = |what: String, damage: Alteration| damages.push((what, damage));
    for bit in 0..8 {
        add(format!("bit {bit} of the flags"), Box::new(move |bytes| bytes[FLAGS] ^= 1 << bit));
    }
    for (number, slot) in SLOTS.into_iter().enumerate() {
        let other = SLOTS[1 - number];
        for at in (0..SLOT).step_by(rounds(STRIDE, 5)) {
            add(format!("byte {at} of slot {number}"), Box::new(move |bytes| bytes[slot + at] ^= 0xff));
        }
        add(format!("slot {number} zeros"), Box::new(move |bytes| bytes[slot..slot + SLOT].fill(0)));
        add(format!("slot {number} is the other"), Box::new(move |bytes| bytes.copy_within(other..other + SLOT, slot)));
        for half in [0, SLOT / 2] {
            let what = format!("half of slot {number} from {half} on is of the other");
            add(what, Box::new(move |bytes| bytes.copy_within(other + half..other + half + SLOT / 2, slot + half)));
        }
    }
    add("both slots".to_owned(), Box::new(|bytes| SLOTS.iter().for_each(|slot| bytes[slot + 20] ^= 1)));
    damages
}

async fn try_slots(is_closed: bool, is_noted: bool) -> BTreeMap<Option<i64>, usize> {
    let files = rewritten(is_closed, is_noted).await;
    // The last commit of a process that was killed was never acknowledged.
    let oldest = if is_closed || is_noted { LAST } else { LAST - 1 };
    assert_eq!(given(&files, oldest, "nothing").await, Some(LAST));
    let mut outcomes = BTreeMap::new();
    for (what, damage) in damages() {
        let mut damaged = files.clone();
        damage(damaged.get_mut(&directory().join(FILE)).expect("the file"));
        *outcomes.entry(given(&damaged, oldest, &what).await).or_default() += 1;
    }
    eprintln!("closed {is_closed}, noted {is_noted}: {outcomes:?}");
    outcomes
}

#[tokio::test]
async fn a_closed_file_with_damaged_slots_gives_all_or_is_refused() {
    let outcomes = try_slots(true, false).await;
    assert!(outcomes[&None] > 10 && outcomes[&Some(LAST)] > 10, "{outcomes:?}");
}

#[tokio::test]
async fn a_file_that_was_not_closed_and_has_damaged_slots_gives_what_was_acknowledged_or_is_refused() {
    let outcomes = try_slots(false, true).await;
    assert!(outcomes[&None] > 10 && outcomes[&Some(LAST)] > 10, "{outcomes:?}");
    let outcomes = try_slots(false, false).await;
    assert!(outcomes[&Some(LAST - 1)] > 10, "nobody was told of the last one: {outcomes:?}");
}

#[tokio::test]
async fn a_changed_byte_in_a_file_of_redbs_own_is_never_an_answer() {
    let files = rewritten(true, false).await;
    let (name, mut random, mut refused) = (directory().join(FILE), Random(1), 0);
    for round in 0..rounds(ROUNDS, 150) {
        let mut damaged = files.clone();
        let bytes = damaged.get_mut(&name).expect("the file");
        let is_used = |at: &usize| bytes[at / PAGE * PAGE..][..PAGE].iter().any(|byte| *byte != 0);
        let at = std::iter::repeat_with(|| random.below(bytes.len())).find(is_used).expect("it is not empty");
        bytes[at] ^= 1 << random.below(8);
        refused += usize::from(given(&damaged, LAST, &format!("round {round}, byte {at}")).await.is_none());
    }
    assert!(refused > 10, "{refused}");
}

/// redb up to 4.5 went back to a damaged slot, and could find no documents there.
#[tokio::test]
async fn a_damaged_page_beside_a_torn_slot_is_refused() {
    let files = rewritten(false, false).await;
    let name = directory().join(FILE);
    let mut refused = 0;
    for page in 1..files[&name].len() / PAGE {
        for (number, slot) in SLOTS.into_iter().enumerate() {
            let mut damaged = files.clone();
            let bytes = damaged.get_mut(&name).expect("the file");
            bytes[page * PAGE + 8..][..64].iter_mut().for_each(|byte| *byte ^= 0x55);
            // It has no documents, in its words.
            bytes[slot + 1] = 0;
            let what = format!("page {page}, slot {number}");
            refused += usize::from(given(&damaged, LAST - 1, &what).await.is_none());
        }
    }
    assert!(refused > 3, "{refused}");
}
