//! The items of a list, one at a time, out of an answer that is on its way. So a long list is translated in the memory of
//! one item and one chunk.

/// How a list begins.
const HEAD: &[u8] = b"{\"results\":[";

/// Finds the items of a list in the chunks of its text and changes them; everything else passes as it is.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    place: Place,
    /// The beginning of a list or of an item that is not complete yet.
    open: Vec<u8>,
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

/// Where in the list the next byte is.
#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the first item.
    #[default]
    Head,
    /// Between items.
    Between,
    /// In an item.
    Item,
    /// After the last item, or in something that is no list.
    Behind,
}

impl Splitter {
    /// The text of a chunk, its complete items changed by `change`. An incomplete item is kept for the next chunk.
    pub(super) fn feed(&mut self, chunk: &[u8], mut change: impl FnMut(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len() * 2);
        let mut rest = chunk;
        while let Some((&byte, after)) = rest.split_first() {
            match self.place {
                Place::Behind => {
                    out.extend_from_slice(rest);
                    break;
                }
                Place::Head => {
                    self.open.push(byte);
                    if !HEAD.starts_with(&self.open) {
                        out.append(&mut self.open);
                        self.place = Place::Behind;
                    } else if self.open.len() == HEAD.len() {
                        out.append(&mut self.open);
                        self.place = Place::Between;
                    }
                }
                Place::Between if byte == b'{' || byte == b'[' => {
                    self.place = Place::Item;
                    self.depth = 0;
                    continue;
                }
                Place::Between => {
                    out.push(byte);
                    if byte == b']' {
                        self.place = Place::Behind;
                    }
                }
                Place::Item => {
                    self.open.push(byte);
                    if self.ends(byte) {
                        out.extend(change(&self.open));
                        self.open.clear();
                        self.place = Place::Between;
                    }
                }
            }
            rest = after;
        }
        out
    }

    /// What is left of an answer that ended within its beginning or an item.
    pub(super) fn end(self) -> Vec<u8> {
        self.open
    }

    /// Whether the item ends with this byte.
    fn ends(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, length: usize) -> String {
        let mut splitter = Splitter::default();
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(length) {
            out.extend(splitter.feed(chunk, |item| [b"<", item, b">"].concat()));
        }
        out.extend(splitter.end());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn items_are_found_in_chunks_of_any_length() {
        let text = r#"{"results":[{"a":"}\"]{"},{"b":[{}]}],"count":2,"x":[{}]}"#;
        let expected = r#"{"results":[<{"a":"}\"]{"}>,<{"b":[{}]}>],"count":2,"x":[{}]}"#;
        for length in 1..=text.len() {
            assert_eq!(split(text, length), expected, "{length}");
        }
    }

    #[test]
    fn what_is_no_list_passes_as_it_is() {
        for text in [r#"{"results":[]}"#, r#"{"store":"embedded"}"#, "{\"resu", "", "true"] {
            for length in 1..=text.len().max(1) {
                assert_eq!(split(text, length), text);
            }
        }
    }
}
