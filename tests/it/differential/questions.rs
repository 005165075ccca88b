//! Asks the cases of the data files in `tests/questions` of both stores.
//!
//! A file is a `reason` and `cases`: `documents`, a `filter`, maybe a `projection`, a `sort`, `skip`, `limit` and
//! `indexes`, and the `results`, maybe the `total`, or the number of the `error`. MongoDB 6.0.27 gave the outcomes,
//! but those with `bounded_here`: bounds of the service, which a server lacks.

use bson::Document;

use super::bench::{Answer, Bench, Found, Stores};
use super::case::Case;
use super::documents::raw;
use super::lanes::show;
use super::verdict::is_same_found;
use crate::filters::{files_in, read};
use crate::support::mongod::{Deployment, program, shared};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_questions_of_the_data_files_have_the_same_answers_on_both_stores() {
    if program().is_none() {
        return;
    }
    let server = shared(Deployment::ReplicaSet).await.expect("there is a program");
    let mut bench = Bench::new(Stores::on(server).await, 0).await;
    let mut failures = Vec::new();
    let mut count = 0;
    for file in files_in("tests/questions") {
        let contents = read(&file);
        assert!(contents.get_str("reason").is_ok(), "{}", file.display());
        for written in contents.get_array("cases").unwrap().iter().map(|case| case.as_document().unwrap()) {
            count += 1;
            assert!(written.get_str("reason").is_ok_and(|reason| !reason.is_empty()), "no reason: {written}");
            let case = Case::read(written);
            let kept = bench.store(&case.documents, &case.indexes).await;
            assert!(kept.iter().all(|kept| *kept), "a document cannot be stored: {written}");
            let is_bounded_here = written.get_bool("bounded_here").unwrap_or(false);
            let answers =
                if is_bounded_here { bench.ask_stores(&case.question).await } else { bench.ask(&case.question).await };
            for (store, answer) in [
                ("MongoDB", &answers.mongo),
                ("the store on MongoDB", &answers.adapter),
                ("embedded", &answers.plain),
                ("with indexes", &answers.indexed),
            ] {
                if !is_expected(written, answer) {
                    failures.push(format!(
                        "{}: {}\n  {store}: {}",
                        file.display(),
                        case.line(Vec::new()),
                        show(answer)
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases\n{}", failures.len(), failures.join("\n"));
    assert!(count > 0, "no case was found");
}

fn is_expected(written: &Document, answer: &Answer) -> bool {
    match (written.get_array("results"), answer) {
        (Ok(results), Ok(found)) => {
            let documents = results.iter().map(|result| raw(result.as_document().unwrap())).collect();
            let total = written.get_i32("total").ok().map(|total| u64::try_from(total).unwrap());
            is_same_found(&Found { documents, total }, found)
        }
        (Err(_), Err(refusal)) => written.get_i32("error").ok() == refusal.code,
        _ => false,
    }
}
