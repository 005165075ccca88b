//! Routes of users' tokens for machines.

use actix_web::http::StatusCode;
use serde_json::json;

use super::body::JsonBody;
use super::call::{Answer, Call};
use super::envelope::{self, Items, Nothing, Wire};
use super::idempotency::IdempotencyKey;
use super::path::{PathId, PathTokenId};
use super::schema::{Deleted, Explain, IdempotencyHeader, InsertedToken, NewToken, Results, UserToken, operation};
use crate::domain::document::integer;
use crate::json::write::DateStyle;
use crate::service::accounts::api_tokens as service;
use crate::service::once::Once;
use crate::service::resource::UserTokens;
use crate::service::{ErrorCode, ServiceError};

impl Wire for UserTokens {
    const PATH: &'static str = "/users/";
    const DATES: DateStyle = DateStyle::Spaced;
}

operation! {
    /// List the tokens of a user.
    list_tokens: params(Explain), responses((status = 200, body = Results<UserToken>))
}
pub(super) async fn list_tokens(Call { state, request, caller }: Call, user: PathId) -> Answer {
    if state.only_explain(&request)? {
        return Ok(envelope::explained(&service::explain_tokens(&state.services, &caller, user.0).await?));
    }
    let items = Items::of::<UserTokens>(&service::list_tokens(&state.services, &caller, user.0).await?)?;
    Ok(envelope::collection::<UserTokens>(&state, StatusCode::OK, "results", &items, &Nothing {}, "GET"))
}

operation! {
    /// Create a token of a user; the answer shows it this once.
    create_token: params(IdempotencyHeader), request_body = NewToken, responses((status = 201, body = InsertedToken))
}
pub(super) async fn create_token(
    Call { state, request, caller }: Call,
    user: PathId,
    key: IdempotencyKey,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let work = service::create_token(&state.services, &caller, user.0, &body.0);
    let again = async |_| {
        let message = "the token was made under this key and shown then; delete it, and make one under another key";
        Err(ServiceError::refused(ErrorCode::TokenMadeBefore, message))
    };
    let created = Once::carry_out(key.creation(&body.0)?, &state.services, work, again).await?;
    let id = integer(&created.stored, "public_id").unwrap_or_default();
    let path = format!("/users/{}/tokens/{id}", user.0);
    let token = json!({"token": created.token.expose()});
    let place = (StatusCode::CREATED, path.as_str());
    let inserted = envelope::inserted_at::<UserTokens>(&state, &request, place, &id, &created.stored, &token)?;
    Ok(envelope::secret(inserted))
}

operation! {
    /// Revoke a token of a user.
    delete_token: responses((status = 202, body = Deleted<UserToken>))
}
pub(super) async fn delete_token(Call { state, request, caller }: Call, user: PathId, token: PathTokenId) -> Answer {
    state.no_parameters(&request)?;
    let deleted = service::delete_token(&state.services, &caller, user.0, token.0).await?;
    envelope::deleted::<UserTokens>(&state, StatusCode::ACCEPTED, &deleted, &Nothing {})
}
