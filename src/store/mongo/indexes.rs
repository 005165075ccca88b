//! Creates the declared collections and indexes, and keeps those of an operator.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongodb::IndexModel;
use mongodb::error::Error;
use mongodb::options::IndexOptions;
use mongodb::results::CreateIndexResult;
use tokio::task::{JoinError, JoinHandle};

use super::Inner;
use super::counters::COUNTERS;
use super::error::{NAMESPACE_EXISTS, brief, code, command_error, write_error};
use super::order::WRITERS;
use crate::store::{CollectionSpec, IndexKey, IndexSpec, StoreError};

const MAX_TIME: Duration = Duration::from_mins(1);
/// How long the start of the service waits for an index that is only for speed.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many clashes of one index are listed.
const LISTED: i32 = 5;
/// The prefix of an index name if another index has the declared name.
const PREFIX: &str = "inventory_";

/// Creates the collections and indexes that do not exist yet.
pub(super) async fn prepare(inner: &Inner, collections: &[CollectionSpec]) -> Result<(), StoreError> {
    for name in [COUNTERS, WRITERS] {
        make_collection(inner, name).await?;
    }
    for collection in collections {
        make_collection(inner, collection.name).await?;
        make_indexes(inner, collection).await?;
    }
    Ok(())
}

async fn make_collection(inner: &Inner, name: &str) -> Result<(), StoreError> {
    match inner.database.create_collection(name).await {
        Err(error) if code(&error) != Some(NAMESPACE_EXISTS) => Err(command_error(&error)),
        _ => Ok(()),
    }
}

async fn make_indexes(inner: &Inner, collection: &CollectionSpec) -> Result<(), StoreError> {
    let existing = list(inner, collection.name).await?;
    for spec in collection.indexes {
        let name = match serving(&existing, spec) {
            Some(Listed { index, is_ready }) => {
                let name = name_of(index).unwrap_or(spec.name);
                inner.indexes.learn(collection.name, name, spec.name);
                if *is_ready || !spec.unique {
                    continue;
                }
                // Another instance or tool is building it. The server lets this command wait for that build, and builds
                // the index for this command if that one fails.
                name.to_owned()
            }
            None if existing.iter().any(|listed| listed.name() == Some(spec.name)) => format!("{PREFIX}{}", spec.name),
            None => spec.name.to_owned(),
        };
        inner.indexes.learn(collection.name, &name, spec.name);
        make_index(inner, collection.name, spec, name).await?;
        let outdated = existing.iter().find(|listed| is_outdated(&listed.index, spec));
        if let Some(outdated) = outdated.and_then(Listed::name) {
            let dropped = inner.collection(collection.name).drop_index(outdated).await;
            dropped.map_err(|error| command_error(&error))?;
        }
    }
    Ok(())
}

/// Has an index built, and waits for it: for a unique one until it is there.
async fn make_index(
    inner: &Inner,
    collection: &'static str,
    spec: &'static IndexSpec,
    name: String,
) -> Result<(), StoreError> {
    let options = IndexOptions::builder()
        .name(name)
        .unique(spec.unique.then_some(true))
        .partial_filter_expression(partial_of(spec))
        .build();
    let index = IndexModel::builder().keys(keys_of(spec)).options(options).build();
    // There is no time limit, because a large collection takes long. The server serves reads and writes meanwhile.
    // Unique indexes must exist before the first write, so the service waits for them.
    let documents = inner.collection(collection);
    let making = tokio::spawn(async move { documents.create_index(index).await });
    let made = if spec.unique { Some(making.await) } else { patiently(making, collection, spec.name).await };
    if let Some(made) = made {
        let made = made.map_err(StoreError::backend)?;
        made.map_err(|error| write_error(&error, collection, &inner.indexes))?;
    }
    Ok(())
}

/// A declared index that the server cannot use yet.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) spec: &'static IndexSpec,
    /// Whether the server is building it.
    pub(super) is_begun: bool,
}

/// The declared indexes of the collection that have no equivalent on the server, or one that is only being built.
pub(super) async fn missing(inner: &Inner, collection: &CollectionSpec) -> Result<Vec<Missing>, StoreError> {
    let existing = list(inner, collection.name).await?;
    let missing = |spec: &'static IndexSpec| match serving(&existing, spec) {
        Some(listed) if listed.is_ready => None,
        listed => Some(Missing { spec, is_begun: listed.is_some() }),
    };
    Ok(collection.indexes.iter().filter_map(missing).collect())
}

/// The existing index that is equivalent to the declared one: rather one that is built.
fn serving<'a>(existing: &'a [Listed], spec: &IndexSpec) -> Option<&'a Listed> {
    let keys = keys_of(spec);
    existing.iter().filter(|listed| serves(&listed.index, &keys, spec)).max_by_key(|listed| listed.is_ready)
}

/// Pairs of documents that the unique index would refuse, in words; at most [`LISTED`].
pub(super) async fn clashes(inner: &Inner, collection: &str, spec: &IndexSpec) -> Result<Vec<String>, StoreError> {
    let of = |key: &IndexKey| (key.path.replace('.', "_"), Bson::String(format!("${}", key.path)));
    let keys: Document = spec.keys.iter().map(of).collect();
    let pipeline = [
        doc! { "$match": partial_of(spec).unwrap_or_default() },
        doc! { "$group": { "_id": keys, "first": { "$min": "$_id" }, "second": { "$max": "$_id" }, "n": { "$sum": 1 } } },
        doc! { "$match": { "n": { "$gt": 1 } } },
        doc! { "$sort": { "_id": 1 } },
        doc! { "$limit": LISTED },
    ];
    let documents = inner.database.collection::<Document>(collection);
    let question = documents.aggregate(pipeline).allow_disk_use(true).max_time(MAX_TIME);
    let mut found = question.await.map_err(|error| command_error(&error))?;
    let mut clashes = Vec::new();
    while found.advance().await.map_err(|error| command_error(&error))? {
        let group = found.deserialize_current().map_err(StoreError::backend)?;
        let text = |name: &str| group.get(name).cloned().unwrap_or(Bson::Null).into_relaxed_extjson().to_string();
        clashes.push(format!("_id {} and {} with {}", text("first"), text("second"), text("_id")));
    }
    Ok(clashes)
}

type Making = JoinHandle<Result<CreateIndexResult, Error>>;

/// Waits a while for an index. If it takes longer, the server builds it while the service runs.
async fn patiently(
    mut making: Making,
    collection: &'static str,
    name: &'static str,
) -> Option<Result<Result<CreateIndexResult, Error>, JoinError>> {
    if let Ok(made) = tokio::time::timeout(PATIENCE, &mut making).await {
        return Some(made);
    }
    log::info!("the index {name} of {collection} is being made; what needs it is slow until it is there");
    tokio::spawn(async move {
        match making.await {
            Ok(Ok(_)) => log::info!("the index {name} of {collection} is there"),
            Ok(Err(error)) => log::error!("the index {name} of {collection} was not made: {}", brief(&error)),
            Err(error) => log::error!("the index {name} of {collection} was not made: {error}"),
        }
    });
    None
}

fn keys_of(spec: &IndexSpec) -> Document {
    spec.keys.iter().map(|key| (key.path.to_owned(), Bson::Int32(if key.descending { -1 } else { 1 }))).collect()
}

/// The filter of a partial index, in the server's form.
fn partial_of(spec: &IndexSpec) -> Option<Document> {
    let values: Document = spec.partial.iter().map(|equals| (equals.path.to_owned(), equals.value.into())).collect();
    (!values.is_empty()).then_some(values)
}

fn name_of(index: &IndexModel) -> Option<&str> {
    index.options.as_ref()?.name.as_deref()
}

/// Whether an existing index is equivalent to the declared one: the same documents, order and uniqueness.
fn serves(index: &IndexModel, keys: &Document, spec: &IndexSpec) -> bool {
    let Some(options) = &index.options else { return false };
    let is_whole = options.sparse != Some(true) && options.partial_filter_expression == partial_of(spec);
    let is_plain = is_whole && options.collation.is_none() && options.hidden != Some(true);
    is_plain && options.unique.unwrap_or(false) == spec.unique && same_keys(&index.keys, keys)
}

/// Whether an existing index is the declared one as an earlier version made it: over all documents. It would refuse
/// documents that the declared one takes.
fn is_outdated(index: &IndexModel, spec: &IndexSpec) -> bool {
    let whole = IndexSpec { partial: &[], ..*spec };
    spec.unique
        && !spec.partial.is_empty()
        && name_of(index) == Some(spec.name)
        && serves(index, &keys_of(spec), &whole)
}

/// Directions are numbers of any type, whatever the tool that made the index wrote.
fn same_keys(one: &Document, other: &Document) -> bool {
    let direction = |value: &Bson| match value {
        Bson::Int32(value) => Some(*value > 0),
        Bson::Int64(value) => Some(*value > 0),
        Bson::Double(value) => Some(*value > 0.0),
        _ => None,
    };
    one.len() == other.len()
        && one.iter().zip(other).all(|((path, value), (other_path, other_value))| {
            path == other_path && direction(value).is_some() && direction(value) == direction(other_value)
        })
}

// A server lists an index from the moment its build begins. Until the build ends the index refuses nothing and serves
// no query, and the build may fail: another instance or another tool began it.

/// There is no such collection.
const NAMESPACE_NOT_FOUND: i32 = 26;

/// An index as the server lists it.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) index: IndexModel,
    /// Whether it is built.
    pub(super) is_ready: bool,
}

impl Listed {
    pub(super) fn name(&self) -> Option<&str> {
        self.index.options.as_ref()?.name.as_deref()
    }
}

/// The indexes of the collection; none of a collection that does not exist.
pub(super) async fn list(inner: &Inner, collection: &str) -> Result<Vec<Listed>, StoreError> {
    or_none(listed(inner, collection).await)
}

/// What is in a collection that does not exist.
fn or_none<T: Default>(answer: Result<T, Error>) -> Result<T, StoreError> {
    match answer {
        Err(error) if code(&error) == Some(NAMESPACE_NOT_FOUND) => Ok(T::default()),
        answer => answer.map_err(|error| command_error(&error)),
    }
}

async fn listed(inner: &Inner, collection: &str) -> Result<Vec<Listed>, Error> {
    let max_time = i64::try_from(MAX_TIME.as_millis()).unwrap_or(i64::MAX);
    let command = doc! { "listIndexes": collection, "cursor": {}, "includeBuildUUIDs": true, "maxTimeMS": max_time };
    let mut answer = inner.database.run_cursor_command(command).await?;
    let mut indexes = Vec::new();
    while answer.advance().await? {
        let entry = answer.deserialize_current()?;
        let is_ready = !entry.contains_key("buildUUID");
        let described = entry.get_document("spec").unwrap_or(&entry).clone();
        // Kinds of indexes that the driver cannot describe are no ordered ones.
        let index = bson::deserialize_from_document(described).ok();
        indexes.extend(index.map(|index| Listed { index, is_ready }));
    }
    Ok(indexes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Equals, Literal};

    #[test]
    fn an_index_over_some_documents_does_not_serve_for_one_over_others() {
        const KEYS: &[IndexKey] = &[IndexKey { path: "size", descending: false }];
        const ACTIVE: &[Equals] = &[Equals { path: "active", value: Literal::Bool(true) }];
        let (whole, partial) = (IndexSpec::plain("size", KEYS), IndexSpec::plain("size", KEYS).only(ACTIVE));
        let existing = |expression: Option<Document>| {
            let options = IndexOptions::builder().partial_filter_expression(expression).build();
            IndexModel::builder().keys(doc! { "size": 1 }).options(options).build()
        };
        let keys = doc! { "size": 1 };
        for (expression, serves_whole, serves_partial) in [
            (None, true, false),
            (Some(doc! { "active": true }), false, true),
            (Some(doc! { "active": false }), false, false),
        ] {
            assert_eq!(serves(&existing(expression.clone()), &keys, &whole), serves_whole, "{expression:?}");
            assert_eq!(serves(&existing(expression.clone()), &keys, &partial), serves_partial, "{expression:?}");
        }
    }

    #[test]
    fn index_keys_are_compared_in_order_and_by_direction() {
        let declared = doc! { "type_id": 1, "public_id": 1 };
        assert!(same_keys(&doc! { "type_id": 1.0, "public_id": 1_i64 }, &declared));
        assert!(!same_keys(&doc! { "public_id": 1, "type_id": 1 }, &declared));
        assert!(!same_keys(&doc! { "type_id": 1, "public_id": -1 }, &declared));
        assert!(!same_keys(&doc! { "type_id": "hashed", "public_id": 1 }, &declared));
    }
}
