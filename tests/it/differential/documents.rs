//! Sets of documents, and what questions about them can be made of: their paths and the values there.

use std::collections::BTreeSet;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use inventory_service::query::compare::compare_bson;

use super::random::Random;
use super::values::{self, dates, numbers, scalar, texts, value};

/// Documents that are asked about together.
#[derive(Debug, Clone)]
pub(super) struct Material {
    /// In the order of their `_id`s, so that it is the order of insertion and of the index on `_id` alike.
    pub(super) documents: Vec<Document>,
    /// The values that most of the documents are made of.
    pub(super) pool: Vec<Bson>,
    /// Paths that lead somewhere, and what is there in some document.
    pub(super) places: Vec<(String, Bson)>,
}

/// The names of members whose type is known, for expressions that would otherwise mostly fail.
pub(super) const TYPED: [&str; 5] = ["n", "s", "t", "d", "o"];

/// The name of a member that has arrays within the elements of an array, and paths through both.
pub(super) const ENTRIES: &str = "g";
pub(super) const ENTRY_PATHS: [&str; 4] = ["g.x.x", "g.x.y", "g.y", "g.x"];

impl Material {
    pub(super) fn new(random: &mut Random) -> Self {
        let mut pool: Vec<Bson> = (0..5 + random.below(8)).map(|_| scalar(random)).collect();
        // Some small numbers in every pool: they meet each other.
        pool.extend([Bson::Int32(1), Bson::Int32(2), Bson::Null]);
        let count = random.below(9);
        let mut documents: Vec<Document> = Vec::with_capacity(count);
        for (number, id) in ids(random, count).into_iter().enumerate() {
            let like = documents.get(number.saturating_sub(1)).cloned();
            documents.push(document(random, &pool, id, like));
        }
        let mut places = Vec::new();
        for document in &documents {
            collect("", &Bson::Document(document.clone()), &mut places, 0);
        }
        Self { documents, pool, places }
    }

    /// Forgets the documents that are not among those kept.
    pub(super) fn keep(&mut self, kept: &[bool]) {
        let mut kept = kept.iter();
        self.documents.retain(|_| *kept.next().expect("a word for each document"));
    }
}

/// The stored form of a document.
pub(super) fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("documents of tests are BSON")
}

/// Different `_id`s in ascending order: small numbers, or whatever may be one.
fn ids(random: &mut Random, count: usize) -> Vec<Bson> {
    if random.percent(70) {
        return (1..).take(count).map(Bson::Int32).collect();
    }
    let mut ids: Vec<Bson> = Vec::new();
    while ids.len() < count {
        let id = match random.below(6) {
            0 => Bson::Document(doc! { "x": scalar(random) }),
            1 => Bson::Int32(random.between(-3, 20)),
            _ => scalar(random),
        };
        let may_be = !matches!(id, Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined);
        if may_be && ids.iter().all(|other| compare_bson(other, &id).is_ne()) {
            ids.push(id);
        }
    }
    ids.sort_by(compare_bson);
    ids
}

fn document(random: &mut Random, pool: &[Bson], id: Bson, like: Option<Document>) -> Document {
    let mut document = doc! { "_id": id };
    if let Some(like) = like.filter(|_| random.percent(25)) {
        // Nearly the same as the one before it.
        document.extend(like.into_iter().filter(|(name, _)| name != "_id" && !random.percent(20)));
        return document;
    }
    for name in ["a", "b", "c"] {
        if random.percent(75) {
            document.insert(name, value(random, pool, 3));
        }
    }
    if random.percent(10) {
        let name = *random.pick(&["", "0", "$x", "a.b", "ä", "x"]);
        document.insert(name, value(random, pool, 1));
    }
    if random.percent(40) {
        document.insert(ENTRIES, entries(random));
    }
    for name in TYPED {
        if random.percent(60) {
            let value = typed(random, pool, name);
            document.insert(name, value);
        }
    }
    without_empty_timestamp(document)
}

/// Entries that have entries themselves, of few small numbers, so that questions meet them.
fn entries(random: &mut Random) -> Bson {
    let inner = |random: &mut Random| Bson::from(doc! { "x": random.between(0, 3), "y": random.between(0, 3) });
    let outer = |random: &mut Random| {
        let within = match random.below(6) {
            0 => inner(random),
            _ => Bson::Array((0..random.below(4)).map(|_| inner(random)).collect()),
        };
        Bson::from(doc! { "x": within, "y": random.between(0, 3) })
    };
    if random.percent(15) {
        return outer(random);
    }
    Bson::Array((0..random.below(4)).map(|_| outer(random)).collect())
}

/// A server replaces an empty timestamp at the top level by its time.
fn without_empty_timestamp(document: Document) -> Document {
    let empty = Bson::Timestamp(bson::Timestamp { time: 0, increment: 0 });
    document.into_iter().filter(|(name, value)| name == "_id" || *value != empty).collect()
}

/// A number, a text, an array ("tuple"), a date, a document ("object").
fn typed(random: &mut Random, pool: &[Bson], name: &str) -> Bson {
    if random.percent(4) {
        return Bson::Null;
    }
    match name {
        "n" => random.pick(numbers()).clone(),
        "s" => random.pick(texts()).clone(),
        "t" => {
            let homogeneous = random.percent(50);
            let of_one = |random: &mut Random| {
                if homogeneous { Bson::Int32(random.between(-2, 6)) } else { value(random, pool, 1) }
            };
            Bson::Array((0..random.below(5)).map(|_| of_one(random)).collect())
        }
        // Mostly real dates in years of four digits, which come first in the table.
        "d" => {
            let most = if random.percent(85) { 9 } else { dates().len() };
            random.pick(&dates()[..most]).clone()
        }
        _ => {
            let names = &values::INNER_NAMES[..4];
            Bson::Document(
                (0..random.below(4)).map(|_| ((*random.pick(names)).to_owned(), value(random, pool, 1))).collect(),
            )
        }
    }
}

/// Paths into the value: through documents, by positions of arrays and through their elements.
fn collect(path: &str, value: &Bson, places: &mut Vec<(String, Bson)>, depth: usize) {
    if !path.is_empty() {
        places.push((path.to_owned(), value.clone()));
    }
    if depth > 4 {
        return;
    }
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Bson::Document(document) => {
            for (name, value) in document {
                collect(&below(name), value, places, depth + 1);
            }
        }
        Bson::Array(items) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                if index < 2 {
                    collect(&below(&index.to_string()), item, places, depth + 1);
                }
                match item {
                    Bson::Document(document) => {
                        for (name, value) in document {
                            if seen.insert(name) {
                                collect(&below(name), value, places, depth + 1);
                            }
                        }
                    }
                    // An element is what a condition on the array is about.
                    _ => places.push((path.to_owned(), item.clone())),
                }
            }
        }
        _ => {}
    }
}
