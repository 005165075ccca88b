//! Rendered views for a caller: fetches what a page needs, with one query for each kind and round, and lets `render`
//! make the views.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};

use super::{get_object, seen};
use crate::admission;
use crate::domain::document::integer;
use crate::domain::object_type::ObjectType;
use crate::query::Filter;
use crate::raw::CorruptBson;
use crate::render::{Gathering, RenderCatalog, RenderContext, Subject, render_subject};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::precondition::{entity_tag, tag_of};
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::Types;
use crate::service::types::late::types_in;
use crate::service::types::running;
use crate::store::{Documents, FindQuery, StoreError};

/// The right whose holders see the values of password fields.
pub(crate) const EDIT: &str = "base.framework.object.edit";

/// The first member of every view, which differs each time.
const RENDER_TIME: &[u8] = b"{\"current_render_time\":";

/// How many times longer a view is than its stored object, about.
const GROWTH: usize = 6;

/// A page of at most this many objects is rendered on the thread of the request.
const SHORT: usize = 20;
/// The maximum number of bytes of such a page.
const SHORT_BYTES: usize = 64 * 1024;

/// Views in one buffer, in the order of the objects, separated by commas.
#[derive(Debug, Default)]
pub struct Views {
    text: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Views {
    /// Without views yet, after the beginning of a list.
    pub fn behind(beginning: &[u8]) -> Self {
        Self { text: beginning.to_vec(), places: Vec::new() }
    }

    /// The JSON of each view.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.text[place.clone()])
    }

    /// The whole buffer, and the number of its views.
    pub fn into_text(self) -> (Vec<u8>, usize) {
        (self.text, self.places.len())
    }
}

/// The look-up tables of a page's views.
struct ServedCatalog {
    types: Arc<Types>,
    users: BTreeMap<i64, Arc<str>>,
    objects: Vec<Documents>,
    /// By id where in `objects` each is.
    places: Vec<(i64, usize, usize)>,
}

impl ServedCatalog {
    fn add(&mut self, found: Documents) {
        let batch = self.objects.len();
        self.places.reserve(found.len());
        for (index, object) in found.iter().enumerate() {
            self.places.extend(integer(object, "public_id").map(|id| (id, batch, index)));
        }
        self.places.sort_unstable();
        self.objects.push(found);
    }
}

impl RenderCatalog for ServedCatalog {
    fn object_type(&self, id: i64) -> Option<&ObjectType> {
        if id < 0 {
            // Only objects of `stored_under` have such a type.
            return self.types.get(-id)?.running.as_ref().map(|running| &*running.former);
        }
        self.types.get(id).map(|entry| &*entry.object_type)
    }

    fn object(&self, id: i64) -> Option<&RawDocument> {
        let place = self.places.binary_search_by_key(&id, |place| place.0).ok()?;
        let (_, batch, index) = self.places[place];
        self.objects[batch].get(index)
    }

    fn user_name(&self, id: i64) -> Option<&str> {
        self.users.get(&id).map(|name| &**name)
    }
}

/// Adds the views of a page of objects that the caller may read.
///
/// # Errors
/// What the store reports.
pub async fn render_objects(
    services: &Services,
    caller: &Caller,
    page: &Documents,
    mut views: Views,
) -> Result<Views, ServiceError> {
    let context = context(services, caller).await?;
    let page = stored_under(services, Cow::Borrowed(page)).await?;
    let catalog = gather(services, caller, &subjects(&page, &context)?, Documents::new()).await?.0;
    views.text.reserve(page.bytes() * GROWTH);
    if page.len() <= SHORT && page.bytes() <= SHORT_BYTES {
        return render(&subjects(&page, &context)?, &catalog, views);
    }
    let page = page.into_owned();
    let rendered = admission::work(move |_| render(&subjects(&page, &context)?, &catalog, views));
    rendered.await.map_err(StoreError::from)?
}

async fn context(services: &Services, caller: &Caller) -> Result<RenderContext, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    Ok(RenderContext {
        now_ms: services.now().timestamp_millis(),
        group_id: caller.group_id,
        may_edit: caller.rights.grants(EDIT),
        hides_types: types.visible_to(caller).is_some(),
    })
}

fn subjects<'a>(page: &'a Documents, context: &'a RenderContext) -> Result<Vec<Subject<'a>>, ServiceError> {
    let mut subjects = Vec::with_capacity(page.len());
    for object in page.iter() {
        subjects.push(Subject::read(object, context).map_err(corrupt)?);
    }
    Ok(subjects)
}

fn render(subjects: &[Subject<'_>], catalog: &ServedCatalog, mut views: Views) -> Result<Views, ServiceError> {
    for subject in subjects {
        if !views.places.is_empty() {
            views.text.push(b',');
        }
        let begin = views.text.len();
        render_subject(subject, catalog, &mut views.text).map_err(corrupt)?;
        views.places.push(begin..views.text.len());
    }
    Ok(views)
}

/// The view of one object with its entity tag: the tag of the document, a dot, and a hash of the view without its time.
/// So the tag also changes with the type, the references and the names. `If-Match` uses only its first part.
///
/// # Errors
/// As [`get_object`].
pub async fn render_one(services: &Services, caller: &Caller, id: i64) -> Result<(Vec<u8>, String), ServiceError> {
    let expected = services.companions.of(services.store.is_remote(), id);
    let (page, beside) = match &expected {
        Some(expected) => get_together(services, caller, id, expected).await?,
        None => (Documents::of_one(&get_object(services, caller, id).await?), Documents::new()),
    };
    let context = context(services, caller).await?;
    let shown = stored_under(services, Cow::Borrowed(&page)).await?;
    let subjects = subjects(&shown, &context)?;
    let (catalog, fetched) = gather(services, caller, &subjects, beside).await?;
    services.companions.note(services.store.is_remote(), id, expected.is_some(), &fetched);
    let mut views = Views::default();
    views.text.reserve(page.bytes() * GROWTH);
    let view = render(&subjects, &catalog, views)?.text;
    let object = page.first().ok_or_else(|| ServiceError::not_found(Objects::NOT_FOUND, id))?;
    let after_time = view.get(RENDER_TIME.len()..).unwrap_or_default();
    let begin = after_time.iter().position(|byte| *byte == b',').unwrap_or_default();
    let tag = format!("{}.{}", entity_tag(object), tag_of(&after_time[begin..]));
    Ok((view, tag))
}

/// The object with this id, and the existing ones of the others, itself included, by one query.
async fn get_together(
    services: &Services,
    caller: &Caller,
    id: i64,
    others: &[i64],
) -> Result<(Documents, Documents), ServiceError> {
    let ids = std::iter::once(id).chain(others.iter().copied()).map(Bson::Int64).collect();
    let query = FindQuery::new(Filter::one_of("public_id", ids), services.max_time);
    let found = services.held(Objects::COLLECTION, query).await?;
    let object = found.iter().find(|object| integer(object, "public_id") == Some(id));
    let object = seen(services, caller, id, object.map(RawDocument::to_owned)).await?;
    Ok((Documents::of_one(&object), found))
}

/// The look-up tables of a page's views, beginning with the given objects, and the ids of the fetched objects.
async fn gather(
    services: &Services,
    caller: &Caller,
    subjects: &[Subject<'_>],
    known: Documents,
) -> Result<(ServedCatalog, Vec<i64>), ServiceError> {
    let types = services.types_of(known.iter()).await?;
    let mut visible = types.visible_to(caller);
    let mut catalog = ServedCatalog { types, users: BTreeMap::new(), objects: Vec::new(), places: Vec::new() };
    catalog.add(only(visible.as_ref(), known)?);
    let mut fetched = Vec::new();
    let mut gathering = Gathering::new();
    while let Some(needed) = gathering.next_round(subjects, &catalog).map_err(corrupt)? {
        if !needed.users.is_empty() {
            catalog.users.extend(services.directory.user_names(&needed.users).await?);
        }
        if !needed.objects.is_empty() {
            fetched.extend_from_slice(&needed.objects);
            let ids = needed.objects.iter().copied().map(Bson::Int64).collect();
            let query = FindQuery::new(Filter::one_of("public_id", ids), services.max_time);
            let found = services.held(Objects::COLLECTION, query).await?;
            let newer = services.types_knowing(Arc::clone(&catalog.types), types_in(found.iter())).await?;
            if !Arc::ptr_eq(&newer, &catalog.types) {
                visible = newer.visible_to(caller);
                catalog.types = newer;
            }
            let found = Cow::Owned(only(visible.as_ref(), found)?);
            catalog.add(stored_under(services, found).await?.into_owned());
        }
        if !gathering.leads_on() {
            break;
        }
    }
    Ok((catalog, fetched))
}

/// The objects, each with the type under which it is stored. While the objects of a type are being migrated, those that are still to
/// change have the negative id of their type, which stands for its former state.
///
/// How far the migration is was read with the types, before the objects, and is read again after them. Objects in between are
/// read again: they have changed.
async fn stored_under<'d>(
    services: &Services,
    objects: Cow<'d, Documents>,
) -> Result<Cow<'d, Documents>, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let is_running = types.iter().any(|entry| entry.running.is_some());
    if !is_running || !objects.iter().any(|object| types.is_pending(object, |_, running| running.upto)) {
        return Ok(objects);
    }
    let running: Vec<i64> = types.iter().filter_map(|entry| Some(entry.running.as_ref()?.type_id)).collect();
    let notes = running::notes(&*services.store, &running, services.max_time).await?;
    let by_type: BTreeMap<i64, i64> =
        notes.iter().filter_map(|note| Some((integer(note, "_id")?, running::upto(note)))).collect();
    let upto = |type_id: i64, _: &running::Running| by_type.get(&type_id).copied().unwrap_or(i64::MAX);
    let is_between =
        |object: &RawDocument| types.is_pending(object, |_, running| running.upto) && !types.is_pending(object, upto);
    let between = objects.iter().filter(|object| is_between(object)).filter_map(|it| integer(it, "public_id"));
    let between: Vec<Bson> = between.map(Bson::Int64).collect();
    let mut changed = BTreeMap::new();
    if !between.is_empty() {
        let query = FindQuery::new(Filter::one_of("public_id", between), services.max_time);
        for object in services.held(Objects::COLLECTION, query).await?.iter() {
            changed.insert(integer(object, "public_id"), object.to_owned());
        }
    }
    let mut stored = Documents::new();
    for object in objects.iter() {
        if types.is_pending(object, upto) {
            stored.push(&of_former_type(object)?);
        } else {
            let now = changed.get(&integer(object, "public_id")).filter(|_| is_between(object));
            stored.push(now.map_or(object, |now| now));
        }
    }
    Ok(Cow::Owned(stored))
}

fn of_former_type(object: &RawDocument) -> Result<RawDocumentBuf, ServiceError> {
    let mut pending = RawDocumentBuf::new();
    for member in object {
        match member.map_err(StoreError::backend)? {
            (name, _) if name == "type_id" => pending.append(name, -integer(object, "type_id").unwrap_or_default()),
            (name, value) => pending.append(name, value),
        }
    }
    Ok(pending)
}

/// The objects that the caller may see; a hidden one counts as missing.
fn only(visible: Option<&Filter>, found: Documents) -> Result<Documents, ServiceError> {
    let Some(visible) = visible else { return Ok(found) };
    let mut seen = Documents::new();
    for object in found.iter() {
        if visible.matches(object).map_err(StoreError::from)? {
            seen.push(object);
        }
    }
    Ok(seen)
}

pub(super) fn corrupt(error: CorruptBson) -> ServiceError {
    StoreError::Corrupt { what: error.to_string() }.into()
}
