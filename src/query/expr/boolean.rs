//! Booleans, comparison and choice: `$and`, `$or`, `$not`, `$eq` and the like, `$cmp`, `$cond`, `$ifNull`, and tests of
//! types.

use std::cmp::Ordering;

use bson::Bson;

use super::core::call::{Arguments, Folding, Operator, Shape};
use super::core::evaluate::ExprNode;
use super::core::parse::{ExprParser, call};
use super::value::{Number, Outcome, Value, found, is_nullish, is_true, type_name};
use crate::query::compare::compare_bson;
use crate::query::error::{EvalError, QueryError};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$and", shape: Shape::Any, folding: Folding::Commutative, run: and },
    Operator { name: "$or", shape: Shape::Any, folding: Folding::Commutative, run: or },
    Operator { name: "$not", shape: Shape::Exactly(1), folding: Folding::Whole, run: not },
    Operator { name: "$cmp", shape: Shape::Exactly(2), folding: Folding::Whole, run: cmp },
    Operator { name: "$eq", shape: Shape::Exactly(2), folding: Folding::Whole, run: |a| test(a, Ordering::is_eq) },
    Operator { name: "$ne", shape: Shape::Exactly(2), folding: Folding::Whole, run: |a| test(a, Ordering::is_ne) },
    Operator { name: "$gt", shape: Shape::Exactly(2), folding: Folding::Whole, run: |a| test(a, Ordering::is_gt) },
    Operator { name: "$gte", shape: Shape::Exactly(2), folding: Folding::Whole, run: |a| test(a, Ordering::is_ge) },
    Operator { name: "$lt", shape: Shape::Exactly(2), folding: Folding::Whole, run: |a| test(a, Ordering::is_lt) },
    Operator { name: "$lte", shape: Shape::Exactly(2), folding: Folding::Whole, run: |a| test(a, Ordering::is_le) },
    Operator { name: "$cond", shape: Shape::Special(parse_cond), folding: Folding::Whole, run: cond },
    Operator { name: "$ifNull", shape: Shape::AtLeastTwo(1_257_300), folding: Folding::Whole, run: if_null },
    Operator { name: "$type", shape: Shape::Exactly(1), folding: Folding::Whole, run: type_of },
    Operator { name: "$isArray", shape: Shape::Exactly(1), folding: Folding::Whole, run: is_array },
    Operator { name: "$isNumber", shape: Shape::Exactly(1), folding: Folding::Whole, run: is_number },
    Operator { name: "$literal", shape: Shape::Special(parse_literal), folding: Folding::Whole, run: |a| a.value(0) },
    Operator { name: "$const", shape: Shape::Special(parse_literal), folding: Folding::Whole, run: |a| a.value(0) },
];

/// MongoDB's order, in which a missing value is below all others but `MinKey`. No brackets of types as in filters.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => compare_bson(left, right),
        // A stored undefined counts as missing.
        (Some(Bson::Undefined), None) | (None, Some(Bson::Undefined)) => Ordering::Equal,
        (Some(Bson::MinKey), None) => Ordering::Less,
        (None, Some(Bson::MinKey)) => Ordering::Greater,
        _ => left.is_some().cmp(&right.is_some()),
    }
}

fn test(arguments: &Arguments<'_>, accept: fn(Ordering) -> bool) -> Outcome {
    let [left, right] = arguments.values()?;
    found(accept(compare(&left, &right)))
}

fn cmp(arguments: &Arguments<'_>) -> Outcome {
    let [left, right] = arguments.values()?;
    found(compare(&left, &right) as i32)
}

fn and(arguments: &Arguments<'_>) -> Outcome {
    found(!any(arguments, false)?)
}

fn or(arguments: &Arguments<'_>) -> Outcome {
    found(any(arguments, true)?)
}

/// Whether some operand equals `truth` as a boolean; later operands are not evaluated.
fn any(arguments: &Arguments<'_>, truth: bool) -> Result<bool, EvalError> {
    for value in arguments.each() {
        if is_true(value?.as_ref()) == truth {
            return Ok(true);
        }
    }
    Ok(false)
}

fn not(arguments: &Arguments<'_>) -> Outcome {
    found(!is_true(arguments.value(0)?.as_ref()))
}

fn cond(arguments: &Arguments<'_>) -> Outcome {
    arguments.value(if is_true(arguments.value(0)?.as_ref()) { 1 } else { 2 })
}

/// The first operand that is not absent, else the last one whatever it is.
fn if_null(arguments: &Arguments<'_>) -> Outcome {
    let last = arguments.len() - 1;
    for index in 0..last {
        let value = arguments.value(index)?;
        if !is_nullish(value.as_ref()) {
            return Ok(value);
        }
    }
    arguments.value(last)
}

fn type_of(arguments: &Arguments<'_>) -> Outcome {
    found(type_name(arguments.value(0)?.as_ref()))
}

fn is_array(arguments: &Arguments<'_>) -> Outcome {
    found(matches!(arguments.value(0)?, Some(Bson::Array(_))))
}

fn is_number(arguments: &Arguments<'_>) -> Outcome {
    found(arguments.value(0)?.as_ref().and_then(Number::of).is_some())
}

#[expect(clippy::unnecessary_wraps, reason = "one of the readers of operators")]
fn parse_literal(_: &mut ExprParser<'_>, _: &'static Operator, operand: &Bson) -> Result<ExprNode, QueryError> {
    Ok(ExprNode::Constant(Some(operand.clone())))
}

/// `{if, then, else}`, or the three in a list.
fn parse_cond(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    const NAMES: [(&str, i32); 3] = [("if", 17080), ("then", 17081), ("else", 17082)];
    let Bson::Document(document) = operand else {
        let operands = parser.list(operand)?;
        if operands.len() != 3 {
            return parser.refuse(16020, format!("$cond takes exactly 3 arguments, {} were given", operands.len()));
        }
        return Ok(call(operator, operands));
    };
    parser.only("$cond", document, &NAMES.map(|(name, _)| name), 17083)?;
    let mut operands = Vec::with_capacity(3);
    for (name, code) in NAMES {
        let Some(value) = document.get(name) else {
            return parser.refuse(code, format!("missing '{name}' parameter to $cond"));
        };
        operands.push(Some(parser.at(name, value)?));
    }
    Ok(call(operator, operands))
}
