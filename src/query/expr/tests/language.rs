//! Names, variables, paths, booleans, folding.

use bson::{Bson, bson, doc};

use super::{code, date, eval, on, parse, value};

#[test]
fn a_missing_field_is_not_null() {
    let document = doc! { "a": null };
    assert_eq!(on(&document, "$b"), Ok(None));
    assert_eq!(on(&document, bson!({ "$eq": ["$b", null] })), Ok(Some(Bson::Boolean(false))));
    assert_eq!(on(&document, bson!({ "$lt": ["$b", null] })), Ok(Some(Bson::Boolean(true))));
    assert_eq!(on(&document, bson!({ "$type": "$b" })), Ok(Some(Bson::from("missing"))));
}

#[test]
fn a_missing_element_becomes_null_and_a_missing_member_is_dropped() {
    assert_eq!(value(bson!(["$a", 1])), bson!([null, 1]));
    assert_eq!(value(bson!([{ "x": "$a", "y": 1 }])), bson!([{ "y": 1 }]));
}

#[test]
fn a_number_in_a_path_is_no_position() {
    let document = doc! { "list": [{ "a": 1 }, { "a": 2 }, [{ "a": 3 }], 4] };
    assert_eq!(on(&document, "$list.a"), Ok(Some(bson!([1, 2]))));
    assert_eq!(on(&document, "$list.0"), Ok(Some(bson!([]))));
}

#[test]
fn an_empty_array_is_true_and_so_is_an_empty_text() {
    for truth in [bson!([[]]), bson!([""]), bson!([f64::NAN]), bson!([{ "$literal": {} }])] {
        assert_eq!(value(bson!({ "$and": truth })), Bson::Boolean(true));
    }
    for falsehood in [bson!([null]), bson!(["$missing"]), bson!([0.0]), bson!([false])] {
        assert_eq!(value(bson!({ "$or": falsehood })), Bson::Boolean(false));
    }
}

#[test]
fn unknown_operators_and_wrong_arities_are_refused() {
    assert_eq!(parse(bson!({ "$foo": 1 })).err(), Some(168));
    assert_eq!(parse(bson!({ "$abs": [1, 2] })).err(), Some(16020));
    assert_eq!(parse(bson!({ "$round": [1, 2, 3] })).err(), Some(28667));
    assert_eq!(parse(bson!({ "$abs": 1, "$ceil": 1 })).err(), Some(15983));
    assert_eq!(parse(bson!({ "a": 1, "$abs": 1 })).err(), Some(16410));
    assert_eq!(parse(bson!([{ "a.b": 1 }])).err(), Some(16412));
}

#[test]
fn javascript_is_refused_at_any_depth() {
    let function = bson!({ "$function": { "body": "function() {}", "args": [], "lang": "js" } });
    assert_eq!(parse(bson!({ "$add": [1, { "$cond": [true, function, 2] }] })).err(), Some(224));
}

#[test]
fn malformed_paths_are_refused() {
    for (path, code) in [("$", 16872), ("$a.", 40353), ("$a..b", 15998), ("$.a", 15998), ("$a.$b", 16410)] {
        assert_eq!(parse(path).err(), Some(code), "{path}");
    }
}

#[test]
fn variables_are_seen_only_where_they_are_bound() {
    let bound = bson!({ "$let": { "vars": { "x": { "a": [{ "b": 1 }, { "b": 2 }] } }, "in": "$$x.a.b" } });
    assert_eq!(value(bound), bson!([1, 2]));
    assert_eq!(code("$$x"), 17276);
    assert_eq!(code(bson!({ "$let": { "vars": { "x": 1, "y": "$$x" }, "in": "$$y" } })), 17276);
    assert_eq!(code(bson!({ "$let": { "vars": { "X": 1 }, "in": 1 } })), 9);
    assert_eq!(value(bson!({ "$let": { "vars": { "CURRENT": { "b": 3 } }, "in": "$b" } })), bson!(3));
}

#[test]
fn inner_variables_hide_outer_ones() {
    let nested = bson!({ "$map": { "input": [1, 2], "as": "x", "in": {
        "$map": { "input": ["$$x"], "as": "x", "in": { "$add": ["$$x", 10] } }
    } } });
    assert_eq!(value(nested), bson!([[11], [12]]));
}

#[test]
fn the_clock_is_given_when_the_expression_is_parsed() {
    assert_eq!(value("$$NOW"), date(super::NOW));
    assert_eq!(code("$$CLUSTER_TIME"), 51144);
    assert_eq!(eval("$$REMOVE"), Ok(None));
}

#[test]
fn constants_are_computed_when_the_expression_is_parsed() {
    assert!(parse(bson!({ "$add": [1, { "$multiply": [2, 3] }] })).expect("good").is_constant());
    assert_eq!(parse(bson!({ "$cond": ["$a", 1, { "$divide": [1, 0] }] })).err(), Some(2));
    assert!(parse(bson!({ "$divide": ["$a", 0] })).is_ok());
}

#[test]
fn a_switch_forgets_branches_that_are_never_taken() {
    let branches = bson!([{ "case": false, "then": { "$divide": [1, 0] } }]);
    assert_eq!(value(bson!({ "$switch": { "branches": branches, "default": 3 } })), bson!(3));
    assert_eq!(code(bson!({ "$switch": { "branches": [{ "case": 0, "then": 1 }] } })), 40069);
    assert_eq!(code(bson!({ "$switch": { "branches": [{ "case": "$a", "then": 1 }] } })), 40066);
}

#[test]
fn what_follows_a_decided_operand_is_not_looked_at() {
    let document = doc! { "zero": 0 };
    let failing = bson!({ "$divide": [1, "$zero"] });
    assert_eq!(on(&document, bson!({ "$and": ["$zero", failing.clone()] })), Ok(Some(Bson::Boolean(false))));
    assert_eq!(on(&document, bson!({ "$ifNull": ["$zero", failing.clone()] })), Ok(Some(bson!(0))));
    assert_eq!(on(&document, bson!({ "$add": ["$none", failing] })), Ok(Some(Bson::Null)));
}

#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    let mut expression = bson!(1);
    for _ in 0..2000 {
        expression = bson!({ "$abs": [expression] });
    }
    assert_eq!(parse(expression).err(), Some(15));
    let mut expression = bson!("$a");
    for _ in 0..58 {
        expression = bson!({ "$map": { "input": [expression], "in": { "$cond": [true, ["$$this"], { "$abs": 1 }] } } });
    }
    assert!(on(&doc! { "a": 1 }, expression).is_ok());
}

#[test]
fn the_place_of_a_mistake_is_told() {
    let error = super::Expression::parse_alone(&bson!({ "$add": [1, { "$foo": 1 }] }), bson::DateTime::from_millis(0))
        .expect_err("unknown");
    assert_eq!(error.pointer, "/$add/1/$foo");
}
