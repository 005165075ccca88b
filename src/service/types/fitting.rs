//! Which objects of a type do not fit it: each stored value against the rules of the type, in one scan of its objects.
//!
//! The scan reads chunks of one point in time, and compares each chunk in a turn of the request. Writers need not wait. What it
//! keeps is bounded: counts, and the first objects of each place and rule.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::Bson;
use bson::raw::{RawBsonRef, RawDocument};
use futures::TryStreamExt;

use super::examples::{Example, shown};
use super::moving::{Mover, Tally};
use crate::admission;
use crate::domain::object_fields::{FieldRules, Rule};
use crate::domain::object_type::ObjectType;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::objects::targets::{Targets, other_type};
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::store::{Documents, FindQuery};

/// How many names that the type does not have are counted apart.
const MOST_UNKNOWN: usize = 256;
/// How many bytes of examples are kept in all; the others are only counted.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How many targets of references are remembered from chunk to chunk.
const MOST_TARGETS: usize = 50_000;

/// The objects that break one rule of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfits {
    /// The name of the field.
    pub field: String,
    /// The rule.
    pub rule: Rule,
    /// How many objects break it.
    pub objects: u64,
    /// The first of them by their ids.
    pub first: Vec<Example>,
}

/// What a scan found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// How many objects were looked at.
    pub looked_at: u64,
    /// How many of them do not fit in any way.
    pub unfit: u64,
    /// How many have a value that a field of the type does not take, or lack one.
    pub with_wrong_values: u64,
    /// How many have a field that the type does not have.
    pub with_unknown_fields: u64,
    /// Where they do not fit, in the order of the type's fields, then by the names of unknown ones.
    pub misfits: Vec<Misfits>,
    /// How often a field beyond the first unknown ones was met.
    pub left_out: u64,
    /// Whether the time ended before all objects were looked at.
    pub is_cut: bool,
    /// What the steps of the change do; nothing where it has none.
    pub moved: Option<Tally>,
}

/// What a scan looks for.
pub(crate) struct Question<'a> {
    /// The type that the objects are to fit.
    pub object_type: &'a ObjectType,
    /// The fields whose values are shown. Any other may hold a password, or may have held one.
    pub plain: HashSet<String>,
    /// The fields that are looked at; nothing for all.
    pub only: Option<HashSet<String>>,
    /// How long it may take; nothing for as long as the request.
    pub within: Option<Duration>,
    /// The steps that objects make before they are compared.
    pub mover: Option<Mover>,
}

/// Looks at all objects of a type, in the order of their ids. The caller may read them.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn look(
    services: &Services,
    caller: &Caller,
    mut question: Question<'_>,
) -> Result<Findings, ServiceError> {
    let begun = Instant::now();
    let max_time = question.within.map_or(services.max_time, |within| within.min(services.max_time));
    let filter = Filter::equals("type_id", question.object_type.public_id);
    let mut query = FindQuery::new(filter, max_time).sorted(Sort::by("public_id", false));
    query.is_counted = false;
    let mut chunks = services.store.chunks(Objects::COLLECTION, &query).await?.documents;
    let (within, mut mover) = (question.within, question.mover.take());
    let mut looking = Looking::new(services, caller, question).await?;
    while let Some(chunk) = chunks.try_next().await? {
        let chunk = match &mut mover {
            Some(mover) => mover.moved(services, chunk).await?.documents,
            None => chunk,
        };
        looking.at(chunk).await?;
        if within.is_some_and(|within| begun.elapsed() >= within) {
            looking.walk.found.is_cut = true;
            break;
        }
    }
    Ok(Findings { moved: mover.map(Mover::into_tally), ..looking.walk.findings() })
}

/// The same for these objects.
///
/// # Errors
/// Errors of the store.
pub(super) async fn look_at(
    services: &Services,
    caller: &Caller,
    question: Question<'_>,
    objects: Documents,
) -> Result<Findings, ServiceError> {
    let mut looking = Looking::new(services, caller, question).await?;
    looking.at(objects).await?;
    Ok(looking.walk.findings())
}

/// A scan under way.
struct Looking<'s> {
    services: &'s Services,
    walk: Walk,
    targets: KnownTargets,
    held: usize,
}

impl<'s> Looking<'s> {
    async fn new(services: &'s Services, caller: &Caller, question: Question<'_>) -> Result<Self, ServiceError> {
        let types = services.current_types().await?;
        let targets =
            KnownTargets { visible: types.visible_to(caller), asked: HashSet::new(), found: Targets::default() };
        let walk = Walk::new(question.object_type, question.plain, question.only);
        Ok(Self { services, walk, targets, held: 0 })
    }

    async fn at(&mut self, chunk: Documents) -> Result<(), ServiceError> {
        let walk = std::mem::take(&mut self.walk);
        self.walk = admission::work(move |_| walk.over(&chunk)).await?;
        if !self.walk.references.is_empty() {
            self.targets.learn(self.services, &self.walk.references).await?;
            self.walk.judge(&self.targets);
        }
        self.walk.end_chunk();
        admission::current().hold(self.walk.bytes - self.held)?;
        self.held = self.walk.bytes;
        Ok(())
    }
}

/// A reference whose target is still to be looked up.
struct Pending {
    /// The place of the object in the chunk, and its id.
    object: (usize, i64),
    position: usize,
    target: i64,
}

/// What is known of the objects that others refer to.
struct KnownTargets {
    visible: Option<Filter>,
    /// The ids that were looked up.
    asked: HashSet<i64>,
    found: Targets,
}

impl KnownTargets {
    async fn learn(&mut self, services: &Services, pending: &[Pending]) -> Result<(), ServiceError> {
        if self.asked.len() > MOST_TARGETS {
            self.asked.clear();
            self.found = Targets::default();
        }
        let new: HashSet<i64> =
            pending.iter().map(|pending| pending.target).filter(|id| !self.asked.contains(id)).collect();
        self.found.extend(Targets::read(services, self.visible.clone(), new.iter().copied()).await?);
        self.asked.extend(new);
        Ok(())
    }
}

/// The state of a scan.
#[derive(Default)]
struct Walk {
    rules: Arc<FieldRules>,
    plain: HashSet<String>,
    /// For each field whether it is looked at; unknown ones by their names.
    wanted: Vec<bool>,
    only: Option<HashSet<String>>,
    /// Fields without which an object does not fit.
    needed: Vec<usize>,
    /// For each field the number of the object that had it last.
    seen: Vec<u64>,
    /// By field and rule.
    known: HashMap<(usize, Rule), Misfits>,
    unknown: HashMap<String, Misfits>,
    found: Findings,
    bytes: usize,
    /// For each object of the chunk: whether it has wrong values, and whether it has unknown fields.
    chunk: Vec<(bool, bool)>,
    references: Vec<Pending>,
}

impl Walk {
    fn new(object_type: &ObjectType, plain: HashSet<String>, only: Option<HashSet<String>>) -> Self {
        let rules = Arc::new(FieldRules::of(object_type));
        let is_wanted = |position: &usize| only.as_ref().is_none_or(|only| only.contains(rules.name(*position)));
        let all = 0..rules.count();
        let wanted: Vec<bool> = all.clone().map(|position| is_wanted(&position)).collect();
        let needed = all.filter(|position| rules.needs_entry(*position) && is_wanted(position)).collect();
        Self {
            plain,
            wanted,
            needed,
            seen: vec![0; rules.count()],
            rules,
            only,
            known: HashMap::new(),
            unknown: HashMap::new(),
            found: Findings::default(),
            bytes: 0,
            chunk: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Compares the values of these objects. References are gathered.
    fn over(mut self, chunk: &Documents) -> Self {
        for object in chunk.iter() {
            self.object(object);
        }
        self
    }

    fn object(&mut self, object: &RawDocument) {
        self.found.looked_at += 1;
        self.chunk.push((false, false));
        let (mut id, mut fields) = (0, None);
        for member in object.iter().map_while(Result::ok) {
            match member {
                (name, RawBsonRef::Int64(value)) if name == "public_id" => id = value,
                (name, RawBsonRef::Int32(value)) if name == "public_id" => id = i64::from(value),
                (name, RawBsonRef::Array(list)) if name == "fields" => fields = Some(list),
                _ => {}
            }
        }
        let mut guess = 0;
        for entry in fields.into_iter().flatten().map_while(Result::ok) {
            let RawBsonRef::Document(entry) = entry else { continue };
            let (mut name, mut value) = (None, RawBsonRef::Null);
            for member in entry.iter().map_while(Result::ok) {
                match member {
                    (of, RawBsonRef::String(text)) if of == "name" => name = Some(text),
                    (of, other) if of == "value" => value = other,
                    _ => {}
                }
            }
            let Some(name) = name else { continue };
            match self.rules.position(name, guess) {
                Some(position) => {
                    guess = position + 1;
                    self.entry(id, position, value);
                }
                None => self.unknown_entry(id, name, value),
            }
        }
        for index in 0..self.needed.len() {
            let position = self.needed[index];
            if self.seen[position] != self.found.looked_at {
                self.note(id, position, Rule::Required, RawBsonRef::Null);
            }
        }
    }

    fn entry(&mut self, id: i64, position: usize, value: RawBsonRef<'_>) {
        if !self.wanted[position] {
            return;
        }
        if std::mem::replace(&mut self.seen[position], self.found.looked_at) == self.found.looked_at {
            self.note(id, position, Rule::Twice, value);
        } else if let Some(rule) = self.rules.broken(position, value) {
            self.note(id, position, rule, value);
        } else if let Some(target) = reference(value).filter(|_| !self.rules.targets(position).is_empty()) {
            let object = (self.chunk.len() - 1, id);
            self.references.push(Pending { object, position, target });
        }
    }

    fn unknown_entry(&mut self, id: i64, name: &str, value: RawBsonRef<'_>) {
        if self.only.as_ref().is_some_and(|only| !only.contains(name)) {
            return;
        }
        if let Some(last) = self.chunk.last_mut() {
            last.1 = true;
        }
        if !self.unknown.contains_key(name) {
            if self.unknown.len() >= MOST_UNKNOWN {
                self.found.left_out += 1;
                return;
            }
            self.unknown.insert(name.to_owned(), Misfits::of(name, Rule::Unknown));
        }
        let is_plain = self.plain.contains(name);
        let room = self.bytes < MOST_BYTES;
        if let Some(group) = self.unknown.get_mut(name) {
            let reason = || "the type has no such field".to_owned();
            self.bytes += group.add(id, room, || (shown(value, is_plain), reason()));
        }
    }

    fn note(&mut self, id: i64, position: usize, rule: Rule, value: RawBsonRef<'_>) {
        if let Some(last) = self.chunk.last_mut() {
            last.0 = true;
        }
        self.add(id, position, rule, value);
    }

    fn add(&mut self, id: i64, position: usize, rule: Rule, value: RawBsonRef<'_>) {
        let rules = &self.rules;
        let name = rules.name(position);
        let is_plain = self.plain.contains(name);
        let room = self.bytes < MOST_BYTES;
        let group = self.known.entry((position, rule)).or_insert_with(|| Misfits::of(name, rule));
        self.bytes += group.add(id, room, || {
            let whole = Bson::try_from(value).unwrap_or(Bson::Null);
            let reason = match rule {
                Rule::RefTypes => other_type(reference(value).unwrap_or_default(), rules.targets(position)),
                Rule::Twice => format!("the field {name} is here twice"),
                rule => rules.reason(position, rule, &whole),
            };
            (shown(value, is_plain), reason)
        });
    }

    /// Decides on the references of the chunk.
    fn judge(&mut self, targets: &KnownTargets) {
        for Pending { object: (place, id), position, target } in std::mem::take(&mut self.references) {
            if targets.found.is_of_none(target, self.rules.targets(position)) {
                self.chunk[place].0 = true;
                self.add(id, position, Rule::RefTypes, RawBsonRef::Int64(target));
            }
        }
    }

    fn end_chunk(&mut self) {
        for (has_wrong_values, has_unknown_fields) in self.chunk.drain(..) {
            self.found.unfit += u64::from(has_wrong_values || has_unknown_fields);
            self.found.with_wrong_values += u64::from(has_wrong_values);
            self.found.with_unknown_fields += u64::from(has_unknown_fields);
        }
    }

    fn findings(self) -> Findings {
        let mut known: Vec<((usize, Rule), Misfits)> = self.known.into_iter().collect();
        known.sort_by_key(|(place, _)| *place);
        let mut unknown: Vec<Misfits> = self.unknown.into_values().collect();
        unknown.sort_by(|one, other| one.field.cmp(&other.field));
        let misfits = known.into_iter().map(|(_, group)| group).chain(unknown).collect();
        Findings { misfits, ..self.found }
    }
}

impl Misfits {
    fn of(field: &str, rule: Rule) -> Self {
        Self { field: field.to_owned(), rule, objects: 0, first: Vec::new() }
    }

    /// Counts an object, and returns how many bytes more are kept. An object that is twice in a group counts once.
    fn add(&mut self, public_id: i64, room: bool, example: impl FnOnce() -> (Bson, String)) -> usize {
        self.objects += 1;
        if !room {
            return 0;
        }
        Example::keep(&mut self.first, public_id, example)
    }
}

/// The id that a value refers to.
fn reference(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int64(id) => Some(id),
        RawBsonRef::Int32(id) => Some(i64::from(id)),
        _ => None,
    }
}
