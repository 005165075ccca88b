//! Bodies that are files of objects.

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{FromRequest, HttpRequest};
use futures::future::LocalBoxFuture;

use super::body::{LINES, Sent, essence, is_lines};
use super::body_quota::Arriving;
use super::error::ApiError;
use crate::admission::Place;
use crate::exchange::encoding::TextEncoding;
use crate::service::ErrorCode;

/// A body that is a file of objects.
pub(super) struct File {
    pub bytes: Vec<u8>,
    /// What it says that it is.
    pub said: SentFormat,
    /// The encoding that its media type names.
    pub encoding: Option<TextEncoding>,
    /// Held as long as the file is in use.
    pub place: Place,
    /// Its bytes count as long.
    pub arriving: Option<Arriving>,
}

/// The facts about a file in the head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentFormat {
    /// Lines of JSON.
    Lines,
    /// A table of a spreadsheet.
    Sheet,
    /// A table as text, or nothing in particular.
    Table,
}

/// The type of tables of spreadsheets.
pub(super) const SHEET: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// The media types of such files, including the generic ones.
const FILES: [&str; 4] = ["text/csv", SHEET, "text/plain", "application/octet-stream"];

impl FromRequest for File {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let sent = Sent::of(request, true, |limits| (limits.max_import_bytes, "api.max_import_bytes"));
        let (said, encoding) = (said(request), encoding(request));
        let is_file = essence(request)
            .is_some_and(|essence| FILES.iter().chain(&LINES).any(|name| essence.eq_ignore_ascii_case(name)));
        let payload = payload.take();
        Box::pin(async move {
            if !is_file {
                let message =
                    "send the file as it is, with Content-Type: text/csv, application/x-ndjson or that of xlsx";
                return Err(ApiError::new(ErrorCode::NotAFile, message));
            }
            // The whole request has a time budget of its own.
            let mut sent = sent?.within(Duration::MAX);
            if let Some(arriving) = &mut sent.arriving {
                arriving.is_file()?;
            }
            let bytes = sent.collect(payload).await?;
            // Only a complete file takes a place, so nobody waits for a slow client.
            let arriving = sent.arriving.as_ref().ok_or_else(ApiError::imports_busy)?;
            let place = arriving.place().await?;
            let bytes = sent.unpack(bytes).await?;
            Ok(Self { bytes, said, encoding, place, arriving: sent.arriving })
        })
    }
}

fn encoding(request: &HttpRequest) -> Option<TextEncoding> {
    let content_type = request.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, charset) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    TextEncoding::of_charset(charset.trim().trim_matches('"'))
}

fn said(request: &HttpRequest) -> SentFormat {
    match essence(request) {
        Some(essence) if essence.eq_ignore_ascii_case(SHEET) => SentFormat::Sheet,
        _ if is_lines(request) => SentFormat::Lines,
        _ => SentFormat::Table,
    }
}
