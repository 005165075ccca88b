//! Rendered views for a caller: fetches what a page needs, one query a kind and round, and has `render` make the views.

use std::collections::HashMap;
use std::sync::Arc;

use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};

use super::precondition::{entity_tag, tag_of};
use super::resource::{self, Objects, Resource};
use super::type_catalog::Types;
use super::{Caller, ServiceError, Services};
use crate::domain::document::integer;
use crate::domain::object_type::ObjectType;
use crate::json;
use crate::query::{Budget, Filter, Projection};
use crate::raw::CorruptBson;
use crate::render::{Catalog, Gathering, RenderContext, render_object};
use crate::store::{Documents, FindQuery, StoreError};

/// The right whose holders see the values of password fields.
pub(super) const EDIT: &str = "base.framework.object.edit";

/// The member in front of every view, which is another one each time.
const RENDER_TIME: &[u8] = b"{\"current_render_time\":";

/// Views in one piece of memory, in the order of the objects.
#[derive(Debug, Default)]
pub struct Views {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Views {
    /// The JSON of each view.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.text[begin..*end])
    }
}

/// What a page's views are looked up in.
struct PageCatalog {
    types: Arc<Types>,
    users: HashMap<i64, Arc<str>>,
    objects: Vec<Documents>,
    /// Where in `objects` the object with this id is.
    places: HashMap<i64, (usize, usize)>,
}

impl Catalog for PageCatalog {
    fn object_type(&self, id: i64) -> Option<&ObjectType> {
        self.types.get(id).map(|entry| &*entry.object_type)
    }

    fn object(&self, id: i64) -> Option<&RawDocument> {
        let (batch, index) = self.places.get(&id)?;
        self.objects[*batch].get(*index)
    }

    fn user_name(&self, id: i64) -> Option<&str> {
        self.users.get(&id).map(|name| &**name)
    }
}

/// The views of a page of objects that the caller may read.
///
/// # Errors
/// What the store reports.
pub async fn render_objects(services: &Services, caller: &Caller, page: &Documents) -> Result<Views, ServiceError> {
    let catalog = gather(services, page).await?;
    let context = RenderContext {
        now_ms: services.now().timestamp_millis(),
        group_id: caller.group_id,
        may_edit: caller.rights.grants(EDIT),
    };
    let mut views = Views::default();
    for object in page.iter() {
        render_object(object, &catalog, &context, &mut views.text).map_err(corrupt)?;
        views.ends.push(views.text.len());
    }
    Ok(views)
}

/// The view of one object with its entity tag: the tag of the document, a dot, and a hash of what the view says
/// beside the moment at which it was made. So the tag changes with the type, the references and the names too, and
/// its first part still serves in `If-Match`.
///
/// # Errors
/// What the store reports.
pub async fn render_one(
    services: &Services,
    caller: &Caller,
    object: &RawDocument,
) -> Result<(Vec<u8>, String), ServiceError> {
    let page: Documents = std::iter::once(object).collect();
    let view = render_objects(services, caller, &page).await?.text;
    let after_time = view.get(RENDER_TIME.len()..).unwrap_or_default();
    let begin = after_time.iter().position(|byte| *byte == b',').unwrap_or_default();
    let tag = format!("{}.{}", entity_tag(object), tag_of(&after_time[begin..]));
    Ok((view, tag))
}

/// The part of a view that a projection asks for; the budget is the whole page's.
///
/// # Errors
/// What the projection reports.
pub fn project(
    view: &[u8],
    projection: &Projection,
    filter: &Filter,
    budget: &Budget,
) -> Result<RawDocumentBuf, ServiceError> {
    let text = std::str::from_utf8(view).expect("a view is JSON text");
    let document = json::read::document_from_str(text)
        .map_err(|error| StoreError::Corrupt { what: format!("a rendered view: {error}") })?;
    let document = resource::encode(&document)?;
    Ok(projection.apply_within(&document, filter, budget).map_err(StoreError::from)?)
}

async fn gather(services: &Services, page: &Documents) -> Result<PageCatalog, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let mut catalog = PageCatalog { types, users: HashMap::new(), objects: Vec::new(), places: HashMap::new() };
    let mut gathering = Gathering::new();
    while let Some(needed) = gathering.next_round(page.iter(), &catalog).map_err(corrupt)? {
        if !needed.users.is_empty() {
            catalog.users.extend(services.directory.user_names(&needed.users).await?);
        }
        if !needed.objects.is_empty() {
            let ids = needed.objects.iter().copied().map(Bson::Int64).collect();
            let query = FindQuery::new(Filter::one_of("public_id", ids), services.max_time);
            let found = services.store.find(Objects::COLLECTION, &query).await?;
            let batch = catalog.objects.len();
            for (index, object) in found.iter().enumerate() {
                if let Some(id) = integer(object, "public_id") {
                    catalog.places.insert(id, (batch, index));
                }
            }
            catalog.objects.push(found);
        }
    }
    Ok(catalog)
}

fn corrupt(error: CorruptBson) -> ServiceError {
    StoreError::Corrupt { what: error.to_string() }.into()
}
