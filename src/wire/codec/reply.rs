//! Answers as bytes: frames, and batches of cursors that are written once.

use bson::raw::{RawDocument, RawDocumentBuf};

use super::message::CHECKSUM;
use super::{HEAD, opcode};

/// `OP_MSG` with this document.
pub fn framed_message(request: i32, response_to: i32, document: &[u8], with_checksum: bool) -> Vec<u8> {
    let length = HEAD + 5 + document.len() + if with_checksum { 4 } else { 0 };
    let mut frame = head(length, request, response_to, opcode::MSG);
    let flags = if with_checksum { CHECKSUM } else { 0 };
    frame.extend_from_slice(&flags.to_le_bytes());
    frame.push(0);
    frame.extend_from_slice(document);
    if with_checksum {
        let sum = crc32c::crc32c(&frame);
        frame.extend_from_slice(&sum.to_le_bytes());
    }
    frame
}

/// `OP_REPLY` with this document, the answer to `OP_QUERY`.
pub fn framed_reply(request: i32, response_to: i32, document: &[u8]) -> Vec<u8> {
    let mut frame = head(HEAD + 20 + document.len(), request, response_to, opcode::REPLY);
    // Flags: the server waits for data of cursors. No cursor, from the start, one document.
    frame.extend_from_slice(&8_i32.to_le_bytes());
    frame.extend_from_slice(&0_i64.to_le_bytes());
    frame.extend_from_slice(&0_i32.to_le_bytes());
    frame.extend_from_slice(&1_i32.to_le_bytes());
    frame.extend_from_slice(document);
    frame
}

fn head(length: usize, request: i32, response_to: i32, opcode: i32) -> Vec<u8> {
    let mut frame = Vec::with_capacity(length);
    let length = i32::try_from(length).expect("an answer is bounded");
    for number in [length, request, response_to, opcode] {
        frame.extend_from_slice(&number.to_le_bytes());
    }
    frame
}

/// The answer `{cursor: {firstBatch: [...], id, ns}, ok: 1}` while it is being written.
#[derive(Debug)]
pub struct Batch {
    name: &'static str,
    bytes: Vec<u8>,
    documents: u32,
}

/// Where the document of the cursor begins: after the length, the kind, and the name.
const CURSOR: usize = 4 + 1 + 7;

impl Batch {
    /// A batch without documents, named `firstBatch` or `nextBatch`.
    pub fn new(name: &'static str) -> Self {
        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(b"\x03cursor\0");
        bytes.extend_from_slice(&[0; 4]);
        bytes.push(4);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&[0; 4]);
        Self { name, bytes, documents: 0 }
    }

    /// Appends a document.
    pub fn push(&mut self, document: &RawDocument) {
        self.bytes.push(3);
        let mut buffer = itoa::Buffer::new();
        self.bytes.extend_from_slice(buffer.format(self.documents).as_bytes());
        self.bytes.push(0);
        self.bytes.extend_from_slice(document.as_bytes());
        self.documents += 1;
    }

    /// How many documents it has.
    pub fn len(&self) -> u32 {
        self.documents
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.documents == 0
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The whole answer.
    pub fn finish(self, cursor: i64, namespace: &str) -> Vec<u8> {
        let mut bytes = self.bytes;
        bytes.push(0);
        let array = CURSOR + 4 + 1 + self.name.len() + 1;
        set_length(&mut bytes, array);
        let mut rest = RawDocumentBuf::new();
        rest.append(bson::cstr!("id"), cursor);
        rest.append(bson::cstr!("ns"), namespace);
        // With the zero that ends it.
        bytes.extend_from_slice(&rest.as_bytes()[4..]);
        set_length(&mut bytes, CURSOR);
        bytes.extend_from_slice(b"\x01ok\0");
        bytes.extend_from_slice(&1_f64.to_le_bytes());
        bytes.push(0);
        set_length(&mut bytes, 0);
        bytes
    }
}

/// Writes the length of the document that begins there and ends with the bytes.
fn set_length(bytes: &mut [u8], start: usize) {
    let length = i32::try_from(bytes.len() - start).expect("an answer is bounded");
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    #[test]
    fn a_batch_is_the_document_that_it_stands_for() {
        let mut batch = Batch::new("nextBatch");
        let documents: Vec<Document> = (0..12).map(|number| doc! { "a": number }).collect();
        for document in &documents {
            batch.push(&RawDocumentBuf::try_from(document).expect("a document"));
        }
        let bytes = batch.finish(7, "inventory.things");
        let written = RawDocumentBuf::from_bytes(bytes).expect("a document");
        let wanted = doc! { "cursor": { "nextBatch": documents, "id": 7_i64, "ns": "inventory.things" }, "ok": 1.0 };
        assert_eq!(Document::try_from(written).expect("BSON"), wanted);
    }
}
