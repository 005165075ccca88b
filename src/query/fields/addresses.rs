//! Bounds on a field whose values are in the order of addresses.
//!
//! Addresses are stored as texts, whose order is another one. So the service tests the bounds. An index and a server are
//! asked for the texts that may lie between them: those with the beginning that both bounds have in common.

use std::net::IpAddr;

use bson::{Bson, Document, doc};

use super::{FieldPath, STORED};
use crate::address;

/// The maximum number of values of the first differing octet that get a range each.
const MOST_RANGES: u8 = 16;

/// Operands of equality in the spelling of stored addresses. All others stay as they are.
pub(super) fn spelled(said: &Bson) -> Bson {
    match said {
        Bson::String(text) => {
            address::ip(text).or_else(|_| address::network(text)).map_or_else(|_| said.clone(), Bson::from)
        }
        Bson::Array(items) => items.iter().map(spelled).collect::<Vec<_>>().into(),
        Bson::Document(operators) => {
            let equality = ["$eq", "$ne", "$in", "$nin", "$all", "$not"];
            let spelled = |(name, operand): (&String, &Bson)| {
                let operand = if equality.contains(&name.as_str()) { spelled(operand) } else { operand.clone() };
                (name.clone(), operand)
            };
            operators.iter().map(spelled).collect::<Document>().into()
        }
        other => other.clone(),
    }
}

/// The same bounds on the keys by which addresses are ordered.
///
/// # Errors
/// The operator whose operand is no address.
pub(super) fn keys(bounds: &Document) -> Result<Document, String> {
    let key = |(name, text): (&String, &Bson)| {
        let key = text.as_str().and_then(address::key).ok_or_else(|| name.clone())?;
        Ok((name.clone(), key.into()))
    };
    bounds.iter().map(key).collect()
}

/// A condition that all objects with a value between the bounds meet. It compares texts alone.
pub(super) fn between(path: &FieldPath<'_>, bounds: &Document) -> Document {
    let bound = |names: [&str; 2]| names.iter().find_map(|name| address_of(bounds.get_str(name).ok()?));
    let ranges = match (bound(["$gt", "$gte"]), bound(["$lt", "$lte"])) {
        (Some(IpAddr::V4(low)), Some(IpAddr::V4(high))) => of_four(low.octets(), high.octets()),
        (Some(IpAddr::V6(low)), Some(IpAddr::V6(high))) => of_six(low.segments(), high.segments()),
        _ => Vec::new(),
    };
    let entry = |said: Document| doc! { STORED: { "$elemMatch": { "name": path.name, path.in_entry(): said } } };
    let mut conditions: Vec<Document> =
        ranges.into_iter().map(|(from, below)| entry(doc! { "$gte": from, "$lt": below })).collect();
    match conditions.len() {
        0 => entry(doc! { "$gte": "" }),
        1 => conditions.remove(0),
        _ => doc! { "$or": conditions },
    }
}

fn address_of(text: &str) -> Option<IpAddr> {
    address::parsed_ip(text.split_once('/').map_or(text, |(address, _)| address))
}

/// The texts that begin with `head` and one of the separators of addresses.
fn beginning(head: &str, separator: char) -> (String, String) {
    let next = char::from_u32(u32::from(separator) + 1).unwrap_or(separator);
    (format!("{head}{separator}"), format!("{head}{next}"))
}

/// Ranges of texts that have all addresses between the bounds. None where they would have all texts.
fn of_four(low: [u8; 4], high: [u8; 4]) -> Vec<(String, String)> {
    let common = low.iter().zip(&high).take_while(|(low, high)| low == high).count().min(3);
    let head = |octets: &[u8]| octets.iter().map(u8::to_string).collect::<Vec<_>>().join(".");
    let (first, last) = (low[common], high[common]);
    if common < 3 && first < last && last - first < MOST_RANGES {
        return (first..=last).map(|octet| beginning(&head(&[&low[..common], &[octet]].concat()), '.')).collect();
    }
    if common == 0 { Vec::new() } else { vec![beginning(&head(&low[..common]), '.')] }
}

/// The same for IPv6. Zeros may be left out of a text, so its beginning counts up to the first zero.
fn of_six(low: [u16; 8], high: [u16; 8]) -> Vec<(String, String)> {
    let both = low.iter().zip(&high).take(7);
    let head: Vec<String> =
        both.take_while(|(low, high)| low == high && **low != 0).map(|(segment, _)| format!("{segment:x}")).collect();
    if head.is_empty() { Vec::new() } else { vec![beginning(&head.join(":"), ':')] }
}

/// One of the numbers from 0 to 255.
const OCTET: &str = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";

/// The expression for [`address::key`] of the value of an expression: of each item where it is an array, null for a text that
/// is no address, and all else as it is.
pub(in crate::query) fn key_of(value: Document) -> Document {
    let group = "[0-9a-fA-F]{1,4}";
    let four = format!(r"\A{OCTET}(\.{OCTET}){{3}}(/(3[0-2]|[12]?[0-9]))?\z");
    let six = format!(
        r"\A(({group}:){{7}}{group}|({group}:){{1,7}}:|:(:{group}){{1,7}}|::|(?!([^:]*:){{8}})({group}:){{1,6}}(:{group}){{1,6}})(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?\z"
    );
    let is = |pattern: String| doc! { "$regexMatch": { "input": "$$value", "regex": pattern } };
    let key = doc! { "$switch": {
        "branches": [
            { "case": { "$ne": [{ "$type": "$$value" }, "string"] }, "then": "$$value" },
            { "case": is(four), "then": with_prefix("4", &digits_of_four()) },
            { "case": is(six), "then": with_prefix("6", &digits_of_six()) },
        ],
        "default": null,
    } };
    let each = doc! { "$map": { "input": "$$value", "as": "value", "in": &key } };
    doc! { "$let": { "vars": { "value": value }, "in": { "$cond": [{ "$isArray": ["$$value"] }, each, key] } } }
}

/// A key from the family and the digits of `$$parts.0`, and from the prefix in `$$parts.1` if there is one.
fn with_prefix(family: &str, digits: &Document) -> Document {
    let prefix = doc! { "$concat": ["/", padded(&doc! { "$arrayElemAt": ["$$parts", 1] }.into(), 3)] };
    let prefix = doc! { "$cond": [{ "$gt": [{ "$size": "$$parts" }, 1] }, prefix, ""] };
    let parts = doc! { "$split": ["$$value", "/"] };
    doc! { "$let": { "vars": { "parts": parts }, "in": { "$concat": [family, digits, prefix] } } }
}

/// A text of at most `length` digits with zeros in front, so that it has this length.
fn padded(text: &Bson, length: i32) -> Document {
    doc! { "$substrCP": [{ "$concat": ["0000".get(..length.unsigned_abs() as usize), text] }, { "$strLenCP": text }, length] }
}

fn joined(numbers: &Document, length: i32) -> Document {
    let number = padded(&"$$this".into(), length);
    doc! { "$reduce": { "input": numbers, "initialValue": "", "in": { "$concat": ["$$value", number] } } }
}

fn digits_of_four() -> Document {
    joined(&doc! { "$split": [{ "$arrayElemAt": ["$$parts", 0] }, "."] }, 3)
}

/// The groups on both sides of `::`, with zeros between them.
fn digits_of_six() -> Document {
    let sides = doc! { "$split": [{ "$toLower": { "$arrayElemAt": ["$$parts", 0] } }, "::"] };
    let groups = |side: i32| {
        let text = doc! { "$ifNull": [{ "$arrayElemAt": ["$$sides", side] }, ""] };
        doc! { "$cond": [{ "$eq": [&text, ""] }, [], { "$split": [&text, ":"] }] }
    };
    let missing = doc! { "$subtract": [8, { "$add": [{ "$size": "$$left" }, { "$size": "$$right" }] }] };
    let zeros = doc! { "$map": { "input": { "$range": [0, missing] }, "in": "0" } };
    let all = joined(&doc! { "$concatArrays": ["$$left", zeros, "$$right"] }, 4);
    let both = doc! { "$let": { "vars": { "left": groups(0), "right": groups(1) }, "in": all } };
    doc! { "$let": { "vars": { "sides": sides }, "in": both } }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use bson::raw::RawDocumentBuf;
    use proptest::prelude::*;

    use super::*;
    use crate::query::filter::{Filter, Limits};

    fn holds(filter: &Document, object: &Document) -> bool {
        let filter = Filter::parse(filter, &Limits::NONE).expect("a filter");
        filter.matches(&RawDocumentBuf::try_from(object).expect("a document")).expect("it does not fail")
    }

    fn has_key(value: Bson, key: Bson) -> bool {
        let expression = key_of(doc! { "$literal": value });
        holds(&doc! { "$expr": { "$eq": [expression, { "$literal": key }] } }, &doc! {})
    }

    #[test]
    fn the_expression_makes_the_keys_of_addresses() {
        for text in [
            "", "10.0.0.7", "255.255.255.255/32", "0.0.0.0/0", "256.0.0.0", "10.0.0", "010.0.0.1", "10.0.0.0/33",
            "host", "::", "::1", "1::", "2001:DB8::7", "2001:db8::/32", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8/128", "1:2::3:4:5:6:7:8", "1::2::3", ":::", "::ffff:10.0.0.7", "::/129",
            "12345::", "1:2:3:4:5:6:7:8:9", "10.0.0.7\n",
        ] {
            assert!(has_key(text.into(), address::key(text).map_or(Bson::Null, Bson::from)), "{text:?}");
        }
        let both = vec![Bson::from("10.0.0.7"), 7.into()];
        assert!(has_key(both.into(), vec![Bson::from("4010000000007"), 7.into()].into()));
        assert!(has_key(7.into(), 7.into()));
    }

    /// Whether what a server is asked for has an address that lies between two others.
    fn is_asked_for(low: IpAddr, high: IpAddr, inside: &str) -> bool {
        let path = FieldPath { name: "ip", rest: None, is_by_address: true };
        let bounds = doc! { "$gte": address::written_ip(low), "$lte": address::written_ip(high) };
        holds(&between(&path, &bounds), &doc! { STORED: [{ "name": "ip", "value": inside }] })
    }

    /// Numbers that have much in common.
    fn near<T: Copy + std::fmt::Debug + 'static>(parts: Vec<T>) -> impl Strategy<Value = Vec<T>> {
        let part = proptest::sample::select(parts);
        proptest::collection::vec(part, 24)
    }

    proptest! {
        #[test]
        fn no_address_between_two_others_is_left_out(
            four in near(vec![0_u8, 1, 9, 10, 11, 99, 100, 255]),
            six in near(vec![0_u16, 1, 0xa, 0xdb8, 0x2001, 0xffff]),
            prefix in 0_u8..=32,
        ) {
            let mut fours: Vec<Ipv4Addr> =
                four.chunks_exact(4).map(|octets| Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])).collect();
            fours.sort_unstable();
            let mut sixes: Vec<Ipv6Addr> = six
                .chunks_exact(8)
                .map(|segments| Ipv6Addr::from(<[u16; 8]>::try_from(segments).expect("eight")))
                .collect();
            sixes.sort_unstable();
            let all = [fours.into_iter().map(IpAddr::V4).collect::<Vec<_>>(), sixes.into_iter().map(IpAddr::V6).collect()];
            for addresses in all {
                for window in addresses.windows(3) {
                    let inside = address::written_ip(window[1]);
                    prop_assert!(is_asked_for(window[0], window[2], &inside), "{:?}", window);
                    prop_assert!(is_asked_for(window[0], window[2], &format!("{inside}/{prefix}")), "{:?}", window);
                }
            }
        }
    }
}
