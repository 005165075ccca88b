//! The reference: redb itself, with the tables that the store keeps for objects, and a writer that commits what is
//! waiting as one group. Nothing is checked, and the keys are made before the clock runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use tokio::sync::oneshot;

const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
const DATA: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("d0");
const ID: TableDefinition<'static, &[u8], u64> = TableDefinition::new("x0.0");
const PUBLIC_ID: TableDefinition<'static, &[u8], u64> = TableDefinition::new("x0.1");
const TYPE_ID: TableDefinition<'static, &[u8], ()> = TableDefinition::new("x0.2");
const FIELDS: TableDefinition<'static, &[u8], ()> = TableDefinition::new("x0.3");

/// As many as the store takes.
const GROUP: usize = 256;
/// About what the description of the collection takes, which the store writes with each group.
const META_BYTES: [u8; 700] = [7; 700];

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Bare redb with a thread that writes.
pub(crate) struct Bare {
    database: Arc<Database>,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// What a reader needs, opened once for many reads. As long as there is one, pages are not used again.
struct Snapshot {
    public_id: ReadOnlyTable<&'static [u8], u64>,
    data: ReadOnlyTable<u64, &'static [u8]>,
}

enum Job {
    Write(Vec<Prepared>, oneshot::Sender<()>),
    DeleteFrom(u64, oneshot::Sender<()>),
}

/// A document with its keys.
pub(crate) struct Prepared {
    row: u64,
    document: RawDocumentBuf,
    id: Vec<u8>,
    public_id: Vec<u8>,
    type_id: Vec<u8>,
    fields: Vec<Vec<u8>>,
}

impl Bare {
    pub(crate) fn open(directory: &Path, cache_bytes: usize) -> Result<Self, Error> {
        std::fs::create_dir_all(directory)?;
        let database = Arc::new(Database::builder().set_cache_size(cache_bytes).create(directory.join("bare.redb"))?);
        let transaction = database.begin_write()?;
        Tables::open(&transaction)?;
        transaction.commit()?;
        let (jobs, receiver) = sync_channel(4096);
        let writer = Arc::clone(&database);
        let thread = thread::spawn(move || write(&writer, &receiver));
        Ok(Self { database, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Reads by number, all from one snapshot: gives the bytes to `read`.
    pub(crate) fn read(&self, numbers: impl Iterator<Item = u32>, mut read: impl FnMut(&[u8])) -> Result<u32, Error> {
        let snapshot = Snapshot::take(&self.database)?;
        let mut count = 0;
        for number in numbers {
            let row = snapshot.public_id.get(number_key(i64::from(number)).as_slice())?.ok_or("no such key")?;
            let stored = snapshot.data.get(row.value())?.ok_or("no such row")?;
            read(stored.value());
            count += 1;
        }
        Ok(count)
    }

    pub(crate) async fn write(&self, documents: Vec<Prepared>) -> Result<(), Error> {
        self.ask(|reply| Job::Write(documents, reply)).await
    }

    /// Removes the rows from this one on.
    pub(crate) async fn delete_from(&self, row: u64) -> Result<(), Error> {
        self.ask(|reply| Job::DeleteFrom(row, reply)).await
    }

    async fn ask(&self, job: impl FnOnce(oneshot::Sender<()>) -> Job) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.jobs.as_ref().ok_or("closed")?.send(job(reply)).map_err(|_| "the writer has ended")?;
        Ok(answer.await?)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("bare redb: {error}");
        }
    }
}

impl Snapshot {
    fn take(database: &Database) -> Result<Self, Error> {
        let transaction = database.begin_read()?;
        Ok(Self { public_id: transaction.open_table(PUBLIC_ID)?, data: transaction.open_table(DATA)? })
    }
}

fn write(database: &Database, jobs: &Receiver<Job>) -> Result<(), Error> {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        while group.len() < GROUP
            && let Ok(next) = jobs.try_recv()
        {
            group.push(next);
        }
        let transaction = database.begin_write()?;
        let mut replies = Vec::with_capacity(group.len());
        let mut tables = Tables::open(&transaction)?;
        for job in group {
            replies.push(match job {
                Job::Write(documents, reply) => {
                    documents.iter().try_for_each(|document| tables.insert(document))?;
                    reply
                }
                Job::DeleteFrom(row, reply) => {
                    tables.delete_from(row)?;
                    reply
                }
            });
        }
        drop(tables);
        transaction.open_table(META)?.insert("collection/0", META_BYTES.as_slice())?;
        transaction.commit()?;
        for reply in replies {
            let _ = reply.send(());
        }
    }
    Ok(())
}

struct Tables<'t> {
    data: redb::Table<'t, u64, &'static [u8]>,
    id: redb::Table<'t, &'static [u8], u64>,
    public_id: redb::Table<'t, &'static [u8], u64>,
    type_id: redb::Table<'t, &'static [u8], ()>,
    fields: redb::Table<'t, &'static [u8], ()>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, Error> {
        Ok(Self {
            data: transaction.open_table(DATA)?,
            id: transaction.open_table(ID)?,
            public_id: transaction.open_table(PUBLIC_ID)?,
            type_id: transaction.open_table(TYPE_ID)?,
            fields: transaction.open_table(FIELDS)?,
        })
    }

    fn insert(&mut self, prepared: &Prepared) -> Result<(), Error> {
        self.data.insert(prepared.row, prepared.document.as_bytes())?;
        self.id.insert(prepared.id.as_slice(), prepared.row)?;
        self.public_id.insert(prepared.public_id.as_slice(), prepared.row)?;
        self.type_id.insert(prepared.type_id.as_slice(), ())?;
        for key in &prepared.fields {
            self.fields.insert(key.as_slice(), ())?;
        }
        Ok(())
    }

    fn delete_from(&mut self, row: u64) -> Result<(), Error> {
        let rows: Vec<(u64, RawDocumentBuf)> = self
            .data
            .range(row..)?
            .map(|entry| {
                let (row, stored) = entry?;
                Ok((row.value(), RawDocumentBuf::from_bytes(stored.value().to_vec())?))
            })
            .collect::<Result<_, Error>>()?;
        for (row, document) in rows {
            let prepared = Prepared::new(row, document)?;
            self.data.remove(row)?;
            self.id.remove(prepared.id.as_slice())?;
            self.public_id.remove(prepared.public_id.as_slice())?;
            self.type_id.remove(prepared.type_id.as_slice())?;
            for key in &prepared.fields {
                self.fields.remove(key.as_slice())?;
            }
        }
        Ok(())
    }
}

impl Prepared {
    /// Makes the keys: as long as those of the store, and in the same order.
    pub(crate) fn new(row: u64, document: RawDocumentBuf) -> Result<Self, Error> {
        let mut id = vec![0x48];
        id.extend_from_slice(&document.get_object_id("_id")?.bytes());
        let public_id = number_key(document.get_i64("public_id")?);
        let mut type_id = number_key(document.get_i64("type_id")?);
        type_id.extend_from_slice(&public_id);
        type_id.extend_from_slice(&row.to_be_bytes());
        let mut fields = Vec::new();
        for field in document.get_array("fields")? {
            if let RawBsonRef::Document(field) = field? {
                fields.push(field_key(field, row)?);
            }
        }
        fields.sort_unstable();
        Ok(Self { row, document, id, public_id, type_id, fields })
    }
}

fn field_key(field: &RawDocument, row: u64) -> Result<Vec<u8>, Error> {
    let mut key = text_key(field.get_str("name")?);
    match field.get("value")? {
        Some(RawBsonRef::String(text)) => key.extend_from_slice(&text_key(text)),
        Some(RawBsonRef::Int64(number)) => key.extend_from_slice(&number_key(number)),
        Some(RawBsonRef::DateTime(date)) => {
            key.push(0x58);
            key.extend_from_slice(&date.timestamp_millis().to_be_bytes());
        }
        Some(RawBsonRef::Boolean(flag)) => key.extend_from_slice(&[0x50, u8::from(flag)]),
        _ => key.push(0x18),
    }
    key.extend_from_slice(&row.to_be_bytes());
    Ok(key)
}

fn text_key(text: &str) -> Vec<u8> {
    let mut key = vec![0x28];
    key.extend_from_slice(text.as_bytes());
    key.extend_from_slice(&[0, 0]);
    key
}

fn number_key(number: i64) -> Vec<u8> {
    let mut key = vec![0x20];
    key.extend_from_slice(&number.to_be_bytes());
    key.push(0);
    key
}
