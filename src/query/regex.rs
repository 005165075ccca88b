//! Regular expressions with the meaning they have in MongoDB: PCRE in UTF mode.

use super::error::EvalError;
use super::raw::View;

/// How often the engine may go back before it gives up.
const BACKTRACK_LIMIT: usize = 1_000_000;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct Regex {
    pattern: String,
    options: String,
    engine: fancy_regex::Regex,
}

impl Regex {
    /// Compiles a pattern with options out of `imsxu`.
    ///
    /// # Errors
    /// MongoDB's number and a sentence.
    pub fn new(pattern: &str, options: &str) -> Result<Self, (i32, String)> {
        if let Some(unknown) = options.chars().find(|option| !"imsxu".contains(*option)) {
            return Err((51108, format!("unknown option {unknown:?}; the options are i, m, s, x and u")));
        }
        let has = |option| options.contains(option);
        let engine = fancy_regex::RegexBuilder::new(pattern)
            .case_insensitive(has('i'))
            .multi_line(has('m'))
            .dot_matches_new_line(has('s'))
            .ignore_whitespace(has('x'))
            .backtrack_limit(BACKTRACK_LIMIT)
            .build()
            .map_err(|error| (51091, format!("not a valid regular expression: {error}")))?;
        Ok(Self { pattern: pattern.to_owned(), options: options.to_owned(), engine })
    }

    /// For searches that want to know where a text matches.
    pub(super) fn engine(&self) -> &fancy_regex::Regex {
        &self.engine
    }

    /// The pattern as the client sent it.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options as the client sent them.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether a text matches, or a stored regular expression is the same one.
    ///
    /// # Errors
    /// When the engine goes back and forth too long.
    pub fn matches(&self, value: View<'_>) -> Result<bool, EvalError> {
        match value {
            View::Text(text) => {
                let Ok(text) = std::str::from_utf8(text) else { return Ok(false) };
                self.engine
                    .is_match(text)
                    .map_err(|error| EvalError::new(51156, format!("/{}/: {error}", self.pattern)))
            }
            View::Regex(pattern, options) => {
                Ok(pattern == self.pattern.as_bytes() && options == self.options.as_bytes())
            }
            _ => Ok(false),
        }
    }
}
