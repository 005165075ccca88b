//! Which expressions are refused because their values can become too deep or too many.

use bson::{Bson, bson};

use super::super::super::{Limits, Pipeline};
use super::{DateTime, Expression, NOW};

fn reduce(input: impl Into<Bson>, initial: impl Into<Bson>, body: impl Into<Bson>) -> Bson {
    bson!({ "$reduce": { "input": input.into(), "initialValue": initial.into(), "in": body.into() } })
}

fn map(input: impl Into<Bson>, body: impl Into<Bson>) -> Bson {
    bson!({ "$map": { "input": input.into(), "in": body.into() } })
}

fn range(end: i32) -> Bson {
    bson!({ "$range": [0, end] })
}

fn refusal(expression: &Bson) -> Option<String> {
    let error = Expression::parse_alone(expression, DateTime::from_millis(NOW)).err()?;
    // What the embedded store has no memory for is another refusal.
    assert!([224, 146].contains(&error.code), "{expression}: {error}");
    (error.code == 224).then(|| error.to_string())
}

#[track_caller]
fn assert_refused(expressions: &[Bson], word: &str) {
    for expression in expressions {
        let refusal = refusal(expression).unwrap_or_else(|| panic!("not refused: {expression}"));
        assert!(refusal.contains(word), "{expression}: {refusal}");
    }
}

#[track_caller]
fn assert_passing(expressions: &[Bson]) {
    for expression in expressions {
        assert_eq!(refusal(expression), None, "{expression}");
    }
}

#[test]
fn a_value_that_nests_deeper_with_each_step_is_refused() {
    let deeper = [
        bson!({ "a": "$$value" }),
        bson!(["$$value"]),
        bson!({ "a": { "b": "$$value.a" } }),
        bson!({ "$let": { "vars": { "x": "$$value" }, "in": { "a": "$$x" } } }),
        map(bson!(["$$value"]), "$$this"),
        map(bson!([1]), "$$value"),
        bson!({ "$cond": ["$$this", 1, { "a": "$$value" }] }),
        bson!({ "$switch": { "branches": [{ "case": "$$this", "then": ["$$value"] }], "default": 0 } }),
        bson!({ "$ifNull": [null, ["$$value"]] }),
        bson!({ "$setField": { "field": "a", "input": {}, "value": "$$value" } }),
        bson!({ "$mergeObjects": ["$$this", { "a": "$$value" }] }),
        bson!({ "$objectToArray": { "a": "$$value" } }),
        bson!({ "$arrayToObject": [[["a", "$$value"]]] }),
        bson!({ "$zip": { "inputs": [["$$value"]] } }),
        bson!({ "$convert": { "input": "x", "to": "int", "onError": ["$$value"] } }),
        reduce("$b", "$$value", bson!({ "$ifNull": [["$$value"], 1] })),
        reduce(bson!([1]), bson!(["$$value"]), "$$value"),
        bson!({ "$filter": { "input": [["$$value"]], "cond": true } }),
        bson!({ "a": { "x": "$$value.b" }, "b": "$$value.a" }),
        bson!({ "$min": [["$$value"]] }),
        bson!({ "$let": { "vars": { "CURRENT": { "a": { "b": "$$value" } } }, "in": { "$getField": "a" } } }),
        bson!({ "$let": { "vars": { "CURRENT": { "a": { "b": "$$value" } } }, "in": { "$getField": { "$literal": "a" } } } }),
    ];
    let steps = |body: Bson| reduce(range(200_000), bson!({}), body);
    // An operand of one element is no array: `$min` gives the element back.
    assert_passing(&[steps(bson!({ "$min": ["$$value"] }))]);
    assert_refused(&deeper.map(steps), "ends a MongoDB server");
}

#[test]
fn a_value_that_may_double_is_refused() {
    let doubling = [
        bson!({ "$concatArrays": ["$$value", "$$value"] }),
        bson!({ "$concat": ["$$value", "$$value"] }),
        bson!({ "$concat": ["$$value", { "$toLower": "$$value" }] }),
        bson!({ "$replaceAll": { "input": "$$value", "find": "a", "replacement": "aa" } }),
        bson!({ "$setUnion": ["$$value", { "$map": { "input": "$$value", "in": { "$add": ["$$this", 1] } } }] }),
        bson!({ "$let": { "vars": { "x": "$$value" }, "in": { "$concatArrays": ["$$x", "$$x"] } } }),
        bson!({ "a": { "$concat": ["$$value.a", "$$value.b"] }, "b": "$$value.a" }),
        bson!({ "a": { "$concat": ["$$value.a", "$$value.b"] }, "b": { "$concat": ["$$value.b", "x"] } }),
        bson!({ "a": { "$concat": ["$$value.b", "$$value.b"] }, "b": "$$value.c", "c": "$$value.d", "d": "$$value.e",
            "e": "$$value.f", "f": "$$value.g", "g": "$$value.a" }),
        reduce(bson!([1, 2]), bson!([]), bson!({ "$concatArrays": ["$$value", "$x"] })),
    ];
    let steps = |body: Bson| reduce("$n", bson!("a"), body);
    assert_passing(&[steps(doubling[9].clone())]);
    assert_refused(&doubling[..9].iter().cloned().map(steps).collect::<Vec<_>>(), "grow faster");
    // Few steps that are known are taken as they are.
    assert_passing(&[
        reduce(range(8), bson!("a"), doubling[1].clone()),
        reduce(bson!([1, 2, 3]), bson!({}), bson!(["$$value"])),
    ]);
    assert_refused(&[reduce(range(30), bson!("a"), doubling[1].clone())], "100,000,000");
}

#[test]
fn usual_steps_of_reduce_pass() {
    let has = bson!({ "$in": ["$$this", "$$value"] });
    let entry = bson!({ "$eq": ["$$e.k", "$$this.k"] });
    let (array, object, text) = (bson!([]), bson!({}), bson!(""));
    let bodies = [
        (bson!(0), bson!({ "$add": ["$$value", "$$this"] })),
        (bson!(0), bson!({ "$max": ["$$value", "$$this.price"] })),
        (array.clone(), bson!({ "$concatArrays": ["$$value", ["$$this"]] })),
        (array.clone(), bson!({ "$concatArrays": [["$$this"], "$$value"] })),
        (array.clone(), bson!({ "$concatArrays": ["$$value", "$$this.ports"] })),
        (array.clone(), bson!({ "$cond": [has.clone(), "$$value", { "$concatArrays": ["$$value", ["$$this"]] }] })),
        (array.clone(), bson!({ "$setUnion": ["$$value", "$$this"] })),
        (array.clone(), bson!({ "$setIntersection": ["$$value", "$$this"] })),
        (
            bson!({ "sum": 0, "n": 0 }),
            bson!({ "sum": { "$add": ["$$value.sum", "$$this"] }, "n": { "$add": ["$$value.n", 1] } }),
        ),
        (
            bson!({ "seen": [], "out": [] }),
            bson!({ "seen": { "$concatArrays": ["$$value.seen", ["$$this"]] },
            "out": { "$cond": [has, "$$value.out", { "$concatArrays": ["$$value.out", ["$$this"]] }] } }),
        ),
        (
            bson!({ "last": null, "runs": [] }),
            bson!({ "last": "$$this", "runs": { "$cond": [{ "$eq": ["$$value.last", "$$this"] }, "$$value.runs",
            { "$concatArrays": ["$$value.runs", [{ "from": "$$value.last", "to": "$$this" }]] }] } }),
        ),
        (object.clone(), bson!({ "$mergeObjects": ["$$value", { "n": { "$add": ["$$value.n", 1] } }] })),
        (object.clone(), bson!({ "$mergeObjects": ["$$value", "$$this"] })),
        (
            object.clone(),
            bson!({ "$mergeObjects": ["$$value", { "$arrayToObject": [[{ "k": "$$this.name", "v": "$$this.value" }]] }] }),
        ),
        (
            object.clone(),
            bson!({ "$arrayToObject": { "$concatArrays": [{ "$objectToArray": "$$value" }, [{ "k": "$$this.k", "v": "$$this.v" }]] } }),
        ),
        (
            object.clone(),
            bson!({ "$setField": { "field": "n", "input": "$$value", "value": { "$add": ["$$value.n", 1] } } }),
        ),
        (text.clone(), bson!({ "$concat": ["$$value", ", ", "$$this"] })),
        (
            text.clone(),
            bson!({ "$concat": ["$$value", { "$cond": [{ "$eq": ["$$value", ""] }, "", "; "] }, { "$toString": "$$this" }] }),
        ),
        (array.clone(), bson!({ "$concatArrays": ["$$value", [{ "$add": [{ "$last": "$$value" }, "$$this"] }]] })),
        (array.clone(), bson!({ "$slice": [{ "$concatArrays": [["$$this"], "$$value"] }, 5] })),
        // Groups.
        (
            array.clone(),
            bson!({ "$cond": [{ "$in": ["$$this.k", "$$value.k"] },
            { "$map": { "input": "$$value", "as": "e", "in": { "$cond": [entry.clone(), { "k": "$$e.k", "n": { "$add": ["$$e.n", 1] } }, "$$e"] } } },
            { "$concatArrays": ["$$value", [{ "k": "$$this.k", "n": 1 }]] }] }),
        ),
        (text.clone(), bson!({ "$replaceAll": { "input": "$$value", "find": "$$this", "replacement": "" } })),
        (array.clone(), bson!({ "$filter": { "input": "$$value", "as": "e", "cond": { "$ne": ["$$e", "$$this"] } } })),
        (
            bson!([0, []]),
            bson!([{ "$add": [{ "$arrayElemAt": ["$$value", 0] }, 1] }, { "$concatArrays": [{ "$arrayElemAt": ["$$value", 1] }, ["$$this"]] }]),
        ),
        (object.clone(), bson!({ "prev": "$$value.cur", "cur": { "id": "$$this" } })),
        (bson!(0), bson!({ "$strLenCP": { "$concat": ["$$value", "$$value"] } })),
    ];
    for (initial, body) in bodies {
        assert_passing(&[reduce("$fields", initial, body.clone()), reduce("$fields", "$a", body)]);
    }
    let pairs = bson!([["ä", "ae"], ["ö", "oe"], ["ü", "ue"], ["ß", "ss"]]);
    let spelt = bson!({ "$replaceAll": { "input": "$$value", "find": { "$first": "$$this" }, "replacement": { "$last": "$$this" } } });
    assert_passing(&[reduce(pairs, "$name", spelt)]);
}

#[test]
fn iterations_that_make_too_many_values_are_refused() {
    let wide = bson!({ "$concatArrays": ["$$big", "$$big"] });
    let nested = |end: Bson| map(bson!({ "$range": [0, end.clone()] }), bson!({ "$range": [0, end] }));
    assert_refused(
        &[
            map(range(100_000), range(100_000)),
            map(range(100_000), map(range(100_000), 1)),
            bson!({ "$size": map(range(20_000), bson!({ "$size": range(20_000) })) }),
            bson!({ "$filter": { "input": range(100_000), "cond": { "$in": [-1, range(100_000)] } } }),
            bson!({ "$let": { "vars": { "big": range(100_000) }, "in": map("$$big", wide) } }),
            bson!({ "$let": { "vars": { "o": { "$arrayToObject": [[["k", range(100_000)]]] } }, "in": map("$$o.k", map("$$o.k", 1)) } }),
            map(bson!({ "$range": [{ "$subtract": ["$n", 3_000_000] }, "$n"] }), map(range(100), 1)),
            map("$a", map("$b", map("$c", map("$d", 1)))),
            reduce(range(100_000), bson!([]), bson!({ "$concatArrays": ["$$value", ["$$this"]] })),
            reduce(range(100_000), 0, bson!({ "$size": range(100_000) })),
            reduce(range(1_000_000), bson!([]), bson!({ "$concatArrays": ["$$value", range(1000)] })),
            bson!({ "$trim": { "input": { "$concat": ["a".repeat(20_000), "$x"] }, "chars": "b".repeat(20_000) } }),
            map(range(6_000_000), bson!([{ "a": "$$this" }, { "a": "$$this" }])),
            nested(bson!({ "$toInt": "400000" })),
            nested(bson!({ "$pow": [2, 18] })),
            nested(bson!({ "$sum": [range(900)] })),
            bson!({ "$let": { "vars": { "n": 3_000_000 }, "in": nested(bson!("$$n")) } }),
            bson!({ "$let": { "vars": { "n": { "$ifNull": ["$n", 3_000_000] } }, "in": nested(bson!("$$n")) } }),
            bson!({ "$let": { "vars": { "x": [range(400_000)], "y": [range(400_000)] },
                "in": { "$filter": { "input": range(400_000), "cond": { "$ne": ["$$x", "$$y"] } } } } }),
            bson!({ "$let": { "vars": { "x": { "a": range(400_000) } },
                "in": { "$sum": map(range(400_000), bson!({ "$bsonSize": "$$x" })) } } }),
            map(range(12_000), bson!({ "$regexFindAll": { "input": "a".repeat(8000), "regex": "(?=(.*))" } })),
        ],
        "100,000,000",
    );
    let long = (0..6).fold(
        bson!("$a"),
        |text, _| bson!({ "$let": { "vars": { "t": text }, "in": { "$concat": vec!["$$t"; 40] } } }),
    );
    assert_refused(&[long], "100,000,000");
}

#[test]
fn usual_iterations_pass() {
    let named = bson!({ "$filter": { "input": "$fields", "cond": { "$eq": ["$$this.name", "a"] } } });
    let equal = bson!({ "$and": vec![bson!({ "$eq": ["$$r.id", { "$first": named }] }); 5] });
    assert_passing(&[
        bson!({ "$range": [0, 6_000_000] }),
        bson!({ "$range": [0, "$n"] }),
        map(range(1_000_000), bson!({ "$add": ["$$this", 1] })),
        map(range(1500), map(range(1500), 1)),
        map("$a", map("$b", bson!({ "$concat": ["$$this.x", "$name"] }))),
        map("$a", bson!({ "$filter": { "input": "$b", "as": "r", "cond": equal } })),
        map("$racks", map("$$this.servers", map("$$this.fields", map("$$this.values", "$$this")))),
        map("$a", map("$b", map("$c", bson!(["$$this"])))),
        map(
            bson!({ "$range": [0, { "$size": "$a" }] }),
            map(bson!({ "$range": [0, { "$size": "$b" }] }), bson!({ "$arrayElemAt": ["$a", "$$this"] })),
        ),
        map(bson!({ "$range": [0, "$n"] }), map("$b", 1)),
        map("$racks", bson!({ "$range": [0, "$$this.units"] })),
        map(bson!({ "$range": [0, { "$size": "$a" }] }), bson!({ "$range": [0, "$$this"] })),
        bson!({ "$let": { "vars": { "n": 10 }, "in": map(range(1_000_000), bson!({ "$range": [0, "$$n"] })) } }),
        bson!({ "$let": { "vars": { "n": "$n" }, "in": map("$a", bson!({ "$range": [0, "$$n"] })) } }),
        bson!({ "$range": [0, { "$toInt": "$n" }] }),
        reduce(bson!({ "$range": [0, "$n"] }), bson!([]), bson!({ "$concatArrays": ["$$value", ["$$this"]] })),
    ]);
}

#[test]
fn the_refusal_names_the_place() {
    let error = refusal(&map(range(100_000), bson!({ "a": range(100_000) }))).expect("a refusal");
    assert!(error.starts_with("expression.$map.in.a.$range: "), "{error}");
    let error = refusal(&bson!({ "$size": [reduce("$a", "", bson!(["$$value"]))] })).expect("a refusal");
    assert!(error.starts_with("expression.$size.0.$reduce: "), "{error}");
}

#[test]
fn much_work_of_estimates_is_refused() {
    let intricate = (0..9).fold(bson!(0), |inner, _| reduce("$a", inner, bson!({ "$add": ["$$value", 1] })));
    assert_passing(&[intricate]);
    let nested = (0..9)
        .fold(bson!(["$$this"]), |inner, _| reduce("$a", bson!([]), bson!({ "$concatArrays": ["$$value", inner] })));
    let refusal = refusal(&nested).expect("a refusal");
    assert!(refusal.contains("100,000,000") || refusal.contains("intricate"), "{refusal}");
}

#[test]
fn what_a_stage_makes_counts_in_the_next() {
    let parse = |stages: &Bson| {
        let stages = stages.as_array().expect("stages");
        Pipeline::parse(stages, &Limits::default(), DateTime::from_millis(NOW))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let twice = map("$x", map("$x", 1));
    let set = bson!({ "$set": { "x": range(400_000) } });
    let doubled: Vec<Bson> = (0..40).map(|_| bson!({ "$set": { "x": { "$concatArrays": ["$x", "$x"] } } })).collect();
    for stages in [
        bson!([set.clone(), { "$project": { "y": twice.clone() } }]),
        bson!([set.clone(), { "$group": { "_id": null, "y": { "$push": twice.clone() } } }]),
        bson!([set.clone(), { "$project": { "z": "$x" } }, { "$match": { "$expr": map("$z", map("$z", 1)) } }]),
        bson!([set.clone(), { "$replaceWith": { "z": "$$ROOT" } }, { "$set": { "y": map("$z.x", map("$z.x", 1)) } }]),
        bson!([set.clone(), { "$group": { "_id": null, "z": { "$push": "$x" } } }, { "$set": { "y": map(bson!({ "$first": "$z" }), map(bson!({ "$first": "$z" }), 1)) } }]),
        bson!([{ "$facet": { "q": [set.clone()] } }, { "$set": { "y": map("$q.x", map("$q.x", 1)) } }]),
        bson!([{ "$set": { "a.b": range(400_000) } }, { "$replaceWith": "$a" }, { "$set": { "y": map("$b", map("$b", 1)) } }]),
        bson!([{ "$lookup": { "from": "b", "pipeline": [set.clone()], "as": "l" } }, { "$set": { "y": map("$l.x", map("$l.x", 1)) } }]),
        Bson::Array(doubled),
    ] {
        let parsed = parse(&stages);
        assert!(parsed.as_ref().is_err_and(|error| error.contains("100,000,000")), "{stages}: {parsed:?}");
    }
    let lookup = |name: &str| bson!({ "$lookup": { "from": "b", "localField": "a", "foreignField": "a", "as": name } });
    let crossed =
        bson!({ "$filter": { "input": "$r", "as": "y", "cond": { "$in": ["$$this.public_id", "$$y.fields.value"] } } });
    assert_eq!(parse(&bson!([lookup("s"), lookup("r"), { "$project": { "m": map("$s", crossed) } }])), Ok(()));
    let usual = bson!({ "$set": { "x": range(900) } });
    assert_eq!(parse(&bson!([usual, { "$unwind": "$x" }, { "$set": { "y": map("$a", map("$b", 1)) } }])), Ok(()));
}
