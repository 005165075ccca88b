//! `$sortArray`: an array by its elements or by members of them.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::core::call::{Arguments, Operator};
use super::core::evaluate::ExprNode;
use super::core::parse::{ExprParser, call};
use super::value::{Number, Outcome, failure, found, is_nullish, null, type_name};
use crate::query::compare::compare_bson;
use crate::query::error::QueryError;

/// `{input: array, sortBy: 1 | -1 | {path: 1 | -1, ...}}`.
pub(super) fn parse(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    let Bson::Document(document) = operand else {
        let found = type_name(Some(operand));
        return parser.refuse(2_942_500, format!("$sortArray requires an object as an argument, found: {found}"));
    };
    parser.only("$sortArray", document, &["input", "sortBy"], 2_942_501)?;
    let Some(input) = document.get("input") else {
        return parser.refuse(2_942_502, "$sortArray requires 'input' to be specified");
    };
    let Some(pattern) = document.get("sortBy") else {
        return parser.refuse(2_942_503, "$sortArray requires 'sortBy' to be specified");
    };
    parser.within("sortBy", |parser| check_pattern(parser, pattern))?;
    let input = parser.at("input", input)?;
    Ok(call(operator, vec![Some(input), Some(ExprNode::Constant(Some(pattern.clone())))]))
}

fn check_pattern(parser: &ExprParser<'_>, pattern: &Bson) -> Result<(), QueryError> {
    match pattern {
        Bson::Document(keys) if keys.is_empty() => parser.refuse(2_942_505, "the sort pattern is empty"),
        Bson::Document(keys) => {
            for (path, direction) in keys {
                if !is_direction(direction) {
                    return parser.refuse(2_942_505, "the sort element value must be either 1 or -1");
                }
                if path.split('.').any(str::is_empty) {
                    return parser.refuse(2_942_505, format!("the sort field has an empty part: {path}"));
                }
            }
            Ok(())
        }
        number if Number::of(number).is_none() => {
            parser.refuse(2_942_507, "use 1 or -1 to sort whole elements, or {field: 1 or -1} to sort embedded fields")
        }
        number if is_direction(number) => Ok(()),
        _ => parser.refuse(2_942_506, "the sort element value must be either 1 or -1"),
    }
}

fn is_direction(value: &Bson) -> bool {
    Number::of(value).and_then(Number::to_exact_i64).is_some_and(|number| number.abs() == 1)
}

fn is_descending(direction: &Bson) -> bool {
    Number::of(direction).and_then(Number::to_exact_i64) == Some(-1)
}

/// Sorts; elements that compare equal keep their order.
pub(super) fn run(arguments: &Arguments<'_>) -> Outcome {
    let [input, pattern] = arguments.values()?;
    if is_nullish(input.as_ref()) {
        return null();
    }
    let Some(Bson::Array(mut elements)) = input else {
        let found = type_name(input.as_ref());
        return failure(
            2_942_504,
            format!("the input argument to $sortArray must be an array, but was of type: {found}"),
        );
    };
    match &pattern {
        Some(Bson::Document(keys)) => elements.sort_by(|left, right| by_members(keys, left, right)),
        Some(direction) => elements.sort_by(|left, right| directed(compare_bson(left, right), direction)),
        None => {}
    }
    found(elements)
}

fn directed(order: Ordering, direction: &Bson) -> Ordering {
    if is_descending(direction) { order.reverse() } else { order }
}

fn by_members(keys: &Document, left: &Bson, right: &Bson) -> Ordering {
    let orders =
        keys.iter().map(|(path, direction)| directed(compare_bson(member(left, path), member(right, path)), direction));
    orders.fold(Ordering::Equal, Ordering::then)
}

/// The member at the end of the path. One that is missing, or is in an array, sorts as null.
fn member<'a>(element: &'a Bson, path: &str) -> &'a Bson {
    let mut value = element;
    for name in path.split('.') {
        let Bson::Document(document) = value else { return &Bson::Null };
        let Some(member) = document.get(name) else { return &Bson::Null };
        value = member;
    }
    value
}
