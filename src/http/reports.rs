//! Routes of saved reports: docs/api.md, Reports.

use actix_web::http::StatusCode;
use bson::Bson;

use super::aggregate::{answered, read_pipeline};
use super::body::JsonBody;
use super::call::{Answer, Call};
use super::conditional::Precondition;
use super::envelope::{self, Nothing, Wire};
use super::error::ApiError;
use super::exchange::result_form;
use super::links::encode_segment;
use super::listing;
use super::params::Parameters;
use super::path::PathText;
use super::schema::{
    Aggregated, CsvParameters, Deleted, IfMatch, IfNoneMatch, Inserted, Report, ReportBody, ReportOwner,
    ResultParameters, Results, Single, Updated, operation,
};
use super::state::HttpState;
use crate::domain::document::{integer, text};
use crate::domain::report_input::FORMATS;
use crate::json::write::DateStyle;
use crate::service::objects::reports as service;
use crate::service::resource::{Reports, decode};

/// The parameter that names the group of a report.
const OWNER: &str = "group_id";

impl Wire for Reports {
    const PATH: &'static str = "/reports/";
    // Pipelines hold dates, which can be sent back in this form.
    const DATES: DateStyle = DateStyle::Millis;
}

operation! {
    /// List the reports that the caller reads by name: the caller's own, and those of the caller's group.
    list_reports: params(ReportOwner), responses((status = 200, body = Results<Report>))
}
pub(super) async fn list_reports(Call { state, request, caller }: Call) -> Answer {
    let group_id = owner(&state, &Parameters::of(&request)?)?;
    let found = service::list_reports(&state.services, &caller, group_id).await?;
    listing::results::<Reports>(&state, found).await
}

operation! {
    /// Run a report, with the rights and access lists of the caller. The caller's own comes before that of the group.
    read_report:
        params(ReportOwner, ResultParameters, CsvParameters),
        responses((status = 200, description = "The results.", content(
            (Aggregated = "application/json"),
            (String = "text/csv"),
            (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        )))
}
pub(super) async fn read_report(Call { state, request, caller }: Call, name: PathText) -> Answer {
    let sent = Parameters::of(&request)?;
    let report = service::get_report(&state.services, &caller, (group_of(&sent)?, &name.0)).await?;
    let format = FORMATS.into_iter().find(|known| text(&report, "format") == Some(known));
    let form = result_form(&state, &sent, (&[OWNER], format.unwrap_or(FORMATS[0])))?;
    let stages = decode(&report)?.get_array("pipeline").cloned().unwrap_or_default();
    answered(&state, &caller, &stages, form.map(|form| (&*name.0, form))).await
}

operation! {
    /// Read a report without running it.
    get_report: params(ReportOwner, IfNoneMatch), responses((status = 200, body = Single<Report>))
}
pub(super) async fn get_report(Call { state, request, caller }: Call, name: PathText) -> Answer {
    let group_id = owner(&state, &Parameters::of(&request)?)?;
    let found = service::get_report(&state.services, &caller, (group_id, &name.0)).await?;
    envelope::single::<Reports>(&state, &request, &found)
}

operation! {
    /// Save a report of the caller or, with `group_id`, of a group: a new one, or in place of the one with this name.
    save_report:
        params(ReportOwner, IfMatch),
        request_body = ReportBody,
        responses((status = 202, body = Updated<Report>), (status = 201, body = Inserted<Report>))
}
pub(super) async fn save_report(
    Call { state, request, caller }: Call,
    name: PathText,
    condition: Precondition,
    body: JsonBody,
) -> Answer {
    let group_id = owner(&state, &Parameters::of(&request)?)?;
    service::admit(&caller, group_id)?;
    if let Some(Bson::Array(stages)) = body.0.get("pipeline") {
        read_pipeline(&state, &caller, stages).await?;
    }
    let place = (group_id, &*name.0);
    let (saved, is_new) = service::save_report(&state.services, &caller, place, &condition.0, &body.0).await?;
    let group = group_id.map(|id| format!("?{OWNER}={id}")).unwrap_or_default();
    let path = format!("{}{}{group}", Reports::PATH, encode_segment(&name.0));
    if is_new {
        let id = integer(&saved, "public_id").unwrap_or_default();
        let place = (StatusCode::CREATED, &*path);
        return envelope::inserted_at::<Reports>(&state, &request, place, &id, &saved, &Nothing {});
    }
    envelope::updated_at::<Reports>(&state, &request, (StatusCode::ACCEPTED, &path), &saved)
}

operation! {
    /// Delete a report of the caller or, with `group_id`, of a group.
    delete_report: params(ReportOwner, IfMatch), responses((status = 202, body = Deleted<Report>))
}
pub(super) async fn delete_report(
    Call { state, request, caller }: Call,
    name: PathText,
    condition: Precondition,
) -> Answer {
    let group_id = owner(&state, &Parameters::of(&request)?)?;
    let deleted = service::delete_report(&state.services, &caller, (group_id, &name.0), &condition.0).await?;
    envelope::deleted::<Reports>(&state, StatusCode::ACCEPTED, &deleted, &Nothing {})
}

/// The group that is named, where no other parameter is known.
fn owner(state: &HttpState, sent: &Parameters) -> Result<Option<i64>, ApiError> {
    sent.only(&[OWNER], state.params.unknown)?;
    group_of(sent)
}

fn group_of(sent: &Parameters) -> Result<Option<i64>, ApiError> {
    let is_id = |id: &i64| *id > 0;
    let wrong = || ApiError::parameter(OWNER, format!("must be from 1 to {}", i64::MAX));
    let id = |sent: u64| i64::try_from(sent).ok().filter(is_id).ok_or_else(wrong);
    sent.number(OWNER)?.map(id).transpose()
}
