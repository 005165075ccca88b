//! Collects what the views of a page need, round by round.

use std::collections::{BTreeSet, HashMap};

use super::catalog::RenderCatalog;
use super::fields::{MAX_DEPTH, section_of, taken_in};
use super::stored::{FieldValues, StoredObject, Subject};
use crate::domain::object_type::ObjectType;
use crate::raw::CorruptBson;

/// The ids to fetch: one query per kind that is not empty. Ids ascend without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needed {
    /// Ids of types.
    pub types: Vec<i64>,
    /// Ids of objects that are referred to.
    pub objects: Vec<i64>,
    /// Ids of authors and editors.
    pub users: Vec<i64>,
}

/// Collects what the views of a page need.
///
/// ```text
/// let mut gathering = Gathering::new();
/// while let Some(needed) = gathering.next_round(page, &catalog)? { /* fetch, add to the catalog */ }
/// ```
///
/// The number of rounds does not depend on the size of the page. If the catalog has all types from the start there are
/// at most three. The first one fetches users and objects. The others fetch further objects, if a `ref-section` leads
/// to an object with references. An initially empty catalog also needs rounds for types, before each of these and after
/// the last. So there are at most seven rounds, with at most four queries for types, three for objects and two for
/// users.
///
/// No id is fetched twice, so a missing target costs no further round.
#[derive(Debug, Clone, Default)]
pub struct Gathering {
    /// What was requested so far.
    types: BTreeSet<i64>,
    objects: BTreeSet<i64>,
    users: BTreeSet<i64>,
    leads_on: bool,
}

impl Gathering {
    /// For a new page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether fetched objects may refer to others that the views show. If not, and the catalog has all types, another
    /// round finds nothing.
    pub fn leads_on(&self) -> bool {
        self.leads_on
    }

    /// The ids that are still missing for the views of the page; `None` if none is.
    ///
    /// # Errors
    /// When one of the documents is not BSON.
    pub fn next_round<'s, 'd: 's, C: RenderCatalog + ?Sized>(
        &mut self,
        page: impl IntoIterator<Item = &'s Subject<'d>>,
        catalog: &C,
    ) -> Result<Option<Needed>, CorruptBson> {
        let mut round = Round { catalog, asked: self, needed: Needed::default(), reached: HashMap::new() };
        for subject in page {
            round.visit_subject(subject)?;
        }
        let Needed { mut types, mut objects, mut users } = round.needed;
        types.sort_unstable();
        objects.sort_unstable();
        users.sort_unstable();
        let is_complete = types.is_empty() && objects.is_empty() && users.is_empty();
        Ok((!is_complete).then_some(Needed { types, objects, users }))
    }
}

struct Round<'a, C: ?Sized> {
    catalog: &'a C,
    asked: &'a mut Gathering,
    needed: Needed,
    /// The smallest depth at which a `ref-section` reached an object: by object, referring type and field there.
    reached: HashMap<(i64, i64, usize), u32>,
}

impl<'a, C: RenderCatalog + ?Sized> Round<'a, C> {
    fn visit_subject(&mut self, subject: &Subject<'_>) -> Result<(), CorruptBson> {
        let stored = &subject.stored;
        self.need_user(stored.author_id);
        self.need_user(stored.editor_id);
        let Some(object_type) = self.known_type(stored.type_id) else { return Ok(()) };
        self.need_user(object_type.author_id);
        self.follow(subject.values(object_type)?, object_type, object_type.layout.references.iter().copied(), 0)
    }

    /// Follows those of the fields that refer.
    fn visit_fields(
        &mut self,
        stored: &StoredObject<'_>,
        object_type: &'a ObjectType,
        positions: impl Iterator<Item = usize> + Clone,
        depth: u32,
    ) -> Result<(), CorruptBson> {
        let referring = positions.filter(|&position| object_type.fields[position].is_reference());
        if depth >= MAX_DEPTH || referring.clone().next().is_none() {
            return Ok(());
        }
        let values = FieldValues::read_some(stored, object_type, true, referring.clone())?;
        self.follow(&values, object_type, referring, depth)
    }

    fn follow(
        &mut self,
        values: &FieldValues<'_>,
        object_type: &'a ObjectType,
        referring: impl Iterator<Item = usize>,
        depth: u32,
    ) -> Result<(), CorruptBson> {
        for position in referring {
            let value = values.at(position);
            let listed = Some(value.elements()).filter(|_| object_type.fields[position].refers_to_several());
            let listed = listed.into_iter().flatten().filter_map(|element| element.value.as_integer());
            for id in value.as_integer().into_iter().chain(listed) {
                self.visit_target(id, object_type, position, depth)?;
            }
        }
        Ok(())
    }

    fn visit_target(
        &mut self,
        id: i64,
        object_type: &'a ObjectType,
        position: usize,
        depth: u32,
    ) -> Result<(), CorruptBson> {
        let Some(document) = self.catalog.object(id) else {
            need(id, &mut self.asked.objects, &mut self.needed.objects);
            self.asked.leads_on |= section_of(object_type, &object_type.fields[position]).is_some();
            return Ok(());
        };
        let target = StoredObject::read_referred(document)?;
        let Some(target_type) = self.known_type(target.type_id) else { return Ok(()) };
        let Some(section) = section_of(object_type, &object_type.fields[position]) else { return Ok(()) };
        let reached = self.reached.entry((id, object_type.public_id, position)).or_insert(u32::MAX);
        if *reached <= depth {
            return Ok(());
        }
        *reached = depth;
        self.visit_fields(&target, target_type, taken_in(target_type, section), depth + 1)
    }

    /// The type if the catalog has it; otherwise it is requested.
    fn known_type(&mut self, id: Option<i64>) -> Option<&'a ObjectType> {
        let id = id?;
        let known = self.catalog.object_type(id);
        if known.is_none() {
            need(id, &mut self.asked.types, &mut self.needed.types);
        }
        known
    }

    fn need_user(&mut self, id: Option<i64>) {
        if let Some(id) = id.filter(|&id| self.catalog.user_name(id).is_none()) {
            need(id, &mut self.asked.users, &mut self.needed.users);
        }
    }
}

fn need(id: i64, asked: &mut BTreeSet<i64>, needed: &mut Vec<i64>) {
    if asked.insert(id) {
        needed.push(id);
    }
}
