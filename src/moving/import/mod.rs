//! Reads a package into a store. It checks everything first: the files against the manifest, then every line against
//! the rules of requests and the stored documents. It writes nothing if one line is wrong. It skips documents that
//! exist with the same content, so repeating an interrupted import continues it.
//!
//! A file is one unit if the store takes units of any size, up to a bound of bytes that keeps memory constant. Beyond
//! it, and on other stores, it is several units in the order of its lines.
//!
//! Each query serves a batch of lines, never a single line. Types, categories, groups, users and settings are held in
//! memory as a whole. Objects are held a batch at a time, with the ids of all of them.

mod definitions;
mod history;
pub mod lines;
mod objects;
mod rules;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use bson::DateTime;
use bson::raw::RawDocumentBuf;

use crate::progress::Progress;
use crate::service::search::state;
use crate::store::{Change, Condition, Copying, Store, StoreError, Unit};

use self::rules::World;
use super::package::{Manifest, PackagePart};
use super::{MovingError, ids};

/// How long one query may take.
const MAX_TIME: Duration = Duration::from_mins(1);
/// How many bytes of documents one unit has, on a store with bounded units and on one without. Waiting documents are
/// held in memory.
const BOUNDED_UNIT_BYTES: usize = 4 * 1024 * 1024;
const UNIT_BYTES: usize = 64 * 1024 * 1024;

/// How to import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Whether to replace documents with other content; otherwise they are errors.
    pub update: bool,
    /// Whether to accept objects that break the present rules, as stored ones may: unclean ones, and those with deleted
    /// references or authors. They are reported all the same.
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
    /// Whether the line was imported anyway.
    pub is_accepted: bool,
}

/// The outcome of the lines of a file, real or simulated.
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

/// The store that is imported into.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    /// The store itself.
    pub plain: &'a dyn Copying,
    /// The same, with entries of the history for what changes.
    pub recorded: &'a dyn Store,
}

/// Imports the package in `directory`; calls `hear` for every bad line.
///
/// # Errors
/// [`MovingError`]. Nothing was changed, unless it is [`MovingError::Stopped`].
pub async fn import(
    stores: Stores<'_>,
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
        store: stores.plain,
        takes_history: false,
        directory,
        manifest,
        options,
        now,
        report: Report {
            hear,
            part: PackagePart::Types,
            accept: options.accept_unclean,
            bad: HashSet::new(),
            unclean_lines: HashSet::new(),
            lines: 0,
            unclean: 0,
        },
        progress,
        world: World::default(),
        plans: HashMap::new(),
        summaries: Vec::new(),
    };
    import.check().await?;
    if import.report.lines > 0 {
        let Report { lines, unclean, .. } = import.report;
        return Err(MovingError::Refused { lines, unclean });
    }
    if !options.dry_run {
        if import.takes_history {
            // Entries come with their objects, past everything that is kept for these.
            state::begin_again(stores.plain, MAX_TIME).await?;
        } else {
            import.store = stores.recorded;
        }
        // Before everything: nobody else may get an id that later lines still name.
        ids::pass(stores.plain, import.manifest.ids.clone()).await?;
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
    /// Whether the entries of the package are imported: the store has no others.
    takes_history: bool,
    directory: &'a Path,
    manifest: Manifest,
    options: ImportOptions,
    now: DateTime,
    report: Report<'a>,
    progress: &'a dyn Progress,
    world: World,
    /// The planned changes of all parts except the objects.
    plans: HashMap<&'static str, Vec<LineAction>>,
    summaries: Vec<Summary>,
}

impl Import<'_> {
    async fn check(&mut self) -> Result<(), MovingError> {
        for part in PackagePart::ALL {
            self.report.turn_to(part);
            let summary = match part {
                PackagePart::Objects => self.check_objects().await?,
                PackagePart::History => self.check_history().await?,
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
            match part {
                PackagePart::Objects => self.write_objects().await?,
                PackagePart::History => self.write_history().await?,
                _ => {
                    let actions = self.plans.remove(part.file()).unwrap_or_default();
                    carry_out(self.store, part, actions, &[]).await.map_err(stopped)?;
                }
            }
        }
        Ok(())
    }

    fn documents(&self, part: PackagePart) -> u64 {
        self.manifest.entry(part).map_or(0, |entry| entry.documents)
    }
}

/// Writes everything as one unit if the store allows it. Otherwise it writes units of bounded size: new documents with
/// their conditions, then replacements.
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

/// Reports bad lines, and counts them.
struct Report<'a> {
    hear: &'a mut dyn FnMut(&BadLine),
    part: PackagePart,
    accept: bool,
    /// Bad lines of the part.
    bad: HashSet<u64>,
    /// Those of them that are unclean and nothing worse.
    unclean_lines: HashSet<u64>,
    /// Bad lines of all parts before it, and of it.
    lines: u64,
    /// Those of them that `accept` would take.
    unclean: u64,
}

impl Report<'_> {
    fn turn_to(&mut self, part: PackagePart) {
        self.part = part;
        self.bad.clear();
        self.unclean_lines.clear();
    }

    fn wrong(&mut self, line: u64, field: impl Into<String>, reason: impl Into<String>) {
        if self.bad.insert(line) {
            self.lines += 1;
        } else if self.unclean_lines.remove(&line) {
            self.unclean -= 1;
        }
        self.tell(line, field.into(), reason.into(), false);
    }

    /// Deviations that stored objects may have and new ones may not.
    fn unclean(&mut self, line: u64, field: impl Into<String>, reason: impl Into<String>) {
        if self.accept {
            self.tell(line, field.into(), reason.into(), true);
        } else {
            if self.bad.insert(line) {
                self.unclean_lines.insert(line);
                (self.lines, self.unclean) = (self.lines + 1, self.unclean + 1);
            }
            self.tell(line, field.into(), reason.into(), false);
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
