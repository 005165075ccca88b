//! Pipelines on a source in memory: refusals with their places, and what a pipeline may cost.

use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, bson, doc};

use super::{Budget, EvalError, Flow, Front, Pipeline, Source, Terms, Unseen};
use crate::admission::{Admission, Bounds};
use crate::query::budget::Effort;
use crate::query::error::{QueryError, QueryErrorKind};
use crate::query::filter::Limits;

/// A collection of numbered documents.
struct Numbers(i32);

impl Source for Numbers {
    type Error = EvalError;

    fn each(
        &self,
        _: &str,
        query: &Front,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow, EvalError>,
    ) -> Result<(), EvalError> {
        for number in 0..self.0 {
            let document = RawDocumentBuf::try_from(&doc! { "_id": number, "a": number % 3 }).expect("it is BSON");
            if query.filter.matches(&document)? && visit(&document)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn parsed(stages: &Bson) -> Pipeline {
    let stages = stages.as_array().expect("a pipeline is an array");
    Pipeline::parse(stages, &Limits::default(), DateTime::from_millis(0)).expect("pipelines of tests are right")
}

fn results(count: i32, stages: &Bson, budget: &Budget) -> Result<Vec<Document>, EvalError> {
    let mut results = Vec::new();
    parsed(stages).read("numbers", None, &Numbers(count), budget, &mut |document| {
        results.push(Document::try_from(document).expect("it is BSON"));
        Ok(Flow::Continue(()))
    })?;
    Ok(results)
}

#[test]
fn a_refusal_names_the_place_in_the_pipeline() {
    for (stages, pointer, code, kind) in [
        (bson!([{ "$match": { "a": { "$gtt": 1 } } }]), "/0/$match/a/$gtt", 2, QueryErrorKind::Malformed),
        (bson!([{ "$limit": 1 }, { "$mtach": {} }]), "/1/$mtach", 40324, QueryErrorKind::Malformed),
        (
            bson!([{ "$group": { "_id": null, "n": { "$smu": 1 } } }]),
            "/0/$group/n/$smu",
            15952,
            QueryErrorKind::Malformed,
        ),
        (bson!([{ "$facet": { "x": [{ "$out": "y" }] } }]), "/0/$facet/x/0/$out", 224, QueryErrorKind::Refused),
        (bson!([{ "$match": { "$where": "1" } }]), "/0/$match/$where", 224, QueryErrorKind::Refused),
    ] {
        let stages = stages.as_array().expect("an array");
        let error = Pipeline::parse(stages, &Limits::default(), DateTime::from_millis(0)).expect_err("it is wrong");
        assert_eq!((error.pointer.as_str(), error.code, error.kind), (pointer, code, kind), "{error}");
    }
}

#[test]
fn a_pipeline_ends_when_its_time_is_over() {
    let over = Budget::until(Some(Instant::now()));
    for stages in [
        bson!([{ "$skip": 1 }, { "$match": { "a": 7 } }, { "$group": { "_id": null } }]),
        bson!([{ "$group": { "_id": "$_id" } }]),
        bson!([{ "$lookup": { "from": "numbers", "pipeline": [{ "$skip": 99_999 }], "as": "x" } }]),
        bson!([{ "$unionWith": { "coll": "numbers", "pipeline": [{ "$group": { "_id": "$a" } }] } }]),
    ] {
        let error = results(5_000, &stages, &over).expect_err("no time");
        assert!(error.is_timeout(), "{stages}: {error}");
    }
}

#[test]
fn a_stage_that_keeps_too_much_is_refused() {
    let long = bson!({ "$reduce": {
        "input": { "$range": [0, 18] }, "initialValue": "aaaa", "in": { "$concat": ["$$value", "$$value"] }
    } });
    for stages in [
        bson!([{ "$set": { "t": long.clone() } }, { "$group": { "_id": null, "all": { "$push": "$t" } } }]),
        bson!([{ "$set": { "t": long.clone() } }, { "$sort": { "a": 1 } }]),
        bson!([{ "$group": { "_id": { "i": "$_id", "t": long } } }]),
    ] {
        let error = results(150, &stages, &Budget::default()).expect_err("no memory");
        assert_eq!(error.code, 292, "{stages}: {error}");
    }
}

#[test]
fn what_an_accumulator_has_replaced_is_not_kept() {
    let large = "x".repeat(1024 * 1024);
    let best = bson!({ "number": "$_id", "text": large });
    for accumulator in ["$max", "$last", "$mergeObjects"] {
        let stages = bson!([{ "$group": { "_id": null, "kept": { accumulator: best.clone() } } }]);
        let found = results(150, &stages, &Budget::default()).expect("one value is kept at a time");
        let number = found[0].get_document("kept").and_then(|kept| kept.get_i32("number"));
        assert_eq!(number.ok(), Some(149), "{accumulator}");
    }
}

#[tokio::test]
async fn what_many_stages_hold_at_a_time_is_counted_together() {
    let bounds = Bounds { memory: 64 * 1024 * 1024, at_once: 2, wait: Duration::from_mins(1) };
    let turn = Admission::new(bounds).ticket(1).turn().await.expect("nobody else is there");
    let long = bson!({ "$reduce": {
        "input": { "$range": [0, 20] }, "initialValue": "a", "in": { "$concat": ["$$value", "$$value"] }
    } });
    let run = |count: usize| {
        let first = bson!({ "$set": { "t": long.clone() } });
        let others = (0..count).map(|_| bson!({ "$set": { "n": 1 } }));
        let stages = Bson::Array(std::iter::once(first).chain(others).chain([bson!({ "$unset": "t" })]).collect());
        results(1, &stages, &Budget::default().within(turn.means()))
    };
    assert_eq!(run(3).expect("there is memory"), [doc! { "_id": 0, "a": 0, "n": 1 }]);
    assert!(run(60).expect_err("no memory").is_busy());
}

#[test]
fn nothing_is_asked_for_in_front_of_a_full_limit() {
    let fails = bson!({ "$set": { "x": { "$ln": { "$subtract": ["$_id", 9] } } } });
    for stages in [
        bson!([{ "$unionWith": { "coll": "numbers", "pipeline": [fails.clone()] } }, { "$limit": 3 }]),
        bson!([{ "$unionWith": { "coll": "numbers", "pipeline": [fails.clone()] } }, { "$set": { "y": 1 } }, { "$limit": 3 }]),
        bson!([{ "$limit": 3 }, { "$unionWith": { "coll": "numbers", "pipeline": [{ "$limit": 1 }, { "$match": { "a": 9 } }] } }]),
    ] {
        assert_eq!(results(3, &stages, &Budget::default()).expect("nothing fails").len(), 3, "{stages}");
    }
    let needed = bson!([{ "$unionWith": { "coll": "numbers", "pipeline": [fails] } }, { "$limit": 4 }]);
    assert!(results(3, &needed, &Budget::default()).is_err());
}

#[test]
fn a_sort_before_a_limit_keeps_what_the_limit_needs() {
    let long = bson!({ "$reduce": {
        "input": { "$range": [0, 18] }, "initialValue": "aaaa", "in": { "$concat": ["$$value", "$$value"] }
    } });
    let stages = bson!([
        { "$set": { "t": long } }, { "$sort": { "_id": -1 } }, { "$skip": 1 }, { "$limit": 2 }, { "$project": { "_id": 1 } },
    ]);
    let found = results(150, &stages, &Budget::default()).expect("there is memory for three");
    assert_eq!(found, [doc! { "_id": 148 }, doc! { "_id": 147 }]);
}

#[test]
fn the_front_of_a_pipeline_is_one_query() {
    let pipeline = parsed(&bson!([
        { "$match": { "a": 1 } }, { "$match": { "b": 1 } }, { "$sort": { "c": 1 } }, { "$skip": 2 }, { "$limit": 9 }, { "$limit": 5 },
        { "$skip": 1 },
    ]));
    let front = pipeline.front();
    assert_eq!((front.stages, front.skip, front.limit), (6, 2, 5));
    assert!(!pipeline.is_streaming(front.stages) && pipeline.is_streaming(7));
}

/// Read where nobody sees `_id`, nor `secret` of people.
fn unseeing(stages: &Bson) -> Result<Vec<Document>, QueryError> {
    let terms = Terms {
        place: "filter",
        collection: "numbers",
        unseen: Unseen { everywhere: Some("_id"), of: Some(("people", "secret")) },
        limits: Limits::default(),
        now: DateTime::from_millis(0),
    };
    let stages = stages.as_array().expect("a pipeline is an array");
    Ok(Pipeline::read_with(stages, &terms, &Effort::Brief)?.documents().to_vec())
}

#[test]
fn what_nobody_sees_is_taken_out_wherever_documents_enter() {
    let without = doc! { "$unset": "_id" };
    for (stages, expected) in [
        (
            bson!([{ "$match": { "a": 1 } }, { "$facet": { "x": [{ "$unionWith": "c" }] } }]),
            vec![
                doc! { "$match": { "a": 1 } },
                without.clone(),
                doc! { "$facet": { "x": [{ "$unionWith": { "coll": "c", "pipeline": [&without] } }] } },
            ],
        ),
        (bson!([{ "$count": "n" }]), vec![doc! { "$count": "n" }]),
        (bson!([{ "$limit": 1 }]), vec![doc! { "$limit": 1 }, without.clone()]),
        (
            bson!([{ "$lookup": { "from": "people", "localField": "a", "foreignField": "b", "as": "c" } }]),
            vec![
                without.clone(),
                doc! { "$lookup": {
                    "from": "people", "localField": "a", "foreignField": "b", "as": "c",
                    "pipeline": [{ "$unset": "secret" }, &without],
                } },
            ],
        ),
        (
            bson!([{ "$lookup": { "from": "people", "let": { "v": "$a" }, "pipeline": [{ "$match": { "secret": 1 } }], "as": "c" } }]),
            vec![
                without.clone(),
                doc! { "$lookup": {
                    "from": "people", "let": { "v": "$a" },
                    "pipeline": [{ "$unset": "secret" }, { "$match": { "secret": 1 } }, &without], "as": "c",
                } },
            ],
        ),
    ] {
        assert_eq!(unseeing(&stages).expect("a pipeline"), expected, "{stages}");
    }
    let asked = bson!([{ "$lookup": { "from": "people", "localField": "a", "foreignField": "secret.b", "as": "c" } }]);
    assert_eq!(unseeing(&asked).expect_err("refused").kind, QueryErrorKind::Refused);
}

#[test]
fn places_are_those_of_what_the_client_wrote() {
    let wrong =
        bson!([{ "$lookup": { "from": "people", "pipeline": [{ "$set": { "a": { "$foo": 1 } } }], "as": "c" } }]);
    let error = unseeing(&wrong).expect_err("it is wrong");
    assert_eq!(
        (error.pointer.as_str(), error.path.starts_with("filter.0.")),
        ("/0/$lookup/pipeline/0/$set/a/$foo", true)
    );
}

#[test]
fn a_pipeline_of_conditions_and_orders_is_a_filter() {
    let filter = |stages| parsed(&stages).as_filter().map(|filter| filter.document().clone());
    let both = bson!([{ "$match": { "a": 1 } }, { "$sort": { "b": 1 } }, { "$match": { "c": 2 } }]);
    assert_eq!(filter(both), Some(doc! { "$and": [{ "a": 1 }, { "c": 2 }] }));
    assert_eq!(filter(bson!([])), Some(doc! {}));
    assert_eq!(filter(bson!([{ "$match": { "a": 1 } }, { "$limit": 1 }])), None);
}

#[test]
fn a_group_over_plain_paths_is_for_the_server_with_what_stands_in_front() {
    let grouped = |stages: &[Bson]| {
        let pipeline = Pipeline::parse(stages, &Limits::default(), DateTime::from_millis(0)).expect("a pipeline");
        pipeline.grouped_front().map(|(documents, done)| (documents.len(), done))
    };
    let counted =
        bson!({ "$group": { "_id": "$a", "n": { "$sum": 1 }, "b": { "$first": "$b" }, "m": { "$count": {} } } });
    assert_eq!(grouped(&[counted.clone(), bson!({ "$set": { "x": 1 } })]), Some((1, 1)));
    let front =
        [bson!({ "$match": { "a": 1 } }), bson!({ "$sort": { "b": 1 } }), bson!({ "$unset": "_id" }), counted.clone()];
    assert_eq!(grouped(&front), Some((4, 4)));
    let members = bson!({ "$group": { "_id": { "a": "$a", "b": null }, "m": { "$avg": "$c.d" } } });
    assert_eq!(grouped(&[members]), Some((1, 1)));
    for other in [
        bson!({ "$group": { "_id": { "$toLower": "$a" } } }),
        bson!({ "$group": { "_id": "$$ROOT" } }),
        bson!({ "$group": { "_id": null, "n": { "$sum": { "$size": "$a" } } } }),
        bson!({ "$group": { "_id": null, "n": { "$push": "$a" } } }),
        bson!({ "$group": { "_id": null, "n": { "$mergeObjects": "$a" } } }),
    ] {
        assert_eq!(grouped(std::slice::from_ref(&other)), None, "{other}");
    }
    assert_eq!(grouped(&[bson!({ "$set": { "a": "$b" } }), counted.clone()]), None);
    assert_eq!(grouped(&[bson!({ "$match": { "$jsonSchema": {"required": ["a"]} } }), counted]), None);
}
