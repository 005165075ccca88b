//! The temporary name of a file or directory until it is complete.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The temporary name next to `place`; `None` if `place` is no name.
pub fn draft_of(place: &Path) -> Option<PathBuf> {
    let mut draft = place.file_name()?.to_owned();
    draft.push(".partial");
    Some(place.with_file_name(draft))
}

/// The directory that `place` is in.
pub fn above(place: &Path) -> &Path {
    place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a draft, and opens it. As long as the result is open nobody else makes it or removes it. `remove` clears what a killed
/// command left.
///
/// # Errors
/// Those of the two, and [`io::ErrorKind::ResourceBusy`] while another command writes the draft.
pub fn begin(
    draft: &Path,
    make: impl FnOnce(&Path) -> io::Result<File>,
    remove: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<File> {
    let busy = || {
        let message = format!("another command is writing {}; wait for it, or write to another name", draft.display());
        io::Error::new(io::ErrorKind::ResourceBusy, message)
    };
    if draft.symlink_metadata().is_ok() {
        let left = File::open(draft)?;
        if !is_held(&left, draft)? {
            return Err(busy());
        }
        remove(draft)?;
    }
    match make(draft) {
        Ok(made) if is_held(&made, draft)? => Ok(made),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Err(busy()),
    }
}

/// Locks a file, and says whether it has the lock and is still what has this name.
fn is_held(file: &File, path: &Path) -> io::Result<bool> {
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Ok(false);
    }
    let (own, there) = (file.metadata()?, fs::symlink_metadata(path));
    Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())))
}
