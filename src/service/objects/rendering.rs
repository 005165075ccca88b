//! Rendered views for a caller: fetches what a page needs, with one query for each kind and round, and lets `render`
//! make the views.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

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
use crate::service::types::running::{self, Running};
use crate::store::{Documents, FindQuery, StoreError};

/// How often objects are read again whose types change while they are read.
const ATTEMPTS: usize = 8;

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
    /// Those under which the page is stored.
    first: Arc<Types>,
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
            let mut known = [&self.types, &self.first].into_iter().filter_map(|types| types.get(-id)?.running.as_ref());
            return known.next().map(|running| &*running.former);
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

/// Adds the views of a page of objects that the caller may read. `before` are the types before the page was read.
///
/// # Errors
/// What the store reports.
pub async fn render_objects(
    services: &Services,
    caller: &Caller,
    (page, before): (&Documents, Arc<Types>),
    mut views: Views,
) -> Result<Views, ServiceError> {
    let context = context(services, caller).await?;
    let (page, types) = stored_under(services, before, Cow::Borrowed(page)).await?;
    let catalog = gather(services, caller, &subjects(&page, &context)?, (types, Documents::new())).await?.0;
    views.text.reserve(page.bytes() * GROWTH);
    if page.len() <= SHORT && page.bytes() <= SHORT_BYTES {
        return render(&subjects(&page, &context)?, &catalog, views);
    }
    let page = page.into_owned();
    let rendered = admission::work(move |_| render(&subjects(&page, &context)?, &catalog, views));
    rendered.await?
}

async fn context(services: &Services, caller: &Caller) -> Result<RenderContext, ServiceError> {
    let types = services.current_types().await?;
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
    let before = services.current_types().await?;
    let (page, beside) = match &expected {
        Some(expected) => get_together(services, caller, id, expected).await?,
        None => (Documents::of_one(&get_object(services, caller, id).await?), Documents::new()),
    };
    let context = context(services, caller).await?;
    let (shown, types) = stored_under(services, before, Cow::Borrowed(&page)).await?;
    let subjects = subjects(&shown, &context)?;
    let (catalog, fetched) = gather(services, caller, &subjects, (types, beside)).await?;
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
    let ids = std::iter::once(id).chain(others.iter().copied());
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
    (first, known): (Arc<Types>, Documents),
) -> Result<(ServedCatalog, Vec<i64>), ServiceError> {
    let types = services.types_knowing(Arc::clone(&first), types_in(known.iter())).await?;
    let mut visible = types.visible_to(caller);
    let (users, objects) = (BTreeMap::new(), Vec::new());
    let mut catalog = ServedCatalog { types, first, users, objects, places: Vec::new() };
    let known = Cow::Owned(only(visible.as_ref(), known)?);
    catalog.add(stored_under(services, Arc::clone(&catalog.types), known).await?.0.into_owned());
    let mut fetched = Vec::new();
    let mut gathering = Gathering::new();
    while let Some(needed) = gathering.next_round(subjects, &catalog).map_err(corrupt)? {
        if !needed.users.is_empty() {
            catalog.users.extend(services.directory.user_names(&needed.users).await?);
        }
        if !needed.objects.is_empty() {
            fetched.extend_from_slice(&needed.objects);
            let query = FindQuery::new(Filter::one_of("public_id", needed.objects.iter().copied()), services.max_time);
            let found = services.held(Objects::COLLECTION, query).await?;
            let newer = services.types_knowing(Arc::clone(&catalog.types), types_in(found.iter())).await?;
            let (found, newer) = stored_under(services, newer, Cow::Owned(found)).await?;
            if !Arc::ptr_eq(&newer, &catalog.types) {
                visible = newer.visible_to(caller);
                catalog.types = newer;
            }
            catalog.add(only(visible.as_ref(), found.into_owned())?);
        }
        if !gathering.leads_on() {
            break;
        }
    }
    Ok((catalog, fetched))
}

/// The objects, each with the type under which it is stored, and the types. `before` are the types before the objects were read.
/// While the objects of a type are being migrated, those that are still to change have the negative id of their type, which stands
/// for its former state.
///
/// Objects of types that have changed since, and those that the migration has reached since, are read again.
async fn stored_under<'d>(
    services: &Services,
    mut before: Arc<Types>,
    mut objects: Cow<'d, Documents>,
) -> Result<(Cow<'d, Documents>, Arc<Types>), ServiceError> {
    let mut reached: Option<BTreeMap<i64, i64>> = None;
    for _ in 0..ATTEMPTS {
        let types = services.current_types().await?;
        if !types.is_migrating() && Arc::ptr_eq(&before, &types) {
            return Ok((objects, types));
        }
        let now = progress(services, &types).await?;
        let upto_now = |type_id: i64, _: &Running| now.get(&type_id).copied().unwrap_or(i64::MAX);
        let upto_then = |type_id: i64, running: &Running| match &reached {
            Some(reached) => reached.get(&type_id).copied().unwrap_or(i64::MAX),
            None => running.upto,
        };
        let is_stale = |object: &RawDocument| {
            let type_id = integer(object, "type_id").unwrap_or_default();
            !types.agree_on(&before, type_id)
                || types.is_pending(object, upto_then) && !types.is_pending(object, upto_now)
        };
        let stale = objects.iter().filter(|object| is_stale(object)).filter_map(|it| integer(it, "public_id"));
        let stale: Vec<i64> = stale.collect();
        if stale.is_empty() {
            return Ok((of_their_time(objects, &types, upto_now)?, types));
        }
        let query = FindQuery::new(Filter::one_of("public_id", stale), services.max_time);
        let found = services.held(Objects::COLLECTION, query).await?;
        let found: BTreeMap<_, _> = found.iter().map(|object| (integer(object, "public_id"), object)).collect();
        let again = objects.iter().map(|object| found.get(&integer(object, "public_id")).map_or(object, |it| *it));
        objects = Cow::Owned(again.collect());
        (before, reached) = (types, Some(now));
    }
    Ok((objects, before))
}

/// How far the migrations of types are.
async fn progress(services: &Services, types: &Types) -> Result<BTreeMap<i64, i64>, ServiceError> {
    if !types.is_migrating() {
        return Ok(BTreeMap::new());
    }
    let running: Vec<i64> = types.iter().filter_map(|entry| Some(entry.running.as_ref()?.type_id)).collect();
    let notes = running::notes(&*services.store, &running, services.max_time).await?;
    Ok(notes.iter().filter_map(|note| Some((integer(note, "_id")?, running::upto(note)))).collect())
}

/// The objects, those that are still to change with the former state of their type.
fn of_their_time<'d>(
    objects: Cow<'d, Documents>,
    types: &Types,
    upto: impl Fn(i64, &Running) -> i64,
) -> Result<Cow<'d, Documents>, ServiceError> {
    if !objects.iter().any(|object| types.is_pending(object, &upto)) {
        return Ok(objects);
    }
    let mut stored = Documents::new();
    for object in objects.iter() {
        if types.is_pending(object, &upto) {
            stored.push(&of_former_type(object)?);
        } else {
            stored.push(object);
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
        if visible.matches(object)? {
            seen.push(object);
        }
    }
    Ok(seen)
}

pub(super) fn corrupt(error: CorruptBson) -> ServiceError {
    StoreError::Corrupt { what: error.to_string() }.into()
}
