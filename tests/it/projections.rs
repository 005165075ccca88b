//! Runs the data files of `tests/projections` and `tests/sorts` against `query`.
//!
//! They are like those of `tests/filters`. A case has a `projection`, maybe a `filter`, and the `results`, which
//! are compared byte by byte; or a `sort` and the `order` of the `_id`s; or the number of the `error`.
//! MongoDB 6.0.27 gave the outcomes.

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};
use inventory_service::query::{Filter, Limits, Projection, Sort};

use crate::filters::{files_in, raw_documents, read};

/// Runs all cases of a folder: `found` and `expected` give an outcome, or MongoDB's number of an error.
fn check<Outcome: PartialEq + std::fmt::Debug>(
    folder: &str,
    found: impl Fn(&Document, &[RawDocumentBuf]) -> Result<Outcome, i32>,
    expected: impl Fn(&Document) -> Outcome,
) {
    let mut failures = Vec::new();
    for file in files_in(folder) {
        let contents = read(&file);
        let documents = raw_documents(&contents);
        for case in contents.get_array("cases").unwrap().iter().map(|case| case.as_document().unwrap()) {
            let expected = case.get_i32("error").map_or_else(|_| Ok(expected(case)), Err);
            let found = found(case, &documents);
            if expected != found {
                failures.push(format!("{}: {case}\n  expected {expected:?}\n  found    {found:?}", file.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{} cases failed\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_projection_gives_what_mongodb_gives() {
    check("tests/projections", project, |case| {
        let results = case.get_array("results").unwrap().iter();
        results.map(|result| RawDocumentBuf::try_from(result.as_document().unwrap()).unwrap()).collect()
    });
}

#[test]
fn every_sort_orders_as_mongodb_orders() {
    check("tests/sorts", sort, |case| case.get_array("order").unwrap().clone());
}

fn project(case: &Document, documents: &[RawDocumentBuf]) -> Result<Vec<RawDocumentBuf>, i32> {
    let filter = case.get_document("filter").cloned().unwrap_or_default();
    let filter = Filter::parse(&filter, &Limits::default()).map_err(|error| error.code)?;
    let projection =
        Projection::parse(case.get_document("projection").unwrap(), &filter).map_err(|error| error.code)?;
    let mut results = Vec::new();
    for document in documents {
        if filter.matches(document).map_err(|error| error.code)? {
            results.push(projection.apply(document, &filter).map_err(|error| error.code)?);
        }
    }
    Ok(results)
}

fn sort(case: &Document, documents: &[RawDocumentBuf]) -> Result<Vec<Bson>, i32> {
    let sort = Sort::parse(case.get_document("sort").unwrap()).map_err(|error| error.code)?;
    let mut keyed = Vec::new();
    for document in documents {
        keyed.push((sort.key_of(document).map_err(|error| error.code)?, document));
    }
    if sort.is_reversed() {
        keyed.reverse();
    }
    keyed.sort_by(|left, right| sort.compare(&left.0, &right.0));
    Ok(keyed.iter().map(|(_, document)| document.get("_id").unwrap().unwrap().try_into().unwrap()).collect())
}
