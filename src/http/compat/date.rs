//! `/rest/date/`: how the front end shows dates.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde_json::json;

use crate::http::body::JsonBody;
use crate::http::envelope;
use crate::http::error::ApiError;
use crate::http::state::HttpState;
use crate::service::regional::{self, Regional};

/// `GET /rest/date/`. The front end asks once, on the page to sign in, and so without a token.
pub(super) async fn read(state: web::Data<HttpState>) -> Result<HttpResponse, ApiError> {
    Ok(answer(&regional::read(&state.services).await?))
}

/// `POST` and `PUT /rest/date/`.
pub(super) async fn save(state: web::Data<HttpState>, body: JsonBody) -> Result<HttpResponse, ApiError> {
    Ok(answer(&regional::save(&state.services, &body.0).await?))
}

fn answer(setting: &Regional) -> HttpResponse {
    let body = json!({ "_id": "date", "date_format": setting.date_format, "timezone": setting.timezone });
    envelope::json(StatusCode::OK, body.to_string().into_bytes(), |_| {})
}
