//! Compares a line with the stored document of the same key. `_id`s do not count, because two stores differ in them.

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};

use super::LineAction;
use super::rules::Read;

/// The first member in which the line differs; members that it lacks do not count.
pub(super) fn difference<'l>(line: &'l Document, stored: &Document) -> Option<&'l str> {
    let differs =
        |(name, value): &(&String, &Bson)| name.as_str() != "_id" && stored.get(name.as_str()) != Some(*value);
    line.iter().find(differs).map(|(name, _)| name.as_str())
}

/// The new document of a valid line.
pub(super) fn created(read: &Read) -> Result<LineAction, String> {
    let id = read.members.get("_id").cloned().unwrap_or_else(|| ObjectId::new().into());
    let mut document = Document::new();
    document.insert("_id", id);
    document.extend(
        read.members.iter().filter(|(name, _)| *name != "_id").map(|(name, value)| (name.clone(), value.clone())),
    );
    for (name, value) in &read.defaults {
        if !document.contains_key(name) {
            document.insert(name.clone(), value.clone());
        }
    }
    encoded(&document).map(LineAction::Create)
}

/// The stored document after a valid line; members that the line lacks stay.
pub(super) fn replaced(read: &Read, before: RawDocumentBuf, stored: &Document) -> Result<LineAction, String> {
    let mut document = stored.clone();
    for (name, value) in read.members.iter().filter(|(name, _)| *name != "_id") {
        document.insert(name.clone(), value.clone());
    }
    Ok(LineAction::Replace { before, after: encoded(&document)? })
}

fn encoded(document: &Document) -> Result<RawDocumentBuf, String> {
    RawDocumentBuf::try_from(document).map_err(|error| format!("it cannot be stored: {error}"))
}
