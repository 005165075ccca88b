//! The header that makes a request repeatable.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use bson::Document;
use bson::raw::RawDocumentBuf;

use super::error::ApiError;
use super::limits::KeysUnderWay;
use super::state::HttpState;
use crate::service::once::{Hash, Once};
use crate::service::{Caller, ErrorCode, ServiceError};

pub(super) const NAME: &str = "Idempotency-Key";
const LONGEST: usize = 255;

/// Among the extensions of a request: its route takes a key.
pub(super) struct TakesKey;

/// The `Idempotency-Key` of a request, if it has one. Until it is dropped, another request under the key is refused.
pub(super) struct IdempotencyKey {
    pub key: Option<String>,
    caller: i64,
    path: String,
    under_way: KeysUnderWay,
}

impl Drop for IdempotencyKey {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.under_way.end((self.caller, std::mem::take(&mut self.path), key));
        }
    }
}

impl FromRequest for IdempotencyKey {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(begun(request))
    }
}

impl IdempotencyKey {
    /// The request under its key: what a creation says. A password stays out of the hash of the request, which the store
    /// keeps and which is quick to compute.
    pub(super) fn creation(&self, body: &Document) -> Result<Option<Once>, ApiError> {
        let mut said = body.clone();
        said.remove("password");
        let said = RawDocumentBuf::try_from(&said).map_err(|error| {
            ServiceError::refused(ErrorCode::BodyUnencodable, format!("the body cannot be stored: {error}"))
        })?;
        Ok(self.of(Hash::default().with(said.as_bytes())))
    }

    /// The request under its key, with this content.
    pub(super) fn of(&self, said: Hash) -> Option<Once> {
        self.key.as_deref().map(|key| Once::new(self.caller, &self.path, key, said))
    }
}

/// Reads the key and notes that its request is under way.
fn begun(request: &HttpRequest) -> Result<IdempotencyKey, ApiError> {
    request.extensions_mut().insert(TakesKey);
    let key = key(request)?;
    let caller = request.extensions().get::<Arc<Caller>>().map_or(0, |caller| caller.user_id);
    let path = format!("{} {}", request.method(), request.path());
    let state = request.app_data::<web::Data<HttpState>>();
    let under_way = state.map(|state| state.keys_under_way.clone()).unwrap_or_default();
    if let Some(key) = &key
        && !under_way.begin((caller, path.clone(), key.clone()))
    {
        let message = "a request under this key is still under way; ask again when it is done";
        return Err(ApiError::new(ErrorCode::IdempotencyKeyInUse, message));
    }
    Ok(IdempotencyKey { key, caller, path, under_way })
}

/// The key: a text, or a structured field that holds one in quotes (RFC 9651). Both forms of a text are the same key.
fn key(request: &HttpRequest) -> Result<Option<String>, ApiError> {
    let mut sent = request.headers().get_all(NAME);
    let Some(first) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(ApiError::parameter(NAME, "is there twice"));
    }
    let text = first.to_str().ok().and_then(unquoted).filter(|text| !text.is_empty() && text.len() <= LONGEST);
    let wrong =
        || ApiError::parameter(NAME, format!("must be 1 to {LONGEST} characters of ASCII, with or without quotes"));
    text.map(Some).ok_or_else(wrong)
}

fn unquoted(text: &str) -> Option<String> {
    let Some(inner) = text.strip_prefix('"') else { return Some(text.to_owned()) };
    let inner = inner.strip_suffix('"')?;
    let (mut plain, mut letters) = (String::new(), inner.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.push(letters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            '"' => return None,
            letter => plain.push(letter),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_key_is_one_short_text() {
        let of = |keys: &[&str]| {
            let request = keys.iter().fold(TestRequest::default(), |request, key| request.append_header((NAME, *key)));
            key(&request.to_http_request()).map_err(|error| error.code().name().into_owned())
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["8e03978e-40d5"]), Ok(Some("8e03978e-40d5".to_owned())));
        assert_eq!(of(&[r#""8e03978e-40d5""#]), Ok(Some("8e03978e-40d5".to_owned())));
        assert_eq!(of(&[r#""a\"b\\c""#]), Ok(Some(r#"a"b\c"#.to_owned())));
        for refused in [&["a", "b"][..], &[""], &[&"x".repeat(256)], &["\"a"], &["\"\""], &[r#""a"b""#], &[r#""a\n""#]]
        {
            assert_eq!(of(refused), Err("parameter_invalid".to_owned()));
        }
    }
}
