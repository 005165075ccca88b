//! Reads a package into a store. Everything is checked first: the files against the manifest, then every line against the
//! rules that requests have to keep and against what is stored. Nothing is written when one line is bad. What is there
//! already with the same content is passed over, so an import that was interrupted goes on when it is repeated.
//!
//! A file is one unit where the store takes units of any size, up to a bound of bytes that keeps memory constant; beyond it,
//! and on other stores, it is several units in the order of its lines.
//!
//! Questions to the store are asked for a batch of lines, never for a line. Types, categories, groups, users and settings are
//! held in memory while they are worked on, objects a batch at a time, beside the ids of all of them.

mod compare;
mod definitions;
pub mod line;
mod lines;
mod objects;
mod rules;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use bson::DateTime;
use bson::raw::RawDocumentBuf;

use crate::progress::Progress;
use crate::store::{Change, Condition, Store, StoreError, Unit};

use self::rules::World;
use super::MovingError;
use super::package::{Manifest, PackagePart};

/// The time that one question to the store may take.
const MAX_TIME: Duration = Duration::from_mins(1);
/// How many bytes of documents are written at once, on a store whose units are bounded and on one where they are not: what
/// is waiting to be written is held in memory.
const BOUNDED_UNIT_BYTES: usize = 4 * 1024 * 1024;
const UNIT_BYTES: usize = 64 * 1024 * 1024;

/// How to import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Whether what is there with another content is replaced; else it is an error.
    pub update: bool,
    /// Whether objects are taken that no request could bring any more, as stored ones can be: unclean ones, those with
    /// references or authors that are gone. They are reported all the same.
    pub accept_unclean: bool,
    /// Whether to say only what would be done.
    pub dry_run: bool,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// The file in the package.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u64,
    /// A JSON pointer into the line; empty: the line itself.
    pub field: String,
    /// What is wrong there.
    pub reason: String,
    /// Whether the line was taken all the same.
    pub is_accepted: bool,
}

/// What was done, or would be, with the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Which file.
    pub part: PackagePart,
    /// New documents.
    pub created: u64,
    /// Documents that were replaced.
    pub updated: u64,
    /// Documents that were there with the same content.
    pub unchanged: u64,
}

/// Imports the package in `directory`; tells `hear` of every bad line.
///
/// # Errors
/// [`MovingError`]. Nothing was changed, unless it is [`MovingError::Stopped`].
pub async fn import(
    store: &dyn Store,
    directory: &Path,
    options: ImportOptions,
    now: DateTime,
    hear: &mut dyn FnMut(&BadLine),
    progress: &dyn Progress,
) -> Result<Vec<Summary>, MovingError> {
    let path = directory.to_owned();
    let verified = tokio::task::spawn_blocking(move || {
        let manifest = Manifest::read(&path)?;
        manifest.verify(&path).map(|()| manifest)
    });
    let manifest = verified.await.map_err(StoreError::backend)??;
    let mut import = Import {
        store,
        directory,
        manifest,
        options,
        now,
        report: Report {
            hear,
            part: PackagePart::Types,
            accept: options.accept_unclean,
            bad: HashSet::new(),
            lines: 0,
        },
        progress,
        world: World::default(),
        plans: HashMap::new(),
        summaries: Vec::new(),
    };
    import.check().await?;
    if import.report.lines > 0 {
        return Err(MovingError::Refused { lines: import.report.lines });
    }
    if !options.dry_run {
        import.write().await?;
    }
    Ok(import.summaries)
}

/// What is to be done with a line.
enum LineAction {
    /// What it says is there.
    Keep,
    Create(RawDocumentBuf),
    Replace {
        before: RawDocumentBuf,
        after: RawDocumentBuf,
    },
}

impl LineAction {
    /// About how much memory it takes until it is written.
    fn bytes(&self) -> usize {
        match self {
            Self::Keep => 0,
            Self::Create(document) => document.as_bytes().len(),
            Self::Replace { before, after } => before.as_bytes().len() + after.as_bytes().len(),
        }
    }
}

struct Import<'a> {
    store: &'a dyn Store,
    directory: &'a Path,
    manifest: Manifest,
    options: ImportOptions,
    now: DateTime,
    report: Report<'a>,
    progress: &'a dyn Progress,
    world: World,
    /// What is to be done, of all parts but the objects.
    plans: HashMap<&'static str, Vec<LineAction>>,
    summaries: Vec<Summary>,
}

impl Import<'_> {
    async fn check(&mut self) -> Result<(), MovingError> {
        for part in PackagePart::ALL {
            self.report.turn_to(part);
            let summary = match part {
                PackagePart::Objects => self.check_objects().await?,
                _ => self.check_definitions(part).await?,
            };
            self.summaries.push(summary);
        }
        self.report.turn_to(PackagePart::Types);
        Ok(())
    }

    async fn write(&mut self) -> Result<(), MovingError> {
        for part in PackagePart::ALL {
            let stopped = |source| MovingError::Stopped { file: part.file(), source };
            if part == PackagePart::Objects {
                self.write_objects().await?;
                continue;
            }
            let actions = self.plans.remove(part.file()).unwrap_or_default();
            carry_out(self.store, part, actions, &[]).await.map_err(stopped)?;
        }
        Ok(())
    }

    fn documents(&self, part: PackagePart) -> u64 {
        self.manifest.entry(part).map_or(0, |entry| entry.documents)
    }
}

/// Writes all of it as one unit where the store has room for it; else in units of bounded size: what is new given the
/// conditions, then what is replaced.
async fn carry_out(
    store: &dyn Store,
    part: PackagePart,
    actions: Vec<LineAction>,
    conditions: &[Condition],
) -> Result<(), StoreError> {
    let collection = part.collection();
    let (mut created, mut replaced) = (Vec::new(), Vec::new());
    for action in actions {
        match action {
            LineAction::Keep => {}
            LineAction::Create(document) => created.push(Change::Insert { collection, document }),
            LineAction::Replace { before, after } => replaced.push(Change::Replace { collection, before, after }),
        }
    }
    let largest = store.largest_unit();
    if largest == usize::MAX {
        created.append(&mut replaced);
        return commit(store, created, conditions).await;
    }
    for (changes, conditions) in [(created, conditions), (replaced, &[])] {
        let (mut unit, mut bytes) = (Vec::new(), 0);
        for change in changes {
            bytes += match &change {
                Change::Insert { document, .. } => document.as_bytes().len(),
                Change::Replace { after, .. } => after.as_bytes().len(),
                _ => 0,
            };
            unit.push(change);
            if unit.len() >= largest || bytes >= BOUNDED_UNIT_BYTES {
                commit(store, std::mem::take(&mut unit), conditions).await?;
                bytes = 0;
            }
        }
        commit(store, unit, conditions).await?;
    }
    Ok(())
}

async fn commit(store: &dyn Store, changes: Vec<Change>, conditions: &[Condition]) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    store.commit(Unit { conditions: conditions.to_vec(), changes }).await.map(drop)
}

/// Tells of bad lines, and counts them.
struct Report<'a> {
    hear: &'a mut dyn FnMut(&BadLine),
    part: PackagePart,
    accept: bool,
    /// Bad lines of the part.
    bad: HashSet<u64>,
    /// Bad lines of all parts before it, and of it.
    lines: u64,
}

impl Report<'_> {
    fn turn_to(&mut self, part: PackagePart) {
        self.part = part;
        self.bad.clear();
    }

    fn wrong(&mut self, line: u64, field: impl Into<String>, reason: impl Into<String>) {
        if self.bad.insert(line) {
            self.lines += 1;
        }
        self.tell(line, field.into(), reason.into(), false);
    }

    /// What stored objects can be and new ones cannot.
    fn unclean(&mut self, line: u64, field: impl Into<String>, reason: impl Into<String>) {
        if self.accept {
            self.tell(line, field.into(), reason.into(), true);
        } else {
            self.wrong(line, field, reason);
        }
    }

    fn tell(&mut self, line: u64, field: String, reason: String, is_accepted: bool) {
        (self.hear)(&BadLine { file: self.part.file(), line, field, reason, is_accepted });
    }

    fn is_bad(&self, line: u64) -> bool {
        self.bad.contains(&line)
    }
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, line, field, reason, is_accepted } = self;
        let place = if field.is_empty() { String::new() } else { format!("{field}: ") };
        let accepted = if *is_accepted { " (accepted)" } else { "" };
        write!(formatter, "{file}, line {line}: {place}{reason}{accepted}")
    }
}
