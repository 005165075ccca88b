//! `aggregate`.

use super::Reading;
use super::options::Options;
use crate::wire::error::{WireError, code};

pub(super) async fn aggregate(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    explain(reading, &reading.options, false).await
}

pub(super) async fn explain(_: &Reading<'_>, options: &Options, _: bool) -> Result<Vec<u8>, WireError> {
    Err(WireError::new(code::COMMAND_NOT_FOUND, format!("no such command: '{}'", options.command)))
}
