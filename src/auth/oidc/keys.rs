//! The keys of an issuer: a JSON web key set (RFC 7517), of which only public keys for signatures count.

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The algorithms of RSA keys.
const RSA: &[Algorithm] =
    &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

/// Why a text is no set of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error("the key set is no JSON object with a list `keys`")]
    Unreadable,
    /// Nothing in it checks signatures.
    #[error("the key set has no public key for signatures (RSA, P-256, P-384 or Ed25519)")]
    Useless,
}

/// Keys that check signatures of tokens.
///
/// Symmetric keys are left out: who can read the set could sign with them.
pub struct IssuerKeys(Vec<IssuerKey>);

struct IssuerKey {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// A key set as it is written.
#[derive(Deserialize)]
struct Written {
    keys: Vec<Value>,
}

impl IssuerKeys {
    /// Reads a key set. Keys of unknown kinds are skipped.
    ///
    /// # Errors
    /// [`KeysError`] without any usable key.
    pub fn read(text: &[u8]) -> Result<Self, KeysError> {
        let written: Written = serde_json::from_slice(text).map_err(|_| KeysError::Unreadable)?;
        let keys: Vec<IssuerKey> = written.keys.into_iter().filter_map(IssuerKey::read).collect();
        if keys.is_empty() { Err(KeysError::Useless) } else { Ok(Self(keys)) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The key of a token. A token that names none has one only if a single key fits its algorithm.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<FoundKey<'_>> {
        let fits = |key: &&IssuerKey| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id);
        let mut fitting = self.0.iter().filter(fits);
        let found = fitting.next()?;
        fitting.next().is_none().then_some(FoundKey { key: &found.key, algorithm })
    }
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

impl IssuerKey {
    fn read(written: Value) -> Option<Self> {
        let Jwk { common, algorithm } = serde_json::from_value(written).ok()?;
        let is_for_signatures = common.public_key_use.is_none_or(|purpose| purpose == PublicKeyUse::Signature)
            && common.key_operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        if !is_for_signatures {
            return None;
        }
        let (possible, key) = match algorithm {
            AlgorithmParameters::RSA(key) => (RSA, DecodingKey::from_rsa_components(&key.n, &key.e)),
            AlgorithmParameters::EllipticCurve(key) => {
                let possible: &[Algorithm] = match key.curve {
                    EllipticCurve::P256 => &[Algorithm::ES256],
                    EllipticCurve::P384 => &[Algorithm::ES384],
                    _ => return None,
                };
                (possible, DecodingKey::from_ec_components(&key.x, &key.y))
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                (&[Algorithm::EdDSA][..], DecodingKey::from_ed_components(&key.x))
            }
            _ => return None,
        };
        let algorithms = match common.key_algorithm {
            Some(only) => vec![only.to_string().parse().ok().filter(|only| possible.contains(only))?],
            None => possible.to_vec(),
        };
        Some(Self { id: common.key_id, algorithms, key: key.ok()? })
    }
}

/// A key with the one algorithm that it is used with.
pub(super) struct FoundKey<'a> {
    key: &'a DecodingKey,
    algorithm: Algorithm,
}

impl FoundKey<'_> {
    /// The claims of a token that this key signed; they are not checked yet.
    pub(super) fn signed(&self, token: &str) -> Option<Map<String, Value>> {
        let mut validation = Validation::new(self.algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        jsonwebtoken::decode(token, self.key, &validation).ok().map(|data| data.claims)
    }
}

/// Whether a token is signed in a way that issuers use: with a private key. Tokens of the service's own are not.
pub fn may_be_of_issuer(token: &str) -> bool {
    jsonwebtoken::decode_header(token).is_ok_and(|header| is_asymmetric(header.alg))
}

/// Listed, so that an algorithm which the library adds later is not accepted without a decision here.
pub(super) fn is_asymmetric(algorithm: Algorithm) -> bool {
    RSA.contains(&algorithm) || [Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA].contains(&algorithm)
}
