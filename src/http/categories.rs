//! Routes of categories: docs/api.md, Categories.

use actix_web::http::StatusCode;

use super::body::{JsonBody, JsonValue};
use super::call::{Answer, Call, Edit, created};
use super::envelope::{self, Items, Wire};
use super::error::ApiError;
use super::history::at;
use super::idempotency::IdempotencyKey;
use super::listing;
use super::params::{ListParams, ListRoute};
use super::path::PathId;
use super::schema::{
    At, Category, CategoryBody, CategoryListing, CategoryOrNode, CategoryPatch, DeletedWith, IdempotencyHeader,
    IfMatch, IfNoneMatch, Inserted, ListOf, Listing, Single, Updated, operation,
};
use super::sent::Sent;
use super::state::HttpState;
use crate::json::write::DateStyle;
use crate::service::Caller;
use crate::service::history::as_of::AccessLists;
use crate::service::resource::{self, Categories, NewState};
use crate::service::types::categories::{self as service, Node};

const LIST: ListRoute = ListRoute { views: &["list", "tree"], past: true, ..ListRoute::by("public_id") };

impl Wire for Categories {
    const PATH: &'static str = "/categories/";
    const DATES: DateStyle = DateStyle::Iso;
}

operation! {
    /// List categories, flat or as a tree.
    list_categories: params(Listing, CategoryListing, At), responses((status = 200, body = ListOf<CategoryOrNode>))
}
pub(super) async fn list_categories(Call { state, request, caller }: Call, sent: Sent) -> Answer {
    let params = state.list_params(&caller, sent.0, &LIST).await?;
    let state = at::of_list(state, &params, AccessLists::OfThen).await?;
    if params.view != Some("tree") {
        let listed = resource::list::<Categories>(&state.services, &params.query).await?;
        return listing::advised::<Categories>(&state, &request, Categories::PATH, &params, listed).await;
    }
    if params.after.is_some() {
        return Err(ApiError::parameter("after", "cannot be used with the view tree; use page"));
    }
    if params.query.explain {
        return Ok(envelope::explained(&service::explain_forest(&state.services, &params.query).await?));
    }
    let (items, total) = tree_page(&state, &caller, &params).await?;
    envelope::list::<Categories>(&state, &request, Categories::PATH, &params, items, total)
}

/// The page of roots; a tree is cut between roots only.
async fn tree_page(state: &HttpState, caller: &Caller, params: &ListParams) -> Result<(Items, u64), ApiError> {
    let forest = service::read_forest(&state.services, caller, &params.query).await?;
    let roots = forest.roots();
    let total = roots.len() as u64;
    let skip = (params.query.page - 1).saturating_mul(params.query.limit);
    let mut items = Items::default();
    for (_, root) in (0_u64..).zip(&roots).filter(|(at, _)| *at >= skip && at - skip < params.query.limit) {
        write_node(root, items.begin())?;
    }
    Ok((items, total))
}

fn write_node(node: &Node<'_>, out: &mut Vec<u8>) -> Result<(), ApiError> {
    out.extend_from_slice(b"{\"category\":");
    envelope::write_document(node.category, Categories::DATES, out)?;
    let order = node.order.map_or_else(|| "null".to_owned(), |order| order.to_string());
    out.extend_from_slice(format!(",\"node_order\":{order},\"children\":[").as_bytes());
    for (index, child) in node.children.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_node(child, out)?;
    }
    out.extend_from_slice(b"],\"types\":[");
    for (index, entry) in node.types.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        envelope::write_document(&entry.document, DateStyle::Iso, out)?;
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

operation! {
    /// Read a category.
    get_category: params(At, IfNoneMatch), responses((status = 200, body = Single<Category>))
}
pub(super) async fn get_category(Call { state, request, caller }: Call, id: PathId) -> Answer {
    let state = at::of_read::<Categories>(state, &request, (&*caller, id.0), AccessLists::OfThen).await?;
    let found = resource::get::<Categories>(&state.services, id.0).await?;
    envelope::single::<Categories>(&state, &request, &found)
}

operation! {
    /// Create a category.
    create_category: params(IdempotencyHeader), request_body = CategoryBody, responses((status = 201, body = Inserted<Category>))
}
pub(super) async fn create_category(Call { state, request, .. }: Call, key: IdempotencyKey, body: JsonBody) -> Answer {
    let work = service::create_category(&state.services, &body.0);
    created::<Categories>(&state, &request, (&key, &body.0), work).await
}

operation! {
    /// Replace a category.
    update_category: params(IfMatch), request_body = CategoryBody, responses((status = 202, body = Updated<Category>))
}
pub(super) async fn update_category(Edit { state, request, id, condition, .. }: Edit, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_category(&state.services, id, &condition, NewState::Whole(&body.0)).await?;
    envelope::updated::<Categories>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Merge a patch into a category.
    patch_category:
        params(IfMatch),
        request_body(content((CategoryPatch = "application/json"), (CategoryPatch = "application/merge-patch+json"))),
        responses((status = 202, body = Updated<Category>))
}
pub(super) async fn patch_category(Edit { state, request, id, condition, .. }: Edit, patch: JsonValue) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_category(&state.services, id, &condition, NewState::Patch(&patch.0)).await?;
    envelope::updated::<Categories>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Delete a category; its children move up.
    delete_category: params(IfMatch), responses((status = 202, body = DeletedWith<Category>))
}
pub(super) async fn delete_category(Edit { state, request, id, condition, .. }: Edit) -> Answer {
    state.no_parameters(&request)?;
    let (deleted, moved) = service::delete_category(&state.services, id, &condition).await?;
    let beside = serde_json::json!({"also_changed": {"categories": moved}});
    envelope::deleted::<Categories>(&state, StatusCode::ACCEPTED, &deleted, &beside)
}
