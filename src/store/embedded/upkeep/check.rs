//! Verifies a store: every document decodes, every index equals a rebuild, and the catalog agrees with the documents.

use std::fmt;

use bson::raw::RawDocument;
use redb::ReadableTable;

use crate::plural::counted;
use crate::store::StoreError;
use crate::store::embedded::catalog::collections::{Collection, Component};
use crate::store::embedded::failure;
use crate::store::embedded::index::keys::keys_of;
use crate::store::embedded::index::table::{IndexTable, Published};
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::embedded::write::batch;
use crate::store::embedded::write::validate;

/// More problems than this are not listed.
const MAX_PROBLEMS: usize = 100;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many documents were read.
    pub documents: u64,
    /// How many entries of indexes were read.
    pub entries: u64,
    /// What is wrong; nothing, if nothing is.
    pub problems: Vec<Problem>,
    /// How many problems more there are.
    pub unlisted: u64,
}

/// An error in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is concerned.
    pub part: Damaged,
    /// Where, for instance the name of a collection.
    pub place: String,
    /// What was found there, for people.
    pub what: String,
}

/// What a [`Problem`] is about, and so whether it can be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damaged {
    /// The pages of the file: their documents cannot be trusted.
    File,
    /// A stored document.
    Document,
    /// An index: it can be rebuilt from the documents.
    Index,
    /// The store's notes about its documents: they can be derived again.
    Catalog,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.what)
    }
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether the documents are intact, so that the rest can be rebuilt from them.
    pub fn documents_are_sound(&self) -> bool {
        self.unlisted == 0 && !self.concern(Damaged::File) && !self.concern(Damaged::Document)
    }

    /// Whether a problem concerns this.
    pub fn concern(&self, part: Damaged) -> bool {
        self.problems.iter().any(|problem| problem.part == part)
    }

    pub(crate) fn report(&mut self, part: Damaged, place: &str, what: String) {
        // One of each kind is always listed, because it decides about the remedy.
        if self.problems.len() < MAX_PROBLEMS || !self.concern(part) {
            self.problems.push(Problem { part, place: place.to_owned(), what });
        } else {
            self.unlisted += 1;
        }
    }
}

/// Reads everything.
///
/// # Errors
/// [`StoreError::Unavailable`] when the storage fails; damage is a finding.
pub(crate) fn check(snapshot: &Snapshot) -> Result<Findings, StoreError> {
    let mut findings = Findings::default();
    for collection in snapshot.collections() {
        let checked = failure::guarded(|| {
            let tables = snapshot.tables(collection)?;
            Check { collection, tables, findings: &mut findings }.run()
        });
        match checked {
            Err(StoreError::Corrupt { what }) => findings.report(Damaged::File, &collection.name, what),
            other => other?,
        }
    }
    Ok(findings)
}

struct Check<'a> {
    collection: &'a Collection,
    tables: &'a Tables<Published>,
    findings: &'a mut Findings,
}

impl Check<'_> {
    fn run(mut self) -> Result<(), StoreError> {
        let mut keys_in_documents = vec![0_u64; self.collection.indexes.len()];
        let mut before = None;
        for entry in self.tables.data.iter().map_err(failure::of_storage)? {
            let (row, stored) = entry.map_err(failure::of_storage)?;
            let row = row.value();
            if before.replace(row).is_some_and(|before| before >= row) {
                self.report(Damaged::File, format!("row {row} is not in its place"));
            }
            self.findings.documents += 1;
            match RawDocument::from_bytes(stored.value()) {
                Ok(document) => self.check_document(row, document, &mut keys_in_documents)?,
                Err(error) => self.report(Damaged::Document, format!("row {row} is not a document: {error}")),
            }
        }
        for (position, expected) in keys_in_documents.into_iter().enumerate() {
            // Every key of a document was found, so equal counts mean that there are no other entries.
            let name = &self.collection.indexes[position].name;
            let stored = self.count_entries(name, &self.tables.indexes[position])?;
            if let Some(blocks) = self.tables.blocks(self.collection, position) {
                for problem in blocks.problems()? {
                    self.report(Damaged::Index, format!("the index {name}: {problem}"));
                }
            }
            if stored != expected {
                self.report(
                    Damaged::Index,
                    format!("the index {name} has {}, its documents {expected}", counted(stored, "key")),
                );
            }
        }
        Ok(())
    }

    fn count_entries(&mut self, name: &str, table: &IndexTable<Published>) -> Result<u64, StoreError> {
        let mut count = 0;
        let mut before: Option<Vec<u8>> = None;
        for entry in table.all().map_err(failure::of_storage)? {
            let entry = entry.map_err(failure::of_storage)?;
            if before.as_deref().is_some_and(|before| before >= entry.stored_key()) {
                self.report(Damaged::Index, format!("the keys of the index {name} are not in order"));
            }
            let kept = before.get_or_insert_default();
            kept.clear();
            kept.extend_from_slice(entry.stored_key());
            count += 1;
        }
        self.findings.entries += count;
        if table.len().map_err(failure::of_storage)? != count {
            self.report(Damaged::Index, format!("the index {name} does not know how many keys it has"));
        }
        Ok(count)
    }

    fn check_document(&mut self, row: u64, document: &RawDocument, keys: &mut [u64]) -> Result<(), StoreError> {
        if let Err(error) = validate::document(document) {
            self.report(Damaged::Document, format!("row {row}: {error}"));
            return Ok(());
        }
        if row >= self.collection.next_row {
            self.report(Damaged::Catalog, format!("row {row} is beyond the next one, {}", self.collection.next_row));
        }
        if batch::public_id(document).is_some_and(|id| !self.collection.is_taken(id)) {
            self.report(Damaged::Catalog, format!("the public_id of row {row} could be given out again"));
        }
        for (position, index) in self.collection.indexes.iter().enumerate() {
            let found = match keys_of(index, document) {
                Ok(found) => found,
                Err(error) => {
                    self.report(
                        Damaged::Document,
                        format!("row {row} has no place in the index {}: {error}", index.name),
                    );
                    continue;
                }
            };
            let seen = index.components.iter().zip(found.arrays.iter().zip(&found.documents));
            let is_unknown = |(part, (arrays, documents)): (&Component, (&u64, &u64))| {
                part.arrays | arrays != part.arrays || part.documents | documents != part.documents
            };
            if seen.into_iter().any(is_unknown) {
                self.report(
                    Damaged::Catalog,
                    format!("the index {} does not know of an array or a document in row {row}", index.name),
                );
            }
            if found.cut && !index.has_cut_keys {
                self.report(
                    Damaged::Catalog,
                    format!("the index {} does not know of a long key of row {row}", index.name),
                );
            }
            keys[position] += found.distinct.len() as u64;
            for key in &found.distinct {
                if !self.tables.indexes[position].contains(key, row).map_err(failure::of_storage)? {
                    self.report(Damaged::Index, format!("the index {} lacks a key of row {row}", index.name));
                }
            }
        }
        Ok(())
    }

    fn report(&mut self, part: Damaged, problem: String) {
        self.findings.report(part, &self.collection.name, problem);
    }
}
