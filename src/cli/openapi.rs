//! `inventory-service openapi`: prints the description of the interface.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use clap::{Args, ValueEnum};

use super::Outcome;
use super::output::stdout;
use crate::http::openapi;

/// Which description is printed.
#[derive(Debug, Args)]
pub struct OpenapiCommand {
    /// The version of OpenAPI: 3.2 is what `/openapi.json` answers; in 3.1 the method QUERY stands under `x-query`.
    #[arg(long = "for", value_name = "VERSION", default_value = "3.2")]
    version: OpenapiVersion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OpenapiVersion {
    #[value(name = "3.1")]
    V31,
    #[value(name = "3.2")]
    V32,
}

impl OpenapiCommand {
    /// Prints the description, with indentation.
    ///
    /// # Errors
    /// When the output is closed.
    pub(super) fn run(&self) -> Outcome {
        let document = match self.version {
            OpenapiVersion::V31 => Cow::Owned(openapi::document_for_3_1()),
            OpenapiVersion::V32 => Cow::Borrowed(openapi::document()),
        };
        let mut out = BufWriter::new(stdout());
        serde_json::to_writer_pretty(&mut out, &*document).map_err(io::Error::from)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }
}
