//! What is asked for: words, and the terms of objects that have them.

use std::collections::HashSet;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::documents::{object_of, terms_of};
use crate::domain::words::{Word, alone, whole, words};

/// A question has at most this many words.
pub const MOST_WORDS: usize = 8;
/// How an object matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// All of a value is what was asked for.
    Value,
    /// It has all words.
    Word,
    /// It has all words, the last one as a beginning.
    Beginning,
}

impl Match {
    /// The kind that comes after this one.
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::Value => Some(Self::Word),
            Self::Word => Some(Self::Beginning),
            Self::Beginning => None,
        }
    }

    /// What stands for it in a cursor.
    pub fn digit(self) -> &'static str {
        match self {
            Self::Value => "0",
            Self::Word => "1",
            Self::Beginning => "2",
        }
    }
}

/// A question, with everything that is needed to tell whether an object is an answer.
#[derive(Debug, Default)]
pub(super) struct Question {
    /// The words, in order. The last one may be a beginning.
    pub(super) words: Vec<Asked>,
    /// The terms of objects of which all of a value, or of a summary that they refer to, is asked for.
    pub(super) whole: Vec<String>,
    /// Objects whose summary begins with the last word; that has a word that does.
    pub(super) beginnings: HashSet<i64>,
    /// The key of all words together.
    pub(super) key: String,
    /// The documents of objects with a word that begins like the last one; nothing where they are many, or not looked for.
    pub(super) begun: Option<Vec<RawDocumentBuf>>,
    /// Words that too many objects have to look for them in summaries.
    pub(super) common: Vec<String>,
}

/// Whether a text is a question: whether it has words, and not too many.
pub fn has_words(text: &str) -> bool {
    Question::of(text).is_some()
}

/// A word of a question.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// It without case and accents.
    pub(super) word: String,
    /// The id that it is, if it is one.
    pub(super) id: Option<i64>,
    /// Objects whose summaries have it.
    pub(super) targets: HashSet<i64>,
    /// The terms of objects that have it, or refer to one of these.
    pub(super) terms: HashSet<String>,
}

impl Question {
    /// The words of a text; nothing where it has none, or too many.
    pub(super) fn of(text: &str) -> Option<Self> {
        let list = words(text);
        let key = whole(&list)?;
        let list: Vec<Word> = list.into_iter().filter(|word| !word.is_part).collect();
        if list.len() > MOST_WORDS {
            return None;
        }
        let asked = |word: Word| {
            let terms = HashSet::from([word.folded.clone(), alone(&word.folded)]);
            let is_id = !word.folded.starts_with('0') && word.folded.bytes().all(|byte| byte.is_ascii_digit());
            let id = is_id.then(|| word.folded.parse().ok()).flatten();
            Asked { id, word: word.folded, terms, targets: HashSet::new() }
        };
        let words = list.into_iter().map(asked).collect();
        Some(Self { words, whole: vec![key.clone()], key, ..Self::default() })
    }

    /// The last word, which may be a beginning.
    pub(super) fn last(&self) -> &Asked {
        self.words.last().expect("a question has words")
    }

    /// How the object of a document matches; nothing where it does not.
    pub(super) fn matches(&self, document: &RawDocument) -> Option<Match> {
        let terms: Vec<&str> = terms_of(document).collect();
        let id = object_of(document)?;
        let has = |asked: &Asked| asked.id == Some(id) || terms.iter().any(|term| asked.terms.contains(*term));
        let is_id = self.words.len() == 1 && self.last().id == Some(id);
        if is_id || terms.iter().any(|term| self.whole.iter().any(|whole| whole == term)) {
            return Some(Match::Value);
        }
        let (last, others) = self.words.split_last()?;
        if !others.iter().all(has) {
            return None;
        }
        if has(last) {
            return Some(Match::Word);
        }
        let begins = |term: &&str| {
            term.starts_with(&last.word) || term.strip_prefix('\u{3}').is_some_and(|id| self.is_beginning(id))
        };
        terms.iter().any(begins).then_some(Match::Beginning)
    }

    fn is_beginning(&self, id: &str) -> bool {
        !self.beginnings.is_empty() && id.parse().is_ok_and(|id| self.beginnings.contains(&id))
    }

    /// Whether the summary of this object has one of the words.
    pub(super) fn has_target(&self, id: i64) -> bool {
        self.beginnings.contains(&id) || self.words.iter().any(|asked| asked.targets.contains(&id))
    }
}
