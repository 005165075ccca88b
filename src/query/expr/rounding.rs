//! `$ceil`, `$floor`, `$round`, `$trunc`.
//!
//! Rounding a double to decimal places works on the exact value of the double: 2.675 is a little less.

use bson::Bson;

use super::arithmetic::number;
use super::core::call::{Arguments, Folding, Operator, Shape};
use super::decimal::{Decimal, Rounding};
use super::value::{Number, Outcome, failure, found, int_or_long, is_nullish, null, type_name};
use crate::query::error::EvalError;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$ceil", shape: Shape::Exactly(1), folding: Folding::Whole, run: ceil },
    Operator { name: "$floor", shape: Shape::Exactly(1), folding: Folding::Whole, run: floor },
    Operator { name: "$round", shape: Shape::Between(1, 2), folding: Folding::Whole, run: round },
    Operator { name: "$trunc", shape: Shape::Between(1, 2), folding: Folding::Whole, run: trunc },
];

fn ceil(arguments: &Arguments<'_>) -> Outcome {
    whole(arguments, f64::ceil, Rounding::Ceiling)
}

fn floor(arguments: &Arguments<'_>) -> Outcome {
    whole(arguments, f64::floor, Rounding::Floor)
}

fn whole(arguments: &Arguments<'_>, double: fn(f64) -> f64, rounding: Rounding) -> Outcome {
    found(match number(arguments)? {
        None => return null(),
        Some(Number::Double(number)) => Number::Double(double(number)),
        // A decimal that has no exponent 0 within 34 digits, infinity too, is no number afterwards.
        Some(Number::Decimal(number)) => Number::Decimal(match number.quantized(0, rounding) {
            whole @ Decimal::Finite { exponent: 0, .. } => whole,
            _ => Decimal::NaN,
        }),
        Some(integer) => integer,
    })
}

fn round(arguments: &Arguments<'_>) -> Outcome {
    to_places(arguments, f64::round_ties_even, Rounding::HalfEven)
}

fn trunc(arguments: &Arguments<'_>) -> Outcome {
    to_places(arguments, f64::trunc, Rounding::Truncate)
}

fn to_places(arguments: &Arguments<'_>, double: fn(f64) -> f64, rounding: Rounding) -> Outcome {
    let value = arguments.value(0)?;
    if is_nullish(value.as_ref()) {
        return null();
    }
    let Some(number) = value.as_ref().and_then(Number::of) else {
        return arguments.wrong_type(51081, "only supports numeric types", value.as_ref());
    };
    let places = if arguments.is_given(1) {
        let places = arguments.value(1)?;
        if is_nullish(places.as_ref()) {
            return null();
        }
        precision(arguments, places.as_ref())?
    } else {
        0
    };
    let exponent = -places;
    found(match number {
        Number::Int(_) | Number::Long(_) if places >= 0 => Bson::from(number),
        Number::Int(_) | Number::Long(_) => {
            let Some(rounded) = number.to_decimal().quantized(exponent, rounding).to_i64_truncated() else {
                return failure(51080, format!("the result of {} does not fit its type", arguments.name()));
            };
            match i32::try_from(rounded) {
                _ if matches!(number, Number::Long(_)) => Bson::Int64(rounded),
                // Below the range the upper bits are lost in MongoDB 6.0; above it the result is a long.
                Err(_) if rounded < 0 => Bson::Int32(low_bits(rounded)),
                _ => int_or_long(rounded),
            }
        }
        Number::Double(number) if !number.is_finite() => Bson::Double(number),
        Number::Double(number) if places == 0 => Bson::Double(double(number)),
        Number::Double(number) => {
            Bson::Double(Decimal::from_f64_exactly(number).quantized(exponent, rounding).to_f64())
        }
        Number::Decimal(number) => Bson::from(Number::Decimal(number.quantized(exponent, rounding))),
    })
}

/// The lower 32 bits as a number with sign.
fn low_bits(number: i64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn precision(arguments: &Arguments<'_>, value: Option<&Bson>) -> Result<i32, EvalError> {
    let Some(number) = value.and_then(Number::of) else {
        return failure(16004, format!("can't convert from BSON type {} to long", type_name(value)));
    };
    if number.is_wide_double() {
        return failure(31109, "can't coerce out of range value to long");
    }
    match number.to_exact_i32() {
        None => failure(51082, format!("precision argument to {} must be an integral value", arguments.name())),
        Some(places) if (-20..=100).contains(&places) => Ok(places),
        Some(places) => {
            let name = arguments.name();
            failure(51083, format!("cannot apply {name} with precision value {places}, it must be in [-20, 100]"))
        }
    }
}
