//! Objects and arrays written member by member, with the commas where they belong.

use super::{CorruptBson, DateStyle, text, write_date};

/// Appends a JSON object; `members` writes what is in it.
#[inline]
pub fn object<R>(out: &mut Vec<u8>, members: impl FnOnce(&mut ObjectWriter<'_>) -> R) -> R {
    out.push(b'{');
    let result = members(&mut ObjectWriter { out, is_empty: true });
    out.push(b'}');
    result
}

/// Appends a JSON array; `items` writes what is in it.
#[inline]
pub fn array<R>(out: &mut Vec<u8>, items: impl FnOnce(&mut ArrayWriter<'_>) -> R) -> R {
    out.push(b'[');
    let result = items(&mut ArrayWriter { out, is_empty: true });
    out.push(b']');
    result
}

/// The inside of an object that is being written.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl ObjectWriter<'_> {
    /// Writes the name; the caller must append exactly one JSON value to what this returns.
    #[expect(clippy::inline_always, reason = "names are literals: what they need is found out by the compiler")]
    #[inline(always)]
    pub fn name(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        text::write_string(name, self.out);
        self.out.push(b':');
        self.out
    }

    /// Like [`ObjectWriter::name`], for a name that is not known to be UTF-8 yet.
    #[inline]
    pub(super) fn stored_name(&mut self, name: &[u8]) -> Result<&mut Vec<u8>, CorruptBson> {
        self.separate();
        text::write_utf8(name, self.out)?;
        self.out.push(b':');
        Ok(self.out)
    }

    /// A member that is a string.
    #[inline]
    pub fn string(&mut self, name: &str, value: &str) {
        text::write_string(value, self.name(name));
    }

    /// A member that is a string, or null.
    #[expect(clippy::inline_always, reason = "as for a name")]
    #[inline(always)]
    pub fn optional_string(&mut self, name: &str, value: Option<&str>) {
        let out = self.name(name);
        match value {
            Some(value) => text::write_string(value, out),
            None => out.extend_from_slice(b"null"),
        }
    }

    /// A member that is an integer.
    #[inline]
    pub fn integer(&mut self, name: &str, value: i64) {
        text::write_i64(value, self.name(name));
    }

    /// A member that is an integer, or null.
    #[expect(clippy::inline_always, reason = "as for a name")]
    #[inline(always)]
    pub fn optional_integer(&mut self, name: &str, value: Option<i64>) {
        let out = self.name(name);
        match value {
            Some(value) => text::write_i64(value, out),
            None => out.extend_from_slice(b"null"),
        }
    }

    /// A member that is true or false.
    #[expect(clippy::inline_always, reason = "as for a name")]
    #[inline(always)]
    pub fn boolean(&mut self, name: &str, value: bool) {
        self.name(name).extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// A member that is null.
    #[expect(clippy::inline_always, reason = "as for a name")]
    #[inline(always)]
    pub fn null(&mut self, name: &str) {
        self.name(name).extend_from_slice(b"null");
    }

    /// A member that is a time.
    pub fn date(&mut self, name: &str, millis: i64, style: DateStyle) {
        write_date(millis, style, self.name(name));
    }

    /// A member whose value is JSON text already.
    #[inline]
    pub fn json(&mut self, name: &str, value: &[u8]) {
        self.name(name).extend_from_slice(value);
    }

    /// Members that are JSON text already: `"a":1,"b":2`. None when it is empty.
    #[inline]
    pub fn members(&mut self, members: &[u8]) {
        if !members.is_empty() {
            self.separate();
            self.out.extend_from_slice(members);
        }
    }

    /// A member that is an object.
    #[inline]
    pub fn object<R>(&mut self, name: &str, members: impl FnOnce(&mut ObjectWriter<'_>) -> R) -> R {
        object(self.name(name), members)
    }

    /// A member that is an array.
    #[inline]
    pub fn array<R>(&mut self, name: &str, items: impl FnOnce(&mut ArrayWriter<'_>) -> R) -> R {
        array(self.name(name), items)
    }

    #[inline]
    fn separate(&mut self) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
    }
}

/// The inside of an array that is being written.
#[derive(Debug)]
pub struct ArrayWriter<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl ArrayWriter<'_> {
    /// Begins an item; the caller must append exactly one JSON value to what this returns.
    #[inline]
    pub fn item(&mut self) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out
    }

    /// An item that is a string.
    pub fn string(&mut self, value: &str) {
        text::write_string(value, self.item());
    }

    /// An item that is an integer.
    pub fn integer(&mut self, value: i64) {
        text::write_i64(value, self.item());
    }

    /// An item that is an object.
    #[inline]
    pub fn object<R>(&mut self, members: impl FnOnce(&mut ObjectWriter<'_>) -> R) -> R {
        object(self.item(), members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_members_and_items_only() {
        let mut out = Vec::new();
        object(&mut out, |envelope| {
            envelope.members(b"");
            envelope.string("model", "Object");
            envelope.array("results", |items| {
                items.integer(1);
                items.object(|_| ());
                items.string("x");
            });
            envelope.object("pager", |pager| {
                pager.integer("page", 1);
                pager.optional_integer("next", None);
                pager.members(b"\"a\":1,\"b\":2");
            });
            envelope.boolean("last", true);
        });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"model":"Object","results":[1,{},"x"],"pager":{"page":1,"next":null,"a":1,"b":2},"last":true}"#
        );
    }
}
