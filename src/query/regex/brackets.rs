//! The contents of brackets: classes of characters.

use super::class::{Class, posix};
use super::translate::{Fragment, Translated, Translator};

impl Translator {
    /// Translates a class after its opening bracket.
    pub(super) fn class(&mut self) -> Translated<Fragment> {
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
        Ok(Fragment::new(if single { 2 } else { 33 }, 1))
    }

    pub(super) fn posix_class(&mut self, class: &mut Class) -> Translated<bool> {
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

    /// A character, a range, or an escape for a set.
    pub(super) fn class_item(&mut self, char: char, class: &mut Class) -> Translated<()> {
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
            // Only \E followed the hyphen.
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
    pub(super) fn class_character(&mut self, char: char, class: &mut Class) -> Translated<Option<char>> {
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
