//! Tokens of an issuer of OpenID Connect: which are good, and what they say of their bearers.
//!
//! Pure: keys and a token go in, claims or a refusal come out. The module `oidc` fetches the keys.

mod claims;
mod keys;
mod settings;

pub use self::claims::{Bearer, TokenProblem};
pub use self::keys::{IssuerKeys, KeysError, may_be_of_issuer};
pub use self::settings::{OidcSettings, TokenRules, may_be_asked};
