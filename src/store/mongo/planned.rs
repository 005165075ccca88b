//! The filter that the server plans a query for.
//!
//! The planner remembers one plan for all filters of a shape. Searches for `web` and for `^web` have one shape: after the first,
//! which no index bounds, it would have the second read all objects of the type, too. So a filter with the beginning of a text gets
//! a shape of its own, by a test that holds wherever the filter does.

use bson::{Document, doc};

use crate::query::{Filter, Node, Test};

/// The filter as it is sent.
pub(super) fn planned(filter: &Filter) -> Document {
    let document = filter.document().clone();
    match bounded(filter.tree()).filter(|_| filter.needs_server().is_none()) {
        Some(path) => doc! { "$and": [document, { path: { "$exists": true } }] },
        None => document,
    }
}

/// The path of an array that must have an entry with a text that begins in a certain way.
fn bounded(node: &Node) -> Option<&str> {
    match node {
        Node::And(nodes) => nodes.iter().find_map(bounded),
        Node::Path(path, Test::ElemMatchDocument(entry)) if path.entry().is_none() => {
            has_beginning(entry).then_some(path.as_str())
        }
        _ => None,
    }
}

fn has_beginning(node: &Node) -> bool {
    let is_beginning = |test: &Test| matches!(test, Test::Regex(regex) if !regex.prefix().is_empty());
    match node {
        Node::And(nodes) => nodes.iter().any(has_beginning),
        Node::Path(_, Test::All(tests)) => tests.iter().any(is_beginning),
        Node::Path(_, test) => is_beginning(test),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Limits;

    #[test]
    fn the_beginning_of_a_text_alone_has_a_shape_of_its_own() {
        let is_marked = |filter: Document| {
            let sent = planned(&Filter::parse(&filter, &Limits::NONE).expect("a filter"));
            let marked = doc! { "$and": [filter.clone(), { "fields": { "$exists": true } }] };
            assert!(sent == filter || sent == marked, "{sent}");
            sent == marked
        };
        let of_type = |value: Document| {
            is_marked(doc! { "type_id": 1, "fields": { "$elemMatch": { "name": "host", "value": value } } })
        };
        assert!(of_type(doc! { "$regex": "^web" }));
        for other in [doc! { "$regex": "web" }, doc! { "$regex": "^web", "$options": "i" }, doc! { "$gt": "web" }] {
            assert!(!of_type(other.clone()), "{other}");
        }
        assert!(!is_marked(doc! { "fields.name": "host", "fields.value": { "$regex": "^web" } }));
        assert!(!is_marked(doc! { "$nor": [{ "fields": { "$elemMatch": { "value": { "$regex": "^web" } } } }] }));
    }
}
