//! The keys that a document has in an index.
//!
//! An array on a path gives one key for each of its elements (MongoDB: multikey). An empty array at the end of a path
//! counts as undefined, a missing member as null. The paths of one index may lead through the same array. Then each
//! element gives one key of all its members together. Two different arrays in one document are refused, because the
//! index would need their product.

use bson::raw::{RawArray, RawBsonRef, RawDocument};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::Index;
use crate::store::embedded::failure;
use crate::store::embedded::index::key::{self, BoundedKey};

/// MongoDB's number for two arrays in the keys of one document.
const CANNOT_INDEX_PARALLEL_ARRAYS: i32 = 171;

/// The keys of one document in one index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Ascending, each once.
    pub(crate) distinct: Vec<Vec<u8>>,
    /// By component: where arrays were met, as in [`Component::arrays`](crate::store::embedded::catalog::collections::Component::arrays).
    pub(crate) arrays: Vec<u64>,
    /// By component: where documents were met, as in [`Component::documents`](crate::store::embedded::catalog::collections::Component::documents).
    pub(crate) documents: Vec<u64>,
    /// Whether a key had to be cut.
    pub(crate) cut: bool,
}

/// The keys of a document; none if a partial index excludes it.
///
/// # Errors
/// [`StoreError::Query`] for two arrays, [`StoreError::Corrupt`] for bytes that are not BSON.
pub(crate) fn keys_of(index: &Index, document: &RawDocument) -> Result<Keys, StoreError> {
    if let Some(partial) = &index.partial
        && !partial.filter.matches(document).map_err(failure::of_evaluation)?
    {
        return Ok(Keys::without_any(index));
    }
    let mut keys = Keys::without_any(index);
    let slots: Vec<PathWalk<'_>> =
        index.components.iter().map(|part| PathWalk::Open { at: document, rest: &part.path, depth: 0 }).collect();
    Extraction { index, keys: &mut keys, key: BoundedKey::keys_of(index.unique) }.expand(slots, 0)?;
    keys.distinct.sort_unstable();
    keys.distinct.dedup();
    Ok(keys)
}

impl Keys {
    fn without_any(index: &Index) -> Self {
        let nowhere = || vec![0; index.components.len()];
        Self { arrays: nowhere(), documents: nowhere(), ..Self::default() }
    }
}

/// The state of the walk along one path.
#[derive(Clone, Copy)]
enum PathWalk<'a> {
    /// The value is found; `None`: the path leads nowhere.
    Found(Option<RawBsonRef<'a>>),
    /// `rest` remains to be walked from `at`, after `depth` names of the path.
    Open { at: &'a RawDocument, rest: &'a str, depth: u32 },
    /// The walk met an array; with an empty `rest` it is at the end of the path.
    Array { array: &'a RawArray, rest: &'a str, depth: u32 },
}

impl<'a> PathWalk<'a> {
    /// Walks until it meets a value or an array. `documents` notes the documents on the way.
    fn walk(self, documents: &mut u64) -> Result<Self, bson::error::Error> {
        let Self::Open { mut at, mut rest, mut depth } = self else { return Ok(self) };
        loop {
            let (name, further) = rest.split_once('.').unwrap_or((rest, ""));
            depth += 1;
            match at.get(name)? {
                Some(RawBsonRef::Array(array)) => return Ok(Self::Array { array, rest: further, depth }),
                value if further.is_empty() => return Ok(Self::Found(value)),
                Some(RawBsonRef::Document(inner)) => {
                    *documents |= bit(depth);
                    (at, rest) = (inner, further);
                }
                _ => return Ok(Self::Found(None)),
            }
        }
    }

    /// The slot for one element of the array at which it stopped.
    fn step_into(self, element: Option<RawBsonRef<'a>>) -> Self {
        match (self, element) {
            (Self::Array { rest: "", .. }, element) => Self::Found(Some(element.unwrap_or(RawBsonRef::Undefined))),
            (Self::Array { rest, depth, .. }, Some(RawBsonRef::Document(at))) => Self::Open { at, rest, depth },
            (Self::Array { .. }, _) => Self::Found(None),
            (other, _) => other,
        }
    }
}

/// The bit of a place after this many names.
fn bit(depth: u32) -> u64 {
    1_u64.checked_shl(depth - 1).unwrap_or(1 << 63)
}

struct Extraction<'a, 'k> {
    index: &'a Index,
    keys: &'k mut Keys,
    /// The common prefix of the next keys: the components with known values.
    key: BoundedKey,
}

impl Extraction<'_, '_> {
    /// Makes the keys of slots; the first `written` of them are already in `key`.
    fn expand(&mut self, slots: Vec<PathWalk<'_>>, written: usize) -> Result<(), StoreError> {
        let walked = slots.into_iter().zip(&mut self.keys.documents).map(|(slot, documents)| slot.walk(documents));
        let slots = walked.collect::<Result<Vec<_>, _>>().map_err(damaged)?;
        let start = self.key.bytes.len();
        let written = self.push_found(&slots, written).map_err(damaged)?;
        match self.common_array(&slots)? {
            None => self.keep_key(),
            Some(array) if array.is_empty() => {
                self.expand(slots.iter().map(|slot| slot.step_into(None)).collect(), written)?;
            }
            Some(array) => {
                for element in array {
                    let element = element.map_err(damaged)?;
                    self.expand(slots.iter().map(|slot| slot.step_into(Some(element))).collect(), written)?;
                }
            }
        }
        self.key.bytes.truncate(start);
        Ok(())
    }

    /// The array at which open paths stopped, noted as seen.
    fn common_array<'a>(&mut self, slots: &[PathWalk<'a>]) -> Result<Option<&'a RawArray>, StoreError> {
        let mut common: Option<&RawArray> = None;
        for (slot, seen) in slots.iter().zip(&mut self.keys.arrays) {
            let PathWalk::Array { array, depth, .. } = *slot else { continue };
            *seen |= bit(depth);
            match common {
                Some(other) if !std::ptr::eq(other.as_bytes(), array.as_bytes()) => return Err(parallel(self.index)),
                _ => common = Some(array),
            }
        }
        Ok(common)
    }

    /// Writes the values after the first `written`, up to the first unknown one. Returns the new number of written
    /// values.
    fn push_found(&mut self, slots: &[PathWalk<'_>], mut written: usize) -> Result<usize, bson::error::Error> {
        while let Some(PathWalk::Found(value)) = slots.get(written) {
            let start = self.key.bytes.len();
            key::push_value(value.unwrap_or(RawBsonRef::Null), &mut self.key)?;
            if self.index.components[written].descending {
                key::invert(&mut self.key.bytes[start..]);
            }
            written += 1;
        }
        Ok(written)
    }

    /// Keeps the key that is written.
    fn keep_key(&mut self) {
        let mut key = self.key.bytes.clone();
        self.keys.cut |= key::cut(&mut key, self.index.unique);
        // Elements after a long value have the same key.
        if self.keys.distinct.last() != Some(&key) {
            self.keys.distinct.push(key);
        }
    }
}

fn parallel(index: &Index) -> StoreError {
    StoreError::Query {
        code: CANNOT_INDEX_PARALLEL_ARRAYS,
        message: format!("two arrays in one document cannot both be in the index {}", index.name),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn damaged(error: bson::error::Error) -> StoreError {
    StoreError::Corrupt { what: format!("a document: {error}") }
}

#[cfg(test)]
mod tests {
    use bson::raw::RawDocumentBuf;
    use bson::{Bson, Document, doc};

    use super::*;

    fn keys(paths: &[&str], document: Document) -> Keys {
        let document = RawDocumentBuf::try_from(document).expect("documents of tests are BSON");
        keys_of(&Index::over("tested", paths), &document).expect("the document has keys")
    }

    /// The joined keys of these values, in order.
    fn expected(values: &[&[Bson]]) -> Vec<Vec<u8>> {
        let join = |values: &&[Bson]| values.iter().flat_map(|value| key::of_bson(value).expect("a key")).collect();
        let mut all: Vec<Vec<u8>> = values.iter().map(join).collect();
        all.sort();
        all
    }

    #[test]
    fn a_missing_member_is_indexed_as_null() {
        assert_eq!(keys(&["a"], doc! { "b": 1 }).distinct, expected(&[&[Bson::Null]]));
        assert_eq!(keys(&["a.b"], doc! { "a": 5 }).distinct, expected(&[&[Bson::Null]]));
    }

    #[test]
    fn each_distinct_element_has_a_key() {
        let found = keys(&["a"], doc! { "a": [2, 1, 2.0, [3]] });
        assert_eq!(found.distinct, expected(&[&[1.into()], &[2.into()], &[vec![3].into()]]));
        assert_eq!(found.arrays, [1]);
    }

    #[test]
    fn an_empty_array_is_indexed_as_undefined_at_the_end_of_a_path_only() {
        assert_eq!(keys(&["a"], doc! { "a": [] }).distinct, expected(&[&[Bson::Undefined]]));
        assert_eq!(keys(&["a.b"], doc! { "a": [] }).distinct, expected(&[&[Bson::Null]]));
    }

    #[test]
    fn members_of_one_element_stay_together() {
        let document =
            doc! { "fields": [{ "name": "a", "value": 1 }, { "name": "b", "value": [2, 3] }, { "name": "c" }, 4] };
        let found = keys(&["fields.name", "fields.value"], document);
        let pairs: [&[Bson]; 5] = [
            &["a".into(), 1.into()],
            &["b".into(), 2.into()],
            &["b".into(), 3.into()],
            &["c".into(), Bson::Null],
            &[Bson::Null, Bson::Null],
        ];
        assert_eq!(found.distinct, expected(&pairs));
        assert_eq!(found.arrays, [0b01, 0b11]);
    }

    #[test]
    fn a_single_value_beside_an_array_is_in_each_key() {
        let found = keys(&["kind", "tags"], doc! { "kind": 7, "tags": ["x", "y"] });
        assert_eq!(found.distinct, expected(&[&[7.into(), "x".into()], &[7.into(), "y".into()]]));
        assert_eq!(found.arrays, [0, 1]);
    }

    #[test]
    fn two_arrays_are_refused() {
        let document = RawDocumentBuf::try_from(doc! { "a": [1], "b": [2] }).expect("it is BSON");
        let refused = keys_of(&Index::over("tested", &["a", "b"]), &document);
        assert!(matches!(refused, Err(StoreError::Query { code: CANNOT_INDEX_PARALLEL_ARRAYS, .. })), "{refused:?}");
    }

    #[test]
    fn a_long_value_is_not_copied_for_each_element() {
        let entry = doc! { "name": "n".repeat(100_000), "value": (0..20_000).collect::<Vec<i32>>() };
        let document = RawDocumentBuf::try_from(doc! { "fields": [entry] }).expect("it is BSON");
        let mut index = Index::over("tested", &["fields.name", "fields.value"]);
        for descending in [false, true] {
            index.components[0].descending = descending;
            let mut found = Keys::default();
            let used = allocation_counter::measure(|| found = keys_of(&index, &document).expect("it has keys"));
            assert!(found.cut && found.distinct.len() == 1 && found.distinct[0].len() == key::MAX_KEY);
            assert!(used.bytes_max < document.as_bytes().len() as u64, "{used:?}");
        }
    }

    #[test]
    fn a_key_that_is_built_bounded_is_the_beginning_of_the_whole_one() {
        for length in 1000..1040 {
            let text = "x\0".repeat(length / 2) + &"y".repeat(length % 2);
            let binary = Bson::Binary(bson::Binary { subtype: 0.into(), bytes: vec![7; length] });
            let document = doc! { "a": &text, "b": 1 };
            for value in [text.clone().into(), binary, document.into(), vec![text.as_str(), "z"].into()] {
                let whole =
                    [key::of_bson(&value).expect("a key"), key::of_bson(&Bson::Int32(5)).expect("a key")].concat();
                let found = keys(&["a", "b"], doc! { "a": [value], "b": 5 });
                let mut expected = whole.clone();
                assert_eq!(found.cut, key::cut(&mut expected, false));
                assert!(found.distinct.contains(&expected), "{length}");
            }
        }
    }
}
