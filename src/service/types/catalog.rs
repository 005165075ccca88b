//! Compiled types, cached until the store reports a change.
//!
//! The catalog asks [`Store::revision`] before each use; that costs no round trip. When the number moved, one query
//! reads the types again, and only those with different bytes are compiled. So a render is at most as stale as the
//! store's revision: never on the embedded store and for changes through this process, at most one second for others.
//!
//! The cached types alone refuse nothing and show nothing, because another instance may just have made a type.
//! Before an object of an unknown type is shown or changed, [`TypeCatalog::knowing`] looks its type up. Before a type or a
//! field counts as missing, [`TypeCatalog::anew`] reads the types again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};
use tokio::sync::Mutex;

use super::running::{self, Running};
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::{flag, integer};
use crate::domain::object_fields::FieldRules;
use crate::domain::object_type::{ObjectType, ObjectTypeError};
use crate::metrics::Tally;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::history::former::FormerTypes;
use crate::store::{FindQuery, Store, StoreError, collections};

/// The right to see which types exist.
pub(crate) const VIEW_TYPES: &str = "base.framework.type.view";

/// Keeps the compiled types.
#[derive(Default)]
pub struct TypeCatalog {
    current: ArcSwapOption<Types>,
    /// Given types, which are not kept up to date; see [`TypeCatalog::of`].
    fixed: Option<Arc<Types>>,
    /// The types of the present, for the catalog of an earlier moment.
    present: Option<Present>,
    refreshing: Mutex<()>,
    /// The number of the last reading that began, and of the last one that succeeded.
    begun: AtomicU64,
    done: AtomicU64,
    lookups: Tally,
}

/// What the catalog of an earlier moment takes from the present.
struct Present {
    /// Types with the same bytes are not compiled again.
    types: Arc<Types>,
    /// Types that were deleted.
    former: Arc<FormerTypes>,
}

/// All types at one moment.
pub struct Types {
    revision: u64,
    by_id: BTreeMap<i64, Arc<TypeEntry>>,
    /// Present and former types that are missing at this moment, with their access lists. These hide objects of that moment
    /// too: another tool may have changed the type since, and then its state is unknown.
    missing: Vec<(i64, Option<Acl>)>,
    /// The ids of the types that have a field, by its name; made when it is first asked for.
    with_field: OnceLock<HashMap<String, Vec<i64>>>,
    /// Whether the objects of some type are being migrated.
    is_migrating: bool,
}

/// One type, in all the forms in which it is needed.
pub struct TypeEntry {
    /// The stored document.
    pub document: RawDocumentBuf,
    /// The model for rendering and access.
    pub object_type: Arc<ObjectType>,
    /// The rules for the fields of its objects.
    pub rules: FieldRules,
    /// The migration of its objects that is running, as it was when the type was read.
    pub running: Option<Running>,
}

impl TypeCatalog {
    /// A catalog for an earlier moment of the same store. `types` and `former` are those of the present.
    #[must_use]
    pub(crate) fn before(types: Arc<Types>, former: Arc<FormerTypes>) -> Self {
        Self { present: Some(Present { types, former }), ..Self::default() }
    }

    /// A catalog of these types alone.
    #[must_use]
    pub fn of(types: Arc<Types>) -> Self {
        Self { fixed: Some(types), ..Self::default() }
    }

    /// The types as they are now.
    ///
    /// # Errors
    /// Errors of the store when it reads them again.
    pub async fn current(&self, store: &dyn Store, max_time: Duration) -> Result<Arc<Types>, ServiceError> {
        let known = self.fresh(store);
        self.lookups.note(known.is_some());
        if let Some(types) = known {
            return Ok(types);
        }
        let _one_at_a_time = self.refreshing.lock().await;
        if let Some(types) = self.fresh(store) {
            return Ok(types);
        }
        self.read(store, max_time).await
    }

    /// The types as they are in the store after this was called: it reads them although no change was reported. Requests that
    /// wait for each other share a reading.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn anew(&self, store: &dyn Store, max_time: Duration) -> Result<Arc<Types>, ServiceError> {
        if self.fixed.is_some() || !store.is_remote() {
            return self.current(store, max_time).await;
        }
        let begun = self.begun.load(Ordering::SeqCst);
        let _one_at_a_time = self.refreshing.lock().await;
        if self.done.load(Ordering::SeqCst) > begun
            && let Some(types) = self.current.load_full()
        {
            return Ok(types);
        }
        self.read(store, max_time).await
    }

    /// These types; newer ones if those lack a type that is there by now. One query by the ids finds out, and only where
    /// some are lacking.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn knowing(
        &self,
        store: &dyn Store,
        max_time: Duration,
        types: Arc<Types>,
        ids: Vec<i64>,
    ) -> Result<Arc<Types>, ServiceError> {
        let mut lacking: Vec<i64> = ids.into_iter().filter(|id| !types.knows(*id)).collect();
        lacking.sort_unstable();
        lacking.dedup();
        if lacking.is_empty() {
            return Ok(types);
        }
        let newer = if store.is_remote() {
            let found = stored(store, max_time, &lacking).await?;
            match found.is_empty() {
                true => return Ok(types),
                false if self.fixed.is_some() => Arc::new(types.with(found)),
                false => self.anew(store, max_time).await?,
            }
        } else {
            self.current(store, max_time).await?
        };
        Ok(if lacking.iter().any(|id| newer.knows(*id)) { newer } else { types })
    }

    /// Reads the types. Only for who holds [`TypeCatalog::refreshing`].
    async fn read(&self, store: &dyn Store, max_time: Duration) -> Result<Arc<Types>, ServiceError> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        // The revision is taken before the types are read: what changes in between is read again next time.
        let revision = store.revision(collections::TYPES);
        let query = FindQuery::new(Filter::all(), max_time).sorted(Sort::by("public_id", false));
        let found = store.find(collections::TYPES, &query).await?;
        let before =
            self.current.load_full().or_else(|| self.present.as_ref().map(|present| Arc::clone(&present.types)));
        // Such types are inactive.
        let is_any_inactive = found.iter().any(is_inactive);
        let running = if is_any_inactive { running::all(store, max_time).await? } else { Vec::new() };
        let mut by_id = BTreeMap::new();
        for document in found.iter() {
            let own = running.iter().find(|one| integer(document, "public_id") == Some(one.type_id)).cloned();
            let entry = reuse(before.as_deref(), document).filter(|entry| own.is_none() && entry.running.is_none());
            match entry.map_or_else(|| compile(document, own), Ok) {
                Ok(entry) => drop(by_id.insert(entry.object_type.public_id, entry)),
                Err(reason) => log::warn!("a stored type is passed over: {reason}"),
            }
        }
        let missing = self.present.as_ref().map_or_else(Vec::new, |present| present.missing_from(&by_id));
        let types = Arc::new(Types::of(revision, by_id, missing));
        self.current.store(Some(Arc::clone(&types)));
        self.done.store(number, Ordering::SeqCst);
        Ok(types)
    }

    /// How often the types were remembered.
    pub fn lookups(&self) -> &Tally {
        &self.lookups
    }

    fn fresh(&self, store: &dyn Store) -> Option<Arc<Types>> {
        if let Some(types) = &self.fixed {
            return Some(Arc::clone(types));
        }
        self.current.load_full().filter(|types| types.revision == store.revision(collections::TYPES))
    }
}

impl Present {
    fn missing_from(&self, there: &BTreeMap<i64, Arc<TypeEntry>>) -> Vec<(i64, Option<Acl>)> {
        let present = self.types.iter().map(|entry| (entry.object_type.public_id, Some(&entry.object_type.acl)));
        let all = present.chain(self.former.access_lists());
        all.filter(|(id, _)| !there.contains_key(id)).map(|(id, acl)| (id, acl.cloned())).collect()
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} types of revision {}", self.by_id.len(), self.revision)
    }
}

impl Types {
    fn of(revision: u64, by_id: BTreeMap<i64, Arc<TypeEntry>>, missing: Vec<(i64, Option<Acl>)>) -> Self {
        let is_migrating = by_id.values().any(|entry| entry.running.is_some());
        Self { revision, by_id, missing, with_field: OnceLock::new(), is_migrating }
    }

    /// Whether the objects of some type are being migrated.
    pub fn is_migrating(&self) -> bool {
        self.is_migrating
    }

    /// The type with this id.
    pub fn get(&self, id: i64) -> Option<&Arc<TypeEntry>> {
        self.by_id.get(&id)
    }

    /// Whether something is known of the type with this id.
    pub fn knows(&self, id: i64) -> bool {
        self.by_id.contains_key(&id) || self.missing.iter().any(|(missing, _)| *missing == id)
    }

    /// The same types and these.
    fn with(&self, further: Vec<Arc<TypeEntry>>) -> Self {
        let mut by_id = self.by_id.clone();
        by_id.extend(further.into_iter().map(|entry| (entry.object_type.public_id, entry)));
        Self::of(self.revision, by_id, self.missing.clone())
    }

    /// Whether these are the same types with the same content, where the one was read after the other.
    pub fn is_as(&self, other: &Self) -> bool {
        let pairs = || self.by_id.values().zip(other.by_id.values());
        self.by_id.len() == other.by_id.len() && pairs().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// All types, by their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TypeEntry>> {
        self.by_id.values()
    }

    /// The types with a field that may refer to objects of this type.
    pub fn referring_to(&self, type_id: i64) -> impl Iterator<Item = &Arc<TypeEntry>> {
        let refers = move |object_type: &ObjectType| {
            object_type.fields.iter().any(|field| object_type.targets(field).any(|target| target == type_id))
        };
        self.iter().filter(move |entry| refers(&entry.object_type))
    }

    /// The ids of the types that have a field of this name.
    pub fn with_field(&self, name: &str) -> &[i64] {
        self.by_field().get(name).map_or(&[], Vec::as_slice)
    }

    /// The names of all fields of all types, each once.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.by_field().keys().map(String::as_str)
    }

    fn by_field(&self) -> &HashMap<String, Vec<i64>> {
        self.with_field.get_or_init(|| {
            let mut with_field: HashMap<String, Vec<i64>> = HashMap::new();
            for entry in self.iter() {
                for field in &entry.object_type.fields {
                    with_field.entry(field.name.clone()).or_default().push(entry.object_type.public_id);
                }
            }
            with_field
        })
    }

    /// The same query on objects, evaluated only on those that the caller may read. Hidden objects affect no answer,
    /// error, count or time of it.
    #[must_use]
    pub fn scope(&self, caller: &Caller, question: Filter) -> Filter {
        match self.visible_to(caller) {
            Some(visible) => question.guarded_by(visible),
            None => question,
        }
    }

    /// The condition that excludes objects without this permission of the caller; `None` if there are none.
    pub fn visible_to(&self, caller: &Caller) -> Option<Filter> {
        self.allowed_to(caller, Permission::Read)
    }

    /// As [`Types::visible_to`], for any permission.
    pub fn allowed_to(&self, caller: &Caller, permission: Permission) -> Option<Filter> {
        let there = self.iter().map(|entry| (entry.object_type.public_id, Some(&entry.object_type.acl)));
        let all = there.chain(self.missing.iter().map(|(id, acl)| (*id, acl.as_ref())));
        let is_denied = |acl: Option<&Acl>| !acl.is_some_and(|acl| acl.allows(caller.group_id, permission));
        let mut denied: Vec<i64> = all.filter(|(_, acl)| is_denied(*acl)).map(|(id, _)| id).collect();
        denied.sort_unstable();
        denied.dedup();
        (!denied.is_empty()).then(|| Filter::none_of("type_id", denied))
    }

    /// Whether the group may not read the objects of some type.
    pub fn hides_some(&self, group_id: i64) -> bool {
        self.iter().any(|entry| !entry.object_type.acl.allows(group_id, Permission::Read))
    }

    /// Whether the caller may read this object: whether [`Types::visible_to`] lets it through.
    pub fn shows(&self, caller: &Caller, object: &RawDocument) -> bool {
        lets_through(self.visible_to(caller).as_ref(), object)
    }

    /// Whether the caller may know that this object exists: the caller may read it, or the caller's group holds the
    /// permission.
    pub fn shows_or_allows(&self, caller: &Caller, object: &RawDocument, permission: Permission) -> bool {
        let entry = integer(object, "type_id").and_then(|id| self.get(id));
        self.shows(caller, object)
            || entry.is_some_and(|entry| entry.object_type.acl.allows(caller.group_id, permission))
    }
}

/// A test of objects against [`Types::visible_to`], made once for many objects. It cannot fail.
pub(crate) fn lets_through(visible: Option<&Filter>, object: &RawDocument) -> bool {
    visible.is_none_or(|visible| visible.matches(object).unwrap_or(false))
}

impl TypeEntry {
    /// Refuses a caller whose group the type's ACL does not give the permission.
    ///
    /// # Errors
    /// [`ErrorCode::AclDenied`] naming the entry that is missing.
    pub fn permit(&self, caller: &Caller, permission: Permission) -> Result<(), ServiceError> {
        if self.object_type.acl.allows(caller.group_id, permission) {
            return Ok(());
        }
        // By its name only to those who may see which types exist.
        let id = self.object_type.public_id.to_string();
        let name = if caller.rights.grants(VIEW_TYPES) { &self.object_type.name } else { &id };
        let (group, permission) = (caller.group_id, permission.name());
        let message = format!("the access list of type {name} gives group {group} no {permission} permission");
        Err(ServiceError::refused(ErrorCode::AclDenied, message))
    }

    /// When the type was last changed; null if never. Each change has another time. What another tool stored there counts as it
    /// is.
    pub fn edited(&self) -> Bson {
        let stored = self.document.get("last_edit_time").ok().flatten();
        stored.and_then(|stored| Bson::try_from(stored).ok()).unwrap_or(Bson::Null)
    }

    /// Refuses to change objects of an inactive type.
    ///
    /// # Errors
    /// [`ErrorCode::TypeInactive`].
    pub fn require_active(&self) -> Result<(), ServiceError> {
        if self.object_type.active {
            return Ok(());
        }
        let id = self.object_type.public_id;
        if self.running.is_some() {
            let what = format!("type {id}, of which GET /rest/types/{id}/migration says how far its objects are,");
            return Err(ServiceError::Contended(what));
        }
        Err(inactive(id))
    }
}

impl Types {
    /// Whether a type is the same in both, so that objects which were read between them are stored under it.
    pub(crate) fn agree_on(&self, other: &Self, type_id: i64) -> bool {
        let state = |types: &Self| types.get(type_id).map(|entry| (entry.edited(), entry.running.is_some()));
        state(self) == state(other)
    }

    /// Whether this object is still to change, so that it is stored under the former state of its type. `upto` says how far the
    /// migration of a type is.
    pub(crate) fn is_pending(&self, object: &RawDocument, upto: impl Fn(i64, &Running) -> i64) -> bool {
        let type_id = integer(object, "type_id").unwrap_or_default();
        let running = self.get(type_id).and_then(|entry| entry.running.as_ref());
        running.is_some_and(|it| integer(object, "public_id").is_some_and(|id| id > upto(type_id, it)))
    }
}

/// Whether a stored type is inactive.
pub(crate) fn is_inactive(object_type: &RawDocument) -> bool {
    flag(object_type, "active") == Some(false)
}

/// The message about an inactive type.
pub(crate) fn inactive(id: i64) -> ServiceError {
    ServiceError::refused(ErrorCode::TypeInactive, format!("type {id} is inactive; its objects can only be read"))
}

/// The types with these ids.
pub(crate) async fn stored(
    store: &dyn Store,
    max_time: Duration,
    ids: &[i64],
) -> Result<Vec<Arc<TypeEntry>>, StoreError> {
    let found = store
        .find(collections::TYPES, &FindQuery::new(Filter::one_of("public_id", ids.iter().copied()), max_time))
        .await?;
    Ok(found.iter().filter_map(|document| compile(document, None).ok()).collect())
}

fn reuse(before: Option<&Types>, document: &RawDocument) -> Option<Arc<TypeEntry>> {
    let id = document.get_i64("public_id").ok()?;
    let entry = before?.get(id)?;
    (entry.document.as_bytes() == document.as_bytes()).then(|| Arc::clone(entry))
}

/// A type that is not stored yet.
///
/// # Errors
/// When it is no type.
pub(crate) fn compiled(document: &RawDocument) -> Result<Arc<TypeEntry>, ObjectTypeError> {
    compile(document, None)
}

fn compile(document: &RawDocument, running: Option<Running>) -> Result<Arc<TypeEntry>, ObjectTypeError> {
    let object_type = ObjectType::from_document(document)?;
    let rules = FieldRules::of(&object_type);
    for field in rules.without_their_pattern() {
        // Once for each version of the type: it is compiled no more often.
        log::warn!(
            "the pattern of the field {field} of type {} ({}) is no regular expression and asks nothing: every text is taken; \
             correct it in the type",
            object_type.name,
            object_type.public_id
        );
    }
    Ok(Arc::new(TypeEntry { document: document.to_owned(), object_type: Arc::new(object_type), rules, running }))
}
