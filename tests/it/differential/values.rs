//! The values that documents and questions are made of: every type of BSON, and of each the nasty ones.

use std::sync::LazyLock;

use bson::{Bson, Document};
use inventory_service::json::read::value_from_str;

use super::random::Random;

const NUMBERS: &str = r#"[0, 1, 2, 3, -1, 5, 7, 10, 64, 255, 2147483647, -2147483648,
    {"$numberLong": "0"}, {"$numberLong": "1"}, {"$numberLong": "2"}, {"$numberLong": "-1"},
    {"$numberLong": "2147483648"}, {"$numberLong": "9007199254740992"}, {"$numberLong": "9007199254740993"},
    {"$numberLong": "9223372036854775807"}, {"$numberLong": "-9223372036854775808"},
    {"$numberLong": "9223372036854775806"}, {"$numberLong": "-9007199254740993"},
    0.0, -0.0, 1.0, 2.0, 0.5, -0.5, 1.5, 2.5, 0.1, 3.7, -4.7, 1e-310, 9007199254740992.0, 9007199254740994.0,
    9223372036854775808.0, -9223372036854775808.0, 1e300, -1e300, 2147483648.0,
    {"$numberDouble": "NaN"}, {"$numberDouble": "Infinity"}, {"$numberDouble": "-Infinity"},
    {"$numberDecimal": "0"}, {"$numberDecimal": "-0"}, {"$numberDecimal": "0E+3"}, {"$numberDecimal": "0.000"},
    {"$numberDecimal": "1"}, {"$numberDecimal": "1.0"}, {"$numberDecimal": "1.00"}, {"$numberDecimal": "10E-1"},
    {"$numberDecimal": "2.5"}, {"$numberDecimal": "0.1"}, {"$numberDecimal": "0.5"}, {"$numberDecimal": "-2"},
    {"$numberDecimal": "9007199254740993"}, {"$numberDecimal": "9223372036854775807"},
    {"$numberDecimal": "9223372036854775808"}, {"$numberDecimal": "0.1000000000000000055511151231257827"},
    {"$numberDecimal": "1E+6144"}, {"$numberDecimal": "1E-6176"}, {"$numberDecimal": "-1E+400"},
    {"$numberDecimal": "9.999999999999999999999999999999999E+6144"},
    {"$numberDecimal": "NaN"}, {"$numberDecimal": "Infinity"}, {"$numberDecimal": "-Infinity"}]"#;

const TEXTS: &str = r#"["", "a", "b", "ab", "abc", "A", "B", "aB", "Abc", "a.b", "0", "1", "10", "2.5", "-1", "x", "xy", "y",
    "$x", "$a", "ä", "Ä", "ß", "é", "日本", "😀", "a\u0000b", "\u0000", "a\nb", "abc\n", " a ", "a b c", "aaa", "NaN", "true", "null",
    "2024-02-29T23:59:59.999Z", "2020-01-01", "0123456789abcdef01234567", "a,b,,c", "(x)", "^a", "a|b", "\uffff", "~"]"#;

const DATES: &str = r#"[{"$date": {"$numberLong": "0"}}, {"$date": {"$numberLong": "-1"}}, {"$date": {"$numberLong": "1"}},
    {"$date": {"$numberLong": "1709251199999"}}, {"$date": {"$numberLong": "1577836800000"}}, {"$date": {"$numberLong": "1609459199000"}},
    {"$date": {"$numberLong": "951782400000"}}, {"$date": {"$numberLong": "-62135596800000"}}, {"$date": {"$numberLong": "253402300799999"}},
    {"$date": {"$numberLong": "9223372036854775807"}}, {"$date": {"$numberLong": "-9223372036854775808"}},
    {"$date": {"$numberLong": "253402300800000"}}, {"$date": {"$numberLong": "-62198755200000"}},
    {"$timestamp": {"t": 0, "i": 0}}, {"$timestamp": {"t": 1, "i": 2}}, {"$timestamp": {"t": 4294967295, "i": 4294967295}},
    {"$oid": "000000000000000000000000"}, {"$oid": "0123456789abcdef01234567"}, {"$oid": "ffffffffffffffffffffffff"}]"#;

const OTHERS: &str = r#"[true, false, null, {"$minKey": 1}, {"$maxKey": 1}, {"$undefined": true}, {"$symbol": "a"}, {"$symbol": ""}, {"$symbol": "b"},
    {"$code": "x"}, {"$code": ""}, {"$code": "x", "$scope": {}}, {"$code": "x", "$scope": {"a": 1}},
    {"$binary": {"base64": "", "subType": "00"}}, {"$binary": {"base64": "AQ==", "subType": "00"}}, {"$binary": {"base64": "AQI=", "subType": "00"}},
    {"$binary": {"base64": "AQI=", "subType": "05"}}, {"$binary": {"base64": "AQI=", "subType": "02"}}, {"$binary": {"base64": "/////////////w==", "subType": "00"}},
    {"$binary": {"base64": "AQI=", "subType": "80"}}, {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}},
    {"$regularExpression": {"pattern": "a", "options": ""}}, {"$regularExpression": {"pattern": "^A", "options": "i"}},
    {"$regularExpression": {"pattern": "", "options": ""}}, {"$regularExpression": {"pattern": "b$", "options": "ms"}},
    {"$dbPointer": {"$ref": "c", "$id": {"$oid": "0123456789abcdef01234567"}}}]"#;

const NESTED: &str = r#"[{}, [], [[]], [{}], [null], [[1]], [1, [2]], {"a": 1}, {"x": 1}, {"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": null}, {"x": {"y": 1}},
    {"x": [1, 2]}, [{"x": 1}, {"x": 2}], [{"x": 1, "y": 2}, {"x": 2, "y": 1}], [{"x": [1, 2]}, {"x": []}], [[{"x": 1}]], [1, 2, 3], [3, 1, 2],
    [1, 1, 2], ["a", "b"], [null, 1], [{"$undefined": true}], {"": 1}, {"0": 1}, {"0": {"x": 1}}, {"a.b": 1}, {"$x": 1}, {"x": 1, "$x": 2},
    {"$ref": "c", "$id": 1}, {"$ref": "c", "$id": 1, "$db": "d"}, {"name": "a", "value": 1}, [{"name": "a", "value": 1}, {"name": "b", "value": 2}],
    [{"k": "a", "v": 1}], [["a", 1], ["b", 2]], {"$minKey": 1}, [true, false], [0, false, null]]"#;

static TABLES: LazyLock<[Vec<Bson>; 5]> = LazyLock::new(|| {
    [NUMBERS, TEXTS, DATES, OTHERS, NESTED].map(|text| match value_from_str(text) {
        Ok(Bson::Array(values)) => values,
        other => panic!("a table is an array of values: {other:?}"),
    })
});

/// The numbers.
pub(super) fn numbers() -> &'static [Bson] {
    &TABLES[0]
}

/// The texts.
pub(super) fn texts() -> &'static [Bson] {
    &TABLES[1]
}

/// The dates, and what is like one.
pub(super) fn dates() -> &'static [Bson] {
    &TABLES[2]
}

/// A value without members, of whatever type.
pub(super) fn scalar(random: &mut Random) -> Bson {
    let table = &TABLES[random.weighted(&[10, 7, 3, 5])];
    random.pick(table).clone()
}

/// The names of members inside of values.
pub(super) const INNER_NAMES: [&str; 10] = ["x", "x", "y", "y", "name", "value", "0", "1", "", "a.b"];

/// A value that is made of values of the pool, nested up to `depth` deep.
pub(super) fn value(random: &mut Random, pool: &[Bson], depth: usize) -> Bson {
    if depth == 0 || random.percent(50) {
        return if random.percent(85) { random.pick(pool).clone() } else { scalar(random) };
    }
    match random.below(10) {
        0..=4 => Bson::Array((0..random.below(4)).map(|_| value(random, pool, depth - 1)).collect()),
        5..=7 => Bson::Document(document(random, pool, depth - 1)),
        _ => random.pick(&TABLES[4]).clone(),
    }
}

fn document(random: &mut Random, pool: &[Bson], depth: usize) -> Document {
    (0..random.below(4)).map(|_| ((*random.pick(&INNER_NAMES)).to_owned(), value(random, pool, depth))).collect()
}
