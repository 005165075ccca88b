//! `$jsonSchema`: conditions on the shape of documents, as MongoDB reads JSON Schema draft 4.
//!
//! Laws:
//! - A keyword for one type accepts values of other types: `{minimum: 5}` accepts a text.
//! - Only `required` is about missing members.
//! - Unlike in filters, a condition on an array is not applied to its elements.
//! - Documents are compared without regard to the order of their members.

mod check;
mod encrypt;
mod order;
mod parse;
mod reader;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bson::Bson;
use bson::raw::RawDocument;

pub(in crate::query) use order::Sort;

use super::error::{EvalError, QueryError};
use super::expr::Divisor;
use super::parse_context::Location;
use super::raw::Value;
use super::regex::Regex;
use super::types::TypeSet;

/// A compiled schema.
#[derive(Debug, Clone)]
pub struct Schema {
    rules: Vec<KeywordRule>,
}

impl Schema {
    /// Reads the operand of `$jsonSchema`.
    ///
    /// # Errors
    /// Everything that MongoDB refuses, with its number.
    pub(in crate::query) fn parse(value: &Bson, location: &mut Location) -> Result<Self, QueryError> {
        match value {
            Bson::Document(document) => reader::SchemaReader::new(location).top(document),
            _ => Err(location.malformed(14, "$jsonSchema must be an object")),
        }
    }

    /// As [`Schema::parse`], for a schema that is a whole document of its own.
    ///
    /// # Errors
    /// As there.
    pub fn parse_alone(value: &Bson) -> Result<Self, QueryError> {
        Self::parse(value, &mut Location::new("schema"))
    }

    /// Whether a document has the shape.
    ///
    /// # Errors
    /// When a regular expression backtracks too long.
    pub fn matches(&self, document: &RawDocument) -> Result<bool, EvalError> {
        self.accepts(Value::of_document(document))
    }
}

/// One condition on a value.
#[derive(Debug, Clone)]
enum KeywordRule {
    /// `type`, `bsonType`
    Types(TypeSet),
    /// `encrypt`: binary data of the subtype for encrypted values.
    Encrypted,
    /// `enum`
    OneOfValues(Vec<Bson>),
    /// `minimum`, `maximum`
    Bound { bound: Bson, is_maximum: bool, exclusive: bool },
    /// `multipleOf`
    MultipleOf(Divisor),
    /// `minLength`, `maxLength`
    Length(SizeLimits),
    /// `pattern`
    Pattern(Regex),
    /// `minItems`, `maxItems`
    ItemCount(SizeLimits),
    /// `uniqueItems`
    UniqueItems,
    /// `items` with a list of schemas, one for each place; the last one is for all further elements.
    ItemsByPlace(Vec<Schema>, OtherMembers),
    /// `items` with one schema for all.
    Items(Schema),
    /// `minProperties`, `maxProperties`
    PropertyCount(SizeLimits),
    /// `required`
    Required(Vec<String>),
    /// `properties`, `patternProperties`, `additionalProperties`
    Properties(Properties),
    /// `dependencies`: if the first member is there, the document has the shape.
    Dependency(String, Schema),
    /// `allOf`
    AllOf(Vec<Schema>),
    /// `anyOf`
    AnyOf(Vec<Schema>),
    /// `oneOf`
    OneOf(Vec<Schema>),
    /// `not`
    Not(Schema),
    /// The schema, evaluated after everything else of its filter.
    Last(Box<Schema>),
    /// Accepts nothing: a type at the top that no document has.
    Never,
}

impl KeywordRule {
    /// Whether every document satisfies it, because it is about numbers, lengths or arrays.
    fn is_of_other_values(&self) -> bool {
        matches!(
            self,
            Self::Bound { .. }
                | Self::MultipleOf(_)
                | Self::Length(_)
                | Self::ItemCount(_)
                | Self::UniqueItems
                | Self::Items(_)
                | Self::ItemsByPlace(..)
        )
    }
}

/// A number from here to there.
#[derive(Debug, Clone, Copy)]
struct SizeLimits {
    least: u64,
    most: u64,
}

/// The rule for members or elements that no other keyword covers.
#[derive(Debug, Clone)]
enum OtherMembers {
    Allowed,
    Forbidden,
    Shape(Box<Schema>),
}

/// The three keywords about members by name.
#[derive(Debug, Clone)]
struct Properties {
    named: Vec<(String, Schema)>,
    /// The patterns and the names that they are compared with are those of [`by_bytes`].
    patterns: Vec<(Regex, Schema)>,
    rest: OtherMembers,
}

/// A character for each byte. `patternProperties` of MongoDB compares bytes, unlike `pattern`, so two dots match one umlaut.
fn by_bytes(text: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(text) {
        Ok(ascii) if ascii.is_ascii() => Cow::Borrowed(ascii),
        _ => text.iter().copied().map(char::from).collect(),
    }
}
