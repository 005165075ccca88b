//! Reading the `Authorization` header.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Secret;

/// The credentials of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// A token, sent as `Bearer <token>` or alone.
    Token(Secret),
    /// A user name and a password, sent as `Basic <base64 of name:password>`.
    Basic {
        /// Everything before the first colon.
        user_name: String,
        /// Everything after it.
        password: Secret,
    },
}

impl Authorization {
    /// Reads the value of the header; `None` for an unknown scheme.
    pub fn parse(value: &str) -> Option<Self> {
        let value = value.trim();
        match value.split_once(' ') {
            None if value.is_empty() || is_scheme(value) => None,
            None => Some(Self::Token(value.into())),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => Self::token(rest.trim()),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("basic") => Self::basic(rest.trim()),
            Some(_) => None,
        }
    }

    fn token(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self::Token(token.into()))
    }

    fn basic(encoded: &str) -> Option<Self> {
        let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        let (user_name, password) = text.split_once(':')?;
        Some(Self::Basic { user_name: user_name.to_owned(), password: password.into() })
    }
}

fn is_scheme(value: &str) -> bool {
    value.eq_ignore_ascii_case("bearer") || value.eq_ignore_ascii_case("basic")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Authorization {
        Authorization::Token(text.into())
    }

    #[test]
    fn the_scheme_bearer_is_read_in_any_case() {
        for value in ["Bearer abc.def", "bearer abc.def", "BEARER  abc.def "] {
            assert_eq!(Authorization::parse(value), Some(token("abc.def")));
        }
    }

    #[test]
    fn a_token_may_come_without_a_scheme() {
        assert_eq!(Authorization::parse("abc.def"), Some(token("abc.def")));
    }

    #[test]
    fn basic_holds_a_name_and_a_password_with_colons() {
        // ada:pass:word
        let expected = Authorization::Basic { user_name: "ada".to_owned(), password: "pass:word".into() };
        assert_eq!(Authorization::parse("basic YWRhOnBhc3M6d29yZA=="), Some(expected));
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        for value in ["", "  ", "Bearer", "Bearer ", "Basic", "Basic !!", "Basic YWRh", "Digest abc", "Bearer\t"] {
            assert_eq!(Authorization::parse(value), None, "{value}");
        }
    }

    #[test]
    fn what_was_read_does_not_print() {
        assert!(!format!("{:?}", Authorization::parse("Bearer abc.def")).contains("abc"));
    }
}
