//! `check --deep` and `check --repair`: reads an embedded store completely, or rebuilds it from its documents.

use std::path::Path;

use crate::plural::counted;
use crate::settings::StoreSettings;
use crate::store::embedded::maintenance;
use crate::store::embedded::{Damaged, Findings};

use super::super::output::say;
use super::{Outcome, documents};

/// Prints the errors of the store in the directory; succeeds if there are none, or none any more.
pub(super) async fn run(directory: &Path, settings: &StoreSettings, repair: bool) -> Outcome {
    let (path, options) = (directory.to_owned(), settings.embedded_options());
    if repair {
        let repaired = tokio::task::spawn_blocking(move || maintenance::repair(&path, &options)).await??;
        let Some(kept) = &repaired.kept else {
            say!("{}; nothing had to be repaired", read(&repaired.before));
            return Ok(());
        };
        list(&repaired.before)?;
        say!("{}; indexes, counters and notes were made anew from the documents", read(&repaired.after));
        say!("the file as it was is kept as {}; remove it when you do not need it", kept.display());
        return verdict(directory, &repaired.after);
    }
    let findings = tokio::task::spawn_blocking(move || maintenance::check(&path, &options)).await??;
    list(&findings)?;
    say!("{}", read(&findings));
    verdict(directory, &findings)?;
    documents::run(settings).await
}

fn list(findings: &Findings) -> Outcome {
    for problem in &findings.problems {
        say!("{problem}");
    }
    if findings.unlisted > 0 {
        say!("and {} more", findings.unlisted);
    }
    Ok(())
}

fn read(findings: &Findings) -> String {
    format!("read {} and {} of indexes", counted(findings.documents, "document"), counted(findings.entries, "key"))
}

fn verdict(directory: &Path, findings: &Findings) -> Outcome {
    if findings.is_sound() {
        say!("the store is sound");
        return Ok(());
    }
    let remedy = if findings.documents_are_sound() {
        "its documents are whole: inventory-service check --repair makes the rest anew from them"
    } else if findings.concern(Damaged::Document) {
        "restore a backup with inventory-service restore FILE --force"
    } else {
        "inventory-service check --repair helps if only indexes are damaged; if it refuses, restore a backup with \
         inventory-service restore FILE --force"
    };
    Err(format!("the store in {} is not sound; {remedy}", directory.display()).into())
}
