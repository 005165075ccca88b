//! The keys that a document has in an index.
//!
//! An array on the way of a path gives one key for each of its elements (MongoDB: multikey). An empty array at
//! the end of a path counts as undefined, a path that leads nowhere as null. The paths of one index may lead
//! through one and the same array, and then each element gives one key of all its members together; two
//! different arrays in one document are refused, as their product would have to be stored.

use bson::raw::{RawArray, RawBsonRef, RawDocument};

use crate::store::StoreError;

use super::catalog::Index;
use super::failure;
use super::key;

/// MongoDB's number for two arrays in the keys of one document.
const CANNOT_INDEX_PARALLEL_ARRAYS: i32 = 171;

/// The keys of one document in one index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// Ascending, each once.
    pub(super) distinct: Vec<Vec<u8>>,
    /// By component: where arrays were met, as in [`Component::arrays`](super::catalog::Component::arrays).
    pub(super) arrays: Vec<u64>,
    /// Whether a key had to be cut.
    pub(super) cut: bool,
}

/// The keys of a document; none, when a partial index does not hold it.
///
/// # Errors
/// [`StoreError::Query`] for two arrays, [`StoreError::Corrupt`] for bytes that are not BSON.
pub(super) fn keys_of(index: &Index, document: &RawDocument) -> Result<Keys, StoreError> {
    if let Some(partial) = &index.partial
        && !partial.filter.matches(document).map_err(failure::of_evaluation)?
    {
        return Ok(Keys { arrays: vec![0; index.components.len()], ..Keys::default() });
    }
    let mut keys = Keys { arrays: vec![0; index.components.len()], ..Keys::default() };
    let slots: Vec<Slot<'_>> =
        index.components.iter().map(|part| Slot::Open { at: document, rest: &part.path, depth: 0 }).collect();
    Extraction { index, keys: &mut keys }.expand(slots)?;
    keys.distinct.sort_unstable();
    keys.distinct.dedup();
    Ok(keys)
}

/// How far the walk along one path has come.
#[derive(Clone, Copy)]
enum Slot<'a> {
    /// The value is found; `None`: the path leads nowhere.
    Found(Option<RawBsonRef<'a>>),
    /// `rest` is still to be walked from `at`; `depth` names of the path are behind.
    Open { at: &'a RawDocument, rest: &'a str, depth: u32 },
    /// An array is in the way, or at the end, where `rest` is empty.
    Array { array: &'a RawArray, rest: &'a str, depth: u32 },
}

impl<'a> Slot<'a> {
    /// Walks until a value or an array is met.
    fn walk(self) -> Result<Self, bson::error::Error> {
        let Self::Open { mut at, mut rest, mut depth } = self else { return Ok(self) };
        loop {
            let (name, further) = rest.split_once('.').unwrap_or((rest, ""));
            depth += 1;
            match at.get(name)? {
                Some(RawBsonRef::Array(array)) => return Ok(Self::Array { array, rest: further, depth }),
                value if further.is_empty() => return Ok(Self::Found(value)),
                Some(RawBsonRef::Document(inner)) => (at, rest) = (inner, further),
                _ => return Ok(Self::Found(None)),
            }
        }
    }

    /// The slot for one element of the array that it waits at.
    fn step_into(self, element: Option<RawBsonRef<'a>>) -> Self {
        match (self, element) {
            (Self::Array { rest: "", .. }, element) => Self::Found(Some(element.unwrap_or(RawBsonRef::Undefined))),
            (Self::Array { rest, depth, .. }, Some(RawBsonRef::Document(at))) => Self::Open { at, rest, depth },
            (Self::Array { .. }, _) => Self::Found(None),
            (other, _) => other,
        }
    }
}

struct Extraction<'a, 'k> {
    index: &'a Index,
    keys: &'k mut Keys,
}

impl Extraction<'_, '_> {
    fn expand(&mut self, slots: Vec<Slot<'_>>) -> Result<(), StoreError> {
        let slots = slots.into_iter().map(Slot::walk).collect::<Result<Vec<_>, _>>().map_err(damaged)?;
        let Some(array) = self.common_array(&slots)? else {
            return self.push_key(&slots).map_err(damaged);
        };
        if array.is_empty() {
            return self.expand(slots.iter().map(|slot| slot.step_into(None)).collect());
        }
        for element in array {
            let element = element.map_err(damaged)?;
            self.expand(slots.iter().map(|slot| slot.step_into(Some(element))).collect())?;
        }
        Ok(())
    }

    /// The array that open paths wait at, noted as seen.
    fn common_array<'a>(&mut self, slots: &[Slot<'a>]) -> Result<Option<&'a RawArray>, StoreError> {
        let mut common: Option<&RawArray> = None;
        for (slot, seen) in slots.iter().zip(&mut self.keys.arrays) {
            let Slot::Array { array, depth, .. } = *slot else { continue };
            *seen |= 1_u64.checked_shl(depth - 1).unwrap_or(1 << 63);
            match common {
                Some(other) if !std::ptr::eq(other.as_bytes(), array.as_bytes()) => return Err(parallel(self.index)),
                _ => common = Some(array),
            }
        }
        Ok(common)
    }

    fn push_key(&mut self, slots: &[Slot<'_>]) -> Result<(), bson::error::Error> {
        let mut key = Vec::with_capacity(slots.len() * 16);
        for (slot, component) in slots.iter().zip(&self.index.components) {
            let Slot::Found(value) = slot else { continue };
            let start = key.len();
            key::push_value(value.unwrap_or(RawBsonRef::Null), &mut key)?;
            if component.descending {
                key::invert(&mut key[start..]);
            }
        }
        self.keys.cut |= key::cut(&mut key, self.index.unique);
        self.keys.distinct.push(key);
        Ok(())
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
}
