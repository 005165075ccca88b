//! Makes `$jsonSchema` operands.

use bson::{Bson, Document, doc};

use super::generator::Generator;
use super::values::numbers;

const KEYWORDS: [&str; 32] = [
    "type", "bsonType", "bsonType", "properties", "properties", "required", "minimum", "maximum", "multipleOf",
    "minLength", "maxLength", "pattern", "enum", "items", "items", "minItems", "maxItems", "uniqueItems",
    "additionalProperties", "patternProperties", "minProperties", "maxProperties", "dependencies", "allOf", "anyOf",
    "oneOf", "not", "title", "description", "additionalItems", "exclusiveMinimum", "format",
];

const JSON_TYPES: [&str; 8] = ["object", "array", "number", "boolean", "string", "null", "integer", "text"];

const BSON_TYPES: [&str; 17] = [
    "double", "string", "object", "array", "binData", "objectId", "bool", "date", "null", "regex", "int", "timestamp",
    "long", "decimal", "number", "minKey", "undefined",
];

impl Generator<'_> {
    /// A schema of a whole document.
    pub(super) fn schema(&mut self, depth: usize) -> Document {
        let (path, found) = self.place();
        let name = path.split('.').next().unwrap_or_default().to_owned();
        let found = if path.contains('.') { Bson::Null } else { found };
        let mut schema = Document::new();
        if self.random.percent(70) {
            schema.insert("properties", doc! { name: self.schema_of(&found, depth) });
        }
        if schema.is_empty() || self.random.percent(30) {
            self.keyword(&Bson::Document(Document::new()), depth, &mut schema);
        }
        schema
    }

    /// A schema that a value may fit.
    fn schema_of(&mut self, found: &Bson, depth: usize) -> Document {
        let mut schema = Document::new();
        for _ in 0..=self.random.below(2) {
            self.keyword(found, depth, &mut schema);
        }
        schema
    }

    fn schemas(&mut self, found: &Bson, depth: usize) -> Bson {
        if depth == 0 {
            return Bson::Array(vec![Bson::Document(Document::new())]);
        }
        let count = 1 + self.random.below(2);
        Bson::Array((0..count).map(|_| Bson::Document(self.schema_of(found, depth - 1))).collect())
    }

    fn below(&mut self, found: &Bson, depth: usize) -> Document {
        if depth == 0 { Document::new() } else { self.schema_of(found, depth - 1) }
    }

    fn keyword(&mut self, found: &Bson, depth: usize, into: &mut Document) {
        let keyword = *self.random.pick(&KEYWORDS);
        let members: Vec<(String, Bson)> = match found {
            Bson::Document(document) if !document.is_empty() => {
                document.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
            }
            _ => ["a", "x", "t"].map(|name| (name.to_owned(), found.clone())).to_vec(),
        };
        let element = match found {
            Bson::Array(items) if !items.is_empty() => self.random.pick(items).clone(),
            other => other.clone(),
        };
        let count = Bson::Int32(self.random.between(0, 3));
        let (name, member) = self.random.pick(&members).clone();
        let value = match keyword {
            "type" => self.random.word(&JSON_TYPES),
            "bsonType" if self.random.percent(20) => {
                Bson::Array(vec![self.random.word(&BSON_TYPES), self.random.word(&BSON_TYPES)])
            }
            "bsonType" => self.random.word(&BSON_TYPES),
            "properties" => doc! { name: self.below(&member, depth) }.into(),
            "required" => {
                let mut names = vec![Bson::String(name)];
                if self.random.percent(30) {
                    names.push(self.random.word(&["a", "y", "n", "name", "z"]));
                }
                Bson::Array(names)
            }
            "minimum" | "maximum" | "multipleOf" => match found {
                Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) if self.random.percent(50) => {
                    found.clone()
                }
                _ => self.random.pick(numbers()).clone(),
            },
            "exclusiveMinimum" => {
                into.insert("minimum", found.clone());
                Bson::Boolean(self.random.percent(80))
            }
            "pattern" => self.pattern(found),
            "enum" => Bson::Array((0..=self.random.below(3)).map(|_| self.operand_like(found)).collect()),
            "items" if self.random.percent(40) => self.schemas(&element, depth),
            "items" => self.below(&element, depth).into(),
            "uniqueItems" => Bson::Boolean(self.random.percent(90)),
            "additionalProperties" | "additionalItems" if self.random.percent(50) => {
                Bson::Boolean(self.random.percent(30))
            }
            "additionalProperties" | "additionalItems" => self.below(&member, depth).into(),
            "patternProperties" => {
                let pattern = *self.random.pick(&["^x", "a", "", "[xy]", "^.$", "(", "name|value"]);
                doc! { pattern: self.below(&member, depth) }.into()
            }
            "dependencies" if self.random.percent(50) => doc! { name: ["x"] }.into(),
            "dependencies" => doc! { name: self.below(found, depth) }.into(),
            "allOf" | "anyOf" | "oneOf" => self.schemas(found, depth),
            "not" => self.below(found, depth).into(),
            "title" | "description" => Bson::from("x"),
            _ => count,
        };
        into.insert(keyword, value);
    }
}
