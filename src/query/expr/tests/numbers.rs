//! Arithmetic on the four types of numbers.

use bson::{Bson, bson, doc};

use super::{code, date, decimal, on, value};

#[test]
fn integers_that_overflow_become_wider() {
    assert_eq!(value(bson!({ "$add": [i32::MAX, 1] })), Bson::Int64(2_147_483_648));
    assert_eq!(value(bson!({ "$add": [i64::MAX, 1] })), Bson::Double(9_223_372_036_854_775_808.0));
    assert_eq!(value(bson!({ "$multiply": [i32::MAX, 2] })), Bson::Int64(4_294_967_294));
    assert_eq!(value(bson!({ "$abs": i32::MIN })), Bson::Int64(2_147_483_648));
    assert_eq!(code(bson!({ "$abs": i64::MIN })), 28680);
    assert_eq!(value(bson!({ "$pow": [3, 40] })), Bson::Double(1.215_766_545_905_692_9e19));
}

#[test]
fn an_addition_rounds_each_step_and_a_sum_loses_little() {
    assert_eq!(value(bson!({ "$add": [0.1, 0.2, 0.3] })), bson!(0.600_000_000_000_000_1));
    assert_eq!(value(bson!({ "$sum": [0.1, 0.2, 0.3] })), bson!(0.6));
    let document = doc! { "a": 0.2, "b": -7, "c": 5 };
    for name in ["$add", "$sum"] {
        let sum = bson!({ name: ["$a", "$b", "$c"] });
        assert_eq!(on(&document, sum), Ok(Some(Bson::Double(-1.799_999_999_999_999_8))), "{name}");
    }
}

#[test]
fn a_double_among_decimals_counts_with_15_digits_but_in_sums_with_all() {
    assert_eq!(value(bson!({ "$sum": [0.1, decimal("0.2")] })), decimal("0.3000000000000000055511151231257827"));
    assert_eq!(value(bson!({ "$multiply": [0.1, decimal("3")] })), decimal("0.300000000000000"));
    assert_eq!(value(bson!({ "$add": [0.1, decimal("0.2")] })), decimal("0.300000000000000"));
}

#[test]
fn decimals_keep_their_exponents() {
    assert_eq!(value(bson!({ "$multiply": [decimal("1.20"), decimal("3.0")] })), decimal("3.600"));
    assert_eq!(value(bson!({ "$divide": [decimal("10.00"), 5] })), decimal("2.00"));
    assert_eq!(value(bson!({ "$divide": [decimal("6"), decimal("0.2")] })), decimal("3E+1"));
    assert_eq!(value(bson!({ "$divide": [decimal("1"), 3] })), decimal("0.3333333333333333333333333333333333"));
    let large = value(bson!({ "$add": [decimal("1E+6000"), 1] }));
    assert_eq!(large, decimal("1.000000000000000000000000000000000E+6000"));
    assert_eq!(value(bson!({ "$sqrt": decimal("0.0400") })), decimal("0.20"));
    assert_eq!(value(bson!({ "$mod": [decimal("1E+6000"), 3] })), decimal("1"));
}

#[test]
fn rounding_goes_to_the_even_neighbour_of_the_exact_value() {
    assert_eq!(value(bson!({ "$round": [2.5] })), bson!(2.0));
    assert_eq!(value(bson!({ "$round": [2.675, 2] })), bson!(2.67));
    assert_eq!(value(bson!({ "$trunc": [4.35, 2] })), bson!(4.34));
    assert_eq!(value(bson!({ "$round": [15, -1] })), bson!(20));
    assert_eq!(value(bson!({ "$round": [i32::MAX, -1] })), Bson::Int64(2_147_483_650));
    assert_eq!(code(bson!({ "$round": [15, 101] })), 51083);
    assert_eq!(value(bson!({ "$ceil": decimal("-Infinity") })), decimal("NaN"));
}

#[test]
fn the_divisor_decides_how_a_remainder_is_taken() {
    assert_eq!(value(bson!({ "$mod": [-5, 3] })), bson!(-2));
    assert_eq!(value(bson!({ "$mod": [5, 3.0] })), bson!(2));
    assert_eq!(value(bson!({ "$mod": [5.5, 3] })), bson!(2.5));
    assert_eq!(value(bson!({ "$mod": [i64::MIN, -1] })), Bson::Int64(0));
    assert_eq!(code(bson!({ "$mod": [5, 0] })), 16610);
    assert_eq!(code(bson!({ "$mod": [5, decimal("0")] })), 5_733_415);
}

#[test]
fn null_wins_over_a_wrong_type_that_comes_later() {
    assert_eq!(value(bson!({ "$add": [null, "x"] })), Bson::Null);
    assert_eq!(code(bson!({ "$add": ["x", null] })), 14);
    assert_eq!(value(bson!({ "$subtract": ["x", null] })), Bson::Null);
}

#[test]
fn logarithms_are_defined_above_zero() {
    assert_eq!(code(bson!({ "$ln": 0 })), 28766);
    assert_eq!(code(bson!({ "$log10": -1 })), 28761);
    assert_eq!(code(bson!({ "$log": [8, 1] })), 28759);
    assert_eq!(value(bson!({ "$log": [decimal("8"), 2] })), decimal("3"));
    assert_eq!(value(bson!({ "$log": [decimal("7"), 3] })), decimal("1.77124374916142"));
    assert_eq!(value(bson!({ "$log10": decimal("0.001") })), decimal("-3"));
    assert_eq!(value(bson!({ "$ln": decimal("10") })), decimal("2.30258509299405"));
}

#[test]
fn functions_of_decimals_have_the_15_digits_of_doubles() {
    assert_eq!(value(bson!({ "$exp": decimal("1") })), decimal("2.71828182845905"));
    assert_eq!(value(bson!({ "$tan": decimal("1.00") })), decimal("1.5574077246549"));
    assert_eq!(value(bson!({ "$atan2": [decimal("0.5"), 1] })), decimal("0.463647609000806"));
    assert_eq!(value(bson!({ "$asinh": decimal("1") })), decimal("0.881373587019543"));
    assert_eq!(value(bson!({ "$pow": [decimal("2.25"), 0.5] })), decimal("1.5"));
    assert_eq!(value(bson!({ "$exp": decimal("1E+4") })), decimal("Infinity"));
    assert_eq!(value(bson!({ "$sin": decimal("NaN") })), decimal("NaN"));
    assert_eq!(code(bson!({ "$acos": 2 })), 50989);
    assert_eq!(code(bson!({ "$acos": decimal("1.0000000000000000000000000000001") })), 50989);
    assert_eq!(code(bson!({ "$sin": f64::INFINITY })), 50989);
}

#[test]
fn whole_powers_and_degrees_of_decimals_have_34_digits() {
    let tenth_year = value(bson!({ "$pow": [decimal("1.05"), 10] }));
    assert_eq!(tenth_year, decimal("1.628894626777441406250000000000000"));
    assert_eq!(value(bson!({ "$pow": [decimal("-2"), -3] })), decimal("-0.1250000000000000000000000000000000"));
    assert_eq!(value(bson!({ "$pow": [decimal("1E+3000"), 3] })), decimal("Infinity"));
    assert_eq!(value(bson!({ "$degreesToRadians": decimal("180") })), decimal("3.141592653589793238462643383279503"));
    assert_eq!(value(bson!({ "$radiansToDegrees": decimal("1") })), decimal("57.29577951308232087679815481410517"));
}

#[test]
fn dates_are_moved_by_whole_milliseconds() {
    let document = doc! { "d": bson::DateTime::from_millis(1000) };
    assert_eq!(on(&document, bson!({ "$add": ["$d", 1.5] })), Ok(Some(date(1002))));
    assert_eq!(on(&document, bson!({ "$add": ["$d", decimal("1.5")] })), Ok(Some(date(1002))));
    assert_eq!(on(&document, bson!({ "$subtract": ["$d", "$d"] })), Ok(Some(Bson::Int64(0))));
    assert_eq!(on(&document, bson!({ "$add": ["$d", "$d"] })), Err(16612));
}

#[test]
fn accumulators_look_into_a_single_array_and_skip_what_is_no_number() {
    assert_eq!(value(bson!({ "$sum": [[1, 2]] })), bson!(3));
    assert_eq!(value(bson!({ "$sum": [[1, 2], 3] })), bson!(3));
    assert_eq!(value(bson!({ "$avg": [1, "x", 4] })), bson!(2.5));
    assert_eq!(value(bson!({ "$avg": ["x"] })), Bson::Null);
    assert_eq!(value(bson!({ "$max": [3, 1, "x", null] })), bson!("x"));
    assert_eq!(value(bson!({ "$stdDevSamp": [1] })), Bson::Null);
    assert_eq!(value(bson!({ "$stdDevPop": [1, 2, 3, 4] })), bson!(1.118_033_988_749_895));
}

#[test]
fn random_numbers_are_drawn_anew_for_each_document() {
    let expression = super::parse(bson!({ "$rand": {} })).expect("good");
    assert!(!expression.is_constant());
    let document = bson::RawDocumentBuf::new();
    let first = expression.evaluate(&document).expect("no failure");
    assert_ne!(first, expression.evaluate(&document).expect("no failure"));
    assert_eq!(code(bson!({ "$rand": { "a": 1 } })), 3_040_501);
    assert_eq!(code(bson!({ "$rand": 1 })), 10065);
}
