//! `OP_MSG`: a command with its flags, its document, its sequences of documents, and a checksum. `OP_QUERY`: the first
//! message of drivers that do not know the version of the server yet.

use super::{CodecError, document, number, text};

/// The last four bytes are a CRC-32C of all bytes before them.
pub(super) const CHECKSUM: u32 = 1;
/// The sender does not want an answer.
pub const MORE_TO_COME: u32 = 2;
/// The sender would take several answers. This server never sends more than one.
pub const EXHAUST_ALLOWED: u32 = 1 << 16;
/// Flags that the receiver has to know.
const REQUIRED: u32 = 0xFFFF;

/// A message, borrowed from the bytes of its frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The flags as sent.
    pub flags: u32,
    /// The document of the command; only its length is checked.
    pub body: &'a [u8],
    /// Arrays of the command that were sent next to its document.
    pub sequences: Vec<Sequence<'a>>,
    /// Whether there was a checksum.
    pub has_checksum: bool,
}

/// An array of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// Its name in the command.
    pub name: &'a str,
    /// How many documents it has.
    pub documents: usize,
}

impl<'a> Message<'a> {
    /// Reads the body of a frame; `frame` is all of it, for the checksum.
    ///
    /// # Errors
    /// Unknown flags, a wrong checksum, sections that are not as they say.
    pub fn read(head: &[u8], body: &'a [u8]) -> Result<Self, CodecError> {
        let mut rest = body;
        let flags = number(&mut rest)?.cast_unsigned();
        if flags & REQUIRED & !(CHECKSUM | MORE_TO_COME) != 0 {
            return Err(CodecError("a message has a flag that is not known"));
        }
        let has_checksum = flags & CHECKSUM != 0;
        if has_checksum {
            let (before, sum) = rest.split_last_chunk::<4>().ok_or(CodecError("the checksum is missing"))?;
            let end = body.len() - 4;
            if crc32c::crc32c_append(crc32c::crc32c(head), &body[..end]) != u32::from_le_bytes(*sum) {
                return Err(CodecError("the checksum is wrong"));
            }
            rest = before;
        }
        let mut found = None;
        let mut sequences: Vec<Sequence<'a>> = Vec::new();
        while let Some((kind, after)) = rest.split_first() {
            rest = after;
            match kind {
                0 if found.is_none() => found = Some(document(&mut rest)?),
                0 => return Err(CodecError("a message has two documents of a command")),
                1 => sequences.push(sequence(&mut rest)?),
                _ => return Err(CodecError("a section is of a kind that is not known")),
            }
            if sequences.len() > MOST_SEQUENCES {
                return Err(CodecError("a message has too many sequences of documents"));
            }
        }
        let body = found.ok_or(CodecError("a message has no document of a command"))?;
        let is_twice = |(at, one): (usize, &Sequence<'_>)| sequences[..at].iter().any(|other| other.name == one.name);
        if sequences.iter().enumerate().any(is_twice) {
            return Err(CodecError("a message has two sequences of the same name"));
        }
        Ok(Self { flags, body, sequences, has_checksum })
    }
}

/// No command has more arrays.
const MOST_SEQUENCES: usize = 8;

fn sequence<'a>(bytes: &mut &'a [u8]) -> Result<Sequence<'a>, CodecError> {
    let mut of_length = *bytes;
    let length = usize::try_from(number(&mut of_length)?).unwrap_or_default();
    if length < 4 || length > bytes.len() {
        return Err(CodecError("a sequence has another length than it says"));
    }
    let mut inside = &bytes[4..length];
    *bytes = &bytes[length..];
    let name = text(&mut inside)?;
    let mut documents = 0;
    while !inside.is_empty() {
        document(&mut inside)?;
        documents += 1;
    }
    Ok(Sequence { name, documents })
}

/// A query on `<database>.$cmd`, which is a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The database of the command.
    pub database: &'a str,
    /// Its document; only its length is checked.
    pub body: &'a [u8],
}

impl<'a> Query<'a> {
    /// Reads the body of a frame.
    ///
    /// # Errors
    /// When it is no query, or none on `$cmd`.
    pub fn read(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut rest = body;
        number(&mut rest)?;
        let name = text(&mut rest)?;
        let database = name.strip_suffix(".$cmd").ok_or(CodecError("OP_QUERY is understood for commands alone"))?;
        number(&mut rest)?;
        number(&mut rest)?;
        let body = document(&mut rest)?;
        Ok(Self { database, body })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HEAD, framed_message};
    use super::*;

    const EMPTY: &[u8] = b"\x05\0\0\0\0";

    fn body(flags: u32, sections: &[&[u8]]) -> Vec<u8> {
        let mut bytes = flags.to_le_bytes().to_vec();
        for section in sections {
            bytes.extend_from_slice(section);
        }
        bytes
    }

    #[test]
    fn a_command_with_sequences_is_read() {
        // The name is "docs", then a byte that begins no document.
        let broken = b"\x01\x10\0\0\0docs\0\0\x05\0\0\0\0";
        assert!(Message::read(&[], &body(0, &[b"\0", EMPTY, broken])).is_err());
        let sequence = b"\x01\x13\0\0\0docs\0\x05\0\0\0\0\x05\0\0\0\0";
        let bytes = body(EXHAUST_ALLOWED, &[b"\0", EMPTY, sequence]);
        let message = Message::read(&[], &bytes).expect("a message");
        assert_eq!((message.body, message.flags), (EMPTY, EXHAUST_ALLOWED));
        assert_eq!(message.sequences, [Sequence { name: "docs", documents: 2 }]);
        let twice = body(0, &[b"\0", EMPTY, sequence, sequence]);
        assert!(Message::read(&[], &twice).is_err());
    }

    #[test]
    fn a_checksum_is_checked() {
        let frame = framed_message(7, 3, EMPTY, true);
        let (head, body) = frame.split_at(HEAD);
        assert!(Message::read(head, body).expect("a message").has_checksum);
        for at in 0..frame.len() {
            let mut broken = frame.clone();
            broken[at] ^= 1;
            let (head, body) = broken.split_at(HEAD);
            assert!(Message::read(head, body).is_err() || at == HEAD, "byte {at}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for wrong in [
            body(0, &[]),
            body(4, &[b"\0", EMPTY]),
            body(0, &[b"\0", EMPTY, b"\0", EMPTY]),
            body(0, &[b"\x02", EMPTY]),
            body(0, &[b"\0\x06\0\0\0\0"]),
            body(0, &[b"\0\xff\xff\xff\xff\0"]),
            body(0, &[b"\0", EMPTY, b"\x01\x03\0\0\0"]),
            body(0, &[b"\0", EMPTY, b"\x01\xff\0\0\0a\0"]),
            body(1, &[]),
            b"\0\0".to_vec(),
        ] {
            assert!(Message::read(&[], &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_command_is_read_and_a_query_on_a_collection_is_refused() {
        let query = |name: &str| [b"\0\0\0\0", name.as_bytes(), b"\0\0\0\0\0\xff\xff\xff\xff\x05\0\0\0\0"].concat();
        let bytes = query("admin.$cmd");
        assert_eq!(Query::read(&bytes), Ok(Query { database: "admin", body: b"\x05\0\0\0\0" }));
        assert!(Query::read(&query("admin.users")).is_err());
        for end in 0..bytes.len() {
            assert!(Query::read(&bytes[..end]).is_err(), "{end} bytes");
        }
    }
}
