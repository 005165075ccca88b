//! Texts, regular expressions, conversions.

use bson::oid::ObjectId;
use bson::{Bson, bson};

use super::{code, date, decimal, eval, value};

#[test]
fn bytes_and_code_points_are_told_apart() {
    assert_eq!(value(bson!({ "$strLenBytes": "héllo" })), bson!(6));
    assert_eq!(value(bson!({ "$strLenCP": "héllo" })), bson!(5));
    assert_eq!(value(bson!({ "$substrCP": ["héllo", 1, 2] })), bson!("él"));
    assert_eq!(code(bson!({ "$substrBytes": ["héllo", 2, 2] })), 28656);
    assert_eq!(code(bson!({ "$substrBytes": ["héllo", 1, 1] })), 28657);
    assert_eq!(value(bson!({ "$indexOfCP": ["héllo", "l"] })), bson!(2));
    assert_eq!(value(bson!({ "$indexOfBytes": ["héllo", "l"] })), bson!(3));
}

#[test]
fn a_token_must_begin_but_need_not_end_before_the_end_of_a_search_by_code_points() {
    assert_eq!(value(bson!({ "$indexOfCP": ["abcabc", "ca", 2, 3] })), bson!(2));
    assert_eq!(value(bson!({ "$indexOfBytes": ["abcabc", "ca", 2, 3] })), bson!(-1));
    assert_eq!(value(bson!({ "$indexOfBytes": ["héllo", "l", 2] })), bson!(3));
    assert_eq!(value(bson!({ "$indexOfBytes": ["héllo", "é", 1, 2] })), bson!(-1));
    assert_eq!(value(bson!({ "$indexOfBytes": ["abc", "", 4] })), bson!(-1));
    assert_eq!(value(bson!({ "$indexOfCP": ["héhé", "é", 2] })), bson!(3));
    assert_eq!(value(bson!({ "$indexOfCP": ["abc", "", 3] })), bson!(-1));
}

#[test]
fn only_letters_of_ascii_change_their_case() {
    assert_eq!(value(bson!({ "$toUpper": "héllo" })), bson!("HéLLO"));
    assert_eq!(value(bson!({ "$toUpper": null })), bson!(""));
    // The sign shows that computing made it: an infinite number less itself has one on common processors.
    assert_eq!(value(bson!({ "$toUpper": f64::NAN })), bson!("NAN"));
    assert_eq!(value(bson!({ "$toUpper": (-f64::NAN) })), bson!("-NAN"));
    assert_eq!(value(bson!({ "$strcasecmp": ["a", "B"] })), bson!(-1));
    assert_eq!(code(bson!({ "$toUpper": true })), 16007);
}

#[test]
fn trimming_takes_blanks_or_the_characters_named() {
    assert_eq!(value(bson!({ "$trim": { "input": " \u{a0}a\0\n" } })), bson!("a"));
    assert_eq!(value(bson!({ "$ltrim": { "input": "xyax", "chars": "xy" } })), bson!("ax"));
    assert_eq!(value(bson!({ "$trim": { "input": "x", "chars": null } })), Bson::Null);
    assert_eq!(code(bson!({ "$trim": { "input": 1 } })), 50699);
    assert_eq!(code(bson!({ "$trim": "x" })), 50696);
}

#[test]
fn replacing_the_empty_text_puts_something_between_all_characters() {
    let replace = |operator: &str| bson!({ operator: { "input": "abc", "find": "", "replacement": "-" } });
    assert_eq!(value(replace("$replaceAll")), bson!("-a-b-c-"));
    assert_eq!(value(replace("$replaceOne")), bson!("-abc"));
    assert_eq!(code(bson!({ "$replaceOne": { "input": null, "find": "a", "replacement": 1 } })), 51744);
}

#[test]
fn splitting_keeps_empty_parts() {
    assert_eq!(value(bson!({ "$split": ["-a-", "-"] })), bson!(["", "a", ""]));
    assert_eq!(code(bson!({ "$split": ["a", ""] })), 40087);
}

#[test]
fn matches_are_described_with_positions_in_code_points() {
    let all = bson!({ "$regexFindAll": { "input": "héllo", "regex": "(l)|(h)" } });
    let expected = bson!([
        { "match": "h", "idx": 0, "captures": [null, "h"] },
        { "match": "l", "idx": 2, "captures": ["l", null] },
        { "match": "l", "idx": 3, "captures": ["l", null] },
    ]);
    assert_eq!(value(all), expected);
    assert_eq!(value(bson!({ "$regexMatch": { "input": "a", "regex": "A", "options": "i" } })), bson!(true));
    assert_eq!(value(bson!({ "$regexFind": { "input": null, "regex": "a" } })), Bson::Null);
    assert_eq!(code(bson!({ "$regexMatch": { "input": "a", "regex": "(" } })), 51111);
    assert_eq!(code(bson!({ "$regexMatch": { "input": "a", "regex": "a", "options": "q" } })), 51108);
}

#[test]
fn conversions_to_integers_cut_numbers_and_read_whole_texts() {
    assert_eq!(value(bson!({ "$toInt": -1.9 })), bson!(-1));
    assert_eq!(value(bson!({ "$toInt": "+12" })), bson!(12));
    assert_eq!(code(bson!({ "$toInt": 2_147_483_647.9 })), 241);
    assert_eq!(value(bson!({ "$toInt": decimal("2147483647.9") })), bson!(i32::MAX));
    for text in [" 12", "12.5", "0x12", "", "99999999999"] {
        assert_eq!(code(bson!({ "$toInt": text })), 241, "{text}");
    }
}

#[test]
fn conversions_to_double_and_decimal_refuse_what_is_out_of_range() {
    assert_eq!(code(bson!({ "$toDouble": "1e400" })), 241);
    assert_eq!(code(bson!({ "$toDouble": decimal("1E-320") })), 241);
    assert_eq!(value(bson!({ "$toDouble": "-INF" })), bson!(f64::NEG_INFINITY));
    assert_eq!(value(bson!({ "$toDecimal": 1.1 })), decimal("1.10000000000000"));
    assert_eq!(code(bson!({ "$toDecimal": "1E7000" })), 241);
}

#[test]
fn the_text_of_a_double_leads_back_to_it_in_the_fewest_digits() {
    for (number, text) in [
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1_234_567.5, "1234567.5"),
        (0.0001, "0.0001"),
        (1e-5, "1e-05"),
        (5e-324, "5e-324"),
        (9_999_999_999_999_998.0, "9999999999999998"),
        (1e16, "1e+16"),
        (-1.234_567_890_123_456_8e17, "-1.2345678901234568e+17"),
        (1e300, "1e+300"),
        (f64::NEG_INFINITY, "-Infinity"),
        (f64::NAN, "NaN"),
    ] {
        assert_eq!(value(bson!({ "$toString": number })), bson!(text));
        assert_eq!(value(bson!({ "$convert": { "input": number, "to": "string" } })), bson!(text));
    }
}

#[test]
fn where_no_text_was_asked_for_doubles_have_six_digits() {
    for (number, text) in [(1_234_567.5, "1.23457e+06"), (1e15, "1e+15"), (0.1 + 0.2, "0.3")] {
        assert_eq!(value(bson!({ "$toLower": number })), bson!(text));
        assert_eq!(value(bson!({ "$substrCP": [number, 0, 100] })), bson!(text));
    }
}

#[test]
fn only_failed_conversions_are_stood_in_for() {
    assert_eq!(value(bson!({ "$convert": { "input": "x", "to": "int", "onError": 8 } })), bson!(8));
    assert_eq!(value(bson!({ "$convert": { "input": null, "to": "int", "onNull": 7 } })), bson!(7));
    assert_eq!(eval(bson!({ "$convert": { "input": "x", "to": "int", "onError": "$none" } })), Ok(None));
    assert_eq!(code(bson!({ "$convert": { "input": "x", "to": "foo", "onError": 8 } })), 2);
    assert_eq!(code(bson!({ "$convert": { "input": 1, "to": 99 } })), 9);
}

#[test]
fn dates_are_made_of_more_than_texts() {
    let id = ObjectId::parse_str("507f1f77bcf86cd799439011").expect("an id");
    assert_eq!(value(bson!({ "$toDate": id })), date(1_350_508_407_000));
    assert_eq!(value(bson!({ "$toDate": 1.5 })), date(1));
    assert_eq!(code(bson!({ "$toDate": 1500 })), 241);
}
