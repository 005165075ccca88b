//! Elementary functions of decimals: exponential, logarithms, circular and hyperbolic functions.
//!
//! They are computed with fixed-point numbers of 90 places by their power series and rounded to 34 digits at
//! the end. MongoDB goes through binary numbers of 113 bits; the last of its digits can be off by a few.

use std::sync::OnceLock;

use super::binary128;
use super::decimal::{DIGITS, Decimal, MIN_EXPONENT, round};
use super::natural::Natural;

const PLACES: usize = 90;
/// Below ten to this power a function like the sine is its argument to more than 34 digits.
const TINY: i32 = -20;
/// The server gives the inverse hyperbolic tangent of numbers below ten to this power as they are, without zeros behind them.
const UNCHANGED: i32 = -50;
/// Below ten to this power binary numbers of 128 bits are further apart than decimals.
const COARSE: i32 = -4_931;
/// From here on `exp(-x)` vanishes beside `exp(x)`.
const LARGE: u128 = 100;

/// A signed fixed-point number.
#[derive(Debug, Clone)]
struct Fixed {
    negative: bool,
    units: Natural,
}

impl Fixed {
    fn whole(value: u128) -> Self {
        Self { negative: false, units: Natural::new(value).shifted(PLACES) }
    }

    /// A finite decimal that is not too large to be worth its digits.
    fn from_decimal(value: Decimal) -> Self {
        let Decimal::Finite { negative, coefficient, exponent } = value else { return Self::whole(0) };
        let units = Natural::new(coefficient);
        let shift = i32::try_from(PLACES).unwrap_or(0) + exponent;
        let distance = usize::try_from(shift.unsigned_abs()).unwrap_or(0);
        let units = if shift >= 0 { units.shifted(distance) } else { units.divide(&Natural::power_of_ten(distance)).0 };
        Self { negative, units }
    }

    fn is_zero(&self) -> bool {
        self.units.is_zero()
    }

    fn negated(mut self) -> Self {
        self.negative = !self.negative;
        self
    }

    fn add(&self, other: &Self) -> Self {
        if self.negative == other.negative {
            return Self { negative: self.negative, units: self.units.add(&other.units) };
        }
        let negative = if self.units >= other.units { self.negative } else { other.negative };
        Self { negative, units: self.units.distance(&other.units) }
    }

    fn subtract(&self, other: &Self) -> Self {
        self.add(&other.clone().negated())
    }

    fn multiply(&self, other: &Self) -> Self {
        let (units, _) = self.units.multiply(&other.units).divide(&Natural::power_of_ten(PLACES));
        Self { negative: self.negative != other.negative, units }
    }

    fn divide(&self, other: &Self) -> Self {
        let (units, _) = self.units.shifted(PLACES).divide(&other.units);
        Self { negative: self.negative != other.negative, units }
    }

    fn divide_small(&self, divisor: u32) -> Self {
        Self { negative: self.negative, units: self.units.divide_small(divisor).0 }
    }

    fn square_root(&self) -> Self {
        Self { negative: false, units: self.units.shifted(PLACES).square_root() }
    }

    fn exceeds(&self, value: u128) -> bool {
        self.units > Self::whole(value).units
    }

    /// With 34 digits, times ten to the power of `exponent`.
    fn to_decimal(&self, exponent: i32) -> Decimal {
        let places = i32::try_from(PLACES).unwrap_or(0);
        let short = DIGITS.saturating_sub(self.units.digits());
        let units = self.units.shifted(short);
        round(self.negative, &units, exponent - places - i32::try_from(short).unwrap_or(0), !self.is_zero())
    }
}

/// The sum of `first`, `first * factor / divisor(1)`, ... until the terms vanish.
fn series(first: Fixed, factor: &Fixed, divisor: impl Fn(u32) -> u32) -> Fixed {
    let (mut total, mut term) = (first.clone(), first);
    for index in 1.. {
        term = term.multiply(factor).divide_small(divisor(index));
        if term.is_zero() {
            break;
        }
        total = total.add(&term);
    }
    total
}

/// The sum of `power / odd number` with alternating or equal signs: the inverse tangents.
fn inverse_tangent_series(x: &Fixed, alternating: bool) -> Fixed {
    let square = x.multiply(x);
    let factor = if alternating { square.negated() } else { square };
    let (mut total, mut power) = (x.clone(), x.clone());
    for index in 1.. {
        power = power.multiply(&factor);
        if power.is_zero() {
            break;
        }
        total = total.add(&power.divide_small(2 * index + 1));
    }
    total
}

/// `ln((1 + x) / (1 - x)) / 2`
fn atanh_fixed(x: &Fixed) -> Fixed {
    inverse_tangent_series(x, false)
}

fn ln_fixed(x: &Fixed) -> Fixed {
    let one = Fixed::whole(1);
    let half = atanh_fixed(&x.subtract(&one).divide(&x.add(&one)));
    half.add(&half)
}

fn ln_10() -> Fixed {
    static LN_10: OnceLock<Fixed> = OnceLock::new();
    LN_10.get_or_init(|| ln_fixed(&Fixed::whole(10))).clone()
}

/// The circle's half circumference with so many places.
fn pi_units(places: usize) -> Natural {
    /// Enough for angles of ordinary size.
    const FEW: usize = 2 * PLACES;
    /// Enough for the largest decimal.
    const ALL: usize = PLACES + 6200;
    static SHORT: OnceLock<Natural> = OnceLock::new();
    static LONG: OnceLock<Natural> = OnceLock::new();
    let (known, has) = if places <= FEW { (&SHORT, FEW) } else { (&LONG, ALL) };
    let units = known.get_or_init(|| machin(has));
    units.divide(&Natural::power_of_ten(has.saturating_sub(places))).0
}

/// Pi by Machin's formula.
fn machin(places: usize) -> Natural {
    let guard = places + 10;
    let arccot = |x: u32| {
        let mut power = Natural::power_of_ten(guard).divide_small(x).0;
        let (mut positive, mut negative) = (power.clone(), Natural::zero());
        for index in 1_u32.. {
            power = power.divide_small(x * x).0;
            if power.is_zero() {
                break;
            }
            let term = power.divide_small(2 * index + 1).0;
            if index % 2 == 1 { negative = negative.add(&term) } else { positive = positive.add(&term) }
        }
        positive.distance(&negative)
    };
    let sum = arccot(5).multiply(&Natural::new(16)).distance(&arccot(239).multiply(&Natural::new(4)));
    sum.divide(&Natural::power_of_ten(10)).0
}

fn pi() -> Fixed {
    Fixed { negative: false, units: pi_units(PLACES) }
}

fn half_pi() -> Fixed {
    pi().divide_small(2)
}

/// `exp(x)` as a fixed-point number from 1 to 10 and a power of ten.
fn exp_parts(x: &Fixed) -> (Fixed, i32) {
    let ln_10 = ln_10();
    let (whole, _) = x.units.divide(&ln_10.units);
    let mut power = whole.to_u128().and_then(|power| i32::try_from(power).ok()).unwrap_or(i32::MAX / 2);
    let taken = Fixed { negative: x.negative, units: whole.multiply(&ln_10.units) };
    let mut rest = x.subtract(&taken);
    if x.negative {
        power = -power;
    }
    if rest.negative && !rest.is_zero() {
        rest = rest.add(&ln_10);
        power -= 1;
    }
    (series(Fixed::whole(1), &rest, |index| index), power)
}

/// `exp(x)` for an exponent that is not large.
fn exp_fixed(x: &Fixed) -> Fixed {
    let (value, power) = exp_parts(x);
    let distance = usize::try_from(power.unsigned_abs()).unwrap_or(0);
    let units =
        if power >= 0 { value.units.shifted(distance) } else { value.units.divide(&Natural::power_of_ten(distance)).0 };
    Fixed { negative: false, units }
}

fn parts(x: Decimal) -> Option<(bool, u128, i32)> {
    match x {
        Decimal::Finite { negative, coefficient, exponent } => Some((negative, coefficient, exponent)),
        _ => None,
    }
}

/// The power of ten of the first digit.
fn leading(coefficient: u128, exponent: i32) -> i32 {
    exponent + i32::try_from(coefficient.checked_ilog10().unwrap_or(0)).unwrap_or(0)
}

fn is_tiny(x: Decimal) -> bool {
    parts(x).is_some_and(|(_, coefficient, exponent)| leading(coefficient, exponent) < TINY)
}

/// With all 34 digits.
fn padded(x: Decimal) -> Decimal {
    let Some((negative, coefficient, exponent)) = parts(x) else { return x };
    let units = Natural::new(coefficient);
    let short = DIGITS.saturating_sub(units.digits());
    round(negative, &units.shifted(short), exponent - i32::try_from(short).unwrap_or(0), false)
}

fn zero(exponent: i32) -> Decimal {
    Decimal::Finite { negative: false, coefficient: 0, exponent }
}

/// What the library makes of zero where it computes instead of looking.
fn small_zero(x: Decimal) -> Decimal {
    parts(x).map_or(x, |(negative, coefficient, exponent)| Decimal::Finite {
        negative,
        coefficient,
        exponent: (exponent - 40).max(MIN_EXPONENT),
    })
}

/// A zero that has come from below all numbers, with the sign of another one.
fn smallest_zero(x: Decimal) -> Decimal {
    Decimal::Finite { negative: x.has_sign(), coefficient: 0, exponent: MIN_EXPONENT }
}

const ONE: Decimal = Decimal::Finite { negative: false, coefficient: 1, exponent: 0 };
const INFINITY: Decimal = Decimal::Infinity { negative: false };

/// `e` to the power of `x`.
pub(super) fn exp(x: Decimal) -> Decimal {
    match x {
        Decimal::NaN => Decimal::NaN,
        Decimal::Infinity { negative: true } => Decimal::ZERO,
        Decimal::Infinity { negative: false } => INFINITY,
        _ if x.is_zero() => ONE,
        Decimal::Finite { negative, coefficient, exponent } => {
            if leading(coefficient, exponent) > 4 {
                return if negative { zero(MIN_EXPONENT) } else { INFINITY };
            }
            let (value, power) = exp_parts(&Fixed::from_decimal(x));
            value.to_decimal(power)
        }
    }
}

/// The natural logarithm of a finite number above zero, with the power of ten taken apart.
fn ln_value(coefficient: u128, exponent: i32) -> Fixed {
    let power = leading(coefficient, exponent);
    let mantissa = Decimal::Finite { negative: false, coefficient, exponent: exponent - power };
    let ln_mantissa = ln_fixed(&Fixed::from_decimal(mantissa));
    let ten = ln_10();
    let times = Natural::new(u128::from(power.unsigned_abs()));
    ln_mantissa.add(&Fixed { negative: power < 0, units: ten.units.multiply(&times) })
}

/// The natural logarithm.
pub(super) fn ln(x: Decimal) -> Decimal {
    match x {
        Decimal::Finite { negative: false, coefficient, exponent } if coefficient != 0 => {
            if is_one(x) {
                Decimal::ZERO
            } else {
                ln_value(coefficient, exponent).to_decimal(0)
            }
        }
        Decimal::Infinity { negative: false } => INFINITY,
        _ => Decimal::NaN,
    }
}

fn is_one(x: Decimal) -> bool {
    x.subtract(ONE).is_zero()
}

fn is_ten(x: Decimal) -> bool {
    x.subtract(Decimal::Finite { negative: false, coefficient: 10, exponent: 0 }).is_zero()
}

/// The logarithm to the base of ten, exact for powers of ten.
pub(super) fn log10(x: Decimal) -> Decimal {
    log(x, 10)
}

/// The logarithm to the base of two or ten, exact for their powers.
pub(super) fn log(x: Decimal, base: u32) -> Decimal {
    let Decimal::Finite { negative: false, coefficient, exponent } = x else { return ln(x) };
    if coefficient == 0 {
        return Decimal::NaN;
    }
    let value = ln_value(coefficient, exponent).divide(&ln_fixed(&Fixed::whole(u128::from(base))));
    let result = value.to_decimal(0);
    let whole = result.quantized(0, super::decimal::Rounding::HalfEven);
    // Sixty places of zeros are no accident.
    let off = value.subtract(&Fixed::from_decimal(whole));
    if off.units.digits() < PLACES - 60 { whole } else { result }
}

/// 6,145 times the logarithm of ten: the logarithm of what is just too large for a decimal.
fn largest_exponent() -> Decimal {
    Fixed { negative: false, units: ln_10().units.multiply(&Natural::new(6_145)) }.to_decimal(0)
}

/// `x` to the power of `y`.
pub(super) fn pow(x: Decimal, y: Decimal) -> Decimal {
    if y.is_zero() {
        // A fault of MongoDB's library: 10 to the power of 0 is 0. Other bases give 1.
        return if is_ten(x) { zero(MIN_EXPONENT) } else { padded(ONE) };
    }
    // Whether it is odd, if it is a whole number.
    let odd = y.is_odd();
    match (x, y) {
        // Whatever the power, even of what is no number.
        (_, Decimal::NaN) if is_one(x) => padded(ONE),
        (Decimal::NaN, _) | (_, Decimal::NaN) => Decimal::NaN,
        _ if x.is_zero() => zero(MIN_EXPONENT),
        (Decimal::Finite { negative, coefficient, exponent }, Decimal::Finite { .. }) => {
            if negative && odd.is_none() {
                return Decimal::NaN;
            }
            let exponent_value = ln_value(coefficient, exponent).to_decimal(0).multiply(y);
            let power = if parts(exponent_value).is_some_and(|(_, c, e)| leading(c, e) < 6) {
                let precise = ln_value(coefficient, exponent).multiply(&Fixed::from_decimal(y));
                let (value, power) = exp_parts(&precise);
                value.to_decimal(power)
            } else {
                padded(exp(exponent_value))
            };
            match power {
                // Too small or too large for any number; its sign is gone too.
                power if power.is_zero() => zero(MIN_EXPONENT),
                power if largest_exponent().subtract(exponent_value).is_negative() => power,
                power if negative && odd == Some(true) => power.negated(),
                power => power,
            }
        }
        _ => {
            // One of them is infinite: the power grows beyond all bounds or vanishes.
            let distance = x.absolute().subtract(ONE);
            if distance.is_zero() {
                return padded(ONE);
            }
            let vanishes = distance.is_negative() != y.is_negative();
            match (vanishes, x.is_negative() && odd == Some(true)) {
                (true, _) => zero(MIN_EXPONENT),
                (false, negative) => Decimal::Infinity { negative },
            }
        }
    }
}

/// The argument modulo a right angle as a number of at most half of it, and which right angle it is next to.
fn reduced(x: Decimal) -> Option<(Fixed, u32)> {
    let (negative, coefficient, exponent) = parts(x)?;
    // As many more places of pi as the argument has digits before the point.
    let extra = usize::try_from(leading(coefficient, exponent).max(0)).ok()? + 10;
    let places = PLACES + extra;
    let right_angle = pi_units(places).divide_small(2).0;
    let shift = i32::try_from(places).ok()? + exponent;
    let distance = usize::try_from(shift.unsigned_abs()).ok()?;
    let units = Natural::new(coefficient);
    let units = if shift >= 0 { units.shifted(distance) } else { units.divide(&Natural::power_of_ten(distance)).0 };
    let (mut turns, mut rest) = units.divide(&right_angle);
    let mut beyond = false;
    if rest.add(&rest) > right_angle {
        turns = turns.add(&Natural::new(1));
        rest = right_angle.distance(&rest);
        beyond = true;
    }
    let quarter = turns.divide_small(4).1;
    let quarter = if negative { (4 - quarter) % 4 } else { quarter };
    let (units, _) = rest.divide(&Natural::power_of_ten(extra));
    Some((Fixed { negative: negative != beyond, units }, quarter))
}

fn sin_series(x: &Fixed) -> Fixed {
    series(x.clone(), &x.multiply(x).negated(), |index| 2 * index * (2 * index + 1))
}

fn cos_series(x: &Fixed) -> Fixed {
    series(Fixed::whole(1), &x.multiply(x).negated(), |index| (2 * index - 1) * 2 * index)
}

/// Sine and cosine together.
fn circular(x: Decimal) -> Option<(Fixed, Fixed)> {
    let (rest, quarter) = reduced(x)?;
    let (sin, cos) = (sin_series(&rest), cos_series(&rest));
    Some(match quarter {
        0 => (sin, cos),
        1 => (cos, sin.negated()),
        2 => (sin.negated(), cos.negated()),
        _ => (cos.negated(), sin),
    })
}

/// The sine.
pub(super) fn sin(x: Decimal) -> Decimal {
    if x.is_zero() {
        return x;
    }
    if is_tiny(x) { padded(x) } else { circular(x).map_or(Decimal::NaN, |(sin, _)| sin.to_decimal(0)) }
}

/// The cosine.
pub(super) fn cos(x: Decimal) -> Decimal {
    circular(x).map_or(Decimal::NaN, |(_, cos)| cos.to_decimal(0))
}

/// The tangent.
pub(super) fn tan(x: Decimal) -> Decimal {
    if x.is_zero() {
        return small_zero(x);
    }
    if is_tiny(x) { padded(x) } else { circular(x).map_or(Decimal::NaN, |(sin, cos)| sin.divide(&cos).to_decimal(0)) }
}

/// The angle whose tangent is `x`, from nothing to a right angle.
fn atan_fixed(x: &Fixed) -> Fixed {
    if x.negative {
        return atan_fixed(&x.clone().negated()).negated();
    }
    let one = Fixed::whole(1);
    if x.units > one.units {
        return half_pi().subtract(&atan_fixed(&one.divide(x)));
    }
    // Halving the angle four times makes the series short.
    let mut x = x.clone();
    for _ in 0..4 {
        x = x.divide(&one.add(&one.add(&x.multiply(&x)).square_root()));
    }
    let angle = inverse_tangent_series(&x, true);
    Fixed { negative: false, units: angle.units.multiply(&Natural::new(16)) }
}

/// The inverse tangent.
pub(super) fn atan(x: Decimal) -> Decimal {
    match x {
        Decimal::NaN => Decimal::NaN,
        Decimal::Infinity { negative } => {
            let angle = half_pi().to_decimal(0);
            if negative { angle.negated() } else { angle }
        }
        _ if x.is_zero() => x,
        _ if is_tiny(x) => padded(x),
        Decimal::Finite { negative, coefficient, exponent } => {
            if leading(coefficient, exponent) > 80 {
                return atan(Decimal::Infinity { negative });
            }
            atan_fixed(&Fixed::from_decimal(x)).to_decimal(0)
        }
    }
}

/// Whether there is a minus in front, be it of zero; nothing when there is no number.
fn sign(x: Decimal) -> Option<bool> {
    match x {
        Decimal::Finite { negative, .. } | Decimal::Infinity { negative } => Some(negative),
        Decimal::NaN => None,
    }
}

/// The angle of the point (`x`, `y`).
pub(super) fn atan2(y: Decimal, x: Decimal) -> Decimal {
    let (Some(negative_y), Some(negative_x)) = (sign(y), sign(x)) else { return Decimal::NaN };
    let infinite = |value| matches!(value, Decimal::Infinity { .. });
    let angle = match (y.is_zero(), x.is_zero()) {
        (true, _) if negative_x => pi().to_decimal(0),
        (true, _) => zero(MIN_EXPONENT),
        (false, true) => half_pi().to_decimal(0),
        _ if infinite(y) && infinite(x) => {
            let angle = pi().divide_small(4);
            if negative_x { pi().subtract(&angle) } else { angle }.to_decimal(0)
        }
        _ => {
            let ratio = y.absolute().divide(x.absolute());
            let angle = if ratio.is_zero() { zero(MIN_EXPONENT) } else { atan(ratio) };
            if negative_x { pi().subtract(&Fixed::from_decimal(angle)).to_decimal(0) } else { angle }
        }
    };
    if negative_y { angle.negated() } else { angle }
}

/// The inverse sine of a number from -1 to 1.
pub(super) fn asin(x: Decimal) -> Decimal {
    if x.is_zero() {
        return small_zero(x);
    }
    if is_tiny(x) {
        return padded(x);
    }
    let x = Fixed::from_decimal(x);
    let other = Fixed::whole(1).subtract(&x.multiply(&x)).square_root();
    if other.is_zero() {
        let angle = half_pi();
        return if x.negative { angle.negated() } else { angle }.to_decimal(0);
    }
    atan_fixed(&x.divide(&other)).to_decimal(0)
}

/// The inverse cosine of a number from -1 to 1.
pub(super) fn acos(x: Decimal) -> Decimal {
    let x = Fixed::from_decimal(x);
    let other = Fixed::whole(1).subtract(&x.multiply(&x)).square_root();
    if other.is_zero() {
        return if x.negative { pi().to_decimal(0) } else { zero(MIN_EXPONENT) };
    }
    if x.is_zero() {
        return half_pi().to_decimal(0);
    }
    let angle = atan_fixed(&other.divide(&Fixed { negative: false, units: x.units }));
    if x.negative { pi().subtract(&angle) } else { angle }.to_decimal(0)
}

/// `exp(x)` and `exp(-x)`; nothing when the second is lost beside the first.
fn exponentials(x: Decimal) -> Option<(Fixed, Fixed)> {
    let (_, coefficient, exponent) = parts(x)?;
    if leading(coefficient, exponent) > 3 {
        return None;
    }
    let x = Fixed::from_decimal(x);
    if x.exceeds(LARGE) {
        return None;
    }
    let up = exp_fixed(&Fixed { negative: false, units: x.units });
    let down = Fixed::whole(1).divide(&up);
    Some((up, down))
}

/// Half of `exp(x)` for a large `x`.
fn half_exp(x: Decimal) -> Decimal {
    match parts(x) {
        Some((_, coefficient, exponent)) if leading(coefficient, exponent) <= 4 => {
            let ln_2 = ln_fixed(&Fixed::whole(2));
            let (value, power) = exp_parts(&Fixed::from_decimal(x.absolute()).subtract(&ln_2));
            value.to_decimal(power)
        }
        Some(_) => INFINITY,
        None => x.absolute(),
    }
}

fn with_sign_of(x: Decimal, magnitude: Decimal) -> Decimal {
    if x.is_negative() { magnitude.negated() } else { magnitude }
}

/// The hyperbolic sine.
pub(super) fn sinh(x: Decimal) -> Decimal {
    if x.is_zero() {
        return small_zero(x);
    }
    if is_tiny(x) {
        return padded(x);
    }
    let magnitude = match exponentials(x) {
        Some((up, down)) => up.subtract(&down).divide_small(2).to_decimal(0),
        None => half_exp(x),
    };
    with_sign_of(x, magnitude)
}

/// The hyperbolic cosine.
pub(super) fn cosh(x: Decimal) -> Decimal {
    if x.is_zero() {
        return padded(ONE);
    }
    match exponentials(x) {
        Some((up, down)) => up.add(&down).divide_small(2).to_decimal(0),
        None => half_exp(x),
    }
}

/// The hyperbolic tangent.
pub(super) fn tanh(x: Decimal) -> Decimal {
    if x == Decimal::NaN || x.is_zero() {
        return x;
    }
    if is_tiny(x) {
        return padded(x);
    }
    let magnitude = match exponentials(x) {
        // Above this nothing is left of the difference to 1 in 34 digits.
        Some(_) if Fixed::from_decimal(x).exceeds(40) => ONE,
        Some((up, down)) => up.subtract(&down).divide(&up.add(&down)).to_decimal(0),
        None => ONE,
    };
    with_sign_of(x, magnitude)
}

/// `ln(x + sqrt(x * x + one))`, where `one` is 1 or -1, for `x` not below zero.
fn area(x: Decimal, one: &Fixed) -> Decimal {
    let Some((_, coefficient, exponent)) = parts(x) else { return x };
    if leading(coefficient, exponent) > 40 {
        return ln_value(coefficient, exponent).add(&ln_fixed(&Fixed::whole(2))).to_decimal(0);
    }
    let x = Fixed::from_decimal(x);
    let sum = x.add(&x.multiply(&x).add(one).square_root());
    let wide = sum.units.digits().saturating_sub(PLACES + 1);
    let mantissa = Fixed { negative: false, units: sum.units.divide(&Natural::power_of_ten(wide)).0 };
    let powers = Natural::new(u128::try_from(wide).unwrap_or(0)).multiply(&ln_10().units);
    ln_fixed(&mantissa).add(&Fixed { negative: false, units: powers }).to_decimal(0)
}

/// The inverse hyperbolic sine.
pub(super) fn asinh(x: Decimal) -> Decimal {
    if x.is_zero() {
        return smallest_zero(x);
    }
    match parts(x) {
        Some((negative, c, e)) if leading(c, e) < COARSE => binary128::nearest_to_small(negative, c, e),
        _ if is_tiny(x) => padded(x),
        _ => with_sign_of(x, area(x.absolute(), &Fixed::whole(1))),
    }
}

/// The inverse hyperbolic cosine of a number not below 1.
pub(super) fn acosh(x: Decimal) -> Decimal {
    if is_one(x) { Decimal::ZERO } else { area(x, &Fixed::whole(1).negated()) }
}

/// The inverse hyperbolic tangent of a number from -1 to 1.
pub(super) fn atanh(x: Decimal) -> Decimal {
    if x.is_zero() {
        return smallest_zero(x);
    }
    if is_one(x.absolute()) {
        return with_sign_of(x, INFINITY);
    }
    if is_tiny(x) {
        let is_unchanged = parts(x).is_some_and(|(_, c, e)| leading(c, e) < UNCHANGED);
        return if is_unchanged { x } else { padded(x) };
    }
    let one = Fixed::whole(1);
    let magnitude = Fixed::from_decimal(x.absolute());
    let ratio = one.add(&magnitude).divide(&one.subtract(&magnitude));
    let wide = ratio.units.digits().saturating_sub(PLACES + 1);
    let mantissa = Fixed { negative: false, units: ratio.units.divide(&Natural::power_of_ten(wide)).0 };
    let powers = Natural::new(u128::try_from(wide).unwrap_or(0)).multiply(&ln_10().units);
    let total = ln_fixed(&mantissa).add(&Fixed { negative: false, units: powers }).divide_small(2);
    with_sign_of(x, total.to_decimal(0))
}

/// Degrees to radians or back, by a factor of 34 digits.
pub(super) fn convert_angle(x: Decimal, to_radians: bool) -> Decimal {
    let half_turn = pi();
    let degrees = Fixed::whole(180);
    let factor = if to_radians { half_turn.divide(&degrees) } else { degrees.divide(&half_turn) };
    x.multiply(factor.to_decimal(0))
}
