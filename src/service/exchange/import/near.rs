//! Keys that differ from others by case or blanks alone: the sender probably intends the same object.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use futures::TryStreamExt;
use unicode_normalization::UnicodeNormalization;

use super::plan::{ImportPlan, What};
use super::report::ReportError;
use super::rows::{ImportRows, RowReading};
use crate::admission;
use crate::domain::document::integer;
use crate::domain::object_fields::FieldValue;
use crate::domain::object_input::read_fields;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::store::{Documents, FindQuery};

/// In larger types such keys are not looked for: all objects would have to be read.
const MOST_OBJECTS: u64 = 100_000;

/// The lines with new objects by the folded text of their key: line and key.
type NewKeys = HashMap<String, Vec<(u64, String)>>;

/// A warning for each new object whose key differs from that of a stored one, or of a line before it, by case or blanks
/// alone.
///
/// # Errors
/// What the store reports.
pub(super) async fn near_keys(
    services: &Services,
    reading: &RowReading,
    rows: &ImportRows,
    plan: &ImportPlan,
) -> Result<Vec<ReportError>, ServiceError> {
    let Some(position) = reading.key else { return Ok(Vec::new()) };
    let object_type = &reading.entry.object_type;
    let field = object_type.fields[position].name.clone();
    let mut keys = NewKeys::new();
    for step in plan.steps.iter().filter(|step| matches!(step.what, What::Create { .. })) {
        if let Some(Bson::String(key)) = &rows.list[step.row].key {
            keys.entry(folded(key)).or_default().push((step.line, key.clone()));
        }
    }
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let query = FindQuery::new(Filter::equals("type_id", object_type.public_id), services.max_time)
        .showing(&doc! {"public_id": 1, "fields": 1});
    let mut chunks = services.store.chunks(Objects::COLLECTION, &query).await?;
    if chunks.total > MOST_OBJECTS {
        let reason = format!(
            "keys that differ by case or blanks alone are not looked for among more than {MOST_OBJECTS} objects"
        );
        return Ok(vec![ReportError::new(rows.header.max(1), field, reason)]);
    }
    let keys = Arc::new(keys);
    let mut stored: HashMap<String, (i64, String)> = HashMap::new();
    while let Some(chunk) = chunks.documents.try_next().await? {
        let (keys, field) = (Arc::clone(&keys), field.clone());
        let near = admission::work(move |_| near_in(&chunk, &field, &keys)).await?;
        stored.extend(near);
    }
    Ok(warnings(&field, &keys, &stored))
}

/// The keys of these objects that new ones are like.
fn near_in(objects: &Documents, field: &str, keys: &NewKeys) -> Vec<(String, (i64, String))> {
    let mut near = Vec::new();
    for object in objects.iter() {
        let Ok(document) = Document::try_from(object) else { continue };
        let fields = read_fields(document.get("fields"));
        let value = fields.into_iter().find(|entry: &FieldValue| entry.name == field).map(|entry| entry.value);
        if let (Some(Bson::String(key)), Some(id)) = (value, integer(object, "public_id")) {
            let folded = folded(&key);
            if keys.contains_key(&folded) {
                near.push((folded, (id, key)));
            }
        }
    }
    near
}

fn warnings(field: &str, keys: &NewKeys, stored: &HashMap<String, (i64, String)>) -> Vec<ReportError> {
    let mut warnings = Vec::new();
    for (folded, lines) in keys {
        for (index, (line, key)) in lines.iter().enumerate() {
            let other = match (stored.get(folded), index.checked_sub(1).and_then(|before| lines.get(before))) {
                (Some((id, other)), _) => format!("{other:?} of object {id}"),
                (None, Some((before, other))) => format!("{other:?} in line {before}"),
                (None, None) => continue,
            };
            let reason = format!("is {key:?}, which differs from {other} by case or blanks alone");
            warnings.push(ReportError::new(*line, field, reason));
        }
    }
    warnings
}

/// A key without its case and its blanks.
fn folded(key: &str) -> String {
    key.nfc().filter(|letter| !letter.is_whitespace()).flat_map(char::to_lowercase).collect()
}
