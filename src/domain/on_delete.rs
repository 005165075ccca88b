//! What deleting an object does to references to it: as a field says, and as a request asks for.

/// What deleting an object does to references to it. Of two such wishes the later one in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum OnDelete {
    /// The references dangle.
    #[default]
    Keep,
    /// The references become null, in the same step.
    Clear,
    /// The delete is refused while there are any.
    Refuse,
}

impl OnDelete {
    /// The words for them, in the same order.
    pub const NAMES: [&str; 3] = ["keep", "clear", "refuse"];

    /// What a word stands for; the default for any other.
    pub fn named(word: &str) -> Self {
        match word {
            "clear" => Self::Clear,
            "refuse" => Self::Refuse,
            _ => Self::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_in_the_order_of_their_strictness() {
        assert_eq!(OnDelete::NAMES.map(OnDelete::named), [OnDelete::Keep, OnDelete::Clear, OnDelete::Refuse]);
        assert!(OnDelete::Keep < OnDelete::Clear && OnDelete::Clear < OnDelete::Refuse);
    }
}
