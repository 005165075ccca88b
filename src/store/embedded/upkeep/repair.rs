//! Work on a store that nobody has open: checking all of it, repairing it, compacting it.
//!
//! Each of these reads the file through an overlay and never writes to it. The repaired store is a new file, which
//! replaces the old one when it is completely on disk.

use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::catalog::meta::META;
use crate::store::embedded::failure;
use crate::store::embedded::index::table::{UniqueDefinition, counts_name, data_name, delete_index, table_name};
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::recovery::{self, Unreplayed};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::open::replace;
use crate::store::embedded::options::Options;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::embedded::upkeep::check::{self, Damaged, Findings};
use crate::store::embedded::upkeep::space::{self, Compacted};
use crate::store::embedded::write::{copy, replay};

/// Why a store could not be repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// It cannot be opened at all.
    #[error("{}", beyond_repair(.0))]
    Open(#[from] OpenError),
    /// Documents are damaged.
    #[error("documents in {} are damaged and cannot be made whole; the file stays as it is: restore a backup with inventory-service restore FILE --force", .0.display())]
    Documents(PathBuf),
    /// Two documents have the same unique value.
    #[error(
        "two documents of {collection} have the same {key}: a repair would have to drop one of them; restore a backup with inventory-service restore FILE --force"
    )]
    Duplicate {
        /// The collection's name.
        collection: String,
        /// The name of the unique index.
        key: String,
    },
}

/// A damaged store that cannot be opened is not sent back to the check that sent it here.
fn beyond_repair(error: &OpenError) -> String {
    match error {
        OpenError::Damaged { path, what } => format!(
            "{} cannot be repaired: {what}; it stays as it is: restore a backup with inventory-service restore FILE --force",
            path.display()
        ),
        other => other.to_string(),
    }
}

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong.
    pub before: Findings,
    /// The remaining errors: none, unless the repair is faulty.
    pub after: Findings,
    /// Where the old file is kept; `None` when nothing needed repair.
    pub kept: Option<PathBuf>,
}

/// Checks the store in a directory completely: the checksum of each page, each document, each index against a rebuild,
/// the counters and notes. Reads everything about twice, and writes nothing.
///
/// # Errors
/// When there is no store, or it is in use. Damage is a finding, even if the store cannot be opened.
pub fn check(directory: &Path, options: &Options) -> Result<Findings, OpenError> {
    check_at(&StoreFiles::existing(directory, options)?)
}

/// Rebuilds indexes, counters and notes from intact documents. Keeps the old file.
///
/// # Errors
/// When documents are damaged, or there is nothing to open. Nothing has changed then.
pub fn repair(directory: &Path, options: &Options) -> Result<Repaired, RepairError> {
    repair_at(&StoreFiles::existing(directory, options)?)
}

/// Checks the store, and replaces it with a copy without unused space.
///
/// # Errors
/// [`OpenError::Damaged`] when it is damaged. After every error the old file is in its place. Only if the directory
/// could not be synced, the new file may be there, with the same content.
pub fn compact(directory: &Path, options: &Options) -> Result<Compacted, OpenError> {
    space::compact(&StoreFiles::existing(directory, options)?)
}

pub(crate) fn check_at(files: &StoreFiles) -> Result<Findings, OpenError> {
    let mut found = match recovery::open_overlay(files) {
        Err(OpenError::Damaged { what, .. }) => return Ok(file_is_damaged(files, &what)),
        opened => opened?,
    };
    let pages = recovery::verify(files, &mut found.database);
    if pages.is_ok() {
        match recovery::bring_up_to_date(files, &found) {
            Err(OpenError::Damaged { what, .. }) => return Ok(file_is_damaged(files, &what)),
            brought => found.catalog = brought?,
        }
    }
    let mut findings = findings(files, &found.database, &found.catalog)?;
    if let Err(OpenError::Damaged { what, .. }) = &pages {
        findings.report(Damaged::File, &name(files), what.clone());
    } else {
        pages?;
    }
    Ok(findings)
}

fn file_is_damaged(files: &StoreFiles, what: &str) -> Findings {
    let mut findings = Findings::default();
    findings.report(Damaged::File, &name(files), what.to_owned());
    findings
}

fn name(files: &StoreFiles) -> String {
    files.paths().file().display().to_string()
}

fn findings(files: &StoreFiles, database: &Database, catalog: &Catalog) -> Result<Findings, OpenError> {
    let checked = failure::guarded(|| {
        let snapshot = Snapshot::take(database, catalog.clone()).map_err(|error| failure::of_engine(error.into()))?;
        let mut findings = check::check(&snapshot)?;
        for stranger in strangers(database, catalog).map_err(failure::of_engine)? {
            findings.report(Damaged::Catalog, &name(files), format!("the table {stranger} belongs to nothing"));
        }
        Ok(findings)
    });
    match checked {
        Err(StoreError::Corrupt { what }) => Ok(file_is_damaged(files, &what)),
        Err(error) => Err(files.paths().store_error(error)),
        Ok(findings) => Ok(findings),
    }
}

/// Tables that nothing in the catalog leads to: their space is lost until the store is repaired or compacted.
fn strangers(database: &Database, catalog: &Catalog) -> Result<Vec<String>, redb::Error> {
    let known = |name: &str| {
        name == redb::TableHandle::name(&META)
            || catalog.iter().any(|own| {
                name == data_name(own.number)
                    || name == counts_name(own.number)
                    || own.indexes.iter().any(|index| name == table_name(own.number, index))
            })
    };
    let transaction = database.begin_read()?;
    let names = transaction.list_tables()?.map(|table| redb::TableHandle::name(&table).to_owned());
    Ok(names.filter(|name| !known(name)).collect())
}

pub(crate) fn repair_at(files: &StoreFiles) -> Result<Repaired, RepairError> {
    let before = check_at(files)?;
    if before.is_sound() {
        return Ok(Repaired { after: before.clone(), before, kept: None });
    }
    let Unreplayed { mut database, mut catalog, records, has_page_checksums } = recovery::open_overlay(files)?;
    if before.concern(Damaged::File) && !has_page_checksums {
        // Damage may be in indexes alone, so the check is repeated without them. In a log of pages each page is
        // compared with its checksum, so reading the documents is enough.
        drop_indexes(&database, &catalog)
            .and_then(|()| recovery::verify(files, &mut database).ok())
            .ok_or_else(|| RepairError::Documents(files.paths().file().to_owned()))?;
    }
    let readable = replay::store_documents(&database, &mut catalog, &records)
        .and_then(|()| failure::guarded(|| copy::documents_decode(&database, &catalog).map_err(failure::of_engine)));
    let readable = match readable {
        Err(StoreError::Corrupt { .. }) => false,
        // A disk that cannot be read does not show whether the documents are sound.
        readable => readable.map_err(|error| files.paths().store_error(error))?,
    };
    if before.concern(Damaged::Document) || !readable {
        return Err(RepairError::Documents(files.paths().file().to_owned()));
    }
    let kept = replace::keep_copy(files)?;
    let mut duplicate = None;
    let written = replace::write_new(files, |target| {
        copy::rebuilt(&database, &catalog, target).inspect_err(|error| {
            if let StoreError::Duplicate { collection, key } = error {
                duplicate = Some(RepairError::Duplicate { collection: collection.clone(), key: key.clone() });
            }
        })
    });
    if let Err(error) = written {
        replace::forget_copy(files, &kept);
        return Err(duplicate.unwrap_or(RepairError::Open(error)));
    }
    drop(database);
    Ok(Repaired { before, after: check_at(files)?, kept: Some(kept) })
}

/// Drops the indexes; `None` when their pages do not allow that.
fn drop_indexes(database: &Database, catalog: &Catalog) -> Option<()> {
    let dropped = failure::caught(|| -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        for collection in catalog.iter() {
            for index in &collection.indexes {
                delete_index(&transaction, collection.number, index.number)?;
            }
            transaction.delete_table(UniqueDefinition::new(&counts_name(collection.number)))?;
        }
        transaction.commit()?;
        Ok(())
    });
    dropped.ok()?.ok()
}
