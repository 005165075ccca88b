//! Numbers of the four BSON types, compared by their exact values.

use std::cmp::Ordering;

use num_bigint::BigUint;

/// A number of any type. Two of them are compared as real numbers.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// 32-bit and 64-bit integers.
    Int(i64),
    /// Binary floating point.
    Double(f64),
    /// Decimal floating point.
    Decimal(Decimal),
}

/// A decimal floating point number taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimal {
    /// Not a number.
    NaN,
    /// Beyond all numbers; `negative`: below them.
    Infinity {
        /// The sign.
        negative: bool,
    },
    /// `coefficient` times ten to the power of `exponent`.
    Finite {
        /// The sign; zero has one too.
        negative: bool,
        /// At most 34 digits.
        coefficient: u128,
        /// From -6176 to 6111.
        exponent: i32,
    },
}

/// The largest coefficient that is valid; above it the encoding means zero.
const MAX_COEFFICIENT: u128 = 9_999_999_999_999_999_999_999_999_999_999_999;

impl Decimal {
    /// Takes the 16 bytes of a BSON decimal apart.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        let negative = bits >> 127 == 1;
        let combination = (bits >> 122) & 0x1F;
        if combination == 0x1F {
            return Self::NaN;
        }
        if combination == 0x1E {
            return Self::Infinity { negative };
        }
        let (biased, coefficient) = if combination >> 3 == 3 {
            // The second form encodes coefficients too large to be valid, which read as zero.
            ((bits >> 111) & 0x3FFF, 0)
        } else {
            ((bits >> 113) & 0x3FFF, bits & ((1 << 113) - 1))
        };
        let coefficient = if coefficient > MAX_COEFFICIENT { 0 } else { coefficient };
        let exponent = i32::try_from(biased).expect("14 bits fit") - 6176;
        Self::Finite { negative, coefficient, exponent }
    }

    fn from_int(value: i64) -> Self {
        Self::Finite { negative: value < 0, coefficient: u128::from(value.unsigned_abs()), exponent: 0 }
    }
}

impl Number {
    /// Whether it is no number at all.
    pub fn is_nan(self) -> bool {
        match self {
            Self::Int(_) => false,
            Self::Double(value) => value.is_nan(),
            Self::Decimal(value) => value == Decimal::NaN,
        }
    }

    /// The exact order; what is not a number is equal to its kind and below all numbers.
    #[inline]
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(&right),
            (Self::Double(left), Self::Double(right)) => compare_doubles(left, right),
            (Self::Int(left), Self::Double(right)) => compare_int_to_double(left, right),
            (Self::Double(left), Self::Int(right)) => compare_int_to_double(right, left).reverse(),
            (Self::Decimal(left), Self::Decimal(right)) => compare_decimals(left, right),
            (Self::Decimal(left), Self::Int(right)) => compare_decimals(left, Decimal::from_int(right)),
            (Self::Int(left), Self::Decimal(right)) => compare_decimals(Decimal::from_int(left), right),
            (Self::Decimal(left), Self::Double(right)) => compare_decimal_to_double(left, right),
            (Self::Double(left), Self::Decimal(right)) => compare_decimal_to_double(right, left).reverse(),
        }
    }

    /// The whole part when it fits 64 bits and the number has no fraction.
    pub fn as_exact_int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            Self::Double(value) => exact_int(value),
            Self::Decimal(Decimal::Finite { negative, coefficient, exponent }) => {
                let magnitude = scaled_exactly(coefficient, exponent)?;
                signed(negative, magnitude)
            }
            Self::Decimal(_) => None,
        }
    }

    /// The number cut to its whole part; nothing when that does not fit 64 bits or there is no number.
    pub fn truncated(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            Self::Double(value) => exact_int(value.trunc()),
            Self::Decimal(Decimal::Finite { negative, coefficient, exponent }) => {
                let magnitude = if exponent >= 0 {
                    scaled_exactly(coefficient, exponent)?
                } else {
                    u32::try_from(-exponent)
                        .ok()
                        .and_then(|places| 10_u128.checked_pow(places))
                        .map_or(0, |unit| coefficient / unit)
                };
                signed(negative, magnitude)
            }
            Self::Decimal(_) => None,
        }
    }
}

/// 2 to the power of 63: the first double above all 64-bit integers.
pub(in crate::query) const TWO_63: f64 = 9_223_372_036_854_775_808.0;

#[expect(clippy::cast_possible_truncation, reason = "the range is checked and the value has no fraction")]
fn exact_int(value: f64) -> Option<i64> {
    (value.trunc().total_cmp(&value).is_eq() && (-TWO_63..TWO_63).contains(&value)).then_some(value as i64)
}

fn signed(negative: bool, magnitude: u128) -> Option<i64> {
    let magnitude = i128::try_from(magnitude).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// `coefficient` times ten to the power of `exponent` when that is a whole number of at most 128 bits.
fn scaled_exactly(coefficient: u128, exponent: i32) -> Option<u128> {
    if coefficient == 0 {
        return Some(0);
    }
    let unit = 10_u128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 {
        coefficient.checked_mul(unit)
    } else {
        coefficient.is_multiple_of(unit).then(|| coefficient / unit)
    }
}

fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// A 64-bit integer is not always a double, so the comparison is made between integers where that matters.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn compare_int_to_double(int: i64, double: f64) -> Ordering {
    if double.is_nan() || double < -TWO_63 {
        return Ordering::Greater;
    }
    if double >= TWO_63 {
        return Ordering::Less;
    }
    let whole = double.trunc();
    int.cmp(&(whole as i64)).then_with(|| compare_doubles(whole, double))
}

fn compare_decimals(left: Decimal, right: Decimal) -> Ordering {
    let (Decimal::Finite { .. }, Decimal::Finite { .. }) = (left, right) else {
        return rank(left).cmp(&rank(right));
    };
    let sign = sign_of(left);
    sign.cmp(&sign_of(right)).then_with(|| match sign {
        0 => Ordering::Equal,
        1 => compare_magnitudes(left, right),
        _ => compare_magnitudes(right, left),
    })
}

/// Where the special values lie around the finite ones.
fn rank(decimal: Decimal) -> i8 {
    match decimal {
        Decimal::NaN => -2,
        Decimal::Infinity { negative: true } => -1,
        Decimal::Finite { .. } => 0,
        Decimal::Infinity { negative: false } => 1,
    }
}

fn sign_of(decimal: Decimal) -> i8 {
    match decimal {
        Decimal::Finite { coefficient: 0, .. } | Decimal::NaN => 0,
        Decimal::Finite { negative, .. } | Decimal::Infinity { negative } => {
            if negative {
                -1
            } else {
                1
            }
        }
    }
}

/// Both finite and not zero; signs do not count.
fn compare_magnitudes(left: Decimal, right: Decimal) -> Ordering {
    let (
        Decimal::Finite { coefficient: left, exponent: left_exponent, .. },
        Decimal::Finite { coefficient: right, exponent: right_exponent, .. },
    ) = (left, right)
    else {
        return Ordering::Equal;
    };
    let leading = |coefficient: u128, exponent: i32| i64::from(coefficient.ilog10()) + i64::from(exponent);
    leading(left, left_exponent).cmp(&leading(right, right_exponent)).then_with(|| {
        // Equal leading places: the exponents differ by 33 at most, and the scaled coefficient has at most 34 digits.
        let scale = |coefficient: u128, by: i32| coefficient * 10_u128.pow(by.unsigned_abs());
        if left_exponent >= right_exponent {
            scale(left, left_exponent - right_exponent).cmp(&right)
        } else {
            left.cmp(&scale(right, right_exponent - left_exponent))
        }
    })
}

fn compare_decimal_to_double(decimal: Decimal, double: f64) -> Ordering {
    if double.is_nan() {
        return rank(decimal).cmp(&-2);
    }
    if double.is_infinite() {
        return rank(decimal).cmp(&rank(Decimal::Infinity { negative: double < 0.0 }));
    }
    let Decimal::Finite { negative, coefficient, exponent } = decimal else {
        return rank(decimal).cmp(&0);
    };
    let double_sign = if double == 0.0 {
        0
    } else if double < 0.0 {
        -1
    } else {
        1
    };
    let sign = sign_of(decimal);
    if sign != double_sign || sign == 0 {
        return sign.cmp(&double_sign);
    }
    let order = compare_magnitude_to_double(coefficient, exponent, double.abs());
    if negative { order.reverse() } else { order }
}

/// Compares `coefficient * 10^exponent` with `double`, both above zero, exactly.
fn compare_magnitude_to_double(coefficient: u128, exponent: i32, double: f64) -> Ordering {
    // Most pairs differ in size so far that the logarithms settle it.
    let digits = f64::from(coefficient.ilog10()) + f64::from(exponent);
    let double_digits = double.log10();
    if digits > double_digits + 1.0 {
        return Ordering::Greater;
    }
    if digits + 2.0 < double_digits {
        return Ordering::Less;
    }
    let (mantissa, binary_exponent) = parts_of(double);
    let (mut left, mut right) = (BigUint::from(coefficient), BigUint::from(mantissa));
    let multiplied = if exponent < 0 { &mut right } else { &mut left };
    *multiplied *= BigUint::from(10_u32).pow(exponent.unsigned_abs());
    let shifted = if binary_exponent < 0 { &mut left } else { &mut right };
    *shifted <<= binary_exponent.unsigned_abs();
    left.cmp(&right)
}

/// A positive finite double as `mantissa * 2^exponent`.
fn parts_of(double: f64) -> (u64, i32) {
    let bits = double.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = i32::try_from((bits >> 52) & 0x7FF).expect("11 bits fit");
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}
/// The whole number that a double is.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked and there is no fraction")]
pub(in crate::query) fn exact_i64(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && (-TWO_63..TWO_63).contains(&number)).then_some(number as i64)
}
