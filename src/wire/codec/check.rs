//! The check of a command's document before it is decoded: whole, not too deep, and with a bounded number of elements.

use bson::raw::{RawBsonRef, RawDocument};

/// The largest document of a command, as in MongoDB.
pub const LARGEST_COMMAND: usize = (16 * 1024 + 16) * 1024;

/// How many elements a command may have: decoded, each takes some hundred bytes.
pub const MOST_ELEMENTS: usize = 100_000;

/// How deep MongoDB lets documents nest.
const DEEPEST: usize = 180;

/// Why a document is not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// It is no BSON.
    Broken,
    /// It nests too deep.
    TooDeep,
    /// It has too many elements or bytes.
    TooLarge,
}

/// Checks a document with everything in it; gives the number of its elements.
///
/// # Errors
/// [`Weight`].
pub fn check(document: &[u8]) -> Result<usize, Weight> {
    if document.len() > LARGEST_COMMAND {
        return Err(Weight::TooLarge);
    }
    let document = RawDocument::from_bytes(document).map_err(|_| Weight::Broken)?;
    let mut elements = 0;
    walk(document, 0, &mut elements)?;
    Ok(elements)
}

fn walk(document: &RawDocument, depth: usize, elements: &mut usize) -> Result<(), Weight> {
    if depth > DEEPEST {
        return Err(Weight::TooDeep);
    }
    for element in document {
        let (_, value) = element.map_err(|_| Weight::Broken)?;
        *elements += 1;
        if *elements > MOST_ELEMENTS {
            return Err(Weight::TooLarge);
        }
        match value {
            RawBsonRef::Document(inner) => walk(inner, depth + 1, elements)?,
            RawBsonRef::Array(inner) => {
                let inner = RawDocument::from_bytes(inner.as_bytes()).map_err(|_| Weight::Broken)?;
                walk(inner, depth + 1, elements)?;
            }
            RawBsonRef::JavaScriptCodeWithScope(code) => walk(code.scope, depth + 1, elements)?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, RawDocumentBuf, doc};

    use super::*;

    fn checked(document: &Document) -> Result<usize, Weight> {
        check(RawDocumentBuf::try_from(document).expect("a document").as_bytes())
    }

    #[test]
    fn elements_are_counted_with_those_inside() {
        assert_eq!(checked(&doc! { "a": 1, "b": [1, { "c": 2 }] }), Ok(5));
        let many = vec![Bson::Null; MOST_ELEMENTS];
        assert_eq!(checked(&doc! { "a": many }), Err(Weight::TooLarge));
    }

    #[test]
    fn a_document_of_many_levels_is_refused_without_going_through_them() {
        // {"": {"": ...}} by hand, as encoding it would need as many levels.
        let levels = 100_000;
        let mut bytes = vec![0; levels * 7 + 5];
        for level in 0..=levels {
            let (start, end) = (level * 6, bytes.len() - level);
            let length = i32::try_from(end - start).expect("a length");
            bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
            if level < levels {
                bytes[start + 4] = 3;
            }
        }
        assert_eq!(check(&bytes), Err(Weight::TooDeep));
    }

    #[test]
    fn bytes_that_are_no_document_are_refused() {
        for wrong in [&b""[..], b"\x05\0\0\0", b"\x06\0\0\0\0\0\0", b"\x08\0\0\0\x02a\0\0", b"\x07\0\0\0\xEEa\0"] {
            assert_eq!(check(wrong), Err(Weight::Broken), "{wrong:?}");
        }
    }
}
