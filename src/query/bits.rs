//! The bitwise operators.

use super::compare::number;
use super::number::Number;
use super::raw::View;

/// A test of single bits of a whole number or of binary data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitTest {
    /// The requested outcome.
    pub question: BitQuestion,
    /// The positions, lowest bit 0, in order.
    pub positions: Box<[u64]>,
}

/// The four operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitQuestion {
    /// `$bitsAllSet`.
    AllSet,
    /// `$bitsAllClear`.
    AllClear,
    /// `$bitsAnySet`.
    AnySet,
    /// `$bitsAnyClear`.
    AnyClear,
}

impl BitTest {
    /// Sorts the positions and drops repeated ones.
    pub fn new(question: BitQuestion, mut positions: Vec<u64>) -> Self {
        positions.sort_unstable();
        positions.dedup();
        Self { question, positions: positions.into() }
    }

    /// The condition on the bits.
    pub fn question(&self) -> BitQuestion {
        self.question
    }

    /// Whether the bits of the value pass the test. Other types never pass, nor do numbers with a fraction or beyond 64
    /// bits.
    pub fn matches(&self, value: View<'_>) -> bool {
        let number = match (value, number(value)) {
            (View::Binary(_, bytes), _) => return self.answer(|position| bit_of_bytes(bytes, position)),
            (_, number) => number.and_then(Number::as_exact_int),
        };
        // Positions beyond the number repeat its sign.
        number.is_some_and(|number| self.answer(|position| number >> position.min(63) & 1 == 1))
    }

    fn answer(&self, bit: impl Fn(u64) -> bool) -> bool {
        match self.question {
            BitQuestion::AllSet => self.positions.iter().all(|&position| bit(position)),
            BitQuestion::AllClear => self.positions.iter().all(|&position| !bit(position)),
            BitQuestion::AnySet => self.positions.iter().any(|&position| bit(position)),
            BitQuestion::AnyClear => self.positions.iter().any(|&position| !bit(position)),
        }
    }
}

fn bit_of_bytes(bytes: &[u8], position: u64) -> bool {
    usize::try_from(position / 8)
        .ok()
        .and_then(|index| bytes.get(index))
        .is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}
