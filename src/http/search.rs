//! The route of search: docs/api.md, Search.

use actix_web::http::StatusCode;
use serde_json::json;

use super::call::{Answer, Call};
use super::caller::add_warning;
use super::envelope::{self, Items};
use super::error::ApiError;
use super::params::Parameters;
use super::schema::{FoundObjects, SearchParameters, operation};
use crate::service::resource::Objects;
use crate::service::search::{self, Match, Place, SearchQuery};

/// How many objects a page has, without `limit` and at most.
const LIMIT: (u64, u64) = (20, 100);
/// How many characters a question has at most.
const LONGEST: usize = 500;
/// The warning while the index of words is being made.
const INCOMPLETE: &str = "the index of words is being made; objects may be missing";

operation! {
    /// Find objects by words.
    search_objects: params(SearchParameters), responses((status = 200, body = FoundObjects))
}
pub(super) async fn search_objects(Call { state, request, caller }: Call) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["q", "type_id", "limit", "cursor"], state.params.unknown)?;
    let text = sent.get("q").ok_or_else(|| ApiError::parameter("q", "is needed: the words to look for"))?;
    if text.chars().nth(LONGEST).is_some() {
        return Err(ApiError::parameter("q", format!("must have at most {LONGEST} characters")));
    }
    if !search::has_words(text) {
        let message = format!("needs from 1 to {} words of letters or digits", search::MOST_WORDS);
        return Err(ApiError::parameter("q", message));
    }
    let query = SearchQuery {
        text: text.to_owned(),
        type_id: sent.number("type_id")?.map(|id| i64::try_from(id).unwrap_or(i64::MAX)),
        limit: sent.within("limit", LIMIT)?,
        after: sent.get("cursor").map(place).transpose()?,
    };
    let page = search::search(&state.services, &caller, &query).await?;
    let mut items = Items::default();
    for hit in &page.hits {
        serde_json::to_writer(items.begin(), hit).map_err(|error| ApiError::parameter("q", error.to_string()))?;
    }
    let next = page.next.map(|next| next.to_string());
    let beside = json!({"count": items.count, "next": next, "too_common": page.common});
    let mut response = envelope::collection::<Objects>(&state, StatusCode::OK, "results", &items, &beside, "GET");
    if page.is_incomplete {
        add_warning(response.headers_mut(), INCOMPLETE);
    }
    Ok(response)
}

/// The place that a cursor stands for.
fn place(cursor: &str) -> Result<Place, ApiError> {
    let number = |text: &str| {
        let is_number = (1..20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(i64::MAX))
    };
    let kind = |text: &str| [Match::Value, Match::Word, Match::Beginning].into_iter().find(|it| it.digit() == text);
    let mut parts = cursor.split('-');
    let place = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(first), Some(second), Some(third), None) => kind(first).zip(number(second)).zip(number(third)),
        _ => None,
    };
    let ((kind, type_id), public_id) = place.ok_or_else(|| {
        ApiError::parameter("cursor", "is no place in this list; send next of the page before, or leave it out")
    })?;
    Ok(Place { kind, type_id, public_id })
}
