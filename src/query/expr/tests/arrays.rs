//! Arrays, sets and documents.

use bson::{Bson, bson, doc};

use super::{code, eval, on, value};

#[test]
fn positions_count_from_the_end_when_negative() {
    assert_eq!(value(bson!({ "$arrayElemAt": [[1, 2], -1] })), bson!(2));
    assert_eq!(eval(bson!({ "$arrayElemAt": [[1, 2], 5] })), Ok(None));
    assert_eq!(code(bson!({ "$arrayElemAt": [[1, 2], 1.5] })), 28691);
    assert_eq!(value(bson!({ "$slice": [[1, 2, 3], -10, 2] })), bson!([1, 2]));
    assert_eq!(code(bson!({ "$slice": [[1, 2, 3], 1, 0] })), 28729);
}

#[test]
fn a_reduction_of_nothing_is_what_it_began_with() {
    assert_eq!(eval(bson!({ "$reduce": { "input": [], "initialValue": "$none", "in": 1 } })), Ok(None));
    let sum = bson!({ "$reduce": { "input": [1, 2], "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } });
    assert_eq!(value(sum), bson!(3));
}

#[test]
fn the_limit_of_a_filter_counts_what_passes() {
    let filter =
        |limit: Bson| bson!({ "$filter": { "input": [1, 2, 3], "cond": { "$gt": ["$$this", 1] }, "limit": limit } });
    assert_eq!(value(filter(bson!(1))), bson!([2]));
    assert_eq!(value(filter(Bson::Null)), bson!([2, 3]));
    assert_eq!(code(filter(bson!(0))), 327_392);
    assert_eq!(code(filter(bson!(1.5))), 327_391);
}

#[test]
fn what_a_map_gives_is_null_where_it_is_missing() {
    assert_eq!(value(bson!({ "$map": { "input": [1, 2], "in": "$none" } })), bson!([null, null]));
    assert_eq!(code(bson!({ "$map": { "input": 5, "in": 1 } })), 16883);
}

#[test]
fn a_range_stops_before_its_end() {
    assert_eq!(value(bson!({ "$range": [5, 1, -2] })), bson!([5, 3]));
    assert_eq!(code(bson!({ "$range": [1, 5, 0] })), 34449);
    assert_eq!(code(bson!({ "$range": [0, i32::MAX] })), 146);
}

#[test]
fn arrays_sort_by_members_through_documents_only() {
    let input = bson!([{ "a": { "b": 2 } }, { "a": { "b": 1 } }, { "a": [{ "b": 0 }] }]);
    let sorted = bson!({ "$sortArray": { "input": { "$literal": input }, "sortBy": { "a.b": 1 } } });
    assert_eq!(value(sorted), bson!([{ "a": [{ "b": 0 }] }, { "a": { "b": 1 } }, { "a": { "b": 2 } }]));
    assert_eq!(code(bson!({ "$sortArray": { "input": [3], "sortBy": 2 } })), 2_942_506);
}

#[test]
fn the_most_and_the_least_leave_null_out() {
    assert_eq!(value(bson!({ "$minN": { "n": 2, "input": [3, null, 1] } })), bson!([1, 3]));
    assert_eq!(value(bson!({ "$maxN": { "n": 3, "input": [1, 1.0, 2] } })), bson!([2, 1.0, 1]));
    assert_eq!(code(bson!({ "$firstN": { "n": 0, "input": [1] } })), 5_787_908);
}

#[test]
fn zipping_goes_to_the_shortest_or_fills_up() {
    assert_eq!(value(bson!({ "$zip": { "inputs": [[1], [1, 2]] } })), bson!([[1, 1]]));
    let longest = bson!({ "$zip": { "inputs": [[1], [1, 2]], "useLongestLength": true, "defaults": [0, 0] } });
    assert_eq!(value(longest), bson!([[1, 1], [0, 2]]));
    assert_eq!(code(bson!({ "$zip": { "inputs": [[1]], "defaults": [0] } })), 34466);
}

#[test]
fn sets_are_sorted_and_hold_equal_numbers_once() {
    assert_eq!(value(bson!({ "$setUnion": [[3, 1], [2, 1.0]] })), bson!([1, 2, 3]));
    assert_eq!(value(bson!({ "$setDifference": [[3, 1, 2, 3], [1]] })), bson!([3, 2]));
    assert_eq!(value(bson!({ "$setIntersection": [[1.0, 2], [1]] })), bson!([1]));
    assert_eq!(value(bson!({ "$setEquals": [[1], [1, 1]] })), bson!(true));
    assert_eq!(code(bson!({ "$setIsSubset": [null, [1]] })), 17046);
    assert_eq!(on(&doc! {}, bson!({ "$setIsSubset": ["$none", [1]] })), Err(17310));
}

#[test]
fn arrays_of_pairs_become_documents() {
    assert_eq!(value(bson!({ "$arrayToObject": [[["a", 1], ["a", 2]]] })), bson!({ "a": 2 }));
    assert_eq!(value(bson!({ "$arrayToObject": { "$literal": [{ "k": "$x", "v": 1 }] } })), bson!({ "$x": 1 }));
    assert_eq!(code(bson!({ "$arrayToObject": { "$literal": [["a", 1], { "k": "b", "v": 2 }] } })), 40396);
    assert_eq!(value(bson!({ "$objectToArray": { "a": 1 } })), bson!([{ "k": "a", "v": 1 }]));
}

#[test]
fn fields_are_reached_by_names_that_are_no_paths() {
    let input = bson!({ "$literal": { "b.c": 3, "$x": 4 } });
    assert_eq!(value(bson!({ "$getField": { "field": "b.c", "input": input.clone() } })), bson!(3));
    assert_eq!(value(bson!({ "$getField": { "field": { "$literal": "$x" }, "input": input } })), bson!(4));
    assert_eq!(code(bson!({ "$getField": "$a" })), 5_654_600);
    assert_eq!(value(bson!({ "$unsetField": { "field": "a", "input": { "a": 1, "b": 2 } } })), bson!({ "b": 2 }));
    assert_eq!(code(bson!({ "$setField": { "field": "a", "input": 5, "value": 1 } })), 4_161_105);
}

#[test]
fn merged_documents_keep_the_place_of_the_first_and_the_value_of_the_last() {
    assert_eq!(value(bson!({ "$mergeObjects": [{ "a": 1, "b": 1 }, null, { "a": 2 }] })), bson!({ "a": 2, "b": 1 }));
    assert_eq!(code(bson!({ "$mergeObjects": "x" })), 40400);
}
