//! What was read can be sent back: places of a body that are as stored are accepted, although a rule forbids them now.
//!
//! Documents of other tools, and of earlier versions of a type, break rules that hold for new values. A client that
//! reads such a document and changes another place must be able to store it.

use bson::{Bson, Document};

use super::{Violation, Violations};
use crate::pointer::unescaped;

/// The violations at places that are not as stored. The others are accepted: their values are put into `accepted`.
///
/// An entry of a list is compared with the stored entry of the same `name`, else with that of the same position.
#[must_use]
pub fn accepted_again(
    accepted: &mut Document,
    body: &Document,
    stored: &Document,
    violations: Violations,
) -> Violations {
    if violations.left_out() > 0 {
        return violations;
    }
    let mut is_changed = |violation: &Violation| {
        let steps = steps(&violation.pointer);
        let (sent, kept) = places(body, stored, &steps);
        match (sent, kept) {
            (None, None) => false,
            (Some(sent), Some(kept)) if same(sent, kept) => {
                put(accepted, &steps, kept);
                false
            }
            _ => true,
        }
    };
    violations.into_iter().filter(|violation| is_changed(violation)).collect()
}

/// Whether two values are the same for a client of JSON, in which numbers have no width.
pub fn same(one: &Bson, other: &Bson) -> bool {
    match (one, other) {
        (Bson::Int32(small), Bson::Int64(large)) | (Bson::Int64(large), Bson::Int32(small)) => {
            i64::from(*small) == *large
        }
        (Bson::Array(one), Bson::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Bson::Document(one), Bson::Document(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|kept| same(value, kept)))
        }
        (one, other) => one == other,
    }
}

/// The names and positions of a JSON pointer.
fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(unescaped).collect()
}

/// The values of both documents at a place.
fn places<'a>(body: &'a Document, stored: &'a Document, steps: &[String]) -> (Option<&'a Bson>, Option<&'a Bson>) {
    let Some((first, rest)) = steps.split_first() else { return (None, None) };
    let mut place = (body.get(first), stored.get(first));
    for step in rest {
        place = match place.0 {
            Some(Bson::Array(items)) => {
                let position: Option<usize> = step.parse().ok();
                let item = position.and_then(|position| items.get(position));
                (item, item.and_then(|item| counterpart(item, position?, place.1?.as_array()?)))
            }
            _ => (
                place.0.and_then(Bson::as_document).and_then(|document| document.get(step)),
                place.1.and_then(Bson::as_document).and_then(|document| document.get(step)),
            ),
        };
    }
    place
}

/// The stored entry of a list that corresponds to an entry of the body.
fn counterpart<'a>(item: &Bson, position: usize, stored: &'a [Bson]) -> Option<&'a Bson> {
    let name_of = |entry: &Bson| entry.as_document()?.get_str("name").ok().map(str::to_owned);
    match name_of(item) {
        Some(name) => stored.iter().find(|entry| name_of(entry).as_deref() == Some(name.as_str())),
        None => stored.get(position),
    }
}

fn put(accepted: &mut Document, steps: &[String], value: &Bson) {
    let Some((first, rest)) = steps.split_first() else { return };
    if rest.is_empty() {
        accepted.insert(first, value.clone());
        return;
    }
    let mut place = accepted.get_mut(first);
    for (depth, step) in rest.iter().enumerate() {
        place = match place {
            Some(Bson::Array(items)) => step.parse().ok().and_then(|position: usize| items.get_mut(position)),
            Some(Bson::Document(document)) if depth + 1 == rest.len() => {
                document.insert(step, value.clone());
                return;
            }
            Some(Bson::Document(document)) => document.get_mut(step),
            _ => None,
        };
    }
    if let Some(place) = place {
        *place = value.clone();
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn left(body: &Document, stored: &Document, pointers: &[&str]) -> (Vec<String>, Document) {
        let mut accepted = body.clone();
        let violations = pointers.iter().map(|pointer| Violation::new(*pointer, "wrong")).collect();
        let left = accepted_again(&mut accepted, body, stored, violations);
        (left.into_iter().map(|violation| violation.pointer).collect(), accepted)
    }

    #[test]
    fn a_place_as_stored_is_accepted_and_keeps_the_stored_value() {
        let stored = doc! { "a": 5_i64, "b/c": [{ "name": "x", "value": true }, { "name": "y", "value": 1_i64 }] };
        let body = doc! { "a": 5, "b/c": [{ "name": "y", "value": 1 }, { "name": "x", "value": false }] };
        let (left, accepted) =
            left(&body, &stored, &["/a", "/b~1c/0/value", "/b~1c/1/value", "/gone", "/b~1c/0/label"]);
        assert_eq!(left, ["/b~1c/1/value"]);
        assert_eq!(accepted.get("a"), Some(&Bson::Int64(5)));
        assert_eq!(accepted.get_array("b/c").expect("a list")[0], doc! { "name": "y", "value": 1_i64 }.into());
    }

    #[test]
    fn a_place_that_only_one_of_them_has_is_not_as_stored() {
        let (left, _) = left(&doc! { "a": 1 }, &doc! { "b": 1 }, &["/a", "/b", "/a/c"]);
        assert_eq!(left, ["/a", "/b"]);
    }
}
