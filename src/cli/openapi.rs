//! `inventory-service openapi`: prints the description of the interface.

use std::io::{self, Write};

use super::Outcome;
use crate::http::openapi;

/// Prints what `/openapi.json` answers, with indentation.
///
/// # Errors
/// When nobody reads it.
pub(super) fn run() -> Outcome {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, openapi::document())?;
    Ok(writeln!(out)?)
}
