//! Laws of the lines of a package: what is accepted comes out again equal, and so does what is read of a stored document.

use bson::Document;
use bson::raw::{RawDocument, RawDocumentBuf};
use inventory_service::json::write::write_canonical;
use inventory_service::moving::import::lines::document;

/// Reads the bytes as lines, and also takes them for a stored document.
pub fn hold(bytes: &[u8]) {
    if let Ok(stored) = RawDocument::from_bytes(bytes)
        && let Some(line) = line_of(stored)
        && let Ok(read) = document(&line)
    {
        // Names that mean a type become that type; after that it is what it is.
        comes_out_equal(&read);
    }
    for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        match document(line) {
            Ok(read) => comes_out_equal(&read),
            Err(reason) => {
                assert!(!reason.is_empty(), "a refusal says why");
                assert!(!reason.contains(" at line "), "the number of the line is said by whoever knows it: {reason}");
            }
        }
    }
}

fn comes_out_equal(read: &Document) {
    let stored = RawDocumentBuf::try_from(read).expect("what was read is BSON");
    let line = line_of(&stored).expect("what was read can be written");
    let again = document(&line).unwrap_or_else(|reason| panic!("{reason}: {}", String::from_utf8_lossy(&line)));
    let again = RawDocumentBuf::try_from(&again).expect("what was read is BSON");
    assert_eq!(stored.as_bytes(), again.as_bytes(), "{}", String::from_utf8_lossy(&line));
}

/// The line of a document; nothing for broken bytes.
fn line_of(stored: &RawDocument) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    write_canonical(stored, &mut line).ok()?;
    assert!(!line.contains(&b'\n'), "a document is one line");
    line.push(b'\n');
    Some(line)
}
