//! Which expressions a MongoDB server may be asked to run.

use bson::{Bson, bson};

use super::{DateTime, Expression, NOW};
use crate::query::{Limits, Pipeline};

fn is_bounded(expression: &Bson) -> bool {
    let parsed = Expression::parse_alone(expression, DateTime::from_millis(NOW));
    parsed.unwrap_or_else(|error| panic!("{expression}: {error}")).bounded_work().is_some()
}

#[track_caller]
fn assert_all(expressions: &[Bson], expected: bool) {
    for expression in expressions {
        assert_eq!(is_bounded(expression), expected, "{expression}");
    }
}

fn map(input: impl Into<Bson>, body: impl Into<Bson>) -> Bson {
    bson!({ "$map": { "input": input.into(), "in": body.into() } })
}

/// An array that is joined with itself forty times.
fn many_times(array: Bson) -> Bson {
    bson!({ "$let": { "vars": { "x": array }, "in": { "$concatArrays": vec!["$$x"; 40] } } })
}

fn reduce(body: impl Into<Bson>) -> Bson {
    bson!({ "$reduce": { "input": "$a", "initialValue": 0, "in": body.into() } })
}

#[test]
fn what_visits_each_stored_value_about_once_is_bounded() {
    let entry = bson!({ "$filter": { "input": "$fields", "cond": { "$eq": ["$$this.name", "hostname"] } } });
    assert_all(
        &[
            bson!({ "$gt": ["$a.b", { "$add": ["$c", 1] }] }),
            bson!({ "$arrayElemAt": [entry.clone(), 0] }),
            bson!({ "$let": { "vars": { "e": { "$first": [entry.clone()] } }, "in": { "$toUpper": "$$e.value" } } }),
            bson!({ "$filter": { "input": "$a", "cond": { "$gte": ["$$this.n", "$limit"] } } }),
            bson!({ "$filter": { "input": "$a", "as": "x", "cond": { "$in": ["$$x.kind", ["b", "c"]] } } }),
            map("$a", bson!({ "$multiply": ["$$this.n", { "$size": "$a" }] })),
            map("$a", bson!({ "name": "$$this.name", "upper": { "$toUpper": "$$this.name" } })),
            map("$a", map("$$this.list", bson!({ "$strLenCP": "$$this" }))),
            map(bson!({ "$range": [0, 100] }), bson!({ "$eq": [{ "$arrayElemAt": ["$a", "$$this"] }, "$$this"] })),
            map(entry, "$$this.value"),
            reduce(bson!({ "$add": ["$$value", "$$this.n"] })),
            reduce(bson!({ "$max": ["$$value", { "$size": "$$this.list" }] })),
            bson!({ "$concatArrays": ["$a", ["$b"]] }),
            bson!({ "$concat": ["$a", " ", { "$toString": "$b" }] }),
            bson!({ "$split": ["$a", ","] }),
            bson!({ "$trim": { "input": "$a" } }),
            bson!({ "$regexMatch": { "input": "$a", "regex": "^web" } }),
            bson!({ "$cond": { "if": { "$isArray": ["$a"] }, "then": "$a", "else": [] } }),
            bson!({ "$switch": { "branches": [{ "case": { "$gt": ["$a", 1] }, "then": "$b" }], "default": 0 } }),
            bson!({ "$sortArray": { "input": "$a", "sortBy": { "n": 1 } } }),
            bson!({ "$dateToString": { "date": "$a", "format": "%Y" } }),
            bson!({ "$mergeObjects": ["$$ROOT", { "a": 1 }] }),
        ],
        true,
    );
}

#[test]
fn what_goes_over_something_for_each_of_many_is_not_bounded() {
    let long = bson!({ "$range": [0, 1_001] });
    assert_all(
        &[
            map(long.clone(), bson!({ "$indexOfCP": ["$text", "ab"] })),
            map("$a", map("$a", 1)),
            map("$a", map("$b", "$$this")),
            map("$a", map(bson!([1, 2]), "$$this")),
            map("$a", bson!({ "$strLenCP": "$text" })),
            map("$a", bson!({ "$in": ["$$this", "$b"] })),
            map("$a", bson!({ "$eq": ["$b", "$c"] })),
            map("$a", bson!({ "$eq": ["$$this", "$b.c"] })),
            map("$a", "$b"),
            map("$a", bson!(["$$this", "$$ROOT"])),
            map("$a", bson!({ "$let": { "vars": { "x": "$b" }, "in": { "$size": { "$objectToArray": "$$x" } } } })),
            map("$a", bson!({ "$map": { "input": "$$this.b", "as": "x", "in": map("$$this.c", 1) } })),
            map("$a", bson!({ "$regexMatch": { "input": "$$this", "regex": "^a" } })),
            bson!({ "$size": long }),
            bson!({ "$range": [0, "$n"] }),
            bson!({ "$indexOfCP": ["$text", "$sought"] }),
            bson!({ "$split": ["$text", "$sought"] }),
            bson!({ "$replaceAll": { "input": "$text", "find": "a", "replacement": "$text" } }),
            bson!({ "$trim": { "input": "$text", "chars": "$text" } }),
            bson!({ "$regexFind": { "input": "$text", "regex": "$sought" } }),
            bson!({ "$regexMatch": { "input": "$text", "regex": "$sought" } }),
            bson!({ "$regexFindAll": { "input": "$text", "regex": "a" } }),
            bson!({ "$zip": { "inputs": ["$a", "$b"], "useLongestLength": true } }),
            many_times(many_times(bson!({ "$range": [0, 1000] }))),
            many_times(many_times(bson!("$a"))),
            bson!({ "$size": many_times(many_times(bson!("$a"))) }),
            (0..17).fold(bson!("$a"), |inner, _| bson!([inner])),
            bson!({ "$filter": { "input": "$a", "cond": true, "limit": { "$size": { "$range": [1, "$n"] } } } }),
        ],
        false,
    );
}

#[test]
fn long_constants_that_many_elements_take_are_not_bounded() {
    let long = |length: usize| Bson::from("x".repeat(length));
    let texts = bson!({ "$split": ["$text", ","] });
    let with = |constant: Bson| bson!({ "$concat": ["$$this", constant] });
    let many_members: Bson =
        (0..500).map(|index| (format!("a{index}"), Bson::from(1))).collect::<bson::Document>().into();
    let joined = |value: &str, times: usize| bson!({ "$concat": vec![value; times] });
    let split_often: bson::Document =
        (0..8).map(|index| (format!("v{index}"), bson!({ "$split": ["$text", "a"] }))).collect();
    let carried = bson!({ "$let": { "vars": { "c": long(10_000) }, "in": { "$let": {
        "vars": { "y": joined("$$c", 80) }, "in": map("$a", with("$$y".into())),
    } } } });
    assert_all(
        &[
            map(texts.clone(), with(long(60_000))),
            map("$a", with(long(2_000))),
            bson!({ "$filter": { "input": "$a", "cond": { "$indexOfCP": [with(long(60_000)), "z"] } } }),
            bson!({ "$filter": { "input": "$a", "cond": { "$strLenCP": long(60_000) } } }),
            map("$a", bson!({ "$cond": ["$$this", long(60_000), "b"] })),
            map("$a", long(60_000)),
            map("$a", many_members.clone()),
            map("$a", bson!({ "$mergeObjects": ["$$this", many_members] })),
            map(texts.clone(), vec!["$$this"; 40]),
            map(texts.clone(), bson!([[["$$this"]]])),
            carried,
            bson!({ "$let": { "vars": { "c": long(10_000) }, "in": joined("$$c", 300) } }),
            bson!({ "$replaceAll": { "input": "$text", "find": "a", "replacement": long(100) } }),
            (0..4).fold(
                bson!("$text"),
                |inner, _| bson!({ "$replaceAll": { "input": inner, "find": "a", "replacement": "bbbb" } }),
            ),
            bson!({ "$and": vec![bson!({ "$toUpper": "$text" }); 210] }),
            bson!({ "$let": { "vars": split_often, "in": 1 } }),
            map("$a", bson!({ "$max": vec![bson!({ "$mod": [1, "$$this"] }); 7] })),
            map("$a", bson!({ "$max": vec![bson!({ "$pow": ["$$this", 0.5] }); 60] })),
            bson!({ "$split": [joined("$text", 17), "a"] }),
        ],
        false,
    );
    assert_all(
        &[
            map(texts.clone(), bson!({ "$trim": { "input": "$$this" } })),
            map("$a", bson!({ "name": "$$this.name", "label": { "$concat": ["$$this.label", ": ", "$$this.unit"] } })),
            bson!({ "$filter": { "input": "$a", "cond": { "$eq": ["$$this", long(60_000)] } } }),
            bson!({ "$filter": { "input": "$a", "cond": { "$in": ["$$this.name", vec!["hostname"; 50]] } } }),
            bson!({ "$size": texts }),
            map("$a", bson!({ "$max": vec![bson!({ "$mod": ["$$this", 2] }); 3] })),
            bson!({ "$max": vec![bson!({ "$mod": ["$a", 2] }); 300] }),
            bson!({ "$in": ["$a", (0..20_000).collect::<Vec<i32>>()] }),
            bson!({ "$concat": ["$a", long(10_000)] }),
            bson!({ "$replaceAll": { "input": "$text", "find": ".example.org", "replacement": ".example.com" } }),
            bson!({ "$and": vec![bson!({ "$toUpper": "$text" }); 190] }),
            bson!({ "$and": vec![bson!({ "$gt": ["$a", "$b"] }); 900] }),
        ],
        true,
    );
}

#[test]
fn the_expressions_of_a_question_are_bounded_together() {
    let parts = |many: usize| vec![bson!({ "$expr": { "$gt": [{ "$strLenCP": "$text" }, 5] } }); many];
    let filter =
        |many| crate::query::Filter::parse(&bson::doc! { "$nor": parts(many) }, &Limits::NONE).expect("a filter");
    assert!(filter(499).tree().is_bounded() && !filter(501).tree().is_bounded());
    let members = |many: i32| (0..many).map(|index| (format!("a{index}"), bson!({ "$toUpper": "$text" })));
    let stage = |many| vec![bson!({ "$set": members(many).collect::<bson::Document>() })];
    let is_bounded = |stages: &[Bson]| {
        Pipeline::parse(stages, &Limits::NONE, DateTime::from_millis(NOW))
            .expect("a pipeline")
            .bounded_front()
            .is_none()
    };
    assert!(is_bounded(&stage(60)) && !is_bounded(&stage(1_001)));
}

#[test]
fn only_what_adds_up_to_a_number_is_a_bounded_reduction() {
    assert_all(
        &[
            reduce(bson!(["$$value"])),
            reduce(bson!({ "a": "$$value" })),
            reduce(bson!({ "$concat": ["$$value", "$$this"] })),
            reduce(bson!({ "$concatArrays": ["$$value", ["$$this"]] })),
            reduce(bson!({ "$cond": [{ "$gt": ["$$this", "$$value"] }, "$$this", "$$value"] })),
            bson!({ "$reduce": { "input": "$a", "initialValue": "$b", "in": { "$size": "$$value" } } }),
            reduce(bson!({ "$add": ["$$value", { "$strLenCP": "$text" }] })),
        ],
        false,
    );
}

#[test]
fn copies_that_stages_make_of_copies_are_bounded_while_they_are_few() {
    let is_bounded = |stages: Vec<Bson>| {
        let pipeline = Pipeline::parse(&stages, &Limits::NONE, DateTime::from_millis(NOW)).expect("a pipeline");
        pipeline.bounded_front().is_none()
    };
    let doubling = [
        bson!({ "$set": { "a": ["$a", "$a"] } }),
        bson!({ "$set": { "a": "$$ROOT" } }),
        bson!({ "$set": { "a.b": "$a" } }),
        bson!({ "$set": { "a": { "b": "$a" } } }),
        bson!({ "$replaceWith": { "a": "$$ROOT", "b": "$$ROOT" } }),
        bson!({ "$group": { "_id": null, "a": { "$push": { "x": "$a", "y": "$a" } } } }),
    ];
    for stage in doubling {
        assert!(is_bounded(vec![stage.clone(); 4]), "{stage}");
        assert!(!is_bounded(vec![stage.clone(); 12]), "{stage}");
    }
    let deeper = bson!({ "$replaceWith": { "a": { "a": { "a": "$$ROOT" } } } });
    assert!(is_bounded(vec![deeper.clone(); 4]) && !is_bounded(vec![deeper; 6]));
    assert!(!is_bounded(vec![bson!({ "$set": { "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a": "$b" } })]));
    let counted = bson!({ "$set": { "n": { "$add": ["$n", 1] }, "m": { "$size": "$a" } } });
    assert!(is_bounded(vec![counted; 100]));
    let usual = vec![
        bson!({ "$match": { "a": 1 } }),
        bson!({ "$group": { "_id": "$type_id", "n": { "$sum": 1 }, "names": { "$push": { "id": "$_id", "name": "$name" } }, "one": { "$first": "$a" } } }),
        bson!({ "$project": { "n": 1, "names": { "$slice": ["$names", 3] }, "one": "$one", "two": "$n" } }),
        bson!({ "$set": { "text": { "$concat": ["$a", "$b"] } } }),
    ];
    assert!(is_bounded(usual));
}

#[test]
fn what_redact_asks_of_each_inner_document_is_bounded_if_it_is_about_that_one() {
    let is_bounded = |condition: Bson| {
        let stage = bson!({ "$redact": { "$cond": [condition, "$$DESCEND", "$$PRUNE"] } });
        let pipeline = Pipeline::parse(&[stage], &Limits::NONE, DateTime::from_millis(NOW)).expect("a pipeline");
        pipeline.bounded_front().is_none()
    };
    assert!(is_bounded(bson!({ "$gt": ["$level", 3] })));
    assert!(is_bounded(bson!({ "$in": ["a", { "$ifNull": ["$tags", ["a"]] }] })));
    assert!(!is_bounded(bson!({ "$gt": [{ "$size": { "$objectToArray": "$$ROOT" } }, 3] })));
}

#[test]
fn the_stages_in_front_of_an_unbounded_one_are_for_the_server() {
    let front_of = |stages: &[Bson]| {
        let pipeline = Pipeline::parse(stages, &Limits::NONE, DateTime::from_millis(NOW)).expect("a pipeline");
        pipeline.bounded_front().map(|(front, done)| (front.documents().len(), done))
    };
    let endless = bson!({ "$expr": { "$size": { "$range": [0, "$n"] } } });
    let (bounded, unbounded) = (bson!({ "$match": { "a": 1 } }), bson!({ "$match": endless.clone() }));
    assert_eq!(front_of(&[bounded.clone(), bson!({ "$sortByCount": "$a" })]), None);
    assert_eq!(front_of(&[bounded.clone(), unbounded.clone()]), Some((1, 1)));
    // This one stage is two.
    assert_eq!(front_of(&[bson!({ "$sortByCount": "$a" }), unbounded.clone(), bounded.clone()]), Some((1, 2)));
    assert_eq!(front_of(&[bounded, bson!({ "$facet": { "x": [unbounded.clone()] } })]), Some((1, 1)));
    let lookup = bson!({ "$lookup": { "from": "things", "pipeline": [unbounded], "as": "x" } });
    assert_eq!(front_of(&[lookup]), Some((0, 0)));
}
