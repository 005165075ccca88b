//! From PCRE's dialect of regular expressions to the engine's.
//!
//! Laws: what PCRE refuses is refused; what the engine reads in another way is written so that it reads it
//! right; what the engine lacks is refused by name. Groups keep their numbers and names.

use std::fmt::{self, Write as _};

use super::class::{Class, posix, shorthand};
use super::properties::property;

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
struct Flags {
    ignores_case: bool,
    multi_line: bool,
    dot_all: bool,
    extended: bool,
    swaps_greed: bool,
}

/// What is known of a part of the pattern.
#[derive(Clone, Copy)]
struct Part {
    /// How many bytes PCRE would compile it to, roughly.
    size: usize,
    /// How many characters it matches, when that is always the same number.
    width: Option<usize>,
}

impl Part {
    fn new(size: usize, width: usize) -> Self {
        Self { size, width: Some(width) }
    }
}

/// What a repetition may follow.
#[derive(PartialEq, Eq)]
enum Repeatable {
    Nothing,
    Item,
    Group,
    /// A lookaround; the engine wants it in a group before it repeats it.
    Lookaround,
}

struct Translator {
    chars: Vec<char>,
    at: usize,
    out: String,
    flags: Flags,
    /// `(*UCP)`: classes such as `\w` go beyond ASCII.
    unicode: bool,
    groups: usize,
    groups_in_all: usize,
    names: Vec<String>,
    referenced: Vec<String>,
}

/// The engine's own boundary goes beyond ASCII.
const WORD_BOUNDARY: &str =
    concat!(r"(?:(?<=(?-i:[0-9A-Za-z_]))(?!(?-i:[0-9A-Za-z_]))", r"|(?<!(?-i:[0-9A-Za-z_]))(?=(?-i:[0-9A-Za-z_])))");

const NO_WORD_BOUNDARY: &str =
    concat!(r"(?:(?<=(?-i:[0-9A-Za-z_]))(?=(?-i:[0-9A-Za-z_]))", r"|(?<!(?-i:[0-9A-Za-z_]))(?!(?-i:[0-9A-Za-z_])))");

type Translated<T> = Result<T, String>;

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
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek();
        self.at += usize::from(char.is_some());
        char
    }

    fn eat(&mut self, text: &str) -> bool {
        let length = text.chars().count();
        let hit = self.chars.len() >= self.at + length
            && text.chars().eq(self.chars[self.at..self.at + length].iter().copied());
        self.at += if hit { length } else { 0 };
        hit
    }

    /// The text up to `end`, which is passed over.
    fn until(&mut self, end: char) -> Option<String> {
        let length = self.chars[self.at..].iter().position(|&char| char == end)?;
        let text = self.chars[self.at..self.at + length].iter().collect();
        self.at += length + 1;
        Some(text)
    }

    fn emit(&mut self, text: fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn lacks<T>(feature: &str) -> Translated<T> {
        Err(format!("{feature} is not offered"))
    }

    fn leading_verbs(&mut self) -> Translated<()> {
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

    /// Up to the closing parenthesis or the end, neither of which is passed over.
    fn alternatives(&mut self) -> Translated<Part> {
        self.branches(false)
    }

    /// In a lookbehind each alternative may have a width of its own.
    fn branches(&mut self, lookbehind: bool) -> Translated<Part> {
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

    fn fixed(part: Part) -> Translated<()> {
        part.width.map(|_| ()).ok_or_else(|| "a lookbehind must have a fixed length".to_owned())
    }

    fn sequence(&mut self) -> Translated<Part> {
        let mut whole = Part::new(0, 0);
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
    fn skip_ignored(&mut self) -> Translated<()> {
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

    fn atom(&mut self) -> Translated<(Part, Repeatable)> {
        let item = |part| Ok((part, Repeatable::Item));
        match self.next().expect("the caller has looked") {
            '^' => {
                self.out.push_str(if self.flags.multi_line { r"(?:^|(?<=\n)(?!\z))" } else { "^" });
                Ok((Part::new(1, 0), Repeatable::Nothing))
            }
            '$' => {
                self.out.push_str(if self.flags.multi_line { "(?m:$)" } else { r"(?=\n?\z)" });
                Ok((Part::new(1, 0), Repeatable::Nothing))
            }
            '.' => {
                self.out.push_str(if self.flags.dot_all { "(?s:.)" } else { r"[^\x{A}]" });
                item(Part::new(1, 1))
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
                item(Part::new(1 + char.len_utf8(), 1))
            }
        }
    }

    fn literal(&mut self, char: char) {
        if char.is_ascii() && !char.is_ascii_alphanumeric() && char != '_' {
            self.emit(format_args!("\\x{{{:X}}}", u32::from(char)));
        } else {
            self.out.push(char);
        }
    }

    /// The repetition behind an atom, if there is one.
    fn repeated(&mut self, part: Part, repeatable: &Repeatable, start: usize) -> Translated<Part> {
        self.skip_ignored()?;
        let Some((least, most)) = self.repetition()? else { return Ok(part) };
        match repeatable {
            Repeatable::Nothing => return Err("nothing to repeat".to_owned()),
            Repeatable::Lookaround => {
                // Once is as good as often; the engine does not repeat what has no width.
                self.out.insert_str(start, "(?:");
                self.out.push_str(if least == 0 { "|)" } else { ")" });
            }
            Repeatable::Item | Repeatable::Group => self.write_repetition(least, most),
        }
        self.skip_ignored()?;
        let suffix = if self.eat("+") {
            "+"
        } else if self.eat("?") != self.flags.swaps_greed {
            "?"
        } else {
            ""
        };
        if *repeatable != Repeatable::Lookaround {
            self.out.push_str(suffix);
        }
        self.skip_ignored()?;
        let at = self.at;
        if self.repetition()?.is_some() {
            return Err("nothing to repeat".to_owned());
        }
        self.at = at;
        let size = if *repeatable == Repeatable::Group {
            let required = part.size.saturating_mul(least.max(1));
            let optional = (part.size + 7).saturating_mul(most.unwrap_or(least).saturating_sub(least.max(1)));
            required.saturating_add(optional)
        } else {
            part.size + 8
        };
        let width = part.width.filter(|_| most == Some(least)).map(|width| width.saturating_mul(least));
        Ok(Part { size, width })
    }

    fn write_repetition(&mut self, least: usize, most: Option<usize>) {
        match (least, most) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (least, None) => self.emit(format_args!("{{{least},}}")),
            (least, Some(most)) => self.emit(format_args!("{{{least},{most}}}")),
        }
    }

    /// `*`, `+`, `?`, `{n}`, `{n,}`, `{n,m}`. Other braces are characters.
    fn repetition(&mut self) -> Translated<Option<(usize, Option<usize>)>> {
        let found = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.braces(),
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(found))
    }

    fn braces(&mut self) -> Translated<Option<(usize, Option<usize>)>> {
        let start = self.at;
        self.at += 1;
        let least = self.digits();
        let comma = self.eat(",");
        let most = self.digits();
        if least.is_empty() || !comma && !most.is_empty() || !self.eat("}") {
            self.at = start;
            return Ok(None);
        }
        let number = |digits: &str| {
            digits
                .parse::<usize>()
                .ok()
                .filter(|number| *number <= 65_535)
                .ok_or_else(|| "a number in {} is larger than 65535".to_owned())
        };
        let least = number(&least)?;
        let most = match (comma, most.as_str()) {
            (false, _) => Some(least),
            (true, "") => None,
            (true, most) => Some(number(most)?),
        };
        if most.is_some_and(|most| most < least) {
            return Err("the numbers in {} are out of order".to_owned());
        }
        Ok(Some((least, most)))
    }

    fn braces_ahead(&mut self) -> Translated<bool> {
        let start = self.at;
        let found = self.braces()?.is_some();
        self.at = start;
        Ok(found)
    }

    fn digits(&mut self) -> String {
        let length = self.chars[self.at..].iter().take_while(|char| char.is_ascii_digit()).count();
        let digits = self.chars[self.at..self.at + length].iter().collect();
        self.at += length;
        digits
    }

    fn group(&mut self) -> Translated<(Part, Repeatable)> {
        if self.eat("*") {
            return self.verb();
        }
        if !self.eat("?") {
            self.groups += 1;
            return self.inside("(", 8, Repeatable::Group);
        }
        if self.eat(":") {
            return self.inside("(?:", 6, Repeatable::Group);
        }
        if self.eat(">") {
            return self.inside("(?>", 6, Repeatable::Group);
        }
        if self.eat("=") {
            return self.inside("(?=", 6, Repeatable::Lookaround);
        }
        if self.eat("!") {
            return self.inside("(?!", 6, Repeatable::Lookaround);
        }
        if self.eat("<=") {
            return self.inside("(?<=", 6, Repeatable::Lookaround);
        }
        if self.eat("<!") {
            return self.inside("(?<!", 6, Repeatable::Lookaround);
        }
        if self.eat("P=") {
            let name = self.until(')').ok_or("missing ) behind a name")?;
            return self.reference_by_name(name);
        }
        if self.eat("P>") || self.eat("&") {
            let name = self.until(')').ok_or("missing ) behind a name")?;
            return self.call_by_name(name);
        }
        if self.eat("P<") || self.eat("<") {
            return self.named_group('>');
        }
        if self.eat("'") {
            return self.named_group('\'');
        }
        if self.eat("R)") {
            return Ok(self.call("0"));
        }
        if self.eat("|") {
            return Self::lacks("the branch reset (?|");
        }
        if self.eat("C") {
            return Self::lacks("the callout (?C");
        }
        if self.eat("(") {
            return self.conditional();
        }
        self.numbered_call_or_flags()
    }

    fn inside(&mut self, opening: &str, size: usize, repeatable: Repeatable) -> Translated<(Part, Repeatable)> {
        self.out.push_str(opening);
        let flags = self.flags;
        let lookaround = repeatable == Repeatable::Lookaround;
        let part = self.branches(lookaround && opening.starts_with("(?<"))?;
        self.flags = flags;
        if !self.eat(")") {
            return Err("missing )".to_owned());
        }
        self.out.push(')');
        let width = if lookaround { Some(0) } else { part.width };
        Ok((Part { size: part.size.saturating_add(size), width }, repeatable))
    }

    fn named_group(&mut self, end: char) -> Translated<(Part, Repeatable)> {
        let name = self.until(end).ok_or("a group's name does not end")?;
        check_name(&name)?;
        if self.names.contains(&name) {
            return Err(format!("two groups have the name {name:?}"));
        }
        self.groups += 1;
        let opening = format!("(?<{name}>");
        self.names.push(name);
        self.inside(&opening, 8, Repeatable::Group)
    }

    fn reference_by_name(&mut self, name: String) -> Translated<(Part, Repeatable)> {
        check_name(&name)?;
        self.emit(format_args!("\\k<{name}>"));
        self.referenced.push(name);
        Ok((Part { size: 3, width: None }, Repeatable::Item))
    }

    fn call_by_name(&mut self, name: String) -> Translated<(Part, Repeatable)> {
        check_name(&name)?;
        let called = self.call(&name);
        self.referenced.push(name);
        Ok(called)
    }

    /// PCRE does not go back into a group that was called.
    fn call(&mut self, target: &str) -> (Part, Repeatable) {
        self.emit(format_args!("(?>\\g<{target}>)"));
        (Part { size: 6, width: None }, Repeatable::Group)
    }

    fn conditional(&mut self) -> Translated<(Part, Repeatable)> {
        if self.chars[self.at..].starts_with(&['?']) {
            // The condition is a lookaround: at most one of the two branches can match.
            let start = self.out.len();
            self.group()?;
            let condition = self.out.split_off(start);
            let negated = if condition.starts_with("(?=") {
                condition.replacen("(?=", "(?!", 1)
            } else if condition.starts_with("(?!") {
                condition.replacen("(?!", "(?=", 1)
            } else {
                return Self::lacks("a lookbehind as a condition");
            };
            self.emit(format_args!("(?:{condition}"));
            let mut whole = self.sequence()?;
            self.emit(format_args!("|{negated}"));
            if self.eat("|") {
                whole.size += self.sequence()?.size;
            }
            return self.conditional_end(whole);
        }
        let condition = self.until(')').ok_or("missing ) behind a condition")?;
        let condition = condition.trim_matches(['<', '>', '\'']).to_owned();
        if condition == "DEFINE" || condition.starts_with('R') {
            return Self::lacks("the condition DEFINE or R");
        }
        if condition.bytes().all(|byte| byte.is_ascii_digit()) {
            if !condition.parse().is_ok_and(|number: usize| (1..=self.groups_in_all).contains(&number)) {
                return Err("reference to a group that does not exist".to_owned());
            }
            self.emit(format_args!("(?({condition})"));
        } else {
            check_name(&condition)?;
            self.emit(format_args!("(?(<{condition}>)"));
            self.referenced.push(condition);
        }
        let mut whole = self.sequence()?;
        if self.eat("|") {
            self.out.push('|');
            whole.size += self.sequence()?.size;
        }
        self.conditional_end(whole)
    }

    fn conditional_end(&mut self, whole: Part) -> Translated<(Part, Repeatable)> {
        if !self.eat(")") {
            return Err("a condition has at most two branches, and ends with )".to_owned());
        }
        self.out.push(')');
        Ok((Part { size: whole.size + 12, width: None }, Repeatable::Group))
    }

    fn numbered_call_or_flags(&mut self) -> Translated<(Part, Repeatable)> {
        let start = self.at;
        let sign = self.eat("+").then_some('+').or_else(|| self.eat("-").then_some('-'));
        let digits = self.digits();
        if !digits.is_empty() && self.eat(")") {
            let number: usize = digits.parse().map_err(|_| "the number of a group is too large".to_owned())?;
            let target = match sign {
                None => Some(number),
                Some('+') => Some(self.groups + number),
                Some(_) => (self.groups + 1).checked_sub(number),
            };
            return match target {
                Some(target) if target <= self.groups_in_all => Ok(self.call(&target.to_string())),
                _ => Err("reference to a group that does not exist".to_owned()),
            };
        }
        self.at = start;
        self.inline_flags()
    }

    /// `(?i)` for the rest of the group, `(?i:..)` for the inside.
    fn inline_flags(&mut self) -> Translated<(Part, Repeatable)> {
        let mut flags = self.flags;
        let mut on = true;
        loop {
            match self.next() {
                Some('-') if on => on = false,
                Some('i') => flags.ignores_case = on,
                Some('m') => flags.multi_line = on,
                Some('s') => flags.dot_all = on,
                Some('x') => flags.extended = on,
                Some('U') => flags.swaps_greed = on,
                Some('J') => return Self::lacks("the option J, several groups of one name,"),
                Some('X') => {}
                Some(end @ (')' | ':')) => {
                    let case = if flags.ignores_case { "i" } else { "-i" };
                    if end == ')' {
                        self.flags = flags;
                        self.emit(format_args!("(?{case})"));
                        return Ok((Part::new(0, 0), Repeatable::Nothing));
                    }
                    let outer = std::mem::replace(&mut self.flags, flags);
                    let inside = self.inside(&format!("(?{case}:"), 6, Repeatable::Group);
                    self.flags = outer;
                    return inside;
                }
                _ => return Err("unknown character behind (? or (?-".to_owned()),
            }
        }
    }

    fn verb(&mut self) -> Translated<(Part, Repeatable)> {
        let verb = self.until(')').ok_or("missing ) behind (*")?;
        let name = verb.split(':').next().unwrap_or_default();
        match name {
            "F" | "FAIL" => {
                self.out.push_str("(?!)");
                Ok((Part::new(1, 0), Repeatable::Nothing))
            }
            "ACCEPT" | "COMMIT" | "PRUNE" | "SKIP" | "THEN" | "MARK" | "" => Self::lacks(&format!("(*{verb})")),
            _ => Err(format!("(*{verb}) is not known")),
        }
    }

    /// Behind a backslash.
    fn escape(&mut self) -> Translated<(Part, Repeatable)> {
        let nothing = |translator: &mut Self, text: &str| {
            translator.out.push_str(text);
            Ok((Part::new(1, 0), Repeatable::Nothing))
        };
        let Some(char) = self.next() else { return Err("\\ at the end of the pattern".to_owned()) };
        match char {
            'Q' => return self.quoted(),
            'b' if self.unicode => return nothing(self, r"\b"),
            'B' if self.unicode => return nothing(self, r"\B"),
            'b' => return nothing(self, WORD_BOUNDARY),
            'B' => return nothing(self, NO_WORD_BOUNDARY),
            'A' | 'G' => return nothing(self, r"\A"),
            'z' => return nothing(self, r"\z"),
            'Z' => return nothing(self, r"(?=\n?\z)"),
            'K' => return nothing(self, r"\K"),
            'R' => {
                self.out.push_str(r"(?>\x{D}\x{A}|[\x{A}-\x{D}\x{85}\x{2028}\x{2029}])");
                return Ok((Part { size: 1, width: None }, Repeatable::Item));
            }
            'X' => return Self::lacks(r"\X"),
            'C' => return Self::lacks(r"\C"),
            'g' | 'k' => return self.reference(char),
            '1'..='9' => {
                if let Some(reference) = self.back_reference(char)? {
                    return Ok(reference);
                }
            }
            'N' if self.peek() != Some('{') || self.braces_ahead()? => self.out.push_str(r"[^\x{A}]"),
            'p' | 'P' => {
                let class = Class { properties: self.property(char)?, ..Class::default() };
                self.out.push_str(&class.text(self.flags.ignores_case));
                return Ok((Part::new(3, 1), Repeatable::Item));
            }
            _ => {
                if let Some(class) = self.shorthand_class(char) {
                    self.out.push_str(&class.text(self.flags.ignores_case));
                } else {
                    let literal = self.character(char)?;
                    self.literal(literal);
                    return Ok((Part::new(1 + literal.len_utf8(), 1), Repeatable::Item));
                }
            }
        }
        Ok((Part::new(1, 1), Repeatable::Item))
    }

    /// `\w` and its like; beyond ASCII when `(*UCP)` says so.
    fn shorthand_class(&self, letter: char) -> Option<Class> {
        let mut class = Class { fixed: shorthand(letter)?, ..Class::default() };
        let properties = match letter.to_ascii_lowercase() {
            'w' if self.unicode => r"\p{L}\p{N}_",
            'd' if self.unicode => r"\p{Nd}",
            's' if self.unicode => r"\p{Z}\x{09}-\x{0D}",
            _ => return Some(class),
        };
        class.fixed.clear();
        let not = if letter.is_ascii_uppercase() { "^" } else { "" };
        class.properties = format!("[{not}{properties}]");
        Some(class)
    }

    /// `\Q..\E`: characters as they are.
    fn quoted(&mut self) -> Translated<(Part, Repeatable)> {
        let mut width = 0;
        while !self.eat("\\E") {
            let Some(char) = self.next() else { return Err("\\Q without \\E".to_owned()) };
            let last = self.chars[self.at..].starts_with(&['\\', 'E']);
            if last {
                // A repetition behind \E counts for the last character.
                self.at += 2;
                let start = self.out.len();
                self.literal(char);
                let part = self.repeated(Part::new(2, 1), &Repeatable::Item, start)?;
                let width = part.width.map(|last| last + width);
                return Ok((Part { size: part.size + 2, width }, Repeatable::Nothing));
            }
            self.literal(char);
            width += 1;
        }
        Ok((Part::new(2 * width, width), Repeatable::Nothing))
    }

    /// `\g{..}`, `\k<..>` and their other spellings.
    fn reference(&mut self, letter: char) -> Translated<(Part, Repeatable)> {
        let end = match self.peek() {
            Some('{') => '}',
            Some('<') => '>',
            Some('\'') => '\'',
            Some(char) if letter == 'g' && (char.is_ascii_digit() || char == '-') => {
                let sign = if self.eat("-") { "-" } else { "" };
                let digits = self.digits();
                return self.reference_by_number(&format!("{sign}{digits}"));
            }
            _ => return Err(format!("\\{letter} is not followed by a name or a number")),
        };
        self.at += 1;
        let target = self.until(end).ok_or("the name of a group does not end")?;
        let numeric = target.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit());
        match (letter, end, numeric) {
            ('g', '}', true) => self.reference_by_number(&target),
            ('g', '>' | '\'', true) => Ok(self.call(&target)),
            ('g', '>' | '\'', false) => self.call_by_name(target),
            _ => self.reference_by_name(target),
        }
    }

    fn reference_by_number(&mut self, target: &str) -> Translated<(Part, Repeatable)> {
        let number = match target.strip_prefix('-') {
            Some(back) => back.parse().ok().and_then(|back: usize| (self.groups + 1).checked_sub(back)),
            None => target.parse().ok(),
        };
        match number {
            Some(number) if (1..=self.groups_in_all).contains(&number) => {
                self.emit(format_args!("\\k<{number}>"));
                Ok((Part { size: 3, width: None }, Repeatable::Item))
            }
            _ => Err("reference to a group that does not exist".to_owned()),
        }
    }

    /// One digit always refers; more do when there are so many groups, else they are octal.
    fn back_reference(&mut self, first: char) -> Translated<Option<(Part, Repeatable)>> {
        let start = self.at;
        let digits = format!("{first}{}", self.digits());
        let number: usize = digits.parse().unwrap_or(usize::MAX);
        if number < 8 || number <= self.groups_in_all {
            return self.reference_by_number(&digits).map(Some);
        }
        self.at = start;
        if first >= '8' {
            self.literal(first);
            return Ok(None);
        }
        let literal = self.octal(first)?;
        self.literal(literal);
        Ok(None)
    }

    fn octal(&mut self, first: char) -> Translated<char> {
        let mut value = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|char| char.to_digit(8)) else { break };
            value = value * 8 + digit;
            self.at += 1;
        }
        code_point(value)
    }

    /// An escape for one character, in brackets and outside.
    fn character(&mut self, char: char) -> Translated<char> {
        Ok(match char {
            'a' => '\x07',
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => self.octal('0')?,
            'c' => {
                let control = self.next().filter(char::is_ascii).ok_or("\\c must be followed by an ASCII character")?;
                code_point(u32::from(control.to_ascii_uppercase()) ^ 0x40)?
            }
            'o' => {
                let digits = if self.eat("{") { self.until('}') } else { None };
                let value = digits.and_then(|digits| u32::from_str_radix(&digits, 8).ok());
                code_point(value.ok_or("\\o must be followed by {octal digits}")?)?
            }
            'x' => self.hexadecimal()?,
            'L' | 'l' | 'U' | 'u' | 'N' => {
                return Err(format!("\\{char} is no escape; write \\x{{hexadecimal digits}}"));
            }
            char => char,
        })
    }

    fn hexadecimal(&mut self) -> Translated<char> {
        let start = self.at;
        if self.eat("{") {
            if let Some(digits) = self
                .until('}')
                .filter(|digits| !digits.is_empty() && digits.chars().all(|char| char.is_ascii_hexdigit()))
            {
                return code_point(u32::from_str_radix(&digits, 16).map_err(|error| error.to_string())?);
            }
            self.at = start;
        }
        let mut value = 0;
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|char| char.to_digit(16)) else { break };
            value = value * 16 + digit;
            self.at += 1;
        }
        code_point(value)
    }

    fn property(&mut self, letter: char) -> Translated<String> {
        let mut negated = letter == 'P';
        let name = if self.eat("{") {
            negated ^= self.eat("^");
            self.until('}').ok_or("a property's name does not end")?
        } else {
            self.next().map(String::from).ok_or("\\p at the end of the pattern")?
        };
        property(&name, negated)
    }

    /// Behind an opening bracket.
    fn class(&mut self) -> Translated<Part> {
        let mut class = Class { negated: self.eat("^"), ..Class::default() };
        let mut first = true;
        let mut quoted = false;
        loop {
            let Some(char) = self.next() else { return Err("missing ] behind a class".to_owned()) };
            if quoted {
                if char == '\\' && self.eat("E") {
                    quoted = false;
                } else {
                    class.plain.push((u32::from(char), u32::from(char)));
                }
                continue;
            }
            match char {
                ']' if !first => break,
                '\\' if self.eat("E") => continue,
                '\\' if self.eat("Q") => quoted = true,
                '[' if self.posix_class(&mut class)? => {}
                char => self.class_item(char, &mut class)?,
            }
            first = false;
        }
        self.out.push_str(&class.text(self.flags.ignores_case));
        let single = class.plain.len() == 1 && class.plain[0].0 == class.plain[0].1 && class.fixed.is_empty();
        Ok(Part::new(if single { 2 } else { 33 }, 1))
    }

    fn posix_class(&mut self, class: &mut Class) -> Translated<bool> {
        let Some(mark @ (':' | '.' | '=')) = self.peek() else { return Ok(false) };
        let rest: String = self.chars[self.at + 1..].iter().collect();
        let Some(end) = rest.find(&format!("{mark}]")) else { return Ok(false) };
        let name = &rest[..end];
        if name.contains([']', '\\', '[']) {
            return Ok(false);
        }
        if mark != ':' {
            return Err("collating elements are not supported".to_owned());
        }
        let any_case = if self.flags.ignores_case && matches!(name, "upper" | "lower") { "alpha" } else { name };
        let ranges = posix(any_case).ok_or_else(|| format!("unknown class name {name:?}"))?;
        class.fixed.extend(ranges);
        self.at += name.chars().count() + 3;
        Ok(true)
    }

    /// A character, a range, or an escape that stands for a set.
    fn class_item(&mut self, char: char, class: &mut Class) -> Translated<()> {
        let Some(low) = self.class_character(char, class)? else { return Ok(()) };
        let range =
            self.chars[self.at..].starts_with(&['-']) && self.chars.get(self.at + 1).is_some_and(|&next| next != ']');
        if !range {
            class.plain.push((u32::from(low), u32::from(low)));
            return Ok(());
        }
        self.at += 1;
        while self.eat("\\E") {}
        let next = self.next().expect("it was looked at");
        if next == ']' {
            // Only \E stood behind the hyphen.
            self.at -= 1;
            class.plain.extend([(u32::from(low), u32::from(low)), (0x2D, 0x2D)]);
            return Ok(());
        }
        let mut other = Class::default();
        let posix = next == '[' && self.posix_class(&mut other)?;
        let high = if posix { None } else { self.class_character(next, &mut other)? };
        match high {
            Some(high) if high >= low => class.plain.push((u32::from(low), u32::from(high))),
            Some(_) => return Err("a range in a class is out of order".to_owned()),
            None => return Err("invalid range in a class".to_owned()),
        }
        Ok(())
    }

    /// A single character, or nothing when a set was added.
    fn class_character(&mut self, char: char, class: &mut Class) -> Translated<Option<char>> {
        if char != '\\' {
            return Ok(Some(char));
        }
        let Some(escaped) = self.next() else { return Err("\\ at the end of the pattern".to_owned()) };
        if let Some(set) = self.shorthand_class(escaped) {
            class.fixed.extend(set.fixed);
            class.properties.push_str(&set.properties);
            return Ok(None);
        }
        match escaped {
            'b' => Ok(Some('\x08')),
            'p' | 'P' => {
                let property = self.property(escaped)?;
                class.properties.push_str(&property);
                Ok(None)
            }
            'N' => Err("\\N is not supported in a class".to_owned()),
            '1'..='7' => self.octal(escaped).map(Some),
            _ => self.character(escaped).map(Some),
        }
    }
}

fn code_point(value: u32) -> Translated<char> {
    char::from_u32(value).ok_or_else(|| format!("{value:#x} is no character"))
}

/// Names are of ASCII letters, digits and underscores, at most 32 of them.
fn check_name(name: &str) -> Translated<()> {
    if name.is_empty() || name.len() > 32 || name.starts_with(|char: char| char.is_ascii_digit()) {
        return Err("a group's name has 1 to 32 characters and does not begin with a digit".to_owned());
    }
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(());
    }
    Err("a group's name consists of letters, digits and underscores".to_owned())
}
