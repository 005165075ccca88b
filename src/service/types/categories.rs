//! Categories of types: a forest whose leaves are types. docs/api.md, Categories.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};

use super::catalog::{self, TypeEntry, VIEW_TYPES};
use crate::domain::category_input::CATEGORY;
use crate::domain::document::{integer, only};
use crate::domain::schema::without_unknown;
use crate::domain::{self, Violation, Violations, category_input};
use crate::query::{Filter, Sort, Update};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::precondition::IfMatch;
use crate::service::queries::list_query::ListQuery;
use crate::service::resource::{self, Categories, Decision, NewState, Resource, Wanted};
use crate::service::services::Services;
use crate::store::{Change, Condition, Documents, Explanation, FindQuery, Unit, scope_version};

/// The scope that serialises changes of the forest: no filter can express "no cycles".
const SCOPE: &str = Categories::COLLECTION;
/// What others are changing then, for people.
const FOREST: &str = "the categories";

/// The members that come back with an earlier state.
pub(crate) const MEMBERS: [&str; 5] = ["name", "label", "parent", "types", "meta"];

/// A category with its descendants.
pub struct Node<'a> {
    /// The stored category.
    pub category: &'a RawDocument,
    /// `meta.order`.
    pub order: Option<i64>,
    /// The categories below, in their order.
    pub children: Vec<Node<'a>>,
    /// The types, in the category's order, without unknown ids.
    pub types: Vec<Arc<TypeEntry>>,
}

/// All categories that a filter selects, with the types they may name.
pub struct Forest {
    categories: Documents,
    /// Nothing for a caller who may not read types.
    types: Option<Arc<catalog::Types>>,
}

/// Stores a new category.
///
/// # Errors
/// Violations of the body, a parent or a type that does not exist, a taken name or id.
pub async fn create_category(services: &Services, body: &Document) -> Result<RawDocumentBuf, ServiceError> {
    let now = services.now();
    store_category(services, body, None, |accepted, id| domain::created(accepted, id, now)).await
}

/// Stores a category again that was deleted: all but its edit time stays as it was.
///
/// # Errors
/// As [`create_category`].
pub(crate) async fn restored_category(
    services: &Services,
    id: i64,
    deleted: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let body = only(deleted, &MEMBERS);
    let now = services.now();
    store_category(services, &body, Some(id), |accepted, _| category_input::updated(accepted, deleted, now)).await
}

/// `again` is the id that the category had before.
async fn store_category(
    services: &Services,
    body: &Document,
    again: Option<i64>,
    build: impl Fn(Document, i64) -> Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let accepted = without_unknown(&CATEGORY, body, None, category_input::read(body))?;
    let wanted = again.map_or(Wanted::from(accepted.get_i64("public_id").ok()), Wanted::Again);
    let create = async || {
        let conditions = check_links(services, &accepted, None).await?;
        resource::create::<Categories>(services, wanted, conditions, |id| build(accepted.clone(), id)).await
    };
    resource::until_it_holds(FOREST, create).await
}

/// Changes the category to what was sent.
///
/// # Errors
/// As [`create_category`], a parent that closes a cycle, and those of [`resource::change`].
pub async fn change_category(
    services: &Services,
    id: i64,
    if_match: &IfMatch,
    sent: NewState<'_>,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| {
        let (body, stored) = (sent.body(before)?, resource::decode(before)?);
        let accepted = without_unknown(&CATEGORY, &body, Some(&stored), category_input::read(&body))?;
        resource::same_id(&accepted, id)?;
        let conditions = check_links(services, &accepted, Some(id)).await?;
        let after = category_input::updated(accepted, &stored, services.now());
        let mut decision = Decision::replace::<Categories>(before, &after)?;
        decision.unit.conditions = conditions;
        Ok(decision)
    };
    let change = async || resource::change::<Categories>(services, id, if_match, &decide).await;
    Ok(resource::until_it_holds(FOREST, change).await?.1)
}

/// Removes a category; its children move up to its parent. Returns it and the number of those children.
///
/// # Errors
/// Those of [`resource::remove`].
pub async fn delete_category(
    services: &Services,
    id: i64,
    if_match: &IfMatch,
) -> Result<(RawDocumentBuf, u64), ServiceError> {
    let decide = async |before: &RawDocument| without_category(services, id, Some(before), &[]).await;
    let remove = async || resource::remove::<Categories>(services, id, if_match, &decide).await;
    let (removed, touched) = resource::until_it_holds(FOREST, remove).await?;
    Ok((removed, touched.first().copied().unwrap_or_default()))
}

/// The other changes of a deletion of a category: its children move up, but for those that the same unit changes itself.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn without_category(
    services: &Services,
    id: i64,
    before: Option<&RawDocument>,
    changed: &[i64],
) -> Result<Unit, ServiceError> {
    let at = scope_version(&*services.store, SCOPE, services.max_time).await?;
    let before = before.map(resource::decode).transpose()?;
    let parent = before.and_then(|before| before.get("parent").cloned()).unwrap_or(Bson::Null);
    let move_up = Change::UpdateMany {
        collection: Categories::COLLECTION,
        filter: Filter::equals("parent", id).and(super::none_with(changed)),
        update: Update::set("parent", parent),
    };
    Ok(Unit::of(move_up).given(Condition::Unchanged { scope: SCOPE.into(), at }))
}

/// A new state of a category, with the members that it had at an earlier time.
///
/// # Errors
/// Violations of today's rules.
pub(crate) fn as_it_was(past: &Document, present: Option<&Document>, now: DateTime) -> Result<Document, ServiceError> {
    let accepted = category_input::read(&only(past, &MEMBERS))?;
    Ok(category_input::updated(accepted, present.unwrap_or(past), now))
}

/// Checks the links of several categories that are stored together with these types and categories. Returns the conditions
/// under which they stay true.
///
/// # Errors
/// Violations: a parent or a type that does not exist, and a cycle.
pub(crate) async fn links_hold(
    services: &Services,
    stored: &[(i64, Document)],
    (types, categories): (&HashSet<i64>, &HashSet<i64>),
) -> Result<Vec<Condition>, ServiceError> {
    let at = scope_version(&*services.store, SCOPE, services.max_time).await?;
    let mut conditions = vec![Condition::Unchanged { scope: SCOPE.into(), at }];
    let known = services.types_anew().await?;
    let mut parents = parents(services).await?;
    parents.extend(categories.iter().map(|id| (*id, None)));
    parents.extend(stored.iter().map(|(id, category)| (*id, category.get_i64("parent").ok())));
    let mut violations = Violations::new();
    for (id, category) in stored {
        for type_id in category.get_array("types").into_iter().flatten().filter_map(Bson::as_i64) {
            if known.get(type_id).is_some() && !types.contains(&type_id) {
                conditions.push(Condition::exists(resource::Types::COLLECTION, type_id));
            } else if !types.contains(&type_id) {
                violations.push(Violation::new("/types", format!("category {id}: type {type_id} does not exist")));
            }
        }
        if let Some(violation) =
            category.get_i64("parent").ok().and_then(|parent| wrong_parent(&parents, parent, Some(*id)))
        {
            violations.push(violation);
        }
    }
    violations.none()?;
    Ok(conditions)
}

/// Checks that parent and types exist and that the parent is not below `id`. Returns the conditions under which this
/// stays true until the change takes effect.
async fn check_links(
    services: &Services,
    accepted: &Document,
    id: Option<i64>,
) -> Result<Vec<Condition>, ServiceError> {
    let at = scope_version(&*services.store, SCOPE, services.max_time).await?;
    let types = services.current_types().await?;
    let named = accepted.get_array("types").into_iter().flatten().filter_map(Bson::as_i64);
    let types = services.types_knowing(types, named.collect()).await?;
    let mut conditions = vec![Condition::Unchanged { scope: SCOPE.into(), at }];
    let mut violations = Violations::new();
    let mut listed = HashSet::new();
    for (index, type_id) in accepted.get_array("types").into_iter().flatten().enumerate() {
        let type_id = type_id.as_i64().unwrap_or_default();
        if types.get(type_id).is_none() {
            violations.push(Violation::new(format!("/types/{index}"), format!("type {type_id} does not exist")));
        }
        if !listed.insert(type_id) {
            violations.push(Violation::new(format!("/types/{index}"), format!("type {type_id} is there twice")));
        }
        conditions.push(Condition::exists(resource::Types::COLLECTION, type_id));
    }
    if let Ok(parent) = accepted.get_i64("parent")
        && let Some(violation) = check_parent(services, parent, id).await?
    {
        violations.push(violation);
    }
    violations.none()?;
    Ok(conditions)
}

async fn check_parent(services: &Services, parent: i64, id: Option<i64>) -> Result<Option<Violation>, ServiceError> {
    Ok(wrong_parent(&parents(services).await?, parent, id))
}

/// The parents of all categories.
async fn parents(services: &Services) -> Result<HashMap<i64, Option<i64>>, ServiceError> {
    let all = FindQuery::new(Filter::all(), services.max_time).showing(&doc! { "public_id": 1, "parent": 1 });
    let found = services.store.find(Categories::COLLECTION, &all).await?;
    let parent = |category: &RawDocument| Some((integer(category, "public_id")?, integer(category, "parent")));
    Ok(found.iter().filter_map(parent).collect())
}

fn wrong_parent(parents: &HashMap<i64, Option<i64>>, parent: i64, id: Option<i64>) -> Option<Violation> {
    if !parents.contains_key(&parent) {
        return Some(Violation::new("/parent", format!("category {parent} does not exist")));
    }
    let mut above = Some(parent);
    let mut seen = HashSet::new();
    while let Some(current) = above.filter(|current| seen.insert(*current)) {
        if Some(current) == id {
            let message = format!("category {parent} stands below category {current}, which would close a cycle");
            return Some(Violation::new("/parent", message));
        }
        above = parents.get(&current).copied().flatten();
    }
    None
}

/// Reads the categories that a list query selects, for [`Forest::roots`].
///
/// # Errors
/// What the store reports.
pub async fn read_forest(services: &Services, caller: &Caller, query: &ListQuery) -> Result<Forest, ServiceError> {
    let categories = services.held(Categories::COLLECTION, forest_question(services, query)).await?;
    let may_view = caller.rights.grants(VIEW_TYPES);
    let types = if may_view { Some(services.current_types().await?) } else { None };
    Ok(Forest { categories, types })
}

/// How the categories of a tree are found.
///
/// # Errors
/// What the store reports.
pub async fn explain_forest(services: &Services, query: &ListQuery) -> Result<Explanation, ServiceError> {
    Ok(services.store.explain(Categories::COLLECTION, &forest_question(services, query)).await?)
}

fn forest_question(services: &Services, query: &ListQuery) -> FindQuery {
    FindQuery::new(query.filter.clone(), services.max_time).sorted(Sort::by("public_id", false))
}

impl Forest {
    /// The categories without a parent among them, each with its branches, ordered by `meta.order` (null last), then name.
    pub fn roots(&self) -> Vec<Node<'_>> {
        let ids: HashSet<i64> = self.categories.iter().filter_map(|category| integer(category, "public_id")).collect();
        let mut below: HashMap<Option<i64>, Vec<&RawDocument>> = HashMap::new();
        for category in self.categories.iter() {
            let parent = integer(category, "parent").filter(|parent| ids.contains(parent));
            below.entry(parent).or_default().push(category);
        }
        let mut roots = self.grow(None, &mut below);
        // Only categories in a cycle, made by other tools, remain. Without this no answer would show them.
        while let Some(parent) = below.keys().copied().min() {
            roots.extend(self.grow(parent, &mut below));
        }
        roots
    }

    /// Each category is removed when it is placed, so that a cycle made by other tools ends.
    fn grow<'a>(
        &'a self,
        parent: Option<i64>,
        below: &mut HashMap<Option<i64>, Vec<&'a RawDocument>>,
    ) -> Vec<Node<'a>> {
        let mut nodes: Vec<Node<'a>> = Vec::new();
        for category in below.remove(&parent).unwrap_or_default() {
            let id = integer(category, "public_id");
            let children = if id.is_some() { self.grow(id, below) } else { Vec::new() };
            let order = category.get_document("meta").ok().and_then(|meta| integer(meta, "order"));
            nodes.push(Node { category, order, children, types: self.types_of(category) });
        }
        nodes.sort_by_cached_key(|node| {
            let name = node.category.get_str("name").unwrap_or_default().to_owned();
            (node.order.is_none(), node.order, name)
        });
        nodes
    }

    fn types_of(&self, category: &RawDocument) -> Vec<Arc<TypeEntry>> {
        let ids = category.get_array("types").into_iter().flatten().flatten();
        let ids = ids.filter_map(|id| id.as_i64().or_else(|| id.as_i32().map(i64::from)));
        ids.filter_map(|id| self.types.as_ref()?.get(id).cloned()).collect()
    }
}
