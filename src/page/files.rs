//! The files that pages name: the sheet of styles and the icon. Their names have the beginning of their hash, so browsers
//! keep them for good.

use std::sync::LazyLock;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use sha2::{Digest, Sha256};

use crate::http::error::ApiError;
use crate::service::ErrorCode;

/// A file that is part of the program.
struct File {
    name: String,
    kind: &'static str,
    text: &'static str,
}

static FILES: LazyLock<[File; 2]> = LazyLock::new(|| {
    [
        file("style", "css", "text/css; charset=utf-8", include_str!("style.css")),
        file("icon", "svg", "image/svg+xml", include_str!("icon.svg")),
    ]
});

/// How long browsers keep a file, which never changes under its name.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

fn file(name: &str, ending: &str, kind: &'static str, text: &'static str) -> File {
    let hash = hex::encode(&Sha256::digest(text)[..8]);
    File { name: format!("{name}-{hash}.{ending}"), kind, text }
}

/// The address of the sheet of styles.
pub fn style() -> String {
    format!("/ui/files/{}", FILES[0].name)
}

/// The address of the icon.
pub fn icon() -> String {
    format!("/ui/files/{}", FILES[1].name)
}

/// Serves a file.
///
/// # Errors
/// 404 for any other name.
pub async fn serve(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let name = request.match_info().get("name").unwrap_or_default();
    let file = FILES.iter().find(|file| file.name == name).ok_or_else(|| ApiError::of(ErrorCode::NotFound))?;
    Ok(HttpResponse::Ok().content_type(file.kind).insert_header((header::CACHE_CONTROL, FOR_GOOD)).body(file.text))
}
