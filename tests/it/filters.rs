//! Runs the data files of `tests/filters` against `query`: what each operator matches, and what it refuses.
//!
//! A file is one document in extended JSON: a `reason`, the `documents`, and `cases` of a `filter` with the
//! `_id`s that it `matches`, in order, or with the number of the `error`. MongoDB 6.0.27 gave the outcomes.

use std::path::{Path, PathBuf};

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};
use inventory_service::json::read::document_from_str;
use inventory_service::query::{Filter, Limits};

/// What a filter comes to.
#[derive(Debug, PartialEq)]
enum Outcome {
    Matches(Vec<Bson>),
    Error(i32),
}

#[test]
fn every_filter_matches_what_mongodb_matches() {
    let mut failures = Vec::new();
    let mut count = 0;
    for file in files() {
        let contents = read(&file);
        let documents = raw_documents(&contents);
        for case in contents.get_array("cases").unwrap().iter().map(|case| case.as_document().unwrap()) {
            count += 1;
            let (expected, found) = (expected(case), outcome(case.get_document("filter").unwrap(), &documents));
            if expected != found {
                let name = file.file_name().unwrap_or_default().display();
                failures.push(format!("{name}: {case}\n  expected {expected:?}\n  found    {found:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases failed\n{}", failures.len(), failures.join("\n"));
    assert!(count > 400, "only {count} cases were found");
}

#[test]
fn every_case_has_a_reason() {
    for file in files() {
        let contents = read(&file);
        assert!(contents.get_str("reason").is_ok(), "{}", file.display());
        for case in contents.get_array("cases").unwrap() {
            assert!(case.as_document().unwrap().get_str("reason").is_ok(), "{}: {case}", file.display());
        }
    }
}

fn files() -> Vec<PathBuf> {
    files_in("tests/filters")
}

/// The data files of a folder, in the order of their names.
pub(crate) fn files_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The document in a data file.
pub(crate) fn read(file: &Path) -> Document {
    let text = std::fs::read_to_string(file).unwrap();
    document_from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The documents that the cases of a data file are about.
pub(crate) fn raw_documents(contents: &Document) -> Vec<RawDocumentBuf> {
    let documents = contents.get_array("documents").unwrap();
    documents.iter().map(|document| RawDocumentBuf::try_from(document.as_document().unwrap()).unwrap()).collect()
}

fn expected(case: &Document) -> Outcome {
    match case.get_array("matches") {
        Ok(ids) => Outcome::Matches(ids.clone()),
        Err(_) => Outcome::Error(case.get_i32("error").unwrap()),
    }
}

fn outcome(filter: &Document, documents: &[RawDocumentBuf]) -> Outcome {
    let filter = match Filter::parse(filter, &Limits::default()) {
        Ok(filter) => filter,
        Err(error) => return Outcome::Error(error.code),
    };
    let mut ids = Vec::new();
    for document in documents {
        match filter.matches(document) {
            Ok(true) => ids.push(document.get("_id").unwrap().unwrap().try_into().unwrap()),
            Ok(false) => {}
            Err(error) => return Outcome::Error(error.code),
        }
    }
    Outcome::Matches(ids)
}
