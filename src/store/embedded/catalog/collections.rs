//! The catalog: the indexes and counters of each collection, and where arrays and documents were seen.
//!
//! The writer owns the catalog and stores each change of it in the transaction that the change belongs to.
//! Readers see the catalog of their snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bson::raw::{RawArrayBuf, RawDocumentBuf, cstr};
use bson::{Bson, Document, doc};

use crate::query::{Filter, Limits};
use crate::store::{CollectionSpec, IndexSpec, StoreError, fresh_revision};

/// The name of the index that every collection has, and its number.
pub(crate) const PRIMARY: &str = "_id";

/// All collections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    /// How many commits there were.
    pub(crate) commit: u64,
    collections: Vec<Arc<Collection>>,
}

/// A collection; its position in the catalog is its number.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    /// Names its tables.
    pub(crate) number: u32,
    /// The name that callers use.
    pub(crate) name: String,
    /// The row that the next new document gets; rows ascend and are never reused.
    pub(crate) next_row: u64,
    /// The lowest `public_id` that was never given out, as far as this process knows; shared by all versions since the
    /// collection was last emptied.
    pub(crate) next_id: Arc<AtomicI64>,
    /// Changes with each committed change, and each time the file is opened.
    pub(crate) revision: u64,
    /// The number of the next index.
    next_index: u32,
    /// The one on `_id` first.
    pub(crate) indexes: Vec<Index>,
}

/// An index of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// Names its table; never reused in its collection.
    pub(crate) number: u32,
    /// The name that errors and `explain` use.
    pub(crate) name: String,
    /// The paths, most significant first.
    pub(crate) components: Vec<Component>,
    /// Whether two documents with equal keys are refused.
    pub(crate) unique: bool,
    /// Which documents it holds; nothing: all.
    pub(crate) partial: Option<Partial>,
    /// Whether a key was ever cut because it was too long. The order of cut keys is unreliable.
    pub(crate) has_cut_keys: bool,
    /// The number of entries in its blocks, once it has read an array; see
    /// [`packed`](crate::store::embedded::index::packed).
    pub(crate) packed: Option<u64>,
}

/// The values that the documents of a partial index have.
#[derive(Debug, Clone)]
pub(crate) struct Partial {
    /// By path.
    pub(crate) values: Document,
    /// The same as a condition.
    pub(crate) filter: Filter,
}

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Eq for Partial {}

impl Partial {
    pub(crate) fn of(values: Document) -> Option<Self> {
        let condition = |(path, value): (&String, &Bson)| match value {
            // No declared value is a document but this one.
            Bson::Document(exists) => {
                let condition = doc! { path: exists.clone() };
                Filter::parse(&condition, &Limits::NONE).expect("the member is there: a valid condition")
            }
            value => Filter::equals(path, value.clone()),
        };
        let filter = values.iter().map(condition).reduce(Filter::and)?;
        Some(Self { values, filter })
    }

    fn declared(spec: &IndexSpec) -> Option<Self> {
        Self::of(spec.partial.iter().map(|equals| (equals.path.to_owned(), equals.value.into())).collect())
    }
}

/// A path of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Component {
    /// With dots.
    pub(crate) path: String,
    /// Largest first.
    pub(crate) descending: bool,
    /// Bit `n`: some document once had an array at the first `n + 1` names of the path.
    pub(crate) arrays: u64,
    /// Bit `n`: some document once had a document there, not an array. [`UNKNOWN`] in stores from before this was noted.
    pub(crate) documents: u64,
}

/// There may have been documents anywhere.
pub(crate) const UNKNOWN: u64 = u64::MAX;

impl Component {
    /// Whether the first name of the path leads to an array wherever it leads further.
    pub(crate) fn begins_in_arrays(&self) -> bool {
        self.documents & 1 == 0
    }

    /// Whether a document may have several keys because of this path.
    pub(crate) fn is_multikey(&self) -> bool {
        self.arrays != 0
    }
}

impl Index {
    fn new(number: u32, spec: &IndexSpec) -> Self {
        let component =
            |path: &str, descending| Component { path: path.to_owned(), descending, arrays: 0, documents: 0 };
        Self {
            number,
            name: spec.name.to_owned(),
            components: spec.keys.iter().map(|key| component(key.path, key.descending)).collect(),
            unique: spec.unique,
            partial: Partial::declared(spec),
            has_cut_keys: false,
            packed: None,
        }
    }

    fn primary() -> Self {
        let keys = &[crate::store::IndexKey { path: "_id", descending: false }];
        Self::new(0, &IndexSpec::unique(PRIMARY, keys))
    }

    /// Whether a document may have several keys.
    pub(crate) fn is_multikey(&self) -> bool {
        self.components.iter().any(Component::is_multikey)
    }

    fn is_declared_as(&self, spec: &IndexSpec) -> bool {
        self.unique == spec.unique
            && self.partial == Partial::declared(spec)
            && self.components.len() == spec.keys.len()
            && self
                .components
                .iter()
                .zip(spec.keys)
                .all(|(own, key)| own.path == key.path && own.descending == key.descending)
    }
}

impl Collection {
    fn new(number: u32, name: &str) -> Self {
        Self {
            number,
            name: name.to_owned(),
            next_row: 0,
            next_id: Arc::new(AtomicI64::new(1)),
            revision: fresh_revision(),
            next_index: 1,
            indexes: vec![Index::primary()],
        }
    }

    /// Whether the entries of an index are counted. They are not if a document may have several, nor in the index on
    /// `_id`.
    pub(crate) fn is_counted(&self, position: usize) -> bool {
        position > 0 && !self.indexes[position].is_multikey()
    }

    /// Adds the indexes that are declared and missing, and returns the positions of the new ones.
    ///
    /// The declared index replaces one with the same name and other paths.
    pub(crate) fn declare(&mut self, spec: &CollectionSpec) -> Declared {
        let mut declared = Declared::default();
        for index in spec.indexes {
            match self.indexes.iter().position(|own| own.name == index.name) {
                Some(position) if self.indexes[position].is_declared_as(index) => continue,
                Some(position) => declared.dropped.push(self.indexes.remove(position).number),
                None => {}
            }
            let number = self.next_index;
            self.next_index += 1;
            self.indexes.push(Index::new(number, index));
            declared.added.push(number);
        }
        declared
    }

    /// Takes `count` consecutive ids out of the counter.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when the numbers are used up.
    pub(crate) fn reserve_ids(&self, count: u32) -> Result<i64, StoreError> {
        self.next_id
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| next.checked_add(i64::from(count)))
            .map_err(|_| StoreError::backend(format!("the ids of {} are used up", self.name)))
    }

    /// Ensures that `id` is never given out again.
    pub(crate) fn note_id(&self, id: i64) {
        self.next_id.fetch_max(id.saturating_add(1), Ordering::AcqRel);
    }

    /// The largest id that was given out or stored; 0 when none was.
    pub(crate) fn last_id(&self) -> i64 {
        self.next_id.load(Ordering::Acquire) - 1
    }

    /// Starts a new counter of ids for this version of the catalog and later ones. Earlier versions keep their own.
    pub(crate) fn forget_ids(&mut self) {
        self.next_id = Arc::new(AtomicI64::new(1));
    }

    /// Whether this id was given out, or is below one that was.
    pub(crate) fn is_taken(&self, id: i64) -> bool {
        id < self.next_id.load(Ordering::Acquire)
    }

    /// Forgets where arrays and documents were seen; for indexes that are rebuilt.
    pub(crate) fn forget_what_was_seen(&mut self) {
        for index in &mut self.indexes {
            index.has_cut_keys = false;
            index.packed = None;
            for component in &mut index.components {
                component.arrays = 0;
                component.documents = 0;
            }
        }
    }

    /// As stored in the table `meta`. Each commit stores it, so it is written at once and not built of values first.
    pub(crate) fn to_document(&self) -> RawDocumentBuf {
        let mut stored = RawDocumentBuf::new();
        stored.append(cstr!("number"), i64::from(self.number));
        stored.append(cstr!("name"), self.name.as_str());
        stored.append(cstr!("next_row"), self.next_row.cast_signed());
        stored.append(cstr!("next_id"), self.next_id.load(Ordering::Acquire));
        stored.append(cstr!("next_index"), i64::from(self.next_index));
        stored.append(cstr!("indexes"), self.indexes.iter().map(Index::to_document).collect::<RawArrayBuf>());
        stored
    }

    /// Reads what [`Collection::to_document`] made.
    ///
    /// # Errors
    /// A member is missing or of another type.
    pub(crate) fn from_document(stored: &Document) -> Result<Self, CatalogError> {
        let indexes = stored.get_array("indexes")?.iter().map(|index| match index {
            Bson::Document(index) => Index::from_document(index),
            _ => Err(CatalogError("an index is not a document".to_owned())),
        });
        Ok(Self {
            number: number(stored, "number")?,
            name: stored.get_str("name")?.to_owned(),
            next_row: stored.get_i64("next_row")?.cast_unsigned(),
            next_id: Arc::new(AtomicI64::new(stored.get_i64("next_id")?)),
            revision: fresh_revision(),
            next_index: number(stored, "next_index")?,
            indexes: indexes.collect::<Result<_, _>>()?,
        })
    }
}

impl Index {
    fn to_document(&self) -> RawDocumentBuf {
        let component = |part: &Component| {
            let mut stored = RawDocumentBuf::new();
            stored.append(cstr!("path"), part.path.as_str());
            stored.append(cstr!("descending"), part.descending);
            stored.append(cstr!("arrays"), part.arrays.cast_signed());
            stored.append(cstr!("documents"), part.documents.cast_signed());
            stored
        };
        let partial = self.partial.as_ref().map(|partial| RawDocumentBuf::try_from(&partial.values));
        let partial = partial.map(|partial| partial.expect("its paths have no zero byte")).unwrap_or_default();
        let mut stored = RawDocumentBuf::new();
        stored.append(cstr!("number"), i64::from(self.number));
        stored.append(cstr!("name"), self.name.as_str());
        stored.append(cstr!("components"), self.components.iter().map(component).collect::<RawArrayBuf>());
        stored.append(cstr!("unique"), self.unique);
        stored.append(cstr!("partial"), partial);
        stored.append(cstr!("has_cut_keys"), self.has_cut_keys);
        if let Some(entries) = self.packed {
            stored.append(cstr!("packed"), entries.cast_signed());
        }
        stored
    }

    fn from_document(stored: &Document) -> Result<Self, CatalogError> {
        let components = stored.get_array("components")?.iter().map(|part| {
            let part = part.as_document().ok_or_else(|| CatalogError("a path is not a document".to_owned()))?;
            Ok(Component {
                path: part.get_str("path")?.to_owned(),
                descending: part.get_bool("descending")?,
                arrays: part.get_i64("arrays")?.cast_unsigned(),
                documents: part.get_i64("documents").map_or(UNKNOWN, i64::cast_unsigned),
            })
        });
        Ok(Self {
            number: number(stored, "number")?,
            name: stored.get_str("name")?.to_owned(),
            components: components.collect::<Result<_, CatalogError>>()?,
            unique: stored.get_bool("unique")?,
            // Stores from before partial indexes lack it.
            partial: stored.get_document("partial").ok().cloned().and_then(Partial::of),
            has_cut_keys: stored.get_bool("has_cut_keys")?,
            packed: match stored.get("packed") {
                None => None,
                Some(Bson::Int64(entries)) => Some(entries.cast_unsigned()),
                Some(_) => return Err(CatalogError("the number of entries of an index is no number".to_owned())),
            },
        })
    }
}

#[cfg(test)]
impl Index {
    /// An index over ascending paths.
    pub(crate) fn over(name: &str, paths: &[&str]) -> Self {
        let component =
            |path: &&str| Component { path: (*path).to_owned(), descending: false, arrays: 0, documents: 0 };
        let components = paths.iter().map(component).collect();
        Self {
            number: 1,
            name: name.to_owned(),
            components,
            unique: false,
            partial: None,
            has_cut_keys: false,
            packed: None,
        }
    }
}

#[cfg(test)]
impl Collection {
    /// A collection with these indexes, in addition to the one on `_id`.
    pub(crate) fn with_indexes(indexes: Vec<Index>) -> Self {
        let mut collection = Self::new(0, "test");
        collection.indexes.extend(indexes);
        collection
    }
}

/// What [`Collection::declare`] changed: numbers of indexes.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) added: Vec<u32>,
    pub(crate) dropped: Vec<u32>,
}

/// A stored catalog that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the catalog is damaged: {0}")]
pub(crate) struct CatalogError(pub(crate) String);

impl From<bson::error::Error> for CatalogError {
    fn from(error: bson::error::Error) -> Self {
        Self(error.to_string())
    }
}

fn number(stored: &Document, name: &str) -> Result<u32, CatalogError> {
    u32::try_from(stored.get_i64(name)?).map_err(|_| CatalogError(format!("{name} is out of range")))
}

impl Catalog {
    /// Reads the stored collections; they must be numbered from 0 without a gap.
    ///
    /// # Errors
    /// A collection is missing.
    pub(crate) fn of(mut collections: Vec<Collection>, commit: u64) -> Result<Self, CatalogError> {
        collections.sort_by_key(|collection| collection.number);
        if collections.iter().zip(0..).any(|(collection, number)| collection.number != number) {
            return Err(CatalogError("a collection is missing".to_owned()));
        }
        Ok(Self { commit, collections: collections.into_iter().map(Arc::new).collect() })
    }

    /// The collection of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.iter().find(|collection| collection.name == name)
    }

    /// The collection of this number.
    pub(crate) fn at(&self, number: u32) -> &Arc<Collection> {
        &self.collections[number as usize]
    }

    /// The collection of this number, to change it.
    pub(crate) fn at_mut(&mut self, number: u32) -> &mut Collection {
        Arc::make_mut(&mut self.collections[number as usize])
    }

    /// The number of the collection of this name, which is created if it does not exist.
    pub(crate) fn number_of(&mut self, name: &str) -> u32 {
        if let Some(known) = self.get(name) {
            return known.number;
        }
        let number = u32::try_from(self.collections.len()).expect("collections are declared by hand");
        self.collections.push(Arc::new(Collection::new(number, name)));
        number
    }

    /// Takes over the in-memory state of the catalog that was in use before the file was reopened.
    pub(crate) fn continue_after(&mut self, before: &Self) {
        for collection in &mut self.collections {
            let Some(known) = before.get(&collection.name) else { continue };
            let own = Arc::make_mut(collection);
            known.next_id.fetch_max(own.next_id.load(Ordering::Acquire), Ordering::AcqRel);
            own.next_id = Arc::clone(&known.next_id);
        }
    }

    /// All collections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.collections.iter()
    }

    /// How many collections there are.
    pub(crate) fn len(&self) -> usize {
        self.collections.len()
    }
}
