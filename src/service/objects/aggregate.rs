//! Pipelines on objects: what they may see, and what enters them. docs/api.md, Aggregation.

use std::time::Instant;

use bson::{Bson, DateTime, doc};

use crate::admission;
use crate::plural::counted;
use crate::query::pipeline::{Terms, Unseen};
use crate::query::{Budget, Filter, Limits, Pipeline, order_stages};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::queries::list_query::{ListQuery, Stages};
use crate::service::resource::{self, Categories, Objects, Resource, Types};
use crate::service::services::Services;
use crate::store::{AggregateQuery, Documents, Page, Reach, StoreError, gathered};

/// The results of a pipeline may have this many bytes together.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The member that objects lose before a pipeline shows them: native reads show none.
const UNSEEN: Unseen = Unseen { everywhere: Some("_id"), of: None };

/// How a pipeline on objects is read: they enter as native reads show them.
pub fn terms(place: &'static str, limits: Limits, now: DateTime) -> Terms {
    Terms { place, collection: Objects::COLLECTION, unseen: UNSEEN, limits, now }
}

/// Runs a pipeline that was read on [`terms`] on the objects that the caller may see, for at most `most` results.
///
/// # Errors
/// More results, [`ErrorCode::ParameterInvalid`]; failures on documents, and errors of the store.
pub async fn aggregate_objects(
    services: &Services,
    caller: &Caller,
    pipeline: Pipeline,
    most: u64,
) -> Result<Documents, ServiceError> {
    // One more shows that there are too many.
    let limit = doc! { "$limit": whole(most.saturating_add(1)) };
    let too_many = |what: String| {
        ServiceError::refused(ErrorCode::ParameterInvalid, format!("pipeline: {what}; end it with a $limit"))
    };
    match results(services, caller, pipeline.then(ours(&[limit.into()])?)).await? {
        None => Err(too_many(format!("the results have more than {} MiB", MAX_BYTES / 1024 / 1024))),
        Some(documents) if documents.len() as u64 > most => {
            Err(too_many(format!("there are more than {}", counted(most, "result"))))
        }
        Some(documents) => Ok(documents),
    }
}

/// One page of what a pipeline makes of the objects that match and that the caller may see. The total counts its results.
///
/// Page and total are two queries. Pages that are known to be the last take one.
///
/// # Errors
/// A page that is too large, [`ErrorCode::ParameterInvalid`]; failures on documents, and errors of the store.
pub(crate) async fn page(
    services: &Services,
    caller: &Caller,
    query: &ListQuery,
    stages: &Stages,
) -> Result<Page, ServiceError> {
    let entering = Pipeline::matching(query.filter.clone()).then(stages.pipeline.clone());
    let skip = (query.page - 1).saturating_mul(query.limit);
    let mut tail = order_stages(&query.sort, !stages.selects);
    tail.push(doc! { "$skip": whole(skip) }.into());
    tail.push(doc! { "$limit": whole(query.limit) }.into());
    let documents = results(services, caller, entering.clone().then(ours(&tail)?)).await?.ok_or_else(|| {
        let message = format!("limit: the page has more than {} MiB; ask for fewer", MAX_BYTES / 1024 / 1024);
        ServiceError::refused(ErrorCode::ParameterInvalid, message)
    })?;
    let shown = skip.saturating_add(documents.len() as u64);
    let is_last = (documents.len() as u64) < query.limit && (skip == 0 || !documents.is_empty());
    let total = if is_last { shown } else { count(services, caller, entering).await? };
    // A document more may have been stored between the two queries.
    let total = if documents.is_empty() { total } else { total.max(shown) };
    Ok(Page { documents: projected(services, query, documents).await?, total, hint: None })
}

async fn count(services: &Services, caller: &Caller, pipeline: Pipeline) -> Result<u64, ServiceError> {
    let counting = ours(&[doc! { "$count": "n" }.into()])?;
    let counted = results(services, caller, pipeline.then(counting)).await?.unwrap_or_default();
    let Some(counted) = counted.first() else { return Ok(0) };
    let number = resource::decode(counted)?.get("n").and_then(|number| match number {
        Bson::Int32(number) => u64::try_from(*number).ok(),
        Bson::Int64(number) => u64::try_from(*number).ok(),
        _ => None,
    });
    Ok(number.unwrap_or_default())
}

/// The projection of the list, which knows operators that a stage does not.
async fn projected(services: &Services, query: &ListQuery, documents: Documents) -> Result<Documents, ServiceError> {
    let Some(projection) = query.projection.clone() else { return Ok(documents) };
    let until = Instant::now().checked_add(services.max_time);
    let projected = admission::work(move |means| {
        let budget = Budget::until(until).within(means);
        let mut all = Documents::new();
        for document in documents.iter() {
            all.push(&projection.apply_within(document, &Filter::all(), &budget)?);
        }
        Ok::<_, StoreError>(all)
    });
    Ok(projected.await??)
}

/// What a pipeline makes of the objects that the caller may see; `None`: too many bytes.
async fn results(services: &Services, caller: &Caller, pipeline: Pipeline) -> Result<Option<Documents>, ServiceError> {
    // Its results may not show of which types the objects are, so these cannot be looked up afterwards.
    let types = services.types_anew().await?;
    let guard = types.visible_to(caller).unwrap_or_default();
    let mut reach = Reach::default().with(Objects::COLLECTION, guard.clone());
    for (right, collection) in
        [("base.framework.type.view", Types::COLLECTION), ("base.framework.category.view", Categories::COLLECTION)]
    {
        if caller.rights.grants(right) {
            reach = reach.with(collection, Filter::all());
        }
    }
    let query =
        AggregateQuery { guard, reach, max_bytes: MAX_BYTES, ..AggregateQuery::new(pipeline, services.max_time) };
    let chunks = match services.store.aggregate(Objects::COLLECTION, &query).await {
        Err(StoreError::TooLarge) => return Ok(None),
        chunks => chunks?,
    };
    match gathered(chunks, MAX_BYTES).await {
        Err(StoreError::TooLarge) => Ok(None),
        documents => Ok(Some(documents?)),
    }
}

/// Stages of the service.
fn ours(stages: &[Bson]) -> Result<Pipeline, ServiceError> {
    Ok(Pipeline::parse(stages, &Limits::NONE, DateTime::from_millis(0))?)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
