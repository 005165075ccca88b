//! The words of texts, as search compares them. docs/api.md, Search.
//!
//! - A *word* is a run of letters and digits, with the characters of [`LINKS`] between them: `web-01.example.com`, `10.0.0.9`.
//! - The runs of letters and digits in it are words too: `web`, `01`, `example`, `com`. An address or a number is one word
//!   alone.
//! - Words are compared without case and accents. Of a longer word the first [`LONGEST`] characters count.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use unicode_normalization::char::canonical_combining_class;
use xxhash_rust::xxh3::Xxh3;

use super::unique::folded;

/// What may stand inside of a word.
const LINKS: &str = "-_.:@+%~";

/// How many characters of a word count.
pub const LONGEST: usize = 64;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// It without case and accents.
    pub folded: String,
    /// Where it is, in bytes.
    pub place: Range<usize>,
    /// Whether it is a part of the word before.
    pub is_part: bool,
}

/// All words of a text, each before its parts.
pub fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    each_word(text, |folded, place, is_part| words.push(Word { folded, place, is_part }));
    words
}

/// Gives each word of a text, before its parts: the word without case and accents, its place, and whether it is a part.
pub fn each_word(text: &str, mut take: impl FnMut(String, Range<usize>, bool)) {
    for place in runs(text, |letter| is_inside(letter) || LINKS.contains(letter)) {
        let word = &text[place.clone()];
        let trimmed = word.trim_start_matches(is_link);
        let start = place.start + word.len() - trimmed.len();
        let trimmed = trimmed.trim_end_matches(is_link);
        let Some(folded) = plain(trimmed) else { continue };
        take(folded, start..start + trimmed.len(), false);
        if trimmed.contains(is_link) && !is_one(trimmed) {
            for part in runs(trimmed, is_inside) {
                if let Some(folded) = plain(&trimmed[part.clone()]) {
                    take(folded, start + part.start..start + part.end, true);
                }
            }
        }
    }
}

/// The key of a whole text: the same for texts with the same words in the same order; nothing for a text without words. It
/// begins with the word if there is only one.
pub fn whole(words: &[Word]) -> Option<String> {
    let mut whole = Whole::default();
    words.iter().filter(|word| !word.is_part).for_each(|word| whole.add(&word.folded));
    whole.key()
}

/// Makes the key of [`whole`] of one word after the other, without keeping them.
#[derive(Default)]
pub struct Whole {
    first: Option<String>,
    /// Of all words with blanks between them, as soon as there are two.
    hash: Option<Xxh3>,
}

impl Whole {
    /// The next word that is no part.
    pub fn add(&mut self, word: &str) {
        match &self.first {
            None => self.first = Some(word.to_owned()),
            Some(first) => {
                let hash = self.hash.get_or_insert_with(|| {
                    let mut hash = Xxh3::new();
                    hash.update(first.as_bytes());
                    hash
                });
                hash.update(b" ");
                hash.update(word.as_bytes());
            }
        }
    }

    /// The key.
    pub fn key(self) -> Option<String> {
        match self.hash {
            Some(hash) => Some(format!("{SEVERAL}{}", URL_SAFE_NO_PAD.encode(hash.digest().to_be_bytes()))),
            None => self.first.as_deref().map(alone),
        }
    }
}

/// The key of a text that is this word alone.
pub fn alone(word: &str) -> String {
    format!("{word}{ALONE}")
}

/// Follows a word that is all of a text. No word has it.
const ALONE: char = '\u{1}';
/// Begins the key of a text of several words.
const SEVERAL: char = '\u{2}';
/// Begins the key of a reference.
const REFERENCE: char = '\u{3}';

/// The key of a reference to this object.
pub fn reference(id: i64) -> String {
    format!("{REFERENCE}{id}")
}

/// The word in a key of [`whole`], or in a word; nothing for other keys.
pub fn word_of(key: &str) -> Option<&str> {
    (!key.starts_with([SEVERAL, REFERENCE])).then(|| key.trim_end_matches(ALONE))
}

/// A word without case and accents, within its length.
fn plain(word: &str) -> Option<String> {
    let mut plain = if word.is_ascii() { word.to_ascii_lowercase() } else { folded(word) };
    if plain.len() > LONGEST
        && let Some((end, _)) = plain.char_indices().nth(LONGEST)
    {
        plain.truncate(end);
    }
    (!plain.is_empty()).then_some(plain)
}

/// The longest runs of such characters.
fn runs(text: &str, is_such: impl Fn(char) -> bool) -> impl Iterator<Item = Range<usize>> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        let rest = text.get(begin..)?;
        let start = begin + rest.find(&is_such)?;
        let length = text[start..].find(|letter| !is_such(letter)).unwrap_or(text.len() - start);
        begin = start + length;
        Some(start..begin)
    })
}

fn is_link(letter: char) -> bool {
    LINKS.contains(letter)
}

fn is_inside(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_alphanumeric();
    }
    // Marks belong to the letter before, and joiners stand between two of them.
    letter.is_alphanumeric() || canonical_combining_class(letter) != 0 || matches!(letter, '\u{200c}' | '\u{200d}')
}

/// Whether it is an address, a number or a time: then its parts are no words.
fn is_one(word: &str) -> bool {
    let of_address = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, ':' | '.');
    if word.contains(':') && word.chars().all(of_address) {
        return true;
    }
    let begins_with_letter = |run: &str| run.chars().next().is_some_and(|letter| !letter.is_numeric());
    !word.split(is_link).any(begins_with_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.folded).collect()
    }

    #[test]
    fn a_word_has_its_links_and_its_parts_are_words_too() {
        assert_eq!(of("web-01.Example.com"), ["web-01.example.com", "web", "01", "example", "com"]);
        assert_eq!(
            of("  Second power-supply, \"replaced\"."),
            ["second", "power-supply", "power", "supply", "replaced"]
        );
        assert_eq!(of("a@b"), ["a@b", "a", "b"]);
        assert_eq!(of("- . --"), Vec::<String>::new());
    }

    #[test]
    fn addresses_numbers_and_times_are_one_word() {
        for (text, expected) in [
            ("10.0.0.9", vec!["10.0.0.9"]),
            ("https://10.0.0.9:8443/", vec!["https", "10.0.0.9:8443"]),
            ("10.0.0.0/24", vec!["10.0.0.0", "24"]),
            ("AA:bb:0c:1d:2e:3f", vec!["aa:bb:0c:1d:2e:3f"]),
            ("2001:db8::7", vec!["2001:db8::7"]),
            ("1.92", vec!["1.92"]),
            ("2024-05-01T10:00:00Z", vec!["2024-05-01t10:00:00z"]),
            ("-5", vec!["5"]),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn case_and_accents_do_not_count() {
        assert_eq!(of("Zürich STRASSE"), of("zurich straße"));
        assert_eq!(of("e\u{301}tat"), ["etat"]);
        assert_eq!(of("कि"), ["कि"]);
        assert_eq!(of(&"x".repeat(100)), ["x".repeat(LONGEST)]);
        assert_eq!(of(&"é".repeat(100)), ["e".repeat(LONGEST)]);
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "über (Web-1)";
        let places: Vec<&str> = words(text).into_iter().map(|word| &text[word.place]).collect();
        assert_eq!(places, ["über", "Web-1", "Web", "1"]);
    }

    #[test]
    fn whole_texts_are_equal_by_their_words_in_order() {
        let whole = |text: &str| whole(&words(text));
        assert_eq!(whole("Power Edge"), whole("power  EDGE."));
        assert_ne!(whole("power edge"), whole("edge power"));
        assert_ne!(whole("power-edge"), whole("power edge"));
        assert_eq!(whole("Web-1"), Some("web-1\u{1}".to_owned()));
        assert_eq!(whole(" . "), None);
        assert_eq!(word_of("web-1\u{1}"), Some("web-1"));
        assert_eq!(word_of(&reference(5)), None);
    }
}
