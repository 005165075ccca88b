//! Makes filters: every operator of the find language, on places where there is something.

use bson::{Bson, Document, doc};

use super::generator::Generator;
use super::values::{numbers, texts};

const TYPE_NAMES: [&str; 23] = [
    "double", "string", "object", "array", "binData", "undefined", "objectId", "bool", "date", "null", "regex",
    "dbPointer", "javascript", "symbol", "javascriptWithScope", "int", "timestamp", "long", "decimal", "minKey",
    "maxKey", "number", "missing",
];

const PATTERNS: [&str; 40] = [
    "a", "^a", "b$", "^$", "", ".", "^ab?c*$", "[ab]", "[^a]", "a|b", "(a)(b)?", "\\d", "\\w+", "\\s", "^A", "(?i)A",
    "a{2,}", "a.b", "a\\.b", "\\Qa.b\\E", "^.$", "ä", "Ä", "[[:alpha:]]", "\\x61", "(?:a|b)+", "a+?", "^a.*b$",
    "\\bA\\b", "x*", "(?=a)", "(?<!a)b", "(a)\\1", "\\p{L}", "(", "[", "a{3,1}", "*", "\\", "(?<n>a)",
];

const OPTIONS: [&str; 9] = ["", "i", "m", "s", "x", "im", "ii", "u", "g"];

impl Generator<'_> {
    /// A filter.
    pub(super) fn filter(&mut self) -> Document {
        let depth = self.random.weighted(&[55, 30, 15]);
        let mut filter = self.conditions(depth);
        if self.random.percent(15) {
            filter.extend(self.conditions(0));
        }
        filter
    }

    /// A document of conditions where field names and logical operators are allowed.
    fn conditions(&mut self, depth: usize) -> Document {
        match self.random.weighted(&[68, if depth > 0 { 45 } else { 0 }, 14, 8, 2]) {
            1 => {
                let name = *self.random.pick(&["$and", "$or", "$or", "$nor"]);
                let parts: Vec<Document> = (0..=self.random.below(3)).map(|_| self.conditions(depth - 1)).collect();
                doc! { name: parts }
            }
            2 => doc! { "$expr": self.truth(2) },
            3 => doc! { "$jsonSchema": self.schema(2) },
            4 => match self.random.below(4) {
                0 => doc! { "$comment": "x" },
                1 => doc! { "$alwaysTrue": 1 },
                2 => doc! { "$alwaysFalse": 1 },
                _ => Document::new(),
            },
            _ => {
                let (path, found) = self.place();
                let test = self.test(&found, 2);
                doc! { path: test }
            }
        }
    }

    /// The condition on one field: a value, or a document of operators.
    fn test(&mut self, found: &Bson, depth: usize) -> Bson {
        if self.random.percent(12) {
            return self.operand_like(found);
        }
        if self.random.percent(4) {
            return self.regular_expression(found);
        }
        let mut operators = Document::new();
        for _ in 0..self.random.weighted(&[0, 75, 20, 5]) {
            self.operator(found, depth, &mut operators);
        }
        Bson::Document(operators)
    }

    fn operator(&mut self, found: &Bson, depth: usize, into: &mut Document) {
        let choice = self.random.weighted(&[10, 26, 12, 6, 6, 6, 7, 5, 6, 14, 7, 6]);
        match choice {
            0 => {
                let value = self.operand_like(found);
                into.insert(*self.random.pick(&["$eq", "$ne"]), value);
            }
            1 => {
                let value = self.operand_like(found);
                into.insert(*self.random.pick(&["$gt", "$gte", "$lt", "$lte"]), value);
            }
            2 => {
                let mut values: Vec<Bson> = (0..self.random.below(4)).map(|_| self.operand_like(found)).collect();
                if self.random.percent(10) {
                    values.push(self.regular_expression(found));
                }
                into.insert(*self.random.pick(&["$in", "$in", "$nin"]), values);
            }
            3 => {
                let inner = if depth > 0 && self.random.percent(85) {
                    let mut inner = Document::new();
                    self.operator(found, depth - 1, &mut inner);
                    Bson::Document(inner)
                } else {
                    self.regular_expression(found)
                };
                into.insert("$not", inner);
            }
            4 => {
                let value = match self.random.below(8) {
                    0 => Bson::Int32(0),
                    1 => Bson::Null,
                    2 => Bson::from("x"),
                    3 => self.operand_like(found),
                    other => Bson::Boolean(other % 2 == 0),
                };
                into.insert("$exists", value);
            }
            5 => {
                let value = self.type_names(found);
                into.insert("$type", value);
            }
            6 => {
                let value = match (found, self.random.below(3)) {
                    (Bson::Array(items), 0..=1) => Bson::Int32(i32::try_from(items.len()).unwrap_or(0)),
                    (_, 2) => self.random.pick(numbers()).clone(),
                    _ => Bson::Int32(self.random.between(0, 3)),
                };
                into.insert("$size", value);
            }
            7 => {
                let number = |generator: &mut Self| {
                    if generator.random.percent(70) {
                        Bson::Int32(generator.random.between(-2, 4))
                    } else {
                        generator.random.pick(numbers()).clone()
                    }
                };
                let numbers: Vec<Bson> =
                    (0..if self.random.percent(95) { 2 } else { 3 }).map(|_| number(self)).collect();
                into.insert("$mod", numbers);
            }
            8 => {
                let count = self.random.below(3);
                let values: Vec<Bson> = if depth > 0 && self.random.percent(25) {
                    (0..=count).map(|_| doc! { "$elemMatch": self.elem_match(found, depth - 1) }.into()).collect()
                } else {
                    (0..count).map(|_| self.operand_like(found)).collect()
                };
                into.insert("$all", values);
            }
            9 if depth > 0 => {
                let inner = self.elem_match(found, depth - 1);
                into.insert("$elemMatch", inner);
            }
            10 => {
                let pattern = self.pattern(found);
                into.insert("$regex", pattern);
                if self.random.percent(30) {
                    into.insert("$options", *self.random.pick(&OPTIONS));
                }
            }
            _ => {
                let mask = self.mask(found);
                into.insert(*self.random.pick(&["$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"]), mask);
            }
        }
    }

    /// Conditions on one element of what was found.
    pub(super) fn elem_match(&mut self, found: &Bson, depth: usize) -> Document {
        let element = match found {
            Bson::Array(items) if !items.is_empty() => self.random.pick(items).clone(),
            other => other.clone(),
        };
        match &element {
            Bson::Document(document) if !document.is_empty() && self.random.percent(75) => {
                let members: Vec<(String, Bson)> =
                    document.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let mut conditions = Document::new();
                for _ in 0..=self.random.below(2) {
                    let (name, value) = self.random.pick(&members).clone();
                    let (name, value) = self.further(name, value);
                    let test = self.test(&value, depth);
                    conditions.insert(name, test);
                }
                if self.random.percent(10) {
                    conditions = doc! { *self.random.pick(&["$and", "$or", "$nor"]): [conditions] };
                }
                conditions
            }
            _ if self.random.percent(10) => {
                let (path, value) = self.place();
                doc! { path: self.test(&value, depth) }
            }
            _ => {
                let mut operators = Document::new();
                for _ in 0..self.random.weighted(&[3, 60, 37]) {
                    self.operator(&element, depth, &mut operators);
                }
                operators
            }
        }
    }

    /// The path, or one that leads on into what is there.
    fn further(&mut self, path: String, found: Bson) -> (String, Bson) {
        let inner = match &found {
            Bson::Document(inner) => Some(inner),
            Bson::Array(items) => items.iter().find_map(Bson::as_document),
            _ => None,
        };
        let inner: Vec<(&String, &Bson)> = inner.into_iter().flatten().collect();
        if inner.is_empty() || self.random.percent(50) {
            return (path, found);
        }
        let (name, value) = *self.random.pick(&inner);
        (format!("{path}.{name}"), value.clone())
    }

    fn type_names(&mut self, found: &Bson) -> Bson {
        let one = |generator: &mut Self| match generator.random.below(10) {
            0 => Bson::Int32(generator.random.between(-2, 20)),
            1 => Bson::Double(2.0),
            2..=4 => Bson::Int32(i32::from((found.element_type() as u8).cast_signed())),
            _ => generator.random.word(&TYPE_NAMES),
        };
        if self.random.percent(70) {
            one(self)
        } else {
            Bson::Array((0..self.random.below(4)).map(|_| one(self)).collect())
        }
    }

    fn mask(&mut self, found: &Bson) -> Bson {
        match (found, self.random.below(5)) {
            (Bson::Int32(_) | Bson::Int64(_) | Bson::Binary(_), 0..=1) => found.clone(),
            (_, 0..=1) => Bson::Int32(self.random.between(-1, 12)),
            (_, 2) => {
                let positions = [0, 1, 2, 3, 7, 8, 31, 32, 62, 63, 64, 200, -1];
                Bson::Array((0..self.random.below(4)).map(|_| Bson::Int32(*self.random.pick(&positions))).collect())
            }
            (_, 3) => self.random.pick(numbers()).clone(),
            _ => self.operand_like(found),
        }
    }

    /// A pattern that may fit the text that was found.
    pub(super) fn pattern(&mut self, found: &Bson) -> Bson {
        match (found, self.random.below(8)) {
            (Bson::String(text), 0..=3) => {
                let some: String = text.chars().filter(|c| *c != '\0').take(1 + self.random.below(3)).collect();
                let begin = if self.random.percent(50) { "^" } else { "" };
                Bson::String(format!("{begin}{some}"))
            }
            (_, 4) => self.regular_expression(found),
            (_, 5) => self.random.pick(texts()).clone(),
            _ => self.random.word(&PATTERNS),
        }
    }

    fn regular_expression(&mut self, found: &Bson) -> Bson {
        let pattern = match found {
            Bson::String(text) if self.random.percent(50) => text.chars().take(2).collect(),
            _ => (*self.random.pick(&PATTERNS)).to_owned(),
        };
        let options = *self.random.pick(&["", "", "", "i", "m", "s", "x", "is"]);
        // A zero byte cannot be in one.
        let pattern = pattern.replace('\0', "");
        let text = |text: &str| bson::raw::CString::try_from(text.to_owned()).expect("no zero byte");
        Bson::RegularExpression(bson::Regex { pattern: text(&pattern), options: text(options) })
    }
}
