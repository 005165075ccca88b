//! A store that adds claims and the documents derived from objects to the units that write objects, and rules to those that write
//! types. It finds lists of objects by the indexes of their types.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;

use super::building::{abandon, build, require_apart, sweep};
use super::changes::{Changed, Consequences, consequences, types_in};
use super::rules::{Rule, Rules, unique_fields};
use crate::domain::unique::Uniqueness;
use crate::service::history::author::{is_rehearsal, notes_others};
use crate::service::search::indexed::IndexQuery;
use crate::service::search::keeping::{self, Kept, OfTypes, Stored};
use crate::service::types::catalog::{TypeCatalog, Types};
use crate::store::collections::{CLAIMS, INDEXED, OBJECTS, SEARCH, SEARCH_WORK, TYPES, UNIQUE};
use crate::store::{Around, Change, Explanation, FindQuery, Located, Store, StoreError, Total, Unit};

/// How often a unit is tried again when the rules change, or another one claims the same value.
const ATTEMPTS: usize = 32;

/// Passes everything on to another store, keeps values of unique fields apart, and what search knows in step.
pub struct Keeper {
    /// The store that takes the units.
    inner: Arc<dyn Store>,
    /// The same store without what `inner` adds: for changes that have no history.
    plain: Arc<dyn Store>,
    types: Arc<TypeCatalog>,
    max_time: Duration,
    /// The rules, and the revision at which they were read.
    known: ArcSwapOption<(u64, Rules)>,
}

/// What a unit is made by.
struct Basis {
    rules: Rules,
    /// At least as new as the version of the rules.
    types: Arc<Types>,
}

/// A unit with what it needs in addition.
struct KeptUnit {
    unit: Unit,
    /// The rules that end with it.
    gone: Vec<Rule>,
    /// Whether it depends on documents of search, and how they are stored.
    searched: Searched,
}

/// What is known of the documents of search of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Searched {
    /// The unit changes none.
    None,
    /// They are as the objects say.
    Fitting,
    /// They differ from what the objects say, and were read; perhaps none has to change.
    Other,
}

/// What a unit means for the rules.
struct Ruled {
    list: Vec<Rule>,
    /// Rules that end with the unit.
    gone: Vec<Rule>,
}

impl Keeper {
    /// The store `inner`, which adds a history to `plain`, with unique values. `max_time` is the time budget of a query.
    pub fn around(
        inner: Arc<dyn Store>,
        plain: Arc<dyn Store>,
        types: Arc<TypeCatalog>,
        max_time: Duration,
    ) -> Arc<dyn Store> {
        Arc::new(Self { inner, plain, types, max_time, known: ArcSwapOption::empty() })
    }

    async fn keep(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        let (conditions, changes) = (unit.conditions.len(), unit.changes.len());
        let depends =
            unit.changes.iter().any(|change| matches!(change, Change::Replace { .. } | Change::Delete { .. }));
        let (mut is_doubtful, mut is_read, mut was_stale) = (false, false, false);
        for _ in 0..ATTEMPTS {
            let basis = self.basis(is_doubtful).await?;
            let lacking = lacking(&basis.rules, &unit);
            for (type_id, wanted) in &lacking {
                if is_rehearsal() {
                    require_apart(&*self.plain, *type_id, wanted, self.max_time).await?;
                } else {
                    build(&*self.plain, *type_id, wanted, self.max_time).await?;
                }
            }
            let basis = if lacking.is_empty() { basis } else { self.basis(true).await? };
            let stored = if is_read { Some(keeping::stored(&*self.plain, &unit, self.max_time).await?) } else { None };
            let KeptUnit { unit: kept, gone, searched } = self.kept(&basis, &unit, stored).await?;
            // The words for search were up to date, so something else was stale.
            let is_lost = std::mem::take(&mut was_stale) && searched != Searched::Other;
            let outcome = if is_lost { Err(StoreError::Stale) } else { self.inner.commit(kept).await };
            match outcome {
                Ok(mut touched) => {
                    touched.truncate(changes);
                    self.sweep(gone);
                    return Ok(touched);
                }
                Err(StoreError::Condition { index }) if index >= conditions => is_doubtful = true,
                Err(StoreError::Duplicate { collection, .. }) if collection == CLAIMS => {}
                Err(StoreError::Duplicate { collection, .. })
                    if [SEARCH, INDEXED, SEARCH_WORK].contains(&&*collection) =>
                {
                    is_read = true;
                }
                // Perhaps of what search knows, which is otherwise while it is being made.
                Err(StoreError::Stale) if searched == Searched::Fitting && !is_read => {
                    (is_read, was_stale) = (true, true);
                }
                Err(StoreError::Stale) if searched == Searched::Other && is_read && !depends => {}
                // Nothing else of the unit was read before.
                Err(StoreError::Stale) if !depends => is_doubtful = true,
                Err(error) => {
                    for (type_id, wanted) in lacking.iter().filter(|_| !is_rehearsal()) {
                        // Perhaps no other request needs these rules.
                        abandon(&*self.plain, *type_id, wanted, self.max_time).await?;
                    }
                    return Err(error);
                }
            }
        }
        Err(if depends { StoreError::Stale } else { StoreError::Busy })
    }

    /// The unit with its claims, documents of search and rules.
    async fn kept(&self, basis: &Basis, unit: &Unit, stored: Option<Stored>) -> Result<KeptUnit, StoreError> {
        let rules = &basis.rules;
        let changed: Vec<Changed<'_>> = unit.changes.iter().filter_map(Changed::of).collect();
        let consequences = consequences(&*self.plain, rules, &changed, self.max_time).await?;
        let Consequences { changes, conditions, clashes } = consequences;
        if !clashes.is_empty() {
            return Err(StoreError::Shared(clashes));
        }
        let mut kept = unit.clone();
        kept.conditions.extend(conditions.into_iter().chain([rules.condition()]));
        kept.changes.extend(changes);
        if is_rehearsal() {
            return Ok(KeptUnit { unit: kept, gone: Vec::new(), searched: Searched::None });
        }
        let Kept { changes, is_other } = keeping::kept(&basis.types, unit, stored).await;
        let searched = match (is_other, changes.is_empty()) {
            (true, _) => Searched::Other,
            (false, true) => Searched::None,
            (false, false) => Searched::Fitting,
        };
        kept.changes.extend(changes);
        if types_in(unit).next().is_none() {
            return Ok(KeptUnit { unit: kept, gone: Vec::new(), searched });
        }
        let OfTypes { changes, is_other } = keeping::of_types(&*self.plain, &basis.types, unit, self.max_time).await?;
        kept.changes.extend(changes);
        let Ruled { list, gone } = ruled(rules, unit);
        if is_other || !rules.iter().eq(list.iter()) {
            kept.changes.push(rules.replaced_by(&list));
        }
        Ok(KeptUnit { unit: kept, gone, searched })
    }

    /// A question of objects as one of the values in an index of their type, if one answers it.
    async fn by_index<'q>(&self, collection: &str, query: &'q FindQuery) -> Result<Option<IndexQuery<'q>>, StoreError> {
        if collection == OBJECTS { IndexQuery::of(&self.types, &*self.plain, query).await } else { Ok(None) }
    }

    /// The rules and the types, as they are in the store if they are doubtful.
    async fn basis(&self, is_doubtful: bool) -> Result<Basis, StoreError> {
        // The revision comes first: what changes in between is read again next time.
        let revision = self.plain.revision(UNIQUE);
        let types = &self.types;
        if let Some(known) = self.known.load_full().filter(|known| !is_doubtful && known.0 == revision) {
            let types = types.current(&*self.plain, self.max_time).await?;
            return Ok(Basis { rules: known.1.clone(), types });
        }
        let rules = Rules::read_or_begin(&*self.plain, self.max_time).await?;
        let types = types.anew(&*self.plain, self.max_time).await?;
        self.known.store(Some(Arc::new((revision, rules.clone()))));
        Ok(Basis { rules, types })
    }

    /// Removes the claims of rules that are gone. Nobody waits for that; a start does what is left.
    fn sweep(&self, gone: Vec<Rule>) {
        if gone.is_empty() {
            return;
        }
        let (store, max_time) = (Arc::clone(&self.plain), self.max_time);
        tokio::spawn(async move {
            if let Err(error) = sweep(&*store, &gone, max_time).await {
                log::warn!("claims of fields that are no longer unique are left until the next start: {error}");
            }
        });
    }
}

/// The fields of changed types that are to be unique and whose claims are not all made.
fn lacking(rules: &Rules, unit: &Unit) -> Vec<(i64, Vec<(String, Uniqueness)>)> {
    let changed = types_in(unit).filter(|(_, _, is_new)| !is_new);
    let lacking = changed.filter_map(|(type_id, after, _)| {
        let is_kept =
            |field: &str, how| rules.of_type(type_id).any(|rule| !rule.is_building && rule.is_of(type_id, field, how));
        let mut wanted = unique_fields(after?);
        wanted.retain(|(field, how)| !is_kept(field, *how));
        (!wanted.is_empty()).then_some((type_id, wanted))
    });
    lacking.collect()
}

/// The rules after a unit. Those that its types ask for have their claims.
fn ruled(rules: &Rules, unit: &Unit) -> Ruled {
    let mut list: Vec<Rule> = rules.iter().cloned().collect();
    let mut gone = Vec::new();
    for (type_id, after, is_new) in types_in(unit) {
        let wanted = after.map(unique_fields).unwrap_or_default();
        let is_wanted = |rule: &Rule| wanted.iter().any(|(field, how)| rule.is_of(type_id, field, *how));
        gone.extend(list.extract_if(.., |rule| rule.type_id == type_id && !is_wanted(rule)));
        list.iter_mut().filter(|rule| is_wanted(rule)).for_each(|rule| rule.is_building = false);
        if is_new {
            list.extend(wanted.iter().map(|(field, how)| Rule::new(type_id, field, *how, false)));
        }
    }
    Ruled { list, gone }
}

#[async_trait]
impl Around for Keeper {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn locate(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Option<Located>, StoreError> {
        match self.by_index(collection, query).await?.filter(|_| total != Total::Alone) {
            Some(query) => query.located(&*self.inner, total).await,
            None => Ok(None),
        }
    }

    async fn explain_located(&self, collection: &str, query: &FindQuery) -> Result<Option<Explanation>, StoreError> {
        match self.by_index(collection, query).await? {
            Some(query) => query.explained(&*self.inner).await,
            None => Ok(None),
        }
    }

    async fn commit_around(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        let is_kept = |change: &Change| [OBJECTS, TYPES].contains(&change.collection());
        // What others change, they change without its claims and its words.
        let is_here = !notes_others() && unit.changes.iter().any(is_kept);
        if is_here { self.keep(unit).await } else { self.inner.commit(unit).await }
    }
}
