//! Where something is written before it is whole: beside the place that it takes then.

use std::path::{Path, PathBuf};

/// The name beside `place` under which it is written; `None` where `place` is no name.
pub fn draft_of(place: &Path) -> Option<PathBuf> {
    let mut draft = place.file_name()?.to_owned();
    draft.push(".partial");
    Some(place.with_file_name(draft))
}

/// The directory that `place` is in.
pub fn above(place: &Path) -> &Path {
    place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
