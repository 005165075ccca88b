//! `f.<name>` against the language itself: documents with members are asked by their names, and the same values as the
//! fields of objects by `f.<name>`. Each store must find the same documents both times, and both stores the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Bson, DateTime, Document, Timestamp, doc};
use inventory_service::admission::Means;
use inventory_service::query::{Effort, FieldNames, Fields, Filter, Limits, QueryError};

use super::bench::{Answer, Answers, Bench, Stores};
use super::case::{Index, json_of};
use super::documents::Material;
use super::generator::{Generator, Question};
use super::random::Random;
use super::{CASES, SEED, USUAL_SEED, number};
use crate::support::mongod::{Deployment, Mongod, program};

/// When nothing is said.
const USUAL_CASES: u64 = 1000;
/// How many questions are asked about the same documents.
const QUESTIONS: u64 = 100;
/// How many filters are made until one can be asked by the names of members alone.
const TRIES: usize = 200;

/// All names that could be asked for.
struct AnyName;

impl FieldNames for AnyName {
    fn is_known(&self, name: &str, _: Option<&[i64]>) -> bool {
        is_simple(name)
    }

    fn known(&self, _: Option<&[i64]>) -> Vec<&str> {
        Vec::new()
    }
}

fn is_simple(name: &str) -> bool {
    !name.is_empty() && name != "_id" && !name.contains('.') && !name.starts_with('$')
}

/// The documents as objects: the members are entries among others.
fn objects(documents: &[Document]) -> Vec<Document> {
    let object = |document: &Document| {
        let members = document.iter().filter(|(name, _)| *name != "_id");
        let entries = members.map(|(name, value)| doc! { "name": name, "value": value.clone() });
        let entries = [doc! { "name": "another", "value": 1 }].into_iter().chain(entries);
        doc! { "_id": document.get("_id").expect("an _id").clone(), "fields": entries.collect::<Vec<Document>>() }
    };
    documents.iter().map(object).collect()
}

/// Gives each document all members that any of them has.
fn complete(material: &mut Material, random: &mut Random) {
    let names: BTreeSet<String> = material.documents.iter().flat_map(|document| document.keys().cloned()).collect();
    for document in &mut material.documents {
        for name in &names {
            if !document.contains_key(name) {
                document.insert(name, random.pick(&material.pool).clone());
            }
        }
    }
}

/// A server puts the time in the place of an empty timestamp at the top of a document, and nowhere else.
fn without_empty_timestamps(material: &mut Material) {
    let empty = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
    for (_, value) in material.documents.iter_mut().flat_map(|document| document.iter_mut()) {
        if *value == empty {
            *value = Bson::Timestamp(Timestamp { time: 0, increment: 1 });
        }
    }
}

/// The filter with `f.` before its paths; nothing when it asks for what is no member, or negates what may be missing.
fn by_field(filter: &Document, names: Option<&BTreeSet<&str>>) -> Option<Document> {
    let mut asked = Document::new();
    for (path, said) in filter {
        match (path.as_str(), said) {
            ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
                let parts: Option<Vec<Document>> =
                    parts.iter().map(|part| by_field(part.as_document()?, names)).collect();
                asked.insert(path, parts?);
            }
            _ => {
                let name = path.split('.').next()?;
                let is_asked = match names {
                    Some(all) => all.contains(name),
                    None => !is_negated(said),
                };
                if !is_simple(name) || !is_asked {
                    return None;
                }
                asked.insert(format!("f.{path}"), said.clone());
            }
        }
    }
    (!asked.is_empty()).then_some(asked)
}

/// Whether something at the top of what is said is a negation: of a field that is missing it says what MongoDB says of an
/// object without the entry, which docs/filters.md settles in another way for null.
fn is_negated(said: &Bson) -> bool {
    let Bson::Document(operators) = said else { return false };
    operators.keys().any(|name| ["$ne", "$nin", "$not"].contains(&name.as_str()))
}

fn rewritten(filter: &Document) -> Result<Filter, QueryError> {
    let fields = Fields::new(Arc::new(AnyName));
    fields.filter(filter, &Limits::NONE, DateTime::from_millis(0), &Effort::Work(Means::default(), None))
}

/// The bytes of what was found, in the order of bytes: NaN equals itself there.
type Ids = Option<BTreeSet<Vec<u8>>>;

fn ids(answer: &Answer) -> Ids {
    let found = answer.as_ref().ok()?;
    let id = |document: &bson::raw::RawDocumentBuf| {
        let id = document.get("_id").expect("it is BSON").expect("an _id");
        let only_id = doc! { "_id": Bson::try_from(id).expect("it is BSON") };
        only_id.to_vec().expect("it is BSON")
    };
    Some(found.documents.iter().map(id).collect())
}

/// What each of the stores finds.
fn all_ids(answers: &Answers) -> [Ids; 3] {
    [&answers.mongo, &answers.plain, &answers.indexed].map(ids)
}

fn told(ids: &Ids) -> String {
    let Some(ids) = ids else { return "an error".to_owned() };
    let readable = ids
        .iter()
        .map(|id| Document::from_reader(&**id).map_or_else(|error| error.to_string(), |it| json_of(&it).to_string()));
    readable.collect::<Vec<String>>().join(", ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_is_asked_for_as_a_member_would_be() {
    let Some(program) = program() else { return };
    let seed = number(SEED).unwrap_or(USUAL_SEED);
    let cases = number(CASES).unwrap_or(USUAL_CASES);
    let server = Mongod::start(program, Deployment::Standalone).await;
    let mut bench = Bench::new(Stores::on(&server).await, 0).await;
    let (mut asked, mut found, mut failures) = (0, 0, Vec::new());
    for set in 0..cases.div_ceil(QUESTIONS) {
        let mut random = Random::new(seed, set);
        let mut material = Material::new(&mut random);
        let is_complete = set % 2 == 0;
        if is_complete {
            complete(&mut material, &mut random);
        }
        without_empty_timestamps(&mut material);
        let kept = bench.store(&material.documents, &[]).await;
        material.keep(&kept);
        let names: BTreeSet<&str> = material.documents.iter().flat_map(|it| it.keys().map(String::as_str)).collect();
        let mut generator = Generator::new(random, &material);
        let mut questions = Vec::new();
        for _ in 0..QUESTIONS.min(cases - set * QUESTIONS) {
            let made = (0..TRIES).find_map(|_| {
                let filter = generator.filter();
                let asked = by_field(&filter, is_complete.then_some(&names))?;
                Some((filter, asked))
            });
            let Some((filter, asked)) = made else { continue };
            let answers = bench.ask(&Question { filter, ..Question::default() }).await;
            questions.push((asked, all_ids(&answers)));
        }
        let keys = ["fields.name", "fields.value"].map(|path| (path.to_owned(), false)).to_vec();
        bench.store(&objects(&material.documents), &[Index { keys, unique: false, partial: None }]).await;
        for (filter, expected) in questions {
            asked += 1;
            let answers = match rewritten(&filter) {
                Ok(filter) => {
                    all_ids(&bench.ask(&Question { filter: filter.document().clone(), ..Question::default() }).await)
                }
                Err(_) => [None, None, None],
            };
            found += u64::from(expected[0].as_ref().is_some_and(|ids| !ids.is_empty()));
            for (expected, answer) in expected.iter().zip(&answers) {
                if expected != answer {
                    failures.push(format!("{}: {} instead of {}", json_of(&filter), told(answer), told(expected)));
                }
            }
        }
    }
    eprintln!("{SEED}={seed} {asked} questions, {found} with documents, {} differences", failures.len());
    assert!(failures.is_empty(), "with {SEED}={seed}:\n{}", failures.join("\n"));
    assert!(asked * 2 > cases && found * 10 > asked, "{asked} questions, {found} with documents");
}
