//! Sets of characters: the contents of brackets, and the escapes for sets.

use std::fmt::Write as _;

/// Characters as ranges of code points.
pub(super) type Ranges = Vec<(u32, u32)>;

const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
const DIGIT: &[(u32, u32)] = &[(0x30, 0x39)];
const SPACE: &[(u32, u32)] = &[(0x09, 0x0D), (0x20, 0x20)];
const HORIZONTAL: &[(u32, u32)] = &[
    (0x09, 0x09),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x180E, 0x180E),
    (0x2000, 0x200A),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
];
const VERTICAL: &[(u32, u32)] = &[(0x0A, 0x0D), (0x85, 0x85), (0x2028, 0x2029)];

/// The set of `\w`, `\D` and so on.
pub(super) fn shorthand(letter: char) -> Option<Ranges> {
    let set = match letter.to_ascii_lowercase() {
        'w' => WORD,
        'd' => DIGIT,
        's' => SPACE,
        'h' => HORIZONTAL,
        'v' => VERTICAL,
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { complement(set) } else { set.to_vec() })
}

/// The set of `[:alpha:]` and so on.
pub(super) fn posix(name: &str) -> Option<Ranges> {
    let (name, negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let set: &[(u32, u32)] = match name {
        "alpha" => &[(0x41, 0x5A), (0x61, 0x7A)],
        "digit" => DIGIT,
        "alnum" => &[(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)],
        "upper" => &[(0x41, 0x5A)],
        "lower" => &[(0x61, 0x7A)],
        "word" => WORD,
        "space" => SPACE,
        "blank" => &[(0x09, 0x09), (0x20, 0x20)],
        "punct" => &[(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
        "print" => &[(0x20, 0x7E)],
        "graph" => &[(0x21, 0x7E)],
        "cntrl" => &[(0x00, 0x1F), (0x7F, 0x7F)],
        "xdigit" => &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
        "ascii" => &[(0x00, 0x7F)],
        _ => return None,
    };
    Some(if negated { complement(set) } else { set.to_vec() })
}

/// All characters that are not in the sorted set.
fn complement(set: &[(u32, u32)]) -> Ranges {
    let mut rest = Vec::with_capacity(set.len() + 1);
    let mut next = 0;
    for &(first, last) in set {
        if first > next {
            rest.push((next, first - 1));
        }
        next = last + 1;
    }
    rest.push((next, 0x0010_FFFF));
    rest
}

/// The inside of a class of the engine.
pub(super) fn write(ranges: &[(u32, u32)]) -> String {
    let mut text = String::new();
    for &(first, last) in ranges {
        // Writing into a string cannot fail. The engine wants code points of characters, which surrogates are not.
        let first = if (0xD800..=0xDFFF).contains(&first) { 0xE000 } else { first };
        let last = if (0xD800..=0xDFFF).contains(&last) { 0xD7FF } else { last };
        if first == last {
            let _ = write!(text, "\\x{{{first:X}}}");
        } else if first < last {
            let _ = write!(text, "\\x{{{first:X}}}-\\x{{{last:X}}}");
        }
    }
    text
}

/// A class with a part that follows the case option and a part that does not.
#[derive(Debug, Default)]
pub(super) struct Class {
    pub(super) negated: bool,
    /// Characters written out.
    pub(super) plain: Ranges,
    /// Characters of escapes such as `\w`, which stay as they are when case is ignored.
    pub(super) fixed: Ranges,
    /// Classes of properties, which stay as they are too.
    pub(super) properties: String,
}

impl Class {
    /// The class in the engine's dialect.
    pub(super) fn text(&self, ignores_case: bool) -> String {
        let not = if self.negated { "^" } else { "" };
        let (plain, fixed, properties) = (write(&self.plain), write(&self.fixed), &self.properties);
        if !ignores_case || fixed.is_empty() && properties.is_empty() {
            let inside = format!("{plain}{fixed}{properties}");
            return match (inside.is_empty(), self.negated) {
                (true, false) => "(?!)".to_owned(),
                (true, true) => "(?s:.)".to_owned(),
                _ => format!("[{not}{inside}]"),
            };
        }
        let either = if plain.is_empty() {
            format!("(?-i:[{fixed}{properties}])")
        } else {
            format!("(?:[{plain}]|(?-i:[{fixed}{properties}]))")
        };
        if self.negated { format!("(?:(?!{either})(?s:.))") } else { either }
    }
}
