//! Mixed load by several clients, each with documents of its own, so that what must be found later is known.
//!
//! A client does one operation after the other. Whatever happens, its documents are those after the last acknowledged
//! operation, or after the one in progress. They are never anything else, and never a part of an operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use super::{Random, one_of, stored_number, up};
use crate::query::{Filter, Update};
use crate::store::{Change, CollectionSpec, FindQuery, IndexSpec, Store, StoreError, Unit};

/// How many clients there are.
pub(super) const CLIENTS: usize = 16;
/// A client with more documents than this clears them away.
const MOST_DOCUMENTS: usize = 12;
/// The number of documents of a client that [rewrites](rewrite) them ...
const MANY: u32 = 600;
/// ... at most this number at a time.
const REWRITTEN: usize = 8;
/// What the ids of small documents leave when they are divided by five.
const SMALL: i64 = 1;

const THINGS: &str = "things";
const PARTS: &str = "parts";

const PUBLIC_ID: IndexSpec = IndexSpec::unique("public_id", &[up("public_id")]);

/// What the clients write to.
pub(super) const COLLECTIONS: &[CollectionSpec] = &[
    CollectionSpec {
        name: THINGS,
        indexes: &[
            PUBLIC_ID,
            IndexSpec::plain("client", &[up("client"), up("version")]),
            IndexSpec::plain("tags", &[up("tags")]),
        ],
    },
    CollectionSpec { name: PARTS, indexes: &[PUBLIC_ID, IndexSpec::plain("client", &[up("client")])] },
];

/// The documents of a client: collection and id, the version, and the version at which they were last rewritten.
pub(super) type Documents = BTreeMap<(String, i64), (i64, i64)>;

/// Is notified of what clients do.
pub(super) trait Journal: Send + Sync {
    /// The client begins an operation that would leave these documents.
    fn begun(&self, client: usize, attempted: &Documents);
    /// An answer of the store confirmed that these are the client's documents.
    fn settled(&self, client: usize, documents: &Documents);
}

/// What a client's documents may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    settled: Documents,
    attempted: Option<Documents>,
}

impl Known {
    pub(super) fn begun(&mut self, attempted: Documents) {
        self.attempted = Some(attempted);
    }

    pub(super) fn settled(&mut self, documents: Documents) {
        *self = Self { settled: documents, attempted: None };
    }

    /// # Errors
    /// What is lost, or there by half.
    pub(super) fn check(&self, found: &Documents) -> Result<(), String> {
        if *found == self.settled || self.attempted.as_ref() == Some(found) {
            return Ok(());
        }
        Err(format!("acknowledged {:?}\nunder way {:?}\nfound {found:?}", self.settled, self.attempted))
    }
}

/// Has all clients do `operations` operations each; each begins with what is stored.
pub(super) async fn run<S: Store>(store: &Arc<S>, journal: &Arc<impl Journal + 'static>, operations: usize, seed: u64) {
    let stored = stored(&**store).await.expect("the store can be read");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let (store, journal) = (Arc::clone(store), Arc::clone(journal));
        let documents = stored.get(&number).cloned().unwrap_or_default();
        journal.settled(number, &documents);
        let version = documents.values().map(|(version, _)| *version).max().unwrap_or_default();
        let random = Random(seed ^ ((number as u64) << 32));
        let mut client = Client { number, random, version, documents };
        tasks.spawn(async move {
            for _ in 0..operations {
                client.work(&*store, &*journal).await;
            }
        });
    }
    tasks.join_all().await;
}

/// Lets a client store many small documents, and rewrite some of them in each of this many units.
pub(super) async fn rewrite<S: Store>(store: &S, journal: &impl Journal, number: usize, units: usize) {
    let random = Random(number as u64);
    let mut client = Client { number, random, version: 1, documents: Documents::new() };
    let first = store.reserve_ids(THINGS, MANY * 5).await.expect("ids");
    let small: Vec<i64> = (first..first + i64::from(MANY) * 5).filter(|id| id % 5 == SMALL).collect();
    for ids in small.chunks(50) {
        let mut operation = Operation { after: client.documents.clone(), ..Operation::default() };
        for id in ids {
            operation.after.insert((THINGS.to_owned(), *id), (client.version, client.version));
            let document = client.document(*id, client.version, client.version);
            operation.unit.changes.push(insertion(THINGS, document));
        }
        client.commit(store, journal, operation).await;
    }
    for _ in 0..units {
        client.version += 1;
        let mut operation = Operation { after: client.documents.clone(), ..Operation::default() };
        let ids: BTreeSet<i64> = (0..REWRITTEN).map(|_| small[client.random.below(small.len())]).collect();
        for id in ids {
            client.replace(&mut operation, id);
        }
        client.commit(store, journal, operation).await;
    }
}

struct Client {
    number: usize,
    random: Random,
    version: i64,
    documents: Documents,
}

/// A unit, what it leaves, and whether it is to be refused.
#[derive(Default)]
struct Operation {
    unit: Unit,
    after: Documents,
    refused: bool,
}

impl Client {
    /// Does one operation.
    async fn work(&mut self, store: &dyn Store, journal: &dyn Journal) {
        self.version += 1;
        let operation = match self.operation(store).await {
            Ok(operation) => operation,
            Err(StoreError::Unavailable { .. }) => return tokio::time::sleep(Duration::from_millis(1)).await,
            Err(other) => panic!("{other:?}"),
        };
        self.commit(store, journal, operation).await;
    }

    async fn commit(&mut self, store: &dyn Store, journal: &dyn Journal, operation: Operation) {
        journal.begun(self.number, &operation.after);
        match store.commit(operation.unit).await {
            Ok(_) => assert!(!operation.refused, "a key was broken"),
            Err(StoreError::Duplicate { .. }) => assert!(operation.refused, "a key is taken that was just given out"),
            Err(StoreError::Unavailable { .. }) => return self.read_again(store, journal, &operation.after).await,
            Err(other) => panic!("{other:?}"),
        }
        self.documents = operation.after;
        journal.settled(self.number, &self.documents);
    }

    /// Finds out whether an operation that failed on the way happened.
    async fn read_again(&mut self, store: &dyn Store, journal: &dyn Journal, attempted: &Documents) {
        loop {
            match stored(store).await {
                Ok(mut found) => {
                    let found = found.remove(&self.number).unwrap_or_default();
                    assert!(found == self.documents || found == *attempted, "half an operation is there: {found:?}");
                    self.documents = found;
                    return journal.settled(self.number, &self.documents);
                }
                Err(StoreError::Unavailable { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    async fn operation(&mut self, store: &dyn Store) -> Result<Operation, StoreError> {
        let mut operation = Operation { after: self.documents.clone(), ..Operation::default() };
        if self.documents.len() > MOST_DOCUMENTS {
            for collection in [THINGS, PARTS] {
                operation.unit.changes.push(Change::DeleteMany { collection, filter: self.mine() });
            }
            operation.after.clear();
            return Ok(operation);
        }
        let things: Vec<i64> =
            self.documents.keys().filter(|(name, _)| name == THINGS).map(|(_, number)| *number).collect();
        let one = (!things.is_empty()).then(|| things[self.random.below(things.len())]);
        match (one, self.random.below(8)) {
            (None, _) | (_, 0 | 1) => self.insert(store, &mut operation, THINGS, 1).await?,
            (_, 2) => {
                self.insert(store, &mut operation, THINGS, 3).await?;
                self.insert(store, &mut operation, PARTS, 1).await?;
            }
            (Some(id), 3) => self.replace(&mut operation, id),
            (Some(id), 4) => self.delete(&mut operation, id),
            (_, 5) => {
                let (filter, update) = (self.mine(), Update::set("version", self.version));
                operation.unit.changes.push(Change::UpdateMany { collection: THINGS, filter, update });
                let things = operation.after.iter_mut().filter(|((name, _), _)| name == THINGS);
                things.for_each(|(_, (version, _))| *version = self.version);
            }
            (Some(id), 6) => {
                self.insert(store, &mut operation, PARTS, 1).await?;
                self.delete(&mut operation, id);
                if let Some(other) = things.iter().find(|other| **other != id) {
                    self.replace(&mut operation, *other);
                }
            }
            (Some(id), _) => {
                // The second change breaks a key, so the first one must not happen either.
                self.insert(store, &mut operation, THINGS, 1).await?;
                operation.unit.changes.push(insertion(THINGS, self.document(id, self.version, self.version)));
                (operation.after, operation.refused) = (self.documents.clone(), true);
            }
        }
        Ok(operation)
    }

    fn mine(&self) -> Filter {
        Filter::equals("client", stored_number(self.number))
    }

    async fn insert(
        &self,
        store: &dyn Store,
        operation: &mut Operation,
        collection: &'static str,
        count: u32,
    ) -> Result<(), StoreError> {
        let first = store.reserve_ids(collection, count).await?;
        for id in first..first + i64::from(count) {
            let before = operation.after.insert((collection.to_owned(), id), (self.version, self.version));
            assert_eq!(before, None, "{id} was given out twice");
            operation.unit.changes.push(insertion(collection, self.document(id, self.version, self.version)));
        }
        Ok(())
    }

    fn replace(&self, operation: &mut Operation, id: i64) {
        let (before, after) = (self.known(id), self.document(id, self.version, self.version));
        operation.unit.changes.push(Change::Replace { collection: THINGS, before, after });
        operation.after.insert((THINGS.to_owned(), id), (self.version, self.version));
    }

    fn delete(&self, operation: &mut Operation, id: i64) {
        operation.unit.changes.push(Change::Delete { collection: THINGS, before: self.known(id) });
        operation.after.remove(&(THINGS.to_owned(), id));
    }

    fn known(&self, id: i64) -> RawDocumentBuf {
        let (version, made) = self.documents[&(THINGS.to_owned(), id)];
        self.document(id, version, made)
    }

    fn document(&self, id: i64, version: i64, made: i64) -> RawDocumentBuf {
        document(self.number, id, version, made)
    }
}

fn insertion(collection: &'static str, document: RawDocumentBuf) -> Change {
    Change::Insert { collection, document }
}

/// Of very different lengths, some over several pages.
fn document(client: usize, id: i64, version: i64, made: i64) -> RawDocumentBuf {
    let length = one_of([20, 300, 900, 2_000, 6_000], id);
    let tags: Vec<i64> = (0..made % 4).map(|tag| tag * 100 + id).collect();
    let document: Document = doc! {
        "_id": id, "public_id": id, "client": stored_number(client), "version": version, "made": made, "tags": tags,
        "text": format!("{id} ").repeat(length / 4),
    };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

/// What is stored, by client; each document is exactly what its client wrote.
pub(super) async fn stored(store: &dyn Store) -> Result<BTreeMap<usize, Documents>, StoreError> {
    let mut found: BTreeMap<usize, Documents> = BTreeMap::new();
    for name in [THINGS, PARTS] {
        let all = FindQuery::new(Filter::all(), Duration::from_mins(1));
        for stored in store.find(name, &all).await?.iter() {
            let (client, id, version, made) = members(stored);
            assert_eq!(
                stored.as_bytes(),
                document(client, id, version, made).as_bytes(),
                "{id} is not what was written"
            );
            found.entry(client).or_default().insert((name.to_owned(), id), (version, made));
        }
    }
    Ok(found)
}

fn members(document: &RawDocument) -> (usize, i64, i64, i64) {
    let number = |member: &str| document.get_i64(member).expect("a number");
    (usize::try_from(number("client")).expect("a client"), number("public_id"), number("version"), number("made"))
}
