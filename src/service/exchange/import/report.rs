//! What an import did, or would do, line by line.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::Violations;
use crate::domain::object_fields::FieldValue;
use crate::domain::violation::clipped;

/// The maximum number of lines in a report.
pub const MAX_LINES: usize = 10_000;
/// The maximum number of warnings in a report.
pub(super) const MAX_WARNINGS: usize = 100;
/// The maximum number of errors in a report.
pub const MAX_ERRORS: usize = 1_000;

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ImportReport {
    /// How many objects are new.
    pub created: usize,
    /// How many objects were changed.
    pub updated: usize,
    /// How many objects already equalled their line.
    pub unchanged: usize,
    /// How many lines are wrong. If there are any, nothing is changed.
    pub failed: usize,
    /// Whether the report is about a dry run.
    pub dry_run: bool,
    /// What happened to each line, in the order of the file; at most 10,000.
    pub lines: Vec<ReportLine>,
    /// How many lines are not in the list.
    pub lines_left_out: usize,
    /// The errors, in the order of the file; at most 1,000.
    pub errors: Vec<ReportError>,
    /// How many errors are not in the list.
    pub errors_left_out: usize,
    /// Values that were accepted but are probably not intended, in the order of the file; at most 100.
    pub warnings: Vec<ReportError>,
    /// How many warnings are not in the list.
    pub warnings_left_out: usize,
}

/// What happened to a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// What is wrong with a line, or noticeable about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportError {
    /// The line of the file, from 1.
    pub line: u64,
    /// The field or column; empty where it is the line as a whole.
    pub field: String,
    /// What it is, and how to correct it.
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

/// A report without errors in a compact form, to be stored and repeated. An outcome takes some fifty bytes, and most
/// lines are like the one before them.
#[derive(Debug, Serialize, Deserialize)]
struct KeptReport {
    created: usize,
    updated: usize,
    unchanged: usize,
    runs: Vec<Run>,
    lines_left_out: usize,
    #[serde(default)]
    warnings: Vec<ReportError>,
    #[serde(default)]
    warnings_left_out: usize,
}

/// A run of consecutive lines with the same outcome, and with consecutive ids or none: the first line, the outcome, the
/// first id, the number of lines.
#[derive(Debug, Serialize, Deserialize)]
struct Run(u64, Action, Option<i64>, u64);

/// The form of older builds: the report as clients see it.
#[derive(Debug, Deserialize)]
struct KeptInFull {
    created: usize,
    updated: usize,
    unchanged: usize,
    lines: Vec<ReportLine>,
    lines_left_out: usize,
}

impl Run {
    fn lines(&self) -> impl Iterator<Item = ReportLine> {
        let Self(first, action, id, count) = *self;
        (first..first.saturating_add(count)).zip(0_i64..).map(move |(line, number)| ReportLine {
            line,
            action,
            public_id: id.map(|first| first.saturating_add(number)),
        })
    }

    /// Adds the line to the run, if it continues it.
    fn goes_on_with(&mut self, next: &ReportLine) -> bool {
        let is_next_id = match (self.2, next.public_id) {
            (Some(first), Some(id)) => first.checked_add_unsigned(self.3) == Some(id),
            (first, id) => first == id,
        };
        let is_next = is_next_id && self.1 == next.action && self.0.checked_add(self.3) == Some(next.line);
        self.3 += u64::from(is_next);
        is_next
    }
}

impl ReportError {
    /// An error on a line. Long texts are shortened in the middle.
    pub fn new(line: u64, field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { line, field: clipped(field.into()), reason: clipped(reason.into()) }
    }
}

/// The errors of a file in the order of its lines: the first ones, and the number of all others.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportErrors {
    listed: Vec<ReportError>,
    left_out: usize,
    /// How many lines have errors.
    lines: usize,
    /// The last one of them.
    last: u64,
    /// The columns that are missing.
    missing: BTreeSet<String>,
}

impl ReportErrors {
    /// Adds an error; after the first [`MAX_ERRORS`] it is only counted.
    pub(super) fn push(&mut self, error: ReportError) {
        if self.last != error.line {
            self.lines += 1;
            self.last = error.line;
        }
        if self.listed.len() < MAX_ERRORS { self.listed.push(error) } else { self.left_out += 1 }
    }

    /// Adds that the table lacks a column, once for all lines that need it.
    pub(super) fn push_missing(&mut self, header: u64, field: &str) {
        if self.missing.insert(field.to_owned()) {
            let reason = "is required, but the table has no such column";
            self.listed.push(ReportError::new(header, field, reason));
            self.lines += usize::from(self.missing.len() == 1);
        }
    }

    /// Adds the violations of the body of a line with these fields, except for fields that already have an error in
    /// `said`.
    pub(super) fn add_violations(
        &mut self,
        line: u64,
        violations: Violations,
        fields: &[FieldValue],
        said: &HashSet<String>,
    ) {
        self.left_out += violations.left_out();
        for violation in violations {
            let field = name_of(&violation.pointer, fields);
            if !said.contains(field) {
                self.push(ReportError::new(line, field, violation.message));
            }
        }
    }

    /// Adds the errors of other lines.
    pub(super) fn append(&mut self, other: Self) {
        self.lines += other.lines;
        self.left_out += other.left_out;
        self.listed.extend(other.listed);
        self.listed.sort_by_key(|error| error.line);
        self.left_out += self.listed.len().saturating_sub(MAX_ERRORS);
        self.listed.truncate(MAX_ERRORS);
    }

    /// The number of all errors, listed or not.
    pub(super) fn count(&self) -> usize {
        self.listed.len() + self.left_out
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The listed errors after the first `count`.
    pub(super) fn listed_since(&self, count: usize) -> impl Iterator<Item = &ReportError> {
        self.listed.iter().skip(count)
    }
}

impl ImportReport {
    /// A report of what is wrong.
    pub(super) fn refused(errors: ReportErrors, dry_run: bool) -> Self {
        let ReportErrors { listed, left_out, lines, .. } = errors;
        Self { failed: lines, dry_run, errors: listed, errors_left_out: left_out, ..Self::default() }
    }

    /// Adds warnings; after the first [`MAX_WARNINGS`] they are only counted.
    pub(super) fn warn(&mut self, mut warnings: Vec<ReportError>) {
        self.warnings.append(&mut warnings);
        self.warnings.sort_by_key(|warning| warning.line);
        self.warnings_left_out += self.warnings.len().saturating_sub(MAX_WARNINGS);
        self.warnings.truncate(MAX_WARNINGS);
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

    /// The report of a completed import, as text to store.
    pub(super) fn kept(&self) -> String {
        let mut runs: Vec<Run> = Vec::new();
        for line in &self.lines {
            if !runs.last_mut().is_some_and(|run| run.goes_on_with(line)) {
                runs.push(Run(line.line, line.action, line.public_id, 1));
            }
        }
        let Self { created, updated, unchanged, lines_left_out, warnings_left_out, .. } = *self;
        let warnings = self.warnings.clone();
        let kept = KeptReport { created, updated, unchanged, runs, lines_left_out, warnings, warnings_left_out };
        serde_json::to_string(&kept).expect("numbers and strings can always be written")
    }

    /// The stored report; `None` if the text is not one.
    pub(super) fn from_kept(text: &str) -> Option<Self> {
        let Ok(kept) = serde_json::from_str(text) else { return Self::from_kept_in_full(text) };
        let KeptReport { created, updated, unchanged, runs, lines_left_out, warnings, warnings_left_out } = kept;
        let lines = runs.iter().flat_map(Run::lines).take(MAX_LINES).collect();
        let counts = Self { created, updated, unchanged, ..Self::default() };
        Some(Self { lines, lines_left_out, warnings, warnings_left_out, ..counts })
    }

    fn from_kept_in_full(text: &str) -> Option<Self> {
        let kept = serde_json::from_str(text).ok()?;
        let KeptInFull { created, updated, unchanged, lines, lines_left_out } = kept;
        Some(Self { created, updated, unchanged, lines, lines_left_out, ..Self::default() })
    }

    /// Whether all lines could be taken.
    pub fn is_good(&self) -> bool {
        self.failed == 0
    }
}

/// The name of the field that a pointer into a body with these fields leads to; else the pointer without its slash.
pub(super) fn name_of<'a>(pointer: &'a str, fields: &'a [FieldValue]) -> &'a str {
    let place = pointer.trim_start_matches('/');
    let field = place.strip_prefix("fields/").and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
    field.and_then(|index| fields.get(index)).map_or(place, |field| field.name.as_str())
}

/// Adds lines in the order of their rows.
pub(super) fn add_in_order(report: &mut ImportReport, mut written: Vec<(usize, ReportLine)>) {
    written.sort_by_key(|(row, _)| *row);
    for (_, line) in written {
        report.add(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: impl IntoIterator<Item = (u64, Action, Option<i64>)>) -> ImportReport {
        let mut report = ImportReport::default();
        for (line, action, public_id) in lines {
            report.add(ReportLine { line, action, public_id });
        }
        report
    }

    #[test]
    fn a_kept_report_is_told_again_as_it_was() {
        use Action::{Created, Unchanged, Updated};
        for lines in [
            vec![],
            vec![(2, Created, Some(7))],
            vec![(2, Created, None), (3, Created, None), (4, Created, Some(1)), (5, Created, None)],
            vec![(2, Unchanged, Some(7)), (3, Unchanged, Some(8)), (4, Updated, Some(9)), (5, Unchanged, Some(10))],
            vec![(2, Created, Some(9)), (3, Created, Some(8)), (9, Created, Some(9)), (9, Created, Some(10))],
            vec![(2, Created, Some(i64::MAX)), (3, Created, None), (4, Created, Some(i64::MIN))],
        ] {
            let report = report(lines);
            assert_eq!(ImportReport::from_kept(&report.kept()), Some(report));
        }
        assert_eq!(ImportReport::from_kept("no report"), None);
    }

    #[test]
    fn a_report_that_was_kept_in_full_is_told_again() {
        let kept = r#"{"created":1,"updated":0,"unchanged":1,"failed":0,"dry_run":false,"lines":[
            {"line":2,"action":"created","public_id":7},{"line":3,"action":"unchanged"}
        ],"lines_left_out":4,"errors":[],"errors_left_out":0}"#;
        let mut report = report([(2, Action::Created, Some(7)), (3, Action::Unchanged, None)]);
        report.lines_left_out = 4;
        assert_eq!(ImportReport::from_kept(kept), Some(report));
    }

    #[test]
    fn a_report_of_many_lines_that_are_alike_takes_few_bytes() {
        let lines = |line: u64| (line, Action::Unchanged, i64::try_from(line).ok());
        let report = report((2..20_000).map(lines));
        let kept = report.kept();
        assert!(kept.len() < 200, "{kept}");
        assert_eq!(ImportReport::from_kept(&kept), Some(report));
    }
}
