//! BSON -> schema: every refusal happens here.

use bson::{Bson, Document};

use super::check::are_unique;
use super::reader::{Read, SchemaReader};
use super::{KeywordRule, OtherMembers, Properties, Schema, SizeLimits, by_bytes, encrypt};
use crate::query::error::code;
use crate::query::expr::Divisor;
use crate::query::raw::kind;
use crate::query::regex::Regex;
use crate::suggest::hint;

/// How deep schemas may nest.
const MAX_DEPTH: usize = 150;

/// Keywords of JSON Schema that MongoDB recognizes but does not implement.
const UNSUPPORTED: [&str; 6] = ["$ref", "$schema", "default", "definitions", "format", "id"];

/// The keywords in the order in which MongoDB reads them: of several mistakes the first in this order is
/// reported.
const KEYWORDS: [&str; 31] = [
    "title", "description", "encryptMetadata", "type", "bsonType", "pattern", "maxLength", "minLength", "minimum",
    "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "items",
    "additionalItems", "encrypt", "required", "properties", "patternProperties", "additionalProperties",
    "minProperties", "maxProperties", "dependencies", "allOf", "anyOf", "oneOf", "not", "enum",
];

impl SchemaReader<'_> {
    /// A schema for whole documents.
    pub(super) fn top(&mut self, document: &Document) -> Read<Schema> {
        let mut schema = self.schema(document)?;
        for rule in &mut schema.rules {
            if matches!(rule, KeywordRule::Types(types) if !types.contains(kind::DOCUMENT)) {
                *rule = KeywordRule::Never;
            }
        }
        Ok(schema)
    }

    fn schema(&mut self, document: &Document) -> Read<Schema> {
        if self.depth >= MAX_DEPTH {
            return self.refuse(15, "the schema is nested too deeply");
        }
        self.depth += 1;
        self.check_names(document)?;
        let mut rules = Vec::new();
        let mut members_are_read = false;
        for keyword in KEYWORDS {
            let Some(value) = document.get(keyword) else { continue };
            if matches!(keyword, "properties" | "patternProperties" | "additionalProperties") {
                // The three make one rule.
                if !members_are_read {
                    rules.extend(self.properties(document)?);
                    members_are_read = true;
                }
                continue;
            }
            let rule = if keyword == "items" {
                Some(self.items(value, document.get("additionalItems"))?)
            } else {
                self.within(keyword, |reader| reader.rule(keyword, value, document))?
            };
            // The whole value is a document: MongoDB drops keywords about other types.
            rules.extend(rule.filter(|rule| self.inside > 0 || !rule.is_of_other_values()));
        }
        self.depth -= 1;
        Ok(Schema { rules })
    }

    /// Reads a part that is nested one level deeper.
    fn within<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.location.enter(step);
        let outcome = read(self);
        self.location.leave();
        outcome
    }

    fn check_names(&mut self, document: &Document) -> Read<()> {
        for keyword in document.keys() {
            let message = if UNSUPPORTED.contains(&keyword.as_str()) {
                "MongoDB does not support this keyword of JSON Schema".to_owned()
            } else if KEYWORDS.contains(&keyword.as_str()) {
                continue;
            } else {
                format!("unknown keyword of $jsonSchema{}", hint(keyword, &KEYWORDS))
            };
            return self.within(keyword, |reader| reader.fail(message));
        }
        if document.contains_key("type") && document.contains_key("bsonType") {
            return self.fail("cannot specify both $jsonSchema keywords 'type' and 'bsonType'");
        }
        for implied in ["type", "bsonType"] {
            if document.contains_key("encrypt") && document.contains_key(implied) {
                return self.fail(format!("$jsonSchema keyword 'encrypt' cannot be used together with '{implied}'"));
            }
        }
        if document.contains_key("encrypt") && document.contains_key("encryptMetadata") {
            return self.fail("cannot specify both $jsonSchema keywords 'encrypt' and 'encryptMetadata'");
        }
        for (keyword, needed) in [("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")] {
            if document.contains_key(keyword) && !document.contains_key(needed) {
                return self.fail(format!("$jsonSchema keyword '{needed}' must be present if {keyword} is present"));
            }
        }
        Ok(())
    }

    fn rule(&mut self, keyword: &str, value: &Bson, schema: &Document) -> Read<Option<KeywordRule>> {
        Ok(Some(match keyword {
            "type" | "bsonType" => KeywordRule::Types(self.types(keyword, value)?),
            "enum" => KeywordRule::OneOfValues(self.values(value)?),
            "minimum" | "maximum" => self.bound(keyword, value, schema)?,
            "multipleOf" => KeywordRule::MultipleOf(self.divisor(value)?),
            "minLength" | "maxLength" => KeywordRule::Length(self.limits(keyword, value)?),
            "minItems" | "maxItems" => KeywordRule::ItemCount(self.limits(keyword, value)?),
            "minProperties" | "maxProperties" => KeywordRule::PropertyCount(self.limits(keyword, value)?),
            "pattern" => match value {
                // One about whole documents is not even read.
                Bson::String(_) if self.inside == 0 => return Ok(None),
                Bson::String(pattern) => KeywordRule::Pattern(self.regex(pattern)?),
                _ => return self.wrong_type(keyword, "a string"),
            },
            "uniqueItems" => match value {
                Bson::Boolean(true) => KeywordRule::UniqueItems,
                Bson::Boolean(false) => return Ok(None),
                _ => return self.wrong_type(keyword, "a boolean"),
            },
            "additionalItems" => {
                self.rest(keyword, Some(value))?;
                return Ok(None);
            }
            "required" => KeywordRule::Required(self.names(keyword, value)?),
            "dependencies" => KeywordRule::AllOf(self.dependencies(value)?),
            "allOf" => KeywordRule::AllOf(self.schemas(keyword, value)?),
            "anyOf" => KeywordRule::AnyOf(self.schemas(keyword, value)?),
            "oneOf" => KeywordRule::OneOf(self.schemas(keyword, value)?),
            "not" => match value {
                Bson::Document(schema) => KeywordRule::Not(self.schema(schema)?),
                _ => return self.wrong_type(keyword, "an object"),
            },
            "encrypt" => {
                encrypt::check_encrypt(self, value)?;
                KeywordRule::Encrypted
            }
            "encryptMetadata" => {
                encrypt::check_metadata(self, value)?;
                return Ok(None);
            }
            "title" | "description" if !matches!(value, Bson::String(_)) => {
                return self.wrong_type(keyword, "a string");
            }
            _ => return Ok(None),
        }))
    }

    fn values(&self, value: &Bson) -> Read<Vec<Bson>> {
        match value {
            Bson::Array(values) if values.is_empty() => {
                self.fail("$jsonSchema keyword 'enum' cannot be an empty array")
            }
            Bson::Array(values) if !are_unique(values) => {
                self.fail("$jsonSchema keyword 'enum' array cannot contain duplicate values")
            }
            Bson::Array(values) => Ok(values.clone()),
            _ => self.wrong_type("enum", "an array"),
        }
    }

    fn bound(&self, keyword: &str, value: &Bson, schema: &Document) -> Read<KeywordRule> {
        if !is_number(value) {
            return self.wrong_type(keyword, "a number");
        }
        let is_maximum = keyword == "maximum";
        let exclusive = if is_maximum { "exclusiveMaximum" } else { "exclusiveMinimum" };
        let exclusive = match schema.get(exclusive) {
            None => false,
            Some(Bson::Boolean(truth)) => *truth,
            Some(_) => return self.wrong_type(exclusive, "a boolean"),
        };
        Ok(KeywordRule::Bound { bound: value.clone(), is_maximum, exclusive })
    }

    fn divisor(&self, value: &Bson) -> Read<Divisor> {
        if !is_number(value) {
            return self.wrong_type("multipleOf", "a number");
        }
        let Some(divisor) = Divisor::new(value) else {
            return self.fail("$jsonSchema keyword 'multipleOf' must have a positive value");
        };
        // As with a pattern, MongoDB ignores this rule for the whole document, which is no number.
        if self.inside > 0 && !divisor.is_finite() {
            return self.refuse(code::BAD_VALUE, "the divisor must be a finite number");
        }
        Ok(divisor)
    }

    /// A whole number that is not negative, as the lower or the upper limit.
    fn limits(&self, keyword: &str, value: &Bson) -> Read<SizeLimits> {
        if !is_number(value) {
            return self.fail(format!("expected a number in: {keyword}"));
        }
        let number = crate::query::compare::number(value.into()).and_then(crate::query::number::Number::as_exact_int);
        let Some(number) = number.and_then(|number| u64::try_from(number).ok()) else {
            return self.fail(format!("expected a whole number, not negative, in: {keyword}"));
        };
        let is_lower = keyword.starts_with("min");
        Ok(if is_lower { SizeLimits { least: number, most: u64::MAX } } else { SizeLimits { least: 0, most: number } })
    }

    fn regex(&self, pattern: &str) -> Read<Regex> {
        self.location.check_regex(pattern)?;
        Regex::new(pattern, "").or_else(|(code, message)| self.refuse(code, message))
    }

    fn items(&mut self, value: &Bson, additional: Option<&Bson>) -> Read<KeywordRule> {
        let schemas = match value {
            Bson::Document(schema) => {
                return self.within("items", |reader| reader.inner(schema)).map(KeywordRule::Items);
            }
            Bson::Array(schemas) => schemas,
            _ => return self.within("items", |reader| reader.wrong_type("items", "an array or an object")),
        };
        let by_place = self.within("items", |reader| {
            let read = |(place, schema): (usize, &Bson)| {
                reader.within(&place.to_string(), |reader| match schema {
                    Bson::Document(schema) => reader.inner(schema),
                    _ => reader.wrong_type("items", "an array of objects"),
                })
            };
            schemas.iter().enumerate().map(read).collect::<Read<Vec<_>>>()
        })?;
        let rest = self.within("additionalItems", |reader| reader.rest("additionalItems", additional))?;
        Ok(KeywordRule::ItemsByPlace(by_place, rest))
    }

    /// A schema for what is inside of a value.
    fn inner(&mut self, document: &Document) -> Read<Schema> {
        self.inside += 1;
        let schema = self.schema(document)?;
        self.inside -= 1;
        Ok(schema)
    }

    fn rest(&mut self, keyword: &str, value: Option<&Bson>) -> Read<OtherMembers> {
        match value {
            None | Some(Bson::Boolean(true)) => Ok(OtherMembers::Allowed),
            Some(Bson::Boolean(false)) => Ok(OtherMembers::Forbidden),
            Some(Bson::Document(schema)) => Ok(OtherMembers::Shape(Box::new(self.inner(schema)?))),
            Some(_) => self.wrong_type(keyword, "either an object or a boolean"),
        }
    }

    /// A list of names without repetition.
    fn names(&self, keyword: &str, value: &Bson) -> Read<Vec<String>> {
        let Bson::Array(elements) = value else {
            return self.wrong_type(keyword, "an array");
        };
        if elements.is_empty() {
            return self.fail(format!("$jsonSchema keyword '{keyword}' cannot be an empty array"));
        }
        let mut names: Vec<String> = Vec::with_capacity(elements.len());
        for element in elements {
            let Bson::String(name) = element else {
                return self.wrong_type(keyword, "an array of strings");
            };
            if names.contains(name) {
                return self.fail(format!("$jsonSchema keyword '{keyword}' array cannot contain duplicate values"));
            }
            names.push(name.clone());
        }
        Ok(names)
    }

    fn schemas(&mut self, keyword: &str, value: &Bson) -> Read<Vec<Schema>> {
        let Bson::Array(elements) = value else {
            return self.wrong_type(keyword, "an array");
        };
        if elements.is_empty() {
            return self.refuse(code::BAD_VALUE, format!("$jsonSchema keyword '{keyword}' must be a non-empty array"));
        }
        let mut schemas = Vec::with_capacity(elements.len());
        for (place, element) in elements.iter().enumerate() {
            let Bson::Document(schema) = element else {
                return self.wrong_type(keyword, "an array of objects");
            };
            schemas.push(self.within(&place.to_string(), |reader| reader.schema(schema))?);
        }
        Ok(schemas)
    }

    /// For each name a shape, or a list of names that are then required.
    fn dependencies(&mut self, value: &Bson) -> Read<Vec<Schema>> {
        let Bson::Document(dependencies) = value else {
            return self.wrong_type("dependencies", "an object");
        };
        let mut schemas = Vec::with_capacity(dependencies.len());
        for (name, dependency) in dependencies {
            let schema = self.within(name, |reader| match dependency {
                Bson::Document(schema) => reader.schema(schema),
                Bson::Array(_) => {
                    Ok(Schema { rules: vec![KeywordRule::Required(reader.names("dependencies", dependency)?)] })
                }
                _ => reader.wrong_type("dependencies", "an object of objects and arrays"),
            })?;
            schemas.push(Schema { rules: vec![KeywordRule::Dependency(name.clone(), schema)] });
        }
        Ok(schemas)
    }

    fn properties(&mut self, schema: &Document) -> Read<Option<KeywordRule>> {
        let mut named = Vec::new();
        for (name, schema) in self.members("properties", schema)? {
            named.push((name.clone(), self.member("properties", name, schema)?));
        }
        let mut patterns = Vec::new();
        for (pattern, schema) in self.members("patternProperties", schema)? {
            let schema = self.member("patternProperties", pattern, schema)?;
            let pattern = self.within("patternProperties", |reader| {
                reader.location.check_regex(pattern)?;
                Regex::new(&by_bytes(pattern.as_bytes()), "")
                    .or_else(|(_, message)| reader.refuse(code::BAD_VALUE, message))
            })?;
            patterns.push((pattern, schema));
        }
        let rest = self.within("additionalProperties", |reader| {
            reader.rest("additionalProperties", schema.get("additionalProperties"))
        })?;
        // MongoDB keeps rules without effect and evaluates them in turn, except an empty list of members of the whole
        // document.
        let says_more =
            ["patternProperties", "additionalProperties"].iter().any(|keyword| schema.contains_key(keyword));
        let nothing = named.is_empty() && !says_more && self.inside == 0;
        Ok((!nothing).then_some(KeywordRule::Properties(Properties { named, patterns, rest })))
    }

    fn members<'d>(&self, keyword: &str, schema: &'d Document) -> Read<Vec<(&'d String, &'d Bson)>> {
        match schema.get(keyword) {
            None => Ok(Vec::new()),
            Some(Bson::Document(members)) => Ok(members.iter().collect()),
            Some(_) => self.wrong_type(keyword, "an object"),
        }
    }

    fn member(&mut self, keyword: &str, name: &str, schema: &Bson) -> Read<Schema> {
        self.within(keyword, |reader| {
            reader.within(name, |reader| match schema {
                Bson::Document(schema) => reader.inner(schema),
                _ => reader.refuse(code::TYPE_MISMATCH, "the schema of a property must be an object"),
            })
        })
    }
}

fn is_number(value: &Bson) -> bool {
    matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_))
}
