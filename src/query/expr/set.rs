//! Sets: arrays without order and repetition. Equal numbers of different types are one element.

use std::collections::BTreeSet;

use bson::Bson;

use super::core::call::{Arguments, Folding, Operator, Shape};
use super::core::evaluate::ExprNode;
use super::core::parse::{ExprParser, call};
use super::value::{Outcome, failure, found, is_nullish, is_true, null, type_name};
use crate::query::compare::Ordered;
use crate::query::error::{EvalError, QueryError};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "$setEquals",
        shape: Shape::Special(parse_set_equals),
        folding: Folding::Never,
        run: |a| set_equals(a, true),
    },
    Operator { name: "$setUnion", shape: Shape::Any, folding: Folding::Commutative, run: set_union },
    Operator { name: "$setIntersection", shape: Shape::Any, folding: Folding::Commutative, run: set_intersection },
    Operator { name: "$setDifference", shape: Shape::Exactly(2), folding: Folding::Whole, run: set_difference },
    Operator { name: "$setIsSubset", shape: Shape::Exactly(2), folding: Folding::Whole, run: set_is_subset },
    Operator { name: "$anyElementTrue", shape: Shape::Exactly(1), folding: Folding::Whole, run: any_element_true },
    Operator { name: "$allElementsTrue", shape: Shape::Exactly(1), folding: Folding::Whole, run: all_elements_true },
];

fn set_of(elements: Vec<Bson>) -> BTreeSet<Ordered> {
    let mut set = BTreeSet::new();
    for element in elements {
        // `insert` keeps the element that is there.
        set.insert(Ordered(element));
    }
    set
}

fn values(set: BTreeSet<Ordered>) -> Outcome {
    found(set.into_iter().map(|element| element.0).collect::<Vec<_>>())
}

/// `$setEquals` in a filter, where MongoDB forgets what it has prepared.
const SET_EQUALS_IN_ORDER: Operator = Operator {
    name: "$setEquals",
    shape: Shape::AtLeastTwo(17045),
    folding: Folding::Never,
    run: |a| set_equals(a, false),
};

fn parse_set_equals(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    let operands = parser.list(operand)?;
    if operands.len() < 2 {
        return parser.refuse(17045, format!("$setEquals needs at least two arguments, {} given", operands.len()));
    }
    Ok(call(if parser.is_in_filter() { &SET_EQUALS_IN_ORDER } else { operator }, operands))
}

/// `prepared`: the first constant operand, which is a set already, is what the others are compared with.
fn set_equals(arguments: &Arguments<'_>, prepared: bool) -> Outcome {
    let mut order: Vec<usize> = (0..arguments.len()).collect();
    let constant = order.iter().position(|&index| arguments.is_constant(index)).filter(|_| prepared);
    if let Some(constant) = constant {
        order[..=constant].rotate_right(1);
    }
    let all_constant = order.iter().all(|&index| arguments.is_constant(index));
    let code = if all_constant { 5_887_502 } else { 17044 };
    let mut first: Option<BTreeSet<Ordered>> = None;
    for index in order {
        let elements = match arguments.value(index)? {
            Some(Bson::Array(elements)) => elements,
            other => {
                let (found, place) = (type_name(other.as_ref()), index + 1);
                let message = format!("all operands of $setEquals must be arrays, number {place} is of type: {found}");
                return failure(code, message);
            }
        };
        let set = set_of(elements);
        match &first {
            None => first = Some(set),
            Some(first) if *first != set => return found(false),
            Some(_) => {}
        }
    }
    found(true)
}

fn set_union(arguments: &Arguments<'_>) -> Outcome {
    let mut union = BTreeSet::new();
    for value in arguments.each() {
        match value? {
            Some(Bson::Array(elements)) => union.extend(elements.into_iter().map(Ordered)),
            value if is_nullish(value.as_ref()) => return null(),
            value => return wrong_operand(arguments, 17043, value.as_ref()),
        }
    }
    values(union)
}

fn wrong_operand(arguments: &Arguments<'_>, code: i32, value: Option<&Bson>) -> Outcome {
    let (name, found) = (arguments.name(), type_name(value));
    failure(code, format!("all operands of {name} must be arrays, one argument is of type: {found}"))
}

fn set_intersection(arguments: &Arguments<'_>) -> Outcome {
    let mut common: Option<BTreeSet<Ordered>> = None;
    for value in arguments.each() {
        let elements = match value? {
            Some(Bson::Array(elements)) => elements,
            value if is_nullish(value.as_ref()) => return null(),
            value => return wrong_operand(arguments, 17047, value.as_ref()),
        };
        let set = set_of(elements);
        common = Some(match common {
            None => set,
            // Of equal elements those of the smaller set stay.
            Some(common) if common.len() > set.len() => intersection(set, &common),
            Some(common) => intersection(common, &set),
        });
    }
    values(common.unwrap_or_default())
}

fn intersection(mut kept: BTreeSet<Ordered>, other: &BTreeSet<Ordered>) -> BTreeSet<Ordered> {
    kept.retain(|element| other.contains(element));
    kept
}

/// The two operands as arrays; `codes` are MongoDB's numbers for the first and the second being none.
fn two_arrays(
    arguments: &Arguments<'_>,
    left: Option<Bson>,
    right: Option<Bson>,
    codes: (i32, i32),
) -> Result<(Vec<Bson>, Vec<Bson>), EvalError> {
    let name = arguments.name();
    let Some(Bson::Array(left)) = left else {
        let found = type_name(left.as_ref());
        return failure(codes.0, format!("both operands of {name} must be arrays, the first is of type: {found}"));
    };
    let Some(Bson::Array(right)) = right else {
        let found = type_name(right.as_ref());
        return failure(codes.1, format!("both operands of {name} must be arrays, the second is of type: {found}"));
    };
    Ok((left, right))
}

/// Keeps the order of the first array.
fn set_difference(arguments: &Arguments<'_>) -> Outcome {
    let [left, right] = arguments.values()?;
    if is_nullish(left.as_ref()) || is_nullish(right.as_ref()) {
        return null();
    }
    let (left, right) = two_arrays(arguments, left, right, (17048, 17049))?;
    let mut taken = set_of(right);
    found(left.into_iter().filter(|element| taken.insert(Ordered(element.clone()))).collect::<Vec<_>>())
}

fn set_is_subset(arguments: &Arguments<'_>) -> Outcome {
    let [left, right] = arguments.values()?;
    // With a constant second operand MongoDB runs a variant with other error codes.
    let prepared = arguments.is_constant(1) && !arguments.is_constant(0);
    let (left, right) = two_arrays(arguments, left, right, if prepared { (17310, 17311) } else { (17046, 17042) })?;
    let whole = set_of(right);
    found(left.into_iter().all(|element| whole.contains(&Ordered(element))))
}

fn any_element_true(arguments: &Arguments<'_>) -> Outcome {
    found(elements(arguments, 17041)?.iter().any(|element| is_true(Some(element))))
}

fn all_elements_true(arguments: &Arguments<'_>) -> Outcome {
    found(elements(arguments, 17040)?.iter().all(|element| is_true(Some(element))))
}

fn elements(arguments: &Arguments<'_>, code: i32) -> Result<Vec<Bson>, EvalError> {
    match arguments.value(0)? {
        Some(Bson::Array(elements)) => Ok(elements),
        other => {
            let (name, found) = (arguments.name(), type_name(other.as_ref()));
            failure(code, format!("{name}'s argument must be an array, but is {found}"))
        }
    }
}
