//! The question that a webhook puts to the stream of changes, and the user whose access decides the answer.

use std::sync::Arc;
use std::time::Instant;

use bson::Document;

use crate::admission;
use crate::auth::Rights;
use crate::json::read::document_from_str;
use crate::query::{Effort, Fields, Filter};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::history::changes::{Question, RESOURCES, View};
use crate::service::objects::field_names;
use crate::service::services::Services;

/// The question of a webhook, understood.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) view: View,
    /// The author with the rights to see these resources, and no other: so no event has what only an editor sees.
    pub(super) eyes: Caller,
}

impl Asked {
    /// Understands the question of this webhook for this author.
    ///
    /// # Errors
    /// A resource that the author may not see; a filter that cannot be understood, as a violation.
    pub(super) async fn read(services: &Services, author: &Caller, webhook: &Document) -> Result<Self, ServiceError> {
        let names: Vec<&str> =
            webhook.get_array("resources").into_iter().flatten().filter_map(bson::Bson::as_str).collect();
        let asked = RESOURCES.iter().filter(|(name, _)| names.contains(name));
        let mut question = Question { resources: asked.map(|(name, _)| *name).collect(), filter: None };
        question.resources = question.permitted(&author.rights)?;
        if let Some(text) = webhook.get_str("filter").ok().filter(|text| !text.trim().is_empty()) {
            question.filter = Some(filter(services, author, text).await?);
        }
        let held = RESOURCES.iter().filter(|(name, _)| question.resources.contains(name)).map(|(_, right)| *right);
        let eyes = Caller { rights: Arc::new(Rights::new(held)), is_machine: true, ..author.clone() };
        Ok(Self { question, view: View::named(webhook.get_str("view").unwrap_or_default()), eyes })
    }
}

async fn filter(services: &Services, author: &Caller, text: &str) -> Result<Filter, ServiceError> {
    let wrong = |message: String| ServiceError::violation("/filter", message);
    let document =
        document_from_str(text).map_err(|error| wrong(format!("cannot be understood as a filter: {error}")))?;
    let (limits, now, max_time) = (services.webhooks.limits, services.now(), services.max_time);
    let read = async |fields: Fields| {
        let document = document.clone();
        let read = admission::work(move |means| {
            fields.filter(&document, &limits, now, &Effort::Work(means.clone(), Instant::now().checked_add(max_time)))
        });
        let read = read.await?;
        read.map_err(|error| wrong(format!("cannot be understood as a filter: {error}")))
    };
    let fields = field_names::fields(services, author).await?;
    let filter = match read(fields.clone()).await {
        Ok(filter) => filter,
        Err(refusal) => match field_names::newer(services, author, &fields).await? {
            Some(newer) => read(newer).await?,
            None => return Err(refusal),
        },
    };
    match filter.needs_server() {
        Some(operator) => Err(wrong(format!("cannot be understood as a filter of changes: it has {operator}"))),
        None => Ok(filter),
    }
}
