//! The violations of a request body: a bounded list of places.
//!
//! A body of 1 MiB can be wrong in 100,000 places. A list keeps the first [`MOST`] of them and only counts the others.
//! Pointers and messages have bounded lengths, even for long names.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

/// The maximum number of violations in a list.
pub const MOST: usize = 100;

/// The maximum number of bytes of a pointer or of a message.
const LONGEST: usize = 1000;

/// How much of a long text stays at its end, because messages say there what is expected.
const TAIL: usize = 200;

/// A place in the body and its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Violation {
    /// A JSON pointer (RFC 6901) into the body, or the name of a parameter.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Violation {
    /// A violation at `pointer`. Long texts are shortened in the middle.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: clipped(pointer.into()), message: clipped(message.into()) }
    }
}

/// The first violations of a body, and the number of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations {
    listed: Vec<Violation>,
    left_out: usize,
}

impl Violations {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a violation; after the first [`MOST`] it is only counted.
    pub fn push(&mut self, violation: Violation) {
        if self.listed.len() < MOST { self.listed.push(violation) } else { self.left_out += 1 }
    }

    /// An error if there are any.
    ///
    /// # Errors
    /// These violations.
    pub fn none(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Adds all violations of another list, its uncounted ones too.
    pub fn append(&mut self, other: Self) {
        self.left_out += other.left_out;
        self.extend(other.listed);
    }

    /// The same violations, each changed by `change`.
    #[must_use]
    pub fn map(self, change: impl FnMut(Violation) -> Violation) -> Self {
        Self { listed: self.listed.into_iter().map(change).collect(), left_out: self.left_out }
    }

    /// Keeps the first violation of each pointer.
    pub fn keep_first_of_each_place(&mut self) {
        let mut places = std::collections::HashSet::new();
        self.listed.retain(|violation| places.insert(violation.pointer.clone()));
    }

    /// Lists at most `most` violations from here on, and counts the others.
    pub fn limit(&mut self, most: usize) {
        self.left_out += self.listed.len().saturating_sub(most);
        self.listed.truncate(most);
        self.listed.shrink_to_fit();
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The number of all violations, listed or not.
    pub fn count(&self) -> usize {
        self.listed.len() + self.left_out
    }

    /// Those that are named.
    pub fn listed(&self) -> &[Violation] {
        &self.listed
    }

    /// How many are not named.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether a listed violation is at this place.
    pub fn has(&self, pointer: &str) -> bool {
        self.listed.iter().any(|violation| violation.pointer == pointer)
    }

    /// Whether a listed violation is at this place or below it.
    pub fn has_below(&self, pointer: &str) -> bool {
        self.listed.iter().any(|violation| violation.pointer.starts_with(pointer))
    }
}

impl From<Violation> for Violations {
    fn from(violation: Violation) -> Self {
        Self { listed: vec![violation], left_out: 0 }
    }
}

impl Extend<Violation> for Violations {
    fn extend<I: IntoIterator<Item = Violation>>(&mut self, violations: I) {
        violations.into_iter().for_each(|violation| self.push(violation));
    }
}

impl FromIterator<Violation> for Violations {
    fn from_iter<I: IntoIterator<Item = Violation>>(violations: I) -> Self {
        let mut collected = Self::new();
        collected.extend(violations);
        collected
    }
}

impl IntoIterator for Violations {
    type Item = Violation;
    type IntoIter = std::vec::IntoIter<Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.listed.into_iter()
    }
}

/// A text of bounded length: a long one is shortened in the middle.
pub fn clipped(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let head = text.floor_char_boundary(LONGEST - TAIL);
    let tail = text.ceil_char_boundary(text.len() - TAIL);
    format!("{} … {}", &text[..head], &text[tail..])
}

/// A client's text as messages quote it: its first characters.
pub fn quoted(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 120;
    if text.len() <= SHOWN {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(SHOWN)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_the_first_and_counts_the_others() {
        let mut violations: Violations = (0..250).map(|index| Violation::new(format!("/{index}"), "wrong")).collect();
        assert_eq!((violations.listed().len(), violations.left_out(), violations.count()), (MOST, 150, 250));
        assert!(violations.has("/99") && !violations.has("/100"));
        violations.append(violations.clone());
        assert_eq!((violations.listed().len(), violations.count()), (MOST, 500));
        violations.limit(1);
        assert_eq!((violations.listed().len(), violations.count()), (1, 500));
    }

    #[test]
    fn a_long_text_loses_its_middle_between_two_characters() {
        let violation = Violation::new("é".repeat(5000), format!("no field {} here; take another", "ü".repeat(5000)));
        assert!(violation.pointer.len() < 1010 && violation.message.len() < 1010);
        assert!(violation.message.starts_with("no field ü") && violation.message.ends_with("ü here; take another"));
        assert_eq!(clipped("short".to_owned()), "short");
        assert_eq!(quoted("short"), "short");
        assert!(quoted(&"ü".repeat(500)).len() < 130);
    }
}
