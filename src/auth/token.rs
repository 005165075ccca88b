//! The tokens of signed-in users: JSON web tokens, signed with HS256.
//!
//! A token is valid when one of the service's keys signed it with this algorithm. It must also name this service as
//! issuer, and must not have expired. After that, the directory decides whether its user exists, is active, and has the
//! same password (`epoch`).

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{AuthSettings, Secret};

/// Valid tokens have some 250 bytes. Longer ones are refused unread.
const LONGEST_TOKEN: usize = 2048;

/// A new key signs only after this time, when every instance knows it.
const KEY_GRACE: TimeDelta = TimeDelta::seconds(5);

/// Why a token does not open the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// This service did not issue the token.
    #[error("the token is not valid")]
    Invalid,
    /// It was one.
    #[error("the token has expired")]
    Expired,
    /// There is no key to sign with.
    #[error("there is no key to sign tokens with")]
    NoKey,
}

/// A key for signing and checking tokens.
#[derive(Clone)]
pub struct SigningKey {
    id: String,
    secret: Vec<u8>,
    created_at: DateTime<Utc>,
}

impl SigningKey {
    /// A key with the name that tokens carry as `kid`.
    pub fn new(id: impl Into<String>, secret: impl Into<Vec<u8>>, created_at: DateTime<Utc>) -> Self {
        Self { id: id.into(), secret: secret.into(), created_at }
    }

    /// A new random key of the length of the hash.
    pub fn random(id: impl Into<String>, created_at: DateTime<Utc>) -> Self {
        Self::new(id, rand::random::<[u8; 32]>(), created_at)
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key itself, for storing it.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// When it was made.
    pub fn created_at(&self) -> DateTime<Utc> {
        self.created_at
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A token that was just made.
#[derive(Debug, Clone)]
pub struct IssuedToken {
    /// The token, for its user alone.
    pub token: Secret,
    /// From when, in unix seconds.
    pub issued_at: i64,
    /// The expiry, in unix seconds; at that second it is no longer valid.
    pub expires_at: i64,
}

/// What a good token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenClaims {
    /// The user's `public_id`.
    pub user_id: i64,
    /// The epoch of the user's password when it was issued.
    pub epoch: i64,
    /// From when, in unix seconds.
    pub issued_at: i64,
    /// Until when, in unix seconds.
    pub expires_at: i64,
}

/// The claims as they are written into a token.
#[derive(Serialize, Deserialize)]
struct WrittenClaims {
    iss: String,
    sub: String,
    iat: i64,
    exp: i64,
    epoch: i64,
}

/// Makes and checks tokens.
pub struct Tokens {
    issuer: String,
    lifetime: TimeDelta,
    validation: Validation,
    ring: ArcSwap<KeyRing>,
}

/// The keys in use, with a cache of valid tokens. New keys bring a new cache, so that no token outlives its key.
struct KeyRing {
    /// Oldest first.
    keys: Vec<ReadyKey>,
    /// By hash, so that memory holds no token.
    checked: Cache<[u8; 32], TokenClaims>,
    capacity: u64,
}

struct ReadyKey {
    id: String,
    created_at: DateTime<Utc>,
    encoding: EncodingKey,
    decoding: DecodingKey,
    cursors: CursorKey,
}

impl Tokens {
    /// Works with the settings, and without a key until [`Tokens::use_keys`] brings some.
    pub fn new(settings: &AuthSettings) -> Self {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_issuer(&[&settings.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "sub"]);
        // The time is compared here, with the service's clock, to the second.
        validation.validate_exp = false;
        Self {
            issuer: settings.issuer.clone(),
            lifetime: TimeDelta::seconds(i64::from(settings.token_lifetime_s)),
            validation,
            ring: ArcSwap::from_pointee(KeyRing::new(Vec::new(), settings.token_cache)),
        }
    }

    /// From now on these keys check tokens, and the newest of them signs.
    pub fn use_keys(&self, keys: &[SigningKey]) {
        let capacity = self.ring.load().capacity;
        self.ring.store(Arc::new(KeyRing::new(keys.iter().map(ReadyKey::new).collect(), capacity)));
    }

    /// How long tokens are good.
    pub fn lifetime(&self) -> TimeDelta {
        self.lifetime
    }

    /// Makes a token for a user.
    ///
    /// # Errors
    /// [`TokenError::NoKey`] as long as there is none.
    pub fn issue(&self, user_id: i64, epoch: i64, now: DateTime<Utc>) -> Result<IssuedToken, TokenError> {
        let ring = self.ring.load();
        let key = ring.signing_key(now).ok_or(TokenError::NoKey)?;
        let (iat, exp) = (now.timestamp(), (now + self.lifetime).timestamp());
        let claims = WrittenClaims { iss: self.issuer.clone(), sub: user_id.to_string(), iat, exp, epoch };
        let header = Header { kid: Some(key.id.clone()), ..Header::new(Algorithm::HS256) };
        let token = jsonwebtoken::encode(&header, &claims, &key.encoding).map_err(|_| TokenError::NoKey)?;
        Ok(IssuedToken { token: token.into(), issued_at: iat, expires_at: exp })
    }

    /// The claims of a token, if it is valid now.
    ///
    /// # Errors
    /// [`TokenError::Invalid`] or [`TokenError::Expired`].
    pub fn check(&self, token: &str, now: DateTime<Utc>) -> Result<TokenClaims, TokenError> {
        if token.len() > LONGEST_TOKEN {
            return Err(TokenError::Invalid);
        }
        let ring = self.ring.load();
        let hash: [u8; 32] = Sha256::digest(token).into();
        let claims = if let Some(claims) = ring.checked.get(&hash) {
            claims
        } else {
            let claims = self.check_signature(&ring, token)?;
            ring.checked.insert(hash, claims);
            claims
        };
        if now.timestamp() >= claims.expires_at { Err(TokenError::Expired) } else { Ok(claims) }
    }

    /// A text that holds `content` unreadably, see [`Tokens::open`]. Nothing as long as there is no key.
    pub fn seal(&self, context: &[u8], content: &[u8], now: DateTime<Utc>) -> Option<String> {
        self.ring.load().signing_key(now)?.cursors.seal(context, content)
    }

    /// The content of a text that an instance of this service sealed in the same context.
    pub fn open(&self, context: &[u8], text: &str) -> Option<Vec<u8>> {
        self.ring.load().keys.iter().rev().find_map(|key| key.cursors.open(context, text))
    }

    fn check_signature(&self, ring: &KeyRing, token: &str) -> Result<TokenClaims, TokenError> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Invalid)?;
        let key = header.kid.and_then(|id| ring.key(&id)).ok_or(TokenError::Invalid)?;
        let data = jsonwebtoken::decode::<WrittenClaims>(token, &key.decoding, &self.validation);
        let claims = data.map_err(|_| TokenError::Invalid)?.claims;
        let user_id = claims.sub.parse().map_err(|_| TokenError::Invalid)?;
        Ok(TokenClaims { user_id, epoch: claims.epoch, issued_at: claims.iat, expires_at: claims.exp })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl KeyRing {
    fn new(mut keys: Vec<ReadyKey>, capacity: u64) -> Self {
        keys.sort_by_key(|key| key.created_at);
        Self { keys, checked: Cache::new(capacity), capacity }
    }

    fn key(&self, id: &str) -> Option<&ReadyKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// The newest key that every instance has; the oldest if all are too new.
    fn signing_key(&self, now: DateTime<Utc>) -> Option<&ReadyKey> {
        self.keys.iter().rev().find(|key| key.created_at + KEY_GRACE <= now).or(self.keys.first())
    }
}

impl ReadyKey {
    fn new(key: &SigningKey) -> Self {
        Self {
            id: key.id.clone(),
            created_at: key.created_at,
            encoding: EncodingKey::from_secret(&key.secret),
            decoding: DecodingKey::from_secret(&key.secret),
            cursors: CursorKey::of(&key.secret),
        }
    }
}

// Cursors: what a client hands back unread. They are encrypted and authentic, under a key that all instances share.

/// A key that seals and opens cursors.
pub(super) struct CursorKey(RandomizedNonceKey);

impl CursorKey {
    /// A key for this purpose alone, from one that signs tokens.
    pub(super) fn of(secret: &[u8]) -> Self {
        let key = Sha256::new_with_prefix(b"inventory cursor").chain_update(secret).finalize();
        Self(RandomizedNonceKey::new(&AES_256_GCM, &key).expect("a hash has the length of a key"))
    }

    /// The content as a text for a URL. It opens only with the same `context`.
    pub(super) fn seal(&self, context: &[u8], content: &[u8]) -> Option<String> {
        let mut sealed = content.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(context), &mut sealed).ok()?;
        let whole = [nonce.as_ref().as_slice(), &sealed].concat();
        Some(URL_SAFE_NO_PAD.encode(whole))
    }

    /// The content of a text that was sealed with this key and context.
    pub(super) fn open(&self, context: &[u8], text: &str) -> Option<Vec<u8>> {
        let mut whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = whole.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        Some(self.0.open_in_place(nonce, Aad::from(context), sealed).ok()?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

    fn noon() -> DateTime<Utc> {
        "2026-01-01T12:00:00Z".parse().expect("a time")
    }

    fn key(id: &str, created_at: DateTime<Utc>) -> SigningKey {
        SigningKey::random(id, created_at)
    }

    fn tokens(keys: &[SigningKey]) -> Tokens {
        let tokens = Tokens::new(&AuthSettings::default());
        tokens.use_keys(keys);
        tokens
    }

    /// A token with any header and claims, signed with `SECRET`.
    fn forge(algorithm: Algorithm, kid: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
        jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(SECRET)).expect("a token")
    }

    fn checked(token: &str) -> Result<TokenClaims, TokenError> {
        tokens(&[SigningKey::new("k", *SECRET, noon())]).check(token, noon())
    }

    fn claims() -> Value {
        let now = noon().timestamp();
        json!({"iss": "inventory-service", "sub": "7", "iat": now, "exp": now + 60, "epoch": 3})
    }

    fn kid(token: &IssuedToken) -> Option<String> {
        jsonwebtoken::decode_header(token.token.expose()).expect("a header").kid
    }

    #[test]
    fn a_token_says_what_it_was_issued_for() {
        let tokens = tokens(&[key("one", noon())]);
        let issued = tokens.issue(7, 3, noon()).expect("a token");
        let start = noon().timestamp();
        let expected = TokenClaims { user_id: 7, epoch: 3, issued_at: start, expires_at: start + 43_200 };
        assert_eq!(tokens.check(issued.token.expose(), noon()), Ok(expected));
        assert_eq!((issued.issued_at, issued.expires_at), (start, start + 43_200));
    }

    #[test]
    fn a_token_ends_at_the_second_that_it_names_also_when_it_was_checked_before() {
        let tokens = tokens(&[key("one", noon())]);
        let issued = tokens.issue(7, 3, noon()).expect("a token");
        let end = noon() + tokens.lifetime();
        assert!(tokens.check(issued.token.expose(), end - TimeDelta::seconds(1)).is_ok());
        assert_eq!(tokens.check(issued.token.expose(), end), Err(TokenError::Expired));
    }

    #[test]
    fn a_forged_token_with_all_claims_right_passes_so_the_refusals_below_mean_something() {
        assert!(checked(&forge(Algorithm::HS256, Some("k"), &claims())).is_ok());
    }

    #[test]
    fn another_algorithm_is_refused_even_with_the_right_key() {
        assert_eq!(checked(&forge(Algorithm::HS384, Some("k"), &claims())), Err(TokenError::Invalid));
        assert_eq!(checked(&forge(Algorithm::HS512, Some("k"), &claims())), Err(TokenError::Invalid));
    }

    #[test]
    fn a_token_without_a_signature_is_refused() {
        let signed = forge(Algorithm::HS256, Some("k"), &claims());
        let (_, rest) = signed.split_once('.').expect("three parts");
        let (payload, _) = rest.split_once('.').expect("three parts");
        // {"alg":"none","kid":"k"} and {"alg":"None","kid":"k"}
        for header in ["eyJhbGciOiJub25lIiwia2lkIjoiayJ9", "eyJhbGciOiJOb25lIiwia2lkIjoiayJ9"] {
            assert_eq!(checked(&format!("{header}.{payload}.")), Err(TokenError::Invalid));
        }
        let (unsigned, _) = signed.rsplit_once('.').expect("three parts");
        assert_eq!(checked(&format!("{unsigned}.")), Err(TokenError::Invalid));
        assert_eq!(checked(unsigned), Err(TokenError::Invalid));
    }

    #[test]
    fn a_token_without_one_of_the_claims_is_refused() {
        for claim in ["iss", "sub", "iat", "exp", "epoch"] {
            let mut claims = claims();
            claims.as_object_mut().expect("an object").remove(claim);
            assert_eq!(checked(&forge(Algorithm::HS256, Some("k"), &claims)), Err(TokenError::Invalid), "{claim}");
        }
    }

    #[test]
    fn a_token_with_a_claim_of_another_type_is_refused() {
        for (claim, value) in [
            ("iss", json!(["inventory-service"])),
            ("iss", json!("somebody else")),
            ("sub", json!(7)),
            ("sub", json!("admin")),
            ("exp", json!("9999999999")),
            ("exp", Value::Null),
            ("epoch", json!("3")),
            ("aud", json!("another service")),
        ] {
            let mut claims = claims();
            claims[claim] = value;
            assert_eq!(checked(&forge(Algorithm::HS256, Some("k"), &claims)), Err(TokenError::Invalid), "{claim}");
        }
    }

    #[test]
    fn a_token_that_names_no_key_or_an_unknown_one_is_refused() {
        assert_eq!(checked(&forge(Algorithm::HS256, None, &claims())), Err(TokenError::Invalid));
        assert_eq!(checked(&forge(Algorithm::HS256, Some("other"), &claims())), Err(TokenError::Invalid));
    }

    #[test]
    fn a_changed_token_is_refused() {
        let tokens = tokens(&[key("one", noon())]);
        let issued = tokens.issue(7, 3, noon()).expect("a token");
        let good = issued.token.expose();
        for place in 0..good.len() {
            let mut bytes = good.as_bytes().to_vec();
            bytes[place] = if bytes[place] == b'A' { b'Q' } else { b'A' };
            let changed = String::from_utf8(bytes).expect("ASCII");
            assert_eq!(tokens.check(&changed, noon()), Err(TokenError::Invalid), "byte {place}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for token in ["", ".", "..", "...", "a.b.c", "Bearer x", "\u{1f511}"] {
            assert_eq!(checked(token), Err(TokenError::Invalid));
        }
        assert_eq!(checked(&"a".repeat(LONGEST_TOKEN + 1)), Err(TokenError::Invalid));
    }

    #[test]
    fn after_a_rotation_the_new_key_signs_and_the_old_one_still_checks() {
        let old = key("old", noon() - TimeDelta::days(1));
        let tokens = tokens(std::slice::from_ref(&old));
        let before = tokens.issue(7, 3, noon()).expect("a token");
        tokens.use_keys(&[key("new", noon()), old]);
        let later = noon() + TimeDelta::minutes(1);
        let after = tokens.issue(7, 3, later).expect("a token");
        assert_eq!(kid(&before).as_deref(), Some("old"));
        assert_eq!(kid(&after).as_deref(), Some("new"));
        assert!(tokens.check(before.token.expose(), later).is_ok());
        assert!(tokens.check(after.token.expose(), later).is_ok());
    }

    #[test]
    fn a_brand_new_key_lets_the_old_one_sign_until_every_instance_knows_it() {
        let tokens = tokens(&[key("old", noon() - TimeDelta::days(1)), key("new", noon())]);
        assert_eq!(kid(&tokens.issue(7, 3, noon()).expect("a token")).as_deref(), Some("old"));
        assert_eq!(kid(&tokens.issue(7, 3, noon() + KEY_GRACE).expect("a token")).as_deref(), Some("new"));
    }

    #[test]
    fn a_key_that_is_taken_away_takes_its_tokens_along() {
        let tokens = tokens(&[key("one", noon())]);
        let issued = tokens.issue(7, 3, noon()).expect("a token");
        assert!(tokens.check(issued.token.expose(), noon()).is_ok());
        tokens.use_keys(&[key("two", noon())]);
        assert_eq!(tokens.check(issued.token.expose(), noon()), Err(TokenError::Invalid));
    }

    #[test]
    fn without_a_key_there_are_no_tokens() {
        assert_eq!(tokens(&[]).issue(7, 3, noon()).expect_err("no key"), TokenError::NoKey);
    }

    #[test]
    fn neither_keys_nor_tokens_print() {
        let key = SigningKey::new("k", *SECRET, noon());
        let tokens = tokens(std::slice::from_ref(&key));
        let issued = tokens.issue(7, 3, noon()).expect("a token");
        let printed = format!("{key:?} {tokens:?} {issued:?}");
        assert!(!printed.contains("eyJ") && !printed.contains("48, 49"), "{printed}");
    }

    #[test]
    fn a_cursor_opens_with_its_key_and_context_only() {
        let (key, other) = (CursorKey::of(b"one"), CursorKey::of(b"other"));
        let text = key.seal(b"list", b"secret value").expect("sealed");
        assert_eq!(key.open(b"list", &text).as_deref(), Some(&b"secret value"[..]));
        assert_eq!(CursorKey::of(b"one").open(b"list", &text).as_deref(), Some(&b"secret value"[..]));
        assert_eq!(key.open(b"another", &text), None);
        assert_eq!(other.open(b"list", &text), None);
        for broken in ["", "AAAA", "%%%", &text[1..], &text[..text.len() - 2]] {
            assert_eq!(key.open(b"list", broken), None, "{broken}");
        }
        assert_ne!(key.seal(b"list", b"x"), key.seal(b"list", b"x"));
    }
}
