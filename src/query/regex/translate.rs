//! From PCRE's dialect of regular expressions to the engine's.
//!
//! Laws: patterns that PCRE refuses are refused. Constructs with another meaning in the engine are rewritten.
//! Constructs that the engine lacks are refused by name. Groups keep their numbers and names.

use std::fmt::{self, Write as _};

/// The largest compiled form that PCRE takes, in its own bytes.
const MAX_SIZE: usize = 65_536;

/// Writes `pattern` in the engine's dialect.
pub(super) fn translate(pattern: &str, options: &str) -> Result<String, String> {
    let chars: Vec<char> = pattern.chars().collect();
    let flags = Flags {
        ignores_case: options.contains('i'),
        multi_line: options.contains('m'),
        dot_all: options.contains('s'),
        extended: options.contains('x'),
        swaps_greed: false,
    };
    let mut translator = Translator {
        groups_in_all: count_groups(&chars),
        chars,
        at: 0,
        out: String::with_capacity(pattern.len() * 2),
        flags,
        unicode: false,
        groups: 0,
        names: Vec::new(),
        referenced: Vec::new(),
    };
    translator.leading_verbs()?;
    let whole = translator.alternatives()?;
    if translator.peek().is_some() {
        return Err("unmatched parenthesis".to_owned());
    }
    if whole.size > MAX_SIZE {
        return Err("the regular expression is too large".to_owned());
    }
    if let Some(name) = translator.referenced.iter().find(|name| !translator.names.contains(name)) {
        return Err(format!("reference to the group {name:?}, which does not exist"));
    }
    Ok(translator.out)
}

/// What options and `(?imsxU)` say.
#[expect(clippy::struct_excessive_bools, reason = "one for each option")]
#[derive(Clone, Copy)]
pub(super) struct Flags {
    pub(super) ignores_case: bool,
    pub(super) multi_line: bool,
    pub(super) dot_all: bool,
    pub(super) extended: bool,
    pub(super) swaps_greed: bool,
}

/// The facts about a part of the pattern.
#[derive(Clone, Copy)]
pub(super) struct Fragment {
    /// How many bytes PCRE would compile it to, roughly.
    pub(super) size: usize,
    /// How many characters it matches, when that is always the same number.
    pub(super) width: Option<usize>,
}

impl Fragment {
    pub(super) fn new(size: usize, width: usize) -> Self {
        Self { size, width: Some(width) }
    }
}

/// What a repetition may follow.
#[derive(PartialEq, Eq)]
pub(super) enum Repeatable {
    Nothing,
    Item,
    Group,
    /// A lookaround; the engine wants it in a group before it repeats it.
    Lookaround,
}

pub(super) struct Translator {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    pub(super) out: String,
    pub(super) flags: Flags,
    /// `(*UCP)`: classes such as `\w` go beyond ASCII.
    pub(super) unicode: bool,
    pub(super) groups: usize,
    pub(super) groups_in_all: usize,
    pub(super) names: Vec<String>,
    pub(super) referenced: Vec<String>,
}

pub(super) type Translated<T> = Result<T, String>;

/// How many capturing groups a pattern has; references such as `\12` need to know.
fn count_groups(chars: &[char]) -> usize {
    let mut count = 0;
    let mut in_class = false;
    let mut index = 0;
    while let Some(&char) = chars.get(index) {
        match char {
            '\\' => index += 1,
            '[' if !in_class => {
                in_class = true;
                index += usize::from(chars.get(index + 1) == Some(&'^'));
                index += usize::from(chars.get(index + 1) == Some(&']'));
            }
            ']' => in_class = false,
            '(' if !in_class => {
                let ahead: String = chars[index + 1..].iter().take(3).collect();
                let named = ahead.starts_with("?P<")
                    || ahead.starts_with("?'")
                    || ahead.starts_with("?<") && !ahead.starts_with("?<=") && !ahead.starts_with("?<!");
                count += usize::from(named || !ahead.starts_with(['?', '*']));
                // The parenthesis of a condition is no group.
                index += if ahead.starts_with("?(") { 2 } else { 0 };
            }
            _ => {}
        }
        index += 1;
    }
    count
}

impl Translator {
    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let char = self.peek();
        self.at += usize::from(char.is_some());
        char
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let length = text.chars().count();
        let hit = self.chars.len() >= self.at + length
            && text.chars().eq(self.chars[self.at..self.at + length].iter().copied());
        self.at += if hit { length } else { 0 };
        hit
    }

    /// The text up to `end`; consumes `end` too.
    pub(super) fn until(&mut self, end: char) -> Option<String> {
        let length = self.chars[self.at..].iter().position(|&char| char == end)?;
        let text = self.chars[self.at..self.at + length].iter().collect();
        self.at += length + 1;
        Some(text)
    }

    pub(super) fn emit(&mut self, text: fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    pub(super) fn lacks<T>(feature: &str) -> Translated<T> {
        Err(format!("{feature} is not offered"))
    }

    pub(super) fn leading_verbs(&mut self) -> Translated<()> {
        while self.chars[self.at..].starts_with(&['(', '*'])
            && self.chars.get(self.at + 2).is_some_and(char::is_ascii_uppercase)
        {
            let start = self.at;
            self.at += 2;
            let Some(verb) = self.until(')') else { break };
            match verb.as_str() {
                "UTF" | "UTF8" | "LF" | "BSR_UNICODE" | "NO_START_OPT" | "NO_AUTO_POSSESS" => {}
                "UCP" => self.unicode = true,
                "CR" | "CRLF" | "ANYCRLF" | "ANY" | "BSR_ANYCRLF" => return Self::lacks(&format!("(*{verb})")),
                _ if verb.starts_with("LIMIT_") => return Self::lacks(&format!("(*{verb})")),
                _ => {
                    self.at = start;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Up to the closing parenthesis or the end, without consuming it.
    pub(super) fn alternatives(&mut self) -> Translated<Fragment> {
        self.branches(false)
    }

    /// In a lookbehind each alternative may have a width of its own.
    pub(super) fn branches(&mut self, lookbehind: bool) -> Translated<Fragment> {
        let mut whole = self.sequence()?;
        while self.peek() == Some('|') {
            self.at += 1;
            self.out.push('|');
            if lookbehind {
                Self::fixed(whole)?;
            }
            let next = self.sequence()?;
            whole.size += next.size + 3;
            if !lookbehind && whole.width != next.width {
                whole.width = None;
            } else if lookbehind {
                whole.width = next.width;
            }
        }
        if lookbehind {
            Self::fixed(whole)?;
        }
        Ok(whole)
    }

    pub(super) fn fixed(part: Fragment) -> Translated<()> {
        part.width.map(|_| ()).ok_or_else(|| "a lookbehind must have a fixed length".to_owned())
    }

    pub(super) fn sequence(&mut self) -> Translated<Fragment> {
        let mut whole = Fragment::new(0, 0);
        loop {
            self.skip_ignored()?;
            let Some(char) = self.peek() else { break };
            if char == '|' || char == ')' {
                break;
            }
            let start = self.out.len();
            let (part, repeatable) = self.atom()?;
            let part = self.repeated(part, &repeatable, start)?;
            whole.size = whole.size.saturating_add(part.size);
            whole.width = whole.width.zip(part.width).map(|(left, right)| left.saturating_add(right));
        }
        Ok(whole)
    }

    /// White space and comments, where they do not count, and comments in parentheses.
    pub(super) fn skip_ignored(&mut self) -> Translated<()> {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r') if self.flags.extended => self.at += 1,
                Some('#') if self.flags.extended => {
                    self.until('\n').ok_or("a comment must end with a line break; the pattern ends in it")?;
                }
                Some('(') if self.eat("(?#") => {
                    self.until(')').ok_or("missing ) behind a comment")?;
                }
                // The end of a quotation that was not begun.
                Some('\\') if self.eat("\\E") => {}
                _ => return Ok(()),
            }
        }
    }

    pub(super) fn atom(&mut self) -> Translated<(Fragment, Repeatable)> {
        let item = |part| Ok((part, Repeatable::Item));
        match self.next().expect("the caller has looked") {
            '^' => {
                self.out.push_str(if self.flags.multi_line { r"(?:^|(?<=\n)(?!\z))" } else { "^" });
                Ok((Fragment::new(1, 0), Repeatable::Nothing))
            }
            '$' => {
                self.out.push_str(if self.flags.multi_line { "(?m:$)" } else { r"(?=\n?\z)" });
                Ok((Fragment::new(1, 0), Repeatable::Nothing))
            }
            '.' => {
                self.out.push_str(if self.flags.dot_all { "(?s:.)" } else { r"[^\x{A}]" });
                item(Fragment::new(1, 1))
            }
            '[' => self.class().and_then(item),
            '(' => self.group(),
            '\\' => self.escape(),
            '*' | '+' | '?' => Err("nothing to repeat".to_owned()),
            char => {
                self.at -= 1;
                if self.repetition()?.is_some() {
                    return Err("nothing to repeat".to_owned());
                }
                self.at += 1;
                self.literal(char);
                item(Fragment::new(1 + char.len_utf8(), 1))
            }
        }
    }

    pub(super) fn literal(&mut self, char: char) {
        if char.is_ascii() && !char.is_ascii_alphanumeric() && char != '_' {
            self.emit(format_args!("\\x{{{:X}}}", u32::from(char)));
        } else {
            self.out.push(char);
        }
    }
}
