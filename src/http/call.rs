//! What the handlers of resources are given and give back.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::{FromRequest, HttpMessage, HttpRequest, HttpResponse, web};
use bson::Document;
use bson::raw::RawDocumentBuf;

use super::caller::Authenticated;
use super::conditional::Precondition;
use super::envelope::{self, Wire};
use super::error::ApiError;
use super::idempotency::IdempotencyKey;
use super::path::PathId;
use super::state::HttpState;
use crate::service::once::Once;
use crate::service::precondition::IfMatch;
use crate::service::resource;
use crate::service::{Caller, ErrorCode, ServiceError};

/// What a handler gives back.
pub(super) type Answer = Result<HttpResponse, ApiError>;

/// A request of a caller who may send it.
pub(super) struct Call {
    pub state: web::Data<HttpState>,
    pub request: HttpRequest,
    pub caller: Arc<Caller>,
}

impl FromRequest for Call {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let state = request.app_data::<web::Data<HttpState>>().cloned();
        let caller = Authenticated::from_request(request, payload).into_inner();
        let call = |state| Ok(Self { state, request: request.clone(), caller: caller?.0 });
        ready(state.ok_or_else(|| ApiError::of(ErrorCode::Internal)).and_then(call))
    }
}

/// Marks a request of a client of DATAGERRY: answers that the original does not give are left out.
pub(super) struct AsOriginal;

impl AsOriginal {
    /// Whether the request has the mark.
    pub(super) fn is_asked(request: &HttpRequest) -> bool {
        request.extensions().get::<Self>().is_some()
    }
}

/// A request to change one resource.
pub(super) struct Edit {
    pub state: web::Data<HttpState>,
    pub request: HttpRequest,
    pub caller: Arc<Caller>,
    pub id: i64,
    pub condition: IfMatch,
}

impl FromRequest for Edit {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let mut edit = || {
            let Call { state, request, caller } = Call::from_request(request, payload).into_inner()?;
            let id = PathId::from_request(&request, payload).into_inner()?.0;
            let condition = Precondition::from_request(&request, payload).into_inner()?.0;
            Ok(Self { state, request, caller, id, condition })
        };
        ready(edit())
    }
}

/// Creates a resource, once for each idempotency key.
pub(super) async fn created<W: Wire>(
    state: &HttpState,
    request: &HttpRequest,
    (key, body): (&IdempotencyKey, &Document),
    work: impl Future<Output = Result<RawDocumentBuf, ServiceError>>,
) -> Answer {
    state.no_parameters(request)?;
    let again = async |outcome| resource::encode(&outcome);
    let created = Once::carry_out(key.creation(body)?, &state.services, work, again).await?;
    envelope::inserted::<W>(state, request, StatusCode::CREATED, &created)
}
