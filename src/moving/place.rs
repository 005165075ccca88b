//! The temporary name of a file or directory until it is complete.

use std::path::{Path, PathBuf};

/// The temporary name beside `place`; `None` if `place` is no name.
pub fn draft_of(place: &Path) -> Option<PathBuf> {
    let mut draft = place.file_name()?.to_owned();
    draft.push(".partial");
    Some(place.with_file_name(draft))
}

/// The directory that `place` is in.
pub fn above(place: &Path) -> &Path {
    place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
