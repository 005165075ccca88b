//! What a store reports of itself: findings for an operator, figures for a monitor.

use std::fmt;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Information; the service runs.
    Note,
    /// The service does not run like this, or not safely.
    Wrong,
}

/// The result of one check, in a sentence for the operator. A wrong one says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How grave.
    pub verdict: Verdict,
    /// The name of the check: `version`, `clock`.
    pub subject: &'static str,
    /// What was found.
    pub text: String,
}

impl Finding {
    /// As it should be.
    pub fn good(subject: &'static str, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Good, subject, text: text.into() }
    }

    /// Information without a fault.
    pub fn note(subject: &'static str, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Note, subject, text: text.into() }
    }

    /// To be put right.
    pub fn wrong(subject: &'static str, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Wrong, subject, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Good => "ok",
            Verdict::Note => "note",
            Verdict::Wrong => "WRONG",
        };
        write!(formatter, "{verdict:<5}  {:<12}  {}", self.subject, self.text)
    }
}

/// The free space below which a store may soon be unable to write.
const TOO_LITTLE_MIB: u64 = 256;
/// The percentage of free space below which the disk of a store needs attention.
const LITTLE: u64 = 10;

/// The finding about the free space on the disk of a store in `place`.
pub fn room(place: &str, free_bytes: u64, total_bytes: u64) -> Finding {
    let (free, total) = (free_bytes >> 20, total_bytes >> 20);
    let text = format!("{free} of {total} MiB are free on the disk of {place}");
    if free < TOO_LITTLE_MIB {
        Finding::wrong("disk", format!("{text}; make room, or writes will fail"))
    } else if free_bytes / LITTLE < total_bytes / 100 {
        Finding::note("disk", format!("{text}, less than {LITTLE} %"))
    } else {
        Finding::good("disk", text)
    }
}

/// The finding about indexes: `missing` of `declared`, as `collection.index`.
pub fn indexes(declared: usize, missing: &[String], is_new: bool) -> Finding {
    if is_new {
        return Finding::note(
            "indexes",
            "the service has not started on this store yet; the first start makes collections and indexes",
        );
    }
    if missing.is_empty() {
        return Finding::good("indexes", format!("all {declared} are there"));
    }
    let missing = missing.join(", ");
    Finding::wrong("indexes", format!("missing: {missing}; start the service, which makes them before it answers"))
}

/// The finding about unique indexes that stored documents make impossible: each with the documents.
pub fn clashing(indexes: &[String]) -> Finding {
    let indexes = indexes.join(". ");
    let text = format!(
        "documents of the same key stand in the way of a unique index: {indexes}. Change or delete all but one of each, \
         then start the service"
    );
    Finding::wrong("indexes", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_full_disk_is_wrong_and_a_rather_full_one_is_noted() {
        assert_eq!(room("data", GIB / 8, GIB).verdict, Verdict::Wrong);
        assert_eq!(room("data", GIB, 20 * GIB).verdict, Verdict::Note);
        assert_eq!(room("data", 10 * GIB, 20 * GIB).verdict, Verdict::Good);
        assert_eq!(
            room("data", GIB, GIB).to_string(),
            "ok     disk          1024 of 1024 MiB are free on the disk of data"
        );
    }

    #[test]
    fn a_missing_index_is_named() {
        let finding = indexes(3, &["framework.types.name".to_owned()], false);
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.text.starts_with("missing: framework.types.name;"), "{finding}");
        assert_eq!(indexes(3, &["framework.types.name".to_owned()], true).verdict, Verdict::Note);
    }
}
