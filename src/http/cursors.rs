//! `after`: pages that continue where the last one ended, whatever was stored or deleted meanwhile. docs/api.md, Cursors.

use bson::{Bson, Document, doc};
use sha2::{Digest, Sha256};

use super::error::ApiError;
use super::params::{ListParams, ListRoute};
use crate::service::Services;
use crate::service::resource::Continued;

/// The parameter.
pub(super) const AFTER: &str = "after";
/// The maximum number of items of such a page: it is in memory as a whole.
const MOST: u64 = 1000;
/// Longer cursors would not fit into URLs.
const LONGEST: usize = 4096;

/// Reads `after`: the list continues after the position in the cursor, or begins if there is none.
///
/// # Errors
/// 400 naming the parameter.
pub fn begin(services: &Services, params: &mut ListParams, route: &ListRoute) -> Result<(), ApiError> {
    let Some(cursor) = params.after.clone() else { return Ok(()) };
    if params.sent.get("page").is_some() {
        return Err(ApiError::parameter("page", "cannot be used with after, which says where the page begins"));
    }
    if params.query.limit > MOST {
        if params.sent.get("limit").is_some() {
            return Err(ApiError::parameter("limit", format!("must be from 1 to {MOST} with after")));
        }
        params.query.limit = MOST;
    }
    params.query.keyed = true;
    let mut roots: Vec<&str> = Vec::new();
    for key in params.query.sort.keys() {
        let root = key.path.root();
        if roots.contains(&root) {
            let message = format!("has two paths below {root}, which after cannot follow; use page");
            return Err(ApiError::parameter("sort", message));
        }
        roots.push(root);
    }
    if cursor.is_empty() {
        return Ok(());
    }
    if params.query.explain {
        return Err(ApiError::parameter(
            "explain", "cannot be used behind a cursor, whose values are sealed; use after=",
        ));
    }
    let wrong = || {
        let message = "is no cursor of this list; it comes from an answer to the same user with the same filter, sort, \
                       order and active, and an empty one begins the list";
        ApiError::parameter(AFTER, message)
    };
    let content = services.accounts.open_cursor(&context(params), &cursor).ok_or_else(wrong)?;
    let content = Document::from_reader(&*content).map_err(|_| wrong())?;
    let key: Vec<Bson> = content.get_array("key").cloned().map_err(|_| wrong())?;
    params.before = content.get_i64("before").ok().and_then(|before| u64::try_from(before).ok()).ok_or_else(wrong)?;
    let after = params.query.sort.seek(&key, route.key)?;
    params.query.filter = params.query.filter.clone().and(after);
    Ok(())
}

/// The parameters of an answer: with the cursor of the next page, if there is one.
///
/// # Errors
/// 400 when a value of the sort is too long for a cursor.
pub fn continued(services: &Services, params: &ListParams, page: &Continued) -> Result<ListParams, ApiError> {
    let mut params = params.clone();
    if let Some(key) = &page.key {
        let before = i64::try_from(params.before + page.count).unwrap_or(i64::MAX);
        let content = doc! { "before": before, "key": key.clone() }.to_vec().unwrap_or_default();
        let cursor = services.accounts.seal_cursor(&context(&params), &content);
        let cursor = cursor.filter(|cursor| cursor.len() <= LONGEST);
        let too_long = || ApiError::parameter("sort", "has a value that is too long for a cursor; use page");
        params.next = Some(cursor.ok_or_else(too_long)?);
    }
    params.query.page = params.before / params.query.limit + 1;
    Ok(params)
}

/// A cursor opens only for the same question of the same user: it discloses how many items that user has seen before.
fn context(params: &ListParams) -> Vec<u8> {
    let mut context = Sha256::new();
    let (order, active, reader) = (params.order.to_string(), format!("{:?}", params.active), params.reader.to_string());
    for part in [&params.filter, &params.sort, &order, &active, &reader] {
        context.update((part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finalize().to_vec()
}
