//! Exact divisibility, for `multipleOf` in schemas.

use bson::Bson;

use super::decimal::Decimal;
use super::value::Number;

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
