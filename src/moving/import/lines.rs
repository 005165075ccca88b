//! Reads the lines of a file in batches, ahead of their use, and compares them with stored documents.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};
use tokio::task::{JoinHandle, spawn_blocking};

use super::LineAction;
use super::rules;
use crate::json::read::trusted_document_from_str;
use crate::moving::MovingError;
use crate::store::StoreError;

/// A batch ends with the line that brings it to this many lines or bytes.
const BATCH_LINES: usize = 1000;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A stored document has at most 16 MiB; its text takes some more.
const LONGEST_LINE: u64 = 128 * 1024 * 1024;

/// A line that is not empty.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// The document, or why the line is not a document.
    pub(super) content: Result<Document, String>,
}

/// Lines, and where the next ones come from.
type Batch = (LineReading, Vec<Line>);

/// The lines of a file.
pub(super) struct Batches {
    path: PathBuf,
    next: Option<JoinHandle<io::Result<Batch>>>,
}

struct LineReading {
    file: BufReader<File>,
    number: u64,
    text: Vec<u8>,
}

impl Batches {
    pub(super) fn open(path: &Path) -> Self {
        let opened = path.to_owned();
        let first = spawn_blocking(move || {
            let file = BufReader::with_capacity(1 << 16, File::open(opened)?);
            LineReading { file, number: 0, text: Vec::new() }.batch()
        });
        Self { path: path.to_owned(), next: Some(first) }
    }

    /// The next lines; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Line>>, MovingError> {
        let Some(reading) = self.next.take() else { return Ok(None) };
        let read = reading.await.map_err(StoreError::backend)?;
        let (reading, lines) = read.map_err(MovingError::at(&self.path))?;
        if lines.is_empty() {
            return Ok(None);
        }
        self.next = Some(spawn_blocking(move || reading.batch()));
        Ok(Some(lines))
    }
}

impl LineReading {
    fn batch(mut self) -> io::Result<Batch> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.is_empty() || (lines.len() < BATCH_LINES && bytes < BATCH_BYTES) {
            self.text.clear();
            let count = (&mut self.file).take(LONGEST_LINE).read_until(b'\n', &mut self.text)?;
            if count == 0 {
                break;
            }
            if count as u64 == LONGEST_LINE {
                return Err(io::Error::other(format!("line {} has no end", self.number + 1)));
            }
            self.number += 1;
            bytes += count;
            if !self.text.trim_ascii().is_empty() {
                lines.push(Line { number: self.number, content: document(&self.text) });
            }
        }
        Ok((self, lines))
    }
}

/// Reads a line, with or without its end.
///
/// # Errors
/// The error for people, without the number of the line.
pub fn document(line: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    trusted_document_from_str(text.trim_end_matches(['\r', '\n']))
        .map_err(|error| error.to_string().replace(" at line 1, column ", " at column "))
}

// Compares a line with the stored document of the same key. `_id`s do not count, because two stores differ in them.

/// The first member in which the line differs; members that it lacks do not count.
pub(super) fn difference<'l>(line: &'l Document, stored: &Document) -> Option<&'l str> {
    let differs =
        |(name, value): &(&String, &Bson)| name.as_str() != "_id" && stored.get(name.as_str()) != Some(*value);
    line.iter().find(differs).map(|(name, _)| name.as_str())
}

/// The new document of a valid line.
pub(super) fn created(read: &rules::Read) -> Result<LineAction, String> {
    let id = read.members.get("_id").cloned().unwrap_or_else(|| ObjectId::new().into());
    let mut document = Document::new();
    document.insert("_id", id);
    document.extend(
        read.members.iter().filter(|(name, _)| *name != "_id").map(|(name, value)| (name.clone(), value.clone())),
    );
    for (name, value) in &read.defaults {
        if !document.contains_key(name) {
            document.insert(name.clone(), value.clone());
        }
    }
    encoded(&document).map(LineAction::Create)
}

/// The stored document after a valid line; members that the line lacks stay.
pub(super) fn replaced(read: &rules::Read, before: RawDocumentBuf, stored: &Document) -> Result<LineAction, String> {
    let mut document = stored.clone();
    for (name, value) in read.members.iter().filter(|(name, _)| *name != "_id") {
        document.insert(name.clone(), value.clone());
    }
    Ok(LineAction::Replace { before, after: encoded(&document)? })
}

fn encoded(document: &Document) -> Result<RawDocumentBuf, String> {
    RawDocumentBuf::try_from(document).map_err(|error| format!("it cannot be stored: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn empty_lines_of_more_than_a_batch_end_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines");
        std::fs::write(&path, [vec![b'\n'; BATCH_BYTES + 1], b"{\"a\": 1}\n".to_vec()].concat()).expect("a file");
        let mut batches = Batches::open(&path);
        let lines = batches.next().await.expect("it can be read").expect("a line is there");
        let numbers: Vec<u64> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [BATCH_BYTES as u64 + 2]);
        assert!(batches.next().await.expect("it can be read").is_none());
    }
}
