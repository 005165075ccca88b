//! What expressions mean, as a MongoDB 6.0.27 was seen to answer.

mod arrays;
mod budget;
mod dates;
mod language;
mod numbers;
mod text;

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document};

use super::Expression;

/// The clock of these tests.
const NOW: i64 = 1_600_000_000_000;

fn parse(expression: impl Into<Bson>) -> Result<Expression, i32> {
    Expression::parse_alone(&expression.into(), DateTime::from_millis(NOW)).map_err(|error| error.code)
}

/// The value on a document, or MongoDB's number for the failure.
fn on(document: &Document, expression: impl Into<Bson>) -> Result<Option<Bson>, i32> {
    let raw = RawDocumentBuf::try_from(document).expect("a good document");
    parse(expression)?.evaluate(&raw).map_err(|error| error.code)
}

/// The value on an empty document.
fn eval(expression: impl Into<Bson>) -> Result<Option<Bson>, i32> {
    on(&Document::new(), expression)
}

/// The value, which must be there.
fn value(expression: impl Into<Bson>) -> Bson {
    eval(expression).expect("no failure").expect("a value")
}

/// The number of the failure, which must be there.
fn code(expression: impl Into<Bson>) -> i32 {
    eval(expression).expect_err("a failure")
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}

fn date(millis: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis(millis))
}
