//! The message about a text that is no JSON: in words for people, and with the JSON for what MongoDB's shell and other
//! languages write in another way.

/// How the shell and other languages write what JSON writes in another way: how it begins there, and what to write.
const ELSEWHERE: [(&str, &str); 15] = [
    ("ObjectId(", r#"write {"$oid": "..."} in place of ObjectId("...")"#),
    ("ISODate(", r#"write {"$date": "2026-01-31T00:00:00Z"} in place of ISODate("...")"#),
    ("new ", r#"write {"$date": "2026-01-31T00:00:00Z"} in place of new Date("...")"#),
    ("Date(", r#"write {"$date": "2026-01-31T00:00:00Z"} in place of Date("...")"#),
    ("NumberLong(", r#"write {"$numberLong": "..."} in place of NumberLong(...)"#),
    ("NumberInt(", "write the number itself in place of NumberInt(...)"),
    ("NumberDecimal(", r#"write {"$numberDecimal": "..."} in place of NumberDecimal(...)"#),
    ("UUID(", r#"write {"$uuid": "..."} in place of UUID("...")"#),
    ("Timestamp(", r#"write {"$timestamp": {"t": ..., "i": ...}} in place of Timestamp(...)"#),
    ("/", r#"write {"$regex": "^a", "$options": "i"} in place of /^a/i"#),
    ("'", "texts stand in double quotes"),
    ("True", "write true"),
    ("False", "write false"),
    ("None", "write null"),
    ("undefined", "write null"),
];

/// What the reader says, and how it reads better.
const WORDS: [(&str, &str); 14] = [
    ("expected ident", "expected true, false or null"),
    ("expected value", "expected a value"),
    ("key must be a string", "expected the name of a member in double quotes"),
    ("EOF while parsing a value", "the text ends where a value has to be"),
    ("EOF while parsing an object", "the text ends within an object; a } is missing"),
    ("EOF while parsing a list", "the text ends within an array; a ] is missing"),
    ("EOF while parsing a string", "the text ends within a string; a \" is missing"),
    ("trailing characters", "there is more text after the end of the JSON"),
    ("trailing comma", "a comma has nothing behind it"),
    ("recursion limit exceeded", "it is nested too deeply"),
    ("number out of range", "the number is too large"),
    ("invalid escape", "a backslash in a string begins no escape of JSON"),
    (
        "control character (\\u0000-\\u001F) found while parsing a string",
        "a string has a control character; write it as an escape, such as \\n",
    ),
    ("lone leading surrogate in hex escape", "a string has half of a surrogate pair as an escape"),
];

/// The sentence of the reader in plain words.
pub(super) fn in_words(said: &str) -> String {
    if let Some((_, words)) = WORDS.iter().find(|(theirs, _)| *theirs == said) {
        return (*words).to_owned();
    }
    // `invalid type: map, expected an array of objects`
    let Some((found, expected)) = said.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    else {
        return said.to_owned();
    };
    let found = match found {
        "map" => "an object",
        "sequence" => "an array",
        other if other.starts_with("string") => "a string",
        _ => "a single value",
    };
    format!("expected {expected}, found {found}")
}

/// What to write in the place where the reader stopped, if it is known from elsewhere. `line` and `column` count from 1.
pub(super) fn remedy(text: &str, line: usize, column: usize) -> Option<&'static str> {
    let line = text.lines().nth(line.checked_sub(1)?)?;
    // The reader may have taken the beginning of a word for its own.
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    let mut begin = column.checked_sub(1)?.min(line.len().checked_sub(1)?);
    while begin > 0 && line.as_bytes().get(begin - 1).is_some_and(is_word) && is_word(&line.as_bytes()[begin]) {
        begin -= 1;
    }
    let rest = line.get(begin..)?;
    ELSEWHERE.iter().find(|(theirs, _)| rest.starts_with(theirs)).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read::value_from_str;

    #[test]
    fn what_a_shell_writes_is_told_with_its_json() {
        for (text, told) in [
            (r#"{"_id": ObjectId("65f")}"#, "{\"$oid\": \"...\"}"),
            (r#"{"t": {"$gt": ISODate("2024-01-01")}}"#, "{\"$date\": "),
            (r#"{"t": new Date()}"#, "{\"$date\": "),
            ("{\"a\":\n /^ber/i}", "{\"$regex\": \"^a\", \"$options\": \"i\"}"),
            (r#"{"a": NumberLong(7)}"#, "{\"$numberLong\": "),
            ("{'a': 1}", "double quotes"),
            (r#"{"a": 'x'}"#, "double quotes"),
            (r#"{"a": True}"#, "write true"),
            ("[None]", "write null"),
        ] {
            let said = value_from_str(text).expect_err("no JSON").to_string();
            assert!(said.contains(told), "{text}: {said}");
        }
    }

    #[test]
    fn no_word_of_the_reader_reaches_people() {
        for (text, said) in [
            ("", "the text ends where a value has to be at line 1, column 1"),
            ("{\"a\": 1", "the text ends within an object; a } is missing at line 1, column 7"),
            ("[1", "the text ends within an array; a ] is missing at line 1, column 2"),
            ("\"a", "the text ends within a string; a \" is missing at line 1, column 2"),
            ("1 2", "there is more text after the end of the JSON at line 1, column 3"),
            ("[1,]", "a comma has nothing behind it at line 1, column 4"),
        ] {
            assert_eq!(value_from_str(text).expect_err("no JSON").to_string(), said);
        }
        assert_eq!(
            in_words("invalid type: map, expected an array of objects"),
            "expected an array of objects, found an object"
        );
        assert_eq!(
            in_words("invalid type: integer `7`, expected an array of objects"),
            "expected an array of objects, found a single value"
        );
    }

    #[test]
    fn any_place_of_any_text_can_be_looked_at() {
        for text in ["", "é", "aé'", "{\"é\": é}"] {
            for (line, column) in [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (1, 99), (2, 1)] {
                let _ = remedy(text, line, column);
            }
        }
    }
}
