//! What an expression may cost in memory.

use bson::{Bson, bson, doc};

use super::{code, on, value};

/// `$reduce` over so many steps.
fn reduce(steps: i32, initial: &str, body: Bson) -> Bson {
    bson!({ "$reduce": { "input": { "$range": [0, steps] }, "initialValue": initial, "in": body } })
}

/// A text of four letters, doubled so many times.
fn doubled(times: usize) -> Bson {
    (0..times).fold(
        bson!("aaaa"),
        |text, _| bson!({ "$let": { "vars": { "text": text }, "in": { "$concat": ["$$text", "$$text"] } } }),
    )
}

/// The number of the failure on a document whose `t` is a text of so many letters: nobody knows that ahead.
fn code_on(letters: usize, expression: Bson) -> i32 {
    on(&doc! { "t": "a".repeat(letters) }, expression).expect_err("a failure")
}

#[test]
fn a_text_that_becomes_too_long_is_refused() {
    assert_eq!(code_on(1024 * 1024, bson!({ "$concat": vec!["$t"; 17] })), 16493);
}

#[test]
fn a_text_of_16_mib_is_still_one() {
    assert_eq!(value(bson!({ "$strLenBytes": doubled(22) })), Bson::Int32(16 * 1024 * 1024));
}

#[test]
fn a_replacement_that_makes_a_text_too_long_is_refused_before_it_is_made() {
    let replaced = bson!({ "$replaceAll": { "input": "$t", "find": "a", "replacement": "$t" } });
    assert_eq!(code_on(8192, bson!({ "$strLenCP": replaced })), 16493);
}

#[test]
fn arrays_that_grow_too_large_are_refused() {
    let document = doc! { "a": vec![1; 200_000] };
    let made = |expression: Bson| on(&document, bson!({ "$size": expression }));
    assert_eq!(made(bson!({ "$concatArrays": vec!["$a"; 40] })), Err(146));
    assert_eq!(made(bson!({ "$zip": { "inputs": vec!["$a"; 40] } })), Err(146));
    assert_eq!(made(bson!({ "$map": { "input": "$a", "in": "$a" } })), Err(146));
}

#[test]
fn defaults_that_fill_long_rows_are_refused_before_they_are_made() {
    let inputs = bson!([[], { "$range": [0, 80_000] }]);
    let zip = bson!({ "$zip": { "inputs": inputs, "useLongestLength": true, "defaults": ["$t", 0] } });
    assert_eq!(code_on(512, bson!({ "$size": zip })), 146);
}

#[test]
fn a_text_split_into_too_many_parts_is_refused() {
    let letters = 4 * 1024 * 1024;
    assert_eq!(code_on(letters, bson!({ "$size": { "$split": ["$t", "a"] } })), 146);
    assert_eq!(code_on(letters, bson!({ "$size": { "$regexFindAll": { "input": "$t", "regex": "a" } } })), 146);
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
