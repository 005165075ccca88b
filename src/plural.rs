//! Numbers of things in messages: one of them, or several.

use std::fmt::Display;

/// `1 line`, `2 lines`.
pub fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!([0, 1, 2, 11].map(|count| counted(count, "line")), ["0 lines", "1 line", "2 lines", "11 lines"]);
    }
}
