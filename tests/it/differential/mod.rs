//! The same question to both stores: random documents, filters, projections and sorts, asked of a MongoDB server and of
//! the embedded store through the port. The answers must be equal to the byte, or both must refuse.
//!
//! `INVENTORY_DIFFERENTIAL_CASES` sets the number of questions, `INVENTORY_DIFFERENTIAL_SEED` what they are;
//! `INVENTORY_DIFFERENTIAL_NUMBERS` names a file for questions that both refuse with different numbers, and those whose answers
//! differ as they must. A question is also
//! asked of a collection of the embedded store with random indexes. One that is answered differently is made smaller and
//! printed as a line for a file of `tests/questions`, whose cases are asked of both stores each time.

mod bench;
mod case;
mod culprit;
mod documents;
mod expressions;
mod fields;
mod filters;
mod generator;
mod lanes;
mod operators;
pub(crate) mod pipelines;
mod projections;
mod questions;
pub(crate) mod random;
mod schemas;
mod shrink;
mod through;
mod values;
mod verdict;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bson::Bson;
use inventory_service::query::{Expression, Filter};

use crate::support::mongod::{Deployment, Mongod, program};

const CASES: &str = "INVENTORY_DIFFERENTIAL_CASES";
const SEED: &str = "INVENTORY_DIFFERENTIAL_SEED";
const NUMBERS: &str = "INVENTORY_DIFFERENTIAL_NUMBERS";

/// The number of cases by default: quick enough for every run of the tests.
const USUAL_CASES: u64 = 2000;

/// The seed by default: the same questions each time, so that a run that fails shows an effect of the change before it.
/// Other seeds look for differences that were not found yet.
const USUAL_SEED: u64 = 3000;

/// How many cases a test has that usually has `usual` of them: [`CASES`] is for the questions here, and others keep in
/// step.
fn cases(usual: u64) -> u64 {
    number(CASES).map_or(usual, |cases| (cases * usual).div_ceil(USUAL_CASES))
}

/// The number that a variable of the environment holds, if it is set.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    Some(text.to_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{variable} must be a number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_give_the_same_answers_to_random_questions() {
    compare(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_give_the_same_answers_to_random_pipelines() {
    compare(true).await;
}

async fn compare(pipelines: bool) {
    let Some(program) = program() else { return };
    let seed = number(SEED).unwrap_or(USUAL_SEED);
    let cases = cases(USUAL_CASES);
    eprintln!("{SEED}={seed} {CASES}={cases}");
    // Without a sort the server gives documents in the order of their insertion, as the embedded store does.
    let server = Mongod::start(program, Deployment::ReplicaSet).await;
    let stores = bench::Stores::on(&server).await;
    let summary = lanes::run(stores, (seed, cases), pipelines, std::env::var_os(NUMBERS).is_some()).await;
    eprintln!("{SEED}={seed} {}", summary.line());
    if let Some(path) = std::env::var_os(NUMBERS) {
        let mut lines =
            summary.other_numbers.iter().fold(String::new(), |mut lines, ((mongo, ours), (count, example))| {
                let _ = writeln!(lines, "{count} MongoDB {mongo:?}, here {ours:?}: {example}");
                lines
            });
        for line in summary.differing.values().flatten() {
            let _ = writeln!(lines, "{line}");
        }
        std::fs::write(path, lines).expect("the file can be written");
    }
    assert!(summary.failures.is_empty(), "with {SEED}={seed}:\n{}", summary.failures.join("\n"));
    assert_eq!(summary.cases, cases);
}

/// What no client may use, or what the embedded store has no index or no chance for: docs/filters.md, What is refused.
const NOT_ASKED: [&str; 13] = [
    "$where", "$function", "$_internalJsEmit", "$text", "$meta", "$near", "$nearSphere", "$geoNear", "$geoWithin",
    "$geoIntersects", "$within", // Two stores would draw two numbers.
    "$rand", "$sampleRate",
];

/// The names with a dollar sign in front that are anywhere in a value.
fn add_operators(value: &Bson, names: &mut BTreeSet<String>) {
    match value {
        Bson::Document(document) => {
            for (name, value) in document {
                if name.starts_with('$') {
                    names.insert(name.clone());
                }
                add_operators(value, names);
            }
        }
        Bson::Array(items) => items.iter().for_each(|item| add_operators(item, names)),
        _ => {}
    }
}

#[test]
fn every_operator_of_the_language_is_asked_about() {
    let mut asked = BTreeSet::new();
    for number in 0..400 {
        let mut random = random::Random::new(USUAL_SEED, number);
        let material = documents::Material::new(&mut random);
        let mut generator = generator::Generator::new(random, &material);
        for _ in 0..50 {
            let question = generator.question();
            add_operators(&question.filter.into(), &mut asked);
            add_operators(&question.projection.unwrap_or_default().into(), &mut asked);
        }
    }
    let known = Filter::operators().chain(Expression::operators()).filter(|name| !NOT_ASKED.contains(name));
    let missing: BTreeSet<&str> = known.filter(|name| !asked.contains(*name)).collect();
    assert!(missing.is_empty(), "the generator does not know {missing:?}");
}
