//! Laws of MongoDB's wire protocol: no frame makes the reader panic, or take more memory than the frame says.

use bson::{Document, RawDocumentBuf};
use inventory_service::auth::scram::{ClientFirst, Exchange, Verifier};
use inventory_service::wire::codec::{
    Compressor, HEAD, Head, LARGEST_MESSAGE, MOST_ELEMENTS, Message, Packed, Query, check, framed_message, opcode,
};

/// Frames beyond this would make a run slow; what they do is the same.
const MOST_UNPACKED: usize = 1 << 20;

/// Reads the bytes as a frame, and what follows the head as each kind of frame.
pub fn hold(bytes: &[u8]) {
    let Some((head_bytes, body)) = bytes.split_first_chunk::<HEAD>() else { return sign_in(bytes) };
    if let Ok(head) = Head::read(*head_bytes) {
        assert!((HEAD..=LARGEST_MESSAGE).contains(&head.length));
        assert_eq!(head.body() + HEAD, head.length);
        match head.opcode {
            opcode::MSG => message(head_bytes, body),
            opcode::QUERY => query(body),
            opcode::COMPRESSED => packed(head_bytes, body),
            _ => {}
        }
    }
    message(head_bytes, body);
    query(body);
    packed(head_bytes, body);
    document(body);
    sign_in(body);
}

fn message(head: &[u8], body: &[u8]) {
    let Ok(read) = Message::read(head, body) else { return };
    assert!(read.body.len() <= body.len());
    document(read.body);
    let again = framed_message(1, 2, read.body, read.has_checksum);
    let (head, body) = again.split_at(HEAD);
    let again = Message::read(head, body).expect("what was written is read");
    assert_eq!((again.body, again.has_checksum), (read.body, read.has_checksum));
}

fn query(body: &[u8]) {
    if let Ok(read) = Query::read(body) {
        document(read.body);
    }
}

fn packed(head: &[u8], body: &[u8]) {
    let Ok(read) = Packed::read(body) else { return };
    if read.length > MOST_UNPACKED {
        return;
    }
    let Ok(plain) = read.unpack() else { return };
    assert_eq!(plain.len(), read.length, "no more and no less than was said");
    if read.opcode == opcode::MSG {
        message(head, &plain);
    }
}

fn document(bytes: &[u8]) {
    let Ok(elements) = check(bytes) else { return };
    assert!(elements <= MOST_ELEMENTS);
    let raw = RawDocumentBuf::from_bytes(bytes.to_vec()).expect("it was checked");
    // Text that is not UTF-8 is refused when it is decoded.
    let _ = Document::try_from(raw);
    let frame = framed_message(1, 2, bytes, false);
    for compressor in [Compressor::Zlib, Compressor::Zstd] {
        let sent = compressor.pack(frame.clone());
        let head = Head::read(*sent.first_chunk().expect("a head")).expect("a head");
        assert_eq!(head.length, sent.len());
        if head.opcode == opcode::COMPRESSED {
            let plain = Packed::read(&sent[HEAD..]).and_then(|packed| packed.unpack());
            assert_eq!(plain.as_deref(), Ok(&frame[HEAD..]));
        } else {
            assert_eq!(sent, frame);
        }
    }
}

/// The first and the second message of a client.
fn sign_in(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()));
    let Ok(first) = ClientFirst::parse(first) else { return };
    let exchange = Exchange::begin(first, b"salt");
    assert!(exchange.server_first().starts_with("r="));
    if let Ok(proof) = exchange.proof(second.get(1..).unwrap_or_default()) {
        let verifier = Verifier { stored_key: [1; 32], server_key: [2; 32] };
        assert_eq!(proof.answer(&verifier), None, "nobody knows the nonce before it is made");
    }
}
