//! Verifies that a store is whole: every document decodes, every index is what a rebuild would make of it.

use bson::raw::RawDocument;
use redb::ReadableTable;

use crate::store::StoreError;

use super::catalog::Collection;
use super::failure;
use super::index::keys_of;
use super::snapshot::Snapshot;
use super::tables::{Published, Tables};
use super::{batch, validate};

/// More problems than this are not listed.
const MAX_PROBLEMS: usize = 100;

/// What is wrong with the store, for people; nothing, if nothing is. Reads everything.
pub(super) fn check(snapshot: &Snapshot) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for collection in snapshot.collections() {
        Check { collection, tables: snapshot.tables(collection)?, problems: &mut problems }.run()?;
    }
    problems.truncate(MAX_PROBLEMS);
    Ok(problems)
}

struct Check<'a> {
    collection: &'a Collection,
    tables: &'a Tables<Published>,
    problems: &'a mut Vec<String>,
}

impl Check<'_> {
    fn run(mut self) -> Result<(), StoreError> {
        let mut keys_in_documents = vec![0_u64; self.collection.indexes.len()];
        for entry in self.tables.data.iter().map_err(failure::of_storage)? {
            let (row, stored) = entry.map_err(failure::of_storage)?;
            let row = row.value();
            match RawDocument::from_bytes(stored.value()) {
                Ok(document) => self.check_document(row, document, &mut keys_in_documents)?,
                Err(error) => self.report(&format!("row {row} is not a document: {error}")),
            }
        }
        for (position, expected) in keys_in_documents.into_iter().enumerate() {
            // Every key of a document was found, so equal numbers mean that there is nothing else.
            let stored = self.tables.indexes[position].len().map_err(failure::of_storage)?;
            if let Some(blocks) = self.tables.blocks(self.collection, position) {
                for problem in blocks.problems()? {
                    self.report(&format!("the index {}: {problem}", self.collection.indexes[position].name));
                }
            }
            if stored != expected {
                let name = &self.collection.indexes[position].name;
                self.report(&format!("the index {name} has {stored} keys, its documents {expected}"));
            }
        }
        Ok(())
    }

    fn check_document(&mut self, row: u64, document: &RawDocument, keys: &mut [u64]) -> Result<(), StoreError> {
        if let Err(error) = validate::document(document) {
            self.report(&format!("row {row}: {error}"));
            return Ok(());
        }
        if row >= self.collection.next_row {
            self.report(&format!("row {row} is beyond the next one, {}", self.collection.next_row));
        }
        if batch::public_id(document).is_some_and(|id| !self.collection.is_taken(id)) {
            self.report(&format!("the public_id of row {row} could be given out again"));
        }
        for (position, index) in self.collection.indexes.iter().enumerate() {
            let found = keys_of(index, document)?;
            if index.components.iter().zip(&found.arrays).any(|(part, arrays)| part.arrays | arrays != part.arrays) {
                self.report(&format!("the index {} does not know of an array in row {row}", index.name));
            }
            keys[position] += found.distinct.len() as u64;
            for key in &found.distinct {
                if !self.tables.indexes[position].contains(key, row).map_err(failure::of_storage)? {
                    self.report(&format!("the index {} lacks a key of row {row}", index.name));
                }
            }
        }
        Ok(())
    }

    fn report(&mut self, problem: &str) {
        if self.problems.len() <= MAX_PROBLEMS {
            self.problems.push(format!("{}: {problem}", self.collection.name));
        }
    }
}
