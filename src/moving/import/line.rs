//! A line of a package: the text of one document. Pure.

use bson::Document;

use crate::json::read::trusted_document_from_str;

/// Reads a line, with or without its end.
///
/// # Errors
/// The error for people, without the number of the line.
pub fn document(line: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    trusted_document_from_str(text.trim_end_matches(['\r', '\n']))
        .map_err(|error| error.to_string().replace(" at line 1, column ", " at column "))
}
