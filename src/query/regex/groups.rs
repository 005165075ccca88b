//! The contents of parentheses: groups, lookaround, conditions, options, verbs.

use super::translate::{Fragment, Repeatable, Translated, Translator};

impl Translator {
    pub(super) fn group(&mut self) -> Translated<(Fragment, Repeatable)> {
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

    pub(super) fn inside(
        &mut self,
        opening: &str,
        size: usize,
        repeatable: Repeatable,
    ) -> Translated<(Fragment, Repeatable)> {
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
        Ok((Fragment { size: part.size.saturating_add(size), width }, repeatable))
    }

    pub(super) fn named_group(&mut self, end: char) -> Translated<(Fragment, Repeatable)> {
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

    pub(super) fn reference_by_name(&mut self, name: String) -> Translated<(Fragment, Repeatable)> {
        check_name(&name)?;
        self.emit(format_args!("\\k<{name}>"));
        self.referenced.push(name);
        Ok((Fragment { size: 3, width: None }, Repeatable::Item))
    }

    pub(super) fn call_by_name(&mut self, name: String) -> Translated<(Fragment, Repeatable)> {
        check_name(&name)?;
        let called = self.call(&name);
        self.referenced.push(name);
        Ok(called)
    }

    /// PCRE does not go back into a group that was called.
    pub(super) fn call(&mut self, target: &str) -> (Fragment, Repeatable) {
        self.emit(format_args!("(?>\\g<{target}>)"));
        (Fragment { size: 6, width: None }, Repeatable::Group)
    }

    pub(super) fn conditional(&mut self) -> Translated<(Fragment, Repeatable)> {
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

    pub(super) fn conditional_end(&mut self, whole: Fragment) -> Translated<(Fragment, Repeatable)> {
        if !self.eat(")") {
            return Err("a condition has at most two branches, and ends with )".to_owned());
        }
        self.out.push(')');
        Ok((Fragment { size: whole.size + 12, width: None }, Repeatable::Group))
    }

    pub(super) fn numbered_call_or_flags(&mut self) -> Translated<(Fragment, Repeatable)> {
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
    pub(super) fn inline_flags(&mut self) -> Translated<(Fragment, Repeatable)> {
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
                        return Ok((Fragment::new(0, 0), Repeatable::Nothing));
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

    pub(super) fn verb(&mut self) -> Translated<(Fragment, Repeatable)> {
        let verb = self.until(')').ok_or("missing ) behind (*")?;
        let name = verb.split(':').next().unwrap_or_default();
        match name {
            "F" | "FAIL" => {
                self.out.push_str("(?!)");
                Ok((Fragment::new(1, 0), Repeatable::Nothing))
            }
            "ACCEPT" | "COMMIT" | "PRUNE" | "SKIP" | "THEN" | "MARK" | "" => Self::lacks(&format!("(*{verb})")),
            _ => Err(format!("(*{verb}) is not known")),
        }
    }
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
