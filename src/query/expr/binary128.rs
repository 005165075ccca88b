//! Decimals as the server's library sees them where it takes them through binary numbers of 128 bits.

use super::decimal::{Decimal, round};
use super::natural::Natural;

/// The smallest binary number of 128 bits is 2 to the power of minus this.
const SMALLEST: u32 = 16_494;
/// Enough decimal places for 34 digits of the smallest number, which is about 6.5E-4966.
const PLACES: usize = 5_006;

/// The nearest multiple of the smallest binary number, for a decimal so small that the binary numbers about it have that distance.
pub(super) fn nearest_to_small(negative: bool, coefficient: u128, exponent: i32) -> Decimal {
    let smallest = Natural::power_of_two(SMALLEST);
    let unit = Natural::power_of_ten(usize::try_from(-exponent).unwrap_or_default());
    let (whole, rest) = Natural::new(coefficient).multiply(&smallest).divide(&unit);
    let is_up = match rest.add(&rest).cmp(&unit) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => whole.is_odd(),
        std::cmp::Ordering::Less => false,
    };
    let multiple = if is_up { whole.add(&Natural::new(1)) } else { whole };
    if multiple.is_zero() {
        return Decimal::Finite { negative, coefficient: 0, exponent: 0 };
    }
    let (units, rest) = multiple.shifted(PLACES).divide(&smallest);
    round(negative, &units, -i32::try_from(PLACES).unwrap_or(i32::MAX), !rest.is_zero())
}
