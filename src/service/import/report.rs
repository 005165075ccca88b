//! What an import did, or would do, line by line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most lines that a report lists.
pub const MAX_LINES: usize = 10_000;
/// Most errors that a report lists.
pub const MAX_ERRORS: usize = 1_000;

/// What an import did.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ImportReport {
    /// How many objects are new.
    pub created: usize,
    /// How many objects were changed.
    pub updated: usize,
    /// How many objects were as the file says already.
    pub unchanged: usize,
    /// How many lines cannot be taken; with any of them nothing is changed.
    pub failed: usize,
    /// Whether all this is only what would happen.
    pub dry_run: bool,
    /// What happened to each line, in the order of the file; at most 10,000.
    pub lines: Vec<ReportLine>,
    /// How many lines are not in the list.
    pub lines_left_out: usize,
    /// What is wrong, in the order of the file; at most 1,000.
    pub errors: Vec<ReportError>,
    /// How many errors are not in the list.
    pub errors_left_out: usize,
}

/// What happened to a line.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReportLine {
    /// The line of the file, from 1.
    pub line: u64,
    /// What was done.
    pub action: Action,
    /// The object's id; not for one that a dry run would create with a new id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = i64)]
    pub public_id: Option<i64>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportError {
    /// The line of the file, from 1.
    pub line: u64,
    /// The field or column; empty where it is the line as a whole.
    pub field: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

/// What is done with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// A new object.
    Created,
    /// An object that was changed.
    Updated,
    /// An object that is so already.
    Unchanged,
}

impl ReportError {
    /// An error on a line.
    pub fn new(line: u64, field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { line, field: field.into(), reason: reason.into() }
    }
}

impl ImportReport {
    /// A report of what is wrong.
    pub fn refused(mut errors: Vec<ReportError>, dry_run: bool) -> Self {
        errors.sort_by_key(|error| error.line);
        let mut lines: Vec<u64> = errors.iter().map(|error| error.line).collect();
        lines.dedup();
        let errors_left_out = errors.len().saturating_sub(MAX_ERRORS);
        errors.truncate(MAX_ERRORS);
        Self { failed: lines.len(), dry_run, errors, errors_left_out, ..Self::default() }
    }

    /// Adds what happened to a line.
    pub fn add(&mut self, line: ReportLine) {
        match line.action {
            Action::Created => self.created += 1,
            Action::Updated => self.updated += 1,
            Action::Unchanged => self.unchanged += 1,
        }
        if self.lines.len() < MAX_LINES { self.lines.push(line) } else { self.lines_left_out += 1 }
    }

    /// Whether all lines could be taken.
    pub fn is_good(&self) -> bool {
        self.failed == 0
    }
}
