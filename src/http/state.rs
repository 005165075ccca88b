//! What every handler can reach.

use std::sync::Arc;

use actix_web::HttpRequest;

use super::error::ApiError;
use super::links::LinkSettings;
use super::params::{EXPLAIN, ParamSettings, Parameters};
use crate::service::Services;

/// The services and the settings that belong to HTTP; one for the whole process.
pub struct HttpState {
    /// The use cases.
    pub services: Arc<Services>,
    /// How list parameters are read.
    pub params: ParamSettings,
    /// How absolute URLs begin.
    pub links: LinkSettings,
}

impl HttpState {
    /// Refuses any parameter, on routes that know none.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn no_parameters(&self, request: &HttpRequest) -> Result<(), ApiError> {
        if request.query_string().is_empty() {
            return Ok(());
        }
        Parameters::of(request)?.only(&[], self.params.unknown)
    }

    /// Whether the request asks how a list is found, on routes that know no other parameter.
    ///
    /// # Errors
    /// 400 naming another parameter.
    pub fn only_explain(&self, request: &HttpRequest) -> Result<bool, ApiError> {
        let sent = Parameters::of(request)?;
        sent.only(&[EXPLAIN], self.params.unknown)?;
        sent.flag(EXPLAIN)
    }
}
