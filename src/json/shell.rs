//! Extended JSON as mongosh reads it: `EJSON.parse(text, {relaxed: false})`.

use serde_json::{Map, Value, json};

/// Whole numbers beyond these are not all numbers of JavaScript.
const SAFE: u64 = 1 << 53;

/// The dates of the years 1970 to 9999, which have a text.
const WITH_A_TEXT: std::ops::RangeInclusive<i64> = 0..=253_402_300_799_999;

/// The same document for mongosh. It reads `{"$regex": "^a"}` as a value, and drops other members of it; it rounds large
/// numbers; and a date is a text for it, or a number as a text.
pub fn for_shell(value: Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number.unsigned_abs() > SAFE) => {
            json!({ "$numberLong": number.to_string() })
        }
        Value::Array(items) => items.into_iter().map(for_shell).collect(),
        Value::Object(members) => date_for_shell(&members).unwrap_or_else(|| members_for_shell(members)),
        other => other,
    }
}

/// A date that is written as milliseconds.
fn date_for_shell(members: &Map<String, Value>) -> Option<Value> {
    let millis = members.get("$date").filter(|_| members.len() == 1)?.as_i64()?;
    if !WITH_A_TEXT.contains(&millis) {
        return Some(json!({ "$date": { "$numberLong": millis.to_string() } }));
    }
    let text = bson::DateTime::from_millis(millis).try_to_rfc3339_string().ok()?;
    Some(json!({ "$date": text }))
}

fn members_for_shell(members: Map<String, Value>) -> Value {
    let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
    let pattern = text("$regex").map(|pattern| (pattern, text("$options").unwrap_or_default()));
    let members = members.into_iter().filter(|(name, _)| name != "$options" || pattern.is_none());
    let written = |(name, value): (String, Value)| match &pattern {
        Some((pattern, options)) if name == "$regex" => {
            (name, json!({ "$regularExpression": { "pattern": pattern, "options": options } }))
        }
        _ => (name, for_shell(value)),
    };
    members.map(written).collect()
}

/// JSON text that may be between the backticks of JavaScript's `` String.raw`...` ``.
pub fn in_backticks(json: &str) -> String {
    json.replace('`', "\\u0060").replace("${", "\\u0024{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_as_a_value_beside_other_operators() {
        let regex = |options: &str| json!({ "$regularExpression": { "pattern": "^a", "options": options } });
        for (written, read) in [
            (json!({ "$regex": "^a", "$gt": "b" }), json!({ "$regex": regex(""), "$gt": "b" })),
            (json!({ "$options": "i", "$regex": "^a" }), json!({ "$regex": regex("i") })),
            (json!({ "$regex": regex("i"), "$options": "" }), json!({ "$regex": regex("i"), "$options": "" })),
            (json!({ "$in": [regex("x")] }), json!({ "$in": [regex("x")] })),
        ] {
            assert_eq!(
                for_shell(json!({ "a": [{ "$elemMatch": written }] })),
                json!({ "a": [{ "$elemMatch": read }] })
            );
        }
    }

    #[test]
    fn whole_numbers_that_javascript_would_round_are_texts() {
        let safe = json!([9_007_199_254_740_992_i64, -9_007_199_254_740_992_i64, 1.5, 1e300, "9007199254740993"]);
        assert_eq!(for_shell(safe.clone()), safe);
        let large = json!({ "$gt": 9_007_199_254_740_993_i64, "$lt": i64::MAX, "$ne": i64::MIN });
        let long = |digits: &str| json!({ "$numberLong": digits });
        let read = json!({ "$gt": long("9007199254740993"), "$lt": long("9223372036854775807"), "$ne": long("-9223372036854775808") });
        assert_eq!(for_shell(large), read);
    }

    #[test]
    fn dates_stay_the_same_moments() {
        let date = |millis: i64| for_shell(json!({ "a": { "$gt": { "$date": millis } } }))["a"]["$gt"]["$date"].clone();
        assert_eq!(date(0), json!("1970-01-01T00:00:00Z"));
        assert_eq!(date(253_402_300_799_999), json!("9999-12-31T23:59:59.999Z"));
        for millis in [253_402_300_800_000, i64::MAX, -1, i64::MIN] {
            assert_eq!(date(millis), json!({ "$numberLong": millis.to_string() }));
        }
    }

    #[test]
    fn text_in_backticks_is_the_same_json() {
        let value = json!({ "a": "`${x}`", "$b": [{ "c": "\\d\n" }] });
        let text = in_backticks(&value.to_string());
        assert!(!text.contains('`') && !text.contains("${"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
