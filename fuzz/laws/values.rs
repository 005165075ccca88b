//! Any bytes as BSON values: all types, and near each other, where order is easily lost.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp};
use inventory_service::json::read::value_from_str;

/// How deep the values nest.
const MAX_DEPTH: usize = 5;

/// Bytes that are read as values, front to back; past the end there are zeros.
pub struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    /// Values of these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next value.
    pub fn value(&mut self) -> Bson {
        self.nested(0)
    }

    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn many(&mut self) -> Vec<u8> {
        let count = self.byte() % 8;
        (0..count).map(|_| self.byte()).collect()
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.many()).into_owned()
    }

    /// A text that is long enough for a key to be cut, at about the place where it is.
    fn long_text(&mut self) -> String {
        let (start, unit, end) = (self.text(), self.text(), self.text());
        let length = 1000 + usize::from(self.byte()) % 64;
        let repeated = if unit.is_empty() { "x".repeat(length) } else { unit.repeat(length.div_ceil(unit.len())) };
        format!("{start}{repeated}{end}")
    }

    /// A text where BSON has no place for zero bytes.
    fn name(&mut self) -> String {
        self.text().replace('\0', "")
    }

    fn document(&mut self, depth: usize) -> Document {
        let count = self.byte() % 4;
        (0..count).map(|_| (self.name(), self.nested(depth + 1))).collect()
    }

    fn decimal(&mut self) -> Decimal128 {
        let (coefficient, exponent) = (i64::from_le_bytes(self.bytes()), i8::from_le_bytes(self.bytes()));
        format!("{coefficient}E{exponent}").parse().expect("19 digits and a small exponent are a decimal")
    }

    fn nested(&mut self, depth: usize) -> Bson {
        match self.byte() % 32 {
            0 => Bson::Double(f64::from_le_bytes(self.bytes())),
            1 => Bson::Double(f64::from(i32::from_le_bytes(self.bytes()))),
            2 => Bson::Double(f64::from(i8::from_le_bytes(self.bytes())) / 10.0),
            3 => Bson::Int32(i32::from_le_bytes(self.bytes())),
            4 => Bson::Int32(i8::from_le_bytes(self.bytes()).into()),
            5 => Bson::Int64(i64::from_le_bytes(self.bytes())),
            6 => Bson::Int64(i8::from_le_bytes(self.bytes()).into()),
            7 => Bson::Decimal128(Decimal128::from_bytes(self.bytes())),
            8 => Bson::Decimal128(self.decimal()),
            9 => Bson::Decimal128(self.numeral().parse().expect("a double in digits is a decimal")),
            10 => Bson::String(self.text()),
            11 => Bson::String(self.long_text()),
            12 => Bson::Symbol(self.text()),
            13 => Bson::JavaScriptCode(self.text()),
            14 if depth < MAX_DEPTH => Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                code: self.text(),
                scope: self.document(depth),
            }),
            15..=17 if depth < MAX_DEPTH => Bson::Document(self.document(depth)),
            18..=20 if depth < MAX_DEPTH => {
                let count = self.byte() % 4;
                Bson::Array((0..count).map(|_| self.nested(depth + 1)).collect())
            }
            21 => Bson::Binary(Binary { subtype: BinarySubtype::from(self.byte()), bytes: self.many() }),
            22 => Bson::ObjectId(ObjectId::from_bytes(self.bytes())),
            23 => Bson::Boolean(self.byte() % 2 == 1),
            24 => Bson::DateTime(DateTime::from_millis(i64::from_le_bytes(self.bytes()))),
            25 => Bson::Timestamp(Timestamp {
                time: u32::from_le_bytes(self.bytes()),
                increment: u32::from_le_bytes(self.bytes()),
            }),
            26 => self.regex(),
            27 => self.pointer(),
            28 => Bson::Undefined,
            29 => Bson::MinKey,
            30 => Bson::MaxKey,
            _ => Bson::Null,
        }
    }

    /// A double with all its digits, as far as 34 suffice.
    fn numeral(&mut self) -> String {
        let number = f64::from_le_bytes(self.bytes());
        if number.is_finite() { format!("{number:e}").to_uppercase() } else { "NaN".to_owned() }
    }

    fn regex(&mut self) -> Bson {
        let (pattern, options) = (self.name(), self.name());
        Bson::RegularExpression(Regex {
            pattern: pattern.try_into().expect("no zero byte"),
            options: options.try_into().expect("no zero byte"),
        })
    }

    /// Only a reader can make one.
    fn pointer(&mut self) -> Bson {
        let id = ObjectId::from_bytes(self.bytes());
        let name = serde_json::Value::from(self.name());
        value_from_str(&format!(r#"{{"$dbPointer": {{"$ref": {name}, "$id": {{"$oid": "{id}"}}}}}}"#))
            .expect("a pointer")
    }
}
