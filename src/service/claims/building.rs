//! Makes a field unique whose type has objects already.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bson::doc;
use futures::TryStreamExt;

use super::changes::{Changed, Consequences, consequences, same};
use super::rules::{Rule, Rules, unique_fields};
use crate::admission;
use crate::domain::document::{integer, text};
use crate::domain::unique::Uniqueness;
use crate::query::{Filter, Sort};
use crate::service::objects::bulk::GROUP_BYTES;
use crate::store::collections::{CLAIMS, OBJECTS, TYPES};
use crate::store::{Change, Documents, FindQuery, Shared, Store, StoreError, Unit, as_fits};

/// How often a step is repeated when others change its objects.
const ATTEMPTS: usize = 64;

/// The claims of at most this many objects are made in one unit.
const MOST_AT_ONCE: usize = 2000;

/// A refusal names at most this many groups of objects with one value, and as many objects of each.
const MOST_LISTED: usize = 100;

/// One unit sweeps up at most this many claims.
const SWEPT_AT_ONCE: u64 = 1000;

/// Fields that are to be unique.
pub(super) type Wanted = [(String, Uniqueness)];

/// Makes building rules for the fields, and the claims of all stored objects.
///
/// # Errors
/// [`StoreError::Shared`] when stored objects have the same value; then the rules are gone again. Errors of the store.
pub(super) async fn build(
    store: &dyn Store,
    type_id: i64,
    wanted: &Wanted,
    max_time: Duration,
) -> Result<(), StoreError> {
    require_apart(store, type_id, wanted, max_time).await?;
    begin(store, type_id, wanted, max_time).await?;
    let outcome = fill(store, type_id, wanted, max_time).await;
    if matches!(outcome, Err(StoreError::Shared(_))) {
        abandon(store, type_id, wanted, max_time).await?;
    }
    outcome
}

/// Removes the building rules of the fields, and their claims.
///
/// # Errors
/// Errors of the store.
pub(super) async fn abandon(
    store: &dyn Store,
    type_id: i64,
    wanted: &Wanted,
    max_time: Duration,
) -> Result<(), StoreError> {
    let gone = drop_rules(store, |rule| is_wanted(rule, type_id, wanted) && rule.is_building, max_time).await?;
    sweep(store, &gone, max_time).await
}

fn is_wanted(rule: &Rule, type_id: i64, wanted: &Wanted) -> bool {
    wanted.iter().any(|(field, uniqueness)| rule.is_of(type_id, field, *uniqueness))
}

/// Refuses fields of which stored objects have the same value.
///
/// # Errors
/// [`StoreError::Shared`] with the objects; errors of the store.
pub(super) async fn require_apart(
    store: &dyn Store,
    type_id: i64,
    wanted: &Wanted,
    max_time: Duration,
) -> Result<(), StoreError> {
    let rules: Vec<Rule> = wanted.iter().map(|(field, how)| Rule::new(type_id, field, *how, true)).collect();
    let mut query =
        FindQuery::new(Filter::equals("type_id", type_id), max_time).showing(&doc! { "public_id": 1, "fields": 1 });
    query.is_counted = false;
    let mut chunks = store.chunks(OBJECTS, &query).await?.documents;
    let mut first: HashMap<u128, i64> = HashMap::new();
    let mut groups: BTreeMap<(usize, String), Vec<i64>> = BTreeMap::new();
    while let Some(chunk) = chunks.try_next().await? {
        admission::current().hold(chunk.len() * rules.len() * 3 * size_of::<u128>())?;
        for object in chunk.iter() {
            let Some(id) = integer(object, "public_id") else { continue };
            for (index, rule) in rules.iter().enumerate() {
                for claim in rule.claims(object) {
                    let other = *first.entry(short(&claim)).or_insert(id);
                    let has_room = groups.len() < MOST_LISTED || groups.contains_key(&(index, claim.clone()));
                    if other != id && has_room {
                        let ids = groups.entry((index, claim)).or_insert_with(|| vec![other]);
                        ids.extend((ids.len() < MOST_LISTED).then_some(id));
                    }
                }
            }
        }
        tokio::task::yield_now().await;
    }
    if groups.is_empty() {
        return Ok(());
    }
    let shared =
        |((index, _), ids): ((usize, String), Vec<i64>)| Shared { type_id, field: rules[index].field.clone(), ids };
    Err(StoreError::Shared(groups.into_iter().map(shared).collect()))
}

/// Enough of a claim to tell it from others.
fn short(claim: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128(claim.as_bytes())
}

/// Stores building rules where there are none for these fields yet. From here on writers keep their claims.
async fn begin(store: &dyn Store, type_id: i64, wanted: &Wanted, max_time: Duration) -> Result<(), StoreError> {
    for _ in 0..ATTEMPTS {
        let rules = Rules::read_or_begin(store, max_time).await?;
        let is_there = |(field, how): &&(String, Uniqueness)| rules.iter().any(|rule| rule.is_of(type_id, field, *how));
        let new: Vec<Rule> = wanted
            .iter()
            .filter(|wanted| !is_there(wanted))
            .map(|(field, how)| Rule::new(type_id, field, *how, true))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let list: Vec<Rule> = rules.iter().cloned().chain(new).collect();
        match store.commit(Unit::of(rules.replaced_by(&list))).await {
            Err(StoreError::Stale) => {}
            outcome => return outcome.map(drop),
        }
    }
    Err(StoreError::Stale)
}

/// Makes the claims that stored objects lack, a batch of objects at a time.
async fn fill(store: &dyn Store, type_id: i64, wanted: &Wanted, max_time: Duration) -> Result<(), StoreError> {
    let most = (store.largest_unit().min(MOST_AT_ONCE) / (2 * (1 + wanted.len()))).max(1);
    let (mut last, mut size, mut refused) = (i64::MIN, most, 0);
    while refused < ATTEMPTS {
        let rules = Rules::read(store, max_time).await?;
        let list: Vec<Rule> = rules.iter().filter(|rule| is_wanted(rule, type_id, wanted)).cloned().collect();
        if list.len() < wanted.len() {
            // Another attempt, or a start, has removed them.
            return Err(StoreError::Stale);
        }
        let rules = rules.with(list);
        let of_type = doc! { "type_id": type_id, "public_id": { "$gt": last } };
        let query = FindQuery::new(Filter::ours(&of_type), max_time);
        let query = query.sorted(Sort::by("public_id", false)).limited(size as u64);
        let found = as_fits(store, OBJECTS, query, GROUP_BYTES).await?;
        let Some(end) = found.iter().filter_map(|object| integer(object, "public_id")).max() else { return Ok(()) };
        match fill_batch(store, &rules, &found, max_time).await {
            Ok(()) => (last, size, refused) = (end, (size * 2).min(most), 0),
            Err(StoreError::Stale | StoreError::Condition { .. } | StoreError::Duplicate { .. }) => {
                (size, refused) = ((size / 2).max(1), refused + 1);
            }
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Stale)
}

async fn fill_batch(
    store: &dyn Store,
    rules: &Rules,
    objects: &Documents,
    max_time: Duration,
) -> Result<(), StoreError> {
    let new = |object| Some(Changed { object: integer(object, "public_id")?, before: None, after: Some(object) });
    let changed: Vec<Changed<'_>> = objects.iter().filter_map(new).collect();
    let Consequences { changes, conditions, clashes } = consequences(store, rules, &changed, max_time).await?;
    if !clashes.is_empty() {
        return Err(StoreError::Shared(clashes));
    }
    if changes.is_empty() {
        return Ok(());
    }
    // The claims are those of the objects as they were read.
    let changes = objects.iter().map(same).chain(changes).collect();
    let conditions = conditions.into_iter().chain([rules.condition()]).collect();
    store.commit(Unit { conditions, changes }).await.map(drop)
}

/// Removes rules, and returns them.
async fn drop_rules(
    store: &dyn Store,
    is_dropped: impl Fn(&Rule) -> bool,
    max_time: Duration,
) -> Result<Vec<Rule>, StoreError> {
    for _ in 0..ATTEMPTS {
        let rules = Rules::read(store, max_time).await?;
        let (gone, list): (Vec<Rule>, Vec<Rule>) = rules.iter().cloned().partition(&is_dropped);
        if gone.is_empty() {
            return Ok(gone);
        }
        match store.commit(Unit::of(rules.replaced_by(&list))).await {
            Err(StoreError::Stale) => {}
            outcome => return outcome.map(|_| gone),
        }
    }
    Err(StoreError::Stale)
}

/// Removes the claims of rules that are gone.
///
/// # Errors
/// Errors of the store.
pub(super) async fn sweep(store: &dyn Store, gone: &[Rule], max_time: Duration) -> Result<(), StoreError> {
    for rule in gone {
        // `;` follows `:`.
        sweep_between(store, doc! { "$gte": format!("{}:", rule.epoch), "$lt": format!("{};", rule.epoch) }, max_time)
            .await?;
    }
    Ok(())
}

async fn sweep_between(store: &dyn Store, ids: bson::Document, max_time: Duration) -> Result<(), StoreError> {
    let filter = Filter::ours(&doc! { "_id": ids });
    loop {
        let found = store.find(CLAIMS, &FindQuery::new(filter.clone(), max_time).limited(SWEPT_AT_ONCE)).await?;
        if found.is_empty() {
            return Ok(());
        }
        let ids = found.iter().filter_map(|claim| text(claim, "_id"));
        let change = Change::DeleteMany { collection: CLAIMS, filter: Filter::one_of("_id", ids) };
        store.commit(Unit::of(change)).await?;
    }
}

/// Brings rules and claims in line with the stored types: for a start. Removes what interrupted attempts left, and makes what
/// types ask for that another tool stored. Returns what could not be made, in words.
///
/// # Errors
/// Errors of the store.
pub async fn settle(store: &dyn Store, max_time: Duration) -> Result<Vec<String>, StoreError> {
    let types = store.find(TYPES, &FindQuery::new(Filter::all(), max_time)).await?;
    let types = types.iter().filter_map(|it| Some((integer(it, "public_id")?, unique_fields(it))));
    let asked: BTreeMap<i64, Vec<(String, Uniqueness)>> = types.filter(|(_, fields)| !fields.is_empty()).collect();
    let is_asked = |rule: &Rule| asked.get(&rule.type_id).is_some_and(|wanted| is_wanted(rule, rule.type_id, wanted));
    drop_rules(store, |rule| rule.is_building || !is_asked(rule), max_time).await?;
    let rules = Rules::read_or_begin(store, max_time).await?;
    let mut complaints = Vec::new();
    for (type_id, wanted) in &asked {
        let is_there = |(field, how): &(String, Uniqueness)| rules.iter().any(|rule| rule.is_of(*type_id, field, *how));
        let missing: Vec<(String, Uniqueness)> = wanted.iter().filter(|wanted| !is_there(wanted)).cloned().collect();
        if missing.is_empty() {
            continue;
        }
        match build(store, *type_id, &missing, max_time).await {
            Ok(()) => end(store, *type_id, &missing, max_time).await?,
            Err(error @ StoreError::Shared(_)) => complaints.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    sweep_strangers(store, max_time).await?;
    Ok(complaints)
}

/// The rules are no longer building.
async fn end(store: &dyn Store, type_id: i64, wanted: &Wanted, max_time: Duration) -> Result<(), StoreError> {
    for _ in 0..ATTEMPTS {
        let rules = Rules::read(store, max_time).await?;
        let ended =
            |rule: &Rule| Rule { is_building: rule.is_building && !is_wanted(rule, type_id, wanted), ..rule.clone() };
        let list: Vec<Rule> = rules.iter().map(ended).collect();
        match store.commit(Unit::of(rules.replaced_by(&list))).await {
            Err(StoreError::Stale) => {}
            outcome => return outcome.map(drop),
        }
    }
    Err(StoreError::Stale)
}

/// Removes the claims of rules that nobody remembers.
async fn sweep_strangers(store: &dyn Store, max_time: Duration) -> Result<(), StoreError> {
    let rules = Rules::read(store, max_time).await?;
    let mut epochs: Vec<&str> = rules.iter().map(|rule| rule.epoch.as_str()).collect();
    epochs.sort_unstable();
    let mut from = String::new();
    for epoch in epochs {
        sweep_between(store, doc! { "$gte": from, "$lt": format!("{epoch}:") }, max_time).await?;
        from = format!("{epoch};");
    }
    sweep_between(store, doc! { "$gte": from }, max_time).await
}
