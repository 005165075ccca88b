//! What exists: databases, collections, indexes, and how large they are.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawDocumentBuf, doc};
use futures::TryStreamExt;
use sha2::{Digest, Sha256};

use super::finding::{self, first_size, listed, rest_of};
use super::options::Options;
use super::question::{limits, named, reach, understood};
use super::{Reading, done};
use crate::query::{Filter, Pipeline};
use crate::service::exchange::tools::{self, COLLECTIONS, Reach, Size};
use crate::store::{Documents, FindQuery, IndexSpec};
use crate::wire::error::{WireError, code};

/// The one database. Its size is that of what the caller sees.
pub(super) async fn databases(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["nameOnly", "filter", "authorizedDatabases"])?;
    if options.database != "admin" {
        return Err(WireError::new(code::UNAUTHORIZED, "listDatabases may only be run against the admin database."));
    }
    let only_names = options.flag("nameOnly")? == Some(true);
    let name = reading.call.shared.parts.database.as_str();
    let mut database = doc! { "name": name };
    if !only_names {
        let size = total(reading).await?.0;
        database.extend(doc! { "sizeOnDisk": long(size.bytes), "empty": size.documents == 0 });
    }
    let listed = filtered(reading, vec![database]).await?;
    let bytes: i64 = listed.iter().filter_map(|database| database.get_i64("sizeOnDisk").ok()).sum();
    let mut answer = doc! { "databases": listed };
    if !only_names {
        answer.extend(doc! { "totalSize": bytes, "totalSizeMb": bytes >> 20 });
    }
    done(answer)
}

pub(super) async fn collections(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["filter", "nameOnly", "authorizedCollections", "cursor"])?;
    options.are_flags(&["authorizedCollections"])?;
    let only_names = options.flag("nameOnly")? == Some(true);
    let described = |name: String| {
        let mut described = doc! { "name": &name, "type": "collection" };
        if !only_names {
            described.extend(doc! {
                "options": {},
                "info": { "readOnly": true, "uuid": uuid(&options.database, &name) },
                "idIndex": id_index(),
            });
        }
        described
    };
    let mut all = Vec::new();
    if reading.is_here() {
        let tables = tools::table_names(reading.services(), &reading.caller).await?;
        all.extend(COLLECTIONS.iter().map(|collection| collection.name.to_owned()).chain(tables).map(described));
    }
    let found = filtered(reading, all).await?;
    let namespace = format!("{}.$cmd.listCollections", options.database);
    as_cursor(reading, found, namespace).await
}

pub(super) async fn indexes(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["cursor", "includeBuildUUIDs", "includeIndexBuildInfo"])?;
    options.are_flags(&["includeBuildUUIDs", "includeIndexBuildInfo"])?;
    let namespace = options.namespace()?;
    let Some(reach) = reach(reading, options).await? else {
        return Err(WireError::new(code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}")));
    };
    as_cursor(reading, described_indexes(reach.indexes()), namespace).await
}

pub(super) async fn collection_stats(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["scale"])?;
    let (namespace, scale) = (options.namespace()?, scale(options)?);
    let mut answer = doc! { "ns": namespace };
    let (size, indexes) = match reach(reading, options).await? {
        None => (Size::default(), 0),
        Some(reach) => (reach.size(reading.services()).await?, reach.indexes().len() + 1),
    };
    answer.extend(sizes(size, scale, indexes));
    answer.extend(doc! { "capped": false, "scaleFactor": scale });
    done(answer)
}

pub(super) async fn database_stats(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["scale", "freeStorage"])?;
    let scale = scale(options)?;
    let (size, indexes, collections) = if reading.is_here() {
        // Tables show objects a second time, so they add nothing to the size.
        let (size, indexes) = total(reading).await?;
        let tables = tools::table_names(reading.services(), &reading.caller).await?.len();
        (size, indexes + tables, COLLECTIONS.len() + tables)
    } else {
        (Size::default(), 0, 0)
    };
    let mut answer = doc! {
        "db": options.database.as_str(),
        "collections": long(collections as u64),
        "views": 0_i64,
        "objects": long(size.documents),
        "avgObjSize": average(size),
        "dataSize": divided(size.bytes, scale),
        "storageSize": divided(size.bytes, scale),
        "indexes": long(indexes as u64),
        "scaleFactor": scale,
    };
    answer.extend(estimated(size));
    done(answer)
}

pub(super) async fn data_size(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["estimate", "keyPattern", "min", "max"])?;
    options.refuse(&[
        ("keyPattern", "the size of a part of a collection is not told"),
        ("min", "the size of a part of a collection is not told"),
        ("max", "the size of a part of a collection is not told"),
    ])?;
    let Some(Bson::String(namespace)) = options.subject() else {
        return Err(options.mismatch(&options.command, options.subject().unwrap_or(&Bson::Null), "string"));
    };
    let name = namespace.strip_prefix(&options.database).and_then(|name| name.strip_prefix('.')).unwrap_or_default();
    let estimate = options.flag("estimate")? == Some(true);
    let size = match named(reading, options, name).await? {
        None => Size::default(),
        Some(reach) if estimate => reach.size(reading.services()).await?,
        Some(reach) => exact_size(reading, &reach).await?,
    };
    done(doc! { "size": long(size.bytes), "numObjects": long(size.documents), "estimate": size.is_estimated })
}

/// The size of all documents, each of which is read.
async fn exact_size(reading: &Reading<'_>, reach: &Reach) -> Result<Size, WireError> {
    let services = reading.services();
    let query = FindQuery::new(Filter::all(), services.max_time);
    let mut chunks = reach.find(services, query).await?.into_chunks();
    let mut size = Size::default();
    while let Some(chunk) = chunks.try_next().await? {
        size.documents += chunk.len() as u64;
        size.bytes += chunk.bytes() as u64;
    }
    Ok(size)
}

/// The size of everything that the caller sees, and the number of indexes.
async fn total(reading: &Reading<'_>) -> Result<(Size, usize), WireError> {
    let (mut all, mut indexes) = (Size::default(), 0);
    for collection in COLLECTIONS {
        indexes += collection.indexes().len() + 1;
        if collection.is_seen_by(&reading.caller) {
            let reach = collection.reach(reading.services(), &reading.caller).await?;
            let size = reach.size(reading.services()).await?;
            all.documents += size.documents;
            all.bytes = all.bytes.saturating_add(size.bytes);
            all.is_estimated |= size.is_estimated;
        }
    }
    Ok((all, indexes))
}

pub(super) fn sizes(size: Size, scale: i64, indexes: usize) -> Document {
    let mut sizes = doc! {
        "size": divided(size.bytes, scale),
        "count": long(size.documents),
        "avgObjSize": average(size),
        "storageSize": divided(size.bytes, scale),
        "nindexes": i32::try_from(indexes).unwrap_or(i32::MAX),
        // The sizes of indexes are not reported. Tools accept that there are no such figures.
        "indexSizes": {},
        "totalIndexSize": 0_i64,
        "totalSize": divided(size.bytes, scale),
    };
    sizes.extend(estimated(size));
    sizes
}

/// Says so where bytes are estimated.
fn estimated(size: Size) -> Document {
    if size.is_estimated {
        doc! { "isEstimated": true }
    } else {
        Document::new()
    }
}

fn average(size: Size) -> Bson {
    size.bytes.checked_div(size.documents).map_or(Bson::Int64(0), long)
}

fn scale(options: &Options) -> Result<i64, WireError> {
    match options.number("scale")? {
        None => Ok(1),
        Some(scale) if scale >= 1 => Ok(scale),
        Some(_) => Err(WireError::new(51024, "BSON field 'scale' value must be >= 1")),
    }
}

fn divided(bytes: u64, scale: i64) -> Bson {
    long(bytes / scale.unsigned_abs().max(1))
}

fn long(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Those of the documents that the command's `filter` matches.
async fn filtered(reading: &Reading<'_>, documents: Vec<Document>) -> Result<Vec<Document>, WireError> {
    let Some(filter) = reading.options.document("filter")?.filter(|filter| !filter.is_empty()) else {
        return Ok(documents);
    };
    let (filter, limits, now) = (filter.clone(), limits(reading), reading.services().now());
    let parse = move |effort: &_| Filter::parse_with(&filter, &limits, now, effort);
    let max_time = reading.services().max_time;
    let pipeline = Pipeline::matching(understood(1, max_time, parse).await?);
    let all: Documents = documents.iter().map(encoded).collect::<Vec<_>>().iter().map(|raw| &**raw).collect();
    let found = tools::described(all, pipeline, max_time).await?;
    found.iter().map(|document| Ok(Document::try_from(document).expect("it is BSON"))).collect()
}

async fn as_cursor(reading: &Reading<'_>, found: Vec<Document>, namespace: String) -> Result<Vec<u8>, WireError> {
    let documents: Documents = found.iter().map(encoded).collect::<Vec<_>>().iter().map(|raw| &**raw).collect();
    let cursor = reading.options.document("cursor")?;
    let size = match cursor.and_then(|cursor| cursor.get("batchSize")) {
        None => return Ok(listed(&documents, &namespace)),
        Some(size) => size.as_i32().map(i64::from).or(size.as_i64()).and_then(|size| u64::try_from(size).ok()),
    };
    let rest = rest_of(reading, documents);
    finding::first_batch(reading, rest, first_size(size), (false, namespace, Vec::new())).await
}

pub(super) fn encoded(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a description of ours is BSON")
}

/// The indexes of a collection, as MongoDB describes them: these, and the one on `_id`.
pub(super) fn described_indexes(indexes: &[IndexSpec]) -> Vec<Document> {
    std::iter::once(id_index()).chain(indexes.iter().map(index)).collect()
}

/// The description of an index, as MongoDB gives it.
fn index(index: &IndexSpec) -> Document {
    let keys: Document =
        index.keys.iter().map(|key| (key.path.to_owned(), Bson::Int32(if key.descending { -1 } else { 1 }))).collect();
    let mut described = doc! { "v": 2, "key": keys, "name": index.name };
    if index.unique {
        described.insert("unique", true);
    }
    if !index.partial.is_empty() {
        let partial: Document =
            index.partial.iter().map(|equals| (equals.path.to_owned(), equals.value.into())).collect();
        described.insert("partialFilterExpression", partial);
    }
    described
}

fn id_index() -> Document {
    doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }
}

/// The same for the same collection, at any time and for any caller.
fn uuid(database: &str, collection: &str) -> Binary {
    let hash = Sha256::digest(format!("{database}.{collection}"));
    let mut bytes = hash[..16].to_vec();
    // Version 8, whose bits are free, and the variant of RFC 9562.
    bytes[6] = bytes[6] & 0x0F | 0x80;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Binary { subtype: BinarySubtype::Uuid, bytes }
}
