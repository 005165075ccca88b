//! A row at the end of a key: how entries of indexes that are not unique end.

/// How many bytes a row takes at the end of a key.
pub(crate) const ROW: usize = 8;

/// A key followed by its row.
pub(crate) fn with_row(key: &[u8], row: u64) -> Vec<u8> {
    let mut entry = Vec::with_capacity(key.len() + ROW);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&row.to_be_bytes());
    entry
}

/// The length of the key of an entry that ends with its row.
pub(crate) fn length_of_key(entry: &[u8]) -> usize {
    entry.len().saturating_sub(ROW)
}

/// The row at the end of an entry.
pub(crate) fn row_behind(entry: &[u8]) -> u64 {
    entry[length_of_key(entry)..].iter().fold(0, |row, byte| row << 8 | u64::from(*byte))
}
