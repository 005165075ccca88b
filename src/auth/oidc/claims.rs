//! What a token of the issuer says, once its signature is checked.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{IssuerKeys, is_asymmetric};
use super::settings::TokenRules;

/// `sub` has at most 255 characters (OpenID Connect Core, section "ID Token").
const LONGEST_SUBJECT: usize = 255;
/// As for users of the service.
const LONGEST_NAME: usize = 256;

/// The kinds of tokens that open a service (RFC 7519 and 9068), in small letters. Issuers sign other things with the
/// same keys: notes of a sign-out, proofs of possession, requests.
const KINDS: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// Why a token does not open the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenProblem {
    /// It cannot be a token of the issuer, whatever the keys.
    Invalid,
    /// It may be one, but no known key fits it.
    UnknownKey,
    /// The issuer made it, but not for this; the reason.
    Unfit(&'static str),
    /// It was one.
    Expired,
}

/// Who bears a token, in the words of the issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The permanent id of the subject, unique at the issuer.
    pub subject: String,
    /// Whether it is a program that signed in for itself.
    pub is_client: bool,
    /// The name for a new user.
    pub user_name: String,
    /// The name of the group here. None: the service has no place for the bearer.
    pub group: Option<String>,
    /// Mail address.
    pub email: Option<String>,
    /// Given name.
    pub first_name: Option<String>,
    /// Family name.
    pub last_name: Option<String>,
    /// When the issuer issued the token, in unix seconds.
    pub issued_at: i64,
    not_before: i64,
    expires_at: i64,
}

/// The claim that is looked at before the signature.
#[derive(Deserialize)]
struct Origin {
    iss: String,
}

impl TokenRules {
    /// The bearer of a token that one of the keys signed. [`TokenRules::check_time`] says whether it is valid now.
    ///
    /// # Errors
    /// [`TokenProblem`]; [`TokenProblem::UnknownKey`] only for a token that names the issuer.
    pub fn read(&self, keys: Option<&IssuerKeys>, token: &str) -> Result<Bearer, TokenProblem> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenProblem::Invalid)?;
        if !is_asymmetric(header.alg) || header.crit.is_some() {
            return Err(TokenProblem::Invalid);
        }
        if header.typ.is_some_and(|kind| !KINDS.contains(&kind.to_ascii_lowercase().as_str())) {
            return Err(TokenProblem::Invalid);
        }
        // A token of somebody else must not make the service ask its issuer for keys.
        let origin: Origin =
            jsonwebtoken::dangerous::insecure_decode_claims(token).map_err(|_| TokenProblem::Invalid)?;
        if origin.iss != self.issuer {
            return Err(TokenProblem::Invalid);
        }
        let key = keys.and_then(|keys| keys.find(header.kid.as_deref(), header.alg)).ok_or(TokenProblem::UnknownKey)?;
        let claims = key.signed(token).ok_or(TokenProblem::Invalid)?;
        self.bearer(&claims)
    }

    /// Whether a token is valid at this moment.
    ///
    /// # Errors
    /// [`TokenProblem::Expired`] and [`TokenProblem::Unfit`].
    pub fn check_time(&self, bearer: &Bearer, now: DateTime<Utc>) -> Result<(), TokenProblem> {
        let (now, skew) = (now.timestamp(), self.skew.num_seconds());
        if bearer.expires_at <= now - skew {
            return Err(TokenProblem::Expired);
        }
        if bearer.not_before > now + skew || bearer.issued_at > now + skew {
            return Err(TokenProblem::Unfit("it is not good yet; are the clocks right?"));
        }
        Ok(())
    }

    fn bearer(&self, claims: &Map<String, Value>) -> Result<Bearer, TokenProblem> {
        if text(claims, "iss") != Some(&self.issuer) {
            return Err(TokenProblem::Invalid);
        }
        let is_for_us = match claims.get("aud") {
            Some(Value::String(audience)) => *audience == self.audience,
            Some(Value::Array(audiences)) => audiences.iter().any(|audience| *audience == self.audience),
            _ => false,
        };
        if !is_for_us {
            return Err(TokenProblem::Unfit("its aud does not name this service"));
        }
        // Valid only together with a proof that the bearer has a key (RFC 8705, RFC 9449), which the service does not check.
        if claims.contains_key("cnf") {
            return Err(TokenProblem::Unfit("it is bound to a key (cnf)"));
        }
        let subject = text(claims, "sub").filter(|subject| is_short(subject, LONGEST_SUBJECT));
        let subject = subject.ok_or(TokenProblem::Unfit("it has no sub of 1 to 255 characters"))?.to_owned();
        let expires_at = seconds(claims, "exp").ok_or(TokenProblem::Unfit("it has no exp"))?;
        let issued_at = seconds(claims, "iat").ok_or(TokenProblem::Unfit("it has no iat"))?;
        let not_before = match claims.get("nbf") {
            None => i64::MIN,
            Some(_) => seconds(claims, "nbf").ok_or(TokenProblem::Unfit("its nbf is no time"))?,
        };
        let is_client = ["client_id", "azp"].into_iter().any(|name| text(claims, name) == Some(&subject));
        let known = |name| text(claims, name).filter(|known| is_short(known, LONGEST_NAME)).map(str::to_owned);
        Ok(Bearer {
            is_client,
            user_name: text(claims, &self.user_claim).unwrap_or(&subject).to_owned(),
            group: self.group(claims),
            email: known("email"),
            first_name: known("given_name"),
            last_name: known("family_name"),
            issued_at,
            not_before,
            expires_at,
            subject,
        })
    }

    /// The group of the first entry of the settings that fits, else the default one.
    fn group(&self, claims: &Map<String, Value>) -> Option<String> {
        let has = |value: &str| match claim(claims, &self.groups_claim) {
            Some(Value::String(only)) => only == value,
            Some(Value::Array(values)) => values.iter().any(|one| one == value),
            _ => false,
        };
        let fitting = self.groups.iter().find(|(value, _)| has(value)).map(|(_, group)| group);
        fitting.or(self.default_group.as_ref()).cloned()
    }
}

/// A claim by its name, which may have dots, or by its path.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        claim(claims.get(first)?.as_object()?, rest)
    })
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    claim(claims, name)?.as_str()
}

fn is_short(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.chars().count() <= longest
}

/// A time, which may have a fraction.
#[expect(clippy::cast_possible_truncation, reason = "the cast ends at the bounds, and so does time")]
fn seconds(claims: &Map<String, Value>, name: &str) -> Option<i64> {
    let value = claims.get(name)?;
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds.floor() as i64))
}
