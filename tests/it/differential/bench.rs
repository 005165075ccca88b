//! Where cases are tried: the collections of one lane on both stores, and what both answer.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, bson, doc};
use inventory_service::query::{Filter, Limits, Pipeline, Projection, QueryError, QueryErrorKind, Sort};
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::mongo::{MongoOptions, MongoStore};
use inventory_service::store::{
    AggregateQuery, Change, CollectionSpec, Documents, FindQuery, Reach, Store, StoreError, Unit, gathered,
};
use mongodb::error::ErrorKind;
use tempfile::TempDir;

use super::case::Index;
use super::documents::raw;
use super::generator::Question;
use super::pipelines::{about, unmoved};
use crate::support::mongod::Mongod;

/// More than any question here takes.
pub(super) const BUDGET: Duration = Duration::from_secs(30);

/// Both stores.
pub(super) struct Stores {
    pub(super) embedded: EmbeddedStore,
    mongo: MongoStore,
    database: mongodb::Database,
    _directory: TempDir,
}

impl Stores {
    pub(super) async fn on(server: &Mongod) -> Arc<Self> {
        let directory = TempDir::new().expect("a directory for the test");
        let uri = server.fresh_uri();
        let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("the URI names a database");
        // Little memory: entries of indexes leave it all the time.
        let options = Options { cache_bytes: 16 * 1024, ..Options::default() };
        Arc::new(Self {
            embedded: EmbeddedStore::open(directory.path(), &options).expect("a new store"),
            mongo: MongoStore::connect(&uri, MongoOptions::default()).await.expect("the server answers"),
            database: server.client().await.database(name),
            _directory: directory,
        })
    }
}

/// What was found, or why nothing was.
pub(super) type Answer = Result<Found, Refusal>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) documents: Vec<RawDocumentBuf>,
    pub(super) total: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    /// MongoDB's number for it.
    pub(super) code: Option<i32>,
    pub(super) words: String,
    /// This service does not do it, and says so.
    pub(super) on_purpose: bool,
}

/// How the server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    AsItIs,
    /// Without its index on `_id`; a pipeline stage by stage.
    ByScan,
    /// A pipeline as it is, without the index on `_id`.
    Naturally,
    /// With a limit that takes nothing away.
    WithLimit,
    /// A pipeline one stage at a time, and what each gives is stored: nothing is kept between stages that no document holds.
    Stored,
}

/// More documents than any case has.
const MORE_THAN_ALL: u64 = 1_000_000;

/// The answers to one question.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    /// Of the server itself.
    pub(super) mongo: Answer,
    /// Of the store on it, which asks the server for the plain part and evaluates the rest.
    pub(super) adapter: Answer,
    pub(super) plain: Answer,
    /// Of the collection with indexes.
    pub(super) indexed: Answer,
}

/// In how many units the documents of a case are stored.
const UNITS: usize = 4;

/// Collections on both stores that nobody else uses.
pub(super) struct Bench {
    stores: Arc<Stores>,
    plain: &'static str,
    /// One for each number of indexes, from 1.
    indexed: Vec<&'static str>,
    /// The one in use.
    with_indexes: Option<&'static str>,
}

impl Bench {
    pub(super) async fn new(stores: Arc<Stores>, lane: usize) -> Self {
        let name = |what: &str| -> &'static str { Box::leak(format!("lane{lane}.{what}").into_boxed_str()) };
        let plain = name("plain");
        let indexed: Vec<&'static str> = (1..=4).map(|count| name(&format!("indexed{count}"))).collect();
        let specs = [plain].into_iter().chain(indexed.iter().copied());
        let specs: Vec<CollectionSpec> = specs.map(|name| CollectionSpec { name, indexes: &[] }).collect();
        stores.embedded.prepare(&specs).await.expect("the collections can be made");
        Self { stores, plain, indexed, with_indexes: None }
    }

    /// Stores the documents in place of those before them; says which ones all collections took.
    pub(super) async fn store(&mut self, documents: &[Document], indexes: &[Index]) -> Vec<bool> {
        let mut kept = self.store_on_mongodb(documents).await;
        let clear = |collection| Change::DeleteMany { collection, filter: Filter::all() };
        self.with_indexes = indexes.len().checked_sub(1).map(|at| self.indexed[at]);
        let mut clearing = Unit::of(clear(self.plain));
        if let Some(name) = self.with_indexes {
            clearing = clearing.and(clear(name));
        }
        let embedded = &self.stores.embedded;
        embedded.commit(clearing).await.expect("nothing stands against it");
        if let Some(name) = self.with_indexes {
            let spec = CollectionSpec { name, indexes: Index::declared(indexes) };
            embedded.prepare(&[spec]).await.expect("the indexes can be made");
        }
        // In several units: the newest entries of an index with arrays are in memory, those before them in its table.
        let chunk = documents.len().div_ceil(UNITS).max(1);
        for (documents, kept) in documents.chunks(chunk).zip(kept.chunks_mut(chunk)) {
            self.store_on_embedded(documents, kept).await;
        }
        kept
    }

    async fn store_on_embedded(&self, documents: &[Document], kept: &mut [bool]) {
        let embedded = &self.stores.embedded;
        let all: Vec<&Document> = documents.iter().zip(&*kept).filter(|(_, kept)| **kept).map(|(one, _)| one).collect();
        if all.is_empty() || embedded.commit(self.insertion(&all)).await.is_ok() {
            return;
        }
        // Some document breaks an index: each is tried alone.
        for (document, kept) in documents.iter().zip(kept).filter(|(_, kept)| **kept) {
            if let Err(error) = embedded.commit(self.insertion(&[document])).await {
                assert!(
                    matches!(error, StoreError::Duplicate { .. } | StoreError::Query { .. }),
                    "{error:?}: {document}"
                );
                let id = document.get("_id").expect("an _id").clone();
                let collection = self.stores.database.collection::<Document>(self.plain);
                collection.delete_one(doc! { "_id": { "$eq": id } }).await.expect("the document can be removed");
                *kept = false;
            }
        }
    }

    fn insertion(&self, documents: &[&Document]) -> Unit {
        let mut unit = Unit::default();
        for document in documents {
            for collection in [self.plain].into_iter().chain(self.with_indexes) {
                unit = unit.and(Change::Insert { collection, document: raw(document) });
            }
        }
        unit
    }

    async fn store_on_mongodb(&self, documents: &[Document]) -> Vec<bool> {
        let collection = self.stores.database.collection::<RawDocumentBuf>(self.plain);
        collection.delete_many(doc! {}).await.expect("the server answers");
        let mut kept = vec![true; documents.len()];
        if documents.is_empty() {
            return kept;
        }
        let inserted = collection.insert_many(documents.iter().map(raw)).ordered(false).await;
        if let Err(error) = inserted {
            let ErrorKind::InsertMany(refused) = *error.kind else { panic!("{error}") };
            for refused in refused.write_errors.unwrap_or_default() {
                kept[refused.index] = false;
            }
        }
        kept
    }

    /// Asks both stores, and the server itself.
    pub(super) async fn ask(&self, question: &Question) -> Answers {
        self.asked(question, true).await
    }

    /// Asks both stores alone: bounds of the service are none of the server.
    pub(super) async fn ask_stores(&self, question: &Question) -> Answers {
        self.asked(question, false).await
    }

    async fn asked(&self, question: &Question, asks_server: bool) -> Answers {
        let mut answers = match (&question.pipeline, parsed(question)) {
            (Some(stages), _) => self.answers_to_pipeline(stages).await,
            (None, Ok(query)) => self.ask_query(&query, question.counted).await,
            (None, Err(error)) => refused(&error),
        };
        if asks_server && !answers.mongo.as_ref().is_err_and(|refusal| refusal.on_purpose) {
            answers.mongo = self.ask_server(question, Asked::AsItIs).await;
            // The total is of all documents, also of those behind the page.
            if question.counted && question.pipeline.is_none() && answers.mongo.is_ok() {
                let stages = [doc! { "$match": question.filter.clone() }, doc! { "$count": "n" }];
                let command = doc! { "aggregate": self.plain, "pipeline": stages.to_vec(), "cursor": {} };
                answers.mongo = self.command(command).await.and(answers.mongo);
            }
        }
        answers
    }

    /// Asks both stores.
    pub(super) async fn ask_query(&self, query: &FindQuery, counted: bool) -> Answers {
        let plain = ask(&self.stores.embedded, self.plain, query, counted).await;
        let indexed = match self.with_indexes {
            Some(name) => ask(&self.stores.embedded, name, query, counted).await,
            None => plain.clone(),
        };
        let adapter = ask(&self.stores.mongo, self.plain, query, counted).await;
        Answers { mongo: adapter.clone(), adapter, plain, indexed }
    }

    /// Asks both stores for a pipeline that reads no other collection.
    pub(super) async fn ask_stages(&self, pipeline: Pipeline) -> Answers {
        let query = AggregateQuery::new(pipeline, BUDGET);
        let plain = aggregate(&self.stores.embedded, self.plain, &query).await;
        let indexed = match self.with_indexes {
            Some(name) => aggregate(&self.stores.embedded, name, &query).await,
            None => plain.clone(),
        };
        let adapter = aggregate(&self.stores.mongo, self.plain, &query).await;
        Answers { mongo: adapter.clone(), adapter, plain, indexed }
    }

    async fn answers_to_pipeline(&self, stages: &[Bson]) -> Answers {
        let query = match aggregate_query(stages, self.plain) {
            Ok(query) => query,
            Err(error) => return refused(&error),
        };
        let adapter = aggregate(&self.stores.mongo, self.plain, &query).await;
        let plain = aggregate(&self.stores.embedded, self.plain, &query).await;
        let indexed = match self.with_indexes.map(|name| (name, aggregate_query(stages, name))) {
            Some((name, Ok(query))) => aggregate(&self.stores.embedded, name, &query).await,
            _ => plain.clone(),
        };
        Answers { mongo: adapter.clone(), adapter, plain, indexed }
    }

    /// Asks the server itself: what no store would be asked, or in another way.
    pub(super) async fn ask_server(&self, question: &Question, asked: Asked) -> Answer {
        if let (Some(stages), Asked::Stored) = (&question.pipeline, asked) {
            return self.ask_stored(&about(stages, self.plain)).await;
        }
        let mut command = doc! { "find": self.plain, "filter": question.filter.clone() };
        let rest = [("projection", &question.projection), ("sort", &question.sort)];
        command.extend(rest.into_iter().filter_map(|(name, part)| Some((name.to_owned(), Bson::from(part.clone()?)))));
        let count = |number: u64| Bson::Int64(i64::try_from(number).expect("small"));
        let limit = if asked == Asked::WithLimit { MORE_THAN_ALL } else { question.limit };
        command.extend([("skip".to_owned(), count(question.skip)), ("limit".to_owned(), count(limit))]);
        if let Some(stages) = &question.pipeline {
            let stages = about(stages, self.plain);
            let stages = if asked == Asked::ByScan { unmoved(&stages) } else { stages };
            command = doc! { "aggregate": self.plain, "pipeline": stages, "cursor": { "batchSize": 1_000_000 } };
            if asked == Asked::Naturally {
                command.insert("hint", doc! { "$natural": 1 });
            }
        } else if asked == Asked::ByScan {
            command.insert("hint", doc! { "$natural": 1 });
        }
        self.command(command).await
    }

    /// Gives each stage what the one before it gave, from a collection.
    async fn ask_stored(&self, stages: &[Bson]) -> Answer {
        let between = format!("{}.between", self.plain);
        let collection = self.stores.database.collection::<Document>(&between);
        let read = |collection: &str, pipeline: Vec<Bson>| {
            self.command(doc! { "aggregate": collection, "pipeline": pipeline, "cursor": { "batchSize": 1_000_000 } })
        };
        let mut found = read(self.plain, Vec::new()).await?;
        for stage in stages {
            collection.delete_many(doc! {}).await.expect("the server answers");
            let given = found.documents.iter().zip(0_i64..);
            let kept: Vec<_> = given
                .filter_map(|(one, at)| Some(doc! { "_id": at, "given": Document::try_from(one).ok()? }))
                .collect();
            if !kept.is_empty() {
                collection.insert_many(kept).await.expect("the server takes what it gave");
            }
            let given = bson!({ "$replaceRoot": { "newRoot": "$given" } });
            found = read(&between, vec![bson!({ "$sort": { "_id": 1 } }), given, stage.clone()]).await?;
        }
        Ok(found)
    }

    async fn command(&self, command: Document) -> Answer {
        match self.stores.database.run_command(command).await {
            Ok(answer) => {
                let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
                let documents = batch.expect("a first batch").iter().map(|item| raw(item.as_document().expect("one")));
                Ok(Found { documents: documents.collect(), total: None })
            }
            Err(error) => Err(match *error.kind {
                ErrorKind::Command(refused) => {
                    Refusal { code: Some(refused.code), words: refused.message, on_purpose: false }
                }
                other => Refusal { code: None, words: other.to_string(), on_purpose: false },
            }),
        }
    }
}

/// What is refused before it reaches a store: the server is asked itself, unless that may exhaust it.
fn refused(error: &QueryError) -> Answers {
    let exhausts = ["needs too much memory", "nested deeper than"].iter().any(|words| error.message.contains(words));
    let ours = Err(Refusal {
        code: Some(error.code),
        on_purpose: exhausts || error.kind != QueryErrorKind::Malformed,
        words: error.to_string(),
    });
    Answers { mongo: ours.clone(), adapter: ours.clone(), plain: ours.clone(), indexed: ours }
}

fn aggregate_query(stages: &[Bson], collection: &str) -> Result<AggregateQuery, QueryError> {
    let pipeline = Pipeline::parse(&about(stages, collection), &Limits::NONE, DateTime::from_millis(0))?;
    let reach = Reach::default().with(collection, Filter::all());
    Ok(AggregateQuery { reach, ..AggregateQuery::new(pipeline, BUDGET) })
}

async fn aggregate(store: &dyn Store, collection: &str, query: &AggregateQuery) -> Answer {
    let outcome = match store.aggregate(collection, query).await {
        Ok(chunks) => gathered(chunks, usize::MAX).await,
        Err(error) => Err(error),
    };
    answer(outcome.map(|documents| (documents, None)))
}

fn parsed(question: &Question) -> Result<FindQuery, QueryError> {
    let filter = Filter::parse(&question.filter, &Limits::NONE)?;
    let mut query = FindQuery::new(filter, BUDGET).limited(question.limit);
    if let Some(sort) = &question.sort {
        query.sort = Sort::parse(sort)?;
    }
    query.skip = question.skip;
    let projection = question.projection.as_ref();
    let read = |wanted| Projection::parse_within(wanted, &query.filter, &Limits::NONE);
    query.projection = projection.map(read).transpose()?;
    Ok(query)
}

async fn ask(store: &dyn Store, collection: &str, query: &FindQuery, counted: bool) -> Answer {
    let outcome = if counted {
        store.page(collection, query).await.map(|page| (page.documents, Some(page.total)))
    } else {
        store.find(collection, query).await.map(|documents| (documents, None))
    };
    answer(outcome)
}

fn answer(outcome: Result<(Documents, Option<u64>), StoreError>) -> Answer {
    match outcome {
        Ok((documents, total)) => Ok(Found { documents: documents.iter().map(ToOwned::to_owned).collect(), total }),
        Err(StoreError::Query { code, message }) => {
            Err(Refusal { code: Some(code), words: message, on_purpose: false })
        }
        Err(error) => {
            let on_purpose = matches!(error, StoreError::Unsupported { .. });
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            Err(Refusal { code: None, words: format!("{error}{cause}"), on_purpose })
        }
    }
}
