//! Events as JSON, for streams, pages and webhooks.

use std::sync::Arc;

use bson::raw::RawDocument;
use chrono::SecondsFormat;
use serde_json::{Value, json};

use super::changes::{LARGE, Told, View};
use crate::admission::{self, Means};
use crate::domain::document::{integer, text};
use crate::json::write::{self, DateStyle, Shape};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::objects::rendering::{self, Views};
use crate::service::services::Services;
use crate::store::{Documents, StoreError};

/// The dates in the documents of a resource: docs/api.md, Times.
fn dates_of(resource: &str) -> DateStyle {
    if resource == "objects" { DateStyle::Millis } else { DateStyle::Iso }
}

/// The resource of an event and its data.
///
/// # Errors
/// Errors of the store.
pub async fn described(
    services: &Services,
    caller: &Caller,
    view: View,
    told: Told,
) -> Result<(String, Value), ServiceError> {
    let entry = &told.entry;
    let resource = text(entry, "resource").unwrap_or_default().to_owned();
    let time =
        entry.get_datetime("time").ok().map(|time| time.to_chrono().to_rfc3339_opts(SecondsFormat::Millis, true));
    let mut data = json!({
        "kind": told.kind.name(),
        "sequence": told.sequence(),
        "action": text(entry, "action"),
        "public_id": integer(entry, "public_id"),
        "version": text(entry, "version"),
        "time": time,
        "user_id": integer(entry, "user_id"),
    });
    if view != View::Ids {
        data["document"] = match told.document {
            None => Value::Null,
            Some(document) => shown(services, caller, view, &resource, &document).await?,
        };
    }
    Ok((resource, data))
}

async fn shown(
    services: &Services,
    caller: &Caller,
    view: View,
    resource: &str,
    document: &RawDocument,
) -> Result<Value, ServiceError> {
    if resource == "objects" && view == View::Render {
        let page: Documents = std::iter::once(document).collect();
        // Without a right no caller sees passwords, those of referenced objects included; access lists check the group.
        let eyes = Caller { rights: Arc::default(), ..caller.clone() };
        let types = services.current_types().await?;
        let views = rendering::render_objects(services, &eyes, (&page, types), Views::default()).await?;
        let view = views.iter().next().map(serde_json::from_slice).transpose();
        return Ok(view.unwrap_or_default().unwrap_or_default());
    }
    let (document, dates) = (document.to_owned(), dates_of(resource));
    let is_large = document.as_bytes().len() > LARGE;
    let write = move |_: &Means| {
        let mut json = Vec::with_capacity(document.as_bytes().len() * 2);
        write::write_document(&document, Shape::new(dates), &mut json)
            .map_err(|error| StoreError::Corrupt { what: format!("a stored document: {error}") })?;
        Ok::<Value, StoreError>(serde_json::from_slice(&json).unwrap_or_default())
    };
    Ok(admission::work_if(is_large, write).await??)
}
