//! Objects from files: all lines of a file, or none.
//!
//! First everything is checked by the rules for single objects, with queries for many lines at a time. Then everything
//! is written: on the embedded store as one unit. Transactions of MongoDB are bounded, so there it is written in
//! groups, each of them a unit. Repeating an interrupted import completes it.
//!
//! 1. `rows` reads the file.
//! 2. `found` looks up what the lines refer to.
//! 3. `plan` decides on each line and changes nothing.
//! 4. `write` commits. After a concurrent change its unit is refused, and the lines are planned again.
//! 5. `journal` keeps the ids of lines without one, if a file takes several units.

mod found;
mod journal;
mod near;
mod plan;
mod report;
mod rows;
mod taken;
mod write;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bson::DateTime;
use bson::raw::RawDocument;

pub use self::report::{Action, ImportReport, MAX_ERRORS, MAX_LINES, ReportError, ReportLine};
pub use self::rows::ImportForm;

use self::found::FoundObjects;
use self::journal::ImportNote;
use self::plan::{ImportPlan, PlannedStep, Planner, What};
use self::report::{ReportErrors, add_in_order};
use self::rows::{GivenId, ImportRows, RowReading};
use self::write::Finish;
use crate::admission::{self, Means};
use crate::domain::acl::Permission;
use crate::domain::document::{integer, text};
use crate::exchange::locale::Locale;
use crate::exchange::proposal;
use crate::history::entry;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::exchange::export::ExportAccess;
use crate::service::history::author::as_action;
use crate::service::objects::require_type;
use crate::service::objects::targets::Targets;
use crate::service::once::{Hash, Once};
use crate::service::resource::{Objects, Resource, Types};
use crate::service::services::Services;
use crate::service::types::catalog::TypeEntry;
use crate::store::{StoreError, scope_version};

/// How often an import is planned again when others change what it depends on.
const ATTEMPTS: usize = 8;

/// The bytes that a proposal takes for each row, in addition to the file.
const COLUMN: usize = 112;

/// Who imports.
#[derive(Debug, Clone, Copy)]
pub struct Importer<'a> {
    /// Whose access lists count.
    pub access: ExportAccess<'a>,
    /// The user who becomes the author of new objects without one, and the editor of changed ones.
    pub user_id: i64,
}

/// What a file is imported as.
#[derive(Debug, Clone)]
pub struct ImportQuery {
    /// The type of all its objects.
    pub type_id: i64,
    /// The field whose value identifies objects; `None`: their id does.
    pub key: Option<String>,
    /// Whether to only report what would happen.
    pub dry_run: bool,
    /// The form of the file.
    pub form: ImportForm,
    /// How the cells of a table are read.
    pub locale: Locale,
    /// The identity of the import.
    pub repeat: Repeat,
}

/// The identity of an import. An equal earlier import is reported again instead of being repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing: each time it is carried out.
    Never,
    /// A key of the client's.
    Key(String),
    /// The file itself, if it has neither ids nor a key that identify stored objects.
    File,
}

/// The outcome of an import.
#[derive(Debug)]
pub struct Imported {
    /// What was done.
    pub report: ImportReport,
    /// The time of the earlier import, if this one did nothing.
    pub earlier: Option<DateTime>,
}

impl Imported {
    fn now(report: ImportReport) -> Self {
        Self { report, earlier: None }
    }
}

/// Imports a file. If lines are wrong, the report has the errors and nothing was changed. After a conflict with others,
/// earlier groups stay stored.
///
/// # Errors
/// An unknown type, an inactive one, or one that the caller may not write; an unknown key; errors of the store.
pub async fn import_objects(
    services: &Services,
    importer: Importer<'_>,
    query: &ImportQuery,
    file: Vec<u8>,
) -> Result<Imported, ServiceError> {
    // Another instance may have just made the type, or a field that is a column.
    let types = services.types_anew().await?;
    let entry = types.get(query.type_id).ok_or_else(|| ServiceError::not_found(Types::NOT_FOUND, query.type_id))?;
    let may_create = importer.access.permit(entry, Permission::Create);
    let may_update = importer.access.permit(entry, Permission::Update);
    if may_update.is_err() {
        may_create?;
    }
    entry.require_active()?;
    let key = query.key.as_deref().map(|name| key_field(entry, name)).transpose()?;
    let reading = Arc::new(RowReading {
        types: Arc::clone(&types),
        entry: Arc::clone(entry),
        key,
        locale: query.locale.clone(),
        unseen: importer.access.unseen(&types),
    });
    let mut rows;
    let mut journal;
    let said;
    (rows, journal, said) = {
        let (reading, query) = (Arc::clone(&reading), query.clone());
        let read = move |means: &Means| {
            let journal = ImportNote::of(reading.entry.object_type.public_id, &file);
            (reading.read(&file, &query.form, &|bytes| means.hold(bytes).is_ok()), journal, hash_of(&query, &file))
        };
        admission::work(read).await?
    };
    for link in &rows.links {
        importer.access.permit(&link.target, Permission::Read)?;
    }
    let names_ids = rows.list.iter().any(|row| row.public_id.is_some());
    check_looking_up(importer, entry, query, names_ids)?;
    let nameless = rows.list.iter().filter(|row| row.public_id.is_none()).count();
    let once = match &query.repeat {
        Repeat::Key(_) if query.dry_run => None,
        Repeat::Never => None,
        Repeat::Key(name) => Some(Once::new(importer.user_id, "import", name, said)),
        Repeat::File if key.is_none() && nameless > 0 => Some(Once::new(importer.user_id, "file", &said.text(), said)),
        Repeat::File => None,
    };
    let is_bounded = services.store.largest_unit() < rows.list.len() && key.is_none() && nameless > 0;
    if is_bounded {
        journal.resume(services, &mut rows).await?;
    }
    let mut written = Vec::new();
    let mut warnings = std::mem::take(&mut rows.warnings);
    let mut has_compared_keys = false;
    let mut rows = Arc::new(rows);
    let is_read = importer.access.permit(entry, Permission::Read).is_ok();
    for _ in 0..ATTEMPTS {
        if let Some(once) = once.as_ref().filter(|_| query.dry_run) {
            if let Some(mark) = once.known_marks(services).await?.first() {
                return told_again(mark);
            }
        } else if let Some(once) = &once
            && let Some(mark) = once.marks(services).await?.first()
        {
            // The first attempt may have ended between its last unit and this.
            journal.end(services).await?;
            return told_again(mark);
        }
        let looked_at = match key {
            Some(_) => Some(scope_version(&*services.store, write::SCOPE, services.max_time).await?),
            None => None,
        };
        let is_seen = |object: &RawDocument| {
            integer(object, "type_id") == Some(query.type_id) || importer.access.shows(&types, object)
        };
        let mut found = FoundObjects::read(services, &reading, &rows, is_seen).await?;
        if query.dry_run {
            found.forget_hidden();
        }
        let planner = Planner {
            reading: Arc::clone(&reading),
            rows: Arc::clone(&rows),
            found,
            done: written.iter().map(|(row, _)| *row).collect::<HashSet<usize>>(),
            is_read,
            user_id: importer.user_id,
            now: services.now(),
        };
        let mut plan = admission::work(move |_| planner.plan()).await?;
        check_permissions(importer, entry, &plan)?;
        check_references(services, importer.access.visible(&types), query.type_id, &mut plan).await?;
        if plan.errors.is_empty() && rows.errors.is_empty() {
            taken::refuse_taken(services, query.type_id, &mut plan, is_read).await?;
        }
        plan.errors.append(rows.errors.clone());
        if !plan.errors.is_empty() {
            let mut refused = ImportReport::refused(plan.errors, query.dry_run);
            add_in_order(&mut refused, written);
            return Ok(Imported::now(refused));
        }
        if !std::mem::replace(&mut has_compared_keys, true) {
            warnings.extend(near::near_keys(services, &reading, &rows, &plan).await?);
        }
        if query.dry_run {
            let mut report = foretold(&plan, &rows);
            report.warn(warnings);
            return Ok(Imported::now(report));
        }
        if is_bounded && !journal.is_noted() {
            // From here on the lines have the noted ids, which the plan must know.
            journal.begin(services, own(&mut rows)?, services.now()).await?;
            continue;
        }
        if give_ids(services, &plan, &mut rows).await? {
            continue;
        }
        let finish = once.as_ref().map(|once| Finish { once, before: &written, warnings: &warnings });
        let step = write::write(services, (query.type_id, entry.edited()), plan, looked_at, finish);
        let step = as_action(entry::Action::Import, step).await?;
        written.extend(step.lines);
        if !step.is_short {
            journal.end(services).await?;
            let mut report = ImportReport::default();
            add_in_order(&mut report, written);
            report.warn(warnings);
            return Ok(Imported::now(report));
        }
        require_type(services, query.type_id).await?;
    }
    Err(ServiceError::Contended("the objects of the type".to_owned()))
}

/// Proposes the body of a new type of this name for the objects of a table.
///
/// # Errors
/// In the inner result, what is wrong with the file; else that there is no place for the work.
pub async fn propose_type(
    (name, author_id): (String, i64),
    (form, locale): (ImportForm, Locale),
    file: Vec<u8>,
) -> Result<Result<serde_json::Value, Box<ImportReport>>, ServiceError> {
    let read = move |means: &Means| {
        let room = |bytes| means.hold(bytes).is_ok();
        let table = rows::read_table(&file, &form, &locale, &room)?;
        // The cells of a column, and the texts in them.
        if !room(table.rows.len().saturating_mul(COLUMN)) {
            return Err((1, "there is not enough memory for this file; send its first lines".to_owned()));
        }
        proposal::propose(&name, author_id, &table, &locale).map_err(|reason| (table.header_line, reason))
    };
    let proposed = admission::work(read).await?;
    Ok(proposed.map_err(|(line, reason)| {
        let mut errors = ReportErrors::default();
        errors.push(ReportError::new(line, "", reason));
        Box::new(ImportReport::refused(errors, true))
    }))
}

/// The content of an import request, without its caller.
fn hash_of(query: &ImportQuery, file: &[u8]) -> Hash {
    let key = query.key.as_deref().unwrap_or_default();
    let hash = Hash::default().with(&query.type_id.to_be_bytes()).with(key.as_bytes());
    let hash = hash.with(format!("{:?}", query.form).as_bytes()).with(file);
    if query.locale == Locale::default() { hash } else { hash.with(format!("{:?}", query.locale).as_bytes()) }
}

/// The report that a mark holds.
fn told_again(mark: &RawDocument) -> Result<Imported, ServiceError> {
    let report = text(mark, write::REPORT).and_then(ImportReport::from_kept);
    let report = report.ok_or_else(|| StoreError::Corrupt { what: "the report of an import".to_owned() })?;
    Ok(Imported { report, earlier: mark.get_datetime("done_at").ok() })
}

fn key_field(entry: &TypeEntry, name: &str) -> Result<usize, ServiceError> {
    let object_type = &entry.object_type;
    let refused = |reason: String| ServiceError::refused(ErrorCode::ImportKey, reason);
    let position = object_type.position(name).ok_or_else(|| refused(object_type.lack_of(name, &[])))?;
    if object_type.fields[position].is_password() {
        return Err(refused("nobody is found by a password".to_owned()));
    }
    Ok(position)
}

/// The caller needs the permissions for a plan, even for a dry run.
fn check_permissions(importer: Importer<'_>, entry: &TypeEntry, plan: &ImportPlan) -> Result<(), ServiceError> {
    for (permission, is_needed) in [
        (Permission::Create, plan.steps.iter().any(|step| matches!(step.what, What::Create { .. }))),
        (Permission::Update, plan.steps.iter().any(|step| !matches!(step.what, What::Create { .. }))),
    ] {
        if is_needed {
            importer.access.permit(entry, permission)?;
        }
    }
    Ok(())
}

/// A file that names stored objects needs the permission to read them, because the outcome of its lines reveals them. A
/// caller who may change them may still name them by id; then every named object counts as changed.
fn check_looking_up(
    importer: Importer<'_>,
    entry: &TypeEntry,
    query: &ImportQuery,
    names_ids: bool,
) -> Result<(), ServiceError> {
    let changes_them = !query.dry_run && importer.access.permit(entry, Permission::Update).is_ok();
    if query.key.is_none() && (!names_ids || changes_them) {
        return Ok(());
    }
    importer.access.permit(entry, Permission::Read)
}

/// References lead to objects that the importer may see, or that the same file creates under their id. Authors are
/// users.
async fn check_references(
    services: &Services,
    visible: Option<Filter>,
    type_id: i64,
    plan: &mut ImportPlan,
) -> Result<(), ServiceError> {
    let references = plan.steps.iter().flat_map(|step| &step.references).map(|reference| reference.object_id);
    let mut targets = Targets::read(services, visible, references).await?;
    let mut authors = BTreeSet::new();
    for step in &plan.steps {
        if let What::Create { public_id, input, .. } = &step.what {
            authors.insert(input.author_id);
            if let Some(id) = public_id {
                targets.expect(*id, type_id);
            }
        }
    }
    let known = services.directory.existing(&authors).await?;
    let mut errors = ReportErrors::default();
    for step in &plan.steps {
        if let What::Create { input, .. } = &step.what
            && !known.contains(&input.author_id)
        {
            let reason = format!("user {} does not exist", input.author_id);
            errors.push(ReportError::new(step.line, "author_id", reason));
        }
        let dangling = targets.dangling(&step.references);
        errors.add_violations(step.line, dangling, &[], &HashSet::new());
    }
    plan.errors.append(errors);
    Ok(())
}

/// Reserves ids for new objects that have stand-ins so far, and returns whether there were some: references to them must
/// be planned again.
async fn give_ids(services: &Services, plan: &ImportPlan, rows: &mut Arc<ImportRows>) -> Result<bool, ServiceError> {
    let lacking: Vec<usize> = plan.steps.iter().filter(|step| is_stand_in(step, rows)).map(|step| step.row).collect();
    if lacking.is_empty() {
        return Ok(false);
    }
    // The file may name ids that nobody reserved.
    let named: HashSet<i64> = rows.list.iter().filter_map(|row| row.public_id).collect();
    let mut ids = Vec::with_capacity(lacking.len());
    while ids.len() < lacking.len() {
        let count = u32::try_from(lacking.len() - ids.len()).unwrap_or(u32::MAX);
        let first = services.store.reserve_ids(Objects::COLLECTION, count).await?;
        ids.extend((first..).take(count as usize).filter(|id| !named.contains(id)));
    }
    let rows = own(rows)?;
    for (row, id) in lacking.into_iter().zip(ids) {
        rows.list[row].given = Some(GivenId { id, is_stand_in: false });
    }
    Ok(true)
}

/// Whether the step makes an object with an id that nobody reserved.
fn is_stand_in(step: &PlannedStep, rows: &ImportRows) -> bool {
    let row = &rows.list[step.row];
    let has_stand_in = row.public_id.is_none() && row.given.is_some_and(|given| given.is_stand_in);
    has_stand_in && matches!(step.what, What::Create { .. })
}

/// The report of what a plan would do.
fn foretold(plan: &ImportPlan, rows: &ImportRows) -> ImportReport {
    let mut report = ImportReport { dry_run: true, ..ImportReport::default() };
    for step in &plan.steps {
        let action = match step.what {
            What::Create { .. } => Action::Created,
            What::Update { .. } => Action::Updated,
            What::Keep { .. } => Action::Unchanged,
        };
        let public_id = step.what.public_id().filter(|_| !is_stand_in(step, rows));
        report.add(ReportLine { line: step.line, action, public_id });
    }
    report
}

/// The rows, to be changed: no plan shares them at this point.
fn own(rows: &mut Arc<ImportRows>) -> Result<&mut ImportRows, ServiceError> {
    Arc::get_mut(rows).ok_or_else(|| StoreError::backend("the rows of an import are in use").into())
}
