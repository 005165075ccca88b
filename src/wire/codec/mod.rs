//! MongoDB's wire protocol as bytes: frames, messages, compression. Pure, and total: no input makes it panic or take
//! more memory than its caller allows.
//!
//! ```text
//! frame     length: i32 | request: i32 | response_to: i32 | opcode: i32 | body
//! OP_MSG    flags: u32 | sections | [CRC-32C: u32]
//! OP_QUERY  flags: i32 | collection: cstring | skip: i32 | limit: i32 | document       (hello alone)
//! OP_COMPRESSED  opcode: i32 | plain length: i32 | compressor: u8 | compressed body
//! ```

mod check;
mod compress;
mod message;
mod reply;

pub use self::check::{LARGEST_COMMAND, MOST_ELEMENTS, Weight, check};
pub use self::compress::{Compressor, Packed};
pub use self::message::Query;
pub use self::message::{EXHAUST_ALLOWED, MORE_TO_COME, Message, Sequence};
pub use self::reply::{Batch, framed_message, framed_reply};

/// The largest message, as in MongoDB.
pub const LARGEST_MESSAGE: usize = 48_000_000;

/// The length of the head of a frame.
pub const HEAD: usize = 16;

/// The kinds of frames that are understood.
pub mod opcode {
    /// The answer to an [`QUERY`].
    pub const REPLY: i32 = 1;
    /// The old handshake.
    pub const QUERY: i32 = 2004;
    /// A compressed frame.
    pub const COMPRESSED: i32 = 2012;
    /// A command or its answer.
    pub const MSG: i32 = 2013;
}

/// Bytes that are no message. The connection cannot be used after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(pub &'static str);

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the whole frame.
    pub length: usize,
    /// The sender's number of the message.
    pub request: i32,
    /// The kind of frame.
    pub opcode: i32,
}

impl Head {
    /// Reads the head of a frame.
    ///
    /// # Errors
    /// When its length is shorter than the head, or longer than the largest message.
    pub fn read(bytes: [u8; HEAD]) -> Result<Self, CodecError> {
        let mut numbers = bytes.chunks_exact(4).map(|four| i32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        let mut next = || numbers.next().unwrap_or_default();
        let (length, request, _, opcode) = (next(), next(), next(), next());
        let length = usize::try_from(length).unwrap_or_default();
        if length < HEAD {
            return Err(CodecError("a message is shorter than its head"));
        }
        if length > LARGEST_MESSAGE {
            return Err(CodecError("a message has at most 48000000 bytes"));
        }
        Ok(Self { length, request, opcode })
    }

    /// Bytes after the head.
    pub fn body(&self) -> usize {
        self.length - HEAD
    }
}

/// Takes a number from the front of bytes.
fn number(bytes: &mut &[u8]) -> Result<i32, CodecError> {
    let (four, rest) = bytes.split_first_chunk().ok_or(CodecError("a message ends in a number"))?;
    *bytes = rest;
    Ok(i32::from_le_bytes(*four))
}

/// Takes text up to a zero from the front of bytes.
fn text<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, CodecError> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(CodecError("a text has no end"))?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| CodecError("a text is not UTF-8"))?;
    *bytes = &bytes[end + 1..];
    Ok(text)
}

/// Takes a document from the front of bytes. Only its length is checked.
fn document<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], CodecError> {
    let four = bytes.first_chunk().ok_or(CodecError("a message ends in a document"))?;
    let length = usize::try_from(i32::from_le_bytes(*four)).unwrap_or_default();
    if length < 5 || length > bytes.len() {
        return Err(CodecError("a document has another length than it says"));
    }
    let (document, rest) = bytes.split_at(length);
    *bytes = rest;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_a_wrong_length_is_refused() {
        let head = |length: i32| {
            let mut bytes = [0; HEAD];
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            Head::read(bytes).map(|head| head.body())
        };
        assert_eq!((head(16), head(48_000_000)), (Ok(0), Ok(48_000_000 - HEAD)));
        for wrong in [i32::MIN, -1, 0, 15, 48_000_001, i32::MAX] {
            assert!(head(wrong).is_err(), "{wrong}");
        }
    }
}
