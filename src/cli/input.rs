//! Files that a command reads.

use std::fs::File;
use std::io;
use std::path::Path;

/// A file to read. A directory is an error here, and not when it is read.
pub(super) fn opened(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

/// Why a file cannot be read, for people.
pub(super) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::IsADirectory => "this is a directory, and a file is needed".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        _ => error.to_string(),
    }
}
