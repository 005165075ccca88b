//! Arithmetic on the four types of numbers, and on dates where MongoDB adds to them.
//!
//! The wider type wins: int, long, double, decimal. Integers that overflow become longs, longs become doubles.

use bson::{Bson, DateTime};

use super::core::call::{Arguments, Folding, Operator, Shape};
use super::core::evaluate::ExprNode;
use super::core::parse::{ExprParser, call};
use super::decimal::{Decimal, Rounding};
use super::value::{
    Number, Outcome, Value, failure, found, general, int_or_long, is_nullish, null, through_doubles, type_name,
};
use crate::query::error::{EvalError, QueryError};
use crate::query::number::exact_i64;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "$add", shape: Shape::Any, folding: Folding::Commutative, run: add },
    Operator { name: "$subtract", shape: Shape::Exactly(2), folding: Folding::Whole, run: subtract },
    Operator { name: "$multiply", shape: Shape::Any, folding: Folding::Commutative, run: multiply },
    Operator { name: "$divide", shape: Shape::Exactly(2), folding: Folding::Whole, run: divide },
    Operator { name: "$mod", shape: Shape::Exactly(2), folding: Folding::Whole, run: modulo },
    Operator { name: "$abs", shape: Shape::Exactly(1), folding: Folding::Whole, run: abs },
    Operator { name: "$exp", shape: Shape::Exactly(1), folding: Folding::Whole, run: exp },
    Operator { name: "$ln", shape: Shape::Exactly(1), folding: Folding::Whole, run: ln },
    Operator { name: "$log", shape: Shape::Exactly(2), folding: Folding::Whole, run: log },
    Operator { name: "$log10", shape: Shape::Exactly(1), folding: Folding::Whole, run: log10 },
    Operator { name: "$pow", shape: Shape::Exactly(2), folding: Folding::Whole, run: pow },
    Operator { name: "$sqrt", shape: Shape::Exactly(1), folding: Folding::Whole, run: sqrt },
];

/// `{$rand: {}}`
pub(super) fn parse_rand(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    match operand {
        Bson::Document(document) if !document.is_empty() => {
            parser.refuse(3_040_501, "$rand does not currently accept arguments")
        }
        Bson::Array(elements) if !elements.is_empty() => {
            parser.refuse(3_040_501, "$rand does not currently accept arguments")
        }
        Bson::Document(_) | Bson::Array(_) => Ok(call(operator, Vec::new())),
        _ => parser.refuse(10065, "invalid parameter: expected an object ($rand)"),
    }
}

/// A double from 0 up to, but not including, 1.
pub(super) fn rand() -> Outcome {
    found(rand::random::<f64>())
}

/// The single operand as a number; nothing when it is absent.
pub(super) fn number(arguments: &Arguments<'_>) -> Result<Option<Number>, EvalError> {
    let value = arguments.value(0)?;
    if is_nullish(value.as_ref()) {
        return Ok(None);
    }
    match value.as_ref().and_then(Number::of) {
        Some(number) => Ok(Some(number)),
        None => arguments.wrong_type(28765, "only supports numeric types", value.as_ref()),
    }
}

fn add(arguments: &Arguments<'_>) -> Outcome {
    let mut sum = Sum::default();
    let mut date: Option<i64> = None;
    for value in arguments.each() {
        match value? {
            Some(Bson::DateTime(_)) if date.is_some() => {
                return failure(16612, "only one date allowed in an $add expression");
            }
            Some(Bson::DateTime(value)) => date = Some(later(value.timestamp_millis(), sum.number())?),
            value if is_nullish(value.as_ref()) => return null(),
            value => match (value.as_ref().and_then(Number::of), date) {
                (Some(number), Some(millis)) => date = Some(later(millis, number)?),
                (Some(number), None) => sum.add(number),
                (None, _) => return arguments.wrong_type(14, "only supports numeric or date types", value.as_ref()),
            },
        }
    }
    date.map_or_else(|| found(sum.number()), |millis| found(DateTime::from_millis(millis)))
}

/// A sum as `$add` of MongoDB keeps it: from the first double or decimal on each step is rounded to that type.
struct Sum {
    total: Number,
    /// No number was larger than 32 bits.
    is_int: bool,
}

impl Default for Sum {
    fn default() -> Self {
        Self { total: Number::Long(0), is_int: true }
    }
}

impl Sum {
    fn add(&mut self, number: Number) {
        self.is_int &= matches!(number, Number::Int(_));
        self.total = match (self.total, number) {
            (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
                Number::Decimal(self.total.to_decimal().add(number.to_decimal()))
            }
            (total, number) => {
                let whole = whole(total).zip(whole(number)).and_then(|(total, number)| total.checked_add(number));
                whole.map_or_else(|| Number::Double(total.to_double() + number.to_double()), Number::Long)
            }
        };
    }

    fn number(&self) -> Number {
        match self.total {
            Number::Long(total) if self.is_int => i32::try_from(total).map_or(Number::Long(total), Number::Int),
            total => total,
        }
    }
}

/// The value of an integer.
fn whole(number: Number) -> Option<i64> {
    match number {
        Number::Int(number) => Some(i64::from(number)),
        Number::Long(number) => Some(number),
        Number::Double(_) | Number::Decimal(_) => None,
    }
}

/// A date in milliseconds and a number of them.
fn later(date: i64, number: Number) -> Result<i64, EvalError> {
    to_millis(number).and_then(|millis| date.checked_add(millis)).map_or_else(overflow, Ok)
}

fn overflow<T>() -> Result<T, EvalError> {
    failure(15, "date overflow")
}

fn subtract(arguments: &Arguments<'_>) -> Outcome {
    let [left, right] = from_the_right(arguments)?;
    if is_nullish(left.as_ref()) || is_nullish(right.as_ref()) {
        return null();
    }
    let (left_number, right_number) = (left.as_ref().and_then(Number::of), right.as_ref().and_then(Number::of));
    match (&left, &right) {
        (Some(Bson::DateTime(left)), Some(Bson::DateTime(right))) => {
            // Beyond 64 bits MongoDB wraps around.
            found(left.timestamp_millis().wrapping_sub(right.timestamp_millis()))
        }
        (Some(Bson::DateTime(date)), Some(_)) if right_number.is_some() => {
            let amount = right_number.and_then(to_millis);
            let millis = amount.and_then(|amount| date.timestamp_millis().checked_sub(amount));
            millis.map_or_else(overflow, |millis| found(DateTime::from_millis(millis)))
        }
        _ => {
            if let (Some(left), Some(right)) = (left_number, right_number) {
                return found(difference(left, right));
            }
            let (left, right) = (type_name(left.as_ref()), type_name(right.as_ref()));
            failure(14, format!("can't $subtract {right} from {left}"))
        }
    }
}

/// A whole number of milliseconds: half of one is rounded away from zero in doubles, to the even neighbour in decimals.
fn to_millis(number: Number) -> Option<i64> {
    match number {
        Number::Double(value) => exact_i64(value.round()),
        Number::Decimal(value) => value.quantized(0, Rounding::HalfEven).to_i64_truncated(),
        whole => whole.to_exact_i64(),
    }
}

/// Integers that fit are computed as integers, everything else in the widest type.
fn combine(
    left: Number,
    right: Number,
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
    decimals: fn(Decimal, Decimal) -> Decimal,
) -> Bson {
    match (left, right) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Bson::from(Number::Decimal(decimals(left.to_decimal(), right.to_decimal())))
        }
        (Number::Int(left), Number::Int(right)) => {
            let (left, right) = (i64::from(left), i64::from(right));
            // 32-bit operands cannot overflow 64 bits.
            integers(left, right).map_or(Bson::Null, int_or_long)
        }
        (Number::Int(_) | Number::Long(_), Number::Int(_) | Number::Long(_)) => {
            let exact = left.to_exact_i64().zip(right.to_exact_i64()).and_then(|(left, right)| integers(left, right));
            exact.map_or_else(|| Bson::Double(doubles(left.to_double(), right.to_double())), Bson::Int64)
        }
        _ => Bson::Double(doubles(left.to_double(), right.to_double())),
    }
}

fn difference(left: Number, right: Number) -> Bson {
    combine(left, right, i64::checked_sub, |left, right| left - right, Decimal::subtract)
}

fn multiply(arguments: &Arguments<'_>) -> Outcome {
    let mut product = Product::default();
    for value in arguments.each() {
        let value = value?;
        if is_nullish(value.as_ref()) {
            return null();
        }
        let Some(factor) = value.as_ref().and_then(Number::of) else {
            return arguments.wrong_type(14, "only supports numeric types", value.as_ref());
        };
        product.times(factor);
    }
    found(product.value())
}

/// A product as MongoDB keeps it: a double from the first factor on, and an integer as long as possible. So the double
/// is rounded with each factor, and a zero has the signs of all.
struct Product {
    double: f64,
    whole: Option<i64>,
    decimal: Option<Decimal>,
    /// No factor was larger than 32 bits.
    is_int: bool,
}

impl Default for Product {
    fn default() -> Self {
        Self { double: 1.0, whole: Some(1), decimal: None, is_int: true }
    }
}

impl Product {
    fn times(&mut self, factor: Number) {
        if self.decimal.is_some() || matches!(factor, Number::Decimal(_)) {
            let so_far = self.whole.map_or(Number::Double(self.double), Number::Long).to_decimal();
            self.decimal = Some(self.decimal.unwrap_or(so_far).multiply(factor.to_decimal()));
            return;
        }
        self.double *= factor.to_double();
        self.is_int &= matches!(factor, Number::Int(_));
        self.whole = self.whole.zip(whole(factor)).and_then(|(product, factor)| product.checked_mul(factor));
    }

    fn value(&self) -> Bson {
        match (self.decimal, self.whole) {
            (Some(decimal), _) => Bson::from(Number::Decimal(decimal)),
            (None, Some(whole)) if self.is_int => int_or_long(whole),
            (None, Some(whole)) => Bson::Int64(whole),
            (None, None) => Bson::Double(self.double),
        }
    }
}

/// Two values, the right one computed first: which failure is seen depends on it.
fn from_the_right(arguments: &Arguments<'_>) -> Result<[Value; 2], EvalError> {
    let right = arguments.value(1)?;
    Ok([arguments.value(0)?, right])
}

/// Two numbers; nothing when one of the operands is absent.
fn two_numbers(
    arguments: &Arguments<'_>,
    values: [Value; 2],
    code: i32,
) -> Result<Option<(Number, Number)>, EvalError> {
    let [left, right] = values;
    if is_nullish(left.as_ref()) || is_nullish(right.as_ref()) {
        return Ok(None);
    }
    let numbers = left.as_ref().and_then(Number::of).zip(right.as_ref().and_then(Number::of));
    if numbers.is_some() {
        return Ok(numbers);
    }
    let (left, right) = (type_name(left.as_ref()), type_name(right.as_ref()));
    arguments.fail(code, &format!("only supports numeric types, not {left} and {right}"))
}

fn is_zero(number: Number) -> bool {
    match number {
        Number::Int(number) => number == 0,
        Number::Long(number) => number == 0,
        Number::Double(number) => number == 0.0,
        Number::Decimal(number) => number.is_zero(),
    }
}

fn divide(arguments: &Arguments<'_>) -> Outcome {
    let Some((left, right)) = two_numbers(arguments, from_the_right(arguments)?, 14)? else { return null() };
    if is_zero(right) {
        return failure(2, "can't $divide by zero");
    }
    found(match (left, right) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Bson::from(Number::Decimal(left.to_decimal().divide(right.to_decimal())))
        }
        _ => Bson::Double(left.to_double() / right.to_double()),
    })
}

/// The remainder has the sign of the dividend. A double without fraction as divisor of an integer counts as one.
fn modulo(arguments: &Arguments<'_>) -> Outcome {
    let Some((left, right)) = two_numbers(arguments, arguments.values()?, 16611)? else { return null() };
    if matches!(left, Number::Decimal(_)) || matches!(right, Number::Decimal(_)) {
        if is_zero(right) {
            return failure(5_733_415, "can't $mod by zero");
        }
        return found(Number::Decimal(left.to_decimal().remainder(right.to_decimal())));
    }
    if is_zero(right) {
        return failure(16610, "can't $mod by zero");
    }
    // A double counts as an integer only when it fits 32 bits.
    let divisor = match right {
        Number::Double(_) => right.to_exact_i32().map(i64::from),
        whole => whole.to_exact_i64(),
    };
    found(match (left, right, divisor) {
        (Number::Int(left), Number::Int(_) | Number::Double(_), Some(divisor)) => {
            int_or_long(i64::from(left).wrapping_rem(divisor))
        }
        (Number::Int(_) | Number::Long(_), _, Some(divisor)) => {
            Bson::Int64(left.to_exact_i64().unwrap_or(0).wrapping_rem(divisor))
        }
        _ => Bson::Double(left.to_double() % right.to_double()),
    })
}

fn abs(arguments: &Arguments<'_>) -> Outcome {
    match number(arguments)? {
        None => null(),
        Some(Number::Int(number)) => found(int_or_long(i64::from(number).abs())),
        Some(Number::Long(number)) => match number.checked_abs() {
            Some(number) => found(number),
            None => failure(28680, "can't take $abs of long long min"),
        },
        Some(Number::Double(number)) => found(number.abs()),
        Some(Number::Decimal(number)) => found(Number::Decimal(number.absolute())),
    }
}

fn exp(arguments: &Arguments<'_>) -> Outcome {
    match number(arguments)? {
        None => null(),
        Some(number) => found(through_doubles([number], |[x]| x.exp())),
    }
}

fn is_decimal(number: Number) -> bool {
    matches!(number, Number::Decimal(_))
}

/// Whether it is above zero or no number at all, whose logarithm is itself.
fn has_logarithm(number: Number) -> bool {
    match number {
        Number::Decimal(number) => !number.is_negative() && !number.is_zero(),
        number => number.is_nan() || number.to_double() > 0.0,
    }
}

/// That of NaN is a double in MongoDB, also for a decimal.
fn logarithm(arguments: &Arguments<'_>, code: i32, function: fn(f64) -> f64) -> Outcome {
    match number(arguments)? {
        None => null(),
        Some(number) if number.is_nan() => found(f64::NAN),
        Some(number) => {
            if !has_logarithm(number) {
                let shown = general(number.to_double());
                return failure(
                    code,
                    format!("{}'s argument must be a positive number, but is {shown}", arguments.name()),
                );
            }
            found(through_doubles([number], |[x]| function(x)))
        }
    }
}

fn ln(arguments: &Arguments<'_>) -> Outcome {
    logarithm(arguments, 28766, f64::ln)
}

fn log10(arguments: &Arguments<'_>) -> Outcome {
    logarithm(arguments, 28761, f64::log10)
}

fn log(arguments: &Arguments<'_>) -> Outcome {
    let [argument, base] = arguments.values()?;
    if is_nullish(argument.as_ref()) || is_nullish(base.as_ref()) {
        return null();
    }
    let Some(x) = argument.as_ref().and_then(Number::of) else {
        return failure(28756, format!("$log's argument must be numeric, not {}", type_name(argument.as_ref())));
    };
    let Some(base) = base.as_ref().and_then(Number::of) else {
        return failure(28757, format!("$log's base must be numeric, not {}", type_name(base.as_ref())));
    };
    if !has_logarithm(x) {
        let shown = general(x.to_double());
        return failure(28758, format!("$log's argument must be a positive number, but is {shown}"));
    }
    if !has_logarithm(base) || base.to_exact_i64() == Some(1) {
        let shown = general(base.to_double());
        return failure(28759, format!("$log's base must be a positive number not equal to 1, but is {shown}"));
    }
    if x.is_nan() || base.is_nan() {
        return found(f64::NAN);
    }
    let of_decimals = is_decimal(x) || is_decimal(base);
    let whole_base = base.to_exact_i64().filter(|_| of_decimals);
    found(through_doubles([x, base], |[x, base]| match whole_base {
        Some(2) => x.log2(),
        Some(10) => x.log10(),
        _ => x.ln() / base.ln(),
    }))
}

fn pow(arguments: &Arguments<'_>) -> Outcome {
    let [base, exponent] = arguments.values()?;
    if is_nullish(base.as_ref()) || is_nullish(exponent.as_ref()) {
        return null();
    }
    let Some(x) = base.as_ref().and_then(Number::of) else {
        return failure(28762, format!("$pow's base must be numeric, not {}", type_name(base.as_ref())));
    };
    let Some(y) = exponent.as_ref().and_then(Number::of) else {
        return failure(28763, format!("$pow's exponent must be numeric, not {}", type_name(exponent.as_ref())));
    };
    let negative_exponent = match (x, y) {
        // Of decimals the sign counts, that of a zero as well.
        (Number::Decimal(_), y) | (_, y @ Number::Decimal(_)) => y.to_decimal().has_sign(),
        (_, y) => y.to_double() < 0.0,
    };
    if is_zero(x) && negative_exponent {
        return failure(28764, "$pow cannot take a base of 0 and a negative exponent");
    }
    found(match (x, y) {
        _ if is_decimal(x) || is_decimal(y) => Bson::from(match y.to_exact_i64() {
            Some(exponent) => Number::Decimal(x.to_decimal().power(exponent)),
            None => through_doubles([x, y], |[x, y]| x.powf(y)),
        }),
        (Number::Double(_), _) | (_, Number::Double(_)) => Bson::Double(x.to_double().powf(y.to_double())),
        _ => {
            let exact = x.to_exact_i64().zip(y.to_exact_i64()).and_then(|(x, y)| integer_power(x, y));
            match (exact, x, y) {
                (None, ..) => Bson::Double(x.to_double().powf(y.to_double())),
                (Some(power), Number::Int(_), Number::Int(_)) => int_or_long(power),
                (Some(power), ..) => Bson::Int64(power),
            }
        }
    })
}

fn integer_power(base: i64, exponent: i64) -> Option<i64> {
    match (base, exponent) {
        (1, _) => Some(1),
        (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (0, _) => Some(i64::from(exponent == 0)),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

fn sqrt(arguments: &Arguments<'_>) -> Outcome {
    let Some(number) = number(arguments)? else { return null() };
    let negative = match number {
        Number::Decimal(number) => number.is_negative(),
        number => number.to_double() < 0.0,
    };
    if negative {
        return failure(28714, "$sqrt's argument must be greater than or equal to 0");
    }
    match number {
        Number::Decimal(number) => found(Number::Decimal(number.square_root())),
        number => found(number.to_double().sqrt()),
    }
}

/// A divisor above zero.
#[derive(Debug, Clone, Copy)]
pub(in crate::query) struct Divisor {
    divisor: Decimal,
}

impl Divisor {
    /// From a number above zero. NaN is accepted, see [`Divisor::is_finite`].
    pub(in crate::query) fn new(value: &Bson) -> Option<Self> {
        let divisor = Number::of(value)?.to_decimal();
        (!divisor.is_zero() && !divisor.is_negative()).then_some(Self { divisor })
    }

    /// Whether it can divide anything.
    pub(in crate::query) fn is_finite(&self) -> bool {
        matches!(self.divisor, Decimal::Finite { .. })
    }

    /// Whether a number is a multiple; nothing for values that are no numbers. Doubles count with 15 digits.
    pub(in crate::query) fn divides(&self, value: &Bson) -> Option<bool> {
        Number::of(value).map(|number| number.to_decimal().remainder(self.divisor).is_zero())
    }
}
