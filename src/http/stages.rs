//! `filter` as a pipeline, on lists of objects: docs/filters.md, Pipelines.

use bson::{Bson, DateTime, Document, doc};

use super::error::ApiError;
use crate::json;
use crate::query::pipeline::{Terms, Unseen};
use crate::query::{Effort, Fields, Filter, Limits, Pipeline};
use crate::service::Stages;
use crate::service::objects::aggregate;

/// The stages that a list takes: they leave documents what they are.
const OFFERED: [&str; 10] =
    ["$match", "$sort", "$skip", "$limit", "$project", "$addFields", "$set", "$unset", "$lookup", "$unwind"];
/// The first ones of these leave documents as they are.
const SELECTING: usize = 4;

/// What a pipeline selects.
pub(super) struct Selected {
    /// By conditions alone.
    pub filter: Filter,
    /// By further stages.
    pub stages: Option<Stages>,
    /// Whether it has a `$sort` of its own that decides what is left, and not the order of the list.
    pub sorts: bool,
    /// The `$sort` after which documents keep their order.
    pub order: Option<Document>,
    /// How `f.<name>` is read after it.
    pub fields: Option<Fields>,
}

/// Lists of objects are ordered by this without a `sort`.
const KEY: &str = "public_id";
/// The maximum number of keys of an order, as on MongoDB.
pub(super) const MOST_KEYS: usize = 32;

/// Whether the text of a filter is that of a pipeline.
pub(super) fn is_pipeline(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

/// Reads a pipeline. One that selects by conditions alone is a filter, and can be combined with everything that a filter
/// can.
///
/// # Errors
/// 400 naming what is wrong and where.
pub(super) fn read(
    text: &str,
    limits: &Limits,
    fields: Option<&Fields>,
    (now, effort): (DateTime, &Effort),
) -> Result<Selected, ApiError> {
    let wrong = |message: String| ApiError::parameter("filter", message);
    let Bson::Array(mut stages) = json::read::value_from_str(text).map_err(|error| wrong(error.to_string()))? else {
        return Err(wrong("must be an object, or a pipeline: an array of stages".to_owned()));
    };
    let selects = stages.iter().all(|stage| OFFERED[..SELECTING].contains(&name_of(stage)));
    let terms = aggregate::terms("filter", *limits, now);
    let terms = if selects { Terms { unseen: Unseen::default(), ..terms } } else { terms };
    let parse = |stages: &[Bson]| match fields {
        Some(fields) => fields.pipeline(stages, &terms, effort),
        None => Pipeline::read_with(stages, &terms, effort),
    };
    let mut pipeline = parse(&stages)?;
    refuse_others(&stages, |_| false)?;
    let fields = fields.map(|fields| fields.behind(&stages));
    let mut keeping = stages.iter().rev().take_while(|stage| OFFERED[..SELECTING].contains(&name_of(stage)));
    let order = keeping.find_map(keys_of).cloned();
    let sorts = order.is_none() && stages.iter().any(orders);
    // The list has an order of its own, which would hide the last one.
    let sent = stages.len();
    while stages.pop_if(|stage| name_of(stage) == "$sort").is_some() {}
    let is_ordered = order_what_is_cut(&mut stages);
    if stages.len() < sent || is_ordered {
        pipeline = parse(&stages)?;
    }
    Ok(match pipeline.as_filter() {
        Some(filter) => Selected { filter, stages: None, sorts, order, fields },
        None => Selected { filter: Filter::all(), stages: Some(Stages { pipeline, selects }), sorts, order, fields },
    })
}

/// Makes sure that which documents a `$skip` or `$limit` leaves is the same on both stores, and with each page: the order of
/// lists is added before the first one without a `$sort`, and ends each `$sort`. Returns whether anything was to be done.
fn order_what_is_cut(stages: &mut Vec<Bson>) -> bool {
    const CUTS: [&str; 2] = ["$skip", "$limit"];
    let Some(first_cut) = stages.iter().position(|stage| CUTS.contains(&name_of(stage))) else { return false };
    let mut is_changed = false;
    for stage in &mut *stages {
        let keys = stage.as_document_mut().and_then(|stage| stage.get_document_mut("$sort").ok());
        if let Some(keys) = keys.filter(|keys| !keys.contains_key(KEY) && keys.len() < MOST_KEYS) {
            keys.insert(KEY, 1);
            is_changed = true;
        }
    }
    if !stages[..first_cut].iter().any(|stage| name_of(stage) == "$sort") {
        let behind = stages.iter().take_while(|stage| name_of(stage) == "$match").count();
        stages.insert(behind, doc! { "$sort": { KEY: 1 } }.into());
        is_changed = true;
    }
    is_changed
}

/// Whether a stage changes the order of the documents.
fn orders(stage: &Bson) -> bool {
    keys_of(stage).is_some_and(|keys| keys.len() > 1 || !matches!(keys.get(KEY), Some(Bson::Int32(1) | Bson::Int64(1))))
}

/// Refuses stages that a list does not take, apart from those that are wanted as well.
///
/// # Errors
/// 400 naming the first one.
pub(super) fn refuse_others(stages: &[Bson], is_wanted: impl Fn(&Bson) -> bool) -> Result<(), ApiError> {
    let is_other = |stage: &Bson| !OFFERED.contains(&name_of(stage)) && !is_wanted(stage);
    let Some(place) = stages.iter().position(is_other) else { return Ok(()) };
    let message = format!(
        "{place}.{}: a list takes {}; other stages go to POST /rest/objects/aggregate",
        name_of(&stages[place]),
        OFFERED.join(" ")
    );
    Err(ApiError::parameter("filter", message))
}

/// The parameter that does not go with a pipeline of more than conditions, and the reason. The list is rendered, explained or
/// follows a cursor.
pub(super) fn conflict(
    stages: &Stages,
    (renders, explains, follows): (bool, bool, bool),
) -> Option<(&'static str, &'static str)> {
    let rendered = "with view=render a pipeline takes $match, $sort, $skip and $limit alone, as only whole objects can be \
                    rendered; use view=native";
    let explained = "explains filters and pipelines of $match alone; leave the other stages out";
    let followed = "follows filters and pipelines of $match alone; use page with other stages";
    let all = [
        (renders && !stages.selects, "filter", rendered),
        (explains, "explain", explained),
        (follows, "after", followed),
    ];
    all.into_iter().find(|(is_there, ..)| *is_there).map(|(_, name, message)| (name, message))
}

/// The keys of a `$sort`.
fn keys_of(stage: &Bson) -> Option<&Document> {
    stage.as_document()?.get_document("$sort").ok()
}

fn name_of(stage: &Bson) -> &str {
    let name = stage.as_document().and_then(|stage| stage.keys().next());
    name.map_or("", String::as_str)
}
