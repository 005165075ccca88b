//! Runs many cases, several lanes at once, and sums up what came of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bson::Document;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::bench::{Answer, Bench, Refusal, Stores};
use super::case::{Case, json_of, random_indexes};
use super::documents::Material;
use super::generator::Generator;
use super::random::Random;
use super::shrink::shrunk;
use super::verdict::{Known, Verdict, verdict};

/// How many sets of documents are under way at once.
const LANES: u64 = 6;
/// How many questions are asked about the same documents.
const QUESTIONS: u64 = 100;
/// The number of differences after which the run ends.
const ENOUGH: usize = 20;

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) cases: u64,
    found: u64,
    empty: u64,
    refused: u64,
    same_number: u64,
    known: BTreeMap<Known, u64>,
    /// Lines for a data file.
    pub(super) failures: Vec<String>,
    /// Questions that both refuse, with different numbers: the first of each pair of numbers.
    pub(super) other_numbers: BTreeMap<(Option<i32>, Option<i32>), (u64, String)>,
    /// Questions whose answers differ as they must: some of each sort, where they were asked for.
    pub(super) differing: BTreeMap<Known, Vec<String>>,
}

/// The maximum number of questions shown of each sort whose answers must differ.
const SHOWN: usize = 40;

/// Asks this number of questions.
///
/// `shows_known`: keeps questions whose answers must differ, made smaller, which takes its time.
pub(super) async fn run(stores: Arc<Stores>, (seed, cases): (u64, u64), pipelines: bool, shows_known: bool) -> Summary {
    let next = Arc::new(AtomicU64::new(0));
    let enough = Arc::new(AtomicBool::new(false));
    let summary = Arc::new(Mutex::new(Summary::default()));
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let (stores, next, enough, summary) =
            (Arc::clone(&stores), Arc::clone(&next), Arc::clone(&enough), Arc::clone(&summary));
        lanes.spawn(async move {
            let mut bench = Bench::new(stores, usize::try_from(lane).expect("few")).await;
            while !enough.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let left = cases.saturating_sub(number * QUESTIONS).min(QUESTIONS);
                if left == 0 {
                    break;
                }
                let batch = ask_all(&mut bench, (seed, number), (left, pipelines), shows_known).await;
                let mut summary = summary.lock().expect("no lane panics while it adds");
                summary.add(batch);
                enough.fetch_or(summary.failures.len() >= ENOUGH, Ordering::Relaxed);
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("a lane ends well");
    }
    Arc::into_inner(summary).expect("the lanes have ended").into_inner().expect("no lane panicked")
}

/// One set of documents, and the questions about it.
async fn ask_all(
    bench: &mut Bench,
    (seed, number): (u64, u64),
    (questions, pipelines): (u64, bool),
    shows_known: bool,
) -> Summary {
    let mut random = Random::new(seed, number);
    let mut material = Material::new(&mut random);
    let indexes = random_indexes(&mut random, &material.places);
    let kept = bench.store(&material.documents, &indexes).await;
    material.keep(&kept);
    let mut summary = Summary::default();
    let mut generator = Generator::new(random, &material);
    if pipelines {
        generator = generator.of_pipelines();
    }
    for _ in 0..questions {
        let question = generator.question();
        let answers = bench.ask(&question).await;
        let case = Case { documents: Vec::new(), indexes: Vec::new(), question };
        if let Err(Refusal { code: None, words, .. }) = &answers.mongo
            && ["I/O error", "Server selection timeout"].iter().any(|end| words.contains(end))
        {
            let case = Case { documents: material.documents.clone(), ..case };
            panic!("the server has ended; a question that was under way: {}\n{words}", case.line(Vec::new()));
        }
        summary.cases += 1;
        match verdict(bench, &case, &answers).await {
            Verdict::Equal { found: true } => summary.found += 1,
            Verdict::Equal { found: false } => summary.empty += 1,
            Verdict::Known(known) => {
                *summary.known.entry(known).or_default() += 1;
                if shows_known {
                    let case = Case { documents: material.documents.clone(), indexes: indexes.clone(), ..case };
                    let line = failure(bench, case, Verdict::Known(known)).await;
                    summary.differing.entry(known).or_default().push(line);
                    bench.store(&material.documents, &indexes).await;
                }
            }
            Verdict::Refused { same_number } => {
                summary.refused += 1;
                summary.same_number += u64::from(same_number);
                {
                    let numbers = (number_of(&answers.mongo), number_of(&answers.plain));
                    let case = Case { documents: material.documents.clone(), ..case };
                    summary.other_numbers.entry(numbers).or_insert_with(|| (0, case.line(Vec::new()))).0 += 1;
                }
            }
            different @ Verdict::Different(_) => {
                let case = Case { documents: material.documents.clone(), indexes: indexes.clone(), ..case };
                summary.failures.push(failure(bench, case, different).await);
                bench.store(&material.documents, &indexes).await;
            }
        }
    }
    summary
}

fn number_of(answer: &Answer) -> Option<i32> {
    answer.as_ref().err().and_then(|refusal| refusal.code)
}

/// The smallest case of the same sort, as a line of a data file, and below it what the embedded store says.
async fn failure(bench: &mut Bench, case: Case, verdict: Verdict) -> String {
    let (case, answers) = shrunk(bench, case, verdict).await;
    let mut line = case.line(expected(&answers.mongo));
    let _ = write!(line, "\n    {verdict:?}\n    embedded: {}", show(&answers.plain));
    if let Err(refusal) = &answers.mongo {
        let _ = write!(line, "\n    mongodb:  {}", refusal.words);
    }
    if show(&answers.adapter) != show(&answers.plain) {
        let _ = write!(line, "\n    adapter:  {}", show(&answers.adapter));
    }
    if show(&answers.indexed) != show(&answers.plain) {
        let _ = write!(line, "\n    indexed:  {}", show(&answers.indexed));
    }
    line
}

fn expected(answer: &Answer) -> Vec<(&'static str, Value)> {
    let mut expected = match answer {
        Ok(found) => {
            let results = found.documents.iter().map(|document| match Document::try_from(document) {
                Ok(document) => json_of(&document),
                // A server may answer with what is no BSON, which no data file can expect.
                Err(error) => json!({ "$broken": format!("{error}: {:02x?}", document.as_bytes()) }),
            });
            let total = found.total.map(|total| ("total", json!(total)));
            [("results", Value::Array(results.collect()))].into_iter().chain(total).collect()
        }
        Err(refusal) => vec![("error", json!(refusal.code))],
    };
    expected.push(("reason", json!("")));
    expected
}

/// An answer for people.
pub(super) fn show(answer: &Answer) -> String {
    match answer {
        Ok(_) => expected(answer)[0].1.to_string(),
        Err(refusal) => format!("error {:?}: {}", refusal.code, refusal.words),
    }
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.found += other.found;
        self.empty += other.empty;
        self.refused += other.refused;
        self.same_number += other.same_number;
        for (known, count) in other.known {
            *self.known.entry(known).or_default() += count;
        }
        for (numbers, (count, example)) in other.other_numbers {
            self.other_numbers.entry(numbers).or_insert((0, example)).0 += count;
        }
        for (known, lines) in other.differing {
            let all = self.differing.entry(known).or_default();
            all.extend(lines);
            all.truncate(SHOWN);
        }
        self.failures.extend(other.failures);
    }

    /// One line.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "{} cases: {} equal answers with documents, {} without, {} refused by both ({} with the same number)",
            self.cases, self.found, self.empty, self.refused, self.same_number
        );
        for (known, count) in &self.known {
            let _ = write!(line, ", {count} {}", known.reason());
        }
        let _ = write!(line, ", {} differences", self.failures.len());
        line
    }
}
