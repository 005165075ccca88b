//! `OP_QUERY`: the first message of drivers that do not know the server's version yet.

use super::{CodecError, document, number, text};

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
    use super::*;

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
