//! The reader of schemas: where it is, its refusals, and the names of types.

use bson::Bson;

use crate::query::error::{QueryError, code};
use crate::query::parse_context::Location;
use crate::query::types::TypeSet;

/// The reader of schemas and where it is. [`parse`](super::parse) reads the keywords.
#[derive(Debug)]
pub(super) struct SchemaReader<'a> {
    pub(super) location: &'a mut Location,
    pub(super) depth: usize,
    /// How many members and elements with a name lead here from the whole document.
    pub(super) inside: usize,
}

/// What reading a part of a schema gives.
pub(super) type Read<T> = Result<T, QueryError>;

impl<'a> SchemaReader<'a> {
    /// At the place where the schema begins.
    pub(super) fn new(location: &'a mut Location) -> Self {
        Self { location, depth: 0, inside: 0 }
    }

    /// A refusal with MongoDB's number.
    pub(super) fn refuse<T>(&self, code: i32, message: impl Into<String>) -> Read<T> {
        Err(self.location.malformed(code, message))
    }

    /// `FailedToParse`
    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Read<T> {
        self.refuse(code::FAILED_TO_PARSE, message)
    }

    /// `TypeMismatch`
    pub(super) fn wrong_type<T>(&self, keyword: &str, wanted: &str) -> Read<T> {
        self.refuse(code::TYPE_MISMATCH, format!("$jsonSchema keyword '{keyword}' must be {wanted}"))
    }

    /// Names of types; `bsonType` takes those of BSON, `type` those of JSON.
    pub(super) fn types(&self, keyword: &str, value: &Bson) -> Read<TypeSet> {
        let names = match value {
            Bson::String(name) => return self.type_set(keyword, name),
            Bson::Array(names) => names,
            _ => return self.wrong_type(keyword, "either a string or an array of strings"),
        };
        if names.is_empty() {
            return self.fail(format!("$jsonSchema keyword '{keyword}' must name at least one type"));
        }
        let mut set = TypeSet::default();
        let mut seen: Vec<&str> = Vec::new();
        for name in names {
            let Bson::String(name) = name else {
                return self.wrong_type(keyword, "an array of strings");
            };
            if seen.contains(&name.as_str()) {
                return self.fail(format!("$jsonSchema keyword '{keyword}' has duplicate value: {name}"));
            }
            seen.push(name);
            set = set.union(self.type_set(keyword, name)?);
        }
        Ok(set)
    }

    fn type_set(&self, keyword: &str, name: &str) -> Read<TypeSet> {
        if name == "integer" {
            return self.fail("$jsonSchema type 'integer' is not currently supported");
        }
        let name_in_bson = match (keyword, name) {
            ("bsonType", name) => Some(name),
            (_, "boolean") => Some("bool"),
            (_, "object" | "array" | "number" | "string" | "null") => Some(name),
            _ => None,
        };
        match name_in_bson.and_then(TypeSet::of_name) {
            Some(types) => Ok(types),
            None => self.refuse(code::BAD_VALUE, format!("unknown type name alias: {name}")),
        }
    }
}
