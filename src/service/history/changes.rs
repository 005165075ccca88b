//! The events that a follower receives: those that the caller may see and asked for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};

use super::channels::kind_of;
use super::entries::{concealed, visible};
use super::feed::{Batch, Event, Kind, Position};
use super::moments::position_at;
use super::past::of_entries;
use super::plain::PlainFields;
use crate::admission::{self, Means};
use crate::auth::Rights;
use crate::domain::document::{integer, text};
use crate::query::{Budget, Filter};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::services::Services;
use crate::service::types::catalog::lets_through;
use crate::store::StoreError;
use crate::store::collections::OBJECTS;

/// The number of events read at first, and the maximum, if their documents are not too large. A server sends all documents
/// that are asked for together before their size is known.
const FIRST: usize = 8;
const MOST: usize = 128;

/// Events of more bytes are work in a turn.
pub(super) const LARGE: usize = 64 * 1024;

/// How long a filter may take for one event.
const MOST_PER_EVENT: Duration = Duration::from_millis(100);

/// The resources with changes, and the rights to see them.
pub const RESOURCES: [(&str, &str); 3] = [
    ("objects", "base.framework.object.view"),
    ("types", "base.framework.type.view"),
    ("categories", "base.framework.category.view"),
];

/// The options of a follower.
#[derive(Debug, Clone)]
pub struct Question {
    /// The names of resources; without any, all that the caller may see.
    pub resources: Vec<&'static str>,
    /// Which objects.
    pub filter: Option<Filter>,
}

/// What events hold of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The document as it is stored.
    Native,
    /// Objects as they are rendered, everything else as it is stored.
    Render,
    /// Nothing.
    Ids,
}

impl View {
    /// The view with this name; the stored document for any other name.
    pub fn named(name: &str) -> Self {
        match name {
            "render" => Self::Render,
            "ids" => Self::Ids,
            _ => Self::Native,
        }
    }
}

/// An event, as one caller sees it.
pub struct Told {
    /// The entry, without how to go back.
    pub entry: RawDocumentBuf,
    /// What it means.
    pub kind: Kind,
    /// The document after it, without the values of passwords; nothing if it went.
    pub document: Option<RawDocumentBuf>,
}

impl Told {
    /// The sequence of the entry: the cursor after this event.
    pub fn sequence(&self) -> Position {
        integer(&self.entry, "sequence").unwrap_or_default()
    }
}

impl Question {
    /// The requested resource, if it is a single one.
    pub fn only(&self) -> Option<&'static str> {
        match self.resources.as_slice() {
            _ if self.filter.is_some() => Some("objects"),
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether the entry is of a requested resource; rights are checked elsewhere.
    pub fn concerns(&self, entry: &RawDocument) -> bool {
        let resource = text(entry, "resource").unwrap_or_default();
        let is_named = self.resources.is_empty() || self.resources.contains(&resource);
        is_named && (self.filter.is_none() || resource == "objects")
    }

    /// The resources whose changes the caller may see.
    ///
    /// # Errors
    /// [`ErrorCode::RightMissing`] for one that was requested, and without any.
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

/// The entries that the caller may see, and that a filter selects by ids and types.
///
/// # Errors
/// Rights that the caller has lost; errors of the store.
pub async fn heard(services: &Services, caller: &Caller, question: &Question) -> Result<Filter, ServiceError> {
    let mut resources = question.permitted(&caller.rights)?;
    let mut heard = Filter::all();
    if let Some(filter) = &question.filter {
        resources.retain(|resource| *resource == "objects");
        heard = of_entries(OBJECTS, filter);
    }
    let types = services.current_types().await?;
    let former = services.feed.former_types().await?;
    heard = heard.and(Filter::one_of("resource", resources));
    Ok(match visible(caller, &types, &former) {
        Some(visible) => heard.and(visible),
        None => heard,
    })
}

/// Gives the caller the changes of a batch, one after the other. Only documents that the caller may see are read, a few at a
/// time, and none where ids are enough.
pub struct Teller<'a> {
    services: &'a Services,
    question: &'a Question,
    batch: &'a Batch,
    plain: PlainFields,
    view: View,
    /// The remaining entries, and the next events among them.
    entries: VecDeque<&'a RawDocument>,
    events: VecDeque<Arc<Event>>,
    /// How many are read at a time.
    most: usize,
    /// When to stop: after this, no more documents are read, except the first ones.
    until: Option<Instant>,
    has_read: bool,
}

impl<'a> Teller<'a> {
    /// Begins.
    ///
    /// # Errors
    /// Rights that the caller has lost; errors of the store.
    pub async fn new(
        services: &'a Services,
        caller: &Caller,
        (question, view): (&'a Question, View),
        batch: &'a Batch,
    ) -> Result<Self, ServiceError> {
        let resources = question.permitted(&caller.rights)?;
        let types = services.types_of(batch.entries().iter().map(|entry| &**entry)).await?;
        let former = services.feed.former_types().await?;
        let visible = visible(caller, &types, &former);
        let selected = question.filter.as_ref().map_or_else(Filter::all, |filter| of_entries(OBJECTS, filter));
        let is_told = |entry: &&RawDocument| {
            resources.contains(&text(entry, "resource").unwrap_or_default())
                && question.concerns(entry)
                && lets_through(visible.as_ref(), entry)
                && lets_through(Some(&selected), entry)
        };
        let entries: VecDeque<_> = batch.entries().iter().map(|entry| &**entry).filter(is_told).collect();
        let plain = PlainFields::new(Arc::clone(&services.store), services.max_time, (types, former));
        plain.prepare(entries.iter().copied(), false).await?;
        Ok(Self {
            services,
            question,
            batch,
            plain,
            view,
            entries,
            events: VecDeque::new(),
            most: FIRST,
            until: None,
            has_read: false,
        })
    }

    /// The same, that stops at this time.
    #[must_use]
    pub fn until(self, end: Option<Instant>) -> Self {
        Self { until: end, ..self }
    }

    /// Where reading continues, if it stopped before the end of the batch.
    pub fn stopped_at(&self) -> Option<Position> {
        self.entries.front().and_then(|entry| integer(entry, "sequence")).map(|sequence| sequence - 1)
    }

    /// The next one; nothing at the end, and when it is time to stop.
    ///
    /// # Errors
    /// A filter that fails on a document, errors of the store.
    pub async fn next(&mut self) -> Result<Option<Told>, ServiceError> {
        if self.view == View::Ids && self.question.filter.is_none() {
            let told = |entry: &RawDocument| Told { entry: entry.to_owned(), kind: kind_of(entry), document: None };
            return Ok(self.entries.pop_front().map(told));
        }
        loop {
            while let Some(event) = self.events.pop_front() {
                if let Some(told) = self.told(event).await? {
                    return Ok(Some(told));
                }
            }
            let is_over = self.has_read && self.until.is_some_and(|end| Instant::now() >= end);
            if self.entries.is_empty() || is_over {
                return Ok(None);
            }
            self.read().await?;
            self.has_read = true;
        }
    }

    /// Reads the next events.
    async fn read(&mut self) -> Result<(), ServiceError> {
        let feed = &self.services.feed;
        if let Some(events) = self.batch.events_of_all(feed).await {
            let entries = std::mem::take(&mut self.entries);
            let is_told = |event: &&Arc<Event>| entries.iter().any(|entry| entry.as_bytes() == event.entry.as_bytes());
            self.events = events.iter().filter(is_told).cloned().collect();
            return Ok(());
        }
        loop {
            let some: Vec<&RawDocument> = self.entries.iter().take(self.most).copied().collect();
            match feed.events(&some).await? {
                Some(events) => {
                    self.entries.drain(..events.len());
                    if events.len() == self.most {
                        self.most = (self.most * 4).min(MOST);
                    }
                    self.events = events.into_iter().map(Arc::new).collect();
                    return Ok(());
                }
                None => self.most = (some.len() / 2).max(1),
            }
        }
    }

    /// The event as the caller receives it; nothing if it matches neither before nor after.
    async fn told(&self, event: Arc<Event>) -> Result<Option<Told>, ServiceError> {
        let plain = self.plain.at(&event.entry).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let (filter, view) = (self.question.filter.clone(), self.view);
        let bytes = |document: &Option<RawDocumentBuf>| document.as_ref().map_or(0, |it| it.as_bytes().len());
        let is_large = bytes(&event.before) + bytes(&event.after) > LARGE;
        let judge = move |means: &Means| {
            let budget = Budget::until(Instant::now().checked_add(MOST_PER_EVENT)).within(means);
            judged(&event, filter.as_ref(), (view, &plain), &budget)
        };
        Ok(admission::work_if(is_large, judge).await??)
    }
}

fn judged(
    event: &Event,
    filter: Option<&Filter>,
    (view, plain): (View, &[String]),
    budget: &Budget,
) -> Result<Option<Told>, StoreError> {
    let failed = RefCell::new(None);
    let matches = |document: &RawDocument| match filter {
        None => true,
        Some(filter) => filter.matches_within(document, budget).unwrap_or_else(|error| {
            *failed.borrow_mut() = Some(error);
            false
        }),
    };
    let kind = event.kind(matches);
    if let Some(error) = failed.into_inner() {
        return Err(error.into());
    }
    let Some(kind) = kind else { return Ok(None) };
    let document = event.after.as_deref().filter(|_| kind != Kind::Leave && view != View::Ids);
    let document = match document {
        Some(object) if text(&event.entry, "resource") == Some("objects") => {
            Some(concealed(object, &plain.iter().map(String::as_str).collect())?)
        }
        document => document.map(RawDocument::to_owned),
    };
    Ok(Some(Told { entry: event.entry.clone(), kind, document }))
}

/// Reads a position: a cursor, or a time of RFC 3339. A time in the future is refused.
///
/// # Errors
/// What is no position of this store; [`ErrorCode::HistoryGone`] with the oldest position from which reading can continue.
pub async fn position(services: &Services, name: &str, sent: &str) -> Result<Position, ServiceError> {
    let refused = |message: String| ServiceError::refused(ErrorCode::ParameterInvalid, format!("{name}: {message}"));
    if sent.is_empty() || !sent.bytes().all(|byte| byte.is_ascii_digit()) {
        return position_at(services, name, sent).await;
    }
    let position: Position = sent.parse().map_err(|_| refused(format!("{sent} is no cursor of changes")))?;
    let oldest = services.feed.oldest().await?;
    if position < oldest {
        let message = format!("changes behind {position} are no longer kept; the oldest cursor is {oldest}");
        return Err(ServiceError::refused(ErrorCode::HistoryGone, message));
    }
    let last = services.feed.position().await?;
    if position > last {
        return Err(refused(format!("{position} is no cursor that this service has given; the last one is {last}")));
    }
    Ok(position)
}
