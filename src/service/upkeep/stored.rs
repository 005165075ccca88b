//! Looks at every stored document, and finds those that the service cannot show correctly. For `check --deep`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bson::RawBson;
use bson::raw::{RawBsonRef, RawDocument};
use futures::StreamExt;

use crate::domain::document::{integer, text};
use crate::domain::stored::Stored;
use crate::plural::counted;
use crate::query::Sort;
use crate::service::claims::rules::Rules;
use crate::service::search::documents::{DERIVED, object_of};
use crate::service::search::state::is_made;
use crate::service::types::catalog::{TypeEntry, compiled};
use crate::store::collections::{
    CATEGORIES, CLAIMS, CREDENTIALS, GROUPS, OBJECTS, SEARCH, SEARCH_WORK, SETTINGS, TOKENS, TYPES, UNIQUE, USERS,
};
use crate::store::{Copying, Documents, Dump, StoreError};

/// The collections, those that others refer to first.
const LOOKED_AT: [(&str, Stored); 8] = [
    (TYPES, Stored::Type),
    (GROUPS, Stored::Group),
    (CATEGORIES, Stored::Category),
    (USERS, Stored::User),
    (CREDENTIALS, Stored::Credential),
    (SETTINGS, Stored::Setting),
    (TOKENS, Stored::Token),
    (OBJECTS, Stored::Object),
];

/// More documents than this are only counted.
const MOST_LISTED: usize = 100;
/// A note names as many ids.
const MOST_IDS: usize = 10;
/// Longer values of `_id` and `public_id` are cut off.
const LONGEST_ID: usize = 80;

/// What a look at all documents found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// How many documents were read.
    pub documents: u64,
    /// How many of them are wrong.
    pub wrong: u64,
    /// The first of those, a line each; objects whose claims or words are wrong share a line.
    pub listed: Vec<String>,
    /// How many are in no line.
    pub unlisted: u64,
    /// Information without a fault.
    pub notes: Vec<String>,
}

/// Reads all documents of the service. It keeps ids of types and groups in memory, claims, and a hash of the words of each object.
///
/// # Errors
/// Those of the store.
pub async fn look(store: &dyn Copying) -> Result<Look, StoreError> {
    let mut look = Look::default();
    let (mut types, mut groups) = (HashSet::new(), HashSet::new());
    let mut dump = store.live_dump().await?;
    let mut claimed = Claimed::read(&mut *dump).await?;
    let mut searched = Searched::read(&mut *dump).await?;
    for (collection, kind) in LOOKED_AT {
        let mut lost = Lost::default();
        // In this order documents of one id are neighbours. The unique index of the embedded store lets in no two, and
        // its order needs that index.
        let is_ordered = store.is_remote() && kind.has_public_id();
        let order = if is_ordered { Sort::by("public_id", false) } else { Sort::default() };
        read(&mut *dump, (collection, kind), &order, &mut look, |document| match kind {
            Stored::Type => {
                types.extend(integer(document, "public_id"));
                searched.note_type(document);
            }
            Stored::Group => groups.extend(integer(document, "public_id")),
            Stored::Object => {
                lost.unless_known(&types, integer(document, "type_id"));
                claimed.compare(document);
                searched.compare(document);
            }
            Stored::User => lost.unless_known(&groups, integer(document, "group_id")),
            Stored::Category | Stored::Credential | Stored::Setting | Stored::Token => {}
        })
        .await?;
        let what = if kind == Stored::User { "group" } else { "type" };
        look.notes.extend(lost.note(collection, what));
    }
    claimed.complain(&mut look);
    searched.complain(&mut look);
    Ok(look)
}

async fn read(
    dump: &mut dyn Dump,
    (collection, kind): (&str, Stored),
    order: &Sort,
    look: &mut Look,
    mut also: impl FnMut(&RawDocument),
) -> Result<(), StoreError> {
    let mut chunks = dump.documents(collection, order).await?;
    let mut before = None;
    while let Some(chunk) = chunks.next().await {
        for document in chunk?.iter() {
            look.documents += 1;
            let mut problems = kind.problems(document);
            if kind.has_public_id() {
                let id = integer(document, "public_id");
                if id.is_some() && id == before {
                    problems.push("another document has the same public_id".to_owned());
                }
                before = id;
            }
            also(document);
            if !problems.is_empty() {
                look.add(collection, kind, document, &problems);
            }
        }
    }
    Ok(())
}

impl Look {
    /// One line about all objects that are wrong in one way. `line` makes it of their number and of the first ids.
    fn complain(&mut self, wrong: &BTreeSet<i64>, line: impl FnOnce(String, String) -> String) {
        if wrong.is_empty() {
            return;
        }
        self.wrong += wrong.len() as u64;
        let ids: Vec<String> = wrong.iter().take(MOST_IDS).map(i64::to_string).collect();
        self.listed.push(line(counted(wrong.len() as u64, "object"), ids.join(", ")));
    }

    fn add(&mut self, collection: &str, kind: Stored, document: &RawDocument, problems: &[String]) {
        self.wrong += 1;
        if self.listed.len() >= MOST_LISTED {
            self.unlisted += 1;
            return;
        }
        let (key, problems) = (shown(document, "_id"), problems.join("; "));
        self.listed.push(if kind.has_public_id() {
            let id = shown(document, "public_id");
            format!("{collection}: _id {key}, public_id {id}: {problems}")
        } else {
            format!("{collection}: _id {key}: {problems}")
        });
    }
}

/// The value of a member on one line, not too long.
fn shown(document: &RawDocument, name: &str) -> String {
    let Ok(Some(value)) = document.get(name) else { return "none".to_owned() };
    let text = match value {
        RawBsonRef::ObjectId(id) => id.to_hex(),
        value => {
            RawBson::from(value).try_into().map_or_else(|_| "none".to_owned(), |value: bson::Bson| value.to_string())
        }
    };
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    match line.char_indices().nth(LONGEST_ID) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// The claims to unique values that no object has met yet.
struct Claimed {
    rules: Rules,
    objects: HashMap<String, i64>,
    wrong: BTreeSet<i64>,
}

impl Claimed {
    async fn read(dump: &mut dyn Dump) -> Result<Self, StoreError> {
        let (mut rules, mut objects) = (Rules::default(), HashMap::new());
        let mut chunks = dump.documents(UNIQUE, &Sort::default()).await?;
        while let Some(chunk) = chunks.next().await {
            if let Some(document) = chunk?.first() {
                rules = Rules::of(document)?;
            }
        }
        drop(chunks);
        let mut chunks = dump.documents(CLAIMS, &Sort::default()).await?;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            let claims = chunk.iter().filter_map(|it| Some((text(it, "_id")?.to_owned(), integer(it, "object")?)));
            // Those of rules that are gone, or that are not made yet, have no effect.
            objects.extend(claims.filter(|(id, _)| rules.has_made(id)));
        }
        Ok(Self { rules, objects, wrong: BTreeSet::new() })
    }

    fn compare(&mut self, object: &RawDocument) {
        let (Some(id), Some(type_id)) = (integer(object, "public_id"), integer(object, "type_id")) else { return };
        let claims = self.rules.made(type_id).flat_map(|rule| rule.claims(object));
        let wrong = claims.filter(|claim| self.objects.remove(claim) != Some(id)).count();
        self.wrong.extend((wrong > 0).then_some(id));
    }

    fn complain(mut self, look: &mut Look) {
        self.wrong.extend(self.objects.values());
        look.complain(&self.wrong, |objects, ids| {
            format!(
                "{CLAIMS}: the unique values of {objects} are not claimed as they are, for instance of {ids}: another tool has \
                 changed them; send \"unique\": false for the field, then what it was"
            )
        });
    }
}

/// The documents of search and of indexes that no object has met yet.
struct Searched {
    /// A hash of each, by its collection and the id of its object.
    hashes: HashMap<(&'static str, i64), u64>,
    types: HashMap<i64, Arc<TypeEntry>>,
    /// Whether they are all there.
    is_complete: bool,
    wrong: BTreeSet<i64>,
}

impl Searched {
    async fn read(dump: &mut dyn Dump) -> Result<Self, StoreError> {
        let mut work = Documents::new();
        let mut chunks = dump.documents(SEARCH_WORK, &Sort::default()).await?;
        while let Some(chunk) = chunks.next().await {
            chunk?.iter().for_each(|document| work.push(document));
        }
        drop(chunks);
        let is_complete = is_made(&work) && work.len() == 1;
        let mut hashes = HashMap::new();
        for (collection, _) in DERIVED {
            let mut chunks = dump.documents(collection, &Sort::default()).await?;
            while let Some(chunk) = chunks.next().await {
                hashes.extend(chunk?.iter().filter_map(|it| Some(((collection, object_of(it)?), hash(it)))));
            }
        }
        Ok(Self { hashes, types: HashMap::new(), is_complete, wrong: BTreeSet::new() })
    }

    fn note_type(&mut self, object_type: &RawDocument) {
        if let Ok(entry) = compiled(object_type) {
            self.types.insert(entry.object_type.public_id, entry);
        }
    }

    fn compare(&mut self, object: &RawDocument) {
        let Some(id) = integer(object, "public_id") else { return };
        let entry = integer(object, "type_id").and_then(|id| self.types.get(&id));
        for (collection, make) in DERIVED {
            let expected = make(object, entry.map(|entry| &**entry));
            if self.hashes.remove(&(collection, id)) != expected.as_deref().map(hash) {
                self.wrong.insert(id);
            }
        }
    }

    fn complain(mut self, look: &mut Look) {
        if !self.is_complete {
            look.notes.push(format!("{SEARCH}: the index of words is not complete yet, and was not compared"));
            return;
        }
        self.wrong.extend(self.hashes.keys().map(|(_, id)| id));
        look.complain(&self.wrong, |objects, ids| {
            format!(
                "{SEARCH}: the words of {objects} are not those of their values, for instance of {ids}: another tool has changed \
                 them; inventory-service reindex makes them again"
            )
        });
    }
}

fn hash(document: &RawDocument) -> u64 {
    xxhash_rust::xxh3::xxh3_64(document.as_bytes())
}

/// References to documents that are not there.
#[derive(Default)]
struct Lost {
    documents: u64,
    ids: BTreeSet<i64>,
}

impl Lost {
    fn unless_known(&mut self, known: &HashSet<i64>, id: Option<i64>) {
        let Some(id) = id.filter(|id| !known.contains(id)) else { return };
        self.documents += 1;
        if self.ids.len() < MOST_IDS {
            self.ids.insert(id);
        }
    }

    fn note(&self, collection: &str, what: &str) -> Option<String> {
        let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
        let named = ids.join(", ");
        let documents = counted(self.documents, "document");
        (self.documents > 0).then(|| format!("{collection}: {documents} of a {what} that does not exist: {named}"))
    }
}
