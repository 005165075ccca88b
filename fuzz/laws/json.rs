//! Laws of reading and writing JSON: what was read is read again from what is written, and broken bytes are an error.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};
use inventory_service::json::read::{document_from_str, value_from_str};
use inventory_service::json::write::{DateStyle, Shape, write_document};

/// Reads the bytes as Extended JSON, and also takes them for a stored document.
pub fn hold(bytes: &[u8]) {
    if let Ok(stored) = RawDocument::from_bytes(bytes) {
        write(stored);
    }
    let Ok(text) = str::from_utf8(bytes) else { return };
    let value = match value_from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let lines = text.split('\n').count();
            assert!((1..=lines).contains(&error.line), "the place is in the text: {error:?}");
            assert!(!error.message.contains(" at line "), "the place is said once: {error:?}");
            return;
        }
    };
    let canonical = value.clone().into_canonical_extjson().to_string();
    let again = value_from_str(&canonical).expect("what was read can be written and read");
    assert_eq!(bytes_of(&value), bytes_of(&again), "{canonical}");
    if let Bson::Document(document) = &value {
        let stored = RawDocumentBuf::try_from(document).expect("what was read is BSON");
        let written = write(&stored).expect("what was read can be written");
        let again = document_from_str(&written).expect("what is written is Extended JSON");
        assert_eq!(document.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>(), "{written}");
    }
}

/// The JSON of a stored document, which is JSON; nothing for broken bytes.
fn write(document: &RawDocument) -> Option<String> {
    let mut out = Vec::new();
    write_document(document, Shape::whole(DateStyle::Millis), &mut out).ok()?;
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    serde_json::from_str::<serde_json::Value>(&text).expect("JSON was written");
    Some(text)
}

fn bytes_of(value: &Bson) -> Vec<u8> {
    let holder: Document = [(String::new(), value.clone())].into_iter().collect();
    holder.to_vec().expect("what was read is BSON")
}
