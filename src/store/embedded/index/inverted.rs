//! Keys of descending components: every bit turned over.

/// Turns the key of one component around, for descending indexes.
pub fn invert(key: &mut [u8]) {
    for byte in key {
        *byte = !*byte;
    }
}
