//! Whether a directory can be written, and how much fits in.

use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use crate::store::inspection::{Finding, room};

/// A finding: the directory is writable, or why not. Removes what it created.
pub(super) fn writable(directory: &Path) -> Result<Finding, Finding> {
    let place = nearest(directory);
    let subject = "directory";
    if !place.is_dir() {
        return Err(Finding::wrong(subject, format!("{} is not a directory", place.display())));
    }
    match access(place, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(Finding::good(subject, format!("{} can be written", place.display()))),
        Err(error) => Err(Finding::wrong(
            subject,
            format!(
                "{} cannot be written: {error}; give the user of this service the right to write there",
                place.display()
            ),
        )),
    }
}

/// The room on the disk of a directory; nothing where the system does not say.
pub(super) fn room_at(directory: &Path) -> Option<Finding> {
    let found = statvfs(nearest(directory)).ok().filter(|found| found.f_blocks > 0)?;
    let block = found.f_frsize;
    Some(room(
        &directory.display().to_string(),
        found.f_bavail.saturating_mul(block),
        found.f_blocks.saturating_mul(block),
    ))
}

/// The directory, or the one in which it would be made.
fn nearest(directory: &Path) -> &Path {
    let exists = |path: &&Path| path.as_os_str().is_empty() || path.exists();
    match directory.ancestors().find(exists) {
        Some(path) if !path.as_os_str().is_empty() => path,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_that_is_to_be_made_is_as_writable_as_the_one_above_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let inside = directory.path().join("a/b");
        assert_eq!(nearest(&inside), directory.path());
        assert!(writable(&inside).is_ok());
        assert!(!inside.exists());
        assert_eq!(nearest(Path::new("no-such-directory")), Path::new("."));
    }

    #[test]
    fn a_file_is_no_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("file"), "").expect("a file");
        let finding = writable(&directory.path().join("file/data")).expect_err("a finding");
        assert!(finding.text.ends_with("file is not a directory"), "{finding}");
    }
}
