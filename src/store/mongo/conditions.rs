//! The conditions of the units of a transaction, and the counters of the ids that they insert, as one query to the server.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use mongodb::ClientSession;

use super::Inner;
use super::connect::{Topology, exact};
use super::counters::{ids_of_insertions, public_id, value_of};
use super::error::{Failure, at, is_duplicate};
use crate::query::Filter;
use crate::store::collections::HISTORY;
use crate::store::copying::COUNTERS;
use crate::store::{Condition, SCOPES, StoreError, Unit};

/// One question finds at most this many documents by their ids.
const IDS_AT_ONCE: usize = 1000;
/// More than that, so that one answer has all.
const BATCH: u32 = 1001;
/// One query has at most this many questions.
const QUESTIONS_AT_ONCE: usize = 20;

/// A question about one collection.
struct Question {
    collection: &'static str,
    filter: Document,
    /// Whether it matters only if there is such a document.
    is_any: bool,
}

/// What is known in this transaction: units often rely on the same documents.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The documents that exist, by collection and `public_id`.
    existing: HashSet<(&'static str, i64)>,
    /// The other filters, and whether a document matches.
    others: Vec<(&'static str, Document, bool)>,
    /// The values of counters.
    counters: HashMap<String, i64>,
}

impl Checked {
    /// Asks what the units rely on. On a replica set, one query has many questions; a router gets each on its own.
    ///
    /// # Errors
    /// Those of the server.
    pub(super) async fn of(inner: &Inner, session: &mut ClientSession, units: &[&Unit]) -> Result<Self, Failure> {
        let mut checked = Self::default();
        let questions = questions(units, inner.topology);
        let at_once = if inner.topology == Topology::Sharded { 1 } else { QUESTIONS_AT_ONCE };
        for questions in questions.chunks(at_once) {
            let found = ask(inner, session, questions).await?;
            for (Question { collection, filter, is_any }, found) in questions.iter().zip(&found) {
                if *is_any {
                    checked.others.push((*collection, filter.clone(), !found.is_empty()));
                } else if *collection == COUNTERS {
                    for counter in found {
                        let name = counter.get_str("_id").map_err(StoreError::backend)?;
                        checked.counters.insert(name.to_owned(), value_of(counter, "value", name)?);
                    }
                } else {
                    checked.existing.extend(found.iter().filter_map(|it| Some((*collection, public_id(it)?))));
                }
            }
        }
        Ok(checked)
    }

    /// The collections whose counters do not have the ids that the units insert, with the largest of these ids.
    pub(super) fn behind(&self, units: &[&Unit], topology: Topology) -> Vec<(&'static str, i64)> {
        let is_behind = |(collection, id): &(&'static str, i64)| self.counters.get(*collection) < Some(id);
        inserted(units, topology).into_iter().filter(is_behind).collect()
    }

    /// Checks conditions one after the other, and moves scopes on.
    ///
    /// # Errors
    /// [`StoreError::Condition`] with the position of the first one that does not hold.
    pub(super) async fn check(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
        conditions: &[Condition],
    ) -> Result<(), Failure> {
        for (index, condition) in conditions.iter().enumerate() {
            let holds = match condition {
                Condition::Exists { collection, filter } => match named(condition) {
                    Some(id) => self.existing.contains(&id),
                    None => self.matches(inner, session, collection, filter).await?,
                },
                Condition::None { collection, filter } => !self.matches(inner, session, collection, filter).await?,
                Condition::Unchanged { scope, at } => advance(inner, session, scope, *at).await?,
            };
            if !holds {
                return Err(StoreError::Condition { index }.into());
            }
        }
        Ok(())
    }

    async fn matches(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
        collection: &'static str,
        filter: &Filter,
    ) -> Result<bool, Failure> {
        let is_it = |known: &&(&str, Document, bool)| known.0 == collection && known.1 == *filter.document();
        match self.others.iter().find(is_it) {
            Some((_, _, holds)) => Ok(*holds),
            None => any(inner, session, collection, filter).await,
        }
    }
}

/// The largest `public_id` that the units insert in each collection. A router's counters need no comparison: their steps are
/// on the disks of a majority before an id is given.
fn inserted(units: &[&Unit], topology: Topology) -> BTreeMap<&'static str, i64> {
    let mut largest = BTreeMap::new();
    if topology == Topology::ReplicaSet {
        for (collection, id) in units.iter().flat_map(|unit| ids_of_insertions(&unit.changes)) {
            let known = largest.entry(collection).or_insert(id);
            *known = id.max(*known);
        }
    }
    largest
}

/// The questions to the server on which these units depend.
fn questions(units: &[&Unit], topology: Topology) -> Vec<Question> {
    let mut by_id: BTreeMap<&'static str, BTreeSet<i64>> = BTreeMap::new();
    let mut questions: Vec<Question> = Vec::new();
    for condition in units.iter().flat_map(|unit| &unit.conditions) {
        if let Some((collection, id)) = named(condition) {
            by_id.entry(collection).or_default().insert(id);
            continue;
        }
        let (Condition::Exists { collection, filter } | Condition::None { collection, filter }) = condition else {
            continue;
        };
        let filter = filter.document();
        let is_asked = |it: &Question| it.collection == *collection && it.filter == *filter;
        if !needs_a_query(condition) && !questions.iter().any(is_asked) {
            questions.push(Question { collection, filter: filter.clone(), is_any: true });
        }
    }
    for (collection, ids) in by_id {
        let ids: Vec<i64> = ids.into_iter().collect();
        questions.extend(ids.chunks(IDS_AT_ONCE).map(|ids| {
            let filter = doc! { "public_id": { "$in": ids } };
            Question { collection, filter, is_any: false }
        }));
    }
    let counters: Vec<&str> = inserted(units, topology).into_keys().collect();
    if !counters.is_empty() {
        let filter = doc! { "_id": { "$in": counters } };
        questions.push(Question { collection: COUNTERS, filter, is_any: false });
    }
    questions
}

/// Whether a condition has an operator that selects documents only at the front of a query.
fn needs_a_query(condition: &Condition) -> bool {
    match condition {
        Condition::Exists { filter, .. } | Condition::None { filter, .. } => filter.needs_server().is_some(),
        Condition::Unchanged { .. } => true,
    }
}

/// Asks in one query: what each question finds is looked up together with the order, which is always there.
async fn ask(
    inner: &Inner,
    session: &mut ClientSession,
    questions: &[Question],
) -> Result<Vec<Vec<RawDocumentBuf>>, Failure> {
    if let [question] = questions {
        let found = rows(inner, session, question.collection, question.stages()).await?;
        return Ok(vec![found]);
    }
    let name = |index: usize| format!("of_{index}");
    let look_up = |(index, question): (usize, &Question)| {
        doc! { "$lookup": { "from": question.collection, "pipeline": question.stages(), "as": name(index) } }
    };
    let pipeline = [doc! { "$match": { "_id": HISTORY } }].into_iter().chain(questions.iter().enumerate().map(look_up));
    let beside = rows(inner, session, COUNTERS, pipeline.collect()).await?;
    let order = beside.first().ok_or_else(|| StoreError::Corrupt { what: format!("the counter of {HISTORY}") })?;
    let of_one = |index: usize| -> Result<Vec<RawDocumentBuf>, StoreError> {
        let found = order.get_array(name(index)).map_err(StoreError::backend)?;
        let found = found.into_iter().filter_map(|it| Some(it.ok()?.as_document()?.to_owned()));
        Ok(found.collect())
    };
    (0..questions.len()).map(of_one).collect::<Result<Vec<_>, _>>().map_err(Failure::from)
}

/// What a pipeline gives.
async fn rows(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    pipeline: Vec<Document>,
) -> Result<Vec<RawDocumentBuf>, Failure> {
    let documents = inner.collection(collection);
    let asked = documents.aggregate(pipeline).collation(exact()).batch_size(BATCH).max_time(inner.write_bound());
    let mut answer = asked.session(&mut *session).await.map_err(at(collection))?;
    let mut rows = Vec::new();
    while answer.advance(session).await.map_err(at(collection))? {
        rows.push(answer.current().to_owned());
    }
    Ok(rows)
}

impl Question {
    fn stages(&self) -> Vec<Document> {
        let limit = self.is_any.then(|| doc! { "$limit": 1 });
        let member = match self {
            Self { is_any: true, .. } => "_id",
            Self { collection: COUNTERS, .. } => "value",
            _ => "public_id",
        };
        let shown = doc! { "$project": { member: 1 } };
        [doc! { "$match": &self.filter }].into_iter().chain(limit).chain([shown]).collect()
    }
}

/// The document of which a condition says by its `public_id` alone that it exists.
pub(super) fn named(condition: &Condition) -> Option<(&'static str, i64)> {
    let Condition::Exists { collection, filter } = condition else { return None };
    let filter = filter.document();
    let wanted = filter.get("public_id").filter(|_| filter.len() == 1)?;
    let id = match wanted {
        Bson::Document(test) if test.len() == 1 => test.get("$eq").and_then(Bson::as_i64),
        wanted => wanted.as_i64(),
    };
    Some((collection, id?))
}

/// Whether a document matches.
async fn any(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    filter: &Filter,
) -> Result<bool, Failure> {
    let documents = inner.collection(collection);
    let question = documents.find_one(filter.document().clone()).projection(doc! { "_id": 1 }).collation(exact());
    let found = question.max_time(inner.write_bound()).session(session).await.map_err(at(collection))?;
    Ok(found.is_some())
}

async fn advance(inner: &Inner, session: &mut ClientSession, scope: &str, expected: i64) -> Result<bool, Failure> {
    let next = doc! { "$set": { "at": Bson::Int64(expected + 1) } };
    let scopes = inner.collection(SCOPES);
    let step = scopes.update_one(doc! { "_id": scope, "at": expected }, next).upsert(expected == 0);
    match step.session(session).await {
        Ok(done) => Ok(done.matched_count > 0 || done.upserted_id.is_some()),
        // The scope exists and has another value.
        Err(error) if is_duplicate(&error) => Ok(false),
        Err(error) => Err(at(SCOPES)(error)),
    }
}
