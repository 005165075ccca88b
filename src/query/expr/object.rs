//! Documents: merging, single members by name, lists of members; and the sizes of values.

use bson::raw::RawDocumentBuf;
use bson::spec::BinarySubtype;
use bson::{Bson, Document};

use super::core::call::{Arguments, Folding, Operator, Shape};
use super::core::evaluate::ExprNode;
use super::core::parse::{ExprParser, call};
use super::value::{Outcome, Value, failure, found, is_nullish, null, shown, text, type_name};
use crate::query::error::{EvalError, QueryError};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$mergeObjects", shape: Shape::Any, folding: Folding::Whole, run: merge_objects },
    Operator { name: "$objectToArray", shape: Shape::Exactly(1), folding: Folding::Whole, run: object_to_array },
    Operator { name: "$getField", shape: Shape::Special(parse_get_field), folding: Folding::Untouched, run: get_field },
    Operator { name: "$setField", shape: Shape::Special(parse_set_field), folding: Folding::Untouched, run: set_field },
    Operator {
        name: "$unsetField",
        shape: Shape::Special(parse_set_field),
        folding: Folding::Untouched,
        run: set_field,
    },
    Operator { name: "$bsonSize", shape: Shape::Exactly(1), folding: Folding::Whole, run: bson_size },
    Operator { name: "$binarySize", shape: Shape::Exactly(1), folding: Folding::Whole, run: binary_size },
    Operator { name: "$tsSecond", shape: Shape::Exactly(1), folding: Folding::Whole, run: timestamp_part },
    Operator { name: "$tsIncrement", shape: Shape::Exactly(1), folding: Folding::Whole, run: timestamp_part },
];

fn merge_objects(arguments: &Arguments<'_>) -> Outcome {
    let mut merged = Document::new();
    for value in arguments.each() {
        match value? {
            // The elements of a single operand that is an array.
            Some(Bson::Array(elements)) if arguments.len() == 1 => {
                for element in elements {
                    merge(arguments, &mut merged, Some(element))?;
                }
            }
            value => merge(arguments, &mut merged, value)?,
        }
    }
    found(merged)
}

fn merge(arguments: &Arguments<'_>, merged: &mut Document, value: Value) -> Result<(), EvalError> {
    match value {
        Some(Bson::Document(document)) => merged.extend(document),
        value if is_nullish(value.as_ref()) => {}
        value => {
            let (shown, kind) = (shown(value.as_ref()), type_name(value.as_ref()));
            return arguments.fail(40400, &format!("requires object inputs, but input {shown} is of type {kind}"));
        }
    }
    Ok(())
}

fn object_to_array(arguments: &Arguments<'_>) -> Outcome {
    match arguments.value(0)? {
        Some(Bson::Document(document)) => {
            let pair = |(name, value)| Bson::Document(bson::doc! { "k": name, "v": value });
            found(document.into_iter().map(pair).collect::<Vec<Bson>>())
        }
        value if is_nullish(value.as_ref()) => null(),
        value => {
            let found = type_name(value.as_ref());
            arguments.fail(40390, &format!("requires a document input, found: {found}"))
        }
    }
}

/// MongoDB's numbers for a field name that is a path, that is computed, and that is no text.
struct NameCodes {
    path: i32,
    computed: i32,
    type_of: i32,
}

const GET: NameCodes = NameCodes { path: 5_654_600, computed: 5_654_601, type_of: 5_654_602 };
const SET: NameCodes = NameCodes { path: 4_161_108, computed: 4_161_106, type_of: 4_161_107 };

/// A field's name: a constant text. Dots and dollar signs in it have no meaning.
fn field_name(
    parser: &mut ExprParser<'_>,
    name: &Bson,
    operator: &Operator,
    codes: &NameCodes,
) -> Result<ExprNode, QueryError> {
    let operator = operator.name;
    match parser.expression(name)? {
        ExprNode::Constant(value) if text(value.as_ref()).is_some() => Ok(ExprNode::Constant(value)),
        ExprNode::Constant(value) => {
            let found = type_name(value.as_ref());
            parser.refuse(codes.type_of, format!("{operator} requires 'field' to be a string, but got {found}"))
        }
        ExprNode::Path(_) | ExprNode::Variable { .. } => {
            parser.refuse(codes.path, format!("{operator} does not allow a path as 'field'; did you mean $literal?"))
        }
        _ => parser.refuse(codes.computed, format!("{operator} requires 'field' to be a constant")),
    }
}

/// `{field: name, input: document}`, or the name alone for a field of the document at hand.
fn parse_get_field(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    let document = match operand {
        Bson::Document(document) if !document.keys().next().is_some_and(|name| name.starts_with('$')) => document,
        name => {
            let name = field_name(parser, name, operator, &GET)?;
            let current = parser.expression(&Bson::String("$$CURRENT".to_owned()))?;
            return Ok(call(operator, vec![Some(name), Some(current)]));
        }
    };
    parser.only(operator.name, document, &["field", "input"], 3_041_701)?;
    let Some(name) = document.get("field") else {
        return parser.refuse(3_041_702, "$getField requires 'field' to be specified");
    };
    let Some(input) = document.get("input") else {
        return parser.refuse(3_041_703, "$getField requires 'input' to be specified");
    };
    let name = parser.within("field", |parser| field_name(parser, name, operator, &GET))?;
    let input = parser.at("input", input)?;
    Ok(call(operator, vec![Some(name), Some(input)]))
}

fn get_field(arguments: &Arguments<'_>) -> Outcome {
    let [name, input] = arguments.values()?;
    match input {
        Some(Bson::Document(mut document)) => Ok(text(name.as_ref()).and_then(|name| document.remove(name))),
        None => Ok(None),
        input if is_nullish(input.as_ref()) => null(),
        Some(_) => Ok(None),
    }
}

/// `{field: name, input: document, value: value}`; `$unsetField` is the same with a missing value.
fn parse_set_field(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    let name = operator.name;
    let sets = name == "$setField";
    let Bson::Document(document) = operand else {
        return parser.refuse(4_161_100, format!("{name} only supports an object as its argument"));
    };
    let known: &[&str] = if sets { &["field", "input", "value"] } else { &["field", "input"] };
    parser.only(name, document, known, 4_161_101)?;
    let Some(field) = document.get("field") else {
        return parser.refuse(4_161_102, format!("{name} requires 'field' to be specified"));
    };
    let value = match document.get("value") {
        Some(value) => parser.at("value", value)?,
        None if sets => return parser.refuse(4_161_103, format!("{name} requires 'value' to be specified")),
        None => ExprNode::Constant(None),
    };
    let Some(input) = document.get("input") else {
        return parser.refuse(4_161_109, format!("{name} requires 'input' to be specified"));
    };
    let field = parser.within("field", |parser| field_name(parser, field, operator, &SET))?;
    let input = parser.at("input", input)?;
    Ok(call(operator, vec![Some(field), Some(input), Some(value)]))
}

fn set_field(arguments: &Arguments<'_>) -> Outcome {
    match places_after_setting(arguments)? {
        Some(places) => {
            let there = places.into_iter().filter_map(|(name, value)| Some((name, value?)));
            found(there.collect::<Document>())
        }
        None => null(),
    }
}

/// The members of a document in which missing ones keep their places: while MongoDB builds a document, a member that is
/// set again returns to its old place.
type Places = Vec<(String, Value)>;

/// Nothing when the document is absent.
fn places_after_setting(arguments: &Arguments<'_>) -> Result<Option<Places>, EvalError> {
    let name = arguments.value(0)?;
    let (Some(name), Some(mut places)) = (text(name.as_ref()), places_of_input(arguments)?) else { return Ok(None) };
    let value = arguments.value(2)?;
    match places.iter_mut().find(|(known, _)| known == name) {
        Some((_, place)) => *place = value,
        None => places.push((name.to_owned(), value)),
    }
    Ok(Some(places))
}

fn places_of_input(arguments: &Arguments<'_>) -> Result<Option<Places>, EvalError> {
    match arguments.node(1) {
        Some(ExprNode::Object(members)) => {
            let place = |(name, node): &(String, ExprNode)| Ok((name.clone(), arguments.evaluate(node)?));
            return members.iter().map(place).collect::<Result<_, _>>().map(Some);
        }
        Some(ExprNode::Call(call)) if call.operator.name == "$setField" || call.operator.name == "$unsetField" => {
            arguments.budget().step(1)?;
            return places_after_setting(&arguments.of(call));
        }
        _ => {}
    }
    match arguments.value(1)? {
        Some(Bson::Document(document)) => {
            Ok(Some(document.into_iter().map(|(name, value)| (name, Some(value))).collect()))
        }
        input if is_nullish(input.as_ref()) => Ok(None),
        _ => failure(4_161_105, "$setField requires 'input' to evaluate to type Object"),
    }
}

fn bson_size(arguments: &Arguments<'_>) -> Outcome {
    match arguments.value(0)? {
        Some(Bson::Document(document)) => match RawDocumentBuf::try_from(&document) {
            Ok(encoded) => size(encoded.as_bytes().len()),
            Err(error) => failure(22, error.to_string()),
        },
        value if is_nullish(value.as_ref()) => null(),
        value => arguments.fail(31393, &format!("requires a document input, found: {}", type_name(value.as_ref()))),
    }
}

fn size(bytes: usize) -> Outcome {
    found(i32::try_from(bytes).unwrap_or(i32::MAX))
}

fn binary_size(arguments: &Arguments<'_>) -> Outcome {
    match arguments.value(0)? {
        // The old subtype repeats its length before its bytes, and MongoDB counts that.
        Some(Bson::Binary(binary)) if binary.subtype == BinarySubtype::BinaryOld => size(binary.bytes.len() + 4),
        Some(Bson::Binary(binary)) => size(binary.bytes.len()),
        Some(Bson::String(text)) => size(text.len()),
        value if is_nullish(value.as_ref()) => null(),
        value => {
            let found = type_name(value.as_ref());
            arguments.fail(51276, &format!("requires a string or BinData argument, found: {found}"))
        }
    }
}

fn timestamp_part(arguments: &Arguments<'_>) -> Outcome {
    let (seconds, code) = if arguments.name() == "$tsSecond" { (true, 5_687_301) } else { (false, 5_687_302) };
    match arguments.value(0)? {
        Some(Bson::Timestamp(time)) => found(i64::from(if seconds { time.time } else { time.increment })),
        value if is_nullish(value.as_ref()) => null(),
        value => {
            let found = type_name(value.as_ref());
            failure(code, format!("argument to {} must be a timestamp, but is {found}", arguments.name()))
        }
    }
}
