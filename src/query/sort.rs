//! Sort orders: what the documents are ordered by, and the key that a document has in an order.

use std::cmp::Ordering;

use bson::raw::RawDocument;
use bson::{Bson, Document};

use super::compare::{compare_views, number};
use super::error::{EvalError, Location, QueryError};
use super::number::Number;
use super::path::{Leaf, Path};
use super::raw::{Elements, Owned, Value, View, kind, member};

/// What documents are ordered by: the first key first. No keys: insertion order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sort {
    keys: Vec<SortKey>,
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortKey {
    /// What a path leads to; of an array its lowest element, descending its highest.
    Path {
        /// The path.
        path: Path,
        /// Highest first.
        descending: bool,
    },
    /// The `value` of the first element of an array whose `name` is the given one.
    Entry {
        /// The member that holds the array.
        array: Path,
        /// The name looked for.
        name: String,
        /// Highest first.
        descending: bool,
    },
}

impl SortKey {
    /// Whether the highest value comes first.
    pub fn descending(&self) -> bool {
        match self {
            Self::Path { descending, .. } | Self::Entry { descending, .. } => *descending,
        }
    }
}

/// What a document is ordered by, one value a key. Compare two with [`Sort::compare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortValue {
    values: Box<[Owned]>,
}

impl SortValue {
    /// How much memory it takes, roughly.
    pub fn size(&self) -> usize {
        self.values.iter().map(|value| 40 + value.value().bytes.len()).sum()
    }
}

impl Sort {
    /// Parses MongoDB's sort document.
    ///
    /// # Errors
    /// What MongoDB refuses as a direction or as a path.
    pub fn parse(document: &Document) -> Result<Self, QueryError> {
        let mut at = Location::new("sort");
        let mut keys = Vec::with_capacity(document.len());
        for (name, direction) in document {
            at.enter(name.clone());
            let descending = direction_of(&at, direction)?;
            keys.push(SortKey::Path { path: Path::new(name), descending });
            at.leave();
        }
        Ok(Self { keys })
    }

    /// By the value of a path.
    pub fn by(path: &str, descending: bool) -> Self {
        Self::default().then(path, descending)
    }

    /// The same order; documents that are equal in it are ordered by the value of another path.
    #[must_use]
    pub fn then(mut self, path: &str, descending: bool) -> Self {
        self.keys.push(SortKey::Path { path: Path::new(path), descending });
        self
    }

    /// By the `value` of the first element of `array` whose `name` is `name`; none: as a missing value.
    pub fn by_entry(array: &str, name: &str, descending: bool) -> Self {
        Self::default().then_entry(array, name, descending)
    }

    /// The same order; documents that are equal in it are ordered by an entry, see [`Sort::by_entry`].
    #[must_use]
    pub fn then_entry(mut self, array: &str, name: &str, descending: bool) -> Self {
        self.keys.push(SortKey::Entry { array: Path::new(array), name: name.to_owned(), descending });
        self
    }

    /// The keys, the first one first.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// What the document is ordered by.
    ///
    /// # Errors
    /// When two paths of the order lead through different arrays of the document.
    pub fn key_of(&self, document: &RawDocument) -> Result<SortValue, EvalError> {
        let values = self.keys.iter().map(|key| value_of(key, document)).collect();
        Ok(SortValue { values })
    }

    /// Which of two documents with these keys comes first.
    pub fn compare(&self, left: &SortValue, right: &SortValue) -> Ordering {
        self.keys
            .iter()
            .zip(left.values.iter().zip(&right.values))
            .map(|(key, (left, right))| {
                let order = compare_views(left.value().view(), right.value().view());
                if key.descending() { order.reverse() } else { order }
            })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

fn direction_of(at: &Location, direction: &Bson) -> Result<bool, QueryError> {
    let Some(direction) = number(direction.into()).and_then(Number::truncated) else {
        return Err(at.malformed(15974, "a direction is 1 (ascending) or -1 (descending)"));
    };
    match direction {
        1 => Ok(false),
        -1 => Ok(true),
        _ => Err(at.malformed(15975, "a direction is 1 (ascending) or -1 (descending)")),
    }
}

/// A missing value is ordered as `null`.
const MISSING: Value<'static> = Value { kind: kind::NULL, bytes: &[] };

/// An empty array is ordered as `undefined`.
const EMPTY: Value<'static> = Value { kind: kind::UNDEFINED, bytes: &[] };

fn value_of(key: &SortKey, document: &RawDocument) -> Owned {
    let value = match key {
        SortKey::Path { path, descending } => extreme(path, document, *descending),
        SortKey::Entry { array, name, .. } => entry(array, name, document),
    };
    Owned::copy(value)
}

fn extreme<'a>(path: &Path, document: &'a RawDocument, descending: bool) -> Value<'a> {
    let mut best: Option<Value<'a>> = None;
    let mut consider = |value: Value<'a>| {
        let better = best.is_none_or(|best| {
            let order = compare_views(value.view(), best.view());
            if descending { order.is_gt() } else { order.is_lt() }
        });
        if better {
            best = Some(value);
        }
    };
    path.any(document, Leaf::Whole, &mut |value, _| {
        match value {
            Some(value) if value.is_array() => {
                let mut empty = true;
                for element in Elements::of(value.bytes) {
                    empty = false;
                    consider(element.value);
                }
                if empty {
                    consider(EMPTY);
                }
            }
            value => consider(value.unwrap_or(MISSING)),
        }
        false
    });
    best.unwrap_or(MISSING)
}

fn entry<'a>(array: &Path, name: &str, document: &'a RawDocument) -> Value<'a> {
    let mut found = MISSING;
    array.any(document, Leaf::Whole, &mut |value, _| {
        let entry = value.filter(|value| value.is_array()).and_then(|array| {
            Elements::of(array.bytes).find(|element| {
                element.value.is_document()
                    && member(element.value.bytes, b"name\0")
                        .is_some_and(|value| matches!(value.view(), View::Text(text) if text == name.as_bytes()))
            })
        });
        if let Some(value) = entry.and_then(|entry| member(entry.value.bytes, b"value\0")) {
            found = value;
        }
        entry.is_some()
    });
    found
}
