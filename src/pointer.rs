//! Segments of JSON pointers: RFC 6901, section 3.

/// A name as a segment.
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The name in a segment, without escapes.
pub fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Appends `/name` to a pointer.
pub fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    pointer.push_str(&escaped(name));
}
