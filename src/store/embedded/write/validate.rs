//! Checks of a document before it is stored, and of a filter before it is run. Stored bytes are trusted later.

use bson::raw::{RawBsonRef, RawDocument};

use crate::query::Filter;
use crate::store::StoreError;

/// As in MongoDB: 16 MiB.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// As in MongoDB; deeper documents could not be walked safely.
const MAX_DEPTH: usize = 180;
/// MongoDB's numbers for the refusals.
const BAD_VALUE: i32 = 2;
const OVERFLOW: i32 = 15;
const INVALID_BSON: i32 = 22;
const TOO_LARGE: i32 = 10334;

/// Checks a document that is to be stored.
pub(crate) fn document(document: &RawDocument) -> Result<(), StoreError> {
    if document.as_bytes().len() > MAX_DOCUMENT_BYTES {
        return refuse(TOO_LARGE, "the document is larger than 16 MiB");
    }
    match document.get("_id") {
        Ok(Some(RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined)) => {
            return refuse(BAD_VALUE, "_id cannot be an array, a regular expression or undefined");
        }
        Ok(Some(_)) => {}
        _ => return refuse(BAD_VALUE, "the document has no _id"),
    }
    members(document, 1)
}

fn members(document: &RawDocument, depth: usize) -> Result<(), StoreError> {
    if depth > MAX_DEPTH {
        return refuse(OVERFLOW, "the document is nested too deeply");
    }
    for member in document {
        match member {
            Ok((_, RawBsonRef::Document(inner))) => members(inner, depth + 1)?,
            Ok((_, RawBsonRef::Array(array))) => elements(array, depth + 1)?,
            Ok((_, RawBsonRef::JavaScriptCodeWithScope(code))) => members(code.scope, depth + 1)?,
            Ok(_) => {}
            Err(_) => return refuse(INVALID_BSON, "the document is not valid BSON"),
        }
    }
    Ok(())
}

fn elements(array: &bson::raw::RawArray, depth: usize) -> Result<(), StoreError> {
    match RawDocument::from_bytes(array.as_bytes()) {
        Ok(array) => members(array, depth),
        Err(_) => refuse(INVALID_BSON, "the document is not valid BSON"),
    }
}

fn refuse<T>(code: i32, message: &str) -> Result<T, StoreError> {
    Err(StoreError::Query { code, message: message.to_owned() })
}

/// Checks that a filter has no operator that only a MongoDB server offers.
pub(crate) fn runs_here(filter: &Filter) -> Result<(), StoreError> {
    match filter.needs_server() {
        Some(operator) => Err(StoreError::Unsupported { what: operator.to_owned() }),
        None => Ok(()),
    }
}
