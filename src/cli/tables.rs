//! `inventory-service import FILE --type TYPE`: objects of one type from a table or from lines.

use std::path::Path;

use clap::Args;

use crate::domain::user::FIRST_ADMIN;
use crate::exchange::csv::{DELIMITER_NAMES, Delimiter};
use crate::exchange::encoding::{self, TextEncoding};
use crate::exchange::locale::{self, Locale};
use crate::plural::counted;
use crate::service::Services;
use crate::service::exchange::export::ExportAccess;
use crate::service::exchange::import::{ImportForm, ImportQuery, ImportReport, Importer, Repeat, import_objects};
use crate::suggest;

use super::Outcome;
use super::input::in_words;
use super::output::{note, say};

/// How a file of objects is read.
#[derive(Debug, Args)]
pub(super) struct TableOptions {
    /// The name of the type whose objects the file holds; .ndjson is read as lines of JSON, .xlsx as a spreadsheet, anything
    /// else as CSV.
    #[arg(long = "type", value_name = "NAME", conflicts_with_all = ["update", "accept_unclean"])]
    pub(super) type_name: Option<String>,
    /// Create the objects of a file without ids and key again, although the same file was imported within the last day.
    #[arg(long, requires = "type_name")]
    again: bool,
    /// The field whose value identifies objects, instead of their id.
    #[arg(long, value_name = "FIELD", requires = "type_name")]
    key: Option<String>,
    /// The delimiter of cells: comma, semicolon, tab or pipe; by default the most frequent one in the header.
    #[arg(long, value_name = "NAME", requires = "type_name")]
    delimiter: Option<String>,
    /// The encoding, for instance utf-8, utf-16le, windows-1252; by default that of the byte-order mark, else utf-8.
    #[arg(long, value_name = "NAME", requires = "type_name")]
    encoding: Option<String>,
    /// The sheet of a spreadsheet, by its name or its number from 1; by default the first one.
    #[arg(long, value_name = "SHEET", requires = "type_name")]
    sheet: Option<String>,
    /// The sign before decimals: a point or a comma.
    #[arg(long, value_name = "SIGN", requires = "type_name")]
    decimal: Option<String>,
    /// The order of dates: ymd, dmy (31.01.2026) or mdy; or a pattern such as %d.%m.%Y. ISO 8601 is always read.
    #[arg(long, value_name = "FORM", requires = "type_name")]
    dates: Option<String>,
    /// Words for yes, with commas between them, in addition to true, yes and 1.
    #[arg(long = "true", value_name = "WORDS", requires = "type_name")]
    yes: Option<String>,
    /// Words for no, with commas between them, in addition to false, no and 0.
    #[arg(long = "false", value_name = "WORDS", requires = "type_name")]
    no: Option<String>,
    /// Keep the blanks at the edges of cells, and the Unicode form of their letters.
    #[arg(long, requires = "type_name")]
    no_trim: bool,
}

/// Imports the file, all of it or nothing.
pub(super) async fn import(
    services: &Services,
    file: &Path,
    type_name: &str,
    options: &TableOptions,
    dry_run: bool,
) -> Outcome {
    let types = services.current_types().await?;
    let entry = types.iter().find(|entry| entry.object_type.name == type_name);
    let entry = entry.ok_or_else(|| {
        if let Some(entry) = type_name.parse().ok().and_then(|id| types.get(id)) {
            let name = &entry.object_type.name;
            return format!("--type takes the name of a type; that of type {type_name} is {name}: --type {name}");
        }
        let names: Vec<&str> = types.iter().map(|entry| entry.object_type.name.as_str()).collect();
        let nearest = suggest::nearest(type_name, &names).map(|name| format!("; did you mean {name}?"));
        format!("there is no type named {type_name}{}", nearest.unwrap_or_default())
    })?;
    let query = ImportQuery {
        type_id: entry.object_type.public_id,
        key: options.key.clone(),
        dry_run,
        form: form(file, options)?,
        locale: locale(options)?,
        repeat: if options.again { Repeat::Never } else { Repeat::File },
    };
    let path = file.to_owned();
    let content = tokio::task::spawn_blocking(move || std::fs::read(path)).await?;
    let content = content.map_err(|error| format!("{}: {}", file.display(), in_words(&error)))?;
    let importer = Importer { access: ExportAccess::Operator, user_id: FIRST_ADMIN };
    let imported = import_objects(services, importer, &query, content).await?;
    if let Some(earlier) = imported.earlier {
        let earlier = earlier.try_to_rfc3339_string().unwrap_or_default();
        say!(
            "this file was imported at {earlier}, and nothing was written now; say --again to create these objects once more"
        );
        say!("its report then:");
    }
    tell(&imported.report, file)?;
    Ok(())
}

fn form(file: &Path, options: &TableOptions) -> Result<ImportForm, String> {
    let extension = file.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("ndjson" | "jsonl") => return Ok(ImportForm::Ndjson),
        Some("xlsx") => return Ok(ImportForm::Xlsx { sheet: options.sheet.clone() }),
        _ => {}
    }
    let delimiter = options.delimiter.as_deref().map(read_delimiter).transpose()?;
    let encoding = options.encoding.as_deref().map(read_encoding).transpose()?;
    Ok(ImportForm::Csv { delimiter, encoding })
}

fn locale(options: &TableOptions) -> Result<Locale, String> {
    let said = [&options.decimal, &options.dates, &options.yes, &options.no];
    let said = |name: &str| locale::OPTIONS.iter().zip(said).find(|(known, _)| **known == name)?.1.as_deref();
    Locale::read(!options.no_trim, said).map_err(|(name, reason)| format!("--{name}: {reason}"))
}

/// What `--delimiter` names.
pub(super) fn read_delimiter(name: &str) -> Result<Delimiter, String> {
    Delimiter::named(name).ok_or_else(|| format!("--delimiter {name}: write {DELIMITER_NAMES}"))
}

/// What `--encoding` names.
pub(super) fn read_encoding(name: &str) -> Result<TextEncoding, String> {
    TextEncoding::named(name)
        .ok_or_else(|| format!("--encoding {name} is not known; write one of {}", encoding::NAMES.join(", ")))
}

fn tell(report: &ImportReport, file: &Path) -> Outcome {
    for error in &report.errors {
        let place = if error.field.is_empty() { String::new() } else { format!("{}: ", error.field) };
        note(format_args!("{}, line {}: {place}{}", file.display(), error.line, error.reason));
    }
    if report.errors_left_out > 0 {
        note(format_args!("and {} more", report.errors_left_out));
    }
    for warning in &report.warnings {
        let place = if warning.field.is_empty() { String::new() } else { format!("{}: ", warning.field) };
        note(format_args!("{}, line {}: note: {place}{}", file.display(), warning.line, warning.reason));
    }
    if report.warnings_left_out > 0 {
        note(format_args!("and {} more notes", report.warnings_left_out));
    }
    if report.failed > 0 {
        return Err(match report.created + report.updated {
            0 => format!("{} cannot be imported, see above; nothing was changed", counted(report.failed, "line")),
            stored => format!(
                "{} cannot be imported, see above; {} had been stored before: the store takes so many in several steps",
                counted(report.failed, "line"),
                counted(stored, "other")
            ),
        }
        .into());
    }
    let would = if report.dry_run { "would be " } else { "" };
    say!(
        "objects: {} {would}created, {} {would}updated, {} unchanged", report.created, report.updated, report.unchanged
    );
    Ok(())
}
