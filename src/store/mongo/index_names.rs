//! The names that the server has for the declared indexes.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// The declared names of indexes that have another name on the server.
#[derive(Debug, Default)]
pub(super) struct IndexNames(RwLock<HashMap<(String, String), &'static str>>);

impl IndexNames {
    /// The declared name of the index that the server calls `name`.
    pub(super) fn declared(&self, collection: &str, name: &str) -> String {
        if name == "_id_" {
            return "_id".to_owned();
        }
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let declared = names.get(&(collection.to_owned(), name.to_owned()));
        declared.map_or_else(|| name.to_owned(), |declared| (*declared).to_owned())
    }

    /// Notes which name the server has for a declared index.
    pub(super) fn learn(&self, collection: &str, name: &str, declared: &'static str) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        names.insert((collection.to_owned(), name.to_owned()), declared);
    }
}
