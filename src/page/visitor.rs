//! Who looks at the page, and what they send.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::error::InternalError;
use actix_web::{FromRequest, HttpRequest, web};
use futures::future::LocalBoxFuture;

use super::guard::{TOKEN, fits, forged, token};
use super::parts::sign_in_form;
use super::texts::Texts;
use crate::http::body::FormBody;
use crate::http::caller::Authenticated;
use crate::http::error::ApiError;
use crate::http::params::pairs;
use crate::http::session;
use crate::http::state::HttpState;
use crate::service::accounts::rights::require;
use crate::service::{Caller, ErrorCode, Services};

/// Somebody, signed in or not.
pub struct Guest {
    /// What every handler can reach.
    pub state: web::Data<HttpState>,
    /// The texts in the language of the browser.
    pub texts: Texts,
    /// Path and query of the request.
    pub address: String,
    /// Names and values of the query.
    pub query: Vec<(String, String)>,
}

/// Somebody who is signed in.
pub struct Visitor {
    /// The request.
    pub guest: Guest,
    /// Who it is.
    pub caller: Arc<Caller>,
    /// A token for the forms of this answer.
    pub token: String,
}

/// What somebody who is signed in sends from a form of this session.
pub struct Form {
    /// Who sends it.
    pub visitor: Visitor,
    body: FormBody,
}

impl Guest {
    /// The sender of a request.
    ///
    /// # Errors
    /// 400 for a query that is not UTF-8.
    pub fn of(request: &HttpRequest) -> Result<Self, ApiError> {
        let state = request.app_data::<web::Data<HttpState>>().cloned();
        Ok(Self {
            state: state.ok_or_else(|| ApiError::of(ErrorCode::Internal))?,
            texts: Texts::of(request.headers()),
            address: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
            query: pairs(request.query_string())?,
        })
    }

    /// The first value of a parameter; an empty one counts as none.
    pub fn asked(&self, name: &str) -> Option<&str> {
        first(&self.query, name)
    }
}

impl FromRequest for Guest {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::of(request))
    }
}

impl Visitor {
    fn of(request: &HttpRequest, caller: Arc<Caller>) -> Result<Self, ApiError> {
        let token = token(session::secret(request.headers()).unwrap_or_default());
        Ok(Self { guest: Guest::of(request)?, caller, token })
    }

    /// The use cases.
    pub fn services(&self) -> &Services {
        &self.guest.state.services
    }

    /// The texts in the language of the browser.
    pub fn texts(&self) -> Texts {
        self.guest.texts
    }

    /// Refuses a visitor who does not hold a right.
    ///
    /// # Errors
    /// 403, naming the right.
    pub fn needs(&self, right: &str) -> Result<(), ApiError> {
        Ok(require(&self.caller.rights, right)?)
    }

    /// Whether the visitor holds a right.
    pub fn may(&self, right: &str) -> bool {
        self.caller.rights.grants(right)
    }
}

impl FromRequest for Visitor {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let caller = Authenticated::from_request(request, payload).into_inner();
        ready(caller.and_then(|caller| Self::of(request, caller.0)))
    }
}

impl Form {
    /// The first value of a name; an empty one counts as none.
    pub fn get(&self, name: &str) -> Option<&str> {
        first(&self.body.pairs, name)
    }

    /// The first value of a name, also an empty one.
    pub fn sent(&self, name: &str) -> Option<&str> {
        self.body.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All names and values, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.body.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All values of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.body.pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl FromRequest for Form {
    type Error = actix_web::Error;
    type Future = LocalBoxFuture<'static, Result<Self, actix_web::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let caller = Authenticated::from_request(request, payload).into_inner();
        let body = FormBody::from_request(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let body = body.await?;
            let Ok(Authenticated(caller)) = caller else {
                let guest = Guest::of(&request)?;
                let answer = sign_in_form::interrupted(guest.texts, &guest.address, &body.pairs);
                return Err(InternalError::from_response("the session has ended", answer).into());
            };
            let secret = session::secret(request.headers()).unwrap_or_default();
            let sent = first(&body.pairs, TOKEN).unwrap_or_default();
            if !fits(secret, sent) {
                return Err(forged().into());
            }
            Ok(Self { visitor: Visitor::of(&request, caller)?, body })
        })
    }
}

/// The first value of a name that is not empty.
pub fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
}
