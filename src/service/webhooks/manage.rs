//! The use cases of webhooks.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};
use chrono::{SecondsFormat, TimeDelta};
use url::Url;

use super::documents::{self, Cursor};
use super::parts::MOST_WEBHOOKS;
use super::question::Asked;
use super::signature::{message, new_secret};
use crate::auth::Secret;
use crate::domain::schema::{without, without_unknown};
use crate::domain::webhook_input::{self, WEBHOOK};
use crate::outgoing::Outcome;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::history::changes::position;
use crate::service::precondition::IfMatch;
use crate::service::queries::advice;
use crate::service::resource::{self, Decision, NewState, Resource, Webhooks};
use crate::service::services::Services;
use crate::store::collections::WEBHOOK_DELIVERIES;
use crate::store::{Condition, Documents, Explanation, FindQuery, StoreError, Unit, scope_version};

/// The scope that bounds the number of webhooks.
const SCOPE: &str = Webhooks::COLLECTION;
/// The age in days up to which records are shown.
const SHOWN_DAYS: i64 = 7;
/// Advice that takes longer is left out.
const ADVICE_TIME: Duration = Duration::from_secs(1);

/// A webhook that was just made.
#[derive(Debug)]
pub struct NewWebhook {
    /// What is kept of it.
    pub stored: RawDocumentBuf,
    /// The secret, shown this once.
    pub secret: Secret,
}

/// What came of a test.
#[derive(Debug, Clone, Copy)]
pub struct Tested {
    /// The outcome.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// Makes a webhook. It sends what changes from now on.
///
/// # Errors
/// Violations of the body, a resource that the caller may not see, more webhooks than there may be.
pub async fn create_webhook(services: &Services, caller: &Caller, body: &Document) -> Result<NewWebhook, ServiceError> {
    let accepted = accepted(services, caller, body, None).await?;
    let (secret, now) = (new_secret(), services.now());
    let begin = services.feed.position().await?;
    let create = async || {
        let at = scope_version(&*services.store, SCOPE, services.max_time).await?;
        let count = services.store.count(Webhooks::COLLECTION, &Filter::all(), services.max_time).await?;
        if count >= MOST_WEBHOOKS {
            let message = format!("there are {MOST_WEBHOOKS} webhooks, the most there may be; delete one first");
            return Err(ServiceError::refused(ErrorCode::QuotaExceeded, message));
        }
        let build = |id: i64| {
            let document = webhook_input::created(accepted.clone(), id, caller.user_id, now);
            let unit = Unit::of(Cursor::begin(id, &secret, begin, now));
            Ok((document, unit.given(Condition::Unchanged { scope: SCOPE.into(), at })))
        };
        resource::create_with::<Webhooks>(services, resource::Wanted::Any, build).await
    };
    let stored = resource::until_it_holds("the webhooks", create).await?;
    Ok(NewWebhook { stored, secret })
}

/// The hints about the filter of a webhook: nobody looks at one that never sends.
///
/// The webhook is stored, so nothing that fails here fails the request.
pub async fn advice(services: &Services, caller: &Caller, webhook: &RawDocument) -> Vec<String> {
    let advice = async {
        match Asked::read(services, caller, &resource::decode(webhook)?).await?.question.filter {
            Some(filter) => advice::of_selection(services, caller, &filter, &Sort::default()).await,
            None => Ok(Vec::new()),
        }
    };
    match tokio::time::timeout(ADVICE_TIME, advice).await {
        Ok(Ok(advice)) => advice,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Changes a webhook to what was sent. The caller becomes its author.
///
/// # Errors
/// As [`create_webhook`], and those of [`resource::change`].
pub async fn change_webhook(
    services: &Services,
    caller: &Caller,
    (id, if_match): (i64, &IfMatch),
    sent: NewState<'_>,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| {
        let (body, stored) = (sent.body(before)?, resource::decode(before)?);
        if let Some(Bson::Int32(sent)) = body.get("public_id") {
            resource::same_id(&doc! { "public_id": i64::from(*sent) }, id)?;
        }
        resource::same_id(&body, id)?;
        let accepted = accepted(services, caller, &body, Some(&stored)).await?;
        let after = webhook_input::updated(accepted, &stored, caller.user_id, services.now());
        let mut decision = Decision::replace::<Webhooks>(before, &after)?;
        if after.get_bool("active").unwrap_or(true) {
            decision.unit = decision.unit.and(documents::retry_now(id));
        }
        Ok(decision)
    };
    resource::change::<Webhooks>(services, id, if_match, decide).await.map(|(_, after)| after)
}

/// Checks a body, and names the resources whose changes the caller may see where it names none.
async fn accepted(
    services: &Services,
    caller: &Caller,
    body: &Document,
    stored: Option<&Document>,
) -> Result<Document, ServiceError> {
    let read = without(webhook_input::other_state(body, stored), webhook_input::read(body));
    let read = without_unknown(&WEBHOOK, body, stored, read);
    let mut accepted = read?;
    let url = url_of(&accepted)?;
    if services.webhooks.sender.refuses(&url) {
        let message = "names an address that webhooks may not go to: http:// reaches only the networks of the setting \
                       webhooks.allowed_networks, https:// public addresses too";
        return Err(ServiceError::violation("/url", message));
    }
    // What is stored may be changed otherwise.
    let is_new = stored.is_none_or(|stored| stored.get("url") != accepted.get("url"));
    if is_new && services.webhooks.sender.sends_nothing_plain(&url) {
        let message = "http:// reaches only the networks of the setting webhooks.allowed_networks, which names none; use https://";
        return Err(ServiceError::violation("/url", message));
    }
    let asked = Asked::read(services, caller, &accepted).await?;
    accepted.insert("resources", asked.question.resources);
    Ok(accepted)
}

fn url_of(webhook: &Document) -> Result<Url, ServiceError> {
    let url = Url::parse(webhook.get_str("url").unwrap_or_default());
    url.map_err(|error| StoreError::Corrupt { what: format!("the url of a webhook: {error}") }.into())
}

/// Removes a webhook with its secret and its records.
///
/// # Errors
/// Those of [`resource::remove`].
pub async fn delete_webhook(services: &Services, id: i64, if_match: &IfMatch) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |_: &RawDocument| Ok(Unit { conditions: Vec::new(), changes: documents::forget(id).into() });
    resource::remove::<Webhooks>(services, id, if_match, decide).await.map(|(removed, _)| removed)
}

/// Sends a test event now, and waits for what comes. Nothing is stored.
///
/// # Errors
/// [`ErrorCode::WebhookNotFound`]; [`ErrorCode::Busy`] while others test.
pub async fn test_webhook(services: &Services, id: i64) -> Result<Tested, ServiceError> {
    let webhook = resource::decode(&resource::get::<Webhooks>(services, id).await?)?;
    let cursor = Cursor::of(services, id).await?;
    let cursor = cursor.ok_or_else(|| ServiceError::not_found(Webhooks::NOT_FOUND, id))?;
    let Ok(permit) = Arc::clone(&services.webhooks.tests).try_acquire_owned() else {
        return Err(ServiceError::refused(ErrorCode::Busy, "other webhooks are being tested; try again"));
    };
    let now = services.clock.now();
    let body = serde_json::json!({
        "type": "webhook.test",
        "timestamp": now.to_rfc3339_opts(SecondsFormat::Millis, true),
        "data": { "webhook_id": id },
    });
    let name = format!("test-{id}-{:016x}", rand::random::<u64>());
    let message = message(url_of(&webhook)?, &cursor.secret, name, now, &body);
    let message = message.ok_or_else(|| StoreError::Corrupt { what: format!("the secret of webhook {id}") })?;
    let begun = services.clock.steady();
    let sender = services.webhooks.sender.clone();
    // The request runs to its end when the caller leaves, and keeps its place.
    let sending = tokio::spawn(async move {
        let outcome = sender.send(message).await;
        drop(permit);
        outcome
    });
    let outcome = sending.await.map_err(StoreError::backend)?;
    Ok(Tested { outcome, duration: services.clock.steady().saturating_sub(begun) })
}

/// Sets the cursor of a webhook: changes after it are sent, or sent again.
///
/// # Errors
/// [`ErrorCode::WebhookNotFound`], and those of [`position`].
pub async fn replay_webhook(services: &Services, id: i64, since: &str) -> Result<RawDocumentBuf, ServiceError> {
    let position = position(services, "since", since).await?;
    let decide = async |before: &RawDocument| {
        let mut after = resource::decode(before)?;
        // The document changes, so the worker looks again.
        after.insert("last_edit_time", services.now());
        let decision = Decision::replace::<Webhooks>(before, &after)?;
        Ok(Decision { unit: decision.unit.and(documents::go_to(id, position, services.now())), ..decision })
    };
    resource::change::<Webhooks>(services, id, &IfMatch::default(), decide).await.map(|(_, after)| after)
}

/// The last attempts of a webhook, newest first.
///
/// # Errors
/// [`ErrorCode::WebhookNotFound`].
pub async fn list_deliveries(services: &Services, id: i64) -> Result<Documents, ServiceError> {
    resource::get::<Webhooks>(services, id).await?;
    Ok(services.store.find(WEBHOOK_DELIVERIES, &last_deliveries(services, id)).await?)
}

/// How they are found.
///
/// # Errors
/// As [`list_deliveries`].
pub async fn explain_deliveries(services: &Services, id: i64) -> Result<Explanation, ServiceError> {
    resource::get::<Webhooks>(services, id).await?;
    Ok(services.store.explain(WEBHOOK_DELIVERIES, &last_deliveries(services, id)).await?)
}

fn last_deliveries(services: &Services, id: i64) -> FindQuery {
    let since = bson::DateTime::from_chrono(services.clock.now() - TimeDelta::days(SHOWN_DAYS));
    let filter = Filter::ours(&doc! { "webhook_id": id, "time": { "$gte": since } });
    FindQuery::new(filter, services.max_time).sorted(Sort::by("number", true))
}
