//! Views of stored documents, if they differ from the documents.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use crate::auth::rights::{self, Right};
use crate::domain::document::raw;

/// A stored group with its rights as records. The name of a former right becomes a record without a description.
pub(crate) fn group(stored: &RawDocument) -> RawDocumentBuf {
    let Ok(mut shown) = Document::try_from(stored) else { return stored.to_owned() };
    let gone = |name: &str| {
        doc! {"level": 0, "name": name, "label": name, "description": "", "is_master": name.ends_with(".*")}
    };
    let records = crate::domain::group::right_names(stored)
        .into_iter()
        .map(|name| rights::find(name).map_or_else(|| gone(name), right));
    shown.insert("rights", records.collect::<Vec<Document>>());
    raw(&shown)
}

pub(crate) fn right(right: &Right) -> Document {
    doc! {
        "level": right.level,
        "name": right.name,
        "label": right.label,
        "description": right.description,
        "is_master": right.is_master,
    }
}

/// A stored token without its hash and its maker.
pub(crate) fn token(stored: &RawDocument) -> RawDocumentBuf {
    let mut shown = RawDocumentBuf::new();
    for (name, value) in
        stored.iter().flatten().filter(|(name, _)| !["hash", "made_by", "scram"].contains(&name.as_str()))
    {
        shown.append(name, value);
    }
    shown
}
