//! `inventory-service backup`, `restore` and `compact`: work on the file of the embedded store. A backup is made while the
//! service works on it, too.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Outcome;
use super::input::{in_words, opened};
use super::output::{note, say, stdout};
use crate::app;
use crate::clock::{Clock, SystemClock};
use crate::moving::control::{Sending, ask_for_backup};
use crate::moving::export::{self, above, draft_of};
use crate::plural::counted;
use crate::settings::{Settings, StoreUri};
use crate::store::embedded::maintenance::RestoreError;
use crate::store::embedded::{Options, maintenance};

/// The name for standard output and input.
pub(super) const STANDARD: &str = "-";

/// Where to write to.
#[derive(Debug, Args)]
pub struct BackupCommand {
    /// A new file, or - for the standard output; with --keep a directory.
    file: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Make inventory-TIME.backup in the directory FILE, and then remove all but this number of the newest ones.
    #[arg(long, value_name = "NUMBER", conflicts_with = "force")]
    keep: Option<NonZeroUsize>,
}

impl BackupCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let StoreUri::Embedded(directory) = settings.store.location()? else {
            return Err("MongoDB is backed up with its own tool, mongodump: docs/operation.md shows how".into());
        };
        app::require_whole(&settings).await?;
        let options = settings.store.embedded_options();
        let done = tokio::task::spawn_blocking(move || match self.keep {
            Some(keep) => self.write_and_keep(keep.get(), &directory, &options),
            None => self.write(&directory, &options),
        });
        let done = done.await?;
        note(format_args!("{}", done?));
        Ok(())
    }

    /// Makes one more backup in a directory, and removes the oldest ones once it is complete.
    fn write_and_keep(
        &self,
        keep: usize,
        directory: &Path,
        options: &Options,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let unreadable = |error: io::Error| format!("{}: {error}; name a directory that is there", self.file.display());
        let file = self.file.join(SystemClock.now().format("inventory-%Y%m%dT%H%M%S%.3fZ.backup").to_string());
        std::fs::read_dir(&self.file).map_err(unreadable)?;
        let new = file.clone();
        let done = Self { file, force: false, keep: None }.write(directory, options)?;
        let is_named = |path: &Path, end: &str| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("inventory-") && name.ends_with(end)
        };
        let paths = std::fs::read_dir(&self.file)?.map(|entry| entry.map(|entry| entry.path()));
        let mut made: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
        for draft in made.iter().filter(|path| is_named(path, "Z.backup.partial")) {
            // What a killed backup left, unless another process is at it.
            if let Ok(_held) = begin_draft(draft) {
                std::fs::remove_file(draft)?;
            }
        }
        // The new one stays, whatever times the names of the others have.
        made.retain(|path| is_named(path, "Z.backup") && *path != new && maintenance::may_be_replaced(path));
        made.sort();
        let old = &made[..made.len().saturating_sub(keep - 1)];
        for path in old {
            std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(format!("{done}; removed {}", counted(old.len() as u64, "older backup")))
    }

    fn write(&self, directory: &Path, options: &Options) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        if self.file.as_os_str() == STANDARD {
            if io::stdout().is_terminal() {
                return Err("a backup is no text; send it into a file or another program".into());
            }
            return Ok(format!("{} bytes", copy(directory, options, &mut stdout())?.kept()));
        }
        let is_ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(maintenance::FILE_NAME);
        let within =
            above(&self.file).canonicalize().ok().is_some_and(|above| Some(above) == directory.canonicalize().ok());
        if within && self.file.file_name().is_some_and(is_ours) {
            return Err(
                format!("{} is a name of the store's own; give the backup another one", self.file.display()).into()
            );
        }
        if self.file.is_dir() {
            return Err(format!("{} is a directory; name a file in it", self.file.display()).into());
        }
        if !above(&self.file).is_dir() {
            return Err(format!("there is no directory {}; make it first", above(&self.file).display()).into());
        }
        if self.file.exists() && !self.force {
            let file = self.file.display();
            return Err(format!("{file} is there already; say --force to put the new one in its place").into());
        }
        if self.file.exists() && !maintenance::may_be_replaced(&self.file) {
            let message = "is no backup and stays as it is; give the new one another name";
            return Err(format!("{} {message}", self.file.display()).into());
        }
        let draft = draft_of(&self.file).ok_or_else(|| format!("{} is no name of a file", self.file.display()))?;
        let mut made = begin_draft(&draft)?;
        let written = write_draft(directory, options, &mut made).and_then(|copied| {
            std::fs::rename(&draft, &self.file).map_err(|error| unwritable(&self.file, &error))?;
            File::open(above(&self.file))?.sync_all()?;
            Ok(copied.kept())
        });
        if written.is_err() {
            // The error says more.
            let _ = std::fs::remove_file(&draft);
        }
        Ok(format!("{} has {} bytes", self.file.display(), written?))
    }
}

/// Removes the leftover of a killed backup, because an existing file would keep its owner and mode.
fn begin_draft(draft: &Path) -> io::Result<Draft<'_>> {
    let make = |draft: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
    let made = export::begin(draft, make, |draft| std::fs::remove_file(draft));
    let file = made.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => error,
        _ => unwritable(draft, &error),
    });
    Ok(Draft { file: file?, path: draft })
}

fn write_draft(
    directory: &Path,
    options: &Options,
    written: &mut Draft<'_>,
) -> Result<Copied, Box<dyn std::error::Error + Send + Sync>> {
    let copied = copy(directory, options, written)?;
    written.file.sync_all().map_err(|error| unwritable(written.path, &error))?;
    Ok(copied)
}

/// A copy of the store, which a running service has sent or this process has made.
enum Copied {
    Sent(Sending),
    Made { bytes: u64 },
}

impl Copied {
    /// Tells the service that the copy is kept; gives the number of bytes.
    fn kept(self) -> u64 {
        match self {
            Self::Made { bytes } => bytes,
            Self::Sent(sending) => {
                let bytes = sending.bytes();
                if let Err(error) = sending.kept() {
                    note(format_args!("the service does not count this backup: {error}"));
                }
                bytes
            }
        }
    }
}

/// The file that becomes the backup. Its errors name it.
struct Draft<'a> {
    file: File,
    path: &'a Path,
}

impl Write for Draft<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| unwritable(self.path, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| unwritable(self.path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    let message = format!("{path} cannot be written: {error}; name a file where you may write and where there is room");
    io::Error::new(error.kind(), message)
}

/// A running service makes the copy; without one it is made here.
fn copy(
    directory: &Path,
    options: &Options,
    to: &mut dyn Write,
) -> Result<Copied, Box<dyn std::error::Error + Send + Sync>> {
    let place = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
    if let Some(mut sending) = ask_for_backup(directory).map_err(place)? {
        sending.receive(to)?;
        return Ok(Copied::Sent(sending));
    }
    let mut made = maintenance::backup(directory, options)?;
    let bytes = io::copy(&mut made, to)?;
    to.flush()?;
    Ok(Copied::Made { bytes })
}

/// What to read.
#[derive(Debug, Args)]
pub struct RestoreCommand {
    /// The file that `backup` wrote, or - for the standard input.
    file: PathBuf,
    /// Replace an existing store.
    #[arg(long)]
    force: bool,
}

impl RestoreCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let StoreUri::Embedded(directory) = settings.store.location()? else {
            return Err("MongoDB is restored with its own tool, mongorestore: docs/operation.md shows how".into());
        };
        let options = settings.store.embedded_options();
        let place = directory.display().to_string();
        let is_standard = self.file.as_os_str() == STANDARD;
        let file = if is_standard { "the standard input".to_owned() } else { self.file.display().to_string() };
        let restored = tokio::task::spawn_blocking(move || {
            let mut input: Box<dyn Read> =
                if is_standard { Box::new(io::stdin()) } else { Box::new(opened(&self.file)?) };
            Ok::<_, io::Error>(maintenance::restore(&directory, &options, &mut *input, self.force))
        });
        let restored = restored.await?.map_err(|error| format!("{file}: {}", in_words(&error)))?;
        let restored = restored.map_err(|error| match error {
            RestoreError::NoBackup => format!("{file} {error}"),
            RestoreError::Unusable(_) | RestoreError::Damaged(_) => format!("{file}: {error}"),
            error => error.to_string(),
        })?;
        let (documents, keys) = (counted(restored.documents, "document"), counted(restored.entries, "key"));
        say!("read {documents} and {keys} of indexes, all sound; restored to {place}");
        Ok(())
    }
}

/// Compacts the embedded store; the service must not run on it.
#[derive(Debug, Args)]
pub struct CompactCommand {}

impl CompactCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let StoreUri::Embedded(directory) = settings.store.location()? else {
            return Err("only an embedded store is compacted; ask mongosh for the command compact".into());
        };
        let options = settings.store.embedded_options();
        let done = tokio::task::spawn_blocking(move || maintenance::compact(&directory, &options)).await??;
        say!("{done}");
        Ok(())
    }
}
