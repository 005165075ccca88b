//! What an expression may cost in memory.

use bson::{Bson, bson};

use super::{code, value};

/// `$reduce` over this number of steps.
fn reduce(steps: i32, initial: &str, body: Bson) -> Bson {
    bson!({ "$reduce": { "input": { "$range": [0, steps] }, "initialValue": initial, "in": body } })
}

#[test]
fn a_text_that_doubles_over_and_over_is_refused() {
    let doubled = reduce(23, "aaaa", bson!({ "$concat": ["$$value", "$$value"] }));
    assert_eq!(code(bson!({ "$strLenCP": doubled })), 16493);
}

#[test]
fn a_text_of_16_mib_is_still_one() {
    let doubled = reduce(22, "aaaa", bson!({ "$concat": ["$$value", "$$value"] }));
    assert_eq!(value(bson!({ "$strLenBytes": doubled })), Bson::Int32(16 * 1024 * 1024));
}

#[test]
fn a_replacement_that_makes_a_text_too_long_is_refused_before_it_is_made() {
    let doubled = reduce(20, "aaaa", bson!({ "$concat": ["$$value", "$$value"] }));
    let replaced = bson!({ "$replaceAll": { "input": "$$long", "find": "a", "replacement": "$$long" } });
    assert_eq!(code(bson!({ "$let": { "vars": { "long": doubled }, "in": { "$strLenCP": replaced } } })), 16493);
}

#[test]
fn arrays_that_grow_without_end_are_refused() {
    let grown = |body: Bson| {
        let input = bson!({ "$range": [0, 22] });
        code(bson!({ "$size": { "$reduce": { "input": input, "initialValue": [1], "in": body } } }))
    };
    assert_eq!(grown(bson!({ "$concatArrays": ["$$value", "$$value"] })), 146);
    assert_eq!(grown(bson!({ "$setUnion": [["$$value", 1], ["$$value"], [["$$value"]]] })), 146);
    assert_eq!(grown(bson!({ "$zip": { "inputs": ["$$value", "$$value"] } })), 146);
    assert_eq!(grown(bson!({ "$map": { "input": [1, 2], "in": "$$value" } })), 146);
    assert_eq!(grown(bson!({ "a": "$$value", "b": "$$value" })), 146);
}

#[test]
fn defaults_that_fill_long_rows_are_refused_before_they_are_made() {
    let long = reduce(20, "aaaa", bson!({ "$concat": ["$$value", "$$value"] }));
    let inputs = bson!([[], { "$range": [0, 20] }]);
    let zip = bson!({ "$zip": { "inputs": inputs, "useLongestLength": true, "defaults": [long, 0] } });
    assert_eq!(code(bson!({ "$size": zip })), 146);
}

#[test]
fn a_text_split_into_too_many_parts_is_refused() {
    let long = reduce(20, "aaaa", bson!({ "$concat": ["$$value", "$$value"] }));
    assert_eq!(code(bson!({ "$size": { "$split": [long.clone(), "a"] } })), 146);
    assert_eq!(code(bson!({ "$size": { "$regexFindAll": { "input": long, "regex": "a" } } })), 146);
}

#[test]
fn constants_are_counted_when_they_are_computed_ahead() {
    let long = bson!({ "$range": [0, 400_000] });
    assert_eq!(code(bson!([long.clone(), long])), 146);
}

#[test]
fn what_was_used_and_dropped_does_not_count() {
    let sizes = bson!({ "$map": { "input": { "$range": [0, 40] }, "in": { "$size": { "$range": [0, { "$add": [100_000, "$$this"] }] } } } });
    assert_eq!(value(bson!({ "$size": sizes })), Bson::Int32(40));
    let last = reduce(
        40,
        "",
        bson!({ "$concat": [{ "$toString": { "$size": { "$range": [0, { "$add": [100_000, "$$this"] }] } } }, ""] }),
    );
    assert_eq!(value(last), Bson::from("100039"));
}

#[test]
fn arrays_in_arrays_without_end_are_refused() {
    assert_eq!(code(reduce(220, "", bson!(["$$value"]))), 15);
}
