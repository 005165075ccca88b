//! Entity tags of stored documents and the conditions that clients state with them (RFC 9110, section 13).

use bson::raw::RawDocument;
use xxhash_rust::xxh3::xxh3_128;

use super::error::ServiceError;

/// What `If-Match` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IfMatch {
    /// Nothing: the header is absent.
    #[default]
    Absent,
    /// `*`: the resource exists.
    Any,
    /// One of these tags, without quotes; weak ones are not among them.
    Tags(Vec<String>),
}

impl IfMatch {
    /// Refuses a document that differs from the one that the client saw.
    ///
    /// A tag of the rendered view counts by its first part, which is the tag of the document.
    ///
    /// # Errors
    /// [`ServiceError::PreconditionFailed`].
    pub fn check(&self, document: &RawDocument) -> Result<(), ServiceError> {
        let Self::Tags(tags) = self else { return Ok(()) };
        let current = entity_tag(document);
        let seen = tags.iter().any(|tag| tag.split('.').next() == Some(current.as_str()));
        if seen {
            return Ok(());
        }
        if tags.is_empty() {
            let message =
                "If-Match names no strong tag, and a weak one (W/\"...\") never matches; send the tag without the W/";
            return Err(ServiceError::PreconditionFailed(message.to_owned()));
        }
        let message = "the resource has changed since it was read; read it again, and send its new ETag";
        Err(ServiceError::PreconditionFailed(message.to_owned()))
    }
}

/// The strong entity tag of a document, without quotes: a hash of all its bytes, so that an edit made with
/// other tools changes it too.
pub fn entity_tag(document: &RawDocument) -> String {
    tag_of(document.as_bytes())
}

/// The tag of any bytes.
pub fn tag_of(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn the_tag_of_the_document_and_of_its_view_both_match() {
        let document = rawdoc! {"public_id": 1_i64};
        let tag = entity_tag(&document);
        for tags in [vec![tag.clone()], vec!["0".to_owned(), format!("{tag}.abc")]] {
            IfMatch::Tags(tags).check(&document).expect("the tag is the document's");
        }
        assert!(IfMatch::Any.check(&document).is_ok());
    }

    #[test]
    fn another_tag_is_refused() {
        let error = IfMatch::Tags(vec!["0".to_owned()]).check(&rawdoc! {}).expect_err("the tag is another one");
        assert!(matches!(error, ServiceError::PreconditionFailed(_)));
    }
}
