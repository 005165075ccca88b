//! What a follower is told of events: those that the caller may see and asked for.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};

use super::entries::{concealed, visible};
use super::feed::{Event, Kind, Position};
use super::plain::PlainFields;
use crate::auth::Rights;
use crate::domain::document::text;
use crate::query::{Budget, Filter};
use crate::service::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::services::Services;
use crate::store::StoreError;

/// How long a filter may take for one event.
const MOST_PER_EVENT: Duration = Duration::from_millis(100);

/// The resources with changes, and the rights to see them.
pub const RESOURCES: [(&str, &str); 3] = [
    ("objects", "base.framework.object.view"),
    ("types", "base.framework.type.view"),
    ("categories", "base.framework.category.view"),
];

/// What a follower asks for.
#[derive(Debug, Clone)]
pub struct Question {
    /// The names of resources; without any, all that the caller may see.
    pub resources: Vec<&'static str>,
    /// Which objects.
    pub filter: Option<Filter>,
}

/// An event, as one caller sees it.
pub struct Told {
    /// What it means.
    pub kind: Kind,
    /// The document after it, without the values of passwords; nothing if it went.
    pub document: Option<RawDocumentBuf>,
}

impl Question {
    /// The resource that was asked for, if it is a single one.
    pub fn only(&self) -> Option<&'static str> {
        match self.resources.as_slice() {
            _ if self.filter.is_some() => Some("objects"),
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether the entry is of a resource that was asked for; rights are another matter.
    pub fn concerns(&self, entry: &RawDocument) -> bool {
        let resource = text(entry, "resource").unwrap_or_default();
        let is_named = self.resources.is_empty() || self.resources.contains(&resource);
        is_named && (self.filter.is_none() || resource == "objects")
    }

    /// The resources of which the caller may hear.
    ///
    /// # Errors
    /// [`ErrorCode::RightMissing`] for one that was asked for, and without any.
    pub fn permitted(&self, rights: &Rights) -> Result<Vec<&'static str>, ServiceError> {
        let allowed = |(name, right): &(&'static str, &'static str)| rights.grants(right).then_some(*name);
        let asked = RESOURCES.iter().filter(|(name, _)| self.resources.contains(name));
        if let Some((name, right)) = asked.clone().find(|resource| allowed(resource).is_none()) {
            let message = format!("changes of {name} need the right {right}");
            return Err(ServiceError::refused(ErrorCode::RightMissing, message));
        }
        if !self.resources.is_empty() {
            return Ok(asked.map(|(name, _)| *name).collect());
        }
        let all: Vec<&'static str> = RESOURCES.iter().filter_map(allowed).collect();
        if all.is_empty() {
            let rights = RESOURCES.map(|(_, right)| right).join(", ");
            let message = format!("changes need one of the rights {rights}");
            return Err(ServiceError::refused(ErrorCode::RightMissing, message));
        }
        Ok(all)
    }
}

/// What the caller is told of these events, with their positions.
///
/// # Errors
/// Rights that the caller has lost, a filter that fails on a document, errors of the store.
pub async fn told<'e>(
    services: &Services,
    caller: &Caller,
    question: &Question,
    events: &'e [Event],
) -> Result<Vec<(&'e Event, Told)>, ServiceError> {
    let resources = question.permitted(&caller.rights)?;
    let types = services.types_of(events.iter().map(|event| &*event.entry)).await?;
    let former = services.feed.former_types().await?;
    let visible = visible(caller, &types, &former);
    let plain = PlainFields::new(Arc::clone(&services.store), services.max_time, (types, former));
    if resources.contains(&"objects") {
        plain.prepare(events.iter().map(|event| &*event.entry), false).await?;
    }
    let mut told = Vec::new();
    for event in events {
        let resource = text(&event.entry, "resource").unwrap_or_default();
        let is_object = resource == "objects";
        if !resources.contains(&resource) || !question.concerns(&event.entry) {
            continue;
        }
        if visible.as_ref().is_some_and(|visible| !visible.matches(&event.entry).unwrap_or(false)) {
            continue;
        }
        let failed = RefCell::new(None);
        let budget = Budget::until(Instant::now().checked_add(MOST_PER_EVENT));
        let matches = |document: &bson::RawDocument| match &question.filter {
            None => true,
            Some(filter) => filter.matches_within(document, &budget).unwrap_or_else(|error| {
                *failed.borrow_mut() = Some(error);
                false
            }),
        };
        let kind = event.kind(matches);
        if let Some(error) = failed.into_inner() {
            return Err(StoreError::from(error).into());
        }
        let Some(kind) = kind else { continue };
        let document = event.after.clone().filter(|_| kind != Kind::Leave);
        let document = match document {
            Some(object) if is_object => Some(concealed(&object, &plain.at(&event.entry))?),
            document => document,
        };
        told.push((event, Told { kind, document }));
    }
    Ok(told)
}

/// Reads a position. Followers wait for what lies behind it until that is settled. What lies in the future is refused.
///
/// # Errors
/// What is no position of this store; [`ErrorCode::HistoryGone`] with the oldest one that can be gone on from.
pub async fn position(services: &Services, name: &str, sent: &str) -> Result<Position, ServiceError> {
    let refused = |message: String| ServiceError::refused(ErrorCode::ParameterInvalid, format!("{name}: {message}"));
    let settled = services.feed.position().await?;
    let digits = !sent.is_empty() && sent.bytes().all(|byte| byte.is_ascii_digit());
    let position: Position = sent.parse().ok().filter(|_| digits).ok_or_else(|| {
        refused(format!("{sent:?} is no cursor of changes; take the id of an event, or next of a page"))
    })?;
    let oldest = services.feed.oldest().await?;
    if position < oldest {
        let message = format!("changes behind {position} are no longer kept; the oldest cursor is {oldest}");
        return Err(ServiceError::refused(ErrorCode::HistoryGone, message));
    }
    if position <= settled {
        return Ok(position);
    }
    // Another instance may have given it, or this one before a restart: what comes before it may not be settled here yet.
    let last = services.feed.last().await?;
    if position > last {
        return Err(refused(format!("{position} is no cursor that this service has given; the last one is {last}")));
    }
    Ok(position)
}
