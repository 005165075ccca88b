//! The question of `find`, `count`, `distinct` and `explain`: filter, projection, sort, and where they lead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc};

use super::Reading;
use super::options::Options;
use crate::admission;
use crate::query::{Effort, Filter, Limits, Projection, QueryError, Sort};
use crate::service::exchange::tools::{self, Reach};
use crate::store::{FindQuery, StoreError};
use crate::wire::error::{WireError, code};

/// A question of at most this many elements is parsed on the thread of the connection, if that is fast.
const SHORT: usize = 100;

/// How many keys a sort may have, as in MongoDB.
const MOST_KEYS: usize = 32;

/// The names under which a command has the parts of its question.
pub(super) struct Names {
    pub(super) filter: &'static str,
    pub(super) sort: Option<&'static str>,
    pub(super) projection: Option<&'static str>,
}

/// What a caller sees of the collection of a command; nothing where there is no such collection for tools.
pub(super) async fn reach(reading: &Reading<'_>, options: &Options) -> Result<Option<Reach>, WireError> {
    named(reading, options, options.collection()?).await
}

/// The same of the collection of this name.
pub(super) async fn named(reading: &Reading<'_>, options: &Options, name: &str) -> Result<Option<Reach>, WireError> {
    if options.database != reading.call.shared.parts.database {
        return Ok(None);
    }
    Ok(tools::reach(reading.services(), &reading.caller, name).await?)
}

/// The bounds on the queries of tools: those of REST, and code as a plain value, which is never run.
pub(super) fn limits(reading: &Reading<'_>) -> Limits {
    Limits { code_values: true, ..reading.call.shared.parts.query_limits }
}

/// Parses the question of a command. `skip` and `limit` are those of `find` and of `count`.
pub(super) async fn read(reading: &Reading<'_>, options: &Options, names: &Names) -> Result<FindQuery, WireError> {
    options.simple_collation()?;
    let max_time = options.max_time(reading.services().max_time)?;
    let variables = variables(options)?;
    let filter = with_variables(options.document(names.filter)?.cloned().unwrap_or_default(), &variables);
    let projected = names.projection.map(|name| options.document(name)).transpose()?.flatten();
    let projected = projected.filter(|document| !document.is_empty());
    let projected = projected.map(|document| computed_with_variables(document.clone(), &variables));
    let sort = names.sort.map(|name| options.document(name)).transpose()?.flatten();
    let sort = Sort::parse(sort.unwrap_or(&Document::new()))?;
    if sort.keys().len() > MOST_KEYS {
        return Err(WireError::new(13103, format!("sort: too many keys, at most {MOST_KEYS} are allowed")));
    }
    let sort = match hint(options)? {
        Some(natural) if sort.keys().is_empty() => natural,
        _ => sort,
    };
    let limits = limits(reading);
    let now = reading.services().now();
    let size = filter.len() + projected.as_ref().map_or(0, Document::len);
    let parts = Arc::new((filter, projected));
    let (filter, projection) = understood(size, max_time, move |effort| {
        let filter = Filter::parse_with(&parts.0, &limits, now, effort)?;
        let projection = parts.1.as_ref().map(|document| projection(document, &filter, (&limits, now), effort));
        Ok((filter, projection.transpose()?))
    })
    .await?;
    Ok(FindQuery { projection, sort, ..FindQuery::new(filter, max_time) })
}

fn projection(
    document: &Document,
    filter: &Filter,
    (limits, now): (&Limits, DateTime),
    effort: &Effort,
) -> Result<Projection, QueryError> {
    Projection::parse_with(document, filter, limits, now, effort)
}

/// Parses at once if that takes some microseconds, otherwise as admitted work.
pub(super) async fn understood<T: Send + 'static>(
    size: usize,
    max_time: Duration,
    read: impl Fn(&Effort) -> Result<T, QueryError> + Send + 'static,
) -> Result<T, WireError> {
    if size <= SHORT {
        match read(&Effort::Brief) {
            Err(error) if error.is_unfinished() => {}
            outcome => return Ok(outcome?),
        }
    }
    let end = Instant::now().checked_add(max_time);
    let read = admission::work(move |means| read(&Effort::Work(means.clone(), end))).await;
    Ok(read.map_err(StoreError::from)??)
}

/// The order that a hint asks for. A hint at an index is refused, as only the planner chooses indexes.
fn hint(options: &Options) -> Result<Option<Sort>, WireError> {
    let Some(hint) = options.get("hint") else { return Ok(None) };
    let document = match hint {
        Bson::Document(document) if document.is_empty() => return Ok(None),
        Bson::Document(document) => document.clone(),
        Bson::String(name) if name == "$natural" => doc! { "$natural": 1 },
        Bson::String(_) => Document::new(),
        _ => return Err(WireError::new(code::FAILED_TO_PARSE, "hint: write the name of an index, or a document")),
    };
    if document.len() == 1 && document.contains_key("$natural") {
        return Ok(Some(Sort::parse(&document)?));
    }
    let message = "hint: this server chooses the index by itself, explain shows which; leave the hint out, or write {$natural: 1}";
    Err(WireError::new(code::BAD_VALUE, message))
}

/// The values of `let`. They are constants here.
fn variables(options: &Options) -> Result<Document, WireError> {
    let Some(variables) = options.document("let")? else { return Ok(Document::new()) };
    let mut constants = Document::new();
    for (name, value) in variables {
        if is_computed(value) {
            let message = format!("let.{name}: write a constant; compute inside of $expr with $let");
            return Err(WireError::new(code::INVALID_OPTIONS, message));
        }
        constants.insert(name, doc! { "$literal": value.clone() });
    }
    Ok(constants)
}

fn is_computed(value: &Bson) -> bool {
    match value {
        Bson::String(text) => text.starts_with('$'),
        Bson::Document(document) => {
            let is_literal = document.len() == 1 && document.contains_key("$literal");
            !is_literal && document.iter().any(|(name, value)| name.starts_with('$') || is_computed(value))
        }
        Bson::Array(items) => items.iter().any(is_computed),
        _ => false,
    }
}

/// The filter with the variables in each `$expr`, which is the only place where a filter can name them.
fn with_variables(filter: Document, variables: &Document) -> Document {
    if variables.is_empty() {
        return filter;
    }
    filter
        .into_iter()
        .map(|(name, value)| match (name.as_str(), value) {
            ("$expr", value) => (name, bound(value, variables)),
            ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
                let part = |part| match part {
                    Bson::Document(part) => Bson::Document(with_variables(part, variables)),
                    other => other,
                };
                (name, Bson::Array(parts.into_iter().map(part).collect()))
            }
            (_, value) => (name, value),
        })
        .collect()
}

/// The projection with the variables in each value that names one.
fn computed_with_variables(projection: Document, variables: &Document) -> Document {
    if variables.is_empty() {
        return projection;
    }
    let bind = |(name, value): (String, Bson)| {
        let value = if names_variable(&value, variables) { bound(value, variables) } else { value };
        (name, value)
    };
    projection.into_iter().map(bind).collect()
}

fn bound(expression: Bson, variables: &Document) -> Bson {
    doc! { "$let": { "vars": variables.clone(), "in": expression } }.into()
}

fn names_variable(value: &Bson, variables: &Document) -> bool {
    match value {
        Bson::String(text) => text
            .strip_prefix("$$")
            .is_some_and(|path| variables.contains_key(path.split('.').next().unwrap_or_default())),
        Bson::Document(document) => document.values().any(|value| names_variable(value, variables)),
        Bson::Array(items) => items.iter().any(|item| names_variable(item, variables)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_bound_where_a_filter_can_name_them() {
        let variables = doc! { "a": { "$literal": 1 } };
        let filter = doc! { "b": "$$a", "$or": [{ "$expr": "$$a" }] };
        let wanted = doc! { "b": "$$a", "$or": [{ "$expr": { "$let": { "vars": variables.clone(), "in": "$$a" } } }] };
        assert_eq!(with_variables(filter, &variables), wanted);
        let projection = doc! { "b": 1, "c": { "$add": ["$$a.d", 1] }, "e": "$$ROOT" };
        let computed = computed_with_variables(projection, &variables);
        assert_eq!(
            (computed.get("b"), computed.get("e")),
            (Some(&Bson::Int32(1)), Some(&Bson::String("$$ROOT".into())))
        );
        assert!(computed.get_document("c").expect("a document").contains_key("$let"));
    }

    #[test]
    fn a_computed_variable_is_no_constant() {
        assert!(is_computed(&Bson::String("$$NOW".into())) && is_computed(&doc! { "a": [{ "$add": [1, 2] }] }.into()));
        assert!(!is_computed(&doc! { "$literal": "$a" }.into()) && !is_computed(&doc! { "a": ["b"] }.into()));
    }
}
