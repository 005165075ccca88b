//! Ids in paths.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use percent_encoding::percent_decode_str;

use super::error::ApiError;
use crate::service::ErrorCode;
use crate::service::objects::by_value::ByValue;

/// The `{public_id}` of a path; anything but a positive integer is 404.
pub(super) struct PathId(pub i64);

/// The `{public_ids}` of a path: positive integers with commas between them.
pub(super) struct PathIds(pub Vec<i64>);

/// The `{token_id}` of a path.
pub(super) struct PathTokenId(pub i64);

/// The `{name}` of a path: any text, decoded.
pub(super) struct PathText(pub String);

/// A `{type}`, a `{field}` of it and a `{value}`, decoded.
pub(super) struct PathValue(pub ByValue);

impl FromRequest for PathValue {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let decoded = |name: &str| decoded(request.match_info().get(name).unwrap_or_default());
        let place = || Ok(ByValue { type_name: decoded("type")?, field: decoded("field")?, value: decoded("value")? });
        ready(place().map(Self))
    }
}

impl FromRequest for PathTokenId {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let segment = request.match_info().get("token_id").unwrap_or_default();
        ready(positive(segment).map(Self).ok_or_else(|| nothing_under(segment, "the list of tokens has them")))
    }
}

impl FromRequest for PathText {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let segment = request.match_info().get("name").unwrap_or_default();
        ready(decoded(segment).map(Self))
    }
}

fn decoded(segment: &str) -> Result<String, ApiError> {
    let text = percent_decode_str(segment).decode_utf8().map_err(|_| ApiError::of(ErrorCode::NotFound))?;
    Ok(text.into_owned())
}

impl FromRequest for PathId {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let segment = request.match_info().get("public_id").unwrap_or_default();
        ready(positive(segment).map(Self).ok_or_else(|| no_id(segment)))
    }
}

impl FromRequest for PathIds {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let info = request.match_info();
        let segment = info.get("public_ids").or_else(|| info.get("public_id")).unwrap_or_default();
        ready(read_ids(segment))
    }
}

fn read_ids(segment: &str) -> Result<PathIds, ApiError> {
    let mut ids = Vec::new();
    for part in segment.split(',') {
        let wrong = || {
            let message = format!("{part:?} is no id; write whole numbers from 1 with commas between them");
            ApiError::new(ErrorCode::IdInvalid, message)
        };
        let id = positive(part).ok_or_else(wrong)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(PathIds(ids))
}

/// 404 for an invalid id.
fn no_id(segment: &str) -> ApiError {
    nothing_under(segment, "to find a name, use filter")
}

fn nothing_under(segment: &str, remedy: &str) -> ApiError {
    let message = format!("there is nothing under {segment:?}: ids are whole numbers from 1; {remedy}");
    ApiError::new(ErrorCode::NotFound, message)
}

/// A positive integer, digits only.
pub(super) fn positive(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| digits && *id > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_integers_are_ids() {
        assert_eq!(positive("17"), Some(17));
        for bad in ["0", "-1", "+1", "1.0", "a", "", "99999999999999999999"] {
            assert_eq!(positive(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_list_of_ids_drops_repetitions_and_refuses_anything_else() {
        assert_eq!(read_ids("3,1,3").expect("all are ids").0, [3, 1]);
        assert!(read_ids("3,x").is_err());
        assert!(read_ids("3,").is_err());
    }
}
