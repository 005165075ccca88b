//! Signing in: docs/api.md, Signing in.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use bson::Document;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use validator::Validate;

use super::body::JsonBody;
use super::envelope;
use super::error::ApiError;
use super::schema::{LoginBody, User, operation};
use super::state::HttpState;
use crate::auth::Secret;
use crate::domain::Violation;
use crate::domain::rules::broken;
use crate::domain::user_input::LOGIN;
use crate::json::write::DateStyle;
use crate::service::ErrorCode;

/// What a client signs in with.
#[derive(Validate)]
struct LoginRequest {
    #[validate(length(min = 1, max = 1024, message = "must be a string of 1 to 1024 characters"))]
    user_name: String,
    #[validate(length(min = 1, max = 1024, message = "must be a string of 1 to 1024 characters"))]
    password: String,
}

/// Who signed in, and with which token.
#[derive(Serialize, ToSchema)]
struct LoginResponse<'a> {
    /// The user.
    #[schema(value_type = User)]
    user: &'a RawValue,
    /// For the header `Authorization: Bearer <token>`.
    token: &'a str,
    /// Seconds since 1970.
    token_issued_at: i64,
    /// Seconds since 1970.
    token_expire: i64,
}

operation! {
    /// Sign in with user name and password.
    login: request_body = LoginBody, responses((status = 200, body = LoginResponse))
}
pub(super) async fn login(
    state: web::Data<HttpState>,
    request: HttpRequest,
    body: JsonBody,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let login = LoginRequest::read(&body.0)?;
    let address = state.links.client_address(&request);
    let signed_in = state.services.accounts.login(&login.user_name, Secret::new(login.password), address).await?;
    let mut user = Vec::new();
    envelope::write_document(&signed_in.user, DateStyle::Spaced, &mut user)?;
    let user = String::from_utf8(user).expect("the writer writes UTF-8");
    let response = LoginResponse {
        user: &RawValue::from_string(user).expect("the writer writes JSON"),
        token: signed_in.token.expose(),
        token_issued_at: signed_in.issued_at,
        token_expire: signed_in.expires_at,
    };
    let body = serde_json::to_vec(&response).expect("strings, numbers and JSON can always be written");
    Ok(envelope::secret(envelope::json(StatusCode::OK, body, |_| {})))
}

impl LoginRequest {
    /// Strings only: an object instead of a password must not reach a query.
    fn read(body: &Document) -> Result<Self, ApiError> {
        let text = |name: &str| body.get_str(name).unwrap_or_default().to_owned();
        let request = Self { user_name: text("user_name"), password: text("password") };
        let mut violations = LOGIN.unknown_members(body, None);
        for name in ["user_name", "password"].into_iter().filter(|name| !body.contains_key(name)) {
            violations.push(Violation::new(format!("/{name}"), "is required: a string of 1 to 1024 characters"));
        }
        violations.append(broken(&request, &["user_name", "password"]));
        violations.keep_first_of_each_place();
        if violations.is_empty() {
            return Ok(request);
        }
        Err(ApiError::new(ErrorCode::ValidationFailed, "user_name and password are needed").at(violations))
    }
}
