//! Conversions of values for operators: type name, boolean, number, string.

use bson::Bson;

use super::decimal::Decimal;
use crate::query::error::EvalError;
use crate::query::number::{TWO_63, exact_i64};

/// The value of an expression; `None` is a missing field.
pub(super) type Value = Option<Bson>;

/// What running an expression gives.
pub(super) type Outcome = Result<Value, EvalError>;

/// A failure with MongoDB's number.
pub(super) fn failure<T>(code: i32, message: impl Into<String>) -> Result<T, EvalError> {
    Err(EvalError::new(code, message))
}

/// The common end of operators whose operand may be absent.
#[expect(clippy::unnecessary_wraps, reason = "the return type of every operator")]
pub(super) fn null() -> Outcome {
    Ok(Some(Bson::Null))
}

/// A value as an operator's result.
#[expect(clippy::unnecessary_wraps, reason = "the return type of every operator")]
pub(super) fn found(value: impl Into<Bson>) -> Outcome {
    Ok(Some(value.into()))
}

/// Missing, null and undefined, for which most operators give null.
pub(super) fn is_nullish(value: Option<&Bson>) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

/// The value as a boolean: zeros, false and the absent are false, everything else is true.
pub(super) fn is_true(value: Option<&Bson>) -> bool {
    match value {
        None | Some(Bson::Null | Bson::Undefined) => false,
        Some(Bson::Boolean(truth)) => *truth,
        Some(Bson::Int32(number)) => *number != 0,
        Some(Bson::Int64(number)) => *number != 0,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(Bson::Decimal128(number)) => !Decimal::from_bson(*number).is_zero(),
        Some(_) => true,
    }
}

/// The name that `$type` gives and that messages use.
pub(super) fn type_name(value: Option<&Bson>) -> &'static str {
    value.map_or("missing", |value| match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Boolean(_) => "bool",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::DateTime(_) => "date",
        Bson::Symbol(_) => "symbol",
        Bson::Decimal128(_) => "decimal",
        Bson::Undefined => "undefined",
        Bson::MaxKey => "maxKey",
        Bson::MinKey => "minKey",
        Bson::DbPointer(_) => "dbPointer",
    })
}

/// The value as it is shown in messages.
pub(super) fn shown(value: Option<&Bson>) -> String {
    match value {
        None => "MISSING".to_owned(),
        Some(Bson::String(text)) => format!("\"{text}\""),
        Some(Bson::Null) => "null".to_owned(),
        Some(Bson::Double(number)) => general(*number),
        Some(other) => other.to_string(),
    }
}

/// A number of one of the four types.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// 32 bits.
    Int(i32),
    /// 64 bits.
    Long(i64),
    /// Binary floating point.
    Double(f64),
    /// Decimal floating point.
    Decimal(Decimal),
}

impl Number {
    /// The value as a number, if it is one; nothing is converted.
    pub(super) fn of(value: &Bson) -> Option<Self> {
        Some(match value {
            Bson::Int32(number) => Self::Int(*number),
            Bson::Int64(number) => Self::Long(*number),
            Bson::Double(number) => Self::Double(*number),
            Bson::Decimal128(number) => Self::Decimal(Decimal::from_bson(*number)),
            _ => return None,
        })
    }

    /// The nearest double.
    #[expect(clippy::cast_precision_loss, reason = "the nearest double is what is asked for")]
    pub(super) fn to_double(self) -> f64 {
        match self {
            Self::Int(number) => f64::from(number),
            Self::Long(number) => number as f64,
            Self::Double(number) => number,
            Self::Decimal(number) => number.to_f64(),
        }
    }

    /// As a decimal; doubles give 15 digits, which is how MongoDB converts them in arithmetic.
    pub(super) fn to_decimal(self) -> Decimal {
        match self {
            Self::Int(number) => Decimal::from_i64(i64::from(number)),
            Self::Long(number) => Decimal::from_i64(number),
            Self::Double(number) => Decimal::from_f64_with_15_digits(number),
            Self::Decimal(number) => number,
        }
    }

    /// The whole number it is, when it fits 64 bits.
    pub(super) fn to_exact_i64(self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(i64::from(number)),
            Self::Long(number) => Some(number),
            Self::Double(number) => exact_i64(number),
            Self::Decimal(number) => number.to_exact_i64(),
        }
    }

    /// The whole number it is, when it fits 32 bits.
    pub(super) fn to_exact_i32(self) -> Option<i32> {
        self.to_exact_i64().and_then(|number| i32::try_from(number).ok())
    }

    /// Truncated to a whole number. Beyond 64 bits doubles give the end of the range (NaN gives 0), and decimals the
    /// smallest number whatever their sign. That is how the machine's and the library's conversions behave.
    #[expect(clippy::cast_possible_truncation, reason = "casts of doubles saturate, which is the rule")]
    pub(super) fn to_i64_saturating(self) -> i64 {
        match self {
            Self::Int(number) => i64::from(number),
            Self::Long(number) => number,
            Self::Double(number) => number as i64,
            Self::Decimal(number) => number.to_i64_truncated().unwrap_or(i64::MIN),
        }
    }

    /// Whether it is a double beyond the integers of 64 bits.
    pub(super) fn is_wide_double(self) -> bool {
        matches!(self, Self::Double(number) if !(-TWO_63..TWO_63).contains(&number))
    }

    /// Whether it is no number at all.
    pub(super) fn is_nan(self) -> bool {
        match self {
            Self::Double(number) => number.is_nan(),
            Self::Decimal(number) => number == Decimal::NaN,
            _ => false,
        }
    }
}

/// A function of doubles. With a decimal among the numbers its value is a decimal: of 15 digits, like a double that is
/// computed with a decimal.
pub(super) fn through_doubles<const N: usize>(numbers: [Number; N], function: impl FnOnce([f64; N]) -> f64) -> Number {
    let value = function(numbers.map(Number::to_double));
    if numbers.iter().any(|number| matches!(number, Number::Decimal(_))) {
        Number::Decimal(Decimal::from_f64_with_15_digits(value).with_fewest_places())
    } else {
        Number::Double(value)
    }
}

impl From<Number> for Bson {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(number) => Self::Int32(number),
            Number::Long(number) => Self::Int64(number),
            Number::Double(number) => Self::Double(number),
            Number::Decimal(number) => Self::Decimal128(number.to_bson()),
        }
    }
}

/// A 32-bit integer where the number fits one, as MongoDB's arithmetic on integers gives.
pub(super) fn int_or_long(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

/// The whole number that a value is, when it is one and fits 32 bits.
pub(super) fn exact_i32(value: &Bson) -> Option<i32> {
    Number::of(value).and_then(Number::to_exact_i32)
}

/// The text of a string. A symbol is not a string here; only conversions to text accept it.
pub(super) fn text(value: Option<&Bson>) -> Option<&str> {
    match value {
        Some(Bson::String(text)) => Some(text),
        _ => None,
    }
}

/// A double in the fewest digits that lead back to it: the text that `$toString` makes since MongoDB 6.0.12.
pub(super) fn shortest(number: f64) -> String {
    if !number.is_finite() {
        return general(number);
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) { number.to_string() } else { with_exponent(mantissa, exponent) }
}

/// A double with six significant digits, as C's `%g` writes it: in messages, and where texts are made without `$toString`.
pub(super) fn general(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let places = usize::try_from(5 - exponent).unwrap_or(0);
        return without_trailing_zeros(&format!("{number:.places$}")).to_owned();
    }
    with_exponent(without_trailing_zeros(mantissa), exponent)
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}
