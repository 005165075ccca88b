//! Keys of descending components: every bit inverted.

/// Inverts the key of one component, for descending indexes.
pub fn invert(key: &mut [u8]) {
    for byte in key {
        *byte = !*byte;
    }
}
