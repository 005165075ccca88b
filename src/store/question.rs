//! Splits a question: into the plain part, which a server gets as the client wrote it, and the rest, which is evaluated in
//! the service.
//!
//! Plain are comparisons, projections that include or exclude, the order, and the page. Where nothing is hidden from the caller,
//! regular expressions and flat expressions are plain, too. [`Demand`] decides it.

use bson::{Bson, Document, doc};

use super::{FindQuery, StoreError, collections};
use crate::query::{Demand, Filter, Guarded, Limits, Projection, Sort};

/// MongoDB's number for what is not allowed.
pub(super) const NOT_ALLOWED: i32 = 224;
/// The unique keys that every document has. None is an array.
pub(super) const KEYS: [&str; 2] = ["_id", "public_id"];

/// A question in two parts.
#[derive(Debug)]
pub(crate) struct Split {
    /// It selects what the question selects, and maybe more.
    pub(crate) plain: FindQuery,
    /// What is left to do with the documents.
    pub(crate) rest: Rest,
}

/// What is left of a question when its plain part was answered.
#[derive(Debug, Clone)]
pub(crate) struct Rest {
    /// The filter, without what only a server evaluates.
    pub(super) filter: Filter,
    /// Whether the filter is still to be evaluated.
    pub(super) is_filtered: bool,
    /// Whether all documents are examined, also where the page is complete before: one of them may fail the query.
    pub(super) examines_all: bool,
    pub(super) sort: Option<Sort>,
    pub(super) skip: u64,
    pub(super) limit: u64,
    pub(super) projection: Option<Projection>,
}

impl Split {
    /// Splits a question.
    ///
    /// # Errors
    /// [`StoreError::Query`] where an operator that only a server has is part of a condition that is sent to no server.
    pub(crate) fn of(query: &FindQuery) -> Result<Self, StoreError> {
        let asked = plain_part(&query.filter);
        let is_filtered = asked.is_some();
        let sort = Some(query.sort.clone()).filter(|sort| is_filtered && may_fail(sort));
        let (skip, limit) = if is_filtered { (query.skip, query.limit) } else { (0, 0) };
        let is_projected =
            |projection: &&Projection| !is_filtered && !is_by_field(&query.sort) && projection.is_plain();
        let projection = query.projection.as_ref();
        let rest = Rest {
            filter: evaluable(&query.filter)?,
            is_filtered,
            examines_all: is_filtered && query.filter.tree().may_fail() && !is_by_index(&query.sort),
            skip,
            limit,
            projection: projection.filter(|it| !is_projected(it) || it.names_entries()).cloned(),
            sort,
        };
        let plain = FindQuery {
            filter: asked.unwrap_or_else(|| query.filter.clone()),
            projection: projection.filter(is_projected).cloned(),
            sort: if rest.sort.is_some() { Sort::default() } else { query.sort.clone() },
            skip: query.skip - skip,
            limit: query.limit - limit,
            ..*query
        };
        Ok(Self { plain, rest })
    }
}

impl Rest {
    /// All of a question.
    pub(super) fn all_of(query: &FindQuery) -> Self {
        let is_ordered = !query.sort.is_empty() || query.sort.is_reversed();
        Self {
            filter: query.filter.clone(),
            is_filtered: true,
            examines_all: true,
            sort: Some(query.sort.clone()).filter(|_| is_ordered),
            skip: query.skip,
            limit: query.limit,
            projection: query.projection.clone(),
        }
    }

    /// Whether the plain part is all of the question.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.is_filtered && self.projection.is_none()
    }

    /// Whether the order is made in the service.
    pub(crate) fn is_sorted(&self) -> bool {
        self.sort.is_some()
    }

    /// Whether the filter is evaluated in the service, so that documents are counted there.
    pub(crate) fn is_filtered(&self) -> bool {
        self.is_filtered
    }
}

/// The part of a filter that is sent to a server, without its guard; nothing if it has none.
pub(crate) fn unguarded(filter: &Filter) -> Option<Filter> {
    let Guarded { question, .. } = filter.guarded()?;
    Some(asked_of(question, most(filter)).unwrap_or_else(|| question.clone()))
}

/// The maximum demand of what is sent to a server.
fn most(filter: &Filter) -> Demand {
    if filter.guarded().is_some() { Demand::Plain } else { Demand::MOST_OF_SERVER }
}

fn evaluable(filter: &Filter) -> Result<Filter, StoreError> {
    filter.without_server(most(filter)).ok_or_else(|| {
        let operator = filter.needs_server().unwrap_or_default();
        let message = format!(
            "{operator} cannot stand in one condition with an expression that is evaluated in the service; ask in two requests"
        );
        StoreError::Query { code: NOT_ALLOWED, message }
    })
}

/// Whether an order fails on some documents: on those with arrays at two of its paths, or where a number in a path may be a name
/// or a position.
fn may_fail(sort: &Sort) -> bool {
    let paths = || sort.keys().iter().map(|key| key.path.as_str()).filter(|path| !KEYS.contains(path));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    paths().count() > 1 || paths().any(|path| path.split('.').any(is_number))
}

/// Whether an index gives documents in this order, or no order is requested: then reading ends with the page.
fn is_by_index(sort: &Sort) -> bool {
    sort.keys().first().is_none_or(|key| key.path.entry().is_none() && is_indexed(key.path.as_str()))
}

/// Whether a declared index is ordered first by the path, or by one below the same member.
fn is_indexed(path: &str) -> bool {
    let member = |path: &'static str| path.split('.').next().unwrap_or(path);
    let firsts = collections::ALL.iter().flat_map(|spec| spec.indexes).filter_map(|index| index.keys.first());
    path == "_id" || firsts.map(|key| member(key.path)).any(|first| first == path)
}

/// Whether an order has the value of a field as a key, which only a stage makes. Stages have other projections than `find`.
pub(super) fn is_by_field(sort: &Sort) -> bool {
    sort.keys().iter().any(|key| key.path.entry().is_some())
}

/// The part of a filter that is sent to a server, with its guard; nothing where that is all of it.
fn plain_part(filter: &Filter) -> Option<Filter> {
    match filter.guarded() {
        Some(Guarded { guard, question }) => Some(guard.clone().and(asked_of(question, most(filter))?)),
        None => asked_of(filter, most(filter)),
    }
}

/// The conditions of a filter that demand no more than that; nothing where all of them do.
///
/// Where some are left, none that may fail is sent to the server. Nor is a comparison that is evaluated after one that may fail,
/// unless an index finds by it: then no store examines other documents, so nothing fails on them.
fn asked_of(filter: &Filter, most: Demand) -> Option<Filter> {
    if filter.demand() <= most {
        return None;
    }
    let mut conditions = Vec::new();
    add_conditions(filter.document(), &mut conditions);
    let (asked, left): (Vec<Condition>, Vec<Condition>) =
        conditions.into_iter().partition(|condition| condition.demand() <= most.min(Demand::Pattern));
    let asked =
        asked.iter().filter(|asked| asked.is_asked_anyway() || left.iter().all(|left| asked.comes_before(left)));
    Some(asked.filter_map(|condition| condition.parsed.clone()).fold(Filter::all(), Filter::and))
}

/// One of the conditions of a filter that all must hold.
struct Condition {
    written: Document,
    /// Nothing if it has a variable of the question around it.
    parsed: Option<Filter>,
}

/// The conditions that all must hold.
fn add_conditions(filter: &Document, conditions: &mut Vec<Condition>) {
    for (name, value) in filter {
        match value {
            Bson::Array(parts) if name == "$and" => {
                parts.iter().filter_map(Bson::as_document).for_each(|part| add_conditions(part, conditions));
            }
            value => {
                let written = doc! { name: value.clone() };
                let parsed = Filter::parse(&written, &Limits::NONE).ok();
                conditions.push(Condition { written, parsed });
            }
        }
    }
}

impl Condition {
    fn demand(&self) -> Demand {
        self.parsed.as_ref().map_or(Demand::Service, Filter::demand)
    }

    /// Whether it is sent to the server, whatever is evaluated before it.
    fn is_asked_anyway(&self) -> bool {
        self.parsed.as_ref().is_some_and(|parsed| parsed.needs_server().is_some()) || self.finds_by_index()
    }

    /// Whether it is about a path by which a declared index is ordered first.
    fn finds_by_index(&self) -> bool {
        self.written.keys().next().is_some_and(|name| is_indexed(name))
    }

    /// Whether it is evaluated before another one.
    fn comes_before(&self, other: &Self) -> bool {
        match (&self.parsed, &other.parsed) {
            (Some(own), Some(other)) => own.tree().comes_before(other.tree()),
            // Expressions come last.
            _ => other.written.keys().all(|name| name == "$expr"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::DateTime;

    use super::*;
    use crate::query::{Path, Pipeline};

    fn filter(document: Document) -> Filter {
        Filter::parse(&document, &Limits::NONE).expect("a filter")
    }

    fn guarded(document: Document) -> Filter {
        filter(document).guarded_by(Filter::none_of("type_id", [7_i64]))
    }

    fn split(filter: Filter, sort: Sort) -> Split {
        let query = FindQuery { skip: 2, limit: 3, ..FindQuery::new(filter, Duration::from_secs(1)).sorted(sort) };
        Split::of(&query).expect("a question that can be answered")
    }

    fn asked(filter: Filter) -> (Document, bool) {
        let Split { plain, rest } = split(filter, Sort::default());
        (plain.filter.document().clone(), rest.is_filtered())
    }

    fn divides() -> Document {
        doc! { "$expr": { "$divide": [1, "$a"] } }
    }

    fn schema() -> Document {
        doc! { "$jsonSchema": { "required": ["a"] } }
    }

    #[test]
    fn what_always_or_never_holds_takes_no_expression_along_to_the_server() {
        let pattern = doc! { "a": { "$regex": "x" } };
        for costly in [divides(), schema(), pattern] {
            let mut never = doc! { "b": { "$in": [] } };
            never.extend(costly.clone());
            for written in [doc! { "$or": [{}, costly.clone()] }, doc! { "$nor": [{}, costly.clone()] }, never] {
                let (asked, is_filtered) = asked(guarded(written.clone()));
                let sent = asked.to_string();
                assert!(
                    ["$expr", "$jsonSchema", "$regex"].iter().all(|name| !sent.contains(name)),
                    "{written}: {sent}"
                );
                assert!(is_filtered, "{written}");
            }
        }
    }

    #[test]
    fn what_is_plain_is_asked_as_it_was_written() {
        for plain in [doc! { "a": 1, "$or": [{ "b": 2 }] }, doc! { "a": { "$regex": "x" } }, divides()] {
            assert_eq!(asked(filter(plain.clone())), (plain, false));
        }
        let hidden = guarded(doc! { "a": 1 });
        assert_eq!(asked(hidden.clone()), (hidden.document().clone(), false));
    }

    #[test]
    fn beside_a_guard_only_comparisons_are_asked() {
        let guard = doc! { "type_id": { "$nin": [7_i64] } };
        for costly in [divides(), schema(), doc! { "b": { "$regex": "x" } }] {
            let question = doc! { "$and": [{ "a": 1 }, costly.clone()] };
            assert_eq!(asked(guarded(question)), (doc! { "$and": [guard.clone(), { "a": 1 }] }, true), "{costly}");
            assert_eq!(asked(guarded(costly.clone())), (guard.clone(), true), "{costly}");
        }
    }

    #[test]
    fn of_a_question_with_a_rest_nothing_is_asked_that_may_fail() {
        let question = filter(doc! { "$and": [{ "a": { "$regex": "x" } }, divides(), schema()] });
        assert_eq!(asked(question), (doc! { "a": { "$regex": "x" } }, true));
    }

    #[test]
    fn what_is_evaluated_after_something_that_may_fail_stays_with_it() {
        let concat = doc! { "$expr": { "$concat": ["$a", "x"] } };
        let behind = doc! { "$and": [concat.clone(), { "b": 1 }, { "c": { "$gt": 2 } }] };
        assert_eq!(asked(filter(behind)).0, doc! { "$and": [{ "b": 1 }, { "c": { "$gt": 2 } }] });
        let either = doc! { "$or": [concat, { "a": 1 }] };
        let first = doc! { "$and": [either, { "b": { "$in": [] } }, { "c": 1 }, { "public_id": 7 }] };
        assert_eq!(asked(filter(first)).0, doc! { "public_id": 7 });
        let both =
            doc! { "$or": [doc! { "$expr": { "$concat": ["$a", "x"] } }, { "a": 1 }], "b": { "$gt": 1, "$in": [2] } };
        assert_eq!(asked(filter(both)).0, doc! {}, "two tests of a path are two conditions");
    }

    #[test]
    fn conditions_of_the_service_on_fields_are_never_asked_and_comparisons_beside_them_are() {
        let field = || doc! { "$entry": { "name": "a", "is": { "$size": 2 } } };
        let stored = || doc! { "fields": { "$elemMatch": { "name": "a" } } };
        assert_eq!(asked(filter(doc! { "$and": [field(), stored()] })), (stored(), true));
        let guard = doc! { "type_id": { "$nin": [7_i64] } };
        let hidden = guarded(doc! { "$and": [stored(), field()] });
        assert_eq!(asked(hidden), (doc! { "$and": [guard, stored()] }, true));
        // The last one never holds, whatever the field is.
        for inside in [doc! { "$or": [field(), { "b": 1 }] }, doc! { "$nor": [{}, field()] }] {
            assert_eq!(asked(filter(inside.clone())), (doc! {}, true), "{inside}");
            let grouped = Pipeline::parse(&[doc! { "$group": { "_id": "$b" } }.into()], &Limits::NONE, DateTime::MIN);
            let grouped = Pipeline::matching(filter(inside)).then(grouped.expect("a pipeline"));
            assert!(grouped.grouped_front().is_none());
        }
    }

    #[test]
    fn what_only_a_server_evaluates_is_asked_and_not_evaluated_again() {
        let text = doc! { "$text": { "$search": "x" } };
        let question = filter(doc! { "$and": [schema(), text.clone()] });
        let Split { plain, rest } = split(question, Sort::default());
        assert_eq!(plain.filter.document(), &text);
        assert!(rest.filter.needs_server().is_none());
        let within = filter(doc! { "$or": [schema(), { "a": { "$geoWithin": { "$box": [[0, 0], [1, 1]] } } }] });
        let refused = Split::of(&FindQuery::new(within, Duration::from_secs(1)));
        assert!(matches!(refused, Err(StoreError::Query { code: NOT_ALLOWED, .. })));
    }

    #[test]
    fn a_page_is_cut_by_whoever_evaluates_the_filter() {
        let by_name = || Sort::by("name", false).then("public_id", false);
        let Split { plain, rest } = split(filter(doc! { "a": 1 }), by_name());
        assert_eq!((plain.skip, plain.limit, rest.skip, rest.limit), (2, 3, 0, 0));
        let Split { plain, rest } = split(filter(schema()), by_name());
        assert_eq!((plain.skip, plain.limit, rest.skip, rest.limit), (0, 0, 2, 3));
        assert_eq!((plain.sort, rest.sort), (by_name(), None));
    }

    #[test]
    fn all_documents_are_examined_where_the_order_is_not_that_of_an_index() {
        let examines_all = |question: Document, sort: Sort| split(filter(question), sort).rest.examines_all;
        let concat = || doc! { "$expr": { "$concat": ["$a", "x"] } };
        assert!(examines_all(concat(), Sort::by("a", false)));
        assert!(!examines_all(concat(), Sort::by("public_id", true)) && !examines_all(concat(), Sort::default()));
        assert!(!examines_all(schema(), Sort::by("a", false)), "it cannot fail");
    }

    #[test]
    fn an_order_that_may_fail_is_made_of_what_matches() {
        let by_position = || Sort::by("a.0", false);
        assert_eq!(split(filter(schema()), by_position()).rest.sort, Some(by_position()));
        let by_both = || Sort::by("a", false).then("b", true);
        assert_eq!(split(filter(doc! { "a": 1 }), by_both()).plain.sort, by_both());
        let Split { plain, rest } = split(filter(schema()), by_both());
        assert_eq!((plain.sort, rest.sort), (Sort::default(), Some(by_both())));
        let by_field = || Sort::by("a", false).then_by(Path::of_field("b", None), false);
        assert_eq!(split(filter(schema()), by_field()).rest.sort, Some(by_field()));
    }

    #[test]
    fn a_plan_is_asked_for_without_the_guard_and_what_it_protects() {
        assert!(unguarded(&filter(doc! { "a": 1 })).is_none());
        let question = guarded(doc! { "a": 1, "$and": [divides(), { "b": 2 }] });
        assert_eq!(unguarded(&question).expect("a part").document(), &doc! { "$and": [{ "a": 1 }, { "b": 2 }] });
    }
}
