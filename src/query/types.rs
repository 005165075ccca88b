//! The type names and numbers of `$type`.

use bson::Bson;

use super::compare::number;
use super::raw::kind;

/// A set of BSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeSet {
    bits: u32,
}

/// Name and type byte. `number` is missing, because it means four types.
pub(super) const NAMES: [(&str, u8); 21] = [
    ("double", kind::DOUBLE),
    ("string", kind::STRING),
    ("object", kind::DOCUMENT),
    ("array", kind::ARRAY),
    ("binData", kind::BINARY),
    ("undefined", kind::UNDEFINED),
    ("objectId", kind::OBJECT_ID),
    ("bool", kind::BOOL),
    ("date", kind::DATE),
    ("null", kind::NULL),
    ("regex", kind::REGEX),
    ("dbPointer", kind::DB_POINTER),
    ("javascript", kind::CODE),
    ("symbol", kind::SYMBOL),
    ("javascriptWithScope", kind::CODE_WITH_SCOPE),
    ("int", kind::INT32),
    ("timestamp", kind::TIMESTAMP),
    ("long", kind::INT64),
    ("decimal", kind::DECIMAL),
    ("minKey", kind::MIN_KEY),
    ("maxKey", kind::MAX_KEY),
];

impl TypeSet {
    /// The four numeric types.
    pub const NUMBER: Self =
        Self { bits: 1 << kind::DOUBLE | 1 << kind::INT32 | 1 << kind::INT64 | 1 << kind::DECIMAL };

    /// The set with one type more.
    #[must_use]
    pub fn with(self, kind: u8) -> Self {
        Self { bits: self.bits | 1 << place(kind) }
    }

    /// The types of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits }
    }

    /// Whether the type is in the set.
    #[inline]
    pub fn contains(self, kind: u8) -> bool {
        self.bits & (1 << place(kind)) != 0
    }

    /// The types of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        if name == "number" {
            return Some(Self::NUMBER);
        }
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| Self::default().with(*kind))
    }

    /// The type of a number: whole, and one of the type numbers (-1 is `minKey`, 127 `maxKey`).
    pub fn of_number(value: &Bson) -> Option<Self> {
        let wanted = number(value.into())?.as_exact_int()?;
        let byte = if wanted == -1 { kind::MIN_KEY } else { u8::try_from(wanted).ok()? };
        if byte == kind::MIN_KEY && wanted != -1 {
            return None;
        }
        NAMES.iter().find(|(_, kind)| *kind == byte).map(|(_, kind)| Self::default().with(*kind))
    }
}

/// Bits 30 and 31 hold the two types whose numbers are far from the others.
fn place(kind: u8) -> u32 {
    match kind {
        kind::MIN_KEY => 31,
        kind::MAX_KEY => 30,
        kind => u32::from(kind & 0x1F),
    }
}
