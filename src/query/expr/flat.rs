//! Flat expressions: those that a MongoDB server is asked to evaluate.
//!
//! MongoDB bounds neither the memory nor the time of one expression on one document. A flat expression needs no bound: it has a
//! few operators from a short list, and none of these makes an array, a document or a text, or goes over one.

use bson::Bson;

/// The operators: booleans, comparison, choice, and simple numbers and dates.
const OPERATORS: [&str; 25] = [
    "$and", "$or", "$not", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp", "$cond", "$ifNull", "$isNumber", "$add",
    "$subtract", "$multiply", "$divide", "$mod", "$abs", "$ceil", "$floor", "$trunc", "$year", "$month", "$dayOfMonth",
];

/// How many operators an expression has, if it is flat but for their number.
///
/// The expression must be the one that the client wrote: a server gets that, and not the one with constants computed ahead.
pub(super) fn operators(expression: &Bson) -> Option<usize> {
    match expression {
        Bson::String(text) if text.starts_with("$$") => (text == "$$NOW").then_some(0),
        Bson::Document(call) => match call.iter().next() {
            Some((name, operand)) if OPERATORS.contains(&name.as_str()) => Some(1 + of_operand(operand)?),
            _ => None,
        },
        Bson::Array(_) => None,
        _ => Some(0),
    }
}

fn of_operand(operand: &Bson) -> Option<usize> {
    match operand {
        Bson::Array(operands) => operands.iter().map(operators).sum(),
        Bson::Document(named) if !named.keys().any(|name| name.starts_with('$')) => named.values().map(operators).sum(),
        one => operators(one),
    }
}
