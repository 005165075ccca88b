//! Decimal floating point of 34 digits: the arithmetic of BSON's `Decimal128`, rounded half to even.
//!
//! A number keeps its exponent: `1.50` and `1.5` are equal but not the same. Exact results get the exponent
//! that IEEE 754 prefers, inexact ones all 34 digits.

use bson::Decimal128;
use num_bigint::BigUint;

use crate::query::number::{self, exact_i64};

/// How many digits a coefficient has at most.
pub(super) const DIGITS: usize = 34;
/// The smallest exponent.
pub(super) const MIN_EXPONENT: i32 = -6176;
const MAX_EXPONENT: i32 = 6111;
/// Above this distance of exponents the smaller operand of a sum only decides how the larger is rounded.
const FAR: i32 = 100;

/// A decimal number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Decimal {
    /// Not a number.
    NaN,
    /// Beyond all numbers.
    Infinity { negative: bool },
    /// `coefficient` times ten to the power of `exponent`.
    Finite { negative: bool, coefficient: u128, exponent: i32 },
}

/// What happens to digits that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To the nearest, a tie to the even neighbour.
    HalfEven,
    /// Cut off.
    Truncate,
    /// Towards negative infinity.
    Floor,
    /// Towards positive infinity.
    Ceiling,
}

/// Why a text is no decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextError {
    /// Not the notation of a number.
    Malformed,
    /// Too large.
    Overflow,
    /// Too small.
    Underflow,
}

impl Decimal {
    /// Zero with the exponent 0.
    pub(super) const ZERO: Self = Self::Finite { negative: false, coefficient: 0, exponent: 0 };

    /// Takes the BSON type apart.
    pub(super) fn from_bson(value: Decimal128) -> Self {
        match number::Decimal::from_bytes(value.bytes()) {
            number::Decimal::NaN => Self::NaN,
            number::Decimal::Infinity { negative } => Self::Infinity { negative },
            number::Decimal::Finite { negative, coefficient, exponent } => {
                Self::Finite { negative, coefficient, exponent }
            }
        }
    }

    /// The BSON type.
    pub(super) fn to_bson(self) -> Decimal128 {
        const SIGN: u128 = 1 << 127;
        let sign = |negative| if negative { SIGN } else { 0 };
        let bits = match self {
            Self::NaN => 0x7C << 120,
            Self::Infinity { negative } => sign(negative) | 0x78 << 120,
            Self::Finite { negative, coefficient, exponent } => {
                // Exponents are kept in range by `round`.
                let biased = u128::try_from(exponent - MIN_EXPONENT).unwrap_or(0);
                sign(negative) | biased << 113 | coefficient
            }
        };
        Decimal128::from_bytes(bits.to_le_bytes())
    }

    /// A whole number.
    pub(super) fn from_i64(value: i64) -> Self {
        Self::Finite { negative: value < 0, coefficient: u128::from(value.unsigned_abs()), exponent: 0 }
    }

    /// A double with 15 digits: what it most likely was when it was written down.
    pub(super) fn from_f64_with_15_digits(value: f64) -> Self {
        Self::from_f64(value, 14)
    }

    /// A double with all its digits, rounded to 34.
    pub(super) fn from_f64_exactly(value: f64) -> Self {
        Self::from_f64(value, DIGITS - 1).with_fewest_places()
    }

    fn from_f64(value: f64, places: usize) -> Self {
        if value.is_nan() {
            return Self::NaN;
        }
        if value.is_infinite() {
            return Self::Infinity { negative: value < 0.0 };
        }
        if value == 0.0 {
            return Self::Finite { negative: value.is_sign_negative(), coefficient: 0, exponent: 0 };
        }
        let text = format!("{:.places$e}", value.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent = exponent.parse().unwrap_or(0) - i32::try_from(places).unwrap_or(0);
        // At most 34 digits, which fit.
        let coefficient: u128 = digits.replace('.', "").parse().unwrap_or(0);
        round(value < 0.0, &coefficient.into(), exponent, false)
    }

    /// Drops trailing zeros of the fraction.
    pub(super) fn with_fewest_places(self) -> Self {
        let Self::Finite { negative, mut coefficient, mut exponent } = self else { return self };
        while exponent < 0 && coefficient != 0 && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        Self::Finite { negative, coefficient, exponent }
    }

    /// Reads `-12.5E+3`, `inf`, `NaN`; more than 34 digits are rounded.
    pub(super) fn parse(text: &str) -> Result<Self, TextError> {
        let (negative, magnitude) = match text.strip_prefix(['+', '-']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        match magnitude.to_ascii_lowercase().as_str() {
            "inf" | "infinity" => return Ok(Self::Infinity { negative }),
            "nan" => return Ok(Self::NaN),
            _ => {}
        }
        let (mantissa, exponent) = match magnitude.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (magnitude, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TextError::Malformed);
        }
        let places = i32::try_from(fraction.len()).map_err(|_| TextError::Malformed)?;
        // Of digits that are rounded away it only matters whether they are zeros.
        let significant = digits.trim_start_matches('0');
        let (kept, dropped) = significant.split_at(significant.len().min(DIGITS + 2));
        let coefficient: u128 = kept.parse().unwrap_or(0);
        let exponent = exponent.saturating_sub(places).saturating_add(i32::try_from(dropped.len()).unwrap_or(i32::MAX));
        let value = round(negative, &coefficient.into(), exponent, dropped.contains(|digit| digit != '0'));
        match value {
            Self::Infinity { .. } => Err(TextError::Overflow),
            Self::Finite { coefficient: 0, .. } if coefficient != 0 => Err(TextError::Underflow),
            _ => Ok(value),
        }
    }

    /// The nearest double.
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::NaN => f64::NAN,
            Self::Infinity { negative } => {
                if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Self::Finite { negative, coefficient, exponent } => {
                let magnitude: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// The whole number it is, if it has no fraction and fits.
    pub(super) fn to_exact_i64(self) -> Option<i64> {
        let whole = self.quantized(0, Rounding::Truncate);
        if self.subtract(whole).is_zero() { whole.to_i64_truncated() } else { None }
    }

    /// The whole part, if it fits.
    pub(super) fn to_i64_truncated(self) -> Option<i64> {
        match self.quantized(0, Rounding::Truncate) {
            Self::Finite { coefficient: 0, .. } => Some(0),
            Self::Finite { negative, coefficient, exponent: 0 } => {
                let magnitude = i128::try_from(coefficient).ok()?;
                i64::try_from(if negative { -magnitude } else { magnitude }).ok()
            }
            _ => None,
        }
    }

    /// Whether it is zero of either sign.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Finite { coefficient: 0, .. })
    }

    /// Whether it has a minus sign, which a zero can have too.
    pub(super) fn has_sign(self) -> bool {
        matches!(self, Self::Infinity { negative: true } | Self::Finite { negative: true, .. })
    }

    /// Whether it is below zero.
    pub(super) fn is_negative(self) -> bool {
        match self {
            Self::NaN => false,
            Self::Infinity { negative } => negative,
            Self::Finite { negative, coefficient, .. } => negative && coefficient != 0,
        }
    }

    /// With the sign turned.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::NaN => Self::NaN,
            Self::Infinity { negative } => Self::Infinity { negative: !negative },
            Self::Finite { negative, coefficient, exponent } => {
                Self::Finite { negative: !negative, coefficient, exponent }
            }
        }
    }

    /// Without its sign.
    pub(super) fn absolute(self) -> Self {
        match self {
            Self::Infinity { negative: true } | Self::Finite { negative: true, .. } => self.negated(),
            _ => self,
        }
    }

    /// The sum.
    pub(super) fn add(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Finite { negative: left_negative, coefficient: left, exponent: left_exponent },
                Self::Finite { negative: right_negative, coefficient: right, exponent: right_exponent },
            ) => {
                let left = (left_negative, left, left_exponent);
                let right = (right_negative, right, right_exponent);
                if left_exponent >= right_exponent { sum(left, right) } else { sum(right, left) }
            }
            (Self::Infinity { negative }, Self::Infinity { negative: other }) if negative == other => self,
            (Self::NaN, _) | (_, Self::NaN) | (Self::Infinity { .. }, Self::Infinity { .. }) => Self::NaN,
            (Self::Infinity { .. }, _) => self,
            (_, Self::Infinity { .. }) => other,
        }
    }

    /// The difference.
    pub(super) fn subtract(self, other: Self) -> Self {
        self.add(other.negated())
    }

    /// The product.
    pub(super) fn multiply(self, other: Self) -> Self {
        match (self, other) {
            (Self::NaN, _) | (_, Self::NaN) => Self::NaN,
            (
                Self::Finite { negative, coefficient, exponent },
                Self::Finite { negative: other_negative, coefficient: other, exponent: other_exponent },
            ) => {
                let product = BigUint::from(coefficient) * other;
                round(negative != other_negative, &product, exponent + other_exponent, false)
            }
            _ if self.is_zero() || other.is_zero() => Self::NaN,
            _ => Self::Infinity { negative: self.is_negative() != other.is_negative() },
        }
    }

    /// The quotient.
    pub(super) fn divide(self, other: Self) -> Self {
        match (self, other) {
            (Self::NaN, _)
            | (_, Self::NaN)
            | (Self::Infinity { .. }, Self::Infinity { .. })
            | (Self::Finite { coefficient: 0, .. }, Self::Finite { coefficient: 0, .. }) => Self::NaN,
            (Self::Infinity { negative }, Self::Finite { negative: other, .. }) => {
                Self::Infinity { negative: negative != other }
            }
            (Self::Finite { negative, .. }, Self::Infinity { negative: other }) => {
                Self::Finite { negative: negative != other, coefficient: 0, exponent: MIN_EXPONENT }
            }
            (
                Self::Finite { negative, coefficient, exponent },
                Self::Finite { negative: other_negative, coefficient: other, exponent: other_exponent },
            ) => {
                let negative = negative != other_negative;
                if other == 0 {
                    return Self::Infinity { negative };
                }
                quotient(negative, coefficient, other, exponent - other_exponent)
            }
        }
    }

    /// The remainder of a division with a whole quotient; it has the sign of `self`.
    pub(super) fn remainder(self, other: Self) -> Self {
        match (self, other) {
            (Self::Finite { .. }, Self::Infinity { .. }) => self,
            (
                Self::Finite { negative, coefficient, exponent },
                Self::Finite { coefficient: other, exponent: other_exponent, .. },
            ) if other != 0 => {
                let distance = exponent - other_exponent;
                let shift = usize::try_from(distance.unsigned_abs()).unwrap_or(0);
                if distance >= 0 {
                    let rest = power_of_ten(shift) * coefficient % other;
                    return round(negative, &rest, other_exponent, false);
                }
                // A divisor with far larger exponent than the number leaves the number itself.
                if shift > DIGITS {
                    return self;
                }
                let rest = BigUint::from(coefficient) % (power_of_ten(shift) * other);
                round(negative, &rest, exponent, false)
            }
            _ => Self::NaN,
        }
    }

    /// With this exponent: digits below it are rounded away, zeros are added as far as 34 digits go.
    pub(super) fn quantized(self, exponent: i32, rounding: Rounding) -> Self {
        let Self::Finite { negative, coefficient, exponent: own } = self else { return self };
        if own >= exponent {
            let room = DIGITS.saturating_sub(digits(&coefficient.into()));
            let wanted = usize::try_from(own - exponent).unwrap_or(0);
            // Zero can take any exponent.
            let shift = if coefficient == 0 { wanted } else { wanted.min(room) };
            let coefficient = coefficient * 10_u128.pow(u32::try_from(shift.min(DIGITS)).unwrap_or(0));
            let exponent = own - i32::try_from(shift).unwrap_or(0);
            return Self::Finite { negative, coefficient, exponent };
        }
        let dropped = u32::try_from(exponent - own).unwrap_or(0);
        let unit = if dropped > 38 { u128::MAX } else { 10_u128.pow(dropped) };
        let (mut kept, rest) = (coefficient / unit, coefficient % unit);
        let up = match rounding {
            Rounding::Truncate => false,
            Rounding::Floor => negative && rest > 0,
            Rounding::Ceiling => !negative && rest > 0,
            Rounding::HalfEven => rest > unit / 2 || (rest == unit / 2 && kept % 2 == 1),
        };
        kept += u128::from(up);
        Self::Finite { negative, coefficient: kept, exponent }
    }

    /// To the power of a whole number, with all 34 digits.
    pub(super) fn power(self, exponent: i64) -> Self {
        let (mut product, mut square, mut left) = (Self::from_i64(1), self, exponent.unsigned_abs());
        while left > 0 {
            if left % 2 == 1 {
                product = product.multiply(square);
            }
            square = square.multiply(square);
            left /= 2;
        }
        let power = if exponent < 0 { Self::from_i64(1).divide(product) } else { product };
        power.quantized(MIN_EXPONENT, Rounding::Truncate)
    }

    /// The square root of a number that is not below zero.
    pub(super) fn square_root(self) -> Self {
        const EXTRA: usize = 36;
        let Self::Finite { negative, coefficient, exponent } = self else {
            return if self == (Self::Infinity { negative: false }) { self } else { Self::NaN };
        };
        if coefficient == 0 {
            return Self::Finite { negative, coefficient, exponent: exponent.div_euclid(2) };
        }
        // An even exponent, and digits enough for 34 and one more in the root.
        let odd = exponent.rem_euclid(2);
        let (even, scale) = (exponent - odd, usize::try_from(odd).unwrap_or(0));
        let square = power_of_ten(scale + 2 * EXTRA) * coefficient;
        let root = square.sqrt();
        let exact = &root * &root == square;
        let result = round(false, &root, even / 2 - i32::try_from(EXTRA).unwrap_or(0), !exact);
        if exact { result.towards_exponent(even / 2) } else { result }
    }

    /// Drops zeros at the end until the exponent is reached.
    fn towards_exponent(self, preferred: i32) -> Self {
        let Self::Finite { negative, mut coefficient, mut exponent } = self else { return self };
        while exponent < preferred.min(MAX_EXPONENT) && coefficient != 0 && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        Self::Finite { negative, coefficient, exponent }
    }
}

fn parse_exponent(text: &str) -> Result<i32, TextError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TextError::Malformed);
    }
    // Anything this long is far out of range.
    let magnitude = digits.parse::<i32>().unwrap_or(1_000_000).min(1_000_000);
    Ok(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// The sum of two finite numbers, that with the larger exponent first.
fn sum(large: (bool, u128, i32), small: (bool, u128, i32)) -> Decimal {
    let (large_negative, large_coefficient, large_exponent) = large;
    let (small_negative, mut small_coefficient, mut small_exponent) = small;
    if large_exponent - small_exponent > FAR && large_coefficient != 0 {
        small_coefficient = small_coefficient.min(1);
        small_exponent = large_exponent - FAR;
    }
    let shift = usize::try_from(large_exponent - small_exponent).unwrap_or(0);
    let left = power_of_ten(shift) * large_coefficient;
    let right = BigUint::from(small_coefficient);
    if large_negative == small_negative {
        return round(large_negative, &(left + right), small_exponent, false);
    }
    let (negative, difference) =
        if left > right { (large_negative, left - right) } else { (small_negative, right - left) };
    round(negative && difference != BigUint::ZERO, &difference, small_exponent, false)
}

fn quotient(negative: bool, dividend: u128, divisor: u128, preferred: i32) -> Decimal {
    let scale = (DIGITS + 2 + digits(&divisor.into())).saturating_sub(digits(&dividend.into()));
    let dividend = power_of_ten(scale) * dividend;
    let quotient = &dividend / divisor;
    let exact = &quotient * divisor == dividend;
    let exponent = preferred - i32::try_from(scale).unwrap_or(0);
    if quotient == BigUint::ZERO && exact {
        return round(negative, &quotient, preferred, false);
    }
    let result = round(negative, &quotient, exponent, !exact);
    if exact && !result.is_zero() { result.towards_exponent(preferred) } else { result }
}

/// The number rounded to 34 digits and brought into the range of exponents. `sticky`: there are further digits
/// below, not all zero.
fn round(negative: bool, coefficient: &BigUint, exponent: i32, sticky: bool) -> Decimal {
    let digits = digits(coefficient);
    let too_many = digits.saturating_sub(DIGITS);
    let too_low = usize::try_from(MIN_EXPONENT.saturating_sub(exponent)).unwrap_or(0);
    let dropped = too_many.max(too_low);
    if dropped > digits + 1 {
        return Decimal::Finite { negative, coefficient: 0, exponent: MIN_EXPONENT };
    }
    let exponent = exponent.saturating_add(i32::try_from(dropped).unwrap_or(0));
    let unit = power_of_ten(dropped);
    let kept = coefficient / &unit;
    let twice = (coefficient - &kept * &unit) * 2_u32;
    let up = match twice.cmp(&unit) {
        _ if dropped == 0 => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => sticky || kept.bit(0),
        std::cmp::Ordering::Less => false,
    };
    // At most 34 digits are left, which fit.
    let coefficient = u128::try_from(kept).unwrap_or(0) + u128::from(up);
    let (coefficient, exponent) =
        if coefficient == 10_u128.pow(34) { (coefficient / 10, exponent + 1) } else { (coefficient, exponent) };
    in_range(negative, coefficient, exponent)
}

fn power_of_ten(power: usize) -> BigUint {
    BigUint::from(10_u32).pow(u32::try_from(power).unwrap_or(u32::MAX))
}

/// How many decimal digits it has; zero has none.
fn digits(number: &BigUint) -> usize {
    if *number == BigUint::ZERO { 0 } else { number.to_string().len() }
}

/// Too large an exponent is lowered by zeros at the end where there is room.
fn in_range(negative: bool, mut coefficient: u128, mut exponent: i32) -> Decimal {
    if coefficient == 0 {
        return Decimal::Finite { negative, coefficient, exponent: exponent.clamp(MIN_EXPONENT, MAX_EXPONENT) };
    }
    while exponent > MAX_EXPONENT && coefficient < 10_u128.pow(33) {
        coefficient *= 10;
        exponent -= 1;
    }
    if exponent > MAX_EXPONENT {
        return Decimal::Infinity { negative };
    }
    Decimal::Finite { negative, coefficient, exponent }
}

impl From<f64> for Decimal {
    /// As [`Decimal::from_f64_exactly`], short for whole numbers.
    fn from(value: f64) -> Self {
        exact_i64(value).filter(|_| value != 0.0).map_or_else(|| Self::from_f64_exactly(value), Self::from_i64)
    }
}
