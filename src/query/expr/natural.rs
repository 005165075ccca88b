//! Natural numbers of any size, for exact decimal arithmetic.

use std::cmp::Ordering;

const BASE: u32 = 1_000_000_000;
const BASE_DIGITS: usize = 9;

/// A natural number: limbs of nine decimal digits, the lowest first, none of them zero at the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Natural(Vec<u32>);

/// Below the base, so it always fits.
fn low(value: u64) -> u32 {
    u32::try_from(value).expect("the value is below the base")
}

impl Natural {
    /// Zero.
    pub(super) fn zero() -> Self {
        Self(Vec::new())
    }

    /// From a machine number.
    pub(super) fn new(mut value: u128) -> Self {
        let mut limbs = Vec::new();
        while value > 0 {
            limbs.push(u32::try_from(value % u128::from(BASE)).expect("the value is below the base"));
            value /= u128::from(BASE);
        }
        Self(limbs)
    }

    /// Ten to the power of `power`.
    pub(super) fn power_of_ten(power: usize) -> Self {
        let mut limbs = vec![0; power / BASE_DIGITS];
        limbs.push(10_u32.pow(u32::try_from(power % BASE_DIGITS).unwrap_or(0)));
        Self(limbs)
    }

    /// From decimal digits; anything else among them is skipped.
    pub(super) fn from_digits(digits: &str) -> Self {
        let bytes: Vec<u32> = digits.bytes().filter(u8::is_ascii_digit).map(|byte| u32::from(byte - b'0')).collect();
        let limbs = bytes.rchunks(BASE_DIGITS).map(|chunk| chunk.iter().fold(0, |limb, digit| limb * 10 + digit));
        Self(limbs.collect()).trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    /// As a machine number, if it is small enough.
    pub(super) fn to_u128(&self) -> Option<u128> {
        self.0
            .iter()
            .rev()
            .try_fold(0_u128, |value, limb| value.checked_mul(u128::from(BASE))?.checked_add(u128::from(*limb)))
    }

    /// Whether it is zero.
    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is odd.
    pub(super) fn is_odd(&self) -> bool {
        self.0.first().is_some_and(|limb| limb % 2 == 1)
    }

    /// How many decimal digits it has; zero has none.
    pub(super) fn digits(&self) -> usize {
        match self.0.last() {
            None => 0,
            Some(top) => (self.0.len() - 1) * BASE_DIGITS + usize::try_from(top.ilog10()).unwrap_or(0) + 1,
        }
    }

    /// The sum.
    pub(super) fn add(&self, other: &Self) -> Self {
        let mut limbs = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        let mut carry = 0;
        for index in 0..self.0.len().max(other.0.len()) {
            let sum = self.0.get(index).unwrap_or(&0) + other.0.get(index).unwrap_or(&0) + carry;
            limbs.push(sum % BASE);
            carry = sum / BASE;
        }
        limbs.push(carry);
        Self(limbs).trimmed()
    }

    /// The distance between the two.
    pub(super) fn distance(&self, other: &Self) -> Self {
        let (large, small) = if *self < *other { (other, self) } else { (self, other) };
        let mut limbs = Vec::with_capacity(large.0.len());
        let mut borrow = 0;
        for (index, limb) in large.0.iter().enumerate() {
            let taken = small.0.get(index).unwrap_or(&0) + borrow;
            borrow = u32::from(*limb < taken);
            limbs.push(limb + borrow * BASE - taken);
        }
        Self(limbs).trimmed()
    }

    /// The product.
    pub(super) fn multiply(&self, other: &Self) -> Self {
        let mut limbs = vec![0_u32; self.0.len() + other.0.len() + 1];
        for (index, left) in self.0.iter().enumerate() {
            let mut carry = 0_u64;
            for (offset, slot) in limbs[index..].iter_mut().enumerate() {
                let right = other.0.get(offset).map_or(0, |limb| u64::from(*limb));
                if offset >= other.0.len() && carry == 0 {
                    break;
                }
                let sum = u64::from(*slot) + u64::from(*left) * right + carry;
                *slot = low(sum % u64::from(BASE));
                carry = sum / u64::from(BASE);
            }
        }
        Self(limbs).trimmed()
    }

    /// Times ten to the power of `power`.
    pub(super) fn shifted(&self, power: usize) -> Self {
        if self.is_zero() { Self::zero() } else { self.multiply(&Self::power_of_ten(power)) }
    }

    /// Quotient and remainder by a number that fits a limb and is not zero.
    pub(super) fn divide_small(&self, divisor: u32) -> (Self, u32) {
        let mut limbs = vec![0; self.0.len()];
        let mut rest = 0_u64;
        for (index, limb) in self.0.iter().enumerate().rev() {
            let part = rest * u64::from(BASE) + u64::from(*limb);
            limbs[index] = low(part / u64::from(divisor));
            rest = part % u64::from(divisor);
        }
        (Self(limbs).trimmed(), low(rest))
    }

    /// Quotient and remainder; by zero the quotient is zero.
    pub(super) fn divide(&self, divisor: &Self) -> (Self, Self) {
        if let [limb] = divisor.0[..] {
            let (quotient, rest) = self.divide_small(limb);
            return (quotient, Self::new(u128::from(rest)));
        }
        if divisor.is_zero() || self < divisor {
            return (Self::zero(), self.clone());
        }
        self.divide_long(divisor)
    }

    /// Long division limb by limb. Both are first scaled so that the divisor's top limb is at least half the
    /// base: then an estimate from the top limbs is at most two too large.
    fn divide_long(&self, divisor: &Self) -> (Self, Self) {
        let top = divisor.0.last().copied().unwrap_or(1);
        let scale = BASE / (top + 1);
        let factor = Self::new(u128::from(scale));
        let divisor = divisor.multiply(&factor);
        let mut rest = self.multiply(&factor).0;
        let size = divisor.0.len();
        let (high, second) = (u64::from(divisor.0[size - 1]), u64::from(divisor.0[size - 2]));
        rest.resize(rest.len().max(size) + 1, 0);
        let mut quotient = vec![0; rest.len() - size];
        for index in (0..quotient.len()).rev() {
            let window = &mut rest[index..=index + size];
            let front = u64::from(window[size]) * u64::from(BASE) + u64::from(window[size - 1]);
            let mut guess = (front / high).min(u64::from(BASE) - 1);
            let next = u64::from(window[size - 2]);
            while {
                let left = front - guess * high;
                left < u64::from(BASE) && guess * second > left * u64::from(BASE) + next
            } {
                guess -= 1;
            }
            if subtract_multiple(window, &divisor.0, guess) {
                guess -= 1;
                add_back(window, &divisor.0);
            }
            quotient[index] = low(guess);
        }
        let (rest, _) = Self(rest).trimmed().divide_small(scale);
        (Self(quotient).trimmed(), rest)
    }

    /// The whole part of the square root, by Newton's method from above.
    pub(super) fn square_root(&self) -> Self {
        if self.is_zero() {
            return Self::zero();
        }
        let mut root = Self::power_of_ten(self.digits().div_ceil(2));
        loop {
            let (next, _) = root.add(&self.divide(&root).0).divide_small(2);
            if next >= root {
                return root;
            }
            root = next;
        }
    }
}

/// `window -= divisor * guess`; true when that went below zero.
fn subtract_multiple(window: &mut [u32], divisor: &[u32], guess: u64) -> bool {
    let (mut carry, mut borrow) = (0_u64, 0_u32);
    for (index, slot) in window.iter_mut().enumerate() {
        let product = divisor.get(index).map_or(0, |limb| u64::from(*limb)) * guess + carry;
        carry = product / u64::from(BASE);
        let taken = low(product % u64::from(BASE)) + borrow;
        borrow = u32::from(*slot < taken);
        *slot = *slot + borrow * BASE - taken;
    }
    borrow == 1
}

fn add_back(window: &mut [u32], divisor: &[u32]) {
    let mut carry = 0;
    for (index, slot) in window.iter_mut().enumerate() {
        let sum = *slot + divisor.get(index).unwrap_or(&0) + carry;
        *slot = sum % BASE;
        carry = sum / BASE;
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
