//! Makes a case smaller that the stores answer differently, as long as they do so in the same way.

use bson::{Bson, Document};

use super::bench::{Answers, Bench};
use super::case::Case;
use super::culprit::inner_pipelines;
use super::verdict::{Verdict, verdict};

/// The maximum number of smaller cases that are tried.
const ATTEMPTS: usize = 1500;

/// The smallest case that was found, with its answers.
pub(super) async fn shrunk(bench: &mut Bench, mut case: Case, wanted: Verdict) -> (Case, Answers) {
    let mut attempts = 0;
    let mut position = 0;
    loop {
        // Continues where the last success was: everything before it was tried a moment ago.
        let candidates = smaller(&case);
        let count = candidates.len();
        let order = (0..count).map(|at| (at + position) % count.max(1));
        let mut candidates: Vec<Option<Case>> = candidates.into_iter().map(Some).collect();
        let mut better = None;
        for at in order {
            attempts += 1;
            let candidate = candidates[at].take().expect("each is tried once");
            if attempts < ATTEMPTS && is_still(bench, &candidate, wanted).await {
                better = Some((at, candidate));
                break;
            }
        }
        match better {
            Some((at, candidate)) => (position, case) = (at, candidate),
            None => break,
        }
    }
    bench.store(&case.documents, &case.indexes).await;
    let answers = bench.ask(&case.question).await;
    (case, answers)
}

async fn is_still(bench: &mut Bench, case: &Case, wanted: Verdict) -> bool {
    if case.question.pipeline.as_deref().is_some_and(has_groups_in_any_order) {
        return false;
    }
    let kept = bench.store(&case.documents, &case.indexes).await;
    if !kept.iter().all(|kept| *kept) {
        return false;
    }
    let answers = bench.ask(&case.question).await;
    verdict(bench, case, &answers).await == wanted
}

/// Whether groups come out in an order that is each store's own.
pub(super) fn has_groups_in_any_order(stages: &[Bson]) -> bool {
    let is_of = |stage: Option<&Bson>, name: &str| {
        stage.and_then(Bson::as_document).is_some_and(|stage| stage.contains_key(name))
    };
    let own = stages.iter().zip(1..).any(|(stage, next)| {
        let is_group = ["$group", "$sortByCount"].iter().any(|name| is_of(Some(stage), name));
        let sort = stages.get(next).and_then(|stage| stage.as_document()?.get_document("$sort").ok());
        is_group && !sort.is_some_and(|sort| sort.contains_key("_id"))
    });
    own || inner_pipelines(stages).iter().any(|inner| has_groups_in_any_order(inner))
}

/// Cases with a little less in them, what saves most first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut smaller = Vec::new();
    let before = case.line(Vec::new());
    let mut add = |change: &dyn Fn(&mut Case)| {
        let mut changed = case.clone();
        change(&mut changed);
        if changed.line(Vec::new()) != before || changed.question.counted != case.question.counted {
            smaller.push(changed);
        }
    };
    add(&|case| case.indexes.clear());
    add(&|case| case.question.projection = None);
    add(&|case| case.question.sort = None);
    add(&|case| (case.question.skip, case.question.limit) = (0, 0));
    add(&|case| case.question.counted = false);
    add(&|case| case.question.filter = Document::new());
    add(&|case| case.documents.truncate(case.documents.len() / 2));
    add(&|case| {
        case.documents.drain(..case.documents.len() / 2);
    });
    for at in 0..case.documents.len() {
        add(&|case| {
            case.documents.remove(at);
        });
    }
    for at in 0..case.indexes.len() {
        add(&|case| {
            case.indexes.remove(at);
        });
        add(&|case| case.indexes[at].unique = false);
        add(&|case| case.indexes[at].partial = None);
        for key in 0..case.indexes[at].keys.len() {
            add(&|case| {
                if case.indexes[at].keys.len() > 1 {
                    case.indexes[at].keys.remove(key);
                }
            });
        }
    }
    let question = &case.question;
    for filter in smaller_documents(&question.filter) {
        add(&|case| case.question.filter = filter.clone());
    }
    for stages in question.pipeline.iter().flat_map(|stages| smaller_values(&Bson::Array(stages.clone()))) {
        if let Bson::Array(stages) = stages {
            add(&|case| case.question.pipeline = Some(stages.clone()));
        }
    }
    for projection in question.projection.iter().flat_map(smaller_documents) {
        add(&|case| case.question.projection = Some(projection.clone()));
    }
    for sort in question.sort.iter().flat_map(smaller_documents) {
        add(&|case| case.question.sort = Some(sort.clone()));
    }
    for (at, document) in case.documents.iter().enumerate() {
        for document in smaller_documents(document).filter(|document| document.contains_key("_id")) {
            add(&|case| case.documents[at] = document.clone());
        }
    }
    smaller
}

fn smaller_documents(document: &Document) -> impl Iterator<Item = Document> {
    smaller_values(&Bson::Document(document.clone())).into_iter().filter_map(|value| match value {
        Bson::Document(document) => Some(document),
        _ => None,
    })
}

/// Values with a little less in them.
fn smaller_values(value: &Bson) -> Vec<Bson> {
    let mut smaller = Vec::new();
    match value {
        Bson::Document(document) => {
            let members: Vec<(&String, &Bson)> = document.iter().collect();
            let with = |at: usize, value: Option<Bson>| {
                let mut changed = Document::new();
                for (index, (name, own)) in members.iter().enumerate() {
                    match (&value, index == at) {
                        (Some(value), true) => changed.insert((*name).clone(), value.clone()),
                        (None, true) => None,
                        (_, false) => changed.insert((*name).clone(), (*own).clone()),
                    };
                }
                Bson::Document(changed)
            };
            for (at, (_, own)) in members.iter().enumerate() {
                smaller.push(with(at, None));
                // What is inside in place of what it is inside of.
                smaller.extend(own.as_document().map(|own| Bson::Document(own.clone())));
            }
            for (at, (_, own)) in members.iter().enumerate() {
                smaller.extend(smaller_values(own).into_iter().map(|value| with(at, Some(value))));
            }
        }
        Bson::Array(items) => {
            for at in 0..items.len() {
                let mut less = items.clone();
                smaller.push(less.remove(at));
                smaller.push(Bson::Array(less));
            }
            for (at, item) in items.iter().enumerate() {
                for value in smaller_values(item) {
                    let mut changed = items.clone();
                    changed[at] = value;
                    smaller.push(Bson::Array(changed));
                }
            }
        }
        Bson::String(text) if text.chars().count() > 1 => {
            smaller.push(Bson::String(text.chars().skip(1).collect()));
            let most = text.chars().count() - 1;
            smaller.push(Bson::String(text.chars().take(most).collect()));
        }
        Bson::Int32(0 | 1) | Bson::Null => {}
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => smaller.push(Bson::Int32(1)),
        _ => smaller.push(Bson::Null),
    }
    smaller
}
