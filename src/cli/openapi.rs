//! `inventory-service openapi`: prints the description of the interface.

use std::io::{self, BufWriter, Write};

use super::Outcome;
use super::output::stdout;
use crate::http::openapi;

/// Prints what `/openapi.json` answers, with indentation.
///
/// # Errors
/// When nobody reads it.
pub(super) fn run() -> Outcome {
    let mut out = BufWriter::new(stdout());
    serde_json::to_writer_pretty(&mut out, openapi::document()).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
