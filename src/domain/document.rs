//! Reads and makes members of stored documents. Other tools may have written other number types.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use crate::raw::{member, whole};

/// The whole number under `name`, of any stored number type.
pub fn integer(document: &RawDocument, name: &str) -> Option<i64> {
    member(document.as_bytes(), name.as_bytes())?.as_integer()
}

/// The text under `name`.
pub fn text<'a>(document: &'a RawDocument, name: &str) -> Option<&'a str> {
    document.get(name).ok()??.as_str()
}

/// The boolean under `name`.
pub fn flag(document: &RawDocument, name: &str) -> Option<bool> {
    document.get(name).ok()??.as_bool()
}

/// These members of a document, in this order.
pub fn only(document: &Document, names: &[&str]) -> Document {
    names.iter().filter_map(|name| Some(((*name).to_owned(), document.get(name)?.clone()))).collect()
}

/// A document without these members.
pub fn without(document: &RawDocument, names: &[&str]) -> RawDocumentBuf {
    let mut left = RawDocumentBuf::new();
    for (name, value) in document.iter().flatten().filter(|(name, _)| !names.contains(&name.as_str())) {
        left.append(name, value);
    }
    left
}

/// A whole number of any stored number type.
pub fn number(value: &Bson) -> Option<i64> {
    match *value {
        Bson::Int64(number) => Some(number),
        Bson::Int32(number) => Some(i64::from(number)),
        Bson::Double(number) => whole(number),
        _ => None,
    }
}

/// The document as stores take it.
pub fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("names of members are written in the code, without a zero byte")
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_whole_number_is_read_from_every_number_type() {
        let document = rawdoc! {"a": 7_i64, "b": 7_i32, "c": 7.0, "d": 7.5, "e": "7", "f": f64::NAN, "g": 1e300};
        let read = |name| integer(&document, name);
        assert_eq!([read("a"), read("b"), read("c")], [Some(7); 3]);
        assert_eq!([read("d"), read("e"), read("f"), read("g"), read("h")], [None; 5]);
    }
}
