//! What changes of objects mean for their claims.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::rules::{Rule, Rules};
use crate::domain::document::{integer, text};
use crate::query::Filter;
use crate::store::collections::{CLAIMS, OBJECTS, TYPES};
use crate::store::{Change, Condition, FindQuery, Shared, Store, StoreError, Unit};

/// One query finds at most this many claims.
const AT_ONCE: usize = 1000;

/// A change of an object.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// Its id, or what stands for that of a new one.
    pub object: i64,
    /// As it was; nothing for a new one.
    pub before: Option<&'a RawDocument>,
    /// As it will be; nothing for a removed one.
    pub after: Option<&'a RawDocument>,
}

impl<'a> Changed<'a> {
    /// That of a change in a unit, if it is one of an object.
    pub(in crate::service) fn of(change: &'a Change) -> Option<Self> {
        let (collection, before, after) = match change {
            Change::Insert { collection, document } => (collection, None, Some(&**document)),
            Change::Replace { collection, before, after } => (collection, Some(&**before), Some(&**after)),
            Change::Delete { collection, before } => (collection, Some(&**before), None),
            Change::DeleteMany { .. } | Change::UpdateMany { .. } | Change::Append(_) => return None,
        };
        let object = integer(after.or(before)?, "public_id")?;
        (*collection == OBJECTS).then_some(Self { object, before, after })
    }
}

/// The changes of types in a unit: the id, the type afterwards, and whether it is new.
pub(in crate::service) fn types_in(unit: &Unit) -> impl Iterator<Item = (i64, Option<&RawDocument>, bool)> {
    unit.changes.iter().filter(|change| change.collection() == TYPES).filter_map(|change| match change {
        Change::Insert { document, .. } => Some((integer(document, "public_id")?, Some(&**document), true)),
        Change::Replace { after, .. } => Some((integer(after, "public_id")?, Some(&**after), false)),
        Change::Delete { before, .. } => Some((integer(before, "public_id")?, None, false)),
        Change::DeleteMany { .. } | Change::UpdateMany { .. } | Change::Append(_) => None,
    })
}

/// What a unit needs in addition.
#[derive(Debug, Default)]
pub struct Consequences {
    /// The changes of claims.
    pub changes: Vec<Change>,
    /// What must hold for them.
    pub conditions: Vec<Condition>,
    /// Objects that would have the same value. Then the unit must not be carried out.
    pub clashes: Vec<Shared>,
}

/// The claims that objects give up and that they get.
#[derive(Default)]
struct Moves<'a> {
    freed: HashMap<String, i64>,
    wanted: BTreeMap<String, (i64, &'a Rule)>,
    clashes: Vec<Shared>,
}

/// What these changes of objects mean by the rules.
///
/// # Errors
/// Errors of the store.
pub async fn consequences(
    store: &dyn Store,
    rules: &Rules,
    changed: &[Changed<'_>],
    max_time: Duration,
) -> Result<Consequences, StoreError> {
    let Moves { freed, wanted, clashes } = Moves::of(rules, changed);
    let mut outcome = Consequences { clashes, ..Consequences::default() };
    if freed.is_empty() && wanted.is_empty() {
        return Ok(outcome);
    }
    let ids: Vec<&String> = freed.keys().chain(wanted.keys().filter(|id| !freed.contains_key(*id))).collect();
    let stored = stored_claims(store, &ids, max_time).await?;
    let mut foreign = Vec::new();
    for (id, (object, rule)) in &wanted {
        match stored.get(id) {
            None => outcome.changes.push(Change::Insert { collection: CLAIMS, document: claim(id, *object) }),
            Some((owner, _)) if owner == object => {}
            Some((owner, before)) if freed.get(id) == Some(owner) => outcome.changes.push(moved(before, id, *object)),
            Some((owner, before)) => foreign.push((id, *object, *rule, *owner, before)),
        }
    }
    for (id, object) in freed.iter().filter(|(id, _)| !wanted.contains_key(*id)) {
        if let Some((_, before)) = stored.get(id).filter(|(owner, _)| owner == object) {
            outcome.changes.push(Change::Delete { collection: CLAIMS, before: before.clone() });
        }
    }
    let in_unit: HashSet<i64> = changed.iter().map(|changed| changed.object).collect();
    for (id, object, rule, owner, before) in foreign {
        match deserted(store, rule, (id, owner), max_time).await? {
            Some((condition, change)) if !in_unit.contains(&owner) => {
                outcome.conditions.extend(condition);
                outcome.changes.extend(change);
                outcome.changes.push(moved(before, id, object));
            }
            _ => outcome.clashes.push(shared(rule, owner, object)),
        }
    }
    Ok(outcome)
}

impl<'a> Moves<'a> {
    fn of(rules: &'a Rules, changed: &[Changed<'_>]) -> Self {
        let mut moves = Self::default();
        for Changed { object, before, after } in changed {
            let Some(type_id) = after.or(*before).and_then(|object| integer(object, "type_id")) else { continue };
            for rule in rules.of_type(type_id) {
                let claims = |object: Option<&RawDocument>| object.map(|it| rule.claims(it)).unwrap_or_default();
                let (had, has) = (claims(*before), claims(*after));
                moves.freed.extend(had.difference(&has).map(|id| (id.clone(), *object)));
                for id in has.difference(&had) {
                    match moves.wanted.get(id) {
                        Some((other, _)) if other != object => moves.clashes.push(shared(rule, *other, *object)),
                        _ => drop(moves.wanted.insert(id.clone(), (*object, rule))),
                    }
                }
            }
        }
        moves
    }
}

/// The owner of a claim has lost the value, by another tool: the condition under which that is so, and a change that is
/// refused if it is not.
async fn deserted(
    store: &dyn Store,
    rule: &Rule,
    (id, owner): (&str, i64),
    max_time: Duration,
) -> Result<Option<(Option<Condition>, Option<Change>)>, StoreError> {
    let own = Filter::equals("public_id", owner);
    Ok(match store.first(OBJECTS, FindQuery::new(own.clone(), max_time)).await?.as_deref() {
        None => Some((Some(Condition::None { collection: OBJECTS, filter: own }), None)),
        Some(object) if integer(object, "type_id") != Some(rule.type_id) || !rule.claims(object).contains(id) => {
            Some((None, Some(same(object))))
        }
        Some(_) => None,
    })
}

/// The change that leaves an object as it is, and is refused if it has changed.
pub(in crate::service) fn same(object: &RawDocument) -> Change {
    Change::Replace { collection: OBJECTS, before: object.to_owned(), after: object.to_owned() }
}

/// The objects that have the claims, by the `_id` of the claim.
///
/// # Errors
/// Errors of the store.
pub async fn owners(
    store: &dyn Store,
    claims: &[&String],
    max_time: Duration,
) -> Result<HashMap<String, i64>, StoreError> {
    let stored = stored_claims(store, claims, max_time).await?;
    Ok(stored.into_iter().map(|(id, (owner, _))| (id, owner)).collect())
}

/// The stored claims of these: the object, and the document.
async fn stored_claims(
    store: &dyn Store,
    ids: &[&String],
    max_time: Duration,
) -> Result<HashMap<String, (i64, RawDocumentBuf)>, StoreError> {
    let mut stored = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        let ids = ids.iter().map(|id| id.as_str());
        let found = store.find(CLAIMS, &FindQuery::new(Filter::one_of("_id", ids), max_time)).await?;
        for claim in found.iter() {
            if let (Some(id), Some(owner)) = (text(claim, "_id"), integer(claim, "object")) {
                stored.insert(id.to_owned(), (owner, claim.to_owned()));
            }
        }
    }
    Ok(stored)
}

fn claim(id: &str, object: i64) -> RawDocumentBuf {
    bson::rawdoc! { "_id": id, "object": object }
}

fn moved(before: &RawDocument, id: &str, object: i64) -> Change {
    Change::Replace { collection: CLAIMS, before: before.to_owned(), after: claim(id, object) }
}

fn shared(rule: &Rule, owner: i64, object: i64) -> Shared {
    Shared { type_id: rule.type_id, field: rule.field.clone(), ids: vec![owner, object] }
}
