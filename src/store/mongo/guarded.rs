//! Queries with a guard, written so that the server evaluates the guard first.
//!
//! The server chooses the order in which it evaluates the conditions of a `$match`. So only conditions that cannot
//! fail, and that take next to no time, stand beside the guard: plain comparisons, which may use an index. Expressions,
//! schemas and regular expressions go into a second `$match`. Between the two stands a `$limit` that no collection
//! reaches. The server must not move a `$match` across a `$limit`, because that would change the result.
//!
//! On a sharded cluster the second part runs where the shards' answers are merged. Queries without such conditions, and
//! all queries of callers from whom nothing is hidden, are sent as they are.

use bson::{Bson, Document, doc};

use crate::query::{Filter, Guarded, Limits, Node, OWN_OPERATOR};
use crate::store::collections;

/// A filter in two parts.
#[derive(Debug, PartialEq)]
pub(super) struct GuardedParts {
    /// The guard, and what may be evaluated beside it.
    beside: Document,
    /// What is evaluated only where the guard holds.
    behind: Document,
}

impl GuardedParts {
    /// `None` if the whole filter may be sent as one condition.
    pub(super) fn of(filter: &Filter) -> Option<Self> {
        let Guarded { guard, question } = filter.guarded().filter(|halves| halves.question.tree().is_costly())?;
        let (beside, behind) = halves(question.document());
        let beside: Vec<Document> = std::iter::once(guard.document().clone()).chain(beside).collect();
        Some(Self { beside: doc! { "$and": beside }, behind: doc! { "$and": behind } })
    }

    /// The stages that find the documents. All of them keep `order`, the order of an index.
    pub(super) fn stages(self, order: Option<Document>) -> Vec<Document> {
        let order = order.map(|order| doc! { "$sort": order });
        let stages = [doc! { "$match": self.beside }].into_iter().chain(order);
        stages.chain([doc! { "$limit": i64::MAX }, doc! { "$match": self.behind }]).collect()
    }
}

/// What of a guarded question may be planned without its guard; `None` if there is no guard.
pub(super) fn plain_part(filter: &Filter) -> Option<Filter> {
    let Guarded { question, .. } = filter.guarded()?;
    Some(all_of(halves(question.document()).0))
}

/// What of a filter cannot fail and takes next to no time, with its guard. It finds all that the filter finds, and more.
///
/// Of what is evaluated after something costly, only conditions by which an index finds are in it: the server examines no other
/// documents, so nothing fails on them. What fails on a document is to fail with the others as without them.
pub(super) fn cheap_part(filter: &Filter) -> Filter {
    let (guard, question) = match filter.guarded() {
        Some(Guarded { guard, question }) => (guard.clone(), question),
        None => (Filter::all(), filter),
    };
    let (mut beside, behind) = halves(question.document());
    beside.retain(|cheap| finds_by_index(cheap) || behind.iter().all(|costly| comes_before(cheap, costly)));
    guard.and(all_of(beside))
}

/// The conditions of a filter that may stand beside a guard, and the others.
pub(super) fn halves(filter: &Document) -> (Vec<Document>, Vec<Document>) {
    let (mut beside, mut behind) = (Vec::new(), Vec::new());
    sort_out(filter, &mut beside, &mut behind);
    (beside, behind)
}

fn all_of(conditions: Vec<Document>) -> Filter {
    let conditions = conditions.iter().filter_map(|condition| Filter::parse(condition, &Limits::NONE).ok());
    conditions.fold(Filter::all(), Filter::and)
}

/// Whether a condition is about a path by which a declared index is ordered first.
fn finds_by_index(condition: &Document) -> bool {
    let first_paths = collections::ALL.iter().flat_map(|spec| spec.indexes).filter_map(|index| index.keys.first());
    let mut paths = first_paths.map(|key| key.path.split('.').next().unwrap_or(key.path));
    condition.keys().next().is_some_and(|name| name == "_id" || paths.any(|path| path == name))
}

/// Whether a cheap condition is evaluated before a costly one where both must hold.
fn comes_before(cheap: &Document, costly: &Document) -> bool {
    // It cannot fail.
    if costly.keys().all(|name| name == OWN_OPERATOR) {
        return true;
    }
    match Filter::parse(&doc! { "$and": [costly.clone(), cheap.clone()] }, &Limits::NONE) {
        Ok(both) => match both.tree() {
            Node::And(nodes) => nodes.first().is_some_and(|first| !first.is_costly()),
            _ => false,
        },
        // With a variable of the whole question. Expressions come last.
        Err(_) => costly.keys().all(|name| name == "$expr"),
    }
}

/// Distributes the conditions of a filter, which all must hold.
fn sort_out(filter: &Document, beside: &mut Vec<Document>, behind: &mut Vec<Document>) {
    for (name, value) in filter {
        match value {
            Bson::Array(parts) if name == "$and" => {
                parts.iter().filter_map(Bson::as_document).for_each(|part| sort_out(part, beside, behind));
            }
            value => {
                let condition = doc! { name: value.clone() };
                let list = if may_stand_beside(&condition) { &mut *beside } else { &mut *behind };
                list.push(condition);
            }
        }
    }
}

/// A condition that cannot be parsed alone goes into the second stage: the server decides about it.
fn may_stand_beside(condition: &Document) -> bool {
    Filter::parse(condition, &Limits::NONE).is_ok_and(|condition| !condition.tree().is_costly() && !condition.has_own())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(question: Document) -> Option<GuardedParts> {
        let question = Filter::parse(&question, &Limits::NONE).expect("a filter");
        GuardedParts::of(&question.guarded_by(Filter::none_of("type_id", vec![Bson::Int64(7)])))
    }

    #[test]
    fn what_can_fail_or_take_long_waits_for_the_guard() {
        let divides = doc! { "$expr": { "$divide": [1, "$a"] } };
        let split = parts(doc! { "$and": [{ "a": 1, "b": { "$regex": "x" } }, divides.clone()] }).expect("two parts");
        let guard = doc! { "type_id": { "$nin": [7_i64] } };
        assert_eq!(split.beside, doc! { "$and": [guard, { "a": 1 }] });
        assert_eq!(split.behind, doc! { "$and": [{ "b": { "$regex": "x" } }, divides] });
    }

    #[test]
    fn an_alternative_waits_as_a_whole() {
        let either = doc! { "$or": [{ "a": 1 }, { "b": { "$in": [bson::Regex { pattern: "x".try_into().expect("no zero byte"), options: bson::raw::cstr!("").into() }] } }] };
        assert_eq!(parts(either.clone()).expect("two parts").behind, doc! { "$and": [either] });
    }

    #[test]
    fn plain_comparisons_and_filters_without_a_guard_are_sent_as_they_are() {
        assert_eq!(parts(doc! { "a": 1, "b": { "$elemMatch": { "c": { "$gt": 2 } } } }), None);
        let unguarded = Filter::parse(&doc! { "$expr": "$a" }, &Limits::NONE).expect("a filter");
        assert_eq!(GuardedParts::of(&unguarded), None);
    }

    #[test]
    fn a_plan_is_asked_for_without_the_guard_and_what_it_protects() {
        let divides = doc! { "$expr": { "$divide": [1, "$a"] } };
        let question = Filter::parse(&doc! { "a": 1, "$and": [divides, { "b": 2 }] }, &Limits::NONE).expect("a filter");
        assert!(plain_part(&question).is_none());
        let guarded = question.guarded_by(Filter::none_of("type_id", vec![Bson::Int64(7)]));
        let plain = plain_part(&guarded).expect("a plain part");
        assert_eq!(plain.document(), &doc! { "$and": [{ "a": 1 }, { "b": 2 }] });
    }

    #[test]
    fn what_is_evaluated_after_something_costly_stays_with_it() {
        let cheap = |question: Document| cheap_part(&Filter::parse(&question, &Limits::NONE).expect("a filter"));
        let divides = doc! { "$expr": { "$divide": [1, "$a"] } };
        let behind = doc! { "$and": [divides.clone(), { "b": 1 }, { "c": { "$gt": 2 } }] };
        assert_eq!(cheap(behind).document(), &doc! { "$and": [{ "b": 1 }, { "c": { "$gt": 2 } }] });
        let either = doc! { "$or": [divides, { "a": 1 }] };
        let first = doc! { "$and": [either.clone(), { "b": { "$in": [] } }, { "public_id": 7 }] };
        assert_eq!(cheap(first).document(), &doc! { "public_id": 7 });
    }

    #[test]
    fn an_order_stands_in_front_of_the_limit() {
        let stages = parts(doc! { "$expr": "$a" }).expect("two parts").stages(Some(doc! { "public_id": 1 }));
        let names: Vec<&String> = stages.iter().flat_map(Document::keys).collect();
        assert_eq!(names, ["$match", "$sort", "$limit", "$match"]);
    }
}
