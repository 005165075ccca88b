//! Changes as commands inside of a transaction.

use std::collections::HashMap;

use bson::raw::{CString, RawArrayBuf, RawDocument, RawDocumentBuf, cstr};
use bson::{Bson, doc, rawdoc};
use mongodb::ClientSession;

use super::Inner;
use super::connect::exact;
use super::error::{Failure, at, refused};
use super::footprint::{Footprint, by_id, id_bytes};
use crate::query::{Filter, Update};
use crate::store::collections::LOGS;
use crate::store::{Change, StoreError, Unit};

/// Changes of one collection that one command makes.
pub(super) struct Statement<'a> {
    collection: &'static str,
    work: Work<'a>,
    /// The unit and the position in it of each document; of a change by a filter, of the change.
    places: Vec<(usize, usize)>,
    bytes: usize,
}

enum Work<'a> {
    Delete(Vec<&'a RawDocument>),
    Replace(Vec<(&'a RawDocument, &'a RawDocument)>),
    Insert(Vec<&'a RawDocument>),
    DeleteMany(&'a Filter),
    UpdateMany(&'a Filter, &'a Update),
}

/// How many bytes of documents one command has, and how many documents.
const COMMAND_BYTES: usize = 8 * 1024 * 1024;
const COMMAND_DOCUMENTS: usize = 1000;

/// The changes of units as commands. `made` has the documents of each [`Change::Append`].
///
/// Where no document is changed twice, deletions come first and insertions last, so that few commands make all changes.
pub(super) fn statements<'a>(
    units: &[&'a Unit],
    made: &'a HashMap<(usize, usize), Vec<RawDocumentBuf>>,
) -> Vec<Statement<'a>> {
    let mut single: Vec<Statement<'a>> = Vec::new();
    for (unit, changes) in units.iter().map(|unit| &unit.changes).enumerate() {
        for (position, change) in changes.iter().enumerate() {
            let place = (unit, position);
            let appended = made.get(&place).into_iter().flatten();
            match change {
                Change::Append(numbered) => {
                    let insert = |document: &'a RawDocumentBuf| Work::Insert(vec![document]);
                    single.extend(appended.map(|document| Statement::of(numbered.collection, insert(document), place)));
                }
                change => single.push(Statement::of(change.collection(), Work::of(change), place)),
            }
        }
    }
    let is_ordered = units.iter().any(|unit| Footprint::of(unit).is_ordered);
    if !is_ordered {
        // A document that is there already is found before an entry of it: then its counter catches up.
        let order = |it: &Statement<'_>| (it.work.rank(), it.collection == LOGS, it.collection);
        single.sort_by_key(order);
    }
    let mut joined: Vec<Statement<'a>> = Vec::new();
    for next in single {
        match joined.last_mut() {
            Some(last) if last.takes(&next, is_ordered) => last.join(next),
            _ => joined.push(next),
        }
    }
    joined
}

impl<'a> Work<'a> {
    fn of(change: &'a Change) -> Self {
        match change {
            Change::Insert { document, .. } => Self::Insert(vec![document]),
            Change::Replace { before, after, .. } => Self::Replace(vec![(before, after)]),
            Change::Delete { before, .. } => Self::Delete(vec![before]),
            Change::DeleteMany { filter, .. } => Self::DeleteMany(filter),
            Change::UpdateMany { filter, update, .. } => Self::UpdateMany(filter, update),
            Change::Append(_) => Self::Insert(Vec::new()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Delete(_) => 0,
            Self::Replace(_) => 1,
            Self::Insert(_) => 2,
            Self::DeleteMany(_) | Self::UpdateMany(..) => 3,
        }
    }

    fn bytes(&self) -> usize {
        let length = |document: &&RawDocument| document.as_bytes().len();
        match self {
            Self::Delete(documents) | Self::Insert(documents) => documents.iter().map(length).sum(),
            Self::Replace(pairs) => pairs.iter().map(|(_, after)| length(after)).sum(),
            Self::DeleteMany(_) | Self::UpdateMany(..) => 0,
        }
    }
}

impl<'a> Statement<'a> {
    fn of(collection: &'static str, work: Work<'a>, place: (usize, usize)) -> Self {
        let bytes = work.bytes();
        Self { collection, work, places: vec![place], bytes }
    }

    /// Where the documents belong that it touches.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.places.iter().copied()
    }

    /// Whether the changes of the other one can be made with the same command.
    fn takes(&self, other: &Self, is_ordered: bool) -> bool {
        let is_alike = match (&self.work, &other.work) {
            (Work::Insert(_), Work::Insert(_)) => true,
            (Work::Delete(_), Work::Delete(_)) | (Work::Replace(_), Work::Replace(_)) => !is_ordered,
            _ => false,
        };
        is_alike
            && self.collection == other.collection
            && self.bytes + other.bytes <= COMMAND_BYTES
            && self.places.len() < COMMAND_DOCUMENTS
    }

    fn join(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.places.extend(other.places);
        match (&mut self.work, other.work) {
            (Work::Insert(all), Work::Insert(more)) | (Work::Delete(all), Work::Delete(more)) => all.extend(more),
            (Work::Replace(all), Work::Replace(more)) => all.extend(more),
            _ => {}
        }
    }

    /// Makes the changes, and returns how many documents each of them touched.
    ///
    /// # Errors
    /// The failure, with the unit that it concerns if it is the fault of one.
    pub(super) async fn run(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
    ) -> Result<Vec<u64>, (Option<usize>, Failure)> {
        let of_all = |failure: Failure| (None, failure);
        let name = self.collection;
        let documents = inner.collection(name);
        let statements = match &self.work {
            Work::DeleteMany(filter) => {
                let deleted = documents.delete_many(filter.document().clone()).session(session).await;
                return Ok(vec![deleted.map_err(at(name)).map_err(of_all)?.deleted_count]);
            }
            Work::UpdateMany(filter, update) => {
                let updated =
                    documents.update_many(filter.document().clone(), update.document()).session(session).await;
                return Ok(vec![updated.map_err(at(name)).map_err(of_all)?.modified_count]);
            }
            Work::Insert(documents) => ("insert", "documents", documents.iter().map(|it| (*it).to_owned()).collect()),
            Work::Replace(pairs) => {
                let before: Vec<&RawDocument> = pairs.iter().map(|(before, _)| *before).collect();
                self.compare(inner, session, &before).await?;
                ("update", "updates", pairs.iter().map(|(before, after)| replacement(before, after)).collect())
            }
            Work::Delete(before) => {
                self.compare(inner, session, before).await?;
                ("delete", "deletes", before.iter().map(|before| deletion(before)).collect())
            }
        };
        self.send(inner, session, statements).await?;
        Ok(vec![1; self.places.len()])
    }

    /// Fails for the first document that is no longer as it was read.
    async fn compare(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
        before: &[&RawDocument],
    ) -> Result<(), (Option<usize>, Failure)> {
        let stored = self.stored(inner, session, before).await.map_err(|failure| (None, failure))?;
        for (before, (unit, _)) in before.iter().zip(&self.places) {
            if stored.get(&id_bytes(before)).is_none_or(|stored| !is_same(stored, before)) {
                return Err((Some(*unit), StoreError::Stale.into()));
            }
        }
        Ok(())
    }

    /// The documents with these `_id`s as they are stored.
    async fn stored(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
        before: &[&RawDocument],
    ) -> Result<HashMap<Vec<u8>, RawDocumentBuf>, Failure> {
        let ids: Vec<Bson> = before.iter().map(|before| id_of(before)).collect::<Result<_, _>>()?;
        let documents = inner.collection(self.collection);
        let question = documents.find(doc! { "_id": { "$in": ids } }).collation(exact()).max_time(inner.write_bound());
        let mut answer = question.session(&mut *session).await.map_err(at(self.collection))?;
        let mut stored = HashMap::with_capacity(before.len());
        while answer.advance(session).await.map_err(at(self.collection))? {
            let document = answer.current().to_owned();
            stored.insert(id_bytes(&document), document);
        }
        Ok(stored)
    }

    async fn send(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
        (command, list, statements): (&str, &str, Vec<RawDocumentBuf>),
    ) -> Result<(), (Option<usize>, Failure)> {
        let list: (&str, Vec<RawDocumentBuf>) = (list, statements);
        let command = raw_command(command, self.collection, list).map_err(|error| (None, error.into()))?;
        let answer = inner.database.run_raw_command(command).session(session).await;
        let answer = answer.map_err(|error| (None, at(self.collection)(error)))?;
        let refusals = answer.get_array("writeErrors").ok();
        let Some(first) = refusals.and_then(|refusals| refusals.first()?.as_document()) else { return Ok(()) };
        let (index, code) = (first.get_i32("index").unwrap_or_default(), first.get_i32("code").unwrap_or_default());
        let unit = usize::try_from(index).ok().and_then(|index| self.places.get(index)).map(|(unit, _)| *unit);
        let message = first.get_str("errmsg").unwrap_or_default();
        Err((unit, refused(code, message, self.collection, &inner.indexes).into()))
    }
}

fn raw_command(
    command: &str,
    collection: &str,
    (list, statements): (&str, Vec<RawDocumentBuf>),
) -> Result<RawDocumentBuf, StoreError> {
    let mut array = RawArrayBuf::new();
    for statement in statements {
        array.push(statement);
    }
    let name = |name: &str| CString::try_from(name).map_err(StoreError::backend);
    let mut raw = RawDocumentBuf::new();
    raw.append(&name(command)?, collection);
    raw.append(&name(list)?, array);
    raw.append(cstr!("ordered"), true);
    Ok(raw)
}

fn replacement(before: &RawDocument, after: &RawDocument) -> RawDocumentBuf {
    rawdoc! { "q": by_id(before), "u": after.to_owned(), "collation": { "locale": "simple" } }
}

fn deletion(before: &RawDocument) -> RawDocumentBuf {
    rawdoc! { "q": by_id(before), "limit": 1, "collation": { "locale": "simple" } }
}

/// Whether they have the same bytes. The server stores `_id` first, whatever its place was.
fn is_same(stored: &RawDocument, before: &RawDocument) -> bool {
    if stored.as_bytes() == before.as_bytes() {
        return true;
    }
    let mut moved = RawDocumentBuf::new();
    let members = || before.iter().flatten();
    let (id, rest) = (members().filter(|(name, _)| *name == "_id"), members().filter(|(name, _)| *name != "_id"));
    id.chain(rest).for_each(|(name, value)| moved.append(name, value));
    stored.as_bytes() == moved.as_bytes()
}

/// The `_id` of a document.
fn id_of(document: &RawDocument) -> Result<Bson, StoreError> {
    let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
    id.ok_or_else(|| StoreError::Corrupt { what: "a document without _id".to_owned() })
}
