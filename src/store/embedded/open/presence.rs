//! Whether there is a store.

use std::io::ErrorKind;
use std::path::Path;

use crate::store::embedded::file::names::FILE;
use crate::store::embedded::open::refusal::OpenError;

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
