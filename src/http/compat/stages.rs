//! The stages of a pipeline, run on documents in chunks: which documents are left at its end.
//!
//! Only stages that look at one document at a time are offered. So a pipeline takes the memory of one chunk, however many
//! documents there are.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};
use futures::TryStreamExt;

use super::lookup::Lookup;
use crate::admission;
use crate::http::error::ApiError;
use crate::http::state::HttpState;
use crate::json;
use crate::query::{Budget, Filter, Limits, Projection};
use crate::service::resource::{self, Objects, Resource, Users};
use crate::service::{Caller, ErrorCode};
use crate::store::{FindQuery, StoreError};

/// No client of DATAGERRY sends as many stages.
const MOST_STAGES: usize = 50;

/// What a pipeline selects from.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    collection: &'static str,
    view: for<'a> fn(&'a RawDocument) -> Cow<'a, RawDocument>,
}

impl Subject {
    pub(super) fn of<R: Resource>() -> Self {
        Self { collection: R::COLLECTION, view: R::view }
    }

    /// The document that stages see: a password that another tool stored is hidden.
    fn seen<'a>(&self, document: &'a RawDocument) -> Cow<'a, RawDocument> {
        if self.collection == Users::COLLECTION { (self.view)(document) } else { Cow::Borrowed(document) }
    }
}

/// A stage that was checked.
#[derive(Debug)]
enum Stage {
    /// `$match`.
    Match(Filter),
    /// `$addFields`, `$set`: the names, and what computes their values.
    Add(Vec<String>, Projection),
    /// `$project`, `$unset`, and a `$group` by `_id`, which leaves each document alone.
    Keep(Projection),
    /// `$lookup`.
    Lookup(Lookup),
}

/// The ids of the documents among these that the pipeline leaves.
///
/// # Errors
/// 400 naming what the pipeline cannot have; 503 when it takes longer than a query may.
pub(super) async fn select(
    state: &HttpState,
    caller: &Caller,
    subject: Subject,
    among: Filter,
    pipeline: &str,
) -> Result<Vec<Bson>, ApiError> {
    let services = &state.services;
    let until = Instant::now().checked_add(services.max_time);
    let mut stages = parse(pipeline, &state.params.limits, services.now())?;
    for stage in &stages {
        if let Stage::Lookup(lookup) = stage {
            lookup.permit(caller)?;
        }
    }
    let mut question = among;
    // The store answers the first conditions with its indexes.
    while subject.collection != Users::COLLECTION && matches!(stages.first(), Some(Stage::Match(_))) {
        let Stage::Match(filter) = stages.remove(0) else { break };
        question = question.and(filter);
    }
    if subject.collection == Objects::COLLECTION {
        let types = services.types.current(&*services.store, services.max_time).await?;
        question = types.scope(caller, question);
    }
    let stages = Arc::new(stages);
    let chunks = services.store.chunks(subject.collection, &FindQuery::new(question, services.max_time)).await?;
    let mut documents = chunks.documents;
    let mut selected = Vec::new();
    while let Some(chunk) = documents.try_next().await? {
        if until.is_some_and(admission::is_over) {
            return Err(StoreError::Timeout.into());
        }
        let mut batch: Vec<RawDocumentBuf> = chunk.iter().map(|document| subject.seen(document).into_owned()).collect();
        let mut next = 0;
        while next < stages.len() && !batch.is_empty() {
            if let Stage::Lookup(lookup) = &stages[next] {
                batch = lookup.join(state, caller, batch).await?;
                next += 1;
                continue;
            }
            let begin = next;
            next += stages[begin..].iter().take_while(|stage| !matches!(stage, Stage::Lookup(_))).count();
            let (stages, end) = (Arc::clone(&stages), next);
            let work = admission::work(move |means| {
                let budget = Budget::until(until).within(means);
                stages[begin..end].iter().try_fold(batch, |batch, stage| stage.run(batch, &budget))
            });
            batch = work.await??;
        }
        let known = selected.len();
        selected.extend(batch.iter().filter_map(|document| id_of(document)).map(Bson::Int64));
        // The ids, and the condition of the list that they become.
        admission::current().hold((selected.len() - known) * 2 * size_of::<Bson>())?;
        if selected.len() as u64 > state.params.max_limit {
            let message = format!("the pipeline selects more than {}; select fewer", state.params.max_limit);
            return Err(ApiError::parameter("filter", message));
        }
    }
    Ok(selected)
}

/// The id of a document; a pipeline may have made it a text.
fn id_of(document: &RawDocument) -> Option<i64> {
    match Bson::try_from(document.get("public_id").ok()??).ok()? {
        Bson::Int64(id) => Some(id),
        Bson::Int32(id) => Some(i64::from(id)),
        Bson::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn wrong(place: usize, message: &str) -> ApiError {
    ApiError::parameter("filter", format!("stage {}: {message}", place + 1))
}

fn parse(text: &str, limits: &Limits, now: DateTime) -> Result<Vec<Stage>, ApiError> {
    let read = json::read::value_from_str(text).map_err(|error| ApiError::parameter("filter", error.to_string()))?;
    let Bson::Array(stages) = read else {
        return Err(ApiError::parameter("filter", "must be an object or a pipeline"));
    };
    if stages.len() > MOST_STAGES {
        return Err(ApiError::parameter("filter", format!("must have at most {MOST_STAGES} stages")));
    }
    let mut parsed = Vec::with_capacity(stages.len());
    for (place, stage) in stages.iter().enumerate() {
        let single = stage.as_document().filter(|stage| stage.len() == 1).and_then(|stage| stage.iter().next());
        let (name, operand) = single.ok_or_else(|| wrong(place, "must be an object with one member"))?;
        let document = || operand.as_document().ok_or_else(|| wrong(place, &format!("{name} takes an object")));
        parsed.push(match name.as_str() {
            "$match" => {
                let filter = Filter::parse_at(document()?, limits, now)?;
                if let Some(operator) = filter.needs_server() {
                    return Err(StoreError::Unsupported { what: operator.to_owned() }.into());
                }
                Stage::Match(filter)
            }
            "$addFields" | "$set" => {
                let (names, computed) = added(document()?).map_err(|message| wrong(place, &message))?;
                Stage::Add(names, Projection::parse_at(&computed, &Filter::all(), limits, now)?)
            }
            "$project" => Stage::Keep(Projection::parse_at(document()?, &Filter::all(), limits, now)?),
            "$unset" => {
                let names = unset(operand).ok_or_else(|| wrong(place, "$unset takes a name or a list of names"))?;
                Stage::Keep(Projection::parse_at(&names, &Filter::all(), limits, now)?)
            }
            "$group" => {
                let firsts = firsts(document()?).ok_or_else(|| {
                    wrong(place, "$group is offered by _id alone, with the first value of each member")
                })?;
                Stage::Keep(Projection::parse_at(&firsts, &Filter::all(), limits, now)?)
            }
            "$lookup" => {
                let lookup = Lookup::parse(document()?, limits, now);
                Stage::Lookup(lookup?)
            }
            // The list has an order of its own.
            "$sort" => continue,
            other => {
                let message = format!(
                    "{} is not offered in the filter of a list; offered are $match, $addFields, $set, $project, $unset, \
                     $lookup, $sort, and $group by _id",
                    other.escape_default().to_string().chars().take(40).collect::<String>()
                );
                return Err(wrong(place, &message));
            }
        });
    }
    Ok(parsed)
}

/// The names of `$addFields`, and a projection of nothing but their values.
fn added(operand: &Document) -> Result<(Vec<String>, Document), String> {
    let mut computed = Document::new();
    for (name, value) in operand {
        if name.contains('.') || name.starts_with('$') {
            return Err("$addFields takes names without dots".to_owned());
        }
        // A bare number would ask a projection for the member instead.
        let value = match value {
            Bson::String(_) | Bson::Document(_) | Bson::Array(_) => value.clone(),
            constant => doc! {"$literal": constant.clone()}.into(),
        };
        computed.insert(name, value);
    }
    if computed.is_empty() {
        return Err("$addFields needs a member".to_owned());
    }
    Ok((operand.keys().cloned().collect(), computed))
}

fn unset(operand: &Bson) -> Option<Document> {
    let names = match operand {
        Bson::String(name) => vec![name.clone()],
        Bson::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?,
        _ => return None,
    };
    Some(names.into_iter().map(|name| (name, Bson::Int32(0))).collect())
}

/// `{_id: "$_id", name: {$first: <expression>}}` as a projection: each group is one document.
fn firsts(operand: &Document) -> Option<Document> {
    let mut computed = doc! {"_id": 1};
    for (name, value) in operand {
        if name == "_id" {
            if value.as_str() != Some("$_id") {
                return None;
            }
            continue;
        }
        let accumulator = value.as_document().filter(|accumulator| accumulator.len() == 1)?;
        computed.insert(name, accumulator.get("$first")?.clone());
    }
    operand.contains_key("_id").then_some(computed)
}

impl Stage {
    fn run(&self, batch: Vec<RawDocumentBuf>, budget: &Budget) -> Result<Vec<RawDocumentBuf>, ApiError> {
        let mut after = Vec::with_capacity(batch.len());
        for document in batch {
            match self {
                Self::Match(filter) => {
                    if filter.matches_within(&document, budget).map_err(StoreError::from)? {
                        after.push(document);
                    }
                }
                Self::Keep(projection) => {
                    after.push(projection.apply_within(&document, &Filter::all(), budget).map_err(StoreError::from)?);
                }
                Self::Add(names, projection) => {
                    let computed =
                        projection.apply_within(&document, &Filter::all(), budget).map_err(StoreError::from)?;
                    after.push(merged(&document, names, &computed)?);
                }
                Self::Lookup(_) => return Err(ApiError::of(ErrorCode::Internal)),
            }
        }
        Ok(after)
    }
}

/// The document with the computed values in the place of its own.
fn merged(document: &RawDocument, names: &[String], computed: &RawDocument) -> Result<RawDocumentBuf, ApiError> {
    let mut whole = resource::decode(document)?;
    for name in names {
        whole.remove(name);
    }
    let mut values = resource::decode(computed)?;
    for name in names {
        if let Some(value) = values.remove(name) {
            whole.insert(name, value);
        }
    }
    Ok(resource::encode(&whole)?)
}
