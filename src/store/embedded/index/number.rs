//! The bytes of a number inside an index key: equal numbers of any type are equal bytes, and bytes order as numbers do.
//!
//! A number is written as the largest double that is not above it, followed by a tail. The tail is a single zero when
//! the number *is* that double. Otherwise it holds the exact decimal digits of the number. They decide the order among
//! the numbers between two neighbouring doubles. Only large 64-bit integers and decimals lie there, and both have a
//! finite decimal notation.

use std::cmp::Ordering;

use bson::Decimal128;
use bson::raw::RawBsonRef;

use crate::query::compare::compare_raw;

/// Ends a number that is exactly its double.
const EXACT: u8 = 0;
/// Announces decimal digits.
const DIGITS: u8 = 1;
/// The exponent of a Decimal128 whose biased exponent is 0.
const DECIMAL_BIAS: i32 = 6176;
/// The largest coefficient of a Decimal128; anything above counts as zero.
const MAX_COEFFICIENT: u128 = 10_u128.pow(34) - 1;
/// Makes the position of the first digit positive whatever the exponent.
const POSITION_OFFSET: i32 = 0x4000;

/// Appends a double.
pub(crate) fn push_f64(value: f64, out: &mut Vec<u8>) {
    push_floor(value, out);
    out.push(EXACT);
}

/// Appends a 64-bit integer.
pub(crate) fn push_i64(value: i64, out: &mut Vec<u8>) {
    #[expect(clippy::cast_precision_loss, reason = "the loss is what the tail makes up for")]
    let nearest = value as f64;
    #[expect(clippy::cast_possible_truncation, reason = "a double made from an i64 is whole and fits an i128")]
    let order = (nearest as i128).cmp(&i128::from(value));
    let exact = Decimal { negative: value < 0, coefficient: u128::from(value.unsigned_abs()), exponent: 0 };
    push_between(nearest, order, exact, out);
}

/// Appends a decimal.
pub(crate) fn push_decimal(value: Decimal128, out: &mut Vec<u8>) {
    let exact = match DecimalBits::of(value) {
        DecimalBits::NaN => return push_f64(f64::NAN, out),
        DecimalBits::Infinity { negative: true } => return push_f64(f64::NEG_INFINITY, out),
        DecimalBits::Infinity { negative: false } => return push_f64(f64::INFINITY, out),
        DecimalBits::Finite(exact) => exact,
    };
    if exact.coefficient == 0 {
        return push_f64(0.0, out);
    }
    let nearest = exact.nearest_double();
    let order = compare_raw(RawBsonRef::Double(nearest), RawBsonRef::Decimal128(value));
    push_between(nearest, order, exact, out);
}

/// Appends a number given the double nearest to it and how that double compares with it.
fn push_between(nearest: f64, order: Ordering, exact: Decimal, out: &mut Vec<u8>) {
    match order {
        Ordering::Equal => push_f64(nearest, out),
        Ordering::Less => push_with_digits(nearest, exact, out),
        Ordering::Greater => push_with_digits(nearest.next_down(), exact, out),
    }
}

fn push_with_digits(floor: f64, exact: Decimal, out: &mut Vec<u8>) {
    push_floor(floor, out);
    out.push(DIGITS);
    exact.push_digits(out);
}

/// Appends eight bytes that order as doubles do; NaN comes first, the two zeros are one.
fn push_floor(value: f64, out: &mut Vec<u8>) {
    let bits = match value {
        nan if nan.is_nan() => 0,
        0.0 => 1 << 63,
        other if other.is_sign_negative() => !other.to_bits(),
        other => other.to_bits() | 1 << 63,
    };
    out.extend_from_slice(&bits.to_be_bytes());
}

/// The number whose bytes these are; nothing, if they are not those of a number.
pub(crate) fn shown(bytes: &[u8]) -> Option<String> {
    let (floor, tail) = bytes.split_first_chunk::<8>()?;
    let bits = u64::from_be_bytes(*floor);
    let value = match bits {
        0 => f64::NAN,
        positive if positive >> 63 == 1 => f64::from_bits(positive & !(1 << 63)),
        negative => f64::from_bits(!negative),
    };
    match tail {
        [EXACT] if value.is_infinite() => Some(if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()),
        [EXACT] => Some(value.to_string()),
        [DIGITS, digits @ ..] => {
            Some(format!("{}{}", if value < 0.0 { "-" } else { "" }, shown_digits(digits, value < 0.0)?))
        }
        _ => None,
    }
}

/// What [`Decimal::push_digits`] wrote, without the sign.
fn shown_digits(bytes: &[u8], negative: bool) -> Option<String> {
    let mut bytes = bytes.to_vec();
    if negative {
        invert(&mut bytes);
    }
    let (position, pairs) = bytes.split_first_chunk::<2>()?;
    let position = i32::from(u16::from_be_bytes(*position)) - POSITION_OFFSET;
    let pairs = pairs.strip_suffix(&[0]).filter(|pairs| pairs.iter().all(|pair| (1..=100).contains(pair)))?;
    let ascii = |pair: &u8| [b'0' + (pair - 1) / 10, b'0' + (pair - 1) % 10].map(char::from);
    let digits: String = pairs.iter().flat_map(ascii).collect();
    let digits = digits.trim_end_matches('0');
    let whole = usize::try_from(position).unwrap_or_default();
    Some(match digits.len() {
        length if position > 0 && length <= whole && whole < 40 => format!("{digits:0<whole$}"),
        length if position > 0 && length > whole => format!("{}.{}", &digits[..whole], &digits[whole..]),
        _ => format!("0.{digits}e{position}"),
    })
}

/// A finite number: its sign, its digits as one integer, and the power of ten that they count.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    negative: bool,
    coefficient: u128,
    exponent: i32,
}

impl Decimal {
    fn nearest_double(self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        let text = format!("{sign}{}e{}", self.coefficient, self.exponent);
        text.parse().expect("digits with an exponent are a number")
    }

    /// Appends the position of the first digit, then the digits in pairs, each pair plus one, then a zero. All of it is
    /// inverted for negative numbers.
    fn push_digits(self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut digits = self.coefficient.to_string().into_bytes();
        let count = i32::try_from(digits.len()).expect("an u128 has 39 digits at most");
        let position = u16::try_from(self.exponent + count + POSITION_OFFSET).expect("decimal exponents fit 14 bits");
        out.extend_from_slice(&position.to_be_bytes());
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        for pair in digits.chunks(2) {
            let (tens, ones) = (pair[0] - b'0', pair.get(1).map_or(0, |digit| digit - b'0'));
            out.push(tens * 10 + ones + 1);
        }
        out.push(0);
        if self.negative {
            invert(&mut out[start..]);
        }
    }
}

/// What the bits of a Decimal128 say.
enum DecimalBits {
    NaN,
    Infinity { negative: bool },
    Finite(Decimal),
}

impl DecimalBits {
    fn of(value: Decimal128) -> Self {
        let bits = u128::from_le_bytes(value.bytes());
        let negative = bits >> 127 == 1;
        match bits >> 122 & 0x1f {
            0x1f => Self::NaN,
            0x1e => Self::Infinity { negative },
            // The second layout only has coefficients above the largest one, and those count as zero.
            large if large >> 3 == 3 => Self::Finite(Decimal { negative, coefficient: 0, exponent: 0 }),
            _ => {
                let biased = i32::try_from(bits >> 113 & 0x3fff).expect("14 bits fit");
                let coefficient = Some(bits & ((1 << 113) - 1)).filter(|digits| *digits <= MAX_COEFFICIENT);
                Self::Finite(Decimal {
                    negative,
                    coefficient: coefficient.unwrap_or(0),
                    exponent: biased - DECIMAL_BIAS,
                })
            }
        }
    }
}

/// Inverts the key of one component, for descending indexes.
pub fn invert(key: &mut [u8]) {
    for byte in key {
        *byte = !*byte;
    }
}
