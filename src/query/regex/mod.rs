//! Regular expressions with the meaning they have in MongoDB: PCRE in UTF mode.
//!
//! The engine is `fancy-regex`. [`translate`] rewrites a pattern in the dialect of the engine, and refuses constructs that
//! the engine lacks. Patterns without references and lookaround run in linear time.

mod brackets;
mod class;
mod escapes;
mod groups;
mod repeat;
mod translate;

use std::sync::Arc;

use memchr::memmem::Finder;

use super::error::EvalError;
use super::raw::View;

/// How often the engine may backtrack before it gives up.
const BACKTRACK_LIMIT: usize = 1_000_000;

/// MongoDB's number for a pattern that cannot be compiled.
const INVALID: i32 = 51091;

/// A compiled regular expression. Cheap to clone: copies share the memory that searches need.
#[derive(Debug, Clone)]
pub struct Regex(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    pattern: String,
    options: String,
    engine: fancy_regex::Regex,
    /// Finds the pattern where it is a plain text.
    literal: Option<Finder<'static>>,
}

/// Two are equal that were written alike.
impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        (self.pattern(), self.options()) == (other.pattern(), other.options())
    }
}

impl Eq for Regex {}

impl Regex {
    /// Compiles a pattern with options out of `imsxu`.
    ///
    /// # Errors
    /// MongoDB's number and a sentence.
    pub fn new(pattern: &str, options: &str) -> Result<Self, (i32, String)> {
        if let Some(unknown) = options.chars().find(|option| !"imsxu".contains(*option)) {
            return Err((51108, format!("unknown option {unknown:?}; the options are i, m, s, x and u")));
        }
        if pattern.contains('\0') {
            return Err((2, "a regular expression must not contain a zero byte; write \\x00".to_owned()));
        }
        let invalid = |reason: String| (INVALID, format!("not a valid regular expression: {reason}"));
        let translated = translate::translate(pattern, options).map_err(invalid)?;
        let engine = fancy_regex::RegexBuilder::new(&translated)
            .case_insensitive(options.contains('i'))
            .backtrack_limit(BACKTRACK_LIMIT)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        let (pattern, options) = (pattern.to_owned(), options.to_owned());
        let is_literal = options.is_empty() && !pattern.is_empty() && pattern.chars().all(stands_for_itself);
        let literal = is_literal.then(|| Finder::new(&pattern).into_owned());
        Ok(Self(Arc::new(Compiled { pattern, options, engine, literal })))
    }

    /// The pattern as the client sent it.
    pub fn pattern(&self) -> &str {
        &self.0.pattern
    }

    /// The options as the client sent them.
    pub fn options(&self) -> &str {
        &self.0.options
    }

    /// The text that every match begins with; empty if none is known.
    pub fn prefix(&self) -> &str {
        if self.options().is_empty() { literal_prefix(self.pattern()) } else { "" }
    }

    /// Whether it is a plain text, which is found in one pass.
    pub fn is_literal(&self) -> bool {
        self.0.literal.is_some()
    }

    /// For searches that want to know where a text matches.
    pub(super) fn engine(&self) -> &fancy_regex::Regex {
        &self.0.engine
    }

    /// Whether a text matches, or a stored regular expression is equal.
    ///
    /// # Errors
    /// When the engine backtracks too long.
    pub fn matches(&self, value: View<'_>) -> Result<bool, EvalError> {
        match value {
            View::Text(text) => self.finds(text),
            View::Regex(pattern, options) => {
                Ok(pattern == self.pattern().as_bytes() && options == self.options().as_bytes())
            }
            _ => Ok(false),
        }
    }

    /// Whether a text matches.
    ///
    /// # Errors
    /// As [`Regex::matches`].
    pub fn finds(&self, text: &[u8]) -> Result<bool, EvalError> {
        if self.0.literal.as_ref().is_some_and(|literal| literal.find(text).is_none()) {
            return Ok(false);
        }
        let Ok(text) = std::str::from_utf8(text) else { return Ok(false) };
        if self.0.literal.is_some() {
            return Ok(true);
        }
        self.0.engine.is_match(text).map_err(|error| EvalError::new(51156, format!("/{}/: {error}", self.pattern())))
    }
}

/// The text that every match of the pattern begins with.
fn literal_prefix(pattern: &str) -> &str {
    let Some(anchored) = pattern.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return "" };
    let end = anchored.find(|c: char| ".^$*+?()[]{}\\#\0".contains(c) || c.is_whitespace()).unwrap_or(anchored.len());
    let literal = &anchored[..end];
    // The last character may be optional or repeated.
    if anchored[end..].starts_with(['*', '?', '{']) {
        let last = literal.chars().next_back().map_or(0, char::len_utf8);
        return &literal[..literal.len() - last];
    }
    literal
}

/// Whether a character of a pattern means nothing but itself.
fn stands_for_itself(c: char) -> bool {
    c.is_alphanumeric() || "-_ @:/,;=~'\"%&<>!".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, options: &str, texts: &[&'static str]) -> Vec<&'static str> {
        let regex = Regex::new(pattern, options).expect(pattern);
        texts.iter().copied().filter(|text| regex.matches(View::Text(text.as_bytes())).expect("no limit")).collect()
    }

    fn refused(pattern: &str) {
        let (code, message) = Regex::new(pattern, "").expect_err(pattern);
        assert_eq!(code, INVALID, "{pattern}: {message}");
    }

    #[test]
    fn a_plain_text_is_found_as_the_engine_finds_it() {
        for pattern in ["web", "a-b", "é", "x y", "10/8"] {
            let regex = Regex::new(pattern, "").expect("valid");
            assert!(regex.0.literal.is_some());
            for text in ["web-1", "the web", "we b", "a-b", "é", "e", "x y", "10/8", ""] {
                let found = regex.finds(text.as_bytes()).expect("no limit");
                assert_eq!(found, regex.engine().is_match(text).expect("no limit"), "{pattern} {text}");
            }
        }
        assert!(!Regex::new("web", "").expect("valid").finds(b"\xff web").expect("no limit"));
        for (pattern, options) in [("we.", ""), ("web", "i"), ("^web", ""), ("we b", "x"), ("", "")] {
            assert!(Regex::new(pattern, options).expect("valid").0.literal.is_none(), "{pattern}");
        }
    }

    #[test]
    fn dollar_matches_before_a_final_newline() {
        assert_eq!(found("a$", "", &["a\n", "a", "a\n\n", "a\r\n"]), ["a\n", "a"]);
        assert_eq!(found("^$", "m", &["", "\n", "a\n", "a\n\nb"]), ["", "\n", "a\n\nb"]);
    }

    #[test]
    fn caret_does_not_match_behind_a_final_newline() {
        assert_eq!(found("\\n^", "m", &["a\n", "a\nb"]), ["a\nb"]);
    }

    #[test]
    fn classes_of_characters_are_ascii() {
        assert_eq!(found(r"^\w$", "", &["e", "é", "_", "5"]), ["e", "_", "5"]);
        assert_eq!(found(r"^\d$", "", &["5", "٥"]), ["5"]);
        assert_eq!(found(r"^\s$", "", &[" ", "\x0b", "\u{a0}"]), [" ", "\x0b"]);
        assert_eq!(found(r"\bé", "", &["é", "aé"]), ["aé"]);
        assert_eq!(found(r"(*UCP)^\w$", "", &["é"]), ["é"]);
    }

    #[test]
    fn case_is_folded_beyond_ascii() {
        assert_eq!(found("^ä$", "i", &["Ä", "ä", "A"]), ["Ä", "ä"]);
        assert_eq!(found(r"^[\W]$", "i", &["k", "-"]), ["-"]);
        assert_eq!(found(r"^[^\W]$", "i", &["k", "-"]), ["k"]);
    }

    #[test]
    fn brackets_are_read_as_pcre_reads_them() {
        assert_eq!(found("^[]a]$", "", &["]", "a", "b"]), ["]", "a"]);
        assert_eq!(found("[a&&b]", "", &["&", "a", "b"]), ["&", "a", "b"]);
        assert_eq!(found("[[:alpha:]\\d-]", "", &["a", "1", "-", "é"]), ["a", "1", "-"]);
        assert_eq!(found("[[a]", "", &["[", "a"]), ["[", "a"]);
        assert_eq!(found(r"[\b]", "", &["\x08", "b"]), ["\x08"]);
    }

    #[test]
    fn escapes_are_read_as_pcre_reads_them() {
        assert_eq!(found(r"^\x41\x{42}\103\o{104}$", "", &["ABCD"]), ["ABCD"]);
        assert_eq!(found(r"\Qa.b\E.", "", &["a.bc", "axbc"]), ["a.bc"]);
        assert_eq!(found(r"^\h\R$", "", &["\t\r\n", "a\n"]), ["\t\r\n"]);
        assert_eq!(found(r"(a)\g{-1}", "", &["aa", "a"]), ["aa"]);
        assert_eq!(found("a{,2}", "", &["a{,2}", "aa"]), ["a{,2}"]);
        assert_eq!(found(r"(?(?=a)ab|c)", "", &["ab", "c", "a"]), ["ab", "c"]);
        assert_eq!(found(r"^(a(?1)?b)$", "", &["aabb", "aab"]), ["aabb"]);
    }

    #[test]
    fn the_extended_option_drops_space_and_comments() {
        assert_eq!(found("a + b # c\n", "x", &["aab", "a b"]), ["aab"]);
        assert_eq!(found(r"a\ [ ]b", "x", &["a  b"]), ["a  b"]);
        assert!(Regex::new("a # c", "x").is_err());
    }

    #[test]
    fn what_pcre_refuses_is_refused() {
        for pattern in [
            "*", "a**", "^*a", "a{1}{2}", "(", ")", "[", "[z-a]", "[a-\\d]", "[[:foo:]]", "\\", "\\c", "\\u0041",
            "(?z)", "(?<1a>b)", "(?<n>a)|(?<n>b)", "\\2(a)", "\\p{greek}", "\\p{Letter}", "(?<=a+)d", "(?<=(a|bc))d",
            "a{65536}", "x{3,2}", "(aa){3,4999}", "(?:ab){9000}", "\\Qab", "(*FOO)a",
        ] {
            refused(pattern);
        }
    }

    #[test]
    fn large_repetitions_that_pcre_takes_are_taken() {
        for pattern in ["(?:ab){6000}", "(a|b){2000}", "[ab]{2000}", "a{65535}"] {
            assert!(Regex::new(pattern, "").is_ok(), "{pattern}");
        }
    }

    #[test]
    fn runaway_patterns_end_in_an_error() {
        let regex = Regex::new(r"^(a|aa)+$(?<!a)", "").expect("valid");
        let text = "a".repeat(80);
        assert_eq!(regex.matches(View::Text(text.as_bytes())).expect_err("limited").code, 51156);
    }
}
