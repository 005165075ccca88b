//! Writes a package under another name, syncs it, and then renames it in one step. Its tables are for spreadsheets.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bson::Document;
use bson::raw::{RawDocument, RawDocumentBuf};
use chrono::{DateTime, SecondsFormat, Utc};
use futures::{StreamExt, TryStreamExt};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use super::package::{FORMAT, FileEntry, HistorySince, MANIFEST, Manifest, PackagePart};
use super::{MovingError, ids};
use crate::domain::schema::is_kebab_case;
use crate::exchange::columns::Labels;
use crate::exchange::csv::CsvStyle;
use crate::exchange::discovery::HostFields;
use crate::json::write::write_canonical;
use crate::progress::Progress;
use crate::query::{Filter, Sort};
use crate::service::exchange::export::{ChosenColumns, ExportAccess, ExportForm, ExportQuery, export_objects};
use crate::service::history::kept;
use crate::service::{ServiceError, Services};
use crate::store::{Copying, Documents, Dump, StoreError};

/// How long counting may take; it is only for the progress.
const COUNT_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// Writes the whole inventory of `store` into a package at `place`, as of one moment if the store can.
///
/// With `tables` it also has the objects of each type as CSV. With `force` the new package replaces an existing
/// package, and nothing else. Only the owner can read the files. Memory does not grow with the number of documents.
///
/// # Errors
/// [`MovingError`]; `place` is then unchanged.
pub async fn export(
    store: &dyn Copying,
    place: &Path,
    force: bool,
    now: DateTime<Utc>,
    tables: Option<Tables<'_>>,
    progress: &dyn Progress,
) -> Result<Manifest, MovingError> {
    let replaces = may_take(place, force)?;
    let draft = PackageDraft::make(place)?;
    let mut dump = store.dump().await?;
    let mut files = Vec::new();
    for part in PackagePart::ALL {
        let total = store.count(part.collection(), &Filter::all(), COUNT_TIME).await.unwrap_or_default();
        progress.begin(part.things(), total);
        files.push(write_part(&mut *dump, part, &draft.path, progress).await?);
        progress.end();
    }
    let ids = ids::of_package(ids::given_ids(&mut *dump).await?);
    if let Some(tables) = tables {
        tables.write(&draft.path).await?;
    }
    let since = kept::kept(store, COUNT_TIME).await?;
    let manifest = Manifest {
        format: FORMAT,
        product: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: now.to_rfc3339_opts(SecondsFormat::Millis, true),
        store: store.kind().to_owned(),
        of_one_moment: dump.is_of_one_moment(),
        files,
        ids,
        history: since.map(|(time, sequence)| HistorySince { time: time.timestamp_millis(), sequence }),
    };
    draft.finish(place, &manifest, replaces)?;
    Ok(manifest)
}

/// Whether an existing package is replaced; refuses to replace anything else.
fn may_take(place: &Path, force: bool) -> Result<bool, MovingError> {
    let entries = match fs::read_dir(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(MovingError::at(place))?,
    };
    if entries.count() == 0 {
        return Ok(false);
    }
    refuse_strangers(place)?;
    Manifest::read(place)?;
    if force { Ok(true) } else { Err(MovingError::Exists(place.to_owned())) }
}

/// A replaced directory must contain only files of a package.
fn refuse_strangers(place: &Path) -> Result<(), MovingError> {
    for entry in fs::read_dir(place).map_err(MovingError::at(place))? {
        let name = entry.map_err(MovingError::at(place))?.file_name();
        let is_ours = name == MANIFEST || name == DIRECTORY || PackagePart::ALL.iter().any(|part| name == part.file());
        if !is_ours {
            let reason = format!("the directory has other things in it ({}); name a new one", name.display());
            return Err(MovingError::NoPackage { path: place.to_owned(), reason });
        }
    }
    Ok(())
}

/// A package in progress; removed when it is not finished.
struct PackageDraft {
    path: PathBuf,
    is_finished: bool,
    /// Nobody else writes it meanwhile.
    _held: File,
}

impl PackageDraft {
    fn make(place: &Path) -> Result<Self, MovingError> {
        let Some(path) = draft_of(place) else {
            let reason = "it has no name; name a new directory".to_owned();
            return Err(MovingError::NoPackage { path: place.to_owned(), reason });
        };
        DirBuilder::new().recursive(true).mode(0o700).create(above(&path)).map_err(MovingError::at(&path))?;
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path).and_then(|()| File::open(path));
        // What an export that was killed left has nothing else in it.
        if path.exists() {
            refuse_strangers(&path)?;
        }
        let held = begin(&path, make, |path| fs::remove_dir_all(path)).map_err(MovingError::at(&path))?;
        Ok(Self { path, is_finished: false, _held: held })
    }

    /// Writes the manifest, and moves the directory to its place.
    fn finish(mut self, place: &Path, manifest: &Manifest, replaces: bool) -> Result<(), MovingError> {
        let path = self.path.join(MANIFEST);
        let text = serde_json::to_string_pretty(manifest).map_err(io::Error::from).map_err(MovingError::at(&path))?;
        create(&path)
            .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all()))
            .map_err(MovingError::at(&path))?;
        sync_directory(&self.path).map_err(MovingError::at(&self.path))?;
        if replaces {
            renameat_with(CWD, &self.path, CWD, place, RenameFlags::EXCHANGE)
                .map_err(|error| MovingError::at(place)(error.into()))?;
        } else {
            fs::rename(&self.path, place).map_err(MovingError::at(place))?;
            self.is_finished = true;
        }
        let above = above(place);
        sync_directory(above).map_err(MovingError::at(above))
    }
}

impl Drop for PackageDraft {
    fn drop(&mut self) {
        if !self.is_finished {
            // The first error matters more; the next export removes the leftovers.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a file; while a chunk is written, the next one is read.
async fn write_part(
    dump: &mut dyn Dump,
    part: PackagePart,
    directory: &Path,
    progress: &dyn Progress,
) -> Result<FileEntry, MovingError> {
    let path = directory.join(part.file());
    let mut sink = Some(Sink::create(&path, part).map_err(MovingError::at(&path))?);
    let mut writing: Option<JoinHandle<(Sink, Result<(), MovingError>)>> = None;
    let mut chunks = dump.documents(part.collection(), &part.order()).await?;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        let count = chunk.len() as u64;
        let mut ready = come_back(&mut sink, writing.take()).await?;
        writing = Some(spawn_blocking(move || {
            let written = ready.write(&chunk);
            (ready, written)
        }));
        progress.advance(count, "");
    }
    let sink = come_back(&mut sink, writing).await?;
    let closed = spawn_blocking(move || sink.close()).await.map_err(StoreError::backend)?;
    let (documents, bytes, sha256) = closed.map_err(MovingError::at(&path))?;
    Ok(FileEntry { name: part.file().to_owned(), documents, bytes, sha256 })
}

/// The file, when nobody writes to it any more.
async fn come_back(
    sink: &mut Option<Sink>,
    writing: Option<JoinHandle<(Sink, Result<(), MovingError>)>>,
) -> Result<Sink, MovingError> {
    match (sink.take(), writing) {
        (Some(sink), _) => Ok(sink),
        (None, Some(writing)) => {
            let (sink, written) = writing.await.map_err(StoreError::backend)?;
            written.map(|()| sink)
        }
        (None, None) => Err(StoreError::backend("the file is gone").into()),
    }
}

/// A file that counts and hashes what is written.
struct Sink {
    path: PathBuf,
    file: BufWriter<File>,
    part: PackagePart,
    hasher: Sha256,
    documents: u64,
    bytes: u64,
    line: Vec<u8>,
}

impl Sink {
    fn create(path: &Path, part: PackagePart) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 16, create(path)?);
        Ok(Self { path: path.to_owned(), file, part, hasher: Sha256::new(), documents: 0, bytes: 0, line: Vec::new() })
    }

    fn write(&mut self, documents: &Documents) -> Result<(), MovingError> {
        for document in documents.iter() {
            self.line.clear();
            let cleaned = if self.part == PackagePart::Users { without_password(document) } else { None };
            write_canonical(cleaned.as_deref().unwrap_or(document), &mut self.line)
                .map_err(|error| StoreError::Corrupt { what: format!("{}: {error}", self.part.collection()) })?;
            self.line.push(b'\n');
            self.hasher.update(&self.line);
            self.file.write_all(&self.line).map_err(MovingError::at(&self.path))?;
            self.documents += 1;
            self.bytes += self.line.len() as u64;
        }
        Ok(())
    }

    fn close(self) -> io::Result<(u64, u64, String)> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok((self.documents, self.bytes, hex::encode(self.hasher.finalize())))
    }
}

/// A user without the password that another tool may have stored; `None` when there is none.
fn without_password(user: &RawDocument) -> Option<RawDocumentBuf> {
    user.get("password").ok().flatten()?;
    let mut members = Document::try_from(user).ok()?;
    members.remove("password");
    RawDocumentBuf::try_from(&members).ok()
}

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

/// Where the tables are in a package.
pub const DIRECTORY: &str = "objects";

/// Tables that are to be written, and how.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// The use cases that write them.
    pub services: &'a Services,
    /// How they are written.
    pub style: CsvStyle,
}

impl Tables<'_> {
    /// Writes a table for each type into the directory of a package.
    pub(super) async fn write(self, package: &Path) -> Result<(), MovingError> {
        let Self { services, style } = self;
        let directory = package.join(DIRECTORY);
        DirBuilder::new().mode(0o700).create(&directory).map_err(MovingError::at(&directory))?;
        let types = services.current_types().await.map_err(MovingError::Table)?;
        let mut names: Vec<(i64, String)> =
            types.iter().map(|entry| (entry.object_type.public_id, entry.object_type.name.clone())).collect();
        names.sort_unstable();
        for (id, name) in &names {
            // Other tools may have stored a type name that is invalid as a file name.
            let name = if is_kebab_case(name) { format!("{name}.csv") } else { format!("type-{id}.csv") };
            let path = directory.join(name);
            let query = ExportQuery {
                type_id: Some(*id),
                filter: Filter::all(),
                sort: Sort::by("public_id", false),
                form: ExportForm::Csv(style),
                hosts: HostFields::default(),
                columns: ChosenColumns::All,
                labels: Labels::default(),
            };
            let mut export =
                export_objects(services, ExportAccess::Operator, query).await.map_err(MovingError::Table)?;
            let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let mut file = open.map_err(MovingError::at(&path))?;
            while let Some(bytes) = export.bytes.try_next().await.map_err(MovingError::Table)? {
                let step = tokio::task::spawn_blocking(move || file.write_all(&bytes).map(|()| file)).await;
                file = joined(step)?.map_err(MovingError::at(&path))?;
            }
            let step = tokio::task::spawn_blocking(move || file.sync_all()).await;
            joined(step)?.map_err(MovingError::at(&path))?;
        }
        Ok(())
    }
}

fn joined<T>(step: Result<io::Result<T>, tokio::task::JoinError>) -> Result<io::Result<T>, MovingError> {
    step.map_err(|error| MovingError::Table(ServiceError::Store(StoreError::backend(error))))
}
