//! The route of pipelines: docs/api.md, Aggregation.

use actix_web::http::StatusCode;
use bson::Bson;
use serde_json::json;

use super::body::JsonBody;
use super::call::{Answer, Call};
use super::envelope::{self, Items};
use super::error::ApiError;
use super::exchange::{attached, result_form};
use super::objects::with_known_fields;
use super::params::{Parameters, understood};
use super::schema::{Aggregated, CsvParameters, PipelineBody, ResultParameters, operation};
use super::state::HttpState;
use crate::domain::report_input::FORMATS;
use crate::query::{Effort, Fields, Pipeline};
use crate::service::Caller;
use crate::service::exchange::export::{ExportForm, results_file};
use crate::service::objects::aggregate as service;
use crate::service::queries::advice;
use crate::service::resource::Objects;

operation! {
    /// Run an aggregation pipeline on objects.
    aggregate_objects:
        params(ResultParameters, CsvParameters),
        request_body = PipelineBody,
        responses((status = 200, description = "The results.", content(
            (Aggregated = "application/json"),
            (String = "text/csv"),
            (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        )))
}
pub(super) async fn aggregate_objects(Call { state, request, caller }: Call, body: JsonBody) -> Answer {
    let sent = Parameters::of(&request)?;
    let form = result_form(&state, &sent, (&[], FORMATS[0]))?;
    answered(&state, &caller, &stages(body)?, form.map(|form| ("results", form))).await
}

/// The results of a pipeline, as a file with this name where a form is given.
pub(super) async fn answered(
    state: &HttpState,
    caller: &Caller,
    stages: &[Bson],
    file: Option<(&str, ExportForm)>,
) -> Answer {
    let pipeline = read_pipeline(state, caller, stages).await?;
    let asked = pipeline.documents().to_vec();
    let found = service::aggregate_objects(&state.services, caller, pipeline, state.params.max_limit).await?;
    let advice = advice::of_pipeline(&state.services, caller, &asked, found.is_empty()).await?;
    if let Some((name, form)) = file {
        let file = results_file(found, form).await?;
        return Ok(envelope::advised(attached(name, form).body(file), &advice));
    }
    let items = Items::of_results(&found)?;
    let beside = json!({"count": found.len()});
    let response = envelope::collection::<Objects>(state, StatusCode::OK, "results", &items, &beside, "GET");
    Ok(envelope::advised(response, &advice))
}

/// Reads a pipeline by the fields that the caller may know.
///
/// # Errors
/// What cannot be understood; errors of the store.
pub async fn read_pipeline(state: &HttpState, caller: &Caller, stages: &[Bson]) -> Result<Pipeline, ApiError> {
    with_known_fields(state, caller, async |fields: Option<Fields>| pipeline(state, stages, fields).await).await
}

/// Reads a pipeline as work in a turn: the time for that does not follow from its length.
async fn pipeline(state: &HttpState, stages: &[Bson], fields: Option<Fields>) -> Result<Pipeline, ApiError> {
    let terms = service::terms("pipeline", state.params.limits, state.services.now());
    let stages = stages.to_vec();
    let read = move |effort: &Effort| {
        Ok(match &fields {
            Some(fields) => fields.pipeline(&stages, &terms, effort)?,
            None => Pipeline::read_with(&stages, &terms, effort)?,
        })
    };
    understood(usize::MAX, state.services.max_time, read).await
}

fn stages(body: JsonBody) -> Result<Vec<Bson>, ApiError> {
    let mut body = body.0;
    let pipeline = body.remove("pipeline");
    if let Some(name) = body.keys().next() {
        return Err(ApiError::parameter(name, "is not a member of the body, which takes only pipeline"));
    }
    match pipeline {
        Some(Bson::Array(stages)) => Ok(stages),
        Some(_) => Err(ApiError::parameter("pipeline", "must be an array of stages")),
        None => Err(ApiError::parameter("pipeline", "is required: an array of stages")),
    }
}
