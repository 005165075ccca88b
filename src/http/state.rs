//! What every handler can reach.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::web::Bytes;

use super::cursors;
use super::error::ApiError;
use super::limits::{KeysUnderWay, Panics};
use super::links::LinkSettings;
use super::params::{EXPLAIN, ListParams, ListRoute, Moment, ParamSettings, Parameters, read_filter, understood};
use super::route_table::RouteInfo;
use super::written::WrittenCache;
use crate::auth::Secret;
use crate::metrics::Metrics;
use crate::query::{Effort, Fields, Filter};
use crate::rate_limits::RateLimits;
use crate::service::{Caller, Services};
use crate::store::FileStore;

/// A text that is made once.
pub type Description = LazyLock<Bytes, Box<dyn FnOnce() -> Bytes + Send>>;

/// The services and the HTTP settings; one for the whole process, and one for each question about the past.
#[derive(Clone)]
pub struct HttpState {
    /// The use cases.
    pub services: Arc<Services>,
    /// How list parameters are read.
    pub params: ParamSettings,
    /// Whether changes of one resource need `If-Match`.
    pub require_if_match: bool,
    /// The longest path and query of a request.
    pub max_uri_bytes: usize,
    /// How absolute URLs begin.
    pub links: LinkSettings,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The store's file, if it is one; its figures are metrics.
    pub file: Option<Arc<dyn FileStore>>,
    /// Whether there is a page for people.
    pub has_page: bool,
    /// The token of a monitor on the address of the service.
    pub metrics_token: Option<Secret>,
    /// The numbers of objects by type that a monitor got last, and when they were counted.
    pub counted: Arc<tokio::sync::Mutex<Option<Counted>>>,
    /// The time budget of a request as a whole.
    pub request_timeout: Duration,
    /// The time budget of an export until its first byte, and of an import.
    pub transfer_timeout: Duration,
    /// How many requests one user may send.
    pub rate_limits: Arc<RateLimits>,
    /// The idempotency keys of requests that are under way.
    pub keys_under_way: KeysUnderWay,
    /// JSON of objects that lists showed before.
    pub written: Arc<WrittenCache>,
    /// Panics of handlers that were caught.
    pub panics: Arc<Panics>,
    /// The facts about all routes.
    pub routes: fn() -> &'static [RouteInfo],
    /// The API description, made when it is first asked for.
    pub description: Arc<Description>,
    /// The same in OpenAPI 3.1.
    pub older_description: Arc<Description>,
}

/// Names of types with the numbers of their objects, and when they were counted.
pub type Counted = (Instant, Vec<(String, u64)>);

/// How many bytes a filter grows by what was looked up for it.
fn looked_up_bytes(fields: Option<&Fields>) -> usize {
    fields.map_or(0, Fields::ids_found) * size_of::<i64>()
}

impl HttpState {
    /// Understands the parameters of a list route.
    ///
    /// # Errors
    /// As [`ListParams::read`].
    pub async fn list_params(
        &self,
        caller: &Caller,
        sent: Parameters,
        route: &ListRoute,
    ) -> Result<ListParams, ApiError> {
        self.object_params(caller, sent, route, None).await
    }

    /// The same for objects; `fields` are those that the caller may know.
    ///
    /// # Errors
    /// As [`ListParams::read`].
    pub async fn object_params(
        &self,
        caller: &Caller,
        sent: Parameters,
        route: &ListRoute,
        fields: Option<Fields>,
    ) -> Result<ListParams, ApiError> {
        let (now, settings, route) = (self.services.now(), self.params.clone(), *route);
        let bytes = sent.question_bytes() + looked_up_bytes(fields.as_ref());
        let read = move |effort: &Effort| {
            ListParams::read(sent.clone(), &route, &settings, fields.as_ref(), Moment { now, effort })
        };
        let mut params = understood(bytes, self.services.max_time, read).await?;
        params.reader = caller.user_id;
        params.types = Some(self.services.current_types().await?);
        cursors::begin(&self.services, &mut params, &route)?;
        Ok(params)
    }

    /// Reads a filter of objects, see [`understood`]; `fields` are those that the caller may know.
    ///
    /// # Errors
    /// As [`read_filter`].
    pub async fn object_filter(&self, text: &str, fields: Option<Fields>) -> Result<Filter, ApiError> {
        let (now, limits, text) = (self.services.now(), self.params.limits, text.to_owned());
        let bytes = text.len() + looked_up_bytes(fields.as_ref());
        let read = move |effort: &Effort| read_filter(&text, &limits, fields.as_ref(), Moment { now, effort });
        understood(bytes, self.services.max_time, read).await
    }

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

    /// Whether the request has `explain=true`, on routes without other parameters.
    ///
    /// # Errors
    /// 400 naming another parameter.
    pub fn only_explain(&self, request: &HttpRequest) -> Result<bool, ApiError> {
        self.only_explain_in(&Parameters::of(request)?)
    }

    /// The same of parameters that were read already.
    ///
    /// # Errors
    /// 400 naming another parameter.
    pub fn only_explain_in(&self, sent: &Parameters) -> Result<bool, ApiError> {
        sent.only(&[EXPLAIN], self.params.unknown)?;
        sent.flag(EXPLAIN)
    }
}
