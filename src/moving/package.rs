//! The layout of a package: its files, and the manifest that names and measures them.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use bson::DateTime;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plural::counted;
use crate::query::Sort;
use crate::store::collections::{CATEGORIES, GROUPS, LOGS, OBJECTS, SETTINGS, TYPES, USERS};

use super::MovingError;
use super::ids::GivenIds;

/// The name of the manifest in a package.
pub const MANIFEST: &str = "manifest.json";
/// The version of the layout that this build writes and reads.
pub const FORMAT: u32 = 1;
/// How many bytes are read at once.
const CHUNK: usize = 256 * 1024;

/// A kind of thing that a package holds, in the order in which they are imported: later ones refer to earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PackagePart {
    /// Types of objects.
    Types,
    /// Categories of types.
    Categories,
    /// Groups of users.
    Groups,
    /// Users, without what they sign in with.
    Users,
    /// Objects.
    Objects,
    /// Settings of users.
    Settings,
    /// The entries of the history; packages of version 0.1.0 have none.
    History,
}

impl PackagePart {
    /// All of them, in the order of importing.
    pub const ALL: [Self; 7] =
        [Self::Types, Self::Categories, Self::Groups, Self::Users, Self::Objects, Self::Settings, Self::History];

    /// The file in the package.
    pub fn file(self) -> &'static str {
        match self {
            Self::Types => "types.ndjson",
            Self::Categories => "categories.ndjson",
            Self::Groups => "groups.ndjson",
            Self::Users => "users.ndjson",
            Self::Objects => "objects.ndjson",
            Self::Settings => "settings.ndjson",
            Self::History => "history.ndjson",
        }
    }

    /// What they are called.
    pub fn things(self) -> &'static str {
        self.file().trim_end_matches(".ndjson")
    }

    /// Where they are stored.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Types => TYPES,
            Self::Categories => CATEGORIES,
            Self::Groups => GROUPS,
            Self::Users => USERS,
            Self::Objects => OBJECTS,
            Self::Settings => SETTINGS,
            Self::History => LOGS,
        }
    }

    /// The order of the lines; no two documents are equal in it.
    pub fn order(self) -> Sort {
        match self {
            Self::Settings => Sort::by("user_id", false).then("identifier", false),
            Self::History => Sort::by("_id", false),
            _ => Sort::by("public_id", false),
        }
    }
}

/// What a package says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`] of the version that wrote it.
    pub format: u32,
    /// The name of the program.
    pub product: String,
    /// Its version.
    pub version: String,
    /// When it was made, ISO 8601 in UTC.
    pub made_at: String,
    /// `embedded` or `mongodb`.
    pub store: String,
    /// Whether all documents are those of one moment.
    pub of_one_moment: bool,
    /// The files, in the order of importing.
    pub files: Vec<FileEntry>,
    /// The largest id that was given, by collection; packages of version 0.1.0 do not say.
    #[serde(default, skip_serializing_if = "GivenIds::is_empty")]
    pub ids: GivenIds,
    /// Since when the history is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistorySince>,
}

/// The moment after which all entries are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistorySince {
    /// Milliseconds since 1970.
    pub time: i64,
    /// The sequence before the first entry.
    pub sequence: i64,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name in the directory.
    pub name: String,
    /// How many lines it has.
    pub documents: u64,
    /// How long it is.
    pub bytes: u64,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl Manifest {
    /// Reads the manifest in a directory.
    ///
    /// # Errors
    /// When there is none, or it has a version that this build does not read.
    pub fn read(directory: &Path) -> Result<Self, MovingError> {
        let wrong = |reason: String| MovingError::NoPackage { path: directory.to_owned(), reason };
        let path = directory.join(MANIFEST);
        if !path.is_file() {
            return Err(wrong(format!("it has no {MANIFEST}")));
        }
        let text = std::fs::read(&path).map_err(MovingError::at(&path))?;
        let json: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| wrong(format!("{MANIFEST}: {error}")))?;
        let format = json.get("format").and_then(serde_json::Value::as_u64);
        if format.is_none_or(|format| format > u64::from(FORMAT)) {
            let found = format.map_or_else(|| "no format".to_owned(), |format| format!("the format {format}"));
            return Err(wrong(format!(
                "it has {found}, this version reads up to {FORMAT}; use the version that wrote it"
            )));
        }
        serde_json::from_value(json).map_err(|error| wrong(format!("{MANIFEST}: {error}")))
    }

    /// Since when the history is whole, if the package says so: the time and the sequence.
    pub fn history_since(&self) -> Option<(DateTime, i64)> {
        self.history.as_ref().map(|since| (DateTime::from_millis(since.time), since.sequence))
    }

    /// The entry of a part's file.
    pub fn entry(&self, part: PackagePart) -> Option<&FileEntry> {
        self.files.iter().find(|entry| entry.name == part.file())
    }

    /// Compares each file with its entry here.
    ///
    /// # Errors
    /// [`MovingError::Damaged`] for the first that differs, [`MovingError::NoPackage`] where one is not listed.
    pub fn verify(&self, directory: &Path) -> Result<(), MovingError> {
        for part in PackagePart::ALL {
            let Some(entry) = self.entry(part) else {
                if part == PackagePart::History {
                    continue;
                }
                let reason = format!("{MANIFEST} does not name {}", part.file());
                return Err(MovingError::NoPackage { path: directory.to_owned(), reason });
            };
            let path = directory.join(part.file());
            let (bytes, sha256) = measured(&path).map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    let lack = part.file();
                    let reason = format!(
                        "it has no {lack}; a package is {MANIFEST} and the files that it names, copy all of them"
                    );
                    MovingError::NoPackage { path: directory.to_owned(), reason }
                }
                _ => MovingError::at(&path)(error),
            })?;
            let damaged = |reason: String| MovingError::Damaged { path: path.clone(), reason };
            if bytes != entry.bytes {
                return Err(damaged(format!("it has {} instead of {}", counted(bytes, "byte"), entry.bytes)));
            }
            if sha256 != entry.sha256 {
                return Err(damaged("its checksum is another one".to_owned()));
            }
        }
        Ok(())
    }
}

/// The length and the SHA-256 of a file.
fn measured(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hasher, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok((bytes, hex::encode(hasher.finalize())));
        }
        hasher.update(&chunk[..count]);
        bytes += count as u64;
    }
}
