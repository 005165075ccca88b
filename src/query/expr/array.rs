//! Arrays: parts of them, searching, joining, turning them into documents and back.

use bson::{Bson, Document};

use super::boolean::compare;
use super::core::call::{Arguments, Folding, Names, Operator, Shape};
use super::core::evaluate::ExprNode;
use super::core::parse::{ExprParser, call};
use super::extremes::Extremes;
use super::sort_array;
use super::value::{Number, Outcome, Value, exact_i32, failure, found, is_nullish, null, shown, type_name};
use crate::query::error::{EvalError, QueryError};

const N: Shape = Shape::Named(&Names {
    not_an_object: 5_787_801,
    unknown: 5_787_901,
    known: &[("n", Some(5_787_906)), ("input", Some(5_787_907))],
});

const SORT: Shape = Shape::Special(sort_array::parse);

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$arrayElemAt", shape: Shape::Exactly(2), folding: Folding::Whole, run: array_elem_at },
    Operator { name: "$first", shape: Shape::Exactly(1), folding: Folding::Whole, run: |a| end(a, <[Bson]>::first) },
    Operator { name: "$last", shape: Shape::Exactly(1), folding: Folding::Whole, run: |a| end(a, <[Bson]>::last) },
    Operator { name: "$firstN", shape: N, folding: Folding::Untouched, run: |a| some(a, first_n) },
    Operator { name: "$lastN", shape: N, folding: Folding::Untouched, run: |a| some(a, last_n) },
    Operator { name: "$minN", shape: N, folding: Folding::Untouched, run: |a| some(a, |e, n| extremes(e, n, false)) },
    Operator { name: "$maxN", shape: N, folding: Folding::Untouched, run: |a| some(a, |e, n| extremes(e, n, true)) },
    Operator { name: "$concatArrays", shape: Shape::Any, folding: Folding::Associative, run: concat_arrays },
    Operator { name: "$in", shape: Shape::Exactly(2), folding: Folding::Whole, run: contains },
    Operator { name: "$indexOfArray", shape: Shape::Between(2, 4), folding: Folding::Whole, run: index_of_array },
    Operator { name: "$range", shape: Shape::Between(2, 3), folding: Folding::Whole, run: range },
    Operator { name: "$reverseArray", shape: Shape::Exactly(1), folding: Folding::Whole, run: reverse_array },
    Operator { name: "$size", shape: Shape::Exactly(1), folding: Folding::Whole, run: size },
    Operator { name: "$slice", shape: Shape::Between(2, 3), folding: Folding::Whole, run: slice },
    Operator { name: "$sortArray", shape: SORT, folding: Folding::Never, run: sort_array::run },
    Operator { name: "$zip", shape: Shape::Special(parse_zip), folding: Folding::Never, run: zip },
    Operator { name: "$arrayToObject", shape: Shape::Exactly(1), folding: Folding::Whole, run: array_to_object },
];

fn array_elem_at(arguments: &Arguments<'_>) -> Outcome {
    let [array, index] = arguments.values()?;
    if is_nullish(array.as_ref()) || is_nullish(index.as_ref()) {
        return null();
    }
    let Some(Bson::Array(elements)) = array else {
        let found = type_name(array.as_ref());
        return failure(28689, format!("$arrayElemAt's first argument must be an array, but is {found}"));
    };
    let Some(number) = index.as_ref().and_then(Number::of) else {
        let found = type_name(index.as_ref());
        return failure(28690, format!("$arrayElemAt's second argument must be a numeric value, but is {found}"));
    };
    let Some(index) = number.to_exact_i32() else {
        let shown = shown(index.as_ref());
        return failure(28691, format!("$arrayElemAt's second argument must be a 32-bit integer: {shown}"));
    };
    Ok(position(index, elements.len()).and_then(|index| elements.into_iter().nth(index)))
}

/// An index that counts from the end when it is negative.
fn position(index: i32, length: usize) -> Option<usize> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { length.checked_sub(distance) } else { Some(distance) }
}

fn end(arguments: &Arguments<'_>, pick: fn(&[Bson]) -> Option<&Bson>) -> Outcome {
    let value = arguments.value(0)?;
    match &value {
        Some(Bson::Array(elements)) => Ok(pick(elements).cloned()),
        _ if is_nullish(value.as_ref()) => null(),
        _ => failure(
            28689,
            format!("{}'s argument must be an array, but is {}", arguments.name(), type_name(value.as_ref())),
        ),
    }
}

/// `{n: number, input: array}`: the chosen part of the array, at most `n` elements.
fn some(arguments: &Arguments<'_>, pick: fn(Vec<Bson>, usize) -> Vec<Bson>) -> Outcome {
    let count = arguments.value(0)?;
    let Some(number) = count.as_ref().and_then(Number::of) else {
        let found = shown(count.as_ref());
        return failure(5_787_902, format!("value for 'n' must be of integral type, but found {found}"));
    };
    if number.is_wide_double() {
        return failure(31109, "can't coerce out of range value to long");
    }
    let whole = number.to_i64_saturating();
    // A decimal that is too small to be a double other than zero counts as zero.
    if Number::Long(whole).to_double().total_cmp(&(number.to_double() + 0.0)).is_ne() {
        let found = shown(count.as_ref());
        return failure(5_787_903, format!("value for 'n' must be of integral type, but found {found}"));
    }
    let number = whole;
    let count = match usize::try_from(number) {
        Ok(count) if count > 0 => count,
        _ => return failure(5_787_908, format!("'n' must be greater than 0, found {number}")),
    };
    let Some(Bson::Array(elements)) = arguments.value(1)? else {
        return failure(5_788_200, "input must be an array");
    };
    found(pick(elements, count))
}

fn first_n(mut elements: Vec<Bson>, count: usize) -> Vec<Bson> {
    elements.truncate(count);
    elements
}

fn last_n(mut elements: Vec<Bson>, count: usize) -> Vec<Bson> {
    elements.split_off(elements.len().saturating_sub(count))
}

fn extremes(elements: Vec<Bson>, count: usize, largest: bool) -> Vec<Bson> {
    let mut extremes = Extremes::new(count, largest);
    // Null and undefined do not take part.
    for element in elements.into_iter().filter(|element| !is_nullish(Some(element))) {
        extremes.add(element);
    }
    extremes.into_values()
}

fn concat_arrays(arguments: &Arguments<'_>) -> Outcome {
    let mut joined = Vec::new();
    for value in arguments.each() {
        match value? {
            Some(Bson::Array(elements)) => joined.extend(elements),
            value if is_nullish(value.as_ref()) => return null(),
            value => return arguments.wrong_type(28664, "only supports arrays", value.as_ref()),
        }
    }
    found(joined)
}

fn contains(arguments: &Arguments<'_>) -> Outcome {
    let [wanted, array] = arguments.values()?;
    let Some(Bson::Array(elements)) = array else {
        let found = type_name(array.as_ref());
        return failure(40081, format!("$in requires an array as a second argument, found: {found}"));
    };
    found(elements.into_iter().any(|element| compare(&wanted, &Some(element)).is_eq()))
}

/// The bounds of a search: not negative, whole; shared by the `$indexOf` operators.
pub(super) fn search_bound(arguments: &Arguments<'_>, index: usize) -> Result<Option<usize>, EvalError> {
    if !arguments.is_given(index) {
        return Ok(None);
    }
    let what = if index == 2 { "starting" } else { "ending" };
    let value = arguments.value(index)?;
    let Some(bound) = value.as_ref().and_then(exact_i32) else {
        let (kind, shown) = (type_name(value.as_ref()), shown(value.as_ref()));
        let message = format!("requires an integral {what} index, found a value of type: {kind}, with value: {shown}");
        return arguments.fail(40096, &message);
    };
    match usize::try_from(bound) {
        Ok(bound) => Ok(Some(bound)),
        Err(_) => arguments.fail(40097, &format!("requires a nonnegative {what} index, found: {bound}")),
    }
}

fn index_of_array(arguments: &Arguments<'_>) -> Outcome {
    let array = arguments.value(0)?;
    if is_nullish(array.as_ref()) {
        return null();
    }
    let Some(Bson::Array(elements)) = array else {
        let found = type_name(array.as_ref());
        return arguments.fail(40090, &format!("requires an array as a first argument, found: {found}"));
    };
    let start = search_bound(arguments, 2)?.unwrap_or(0);
    let end = search_bound(arguments, 3)?.unwrap_or(elements.len()).min(elements.len());
    let wanted = arguments.value(1)?;
    let mut within = elements.into_iter().enumerate().take(end).skip(start);
    // A missing value is found where an element is undefined.
    let hit = within.find_map(|(index, element)| compare(&wanted, &Some(element)).is_eq().then_some(index));
    found(hit.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1))
}

fn range(arguments: &Arguments<'_>) -> Outcome {
    let [start, end] = arguments.values()?;
    let start = range_bound(start.as_ref(), "starting", 34443)?;
    let end = range_bound(end.as_ref(), "ending", 34445)?;
    let step = if arguments.is_given(2) { range_bound(arguments.value(2)?.as_ref(), "step", 34447)? } else { 1 };
    if step == 0 {
        return failure(34449, "$range requires a non-zero step value");
    }
    let (start, end, step) = (i64::from(start), i64::from(end), i64::from(step));
    let count = if (end > start) == (step > 0) { (end - start).abs().div_euclid(step.abs()) } else { 0 };
    arguments.budget().take_elements(usize::try_from(count).unwrap_or(usize::MAX))?;
    let mut numbers = Vec::new();
    let mut number = start;
    while if step > 0 { number < end } else { number > end } {
        // Between two 32-bit bounds, so it is one itself.
        numbers.push(i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32));
        number += step;
    }
    found(numbers)
}

/// The number of a failure for a whole number of the wrong size follows the one for the wrong type.
fn range_bound(value: Option<&Bson>, what: &str, code: i32) -> Result<i32, EvalError> {
    let Some(number) = value.and_then(Number::of) else {
        return failure(
            code,
            format!("$range requires a numeric {what} value, found value of type: {}", type_name(value)),
        );
    };
    number.to_exact_i32().map_or_else(
        || {
            failure(
                code + 1,
                format!("$range requires a 32-bit integer as {what} value, found value: {}", shown(value)),
            )
        },
        Ok,
    )
}

fn reverse_array(arguments: &Arguments<'_>) -> Outcome {
    let value = arguments.value(0)?;
    match value {
        Some(Bson::Array(mut elements)) => {
            elements.reverse();
            found(elements)
        }
        _ if is_nullish(value.as_ref()) => null(),
        _ => failure(
            34435,
            format!("the argument to $reverseArray must be an array, but was of type: {}", type_name(value.as_ref())),
        ),
    }
}

fn size(arguments: &Arguments<'_>) -> Outcome {
    if let Some(length) = arguments.length_in_place(0)? {
        return found(i32::try_from(length).unwrap_or(i32::MAX));
    }
    match arguments.value(0)? {
        Some(Bson::Array(elements)) => found(i32::try_from(elements.len()).unwrap_or(i32::MAX)),
        value => failure(
            17124,
            format!("the argument to $size must be an array, but was of type: {}", type_name(value.as_ref())),
        ),
    }
}

fn slice(arguments: &Arguments<'_>) -> Outcome {
    let array = arguments.value(0)?;
    let second = arguments.value(1)?;
    if is_nullish(array.as_ref()) || is_nullish(second.as_ref()) {
        return null();
    }
    let Some(Bson::Array(elements)) = array else {
        let found = type_name(array.as_ref());
        return failure(28724, format!("first argument to $slice must be an array, but is of type: {found}"));
    };
    let second = slice_number(second.as_ref(), "second", 28725)?;
    let length = elements.len();
    let (start, count) = if arguments.is_given(2) {
        let third = arguments.value(2)?;
        if is_nullish(third.as_ref()) {
            return null();
        }
        let count = slice_number(third.as_ref(), "third", 28727)?;
        if count <= 0 {
            return failure(28729, format!("third argument to $slice must be positive: {count}"));
        }
        (position(second, length).unwrap_or(0), count.unsigned_abs())
    } else if second < 0 {
        (position(second, length).unwrap_or(0), u32::MAX)
    } else {
        (0, second.unsigned_abs())
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    found(elements.into_iter().skip(start).take(count).collect::<Vec<_>>())
}

fn slice_number(value: Option<&Bson>, which: &str, code: i32) -> Result<i32, EvalError> {
    let Some(number) = value.and_then(Number::of) else {
        let found = type_name(value);
        return failure(code, format!("{which} argument to $slice must be numeric, but is of type: {found}"));
    };
    number.to_exact_i32().map_or_else(
        || failure(code + 1, format!("{which} argument to $slice must be a 32-bit integer: {}", shown(value))),
        Ok,
    )
}

/// `{inputs: [array, ...], useLongestLength: bool, defaults: [value, ...]}`: the inputs, then the defaults.
fn parse_zip(parser: &mut ExprParser<'_>, operator: &'static Operator, operand: &Bson) -> Result<ExprNode, QueryError> {
    let Bson::Document(document) = operand else {
        let found = type_name(Some(operand));
        return parser.refuse(34460, format!("$zip only supports an object as an argument, found {found}"));
    };
    let (mut inputs, mut defaults, mut longest) = (Vec::new(), Vec::new(), false);
    for (name, value) in document {
        match (name.as_str(), value) {
            ("inputs", Bson::Array(_)) => inputs = parser.within(name, |parser| parser.list(value))?,
            ("inputs", other) => {
                let found = type_name(Some(other));
                return parser.refuse(34461, format!("inputs must be an array of expressions, found {found}"));
            }
            ("defaults", Bson::Array(_)) => defaults = parser.within(name, |parser| parser.list(value))?,
            ("defaults", other) => {
                let found = type_name(Some(other));
                return parser.refuse(34462, format!("defaults must be an array of expressions, found {found}"));
            }
            ("useLongestLength", Bson::Boolean(truth)) => longest = *truth,
            ("useLongestLength", other) => {
                let found = type_name(Some(other));
                return parser.refuse(34463, format!("useLongestLength must be a bool, found {found}"));
            }
            _ => parser.only("$zip", document, &["inputs", "defaults", "useLongestLength"], 34464)?,
        }
    }
    if inputs.is_empty() {
        return parser.refuse(34465, "$zip requires at least one input array");
    }
    if !defaults.is_empty() && !longest {
        return parser.refuse(34466, "cannot specify defaults unless useLongestLength is true");
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        return parser.refuse(34467, "defaults and inputs must have the same length");
    }
    if longest && defaults.is_empty() {
        defaults = vec![Some(ExprNode::Constant(Some(Bson::Null))); inputs.len()];
    }
    inputs.extend(defaults);
    // The first operand decides whether the second half of the others are defaults.
    inputs.insert(0, Some(ExprNode::Constant(Some(Bson::Boolean(longest)))));
    Ok(call(operator, inputs))
}

fn zip(arguments: &Arguments<'_>) -> Outcome {
    let longest = arguments.value(0)? == Some(Bson::Boolean(true));
    let count = if longest { (arguments.len() - 1) / 2 } else { arguments.len() - 1 };
    let mut inputs = Vec::with_capacity(count);
    for index in 1..=count {
        match arguments.value(index)? {
            Some(Bson::Array(elements)) => inputs.push(elements),
            value if is_nullish(value.as_ref()) => return null(),
            value => {
                let found = shown(value.as_ref());
                return failure(34468, format!("$zip found a non-array expression in input: {found}"));
            }
        }
    }
    let lengths = inputs.iter().map(Vec::len);
    let rows = if longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let defaults: Vec<Value> = if longest && rows > 0 {
        (1..=count).map(|index| arguments.value(count + index)).collect::<Result<_, _>>()?
    } else {
        Vec::new()
    };
    let row = |index: usize| -> Result<Bson, EvalError> {
        let mut values = Vec::with_capacity(count);
        for (column, input) in inputs.iter().enumerate() {
            let default = || defaults.get(column).and_then(Option::as_ref);
            if let Some(value) = input.get(index).or_else(default) {
                arguments.budget().take_copy(value)?;
                values.push(value.clone());
            }
        }
        Ok(values.into())
    };
    found((0..rows).map(row).collect::<Result<Vec<_>, _>>()?)
}

fn array_to_object(arguments: &Arguments<'_>) -> Outcome {
    let value = arguments.value(0)?;
    if is_nullish(value.as_ref()) {
        return null();
    }
    let Some(Bson::Array(elements)) = value else {
        let found = type_name(value.as_ref());
        return arguments.fail(40386, &format!("requires an array input, found: {found}"));
    };
    let mut document = Document::new();
    let pairs_are_arrays = match elements.first() {
        None => return found(document),
        Some(Bson::Array(_)) => true,
        Some(Bson::Document(_)) => false,
        Some(other) => {
            let found = type_name(Some(other));
            return failure(40398, format!("unrecognised input type format for $arrayToObject: {found}"));
        }
    };
    for element in elements {
        let (name, value) = match element {
            Bson::Array(pair) if pairs_are_arrays => pair_of_array(pair)?,
            Bson::Document(pair) if !pairs_are_arrays => pair_of_document(pair)?,
            other => {
                let code = if pairs_are_arrays { 40396 } else { 40391 };
                let found = type_name(Some(&other));
                return arguments.fail(code, &format!("requires a consistent input format, now found: {found}"));
            }
        };
        document.insert(name, value);
    }
    found(document)
}

fn pair_of_array(pair: Vec<Bson>) -> Result<(String, Bson), EvalError> {
    let Ok([name, value]) = <[Bson; 2]>::try_from(pair) else {
        return failure(40397, "$arrayToObject requires an array of size 2 arrays");
    };
    match name {
        Bson::String(name) if name.contains('\0') => failure(4_940_400, "a key cannot contain an embedded null byte"),
        Bson::String(name) => Ok((name, value)),
        other => {
            let found = type_name(Some(&other));
            failure(40395, format!("$arrayToObject requires keys of type string, found: {found}"))
        }
    }
}

fn pair_of_document(mut pair: Document) -> Result<(String, Bson), EvalError> {
    if pair.len() != 2 {
        return failure(
            40392,
            format!("$arrayToObject requires objects with 'k' and 'v' only, found {} keys", pair.len()),
        );
    }
    let (Some(name), Some(value)) = (pair.remove("k"), pair.remove("v")) else {
        return failure(40393, "$arrayToObject requires objects with the keys 'k' and 'v'");
    };
    match name {
        Bson::String(name) if name.contains('\0') => failure(4_940_401, "a key cannot contain an embedded null byte"),
        Bson::String(name) => Ok((name, value)),
        other => {
            let found = type_name(Some(&other));
            failure(40394, format!("$arrayToObject requires the value of 'k' to be of type string, found: {found}"))
        }
    }
}
