//! The history of a package is imported into a store that has no other. Then documents need no entries of this
//! import. Into any other store only the documents come, each with an entry.

use std::collections::HashSet;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use crate::moving::MovingError;
use crate::moving::package::PackagePart;
use crate::query::Filter;
use crate::service::history::kept;
use crate::store::{FindQuery, StoreError};

use super::lines::{Batches, Line};
use super::{Import, LineAction, MAX_TIME, Summary, carry_out};

const PART: PackagePart = PackagePart::History;

impl Import<'_> {
    /// Decides whether the history comes along: the store has no entry that the package does not have.
    pub(super) async fn check_history(&mut self) -> Result<Summary, MovingError> {
        let none = Summary { part: PART, created: 0, updated: 0, unchanged: 0 };
        if self.documents(PART) == 0 {
            return Ok(none);
        }
        let mut summary = none;
        let stored = self.store.count(PART.collection(), &Filter::all(), MAX_TIME).await?;
        let mut batches = Batches::open(&self.directory.join(PART.file()));
        while let Some(lines) = batches.next().await? {
            let all = lines.len() as u64;
            let missing = self.missing_entries(lines).await?.len() as u64;
            summary.created += missing;
            summary.unchanged += all - missing;
        }
        self.takes_history = summary.unchanged == stored;
        Ok(if self.takes_history { summary } else { none })
    }

    /// Stores the entries that are missing, and since when the history is whole.
    pub(super) async fn write_history(&mut self) -> Result<(), MovingError> {
        if !self.takes_history {
            return Ok(());
        }
        let stopped = |source| MovingError::Stopped { file: PART.file(), source };
        self.progress.begin("history processed", self.documents(PART));
        let mut batches = Batches::open(&self.directory.join(PART.file()));
        while let Some(lines) = batches.next().await? {
            let count = lines.len() as u64;
            let missing = self.missing_entries(lines).await?.into_iter().map(LineAction::Create).collect();
            carry_out(self.store, PART, missing, &[]).await.map_err(stopped)?;
            self.progress.advance(count, "");
        }
        self.progress.end();
        let since = self.manifest.history_since().unwrap_or((self.now, 0));
        kept::move_to(self.store, since, MAX_TIME).await.map_err(stopped)
    }

    /// The entries of these lines that the store does not have.
    async fn missing_entries(&mut self, lines: Vec<Line>) -> Result<Vec<RawDocumentBuf>, MovingError> {
        let (mut ids, mut entries) = (Vec::with_capacity(lines.len()), Vec::with_capacity(lines.len()));
        for line in lines {
            match line.content.and_then(|entry| with_id(&entry)) {
                Ok((id, entry)) => {
                    ids.push(id);
                    entries.push(entry);
                }
                Err(reason) => self.report.wrong(line.number, "", reason),
            }
        }
        let query = FindQuery::new(Filter::one_of("_id", ids), MAX_TIME);
        let found = self.store.find(PART.collection(), &query).await?;
        let stored: HashSet<&[u8]> = found.iter().map(RawDocument::as_bytes).collect();
        entries.retain(|entry: &RawDocumentBuf| !stored.contains(entry.as_bytes()));
        Ok(entries)
    }
}

fn with_id(entry: &Document) -> Result<(Bson, RawDocumentBuf), String> {
    let id = entry.get("_id").ok_or("_id is required")?.clone();
    let raw = RawDocumentBuf::try_from(entry).map_err(StoreError::backend).map_err(|error| error.to_string())?;
    Ok((id, raw))
}
