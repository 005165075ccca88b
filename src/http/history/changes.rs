//! `GET /changes/`: the changes as a stream of Server-Sent Events, or as pages of JSON. docs/api.md, Changes.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{self, ContentType, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, web};
use futures::stream;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};

use crate::admission::{self, Place, Share};
use crate::auth::Authorization;
use crate::http::call::{Answer, Call};
use crate::http::envelope;
use crate::http::error::ApiError;
use crate::http::objects::with_fields;
use crate::http::params::Parameters;
use crate::http::schema::{Changes, Following, operation};
use crate::http::state::HttpState;
use crate::query::{Fields, Sort};
use crate::service::accounts::sign_on;
use crate::service::history::changes::{Question, RESOURCES, Teller, View, heard, position};
use crate::service::history::events::described;
use crate::service::history::feed::{Batch, Position};
use crate::service::queries::advice;
use crate::service::{Caller, ErrorCode};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How often a stream says that it is there; a comment, so it has no id.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a silent stream looks whether its token is still good.
const CHECK: Duration = Duration::from_secs(2);
/// The maximum number of parts of a stream that wait for its reader.
const WAITING: usize = 4;
/// The maximum number of batches of changes examined for a page, so that a filter that matches little does not hold it up.
const MOST_BATCHES: usize = 20;
/// The size in bytes at which a page ends, with the event that reaches it.
const PAGE_BYTES: usize = 1024 * 1024;
/// The size in bytes at which a part of a stream ends, with the event that reaches it.
const PART_BYTES: usize = 64 * 1024;
const LIMIT: u64 = 100;

/// A question that was understood.
struct Asked {
    question: Question,
    view: View,
    since: Option<Position>,
    limit: u64,
}

operation! {
    /// Follow the changes of objects, types and categories.
    list_changes: params(Following), responses((status = 200, content(
        (Changes = "application/json"), (String = "text/event-stream"),
    )))
}
pub(in crate::http) async fn list_changes(Call { state, request, caller }: Call) -> Answer {
    let is_stream = wants_stream(&request);
    let asked = understood(&state, &request, &caller, is_stream).await?;
    asked.question.permitted(&caller.rights)?;
    let advice = match &asked.question.filter {
        Some(filter) => advice::of_selection(&state.services, &caller, filter, &Sort::default()).await?,
        None => Vec::new(),
    };
    let response =
        if is_stream { streamed(state, &request, &caller, asked).await? } else { page(&state, &caller, asked).await? };
    Ok(envelope::advised(response, &advice))
}

fn wants_stream(request: &HttpRequest) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT).filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream"))
}

async fn understood(
    state: &HttpState,
    request: &HttpRequest,
    caller: &Caller,
    is_stream: bool,
) -> Result<Asked, ApiError> {
    let sent = Parameters::of(request)?;
    sent.only(&["resource", "filter", "view", "since", "limit"], state.params.unknown)?;
    let mut resources = Vec::new();
    for name in sent.get("resource").into_iter().flat_map(|names| names.split(',')) {
        let known = RESOURCES.iter().find(|(known, _)| *known == name);
        let known = known.ok_or_else(|| {
            let message = format!("{name:?} is none of objects, types, categories; several have commas between them");
            ApiError::parameter("resource", message)
        })?;
        resources.push(known.0);
    }
    let filter = match sent.get("filter").filter(|text| !text.trim().is_empty()) {
        None => None,
        Some(_) if resources != ["objects"] => {
            return Err(ApiError::parameter("filter", "is about objects; add resource=objects"));
        }
        Some(text) => {
            let read = async |fields: Option<Fields>| {
                // What was looked up once does not hold of later changes.
                state.object_filter(text, fields.map(Fields::without_lookups)).await
            };
            Some(with_fields(state, caller, &sent, read).await?)
        }
    };
    if let Some(operator) = filter.as_ref().and_then(|filter| filter.needs_server()) {
        return Err(ApiError::parameter("filter", format!("{operator} cannot be asked of changes")));
    }
    let view = View::named(sent.one_of("view", &["native", "render", "ids"])?.unwrap_or_default());
    let header = request.headers().get(&LAST_EVENT_ID).filter(|_| is_stream);
    let header = header.map(|value| value.to_str().unwrap_or("a value that is no text"));
    let since = match (header, sent.get("since")) {
        (Some(id), _) => Some(position(&state.services, "Last-Event-ID", id).await?),
        (None, Some(since)) => Some(position(&state.services, "since", since).await?),
        (None, None) => None,
    };
    let max = state.params.max_limit;
    let limit = sent.number("limit")?.unwrap_or(LIMIT.min(max));
    if !(1..=max).contains(&limit) {
        return Err(ApiError::parameter("limit", format!("must be from 1 to {max}")));
    }
    if is_stream && sent.get("limit").is_some() {
        return Err(ApiError::parameter("limit", "is for pages of JSON; a stream has no end"));
    }
    Ok(Asked { question: Question { resources, filter }, view, since, limit })
}

/// The changes after `since` as a page; without `since` an empty one with the cursor to continue from.
async fn page(state: &HttpState, caller: &Caller, asked: Asked) -> Answer {
    let feed = &state.services.feed;
    let mut next = match asked.since {
        Some(since) => since,
        None => feed.position().await?,
    };
    // Text: values of many small parts would take several times as much.
    let (mut results, mut count) = (String::new(), 0);
    // Documents that are read for a filter may be many and large. What was read by then is a page.
    let end = Instant::now().checked_add(state.services.max_time).map(Instant::into_std);
    'page: for _ in 0..MOST_BATCHES {
        let missing = asked.limit - count;
        if asked.since.is_none() || missing == 0 {
            break;
        }
        let heard = heard(&state.services, caller, &asked.question).await?;
        let (batch, after) = feed.after(next, missing, &heard).await?;
        let teller = Teller::new(&state.services, caller, (&asked.question, asked.view), &batch).await?;
        let mut teller = teller.until(end);
        while let Some(told) = teller.next().await? {
            let sequence = told.sequence();
            let (resource, mut data) = described(&state.services, caller, asked.view, told).await?;
            data["resource"] = resource.into();
            if count > 0 {
                results.push(',');
            }
            // Writing into a string cannot fail.
            let _ = write!(results, "{data}");
            count += 1;
            if results.len() >= PAGE_BYTES {
                next = sequence;
                break 'page;
            }
        }
        if let Some(position) = teller.stopped_at() {
            next = position;
            break;
        }
        if std::mem::replace(&mut next, after) == after {
            break;
        }
    }
    let body = format!("{{\"results\":[{results}],\"next\":\"{next}\"}}");
    Ok(HttpResponse::Ok().content_type(ContentType::json()).body(body))
}

async fn streamed(state: web::Data<HttpState>, request: &HttpRequest, caller: &Arc<Caller>, asked: Asked) -> Answer {
    let feed = &state.services.feed;
    let seat = feed.seat(caller.user_id).ok_or_else(|| {
        let message = "the maximum number of streams of changes is open: 2,048 of yours, or 4,096 of all users; \
                       close some of yours, or try again";
        ApiError::new(ErrorCode::Busy, message)
    })?;
    let since = match asked.since {
        Some(since) => since,
        None => feed.position().await?,
    };
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let authorization = authorization.and_then(Authorization::parse);
    let (sender, receiver) = mpsc::channel(WAITING);
    let stream = Stream { state: web::Data::clone(&state), authorization, asked, sender, _seat: seat };
    let feed = Arc::clone(feed);
    // Also while it waits for a reader, or for the store.
    actix_web::rt::spawn(async move { feed.until_end(stream.run(since)).await });
    let parts = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|(part, _)| (Ok::<Bytes, actix_web::Error>(part), receiver))
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")))
        .insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .insert_header((HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")))
        .streaming(parts))
}

/// A stream to one client.
struct Stream {
    state: web::Data<HttpState>,
    authorization: Option<Authorization>,
    asked: Asked,
    sender: mpsc::Sender<(Bytes, Share)>,
    _seat: Place,
}

impl Stream {
    async fn run(self, since: Position) {
        let mut subscription = self.state.services.feed.follow(since, self.asked.question.only());
        let mut checks = interval(CHECK);
        let mut said = Instant::now();
        // The first part comes at once, so that the client knows that the stream has begun, and from where.
        let mut part = format!(": changes behind {since}\nid: {since}\n\n");
        loop {
            if !part.is_empty() {
                said = Instant::now();
                if !matches!(self.send(std::mem::take(&mut part)).await, Ok(Some(()))) {
                    return;
                }
            }
            let batch = tokio::select! {
                batch = subscription.next(&self.state.services.feed) => batch.map(Some),
                _ = checks.tick() => Ok(None),
                () = self.sender.closed() => return,
            };
            let told = match batch {
                Ok(None) => self.caller().await.map(|_| Some(())),
                // A stream that waits is small.
                Ok(Some(batch)) => Box::pin(self.tell(&batch, &mut part)).await,
                Err(error) => Err(ApiError::from(error)),
            };
            match told {
                Ok(Some(())) => {}
                Ok(None) => return,
                Err(error) => {
                    let data = json!({ "code": error.code().name(), "message": error.to_string() });
                    let _ = self.send(format!("{part}event: error\ndata: {data}\n\n")).await;
                    return;
                }
            }
            if part.is_empty() && said.elapsed() >= HEARTBEAT {
                ": still there\n\n".clone_into(&mut part);
            }
        }
    }

    /// The caller as of now: a token that was revoked ends the stream.
    async fn caller(&self) -> Result<Arc<Caller>, ApiError> {
        let caller = sign_on::authenticate(&self.state.services, self.authorization.as_ref(), None).await?;
        self.asked.question.permitted(&caller.rights)?;
        Ok(caller)
    }

    /// Sends a batch; nothing when the reader has gone. `part` holds what the reader gets next.
    async fn tell(&self, batch: &Batch, part: &mut String) -> Result<Option<()>, ApiError> {
        if !batch.entries().iter().any(|entry| self.asked.question.concerns(entry)) {
            // What the caller may see is determined at the next check: this sends nothing.
            return Ok(Some(()));
        }
        let state = web::Data::clone(&self.state);
        let (services, caller, question) = (&state.services, self.caller().await?, self.asked.question.clone());
        let work = async {
            let mut teller = Teller::new(services, &caller, (&question, self.asked.view), batch).await?;
            while let Some(told) = teller.next().await? {
                let sequence = told.sequence();
                let (resource, data) = described(services, &caller, self.asked.view, told).await?;
                // Writing into a string cannot fail.
                let _ = write!(part, "event: {resource}\nid: {sequence}\ndata: {data}\n\n");
                if part.len() >= PART_BYTES && self.send(std::mem::take(part)).await?.is_none() {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        };
        // What it costs counts as the caller's.
        services.admission.ticket(caller.user_id).scope(work).await
    }

    /// Sends a part; nothing when the reader has gone. A large one counts as the caller's memory until it is taken, and
    /// nothing else waits at the same time.
    async fn send(&self, part: String) -> Result<Option<()>, ApiError> {
        let is_large = part.len() >= PART_BYTES;
        let mut share = admission::current().share();
        if is_large {
            share.cover(part.len() * 3)?;
        }
        let Ok(mut places) = self.sender.reserve_many(if is_large { WAITING } else { 1 }).await else {
            return Ok(None);
        };
        if let Some(place) = places.next() {
            place.send((Bytes::from(part), share));
        }
        Ok(Some(()))
    }
}
