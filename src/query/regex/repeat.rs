//! Repetitions: `*`, `+`, `?` and numbers in braces.

use super::translate::{Fragment, Repeatable, Translated, Translator};

impl Translator {
    /// The repetition after an atom, if there is one.
    pub(super) fn repeated(&mut self, part: Fragment, repeatable: &Repeatable, start: usize) -> Translated<Fragment> {
        self.skip_ignored()?;
        let Some((least, most)) = self.repetition()? else { return Ok(part) };
        match repeatable {
            Repeatable::Nothing => return Err("nothing to repeat".to_owned()),
            Repeatable::Lookaround => {
                // One repetition is enough; the engine does not repeat atoms without width.
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
        Ok(Fragment { size, width })
    }

    pub(super) fn write_repetition(&mut self, least: usize, most: Option<usize>) {
        match (least, most) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (least, None) => self.emit(format_args!("{{{least},}}")),
            (least, Some(most)) => self.emit(format_args!("{{{least},{most}}}")),
        }
    }

    /// `*`, `+`, `?`, `{n}`, `{n,}`, `{n,m}`. Other braces are characters.
    pub(super) fn repetition(&mut self) -> Translated<Option<(usize, Option<usize>)>> {
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

    pub(super) fn braces(&mut self) -> Translated<Option<(usize, Option<usize>)>> {
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

    pub(super) fn braces_ahead(&mut self) -> Translated<bool> {
        let start = self.at;
        let found = self.braces()?.is_some();
        self.at = start;
        Ok(found)
    }

    pub(super) fn digits(&mut self) -> String {
        let length = self.chars[self.at..].iter().take_while(|char| char.is_ascii_digit()).count();
        let digits = self.chars[self.at..self.at + length].iter().collect();
        self.at += length;
        digits
    }
}
