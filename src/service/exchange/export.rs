//! Exports objects as files: the selection, the form, and the writing of the file.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, doc};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::admission::{self, Denied, FilePlace, Means};
use crate::domain::acl::Permission;
use crate::domain::document::{integer, text};
use crate::domain::object_input::read_fields;
use crate::domain::object_type::Field;
use crate::exchange::columns::{Columns, Heading, Labels, Referenced};
use crate::exchange::csv::{self, CsvStyle};
use crate::exchange::discovery::{AnsibleInventory, HostFields, HostObject, MOST_HOSTS, PrometheusTargets};
use crate::exchange::report::Report;
use crate::exchange::xlsx::Sheet;
use crate::exchange::{WriteError, ndjson};
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::objects::rendering::EDIT;
use crate::service::resource::{Categories, Objects, Resource, Types as TypesResource};
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, Types, VIEW_TYPES};
use crate::service::types::late::Screen;
use crate::store::{Documents, FindQuery, Store, StoreError};
use crate::suggest;

/// How many chunks are written at a time, ahead of the one that is being sent.
const AHEAD: usize = 2;
/// How many bytes of a finished file are read at a time.
const CHUNK: usize = 1024 * 1024;
/// How many referenced objects are read at a time.
const REFERENCED: usize = 1000;
/// How many bytes they have at most.
const MOST_REFERENCED: usize = 32 * 1024 * 1024;

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportForm {
    /// A table as text.
    Csv(CsvStyle),
    /// An object a line, as it is stored.
    Ndjson,
    /// A table for spreadsheets.
    Xlsx,
    /// An inventory of Ansible.
    Ansible,
    /// Targets of Prometheus.
    Prometheus,
}

impl ExportForm {
    /// Whether it may refuse any object, however late.
    fn may_refuse(self) -> bool {
        match self {
            Self::Ansible | Self::Prometheus => true,
            Self::Csv(style) => !style.encoding.has_all_characters(),
            // A spreadsheet is made on disk anyway.
            Self::Ndjson | Self::Xlsx => false,
        }
    }
}

/// The objects of a file, and its form.
#[derive(Debug, Clone)]
pub struct ExportQuery {
    /// Their type; only lines can have all types.
    pub type_id: Option<i64>,
    /// Which of them.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// The form of the file.
    pub form: ExportForm,
    /// Which columns a table has.
    pub columns: ChosenColumns,
    /// Where a table has labels.
    pub labels: Labels,
    /// For hosts: which fields have a meaning.
    pub hosts: HostFields,
}

/// The columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChosenColumns {
    /// Id, state and fields.
    #[default]
    Fields,
    /// Everything that objects have.
    All,
    /// Those with these headings, in this order.
    Named(Vec<String>),
}

/// The caller whose access lists apply to an export or an import.
#[derive(Debug, Clone, Copy)]
pub enum ExportAccess<'a> {
    /// Those of a caller.
    Of(&'a Caller),
    /// No access lists apply: the operator of the store may do everything.
    Operator,
}

/// A file on its way.
pub struct Export {
    /// The subject of the file: the name of the type, or `objects`.
    pub name: String,
    /// Its bytes. An error ends them, and the file is then incomplete.
    pub bytes: BoxStream<'static, Result<Vec<u8>, ServiceError>>,
}

/// Writes the objects that the caller may read. Refusals come before the first byte, as far as possible.
///
/// # Errors
/// An unknown type, a type that the caller may not read, and a form that needs a type. Objects that do not fit into the
/// form, and errors of the store.
pub async fn export_objects(
    services: &Services,
    access: ExportAccess<'_>,
    query: ExportQuery,
) -> Result<Export, ServiceError> {
    let mut types = services.current_types().await?;
    types = services.types_knowing(types, query.type_id.into_iter().collect()).await?;
    let is_of_hosts = matches!(query.form, ExportForm::Ansible | ExportForm::Prometheus);
    if is_of_hosts && access.know_fields(&types, query.type_id, &query.hosts).is_err() {
        types = services.types_anew().await?;
    }
    let passwords = access.may_see_passwords();
    let mut filter = query.filter;
    let entry = match query.type_id {
        None => None,
        Some(id) => {
            let entry = types.get(id).ok_or_else(|| ServiceError::not_found(TypesResource::NOT_FOUND, id))?;
            access.permit(entry, Permission::Read)?;
            filter = filter.and(Filter::equals("type_id", id));
            Some(entry)
        }
    };
    if is_of_hosts {
        access.know_fields(&types, query.type_id, &query.hosts)?;
    }
    if let Some(visible) = access.visible(&types) {
        filter = filter.guarded_by(visible);
    }
    let columns = entry.map(|entry| access.columns(&types, entry, &query.columns)).transpose()?;
    let columns = columns.map(|columns| columns.labelled(query.labels));
    let name = entry.map_or_else(|| "objects".to_owned(), |entry| entry.object_type.name.clone());
    let question = FindQuery::new(filter, services.max_time).sorted(query.sort);
    let is_file = query.form.may_refuse() || matches!(query.form, ExportForm::Xlsx);
    let place = if is_file { Some(admission::file()?) } else { None };
    let chunks = services.store.chunks(Objects::COLLECTION, &question).await?;
    let documents = match access {
        ExportAccess::Of(caller) => Screen::of(services, caller, Arc::clone(&types)).over_whole(chunks.documents),
        ExportAccess::Operator => chunks.documents,
    };
    let documents = documents.map_err(ServiceError::from).boxed();
    if is_of_hosts && chunks.total > MOST_HOSTS {
        let message = format!("{} objects are more than {MOST_HOSTS}, the most hosts; narrow the filter", chunks.total);
        return Err(ServiceError::refused(ErrorCode::ExportDoesNotFit, message));
    }
    let bytes = match (query.form, columns) {
        (ExportForm::Ansible | ExportForm::Prometheus, _) => {
            let categories =
                if access.may_see_categories() { categories_of_types(services).await? } else { HashMap::new() };
            // Other tools show what they get, and keep it. So passwords are left out, whatever rights the caller has.
            let hidden = HiddenFields { types, passwords: false };
            let hosts = Hosts { hidden, categories, fields: query.hosts };
            if query.form == ExportForm::Ansible { inventory(hosts, documents) } else { discovered(hosts, documents) }
        }
        (ExportForm::Ndjson, _) => {
            let hidden = HiddenFields { types, passwords };
            written(documents, AHEAD, move |chunk| ndjson::lines(chunk.iter(), |type_id| hidden.of(type_id)))
        }
        (ExportForm::Csv(style), Some(columns)) => {
            let header = csv::header(columns.header(), style)?;
            let ahead = if query.form.may_refuse() { 1 } else { AHEAD };
            let referring = referring(services, &columns, documents);
            let rows = written(referring, ahead, move |(chunk, referenced)| {
                csv::rows(chunk.iter().map(|object| columns.row(object, &referenced)), style)
            });
            stream::once(async { Ok(header) }).chain(rows).boxed()
        }
        (ExportForm::Xlsx, Some(columns)) => {
            Sheet::check_rows(chunks.total)?;
            let referring = referring(services, &columns, documents);
            whole(spreadsheet(columns, referring).await?)
        }
        (ExportForm::Csv(_) | ExportForm::Xlsx, None) => {
            return Err(ServiceError::refused(
                ErrorCode::ParameterInvalid,
                "a table is of one type; say which one, or export lines",
            ));
        }
    };
    let bytes = if query.form.may_refuse() { whole(on_disk(bytes).await?) } else { begun(bytes).await? };
    Ok(Export { name, bytes: admission::kept(held(bytes, place)).boxed() })
}

impl ExportAccess<'_> {
    /// Refuses what the access list of a type does not allow.
    ///
    /// # Errors
    /// As [`TypeEntry::permit`](crate::service::types::catalog::TypeEntry::permit).
    pub(crate) fn permit(self, entry: &TypeEntry, permission: Permission) -> Result<(), ServiceError> {
        match self {
            Self::Of(caller) => entry.permit(caller, permission),
            Self::Operator => Ok(()),
        }
    }

    /// The ids of types of which the caller may see neither the objects nor that they exist.
    pub(crate) fn unseen(self, types: &Types) -> HashSet<i64> {
        let Self::Of(caller) = self else { return HashSet::new() };
        if caller.rights.grants(VIEW_TYPES) {
            return HashSet::new();
        }
        let hidden = types.iter().filter(|entry| entry.permit(caller, Permission::Read).is_err());
        hidden.map(|entry| entry.object_type.public_id).collect()
    }

    /// The condition that excludes objects which the caller may not read; `None` if there are none.
    pub(crate) fn visible(self, types: &Types) -> Option<Filter> {
        match self {
            Self::Of(caller) => types.visible_to(caller),
            Self::Operator => None,
        }
    }

    /// Whether the object may be read.
    pub(crate) fn shows(self, types: &Types, object: &RawDocument) -> bool {
        match self {
            Self::Of(caller) => types.shows(caller, object),
            Self::Operator => true,
        }
    }

    /// Refuses names of fields that no type has whose objects may be read.
    fn know_fields(self, types: &Types, type_id: Option<i64>, hosts: &HostFields) -> Result<(), ServiceError> {
        let is_visible = |id: &i64| {
            let acl = types.get(*id).map(|entry| &entry.object_type.acl);
            let reads = |caller: &Caller| acl.is_some_and(|acl| acl.allows(caller.group_id, Permission::Read));
            type_id.is_none_or(|type_id| *id == type_id)
                && match self {
                    Self::Of(caller) => reads(caller),
                    Self::Operator => true,
                }
        };
        let is_password = |id: &i64, name: &str| {
            types.get(*id).and_then(|entry| entry.object_type.field(name)).is_some_and(Field::is_password)
        };
        let is_there = |name: &str| types.with_field(name).iter().any(is_visible);
        let is_known = |name: &str| types.with_field(name).iter().any(|id| is_visible(id) && !is_password(id, name));
        let said =
            [("host", Some(&hosts.host)), ("address", hosts.address.as_ref()), ("group_by", hosts.group_by.as_ref())];
        for (parameter, name) in said {
            let Some(name) = name.filter(|name| !is_known(name)) else { continue };
            if is_there(name) {
                let message = format!("{parameter}: {name:?} is a password field, and no tool gets passwords");
                return Err(ServiceError::refused(ErrorCode::ParameterInvalid, message));
            }
            let mut known: Vec<&str> = types.field_names().filter(|name| is_known(name)).collect();
            known.sort_unstable();
            let whose = match self {
                _ if type_id.is_some() => "the type has no field",
                Self::Of(caller) if types.hides_some(caller.group_id) => {
                    "no type whose objects you may see has a field"
                }
                _ => "no type has a field",
            };
            let hint = suggest::hint(name, &known);
            let message = format!("{parameter}: {whose} named {name:?}{hint}");
            return Err(ServiceError::refused(ErrorCode::ParameterInvalid, message));
        }
        Ok(())
    }

    /// The columns of a table of objects of the type.
    fn columns(self, types: &Types, entry: &TypeEntry, chosen: &ChosenColumns) -> Result<Columns, ServiceError> {
        let object_type = &entry.object_type;
        let passwords = self.may_see_passwords();
        let names = match chosen {
            ChosenColumns::Fields => return Ok(Columns::of(object_type, false, passwords)),
            ChosenColumns::All => return Ok(Columns::of(object_type, true, passwords)),
            ChosenColumns::Named(names) => names,
        };
        let refused = |reason: String| ServiceError::refused(ErrorCode::ParameterInvalid, format!("columns: {reason}"));
        let (unseen, mut headings, mut targets) = (self.unseen(types), Vec::new(), Vec::new());
        for name in names {
            let heading = Heading::read(name, object_type).map_err(|reason| refused(format!("{name}: {reason}")))?;
            if headings.contains(&heading) {
                return Err(refused(format!("{name} is there twice")));
            }
            if let Heading::Field(position) = heading
                && object_type.fields[position].is_password()
                && !passwords
            {
                return Err(refused(format!("{name} is a password field, which needs the right {EDIT}")));
            }
            if let Heading::Link { type_name, .. } = &heading {
                let mut named = types.iter().filter(|entry| entry.object_type.name == *type_name);
                if let Some(entry) = named.find(|entry| !unseen.contains(&entry.object_type.public_id)) {
                    self.permit(entry, Permission::Read)?;
                    targets.push(Arc::clone(&entry.object_type));
                }
            }
            headings.push(heading);
        }
        let target = |name: &str| targets.iter().find(|target| target.name == name).cloned();
        Columns::named(object_type, &headings, target).map_err(refused)
    }

    fn may_see_categories(self) -> bool {
        match self {
            Self::Of(caller) => caller.rights.grants("base.framework.category.view"),
            Self::Operator => true,
        }
    }

    fn may_see_passwords(self) -> bool {
        match self {
            Self::Of(caller) => caller.rights.grants(EDIT),
            Self::Operator => true,
        }
    }
}

/// The fields with hidden values.
struct HiddenFields {
    types: Arc<Types>,
    passwords: bool,
}

impl HiddenFields {
    fn of(&self, type_id: i64) -> Vec<String> {
        let entry = self.types.get(type_id).filter(|_| !self.passwords);
        let fields = entry.into_iter().flat_map(|entry| &entry.object_type.fields);
        fields.filter(|field| field.is_password()).map(|field| field.name.clone()).collect()
    }
}

/// The parts of hosts.
struct Hosts {
    hidden: HiddenFields,
    categories: HashMap<i64, Vec<String>>,
    fields: HostFields,
}

impl Hosts {
    fn of(&self, object: &RawDocument) -> Option<HostObject<'_>> {
        let type_id = integer(object, "type_id")?;
        let entry = self.hidden.types.get(type_id)?;
        let hidden = self.hidden.of(type_id);
        let fields = Bson::try_from(object.get("fields").ok()??).ok();
        let mut fields: Vec<(String, Bson)> =
            read_fields(fields.as_ref()).into_iter().map(|field| (field.name, field.value)).collect();
        // What the type had before may be a password. Of several entries of one name the first counts, as everywhere.
        let is_known = |name: &str| entry.object_type.field(name).is_some();
        let mut seen = HashSet::new();
        fields.retain(|(name, _)| is_known(name) && !hidden.contains(name) && seen.insert(name.clone()));
        Some(HostObject {
            id: integer(object, "public_id")?,
            active: object.get_bool("active").unwrap_or(true),
            type_name: &entry.object_type.name,
            categories: self.categories.get(&type_id).map_or(&[], Vec::as_slice),
            fields,
        })
    }
}

/// The names of the categories of each type.
async fn categories_of_types(services: &Services) -> Result<HashMap<i64, Vec<String>>, ServiceError> {
    let query = FindQuery::new(Filter::all(), services.max_time)
        .sorted(Sort::by("name", false))
        .showing(&doc! { "name": 1, "types": 1 });
    let found = services.held(Categories::COLLECTION, query).await?;
    let mut names: HashMap<i64, Vec<String>> = HashMap::new();
    for category in found.iter() {
        let name = text(category, "name").unwrap_or_default();
        let types = category.get_array("types").ok();
        for type_id in
            types.into_iter().flatten().flatten().filter_map(|id| id.as_i64().or_else(|| id.as_i32().map(i64::from)))
        {
            names.entry(type_id).or_default().push(name.to_owned());
        }
    }
    Ok(names)
}

/// An inventory of Ansible; the groups are known at its end.
fn inventory(hosts: Hosts, documents: ChunkStream) -> Bytes {
    let begun = stream::once(async { Ok(AnsibleInventory::beginning()) });
    let state = Some((AnsibleInventory::new(hosts.fields.clone()), Arc::new(hosts), documents));
    let rest = stream::try_unfold(state, |state| async move {
        let Some((mut inventory, hosts, mut documents)) = state else { return Ok(None) };
        let Some(chunk) = documents.try_next().await? else { return Ok(Some((inventory.end(), None))) };
        let (text, inventory, hosts) = worked(move || {
            let text = inventory.hosts(chunk.iter().filter_map(|object| hosts.of(object)))?;
            Ok((text, inventory, hosts))
        })
        .await?;
        Ok(Some((text, Some((inventory, hosts, documents)))))
    });
    begun.chain(rest).boxed()
}

/// Targets of Prometheus.
fn discovered(hosts: Hosts, documents: ChunkStream) -> Bytes {
    let state = (PrometheusTargets::new(hosts.fields.clone()), hosts, documents);
    let targets = stream::try_unfold(state, |(mut targets, hosts, mut documents)| async move {
        let Some(chunk) = documents.try_next().await? else { return Ok::<_, ServiceError>(None) };
        let (text, targets, hosts) = worked(move || {
            let text = targets.targets(chunk.iter().filter_map(|object| hosts.of(object)))?;
            Ok((text, targets, hosts))
        })
        .await?;
        Ok(Some((text, (targets, hosts, documents))))
    });
    let chunk = |text: &'static [u8]| stream::once(async move { Ok(text.to_vec()) });
    chunk(b"[").chain(targets).chain(chunk(b"]\n")).boxed()
}

/// Adds to each chunk the objects of which its rows show values.
fn referring(services: &Services, columns: &Columns, documents: ChunkStream) -> ReferringStream {
    let state = Arc::new((Arc::clone(&services.store), columns.clone(), services.max_time));
    let found = documents.and_then(move |chunk| {
        let state = Arc::clone(&state);
        async move {
            let (store, columns, max_time) = &*state;
            let wanted = columns.referenced(chunk.iter());
            let referenced = referenced(&**store, *max_time, &wanted).await?;
            Ok((chunk, referenced))
        }
    });
    found.boxed()
}

/// The objects of these types with these ids.
async fn referenced(
    store: &dyn Store,
    max_time: Duration,
    wanted: &BTreeSet<(i64, i64)>,
) -> Result<Referenced, ServiceError> {
    let (mut found, wanted) = (Referenced::new(), wanted.iter().copied().collect::<Vec<_>>());
    for some in wanted.chunks(REFERENCED) {
        let ids = some.iter().map(|(_, id)| *id);
        let types: BTreeSet<i64> = some.iter().map(|(type_id, _)| *type_id).collect();
        // Types other than these may be hidden from the caller.
        let filter = Filter::one_of("public_id", ids).and(Filter::one_of("type_id", types));
        let query = FindQuery::new(filter, max_time).showing(&doc! {"public_id": 1, "type_id": 1, "fields": 1});
        let documents = store.find(Objects::COLLECTION, &query.within(MOST_REFERENCED)).await?;
        for object in documents.iter() {
            if let (Some(type_id), Some(id)) = (integer(object, "type_id"), integer(object, "public_id")) {
                found.insert((type_id, id), object.to_owned());
            }
        }
    }
    Ok(found)
}

type ChunkStream = BoxStream<'static, Result<Documents, ServiceError>>;
type ReferringStream = BoxStream<'static, Result<(Documents, Referenced), ServiceError>>;
type Bytes = BoxStream<'static, Result<Vec<u8>, ServiceError>>;

/// The chunks as text, written on other threads than those that answer requests, a bounded number at a time.
fn written<T: Send + 'static>(
    documents: BoxStream<'static, Result<T, ServiceError>>,
    ahead: usize,
    write: impl Fn(T) -> Result<Vec<u8>, WriteError> + Send + Sync + 'static,
) -> Bytes {
    let write = Arc::new(write);
    let texts = documents.map(move |chunk| {
        let write = Arc::clone(&write);
        async move {
            let chunk = chunk?;
            worked(move || write(chunk)).await
        }
    });
    texts.buffered(ahead).boxed()
}

/// Waits for the first two chunks, so that an early failure comes before the answer begins.
async fn begun(mut bytes: Bytes) -> Result<Bytes, ServiceError> {
    let mut first = Vec::new();
    while first.len() < 2 {
        let Some(chunk) = bytes.try_next().await? else { break };
        first.push(Ok(chunk));
    }
    Ok(stream::iter(first).chain(bytes).boxed())
}

/// Writes the answer to disk before it begins, so that a refusal comes in its place. Nothing of it may be written ahead: that
/// could hold the turns that this waits for.
async fn on_disk(mut bytes: Bytes) -> Result<File, ServiceError> {
    let failed = |error: std::io::Error| WriteError::Io(error.to_string());
    let mut file = worked(move || tempfile::tempfile().map_err(failed)).await?;
    while let Some(chunk) = bytes.try_next().await? {
        file = worked(move || file.write_all(&chunk).map(|()| file).map_err(failed)).await?;
    }
    worked(move || file.rewind().map(|()| file).map_err(failed)).await
}

/// The results of a pipeline as a table.
///
/// # Errors
/// When they do not fit into the form, and when there is no memory.
pub async fn results_file(found: Documents, form: ExportForm) -> Result<Vec<u8>, ServiceError> {
    let write = move |means: &Means| {
        // The documents are held by the request; the table has about their size.
        means.hold(found.bytes())?;
        let report = Report::of(found.iter());
        let written = report.and_then(|report| match form {
            ExportForm::Csv(style) => report.csv(style),
            _ => {
                let mut bytes = Vec::new();
                report.xlsx(&mut bytes).map(|()| bytes)
            }
        });
        Ok(written)
    };
    let written: Result<_, Denied> = admission::work(write).await?;
    Ok(written??)
}

/// Writes the rows to disk, because the format needs all of them before it can be sent.
async fn spreadsheet(columns: Columns, mut documents: ReferringStream) -> Result<File, ServiceError> {
    let (mut sheet, mut columns) = worked(move || Ok((Sheet::begin(columns.header())?, columns))).await?;
    while let Some((chunk, referenced)) = documents.try_next().await? {
        let write = move || {
            for object in chunk.iter() {
                let id = || format!("object {}", integer(object, "public_id").unwrap_or_default());
                sheet.push(&columns.row(object, &referenced)?, id)?;
            }
            Ok((sheet, columns))
        };
        (sheet, columns) = worked(write).await?;
    }
    let finished = worked(move || {
        let failed = |error: std::io::Error| WriteError::Io(error.to_string());
        let mut file = tempfile::tempfile().map_err(failed)?;
        sheet.finish(std::io::BufWriter::new(&file))?;
        file.rewind().map_err(failed)?;
        Ok::<File, WriteError>(file)
    });
    finished.await
}

/// Holds the place of a file as long as the answer.
fn held(bytes: Bytes, place: Option<FilePlace>) -> Bytes {
    bytes.inspect(move |_| _ = &place).boxed()
}

fn whole(file: File) -> Bytes {
    let chunks = stream::try_unfold(file, |mut file| async move {
        let read = worked(move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            let read = (&mut file).take(CHUNK as u64).read_to_end(&mut chunk);
            read.map(|_| (chunk, file)).map_err(|error| WriteError::Io(error.to_string()))
        });
        let (chunk, file) = read.await?;
        Ok((!chunk.is_empty()).then_some((chunk, file)))
    });
    chunks.boxed()
}

/// Writes a part of a file in a turn of the request.
async fn worked<T: Send + 'static>(
    write: impl FnOnce() -> Result<T, WriteError> + Send + 'static,
) -> Result<T, ServiceError> {
    Ok(admission::work(move |_| write()).await??)
}

impl From<WriteError> for ServiceError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Corrupt(error) => StoreError::Corrupt { what: error.to_string() }.into(),
            WriteError::Encoding { .. } | WriteError::TooLarge(_) => {
                Self::refused(ErrorCode::ExportDoesNotFit, error.to_string())
            }
            WriteError::Io(_) => StoreError::backend(error).into(),
        }
    }
}
