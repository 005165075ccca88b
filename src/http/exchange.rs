//! Export and import of objects as files.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures::StreamExt;

use super::call::{Answer, Call};
use super::caller::Authenticated;
use super::envelope;
use super::error::ApiError;
use super::files::{File, SHEET, SentFormat};
use super::idempotency::IdempotencyKey;
use super::objects::{LIST, with_fields};
use super::params::{Parameters, read_order, read_sort};
use super::schema::{
    CsvParameters, ExportParameters, IdempotencyHeader, ImportParameters, ProposalParameters, TableParameters,
    TypeBody, operation,
};
use super::state::HttpState;
use crate::domain::report_input::FORMATS;
use crate::domain::schema::is_kebab_case;
use crate::exchange::columns::Labels;
use crate::exchange::csv::{CsvStyle, DELIMITER_NAMES, Delimiter};
use crate::exchange::discovery::HostFields;
use crate::exchange::encoding::{self, TextEncoding};
use crate::exchange::locale::{self, Locale};
use crate::plural::counted;
use crate::query::{Fields, Filter};
use crate::service::exchange::export::{self as service, ChosenColumns, ExportAccess, ExportForm, ExportQuery};
use crate::service::exchange::import::{self, ImportForm, ImportQuery, ImportReport, Imported, Importer, Repeat};
use crate::service::queries::advice;
use crate::service::{Caller, ErrorCode};
use crate::store::StoreError;

/// The parameters of an export.
const EXPORT: [&str; 17] = [
    "type_id", "format", "filter", "sort", "order", "active", "columns", "headings", "values", "delimiter", "quoting",
    "encoding", "bom", "host", "address", "group_by", "port",
];
/// The options of hosts, with the formats that have them.
const OF_HOSTS: [(&str, &[&str]); 4] = [
    ("host", &["ansible", "prometheus-sd"]),
    ("address", &["ansible"]),
    ("group_by", &["ansible"]),
    ("port", &["prometheus-sd"]),
];

/// The options of tables.
const OF_TABLES: [&str; 3] = ["columns", "headings", "values"];

/// The options of CSV files.
const OF_CSV: [&str; 4] = ["delimiter", "quoting", "encoding", "bom"];

operation! {
    /// Write objects into a file: a table (CSV, xlsx) or lines of JSON.
    export_objects:
        params(ExportParameters, CsvParameters),
        responses((status = 200, description = "The file.", content(
            (String = "text/csv"),
            (String = "application/x-ndjson"),
            (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
            (serde_json::Value = "application/json"),
        )))
}
pub(super) async fn export_objects(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
) -> Result<HttpResponse, ApiError> {
    file(&state, &caller.0, &Parameters::of(&request)?).await
}

/// The file that these parameters ask for.
///
/// # Errors
/// 400 naming the parameter, and refusals of the export.
pub async fn file(state: &HttpState, caller: &Caller, sent: &Parameters) -> Result<HttpResponse, ApiError> {
    sent.only(&EXPORT, state.params.unknown)?;
    let query = export_query(state, caller, sent).await?;
    let advice = advice::of_selection(&state.services, caller, &query.filter, &query.sort).await?;
    let form = query.form;
    let export = service::export_objects(&state.services, ExportAccess::Of(caller), query).await?;
    let bytes = export.bytes.map(|chunk| match chunk {
        Ok(chunk) => Ok(Bytes::from(chunk)),
        Err(error) => {
            log::error!("an export ends early: {error}");
            Err(StoreError::backend("the export ends early"))
        }
    });
    Ok(envelope::advised(attached(&export.name, form).streaming(bytes), &advice))
}

/// An answer that is a file of this form.
pub(super) fn attached(name: &str, form: ExportForm) -> HttpResponseBuilder {
    let (media_type, extension) = match form {
        ExportForm::Csv(style) => (format!("text/csv; charset={}; header=present", charset(style.encoding)), "csv"),
        ExportForm::Ndjson => ("application/x-ndjson".to_owned(), "ndjson"),
        ExportForm::Xlsx => (SHEET.to_owned(), "xlsx"),
        ExportForm::Ansible | ExportForm::Prometheus => ("application/json".to_owned(), "json"),
    };
    let disposition = format!("attachment; filename=\"{}.{extension}\"", plain(name));
    let disposition = HeaderValue::try_from(disposition).expect("a plain name has no control characters");
    let mut response = HttpResponse::Ok();
    response.content_type(media_type).insert_header((header::CONTENT_DISPOSITION, disposition));
    response
}

/// The form of results: a table, or none for JSON. `others` are known, too.
///
/// # Errors
/// 400 naming the parameter.
pub(super) fn result_form(
    state: &HttpState,
    sent: &Parameters,
    (others, default): (&[&str], &'static str),
) -> Result<Option<ExportForm>, ApiError> {
    sent.only(&[&["format"], others, &OF_CSV].concat(), state.params.unknown)?;
    let format = sent.one_of("format", &FORMATS)?.unwrap_or(default);
    of_csv_alone(sent, format)?;
    Ok(match format {
        "csv" => Some(ExportForm::Csv(csv_style(sent)?)),
        "xlsx" => Some(ExportForm::Xlsx),
        _ => None,
    })
}

/// Refuses options of CSV for other formats.
fn of_csv_alone(sent: &Parameters, format: &str) -> Result<(), ApiError> {
    match OF_CSV.iter().find(|name| sent.get(name).is_some()) {
        Some(name) if format != "csv" => Err(ApiError::parameter(name, "goes with format=csv only")),
        _ => Ok(()),
    }
}

async fn export_query(state: &HttpState, caller: &Caller, sent: &Parameters) -> Result<ExportQuery, ApiError> {
    let format = sent.one_of("format", &["csv", "ndjson", "xlsx", "ansible", "prometheus-sd"])?.unwrap_or("csv");
    let is_table = matches!(format, "csv" | "xlsx");
    of_csv_alone(sent, format)?;
    if !is_table && let Some(name) = OF_TABLES.iter().find(|name| sent.get(name).is_some()) {
        return Err(ApiError::parameter(name, "goes with tables only: format=csv or xlsx"));
    }
    let columns = chosen_columns(sent)?;
    let labels = Labels {
        in_header: sent.one_of("headings", &["names", "labels"])? == Some("labels"),
        of_options: sent.one_of("values", &["names", "labels"])? == Some("labels"),
    };
    let hosts = host_fields(sent, format)?;
    let type_id = sent.number("type_id")?.map(|id| i64::try_from(id).unwrap_or(i64::MAX));
    if type_id.is_none() && is_table {
        return Err(ApiError::parameter("type_id", format!("is needed with format={format}: a table is of one type")));
    }
    let form = match format {
        "csv" => ExportForm::Csv(csv_style(sent)?),
        "xlsx" => ExportForm::Xlsx,
        "ansible" => ExportForm::Ansible,
        "prometheus-sd" => ExportForm::Prometheus,
        _ => ExportForm::Ndjson,
    };
    let filter = sent.get("filter").filter(|text| !text.trim().is_empty()).unwrap_or("{}");
    let read = async |fields: Option<Fields>| {
        let fields =
            fields.map(|fields| type_id.map_or_else(|| fields.clone(), |type_id| fields.clone().of_type(type_id)));
        let filter = state.object_filter(filter, fields.clone()).await?;
        let fields = fields.map(|fields| fields.within(filter.document()));
        let filter = if sent.flag("active")? { filter.and(Filter::equals("active", true)) } else { filter };
        Ok((filter, read_sort(sent, read_order(sent)?, &LIST, fields.as_ref())?))
    };
    let (filter, sort) = with_fields(state, caller, sent, read).await?;
    Ok(ExportQuery { type_id, filter, sort, form, columns, labels, hosts })
}

/// The columns of a table.
fn chosen_columns(sent: &Parameters) -> Result<ChosenColumns, ApiError> {
    match sent.get("columns") {
        None | Some("fields") => Ok(ChosenColumns::Fields),
        Some("all") => Ok(ChosenColumns::All),
        Some(names) => {
            let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
            if names.iter().any(String::is_empty) {
                return Err(ApiError::parameter("columns", "must be fields, all, or headings with commas"));
            }
            Ok(ChosenColumns::Named(names))
        }
    }
}

/// The fields that have a meaning for another tool.
fn host_fields(sent: &Parameters, format: &str) -> Result<HostFields, ApiError> {
    let stray = OF_HOSTS.iter().find(|(name, formats)| sent.get(name).is_some() && !formats.contains(&format));
    if let Some((name, formats)) = stray {
        return Err(ApiError::parameter(name, format!("goes with format={} only", formats.join(" or "))));
    }
    if !OF_HOSTS[0].1.contains(&format) {
        return Ok(HostFields::default());
    }
    let named = |name: &str| sent.get(name).filter(|field| !field.is_empty()).map(str::to_owned);
    let needed = || {
        let message = format!("is needed with format={format}: the field that names the host");
        ApiError::parameter("host", message)
    };
    let port = sent.number("port")?.map(u16::try_from).transpose();
    let port = port.map_err(|_| ApiError::parameter("port", "must be from 0 to 65535"))?;
    Ok(HostFields {
        host: named("host").ok_or_else(needed)?,
        address: named("address"),
        group_by: named("group_by"),
        port,
    })
}

fn csv_style(sent: &Parameters) -> Result<CsvStyle, ApiError> {
    let encoding = text_encoding(sent)?.unwrap_or_default();
    Ok(CsvStyle {
        delimiter: delimiter(sent)?.unwrap_or_default(),
        quote_all: sent.one_of("quoting", &["necessary", "all"])? == Some("all"),
        encoding,
        mark: encoding.check_mark(sent.flag("bom")?).map_err(|message| ApiError::parameter("bom", message))?,
    })
}

fn delimiter(sent: &Parameters) -> Result<Option<Delimiter>, ApiError> {
    let Some(name) = sent.get("delimiter") else { return Ok(None) };
    let known = Delimiter::named(name);
    known.map(Some).ok_or_else(|| ApiError::parameter("delimiter", format!("must be one of {DELIMITER_NAMES}")))
}

fn text_encoding(sent: &Parameters) -> Result<Option<TextEncoding>, ApiError> {
    Ok(sent.one_of("encoding", &encoding::NAMES)?.and_then(TextEncoding::named))
}

/// The name by which browsers know an encoding.
fn charset(encoding: TextEncoding) -> &'static str {
    if encoding == TextEncoding::Latin1 { "iso-8859-1" } else { encoding.name() }
}

/// A name of a file that every system takes.
fn plain(name: &str) -> String {
    let kept =
        |character: char| if character.is_ascii_alphanumeric() || "-_".contains(character) { character } else { '_' };
    name.chars().take(100).map(kept).collect()
}

/// The parameters of an import.
const IMPORT: [&str; 4] = ["type_id", "key", "dry_run", "again"];

/// The parameters that say how a file is read.
const READING: [&str; 9] = ["format", "delimiter", "encoding", "sheet", "decimal", "dates", "true", "false", "trim"];

operation! {
    /// Create and change objects from a file: all of its lines, or none.
    ///
    /// A spreadsheet comes as bytes with `format=xlsx`, or with the media type of its own.
    import_objects:
        params(ImportParameters, TableParameters, IdempotencyHeader),
        request_body(content(
            (String = "text/csv"),
            (String = "application/x-ndjson"),
            (String = "application/octet-stream"),
        )),
        responses((status = 200, body = ImportReport))
}
pub(super) async fn import_objects(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    key: IdempotencyKey,
    file: File,
) -> Result<HttpResponse, ApiError> {
    let sent = Parameters::of(&request)?;
    sent.only(&[&IMPORT[..], &READING].concat(), state.params.unknown)?;
    let repeat = match key.key.clone() {
        Some(key) => Repeat::Key(key),
        None if sent.flag("again")? => Repeat::Never,
        None => Repeat::File,
    };
    let query = import_query(&sent, (file.said, file.encoding), repeat)?;
    let importer = Importer { access: ExportAccess::Of(&caller.0), user_id: caller.0.user_id };
    let Imported { report, earlier } = import::import_objects(&state.services, importer, &query, file.bytes).await?;
    drop((file.place, file.arriving));
    let written = serde_json::to_value(&report).expect("numbers and strings can always be written");
    if let Some(earlier) = earlier.filter(|_| query.repeat == Repeat::File) {
        let earlier = earlier.try_to_rfc3339_string().unwrap_or_default();
        let message = format!(
            "this file was imported at {earlier}, and nothing was changed now; again=true creates its objects once more"
        );
        return Err(ApiError::new(ErrorCode::ImportRepeated, message).reporting(written));
    }
    if report.is_good() {
        return Ok(envelope::json(StatusCode::OK, written.to_string().into_bytes(), |_| {}));
    }
    let refused = counted(report.failed, "line");
    let message = match report.created + report.updated {
        0 => format!("{refused} cannot be taken; nothing was changed"),
        stored => {
            format!("{refused} cannot be taken; {} had been stored before, see report", counted(stored, "other"))
        }
    };
    Err(ApiError::new(ErrorCode::ImportRefused, message).reporting(written))
}

operation! {
    /// Propose a type for the objects of a table: the body of `POST /types/`, to be edited.
    ///
    /// A field has the kind that all cells of its column have. Nothing is stored.
    propose_type:
        params(ProposalParameters, TableParameters),
        request_body(content((String = "text/csv"), (String = "application/octet-stream"))),
        responses((status = 200, body = TypeBody))
}
pub(super) async fn propose_type(Call { state, request, caller }: Call, file: File) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&[&["name"][..], &READING].concat(), state.params.unknown)?;
    let name = sent.get("name").filter(|name| !name.is_empty()).unwrap_or("imported").to_owned();
    if !is_kebab_case(&name) {
        return Err(ApiError::parameter("name", "must be letters, digits, - and _, as names of types are"));
    }
    sent.one_of("format", &["csv", "xlsx"])?;
    let form = import_form(&sent, (file.said, file.encoding))?;
    let proposed = import::propose_type((name, caller.user_id), form, file.bytes).await?;
    drop((file.place, file.arriving));
    match proposed {
        Ok(proposed) => Ok(envelope::json(StatusCode::OK, proposed.to_string().into_bytes(), |_| {})),
        Err(report) => {
            let written = serde_json::to_value(&report).expect("numbers and strings can always be written");
            Err(ApiError::new(ErrorCode::ImportRefused, "the file cannot be read as a table").reporting(written))
        }
    }
}

fn import_query(
    sent: &Parameters,
    said: (SentFormat, Option<TextEncoding>),
    repeat: Repeat,
) -> Result<ImportQuery, ApiError> {
    let (form, locale) = import_form(sent, said)?;
    let type_id = sent.number("type_id")?.map(|id| i64::try_from(id).unwrap_or(i64::MAX));
    let type_id = type_id.ok_or_else(|| ApiError::parameter("type_id", "is required: the type of the objects"))?;
    let key = sent.get("key").map(str::to_owned);
    if key.as_deref() == Some("") {
        return Err(ApiError::parameter("key", "is empty; name a field, or leave it out for new objects"));
    }
    Ok(ImportQuery { type_id, key, dry_run: sent.flag("dry_run")?, form, locale, repeat })
}

/// The form of a file, and how its cells are read. `said` is what its media type says; parameters take precedence.
fn import_form(
    sent: &Parameters,
    (said, said_encoding): (SentFormat, Option<TextEncoding>),
) -> Result<(ImportForm, Locale), ApiError> {
    let usual = match said {
        SentFormat::Lines => "ndjson",
        SentFormat::Sheet => "xlsx",
        SentFormat::Table => "csv",
    };
    let format = sent.one_of("format", &["csv", "ndjson", "xlsx"])?.unwrap_or(usual);
    let (delimiter, encoding) = (delimiter(sent)?, text_encoding(sent)?);
    if format != "csv"
        && let Some(name) = ["delimiter", "encoding"].iter().find(|name| sent.get(name).is_some())
    {
        return Err(ApiError::parameter(name, "goes with format=csv only"));
    }
    let sheet = sent.get("sheet").filter(|name| !name.trim().is_empty()).map(str::to_owned);
    if format != "xlsx" && sheet.is_some() {
        return Err(ApiError::parameter("sheet", "goes with format=xlsx only"));
    }
    let locale = locale_of(sent, format)?;
    let form = match format {
        "csv" => ImportForm::Csv { delimiter, encoding: encoding.or(said_encoding) },
        "xlsx" => ImportForm::Xlsx { sheet },
        _ => ImportForm::Ndjson,
    };
    Ok((form, locale))
}

/// How the cells of a table are read.
fn locale_of(sent: &Parameters, format: &str) -> Result<Locale, ApiError> {
    let trim = sent.get("trim").is_none() || sent.flag("trim")?;
    let mut of_tables = locale::OPTIONS.into_iter().filter(|name| sent.get(name).is_some());
    let of_tables = of_tables.next().or_else(|| (!trim).then_some("trim"));
    if let Some(name) = of_tables.filter(|_| format == "ndjson") {
        return Err(ApiError::parameter(name, "goes with tables only: format=csv or xlsx"));
    }
    Locale::read(trim, |name| sent.get(name)).map_err(|(name, reason)| ApiError::parameter(name, reason))
}
