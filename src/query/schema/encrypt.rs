//! `encrypt` and `encryptMetadata`: read and checked; the service encrypts nothing itself.

use bson::spec::BinarySubtype;
use bson::{Bson, Document};

use super::reader::SchemaReader;
use crate::query::error::{QueryError, code};

/// The values of `algorithm`.
const ALGORITHMS: [&str; 2] = ["AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic", "AEAD_AES_256_CBC_HMAC_SHA_512-Random"];

/// `encrypt: {bsonType, keyId, algorithm}`
pub(super) fn check_encrypt(reader: &SchemaReader<'_>, value: &Bson) -> Result<(), QueryError> {
    let document = object(reader, "encrypt", value)?;
    check_members(reader, "encrypt", document, &["bsonType", "keyId", "algorithm"])?;
    document.get("bsonType").map_or(Ok(()), |types| reader.types("bsonType", types).map(drop))
}

/// `encryptMetadata: {keyId, algorithm}`
pub(super) fn check_metadata(reader: &SchemaReader<'_>, value: &Bson) -> Result<(), QueryError> {
    let document = object(reader, "encryptMetadata", value)?;
    if document.is_empty() {
        return reader.fail("$jsonSchema keyword 'encryptMetadata' cannot be an empty object");
    }
    check_members(reader, "encryptMetadata", document, &["keyId", "algorithm"])
}

fn object<'d>(reader: &SchemaReader<'_>, keyword: &str, value: &'d Bson) -> Result<&'d Document, QueryError> {
    match value {
        Bson::Document(document) => Ok(document),
        _ => reader.wrong_type(keyword, "an object"),
    }
}

fn check_members(
    reader: &SchemaReader<'_>,
    keyword: &str,
    document: &Document,
    names: &[&str],
) -> Result<(), QueryError> {
    for (name, value) in document {
        match (name.as_str(), value) {
            (name, _) if !names.contains(&name) => {
                return reader.refuse(40415, format!("'{keyword}.{name}' is an unknown field"));
            }
            ("algorithm", Bson::String(algorithm)) if ALGORITHMS.contains(&algorithm.as_str()) => {}
            ("algorithm", Bson::String(algorithm)) => {
                let message = format!("enumeration value '{algorithm}' for field '{keyword}.algorithm' is not valid");
                return reader.refuse(code::BAD_VALUE, message);
            }
            ("algorithm", _) => {
                return reader.refuse(code::TYPE_MISMATCH, format!("'{keyword}.algorithm' must be a string"));
            }
            ("keyId", Bson::String(pointer)) if pointer.starts_with('/') => {}
            ("keyId", Bson::String(_)) => return reader.refuse(51065, "a JSON pointer must start with a '/'"),
            ("keyId", Bson::Array(ids)) => check_ids(reader, ids)?,
            ("keyId", _) => return reader.refuse(51085, "'keyId' must be a string or an array of UUIDs"),
            _ => {}
        }
    }
    Ok(())
}

fn check_ids(reader: &SchemaReader<'_>, ids: &[Bson]) -> Result<(), QueryError> {
    for id in ids {
        match id {
            Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid => {}
            Bson::Binary(_) => return reader.refuse(51084, "elements of 'keyId' must be UUIDs"),
            _ => return reader.refuse(51088, "elements of 'keyId' must be binary data"),
        }
    }
    Ok(())
}
