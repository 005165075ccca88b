//! Objects from rows that are pasted from a spreadsheet, or from the text of a CSV file.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};

use super::list::readable_type;
use super::object::id_of;
use crate::domain::object_type::Field;
use crate::exchange::encoding::TextEncoding;
use crate::exchange::locale::Locale;
use crate::http::error::ApiError;
use crate::page::VIEW;
use crate::page::address::of_type;
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::refusal;
use crate::page::visitor::{Form, Visitor};
use crate::service::exchange::export::ExportAccess;
use crate::service::exchange::import::{
    ImportForm, ImportQuery, ImportReport, Importer, Repeat, ReportError, import_objects,
};
use crate::service::types::catalog::TypeEntry;

/// How many errors and warnings are shown.
const SHOWN: usize = 100;
/// The orders of dates to choose from, with an example.
const DATES: [(&str, &str); 3] = [("ymd", "2026-01-31"), ("dmy", "31.01.2026"), ("mdy", "01/31/2026")];

/// The outcome of what was sent.
enum Outcome {
    /// Nothing was sent yet.
    None,
    /// The rows were imported before.
    Earlier,
    /// What is wrong with the form.
    Refused(StatusCode, Vec<String>),
    /// The rows were read.
    Read(ImportReport),
}

/// An empty form.
///
/// # Errors
/// 404 for a type that the visitor may not read; errors of the store.
pub async fn blank(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    visitor.needs(VIEW)?;
    let entry = readable_type(&visitor, id_of(&request)?).await?;
    answer(&visitor, &entry, &|_| None, Outcome::None).await
}

/// Checks the rows, or makes and changes objects: all rows or none.
///
/// # Errors
/// As [`blank`].
pub async fn carry_out(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let visitor = &form.visitor;
    visitor.needs(VIEW)?;
    let entry = readable_type(visitor, id_of(&request)?).await?;
    let outcome = match carried_out(&form, &entry).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let error = refusal::mendable(error)?;
            Outcome::Refused(error.status(), refusal::lines(&error, str::to_owned))
        }
    };
    answer(visitor, &entry, &|name| form.get(name), outcome).await
}

async fn carried_out(form: &Form, entry: &Arc<TypeEntry>) -> Result<Outcome, ApiError> {
    let visitor = &form.visitor;
    let locale = Locale::read(true, |name| form.get(name));
    let query = ImportQuery {
        type_id: entry.object_type.public_id,
        key: form.get("key").map(str::to_owned),
        dry_run: form.get("do") != Some("import"),
        form: ImportForm::Csv { delimiter: None, encoding: Some(TextEncoding::Utf8) },
        locale: locale.map_err(|(name, reason)| ApiError::parameter(name, reason))?,
        repeat: if form.get("again").is_some() { Repeat::Never } else { Repeat::File },
    };
    let importer = Importer { access: ExportAccess::Of(&visitor.caller), user_id: visitor.caller.user_id };
    let rows = form.get("rows").unwrap_or_default().as_bytes().to_vec();
    let imported = import_objects(visitor.services(), importer, &query, rows).await?;
    if imported.earlier.is_some() {
        return Ok(Outcome::Earlier);
    }
    Ok(Outcome::Read(imported.report))
}

async fn answer<'f>(
    visitor: &Visitor,
    entry: &TypeEntry,
    sent: &impl Fn(&str) -> Option<&'f str>,
    outcome: Outcome,
) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let object_type = &entry.object_type;
    let title = texts.with("import-title", &[("type", object_type.label.as_str().into())]);
    let status = match &outcome {
        Outcome::Refused(status, _) => *status,
        Outcome::Earlier => StatusCode::CONFLICT,
        Outcome::Read(report) if !report.is_good() => StatusCode::BAD_REQUEST,
        Outcome::None | Outcome::Read(_) => StatusCode::OK,
    };
    let is_done = matches!(&outcome, Outcome::Read(report) if report.is_good() && !report.dry_run);
    let main = html! {
        p.above { a href=(of_type(object_type.public_id)) { bdi { (object_type.label) } } }
        h1 { (title) }
        @match &outcome {
            Outcome::None => {}
            Outcome::Earlier => div.errors role="alert" { p { (texts.say("import-earlier")) } },
            Outcome::Refused(_, lines) => (refusal::shown(texts, lines, None)),
            Outcome::Read(report) => (shown(visitor, report)),
        }
        @if is_done {
            p { a.button href=(of_type(object_type.public_id)) { bdi { (object_type.label) } } }
        } @else {
            (rows_form(visitor, entry, sent))
        }
    };
    page(visitor, status, Content::new(title, main).about(object_type.public_id)).await
}

fn rows_form<'f>(visitor: &Visitor, entry: &TypeEntry, sent: &impl Fn(&str) -> Option<&'f str>) -> Markup {
    let texts = visitor.texts();
    let object_type = &entry.object_type;
    let fields: Vec<&str> = object_type.fields.iter().map(Field::title).collect();
    html! {
        form.edit method="post" action={ (of_type(object_type.public_id)) "/import" } {
            (token(visitor))
            div.field {
                label for="rows" { (texts.say("import-rows")) }
                div.hint #rows-hint {
                    p { (texts.say("import-rows-hint")) }
                    p { bdi { (fields.join(", ")) } }
                }
                textarea #rows name="rows" rows="12" aria-describedby="rows-hint" dir="auto" { "\n" (sent("rows").unwrap_or_default()) }
            }
            div.choices {
                label { (texts.say("import-key")) " "
                    select name="key" {
                        option value="" { (texts.say("import-key-none")) }
                        @for field in object_type.fields.iter().filter(|field| !field.is_password()) {
                            option value=(field.name) selected[sent("key") == Some(&*field.name)] { (field.title()) }
                        }
                    }
                }
                label { (texts.say("import-decimal")) " "
                    select name="decimal" {
                        @for (sign, example) in [(".", "1.5"), (",", "1,5")] {
                            option value=(sign) selected[sent("decimal") == Some(sign)] { (example) }
                        }
                    }
                }
                label { (texts.say("import-dates")) " "
                    select name="dates" {
                        @for (order, example) in DATES {
                            option value=(order) selected[sent("dates") == Some(order)] { (example) }
                        }
                    }
                }
                label { (texts.say("import-true")) " " input name="true" value=[sent("true")] size="8" autocomplete="off"; }
                label { (texts.say("import-false")) " " input name="false" value=[sent("false")] size="8" autocomplete="off"; }
            }
            label.choice { input type="checkbox" name="again" value="yes" checked[sent("again").is_some()]; (texts.say("import-again")) }
            p.actions {
                button name="do" value="check" { (texts.say("import-check")) }
                button.main name="do" value="import" { (texts.say("import")) }
            }
        }
    }
}

fn shown(visitor: &Visitor, report: &ImportReport) -> Markup {
    let texts = visitor.texts();
    let counts = [("created", report.created), ("updated", report.updated), ("unchanged", report.unchanged)];
    let counts = counts.map(|(name, count)| (name, count.into()));
    html! {
        @if report.is_good() {
            @let key = if report.dry_run { "import-would" } else { "import-did" };
            p.notice role="status" { (texts.with(key, &counts)) }
        } @else {
            div.errors role="alert" {
                h2 { (texts.with("import-failed", &[("count", report.failed.into())])) }
                // On MongoDB a large file is stored in groups.
                @if report.created + report.updated > 0 { p { (texts.with("import-partly", &counts)) } }
                (places(visitor, &report.errors, report.errors_left_out))
            }
        }
        @if !report.warnings.is_empty() {
            section { h2 { (texts.say("import-warnings")) } (places(visitor, &report.warnings, report.warnings_left_out)) }
        }
    }
}

fn places(visitor: &Visitor, errors: &[ReportError], left_out: usize) -> Markup {
    let texts = visitor.texts();
    let rest = errors.len().saturating_sub(SHOWN) + left_out;
    html! {
        table.list {
            thead { tr {
                th scope="col" { (texts.say("import-line")) } th scope="col" { (texts.say("field")) } th scope="col" { (texts.say("import-reason")) }
            } }
            tbody {
                @for error in errors.iter().take(SHOWN) {
                    tr { td.number { (error.line) } td { bdi { (error.field) } } td.whole lang="en" { bdi { (error.reason) } } }
                }
            }
        }
        @if rest > 0 { p { (texts.with("import-more", &[("count", rest.into())])) } }
    }
}
