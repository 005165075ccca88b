//! Accumulators as expressions: `$sum`, `$avg`, `$min`, `$max` and the standard deviations of some values.

use bson::Bson;

use super::core::call::{Arguments, Folding, Operator, Shape};
use super::decimal::Decimal;
use super::value::{Number, Outcome, Value, found, int_or_long, is_nullish, null};
use crate::query::compare::compare_bson;
use crate::query::error::EvalError;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$sum", shape: Shape::Any, folding: Folding::Commutative, run: sum },
    Operator { name: "$avg", shape: Shape::Any, folding: Folding::Whole, run: avg },
    Operator { name: "$min", shape: Shape::Any, folding: Folding::Commutative, run: |a| extreme(a, false) },
    Operator { name: "$max", shape: Shape::Any, folding: Folding::Commutative, run: |a| extreme(a, true) },
    Operator { name: "$stdDevPop", shape: Shape::Any, folding: Folding::Whole, run: |a| deviation(a, 0) },
    Operator { name: "$stdDevSamp", shape: Shape::Any, folding: Folding::Whole, run: |a| deviation(a, 1) },
];

/// What is accumulated: the operands, or the elements of a single operand that is an array.
fn inputs(arguments: &Arguments<'_>) -> Result<Vec<Value>, EvalError> {
    let mut values = arguments.each().collect::<Result<Vec<_>, _>>()?;
    if let [Some(Bson::Array(elements))] = &mut values[..] {
        return Ok(std::mem::take(elements).into_iter().map(Some).collect());
    }
    Ok(values)
}

/// A sum of doubles with its rounding error (compensated summation). The error goes into the next addition, and is
/// ignored after the last one. Decimals and dates use both.
#[derive(Debug, Clone, Copy, Default)]
struct DoubleDouble {
    sum: f64,
    rest: f64,
    /// The plain sum, which is correct for infinities and NaN.
    plain: f64,
}

impl DoubleDouble {
    fn add(&mut self, value: f64) {
        self.plain += value;
        // This shorter form of the error is exact only if the value is not smaller than the rest. MongoDB does the
        // same.
        let (value, lost) = quick_two_sum(value, self.rest);
        (self.sum, self.rest) = two_sum(self.sum, value);
        self.rest += lost;
    }

    fn add_long(&mut self, value: i64) {
        // Both halves are doubles without loss.
        let low = value % (1 << 32);
        self.add(Number::Long(low).to_double());
        self.add(Number::Long(value - low).to_double());
    }

    fn total(self) -> f64 {
        if self.sum.is_nan() { self.plain } else { self.sum }
    }

    fn to_decimal(self) -> Decimal {
        if self.total().is_finite() {
            Decimal::from(self.sum).add(Decimal::from(self.rest))
        } else {
            Decimal::from(self.plain)
        }
    }
}

fn quick_two_sum(left: f64, right: f64) -> (f64, f64) {
    let sum = left + right;
    (sum, right - (sum - left))
}

fn two_sum(left: f64, right: f64) -> (f64, f64) {
    let sum = left + right;
    let part = sum - left;
    (sum, (left - (sum - part)) + (right - part))
}

/// A sum of numbers of all types.
#[derive(Debug, Clone, Copy)]
pub(in crate::query) struct Total {
    integers: i128,
    doubles: DoubleDouble,
    decimals: Decimal,
    /// 0 int, 1 long, 2 double, 3 decimal: the widest type so far.
    width: u8,
}

impl Default for Total {
    fn default() -> Self {
        Self { integers: 0, doubles: DoubleDouble::default(), decimals: Decimal::ZERO, width: 0 }
    }
}

impl Total {
    /// Takes one more number in.
    pub(super) fn add(&mut self, number: Number) {
        let width = match number {
            Number::Int(value) => {
                self.integers += i128::from(value);
                self.doubles.add(f64::from(value));
                0
            }
            Number::Long(value) => {
                self.integers += i128::from(value);
                self.doubles.add_long(value);
                1
            }
            Number::Double(value) => {
                self.doubles.add(value);
                2
            }
            Number::Decimal(value) => {
                self.decimals = self.decimals.add(value);
                3
            }
        };
        self.width = self.width.max(width);
    }

    /// The sum in the widest type; longs that overflow give a double.
    pub(super) fn sum(&self) -> Number {
        match self.width {
            3 => Number::Decimal(self.decimals.add(self.doubles.to_decimal())),
            2 => Number::Double(self.doubles.total()),
            width => match i64::try_from(self.integers) {
                Err(_) => Number::Double(self.doubles.total()),
                Ok(total) if width == 0 => Number::of(&int_or_long(total)).unwrap_or(Number::Long(total)),
                Ok(total) => Number::Long(total),
            },
        }
    }

    /// Takes a value in, if it is a number; whether it is one.
    pub(in crate::query) fn add_value(&mut self, value: &Bson) -> bool {
        let number = Number::of(value);
        if let Some(number) = number {
            self.add(number);
        }
        number.is_some()
    }

    /// See [`Total::sum`].
    pub(in crate::query) fn sum_value(&self) -> Bson {
        self.sum().into()
    }

    /// The mean of `count` numbers; null without one.
    pub(in crate::query) fn average_value(&self, count: i64) -> Bson {
        if count > 0 { self.average(count).into() } else { Bson::Null }
    }

    fn average(&self, count: i64) -> Number {
        match self.width {
            3 => {
                let sum = self.decimals.add(self.doubles.to_decimal());
                Number::Decimal(sum.divide(Decimal::from_i64(count)))
            }
            _ => Number::Double(self.doubles.total() / Number::Long(count).to_double()),
        }
    }
}

fn numbers(arguments: &Arguments<'_>) -> Result<Vec<Number>, EvalError> {
    Ok(inputs(arguments)?.iter().filter_map(|value| value.as_ref().and_then(Number::of)).collect())
}

fn total(numbers: &[Number]) -> Total {
    let mut total = Total::default();
    for number in numbers {
        total.add(*number);
    }
    total
}

fn sum(arguments: &Arguments<'_>) -> Outcome {
    found(total(&numbers(arguments)?).sum())
}

fn avg(arguments: &Arguments<'_>) -> Outcome {
    let numbers = numbers(arguments)?;
    match i64::try_from(numbers.len()) {
        Ok(count) if count > 0 => found(total(&numbers).average(count)),
        _ => null(),
    }
}

/// Of equal values the first.
fn extreme(arguments: &Arguments<'_>, largest: bool) -> Outcome {
    let values = inputs(arguments)?.into_iter().flatten().filter(|value| !is_nullish(Some(value)));
    let best = values.reduce(|best, value| {
        let order = compare_bson(&value, &best);
        if if largest { order.is_gt() } else { order.is_lt() } { value } else { best }
    });
    found(best.unwrap_or(Bson::Null))
}

fn deviation(arguments: &Arguments<'_>, lost: u8) -> Outcome {
    let mut deviation = Deviation::new(lost);
    numbers(arguments)?.into_iter().for_each(|number| deviation.add(number));
    found(deviation.value())
}

/// A standard deviation by Welford's method, which sees each value once.
#[derive(Debug, Clone, Copy)]
pub(in crate::query) struct Deviation {
    count: f64,
    mean: f64,
    squares: f64,
    /// Lost degrees of freedom.
    lost: u8,
}

impl Deviation {
    /// Without a value yet.
    pub(in crate::query) fn new(lost: u8) -> Self {
        Self { count: 0.0, mean: 0.0, squares: 0.0, lost }
    }

    fn add(&mut self, number: Number) {
        let value = number.to_double();
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    /// Takes a value in, if it is a number.
    pub(in crate::query) fn add_value(&mut self, value: &Bson) {
        if let Some(number) = Number::of(value) {
            self.add(number);
        }
    }

    /// Null if there are too few values.
    pub(in crate::query) fn value(&self) -> Bson {
        let freedom = self.count - f64::from(self.lost);
        if freedom > 0.0 { Bson::Double((self.squares / freedom).sqrt()) } else { Bson::Null }
    }
}
