//! Circular and hyperbolic functions, and angles in degrees.

use super::arithmetic::number;
use super::core::call::{Arguments, Folding, Operator, Shape};
use super::decimal::Decimal;
use super::value::{Number, Outcome, failure, found, general, is_nullish, null, through_doubles, type_name};

/// Which arguments a function has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Domain {
    All,
    Finite,
    /// From -1 to 1.
    Unit,
    /// From 1 upwards.
    FromOne,
}

const ONE: Shape = Shape::Exactly(1);
const F: Folding = Folding::Whole;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$sin", shape: ONE, folding: F, run: |a| apply(a, Domain::Finite, f64::sin) },
    Operator { name: "$cos", shape: ONE, folding: F, run: |a| apply(a, Domain::Finite, f64::cos) },
    Operator { name: "$tan", shape: ONE, folding: F, run: |a| apply(a, Domain::Finite, f64::tan) },
    Operator { name: "$asin", shape: ONE, folding: F, run: |a| apply(a, Domain::Unit, f64::asin) },
    Operator { name: "$acos", shape: ONE, folding: F, run: |a| apply(a, Domain::Unit, f64::acos) },
    Operator { name: "$atan", shape: ONE, folding: F, run: |a| apply(a, Domain::All, f64::atan) },
    Operator { name: "$atan2", shape: Shape::Exactly(2), folding: F, run: atan2 },
    Operator { name: "$sinh", shape: ONE, folding: F, run: |a| apply(a, Domain::All, f64::sinh) },
    Operator { name: "$cosh", shape: ONE, folding: F, run: |a| apply(a, Domain::All, f64::cosh) },
    Operator { name: "$tanh", shape: ONE, folding: F, run: |a| apply(a, Domain::All, f64::tanh) },
    Operator { name: "$asinh", shape: ONE, folding: F, run: |a| apply(a, Domain::All, asinh) },
    Operator { name: "$acosh", shape: ONE, folding: F, run: |a| apply(a, Domain::FromOne, acosh) },
    Operator { name: "$atanh", shape: ONE, folding: F, run: |a| apply(a, Domain::Unit, atanh) },
    Operator { name: "$degreesToRadians", shape: ONE, folding: F, run: |a| angle(a, true) },
    Operator { name: "$radiansToDegrees", shape: ONE, folding: F, run: |a| angle(a, false) },
];

impl Domain {
    fn contains(self, number: Number) -> bool {
        if number.is_nan() {
            return true;
        }
        match (self, number) {
            (Self::All, _) => true,
            (Self::Finite, Number::Decimal(number)) => !matches!(number, Decimal::Infinity { .. }),
            (Self::Finite, number) => number.to_double().is_finite(),
            (Self::Unit, Number::Decimal(number)) => {
                let one = Decimal::from_i64(1);
                !one.subtract(number.absolute()).is_negative()
            }
            (Self::Unit, number) => number.to_double().abs() <= 1.0,
            (Self::FromOne, Number::Decimal(number)) => !number.subtract(Decimal::from_i64(1)).is_negative(),
            (Self::FromOne, number) => number.to_double() >= 1.0,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::All => "[-inf,inf]",
            Self::Finite => "(-inf,inf)",
            Self::Unit => "[-1,1]",
            Self::FromOne => "[1,inf]",
        }
    }
}

fn apply(arguments: &Arguments<'_>, domain: Domain, function: fn(f64) -> f64) -> Outcome {
    let Some(number) = number(arguments)? else { return null() };
    if !domain.contains(number) {
        let (name, shown) = (arguments.name(), general(number.to_double()));
        return failure(50989, format!("cannot apply {name} to {shown}, value must be in {}", domain.description()));
    }
    found(through_doubles([number], |[x]| function(x)))
}

/// `f64::asinh` of the standard library is less exact than the C library's.
fn asinh(x: f64) -> f64 {
    let magnitude = x.abs();
    let result = if magnitude > 268_435_456.0 {
        magnitude.ln() + std::f64::consts::LN_2
    } else if magnitude > 2.0 {
        (2.0 * magnitude + 1.0 / ((x * x + 1.0).sqrt() + magnitude)).ln()
    } else if magnitude < 3.7e-9 {
        magnitude
    } else {
        let square = x * x;
        (magnitude + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(x)
}

fn acosh(x: f64) -> f64 {
    if x > 268_435_456.0 {
        x.ln() + std::f64::consts::LN_2
    } else if x > 2.0 {
        (2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())).ln()
    } else {
        let beyond = x - 1.0;
        (beyond + (2.0 * beyond + beyond * beyond).sqrt()).ln_1p()
    }
}

fn atanh(x: f64) -> f64 {
    let magnitude = x.abs();
    let result = if magnitude < 0.5 {
        let twice = magnitude + magnitude;
        0.5 * (twice + twice * magnitude / (1.0 - magnitude)).ln_1p()
    } else {
        0.5 * ((magnitude + magnitude) / (1.0 - magnitude)).ln_1p()
    };
    result.copysign(x)
}

fn atan2(arguments: &Arguments<'_>) -> Outcome {
    let mut numbers = [Number::Int(0); 2];
    for ((index, code), slot) in [(0, 51044), (1, 51045)].into_iter().zip(&mut numbers) {
        let value = arguments.value(index)?;
        if is_nullish(value.as_ref()) {
            return null();
        }
        match value.as_ref().and_then(Number::of) {
            Some(number) => *slot = number,
            None => {
                return failure(code, format!("$atan2 only supports numeric types, not {}", type_name(value.as_ref())));
            }
        }
    }
    found(through_doubles(numbers, |[y, x]| y.atan2(x)))
}

const fn positive(coefficient: u128, exponent: i32) -> Decimal {
    Decimal::Finite { negative: false, coefficient, exponent }
}

fn angle(arguments: &Arguments<'_>, to_radians: bool) -> Outcome {
    const HALF_TURN: f64 = std::f64::consts::PI;
    const DEGREE: Decimal = positive(1_745_329_251_994_329_576_923_690_768_488_613, -35);
    const RADIAN: Decimal = positive(5_729_577_951_308_232_087_679_815_481_410_517, -32);
    match number(arguments)? {
        None => null(),
        Some(Number::Decimal(number)) => {
            found(Number::Decimal(number.multiply(if to_radians { DEGREE } else { RADIAN })))
        }
        Some(number) if to_radians => found(number.to_double() * (HALF_TURN / 180.0)),
        Some(number) => found(number.to_double() * (180.0 / HALF_TURN)),
    }
}
