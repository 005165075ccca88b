//! Bounds of the keys of the documents that pass a test of a path.
//!
//! Law: a document that passes the test has at least one key within the bounds, whatever arrays it has. Negative bounds
//! ("all but") hold only for a document with a single key. Bounds may be too wide, because the filter checks the
//! documents again. They are *exact* when a document with a single key passes if and only if the key is within them.
//! Then counting keys is counting documents.

use bson::Bson;

use crate::query::{InSet, Operand, Regex, Test};
use crate::store::embedded::index::key::{self, kind};

/// Keys from `start` to below `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    /// Holds the key of one value alone.
    pub(crate) point: bool,
}

impl Span {
    fn between(start: Vec<u8>, end: Vec<u8>) -> Self {
        Self { start, end, point: false }
    }

    fn point(key: Vec<u8>) -> Self {
        Self { end: after(&key), start: key, point: true }
    }

    /// All keys of a type.
    fn of_kind(kind: u8) -> Self {
        Self::between(vec![kind], vec![kind + 1])
    }

    fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// The same keys in an index that holds them inverted.
    pub(crate) fn inverted(&self) -> Self {
        let turn = |bytes: &[u8]| {
            let mut turned = bytes.to_vec();
            key::invert(&mut turned);
            turned
        };
        if self.point {
            return Self::point(turn(&self.start));
        }
        Self::between(after(&turn(&self.end)), after(&turn(&self.start)))
    }
}

/// Disjoint spans in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyBounds {
    pub(crate) spans: Vec<Span>,
    pub(crate) exact: bool,
    /// All keys but some: correct only for documents with a single key.
    pub(crate) negative: bool,
}

impl KeyBounds {
    /// The bounds of a test; `None` when it does not bound keys.
    pub(crate) fn of_test(test: &Test) -> Option<Self> {
        match test {
            Test::Eq(operand) => equal(operand),
            Test::Gt(operand) => compared(operand, |key, kind| Span::between(after(key), vec![kind + 1]), false),
            Test::Gte(operand) => compared(operand, |key, kind| Span::between(key.to_vec(), vec![kind + 1]), true),
            Test::Lt(operand) => compared(operand, |key, kind| Span::between(lowest(kind), key.to_vec()), false),
            Test::Lte(operand) => compared(operand, |key, kind| Span::between(lowest(kind), after(key)), true),
            Test::In(set) => one_of(set),
            Test::Regex(regex) => Some(matching(regex)),
            Test::Not(test) => Self::of_test(test)?.others(),
            _ => None,
        }
    }

    fn of(spans: Vec<Span>, exact: bool) -> Self {
        let mut spans: Vec<Span> = spans.into_iter().filter(|span| !span.is_empty()).collect();
        spans.sort_by(|left, right| left.start.cmp(&right.start).then(left.end.cmp(&right.end)));
        let mut disjoint: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match disjoint.last_mut() {
                Some(last) if span.start < last.end => {
                    if span.end > last.end {
                        last.end = span.end;
                        last.point = false;
                    }
                }
                _ => disjoint.push(span),
            }
        }
        Self { spans: disjoint, exact, negative: false }
    }

    /// The keys outside of the bounds; `None`, when the bounds may be too wide.
    fn others(&self) -> Option<Self> {
        if !self.exact {
            return None;
        }
        let starts = std::iter::once(Vec::new()).chain(self.spans.iter().map(|span| span.end.clone()));
        let ends = self.spans.iter().map(|span| span.start.clone()).chain(std::iter::once(vec![kind::ABOVE_ALL]));
        let between = starts.zip(ends).map(|(start, end)| Span::between(start, end)).collect();
        Some(Self { negative: true, ..Self::of(between, true) })
    }

    /// What is within both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut common = Vec::new();
        for left in &self.spans {
            for right in other.spans.iter().filter(|right| right.start < left.end && left.start < right.end) {
                common.push(Span {
                    start: left.start.clone().max(right.start.clone()),
                    end: left.end.clone().min(right.end.clone()),
                    point: left.point || right.point,
                });
            }
        }
        Self::of(common, self.exact && other.exact)
    }

    /// Whether each span holds a single value.
    pub(crate) fn is_points(&self) -> bool {
        self.spans.iter().all(|span| span.point)
    }
}

/// The first bytes above everything that begins with `key`.
fn after(key: &[u8]) -> Vec<u8> {
    key::successor(key).unwrap_or_else(|| vec![kind::ABOVE_ALL])
}

/// The beginning of the comparable values of a type; NaN is not comparable.
fn lowest(kind: u8) -> Vec<u8> {
    if kind == kind::NUMBER { after(&nan()) } else { vec![kind] }
}

fn nan() -> Vec<u8> {
    key::of_bson(&Bson::Double(f64::NAN)).expect("a number has a key")
}

fn equal(operand: &Operand) -> Option<KeyBounds> {
    Some(match operand.bson() {
        Bson::Undefined => return None,
        // A missing value has the key of null; null and missing also equal undefined.
        Bson::Null => KeyBounds::of(vec![Span::between(vec![kind::UNDEFINED], vec![kind::NULL + 1])], true),
        // Either the whole array is an element of an array, or its first element is one.
        Bson::Array(items) => {
            let first = items.first().unwrap_or(&Bson::Undefined);
            let spans = vec![Span::point(key::of_bson(operand.bson())?), Span::point(key::of_bson(first)?)];
            KeyBounds::of(spans, false)
        }
        Bson::MinKey | Bson::MaxKey | Bson::RegularExpression(_) => {
            KeyBounds::of(vec![Span::point(key::of_bson(operand.bson())?)], false)
        }
        value => KeyBounds::of(vec![Span::point(key::of_bson(value)?)], true),
    })
}

/// The bounds of `$gt`, `$gte`, `$lt`, `$lte`, which stay within the type of their operand.
fn compared(operand: &Operand, span: impl Fn(&[u8], u8) -> Span, or_equal: bool) -> Option<KeyBounds> {
    match operand.bson() {
        // These two compare with every type, an array also as a whole.
        Bson::MinKey | Bson::MaxKey | Bson::Array(_) | Bson::Undefined | Bson::RegularExpression(_) => None,
        Bson::Null if or_equal => equal(operand),
        Bson::Null => Some(KeyBounds::of(Vec::new(), true)),
        _ if operand.is_nan() && or_equal => equal(operand),
        _ if operand.is_nan() => Some(KeyBounds::of(Vec::new(), true)),
        value => {
            let key = key::of_bson(value)?;
            Some(KeyBounds::of(vec![span(&key, key[0])], true))
        }
    }
}

fn one_of(set: &InSet) -> Option<KeyBounds> {
    let mut spans = Vec::with_capacity(set.values().len());
    let mut exact = true;
    let values = set.values().iter().map(equal);
    let regexes = set.regexes().iter().map(|regex| Some(matching(regex)));
    for bounds in values.chain(regexes) {
        let bounds = bounds?;
        exact &= bounds.exact;
        spans.extend(bounds.spans);
    }
    Some(KeyBounds::of(spans, exact))
}

/// Texts that may match, and stored regular expressions, which equal themselves.
fn matching(regex: &Regex) -> KeyBounds {
    let prefix = regex.prefix();
    let mut start = vec![kind::STRING];
    start.extend_from_slice(prefix.as_bytes());
    KeyBounds::of(vec![Span::between(start.clone(), after(&start)), Span::of_kind(kind::REGEX)], false)
}
