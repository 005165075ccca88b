//! What follows a backslash, Unicode properties among it.

use super::class::{Class, shorthand};
use super::translate::{Fragment, Repeatable, Translated, Translator};

/// The engine's own boundary goes beyond ASCII.
const WORD_BOUNDARY: &str =
    concat!(r"(?:(?<=(?-i:[0-9A-Za-z_]))(?!(?-i:[0-9A-Za-z_]))", r"|(?<!(?-i:[0-9A-Za-z_]))(?=(?-i:[0-9A-Za-z_])))");

const NO_WORD_BOUNDARY: &str =
    concat!(r"(?:(?<=(?-i:[0-9A-Za-z_]))(?=(?-i:[0-9A-Za-z_]))", r"|(?<!(?-i:[0-9A-Za-z_]))(?!(?-i:[0-9A-Za-z_])))");

impl Translator {
    /// Translates what follows a backslash.
    pub(super) fn escape(&mut self) -> Translated<(Fragment, Repeatable)> {
        let nothing = |translator: &mut Self, text: &str| {
            translator.out.push_str(text);
            Ok((Fragment::new(1, 0), Repeatable::Nothing))
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
                return Ok((Fragment { size: 1, width: None }, Repeatable::Item));
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
                return Ok((Fragment::new(3, 1), Repeatable::Item));
            }
            _ => {
                if let Some(class) = self.shorthand_class(char) {
                    self.out.push_str(&class.text(self.flags.ignores_case));
                } else {
                    let literal = self.character(char)?;
                    self.literal(literal);
                    return Ok((Fragment::new(1 + literal.len_utf8(), 1), Repeatable::Item));
                }
            }
        }
        Ok((Fragment::new(1, 1), Repeatable::Item))
    }

    /// `\w` and its like; beyond ASCII when `(*UCP)` says so.
    pub(super) fn shorthand_class(&self, letter: char) -> Option<Class> {
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
    pub(super) fn quoted(&mut self) -> Translated<(Fragment, Repeatable)> {
        let mut width = 0;
        while !self.eat("\\E") {
            let Some(char) = self.next() else { return Err("\\Q without \\E".to_owned()) };
            let last = self.chars[self.at..].starts_with(&['\\', 'E']);
            if last {
                // A repetition after \E counts for the last character.
                self.at += 2;
                let start = self.out.len();
                self.literal(char);
                let part = self.repeated(Fragment::new(2, 1), &Repeatable::Item, start)?;
                let width = part.width.map(|last| last + width);
                return Ok((Fragment { size: part.size + 2, width }, Repeatable::Nothing));
            }
            self.literal(char);
            width += 1;
        }
        Ok((Fragment::new(2 * width, width), Repeatable::Nothing))
    }

    /// `\g{..}`, `\k<..>` and their other spellings.
    pub(super) fn reference(&mut self, letter: char) -> Translated<(Fragment, Repeatable)> {
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

    pub(super) fn reference_by_number(&mut self, target: &str) -> Translated<(Fragment, Repeatable)> {
        let number = match target.strip_prefix('-') {
            Some(back) => back.parse().ok().and_then(|back: usize| (self.groups + 1).checked_sub(back)),
            None => target.parse().ok(),
        };
        match number {
            Some(number) if (1..=self.groups_in_all).contains(&number) => {
                self.emit(format_args!("\\k<{number}>"));
                Ok((Fragment { size: 3, width: None }, Repeatable::Item))
            }
            _ => Err("reference to a group that does not exist".to_owned()),
        }
    }

    /// One digit always refers; several digits refer when that number of groups exists, else they are octal.
    pub(super) fn back_reference(&mut self, first: char) -> Translated<Option<(Fragment, Repeatable)>> {
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

    pub(super) fn octal(&mut self, first: char) -> Translated<char> {
        let mut value = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|char| char.to_digit(8)) else { break };
            value = value * 8 + digit;
            self.at += 1;
        }
        code_point(value)
    }

    /// An escape for one character, in brackets and outside.
    pub(super) fn character(&mut self, char: char) -> Translated<char> {
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

    pub(super) fn hexadecimal(&mut self) -> Translated<char> {
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

    pub(super) fn property(&mut self, letter: char) -> Translated<String> {
        let mut negated = letter == 'P';
        let name = if self.eat("{") {
            negated ^= self.eat("^");
            self.until('}').ok_or("a property's name does not end")?
        } else {
            self.next().map(String::from).ok_or("\\p at the end of the pattern")?
        };
        property(&name, negated)
    }
}

fn code_point(value: u32) -> Translated<char> {
    char::from_u32(value).ok_or_else(|| format!("{value:#x} is no character"))
}

/// General categories, with PCRE's own `L&`.
const CATEGORIES: &str =
    " C Cc Cf Cn Co Cs L L& Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs ";

const SCRIPTS: &str = " Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bopomofo Brahmi Braille \
    Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Common Coptic Cuneiform Cypriot \
    Cyrillic Deseret Devanagari Duployan Egyptian_Hieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic Grantha \
    Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi \
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao Latin \
    Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Malayalam Mandaic Manichaean Meetei_Mayek \
    Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Myanmar Nabataean New_Tai_Lue Nko \
    Ogham Ol_Chiki Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya \
    Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada \
    Shavian Siddham Sinhala Sora_Sompeng Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet \
    Takri Tamil Telugu Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic Vai Warang_Citi Yi ";

/// A property as a class of the engine. PCRE is particular about case, the engine is not.
pub(super) fn property(name: &str, negated: bool) -> Result<String, String> {
    let not = if negated { "^" } else { "" };
    let inside = match name {
        "Any" => r"\x{0}-\x{10FFFF}",
        "L&" => r"\p{Ll}\p{Lu}\p{Lt}",
        "Xan" => r"\p{L}\p{N}",
        "Xwd" => r"\p{L}\p{N}_",
        "Xps" | "Xsp" => r"\p{Z}\x{09}-\x{0D}",
        "Xuc" => r"\x{24}\x{40}\x{60}\x{A0}-\x{D7FF}\x{E000}-\x{10FFFF}",
        // Text has no surrogates.
        "Cs" => return Ok(if negated { r"[\x{0}-\x{10FFFF}]" } else { r"[^\x{0}-\x{10FFFF}]" }.to_owned()),
        _ => {
            let known = |names: &str| names.split_ascii_whitespace().any(|known| known == name);
            if !known(CATEGORIES) && !known(SCRIPTS) {
                return Err(format!("unknown property name {name:?}"));
            }
            return Ok(format!("[{not}\\p{{{name}}}]"));
        }
    };
    Ok(format!("[{not}{inside}]"))
}
