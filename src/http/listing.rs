//! Lists that are too long for memory: sent to the client while they are read from the store.

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, HeaderValue};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use futures::future::ready;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::cursors;
use super::envelope::{self, Items, ListEnd, Nothing, TOTAL_COUNT, Wire};
use super::error::ApiError;
use super::params::ListParams;
use super::state::HttpState;
use crate::admission;
use crate::service::queries::advice;
use crate::service::resource::Listed;
use crate::store::{ChunkedPage, Documents, StoreError};

/// The memory of a list that waits for its reader: the JSON of one chunk, and the next chunk as it is stored.
const WAITING_BYTES: usize = 1024 * 1024;

/// A list of documents as they are stored, or its explanation.
///
/// # Errors
/// As [`envelope::list`], and when one of the first two chunks of a list fails.
pub async fn answer<W: Wire + 'static>(
    state: &HttpState,
    request: &HttpRequest,
    list_path: &str,
    params: &ListParams,
    listed: Listed,
) -> Result<HttpResponse, ApiError> {
    let write = |chunk: Documents| ready(Items::of::<W>(&chunk));
    answer_with::<W, _>(state, request, (list_path, params), listed, write).await
}

/// The same, of items that `write` makes of documents.
///
/// # Errors
/// As [`answer`].
pub async fn answer_with<W: Wire, F>(
    state: &HttpState,
    request: &HttpRequest,
    (list_path, params): (&str, &ListParams),
    listed: Listed,
    write: impl Fn(Documents) -> F + 'static,
) -> Result<HttpResponse, ApiError>
where
    F: Future<Output = Result<Items, ApiError>> + 'static,
{
    match listed {
        Listed::Explained(explanation) => Ok(envelope::explained(&explanation)),
        Listed::Page(page) => {
            let items = write(page.documents).await?;
            let response = envelope::list::<W>(state, request, list_path, params, items, page.total)?;
            Ok(envelope::hinted(response, page.hint.as_ref()))
        }
        Listed::Keyed(page, behind) => {
            let items = write(page.documents).await?;
            let continued = cursors::continued(&state.services, params, &behind)?;
            let total = params.before + page.total;
            let response = envelope::list::<W>(state, request, list_path, &continued, items, total)?;
            Ok(envelope::hinted(response, page.hint.as_ref()))
        }
        Listed::Chunked(chunks) => streamed::<W, _>(state, request, (list_path, params), chunks, write).await,
    }
}

/// The same with advice about the question, for a list that every caller sees as a whole.
///
/// # Errors
/// As [`answer`].
pub async fn advised<W: Wire + 'static>(
    state: &HttpState,
    request: &HttpRequest,
    list_path: &str,
    params: &ListParams,
    listed: Listed,
) -> Result<HttpResponse, ApiError> {
    let advice = advice::of_list::<W>(&state.services, &params.query, listed.is_empty()).await?;
    let listed = if advice.is_empty() { listed } else { listed.without_hint() };
    Ok(envelope::advised(answer::<W>(state, request, list_path, params, listed).await?, &advice))
}

/// The list envelope around documents that come in chunks; `write` makes the items of a chunk.
///
/// The total is known from the start, but not the count, which follows the results as in every list. If a later chunk
/// fails, the answer breaks off, so that no client takes a part for the whole.
async fn streamed<W: Wire, F>(
    state: &HttpState,
    request: &HttpRequest,
    (list_path, params): (&str, &ListParams),
    chunks: ChunkedPage,
    write: impl Fn(Documents) -> F + 'static,
) -> Result<HttpResponse, ApiError>
where
    F: Future<Output = Result<Items, ApiError>> + 'static,
{
    let mut documents = chunks.documents.fuse();
    // An early refusal gets its own answer, and a short list is not streamed.
    let first = match documents.try_next().await? {
        Some(chunk) => write(chunk).await?,
        None => Items::default(),
    };
    let Some(second) = documents.try_next().await? else {
        let response = envelope::list::<W>(state, request, list_path, params, first, chunks.total)?;
        return Ok(envelope::hinted(response, chunks.hint.as_ref()));
    };
    // From here on the answer waits for its reader, however slow.
    admission::current().hold(WAITING_BYTES)?;
    let end = ListEnd::new::<W>(state, request, list_path, params, chunks.total)?;
    let rest = stream::once(async { Ok(second) }).chain(documents).map_err(ApiError::from).and_then(write);
    let mut links = HeaderMap::new();
    end.link(&mut links);
    let body = body(first, rest, move |count| end.text(count));
    let total = HeaderValue::from(chunks.total);
    let mut response = HttpResponse::build(StatusCode::OK);
    let response = response.content_type("application/json").insert_header((TOTAL_COUNT, total));
    let mut response = response.streaming(admission::kept(body.boxed_local()));
    for (name, value) in links {
        response.headers_mut().insert(name, value);
    }
    Ok(envelope::hinted(response, chunks.hint.as_ref()))
}

/// All documents as `results`, without a pager.
///
/// # Errors
/// When one of the first two chunks fails.
pub async fn results<W: Wire + 'static>(state: &HttpState, chunks: ChunkedPage) -> Result<HttpResponse, ApiError> {
    let mut documents = chunks.documents.fuse();
    let first = documents.try_next().await?.map_or_else(|| Ok(Items::default()), |chunk| Items::of::<W>(&chunk))?;
    let Some(second) = documents.try_next().await? else {
        return Ok(envelope::collection::<W>(state, StatusCode::OK, "results", &first, &Nothing {}, "GET"));
    };
    let end = envelope::end::<W>(state);
    let rest = stream::once(async { Ok(second) }).chain(documents).map_err(ApiError::from);
    let rest = rest.and_then(|chunk| ready(Items::of::<W>(&chunk)));
    Ok(HttpResponse::Ok().content_type("application/json").streaming(body(first, rest, move |_| end.clone())))
}

/// The items one after the other, and the end of the list, which needs their count.
fn body(
    first: Items,
    rest: impl Stream<Item = Result<Items, ApiError>> + 'static,
    end: impl Fn(usize) -> Vec<u8> + 'static,
) -> impl Stream<Item = Result<Bytes, StoreError>> + 'static {
    let items = stream::once(async { Ok(first) }).chain(rest);
    items.map(Some).chain(stream::once(async { None })).scan(0, move |count, items| {
        let text = match items {
            Some(Ok(items)) => Ok(piece_of(items, count)),
            Some(Err(error)) => Err(abandoned(&error)),
            None => Ok(end(*count).into()),
        };
        async move { Some(text) }
    })
}

/// The items of a chunk with the text before them; `count` is the number of earlier items.
fn piece_of(items: Items, count: &mut usize) -> Bytes {
    let is_first = *count == 0;
    *count += items.count;
    if is_first { items.into_beginning().into() } else { [b",", items.text()].concat().into() }
}

fn abandoned(error: &ApiError) -> StoreError {
    // A computed projection may fail on a late document, which is an error of the client.
    let level = if error.status_code().is_client_error() { log::Level::Info } else { log::Level::Error };
    log::log!(level, "a list ends early: {error:?}");
    StoreError::backend("the list ends early")
}
