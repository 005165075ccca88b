//! `$convert` and its short forms `$toInt`, `$toString`, ...

use bson::oid::ObjectId;
use bson::{Bson, DateTime};

use super::core::call::{Arguments, Folding, Names, Operator, Shape};
use super::date;
use super::decimal::{Decimal, TextError};
use super::value::{Number, Outcome, failure, found, is_nullish, is_true, null, shortest, shown, type_name};
use crate::query::error::EvalError;
use crate::query::number::exact_i64;

/// MongoDB's number for a failed conversion: the only failure that `onError` replaces.
const FAILED: i32 = 241;

const CONVERT: Shape = Shape::Named(&Names {
    not_an_object: 9,
    unknown: 9,
    known: &[("input", Some(9)), ("to", Some(9)), ("onError", None), ("onNull", None)],
});

const ONE: Shape = Shape::One(50723);

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$convert", shape: CONVERT, folding: Folding::Whole, run: convert },
    Operator { name: "$toBool", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_bool) },
    Operator { name: "$toDate", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_date) },
    Operator { name: "$toDecimal", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_decimal) },
    Operator { name: "$toDouble", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_double) },
    Operator { name: "$toInt", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_int) },
    Operator { name: "$toLong", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_long) },
    Operator { name: "$toObjectId", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_object_id) },
    Operator { name: "$toString", shape: ONE, folding: Folding::Whole, run: |a| short(a, to_text) },
];

type Conversion = fn(&Bson) -> Result<Bson, EvalError>;

fn short(arguments: &Arguments<'_>, conversion: Conversion) -> Outcome {
    match arguments.value(0)? {
        Some(value) if !is_nullish(Some(&value)) => conversion(&value).map(Some),
        _ => null(),
    }
}

fn convert(arguments: &Arguments<'_>) -> Outcome {
    let to = arguments.value(1)?;
    let input = arguments.value(0)?;
    let conversion = if is_nullish(to.as_ref()) { None } else { Some(target(to.as_ref())?) };
    let Some(input) = input.filter(|value| !is_nullish(Some(value))) else {
        return if arguments.is_given(3) { arguments.value(3) } else { null() };
    };
    let Some(conversion) = conversion else { return null() };
    match conversion(&input) {
        Ok(value) => found(value),
        Err(error) if error.code == FAILED && arguments.is_given(2) => arguments.value(2),
        Err(error) => Err(error),
    }
}

/// The conversion to a type that is given by name or by number.
fn target(to: Option<&Bson>) -> Result<Conversion, EvalError> {
    if let Some(Bson::String(name)) = to {
        return by_name(name).map_or_else(|| failure(2, format!("unknown type name: {name}")), Ok);
    }
    let Some(number) = to.and_then(Number::of) else {
        return failure(9, format!("$convert's 'to' argument must be a string or number, but is {}", type_name(to)));
    };
    let Some(number) = number.to_exact_i32() else {
        return failure(9, "in $convert, numeric 'to' argument is not an integer");
    };
    Ok(match number {
        1 => to_double,
        2 => to_text,
        7 => to_object_id,
        8 => to_bool,
        9 => to_date,
        16 => to_int,
        18 => to_long,
        19 => to_decimal,
        -1 | 0 | 3..=6 | 10..=15 | 17 | 127 => unsupported,
        _ => {
            return failure(
                9,
                format!("in $convert, numeric value for 'to' does not correspond to a BSON type: {number}"),
            );
        }
    })
}

fn by_name(name: &str) -> Option<Conversion> {
    Some(match name {
        "double" => to_double,
        "string" => to_text,
        "objectId" => to_object_id,
        "bool" => to_bool,
        "date" => to_date,
        "int" => to_int,
        "long" => to_long,
        "decimal" => to_decimal,
        "missing"
        | "object"
        | "array"
        | "binData"
        | "undefined"
        | "null"
        | "regex"
        | "dbPointer"
        | "javascript"
        | "symbol"
        | "javascriptWithScope"
        | "timestamp"
        | "minKey"
        | "maxKey" => unsupported,
        _ => return None,
    })
}

fn unsupported(value: &Bson) -> Result<Bson, EvalError> {
    no_conversion(value, "a type that nothing is converted to")
}

fn no_conversion<T>(value: &Bson, to: &str) -> Result<T, EvalError> {
    failure(FAILED, format!("unsupported conversion from {} to {to}", type_name(Some(value))))
}

fn overflow<T>(value: &Bson) -> Result<T, EvalError> {
    failure(FAILED, format!("conversion would overflow target type: {}", shown(Some(value))))
}

fn no_number<T>(text: &str) -> Result<T, EvalError> {
    failure(FAILED, format!("failed to parse number '{text}'"))
}

/// Everything is true but false and zeros.
#[expect(clippy::unnecessary_wraps, reason = "one of the conversions")]
fn to_bool(value: &Bson) -> Result<Bson, EvalError> {
    Ok(Bson::Boolean(is_true(Some(value))))
}

fn to_int(value: &Bson) -> Result<Bson, EvalError> {
    match value {
        Bson::Double(number) if number.is_finite() && !(-2_147_483_648.0..=2_147_483_647.0).contains(number) => {
            overflow(value)
        }
        Bson::DateTime(_) => no_conversion(value, "int"),
        _ => match i32::try_from(integer(value, "int")?) {
            Ok(number) => Ok(Bson::Int32(number)),
            Err(_) => overflow(value),
        },
    }
}

fn to_long(value: &Bson) -> Result<Bson, EvalError> {
    match value {
        Bson::DateTime(date) => Ok(Bson::Int64(date.timestamp_millis())),
        _ => integer(value, "long").map(Bson::Int64),
    }
}

/// Numbers are cut to their whole part; texts must be whole numbers in decimal.
fn integer(value: &Bson, to: &str) -> Result<i64, EvalError> {
    let whole = match value {
        Bson::Boolean(truth) => return Ok(i64::from(*truth)),
        Bson::String(text) => return text.parse().or_else(|_| no_number(text)),
        Bson::Double(number) if number.is_nan() || number.is_infinite() => None,
        Bson::Double(number) => match exact_i64(number.trunc()) {
            None => return overflow(value),
            whole => whole,
        },
        Bson::Decimal128(number) => match Decimal::from_bson(*number) {
            number @ Decimal::Finite { .. } => match number.to_i64_truncated() {
                None => return overflow(value),
                whole => whole,
            },
            _ => None,
        },
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => return no_conversion(value, to),
    };
    whole.map_or_else(|| failure(FAILED, "attempt to convert NaN or infinity to integer type"), Ok)
}

fn to_double(value: &Bson) -> Result<Bson, EvalError> {
    Ok(Bson::Double(match value {
        Bson::Boolean(truth) => f64::from(u8::from(*truth)),
        Bson::DateTime(date) => Number::Long(date.timestamp_millis()).to_double(),
        Bson::String(text) => parse_double(text)?,
        Bson::Decimal128(decimal) => {
            let decimal = Decimal::from_bson(*decimal);
            let double = decimal.to_f64();
            let finite = matches!(decimal, Decimal::Finite { .. });
            // What is too small for a normal double counts as overflow as well.
            if finite && !decimal.is_zero() && !double.is_normal() {
                return overflow(value);
            }
            double
        }
        _ => match Number::of(value) {
            Some(number) => number.to_double(),
            None => return no_conversion(value, "double"),
        },
    }))
}

fn parse_double(text: &str) -> Result<f64, EvalError> {
    let Ok(number) = text.parse::<f64>() else { return no_number(text) };
    let names_infinity = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let out_of_range = (number.is_infinite() && !names_infinity) || (number == 0.0 && !is_zero);
    if out_of_range { no_number(text) } else { Ok(number) }
}

fn to_decimal(value: &Bson) -> Result<Bson, EvalError> {
    let decimal = match value {
        Bson::Boolean(truth) => Decimal::from_i64(i64::from(*truth)),
        Bson::DateTime(date) => Decimal::from_i64(date.timestamp_millis()),
        Bson::String(text) => match Decimal::parse(text) {
            Ok(decimal) => decimal,
            Err(TextError::Overflow | TextError::Underflow) => {
                return failure(FAILED, format!("failed to parse number '{text}': out of range"));
            }
            Err(TextError::Malformed) => return no_number(text),
        },
        _ => match Number::of(value) {
            Some(number) => number.to_decimal(),
            None => return no_conversion(value, "decimal"),
        },
    };
    Ok(Bson::from(Number::Decimal(decimal)))
}

fn to_date(value: &Bson) -> Result<Bson, EvalError> {
    let millis = match value {
        Bson::DateTime(date) => date.timestamp_millis(),
        Bson::String(text) => date::parse_text(text, None)?,
        Bson::ObjectId(id) => date::millis_of_id(id),
        Bson::Timestamp(time) => i64::from(time.time) * 1000,
        Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => integer(value, "date")?,
        _ => return no_conversion(value, "date"),
    };
    Ok(Bson::DateTime(DateTime::from_millis(millis)))
}

fn to_object_id(value: &Bson) -> Result<Bson, EvalError> {
    match value {
        Bson::ObjectId(id) => Ok(Bson::ObjectId(*id)),
        Bson::String(text) => match ObjectId::parse_str(text) {
            Ok(id) => Ok(Bson::ObjectId(id)),
            Err(_) => failure(FAILED, format!("failed to parse objectId '{text}'")),
        },
        _ => no_conversion(value, "objectId"),
    }
}

fn to_text(value: &Bson) -> Result<Bson, EvalError> {
    Ok(Bson::String(match value {
        Bson::String(text) => text.clone(),
        Bson::Boolean(truth) => truth.to_string(),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => number.to_string(),
        Bson::Double(number) => shortest(*number),
        Bson::Decimal128(number) => number.to_string(),
        Bson::ObjectId(id) => id.to_hex(),
        Bson::DateTime(date) => date::iso_text(date.timestamp_millis())?,
        _ => return no_conversion(value, "string"),
    }))
}
