//! What an operator should know about an embedded store that could be opened.

use std::io::ErrorKind;
use std::path::Path;

use crate::store::CollectionSpec;
use crate::store::inspection::{Finding, indexes};

use super::open::{FILE, OpenError};
use super::snapshot::Snapshot;

/// Whether there is a store in the directory.
///
/// # Errors
/// [`OpenError::NotReadable`] when that cannot be seen.
pub fn has_store(directory: &Path) -> Result<bool, OpenError> {
    match directory.join(FILE).try_exists() {
        // The directory is a file: there is nothing in it.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
        looked => looked.map_err(|source| OpenError::NotReadable { path: directory.to_owned(), source }),
    }
}

/// Looks at the catalog, not at the documents.
pub(super) fn inspect(snapshot: &Snapshot, collections: &[CollectionSpec]) -> Vec<Finding> {
    let is_there = |collection: &str, index: &str| {
        let known = snapshot.collection(collection);
        known.is_some_and(|known| known.indexes.iter().any(|own| own.name == index))
    };
    let declared = collections.iter().flat_map(|spec| spec.indexes.iter().map(|index| (spec.name, index.name)));
    let missing: Vec<String> = declared
        .clone()
        .filter(|(collection, index)| !is_there(collection, index))
        .map(|(collection, index)| format!("{collection}.{index}"))
        .collect();
    let is_new = !collections.iter().any(|spec| snapshot.collection(spec.name).is_some());
    vec![indexes(declared.count(), &missing, is_new)]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_not_taken_for_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        assert!(!has_store(path).expect("it can be seen"));
        assert!(!has_store(&path.join("none")).expect("it can be seen"));
        // Like a directory without the right to search it, and so for every user: the system does not get to the file.
        symlink(FILE, path.join(FILE)).expect("a link to itself");
        let told = has_store(path).expect_err("nobody knows").to_string();
        assert!(
            told.contains("cannot be read: ") && told.contains("give the user of this service the right"),
            "{told}"
        );
        fs::remove_file(path.join(FILE)).expect("it is there");
        fs::write(path.join(FILE), "").expect("a file");
        assert!(has_store(path).expect("it can be seen"));
        assert!(!has_store(&path.join(FILE)).expect("it can be seen"));
    }
}
