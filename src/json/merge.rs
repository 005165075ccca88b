//! Merge patches (RFC 7396) for stored documents.

use bson::Document;
use bson::raw::RawDocument;
use serde_json::Value;

use super::read::{JsonError, document_from_str};
use super::write::{DateStyle, Shape, write_document};
use crate::raw::CorruptBson;

/// Why there is no merged document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The stored document is damaged.
    #[error(transparent)]
    Corrupt(#[from] CorruptBson),
    /// What the patch makes of it is no Extended JSON, for instance `{"$date": null}`.
    #[error(transparent)]
    Unreadable(#[from] JsonError),
}

/// What the patch makes of the document as clients see it, which is without `_id`.
///
/// # Errors
/// See [`MergeError`].
pub fn merged(stored: &RawDocument, patch: &Value) -> Result<Document, MergeError> {
    let mut text = Vec::new();
    write_document(stored, Shape::new(DateStyle::Millis), &mut text)?;
    let mut body: Value = serde_json::from_slice(&text).map_err(JsonError::from)?;
    json_patch::merge(&mut body, patch);
    Ok(document_from_str(&body.to_string())?)
}
