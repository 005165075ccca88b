//! The keys of the issuer: fetched, kept, renewed, within bounds, whatever the issuer and callers do.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::future::join_all;
use inventory_service::auth::AuthError;
use inventory_service::auth::oidc::OidcSettings;
use inventory_service::clock::{Clock, ManualClock, SystemClock};
use inventory_service::oidc::Issuer;
use jsonwebtoken::Algorithm;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tempfile::TempDir;

use super::issuer::{AUDIENCE, Reply, Signer, TestIssuer};

/// The part of the service that checks tokens, with a clock that does not advance.
struct World {
    issuer: TestIssuer,
    clock: Arc<ManualClock>,
    checker: Arc<Issuer>,
}

impl World {
    fn new(issuer: TestIssuer) -> Self {
        Self::trusting(issuer, "").expect("no certificates are needed")
    }

    fn trusting(issuer: TestIssuer, ca_certificates: &str) -> Result<Self, String> {
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let settings = OidcSettings {
            issuer: issuer.name.clone(),
            audience: AUDIENCE.to_owned(),
            default_group: "user".to_owned(),
            ca_certificates: ca_certificates.to_owned(),
            ..OidcSettings::default()
        };
        let rules = settings.rules().expect("valid settings").expect("an issuer");
        let checker = Issuer::new(rules, &settings, 100, clock.clone()).map_err(|error| error.to_string())?;
        Ok(Self { issuer, clock, checker })
    }

    /// How the token of this key is received, which is good at this moment.
    async fn check(&self, signer: &Signer) -> Result<(), AuthError> {
        self.checker.check(&self.token(signer)).await.map(drop)
    }

    fn token(&self, signer: &Signer) -> String {
        let now = self.clock.now().timestamp();
        signer.sign(&self.issuer.claims("ada", &json!({"iat": now - 10, "exp": now + 600})))
    }

    fn pass(&self, seconds: i64) {
        self.clock.advance(TimeDelta::seconds(seconds));
    }

    /// Checks until the outcome is this one: keys are renewed while requests run.
    async fn becomes(&self, signer: &Signer, expected: Result<(), AuthError>) {
        for _ in 0..1_000 {
            if self.check(signer).await == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not become {expected:?}");
    }
}

fn signer(id: &str) -> Signer {
    Signer::new(id, Algorithm::ES256)
}

#[tokio::test]
async fn keys_of_each_kind_check_tokens() {
    let algorithms = [
        Algorithm::RS256,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::PS384,
        Algorithm::ES256,
        Algorithm::ES384,
        Algorithm::EdDSA,
    ];
    let signers = algorithms.map(|algorithm| Signer::new(&format!("{algorithm:?}"), algorithm));
    let world = World::new(TestIssuer::showing(&signers.iter().collect::<Vec<_>>()));
    for signer in &signers {
        assert_eq!(world.check(signer).await, Ok(()), "{}", signer.id);
    }
    assert_eq!(world.issuer.asked(), 1);
}

#[tokio::test]
async fn a_key_is_used_with_its_own_algorithm_alone() {
    let rsa = Signer::new("rsa", Algorithm::RS256);
    let world = World::new(TestIssuer::showing(&[&rsa]));
    let claims = world.issuer.claims("ada", &json!({}));
    assert!(world.checker.check(&rsa.sign(&claims)).await.is_ok());
    let other = rsa.sign_with(|header| header.alg = Algorithm::PS256, &claims);
    assert_eq!(world.checker.check(&other).await.map(drop), Err(AuthError::InvalidToken));
}

#[tokio::test]
async fn a_token_that_names_no_key_needs_a_single_one() {
    let (one, other) = (signer("one"), signer("other"));
    let world = World::new(TestIssuer::showing(&[&one]));
    let token = |world: &World| one.sign_with(|header| header.kid = None, &world.issuer.claims("ada", &json!({})));
    assert!(world.checker.check(&token(&world)).await.is_ok());
    let world = World::new(TestIssuer::showing(&[&one, &other]));
    assert_eq!(world.checker.check(&token(&world)).await.map(drop), Err(AuthError::InvalidToken));
}

#[tokio::test]
async fn made_up_names_of_keys_do_not_make_the_service_ask() {
    let known = signer("known");
    let world = World::new(TestIssuer::showing(&[&known]));
    assert_eq!(world.check(&known).await, Ok(()));
    let stranger = signer("x");
    let claims = world.issuer.claims("ada", &json!({}));
    let token = |at: usize| stranger.sign_with(|header| header.kid = Some(format!("made-up-{at}")), &claims);
    for at in 0..50 {
        assert_eq!(world.checker.check(&token(at)).await.map(drop), Err(AuthError::InvalidToken));
    }
    assert_eq!(world.issuer.asked(), 1);
    world.pass(6);
    let tokens: Vec<String> = (50..100).map(token).collect();
    for outcome in join_all(tokens.iter().map(|token| world.checker.check(token))).await {
        assert_eq!(outcome.map(drop), Err(AuthError::InvalidToken));
    }
    assert_eq!(world.issuer.asked(), 2);
    // Tokens that name another issuer make it ask never.
    world.pass(6);
    let foreign = world.issuer.claims("ada", &json!({"iss": "https://login.example.org"}));
    let foreign = stranger.sign_with(|header| header.kid = Some("foreign".to_owned()), &foreign);
    assert_eq!(world.checker.check(&foreign).await.map(drop), Err(AuthError::InvalidToken));
    assert_eq!(world.issuer.asked(), 2);
}

#[tokio::test]
async fn of_many_first_callers_one_asks_and_all_are_let_in() {
    let known = signer("known");
    let world = World::new(TestIssuer::showing(&[&known]));
    let tokens: Vec<String> = (0..20).map(|_| world.token(&known)).collect();
    for outcome in join_all(tokens.iter().map(|token| world.checker.check(token))).await {
        assert_eq!(outcome.map(drop), Ok(()));
    }
    assert_eq!(world.issuer.asked(), 1);
}

#[tokio::test]
async fn an_answer_is_kept_for_others_when_its_caller_has_gone() {
    let known = signer("known");
    let world = World::new(TestIssuer::showing(&[&known]));
    let token = world.token(&known);
    // Polled once, and dropped.
    assert!(futures::poll!(Box::pin(world.checker.check(&token))).is_pending());
    assert_eq!(world.check(&known).await, Ok(()));
    assert_eq!(world.issuer.asked(), 1);
}

#[tokio::test]
async fn a_new_key_counts_from_its_first_token_on() {
    let (old, new) = (signer("old"), signer("new"));
    let world = World::new(TestIssuer::showing(&[&old]));
    assert_eq!(world.check(&old).await, Ok(()));
    world.issuer.show(&[&old, &new]);
    world.pass(6);
    assert_eq!(world.check(&new).await, Ok(()));
    assert_eq!(world.check(&old).await, Ok(()));
    assert_eq!(world.issuer.asked(), 2);
}

#[tokio::test]
async fn a_key_that_the_issuer_takes_back_ends_also_for_tokens_that_were_checked_before() {
    let (leaked, new) = (signer("leaked"), signer("new"));
    let world = World::new(TestIssuer::showing(&[&leaked]));
    let token = world.token(&leaked);
    assert!(world.checker.check(&token).await.is_ok());
    world.issuer.show(&[&new]);
    world.pass(301);
    // The request that finds the keys old does not wait.
    assert!(world.checker.check(&token).await.is_ok());
    world.becomes(&leaked, Err(AuthError::InvalidToken)).await;
    assert_eq!(world.checker.check(&token).await.map(drop), Err(AuthError::InvalidToken));
    assert_eq!(world.check(&new).await, Ok(()));
}

#[tokio::test]
async fn while_the_issuer_is_away_the_last_keys_go_on_for_a_day() {
    let known = signer("known");
    let world = World::new(TestIssuer::showing(&[&known]));
    assert_eq!(world.check(&known).await, Ok(()));
    world.issuer.answer_discovery(Reply::Away);
    for _ in 0..23 {
        world.pass(3_600);
        assert_eq!(world.check(&known).await, Ok(()));
    }
    // An unknown key cannot be distinguished from a new one now.
    world.pass(301);
    assert_eq!(world.check(&signer("unknown")).await, Err(AuthError::IssuerUnavailable));
    world.pass(3_600);
    assert_eq!(world.check(&known).await, Err(AuthError::IssuerUnavailable));
    let discovery = json!({"issuer": world.issuer.name, "jwks_uri": format!("{}/keys", world.issuer.name)});
    world.issuer.answer_discovery(Reply::Json(discovery));
    world.pass(6);
    assert_eq!(world.check(&known).await, Ok(()));
}

#[tokio::test]
async fn an_issuer_that_answers_badly_is_no_issuer() {
    let known = signer("known");
    let elsewhere = TestIssuer::showing(&[&known]);
    let issuer = TestIssuer::showing(&[&known]);
    let discovery = |of: &str, keys: &str| Reply::Json(json!({"issuer": of, "jwks_uri": keys}));
    let (own, there) = (issuer.name.as_str(), format!("{}/keys", elsewhere.name));
    let symmetric = json!({"keys": [{"kty": "oct", "kid": "known", "alg": "HS256", "k": "c2VjcmV0"}]});
    let mut private_use = known.public.clone();
    private_use["use"] = json!("enc");
    for (what, about, keys) in [
        ("no document", Reply::Status(404), None),
        ("a failure", Reply::Status(500), None),
        ("a redirect", Reply::Redirect(format!("{}/.well-known/openid-configuration", elsewhere.name)), None),
        ("a document that never ends", Reply::Endless, None),
        ("something else", Reply::Json(json!(["issuer"])), None),
        ("another issuer", discovery(&elsewhere.name, &there), None),
        ("the issuer with a slash", discovery(&format!("{own}/"), &there), None),
        ("keys in a file", discovery(own, "file:///etc/passwd"), None),
        ("keys elsewhere without TLS", discovery(own, "http://login.example.org/keys"), None),
        ("keys at no place", discovery(own, "keys"), None),
        ("keys that are away", discovery(own, &format!("{own}/keys")), Some(Reply::Away)),
        ("keys that are a redirect", discovery(own, &format!("{own}/keys")), Some(Reply::Redirect(there.clone()))),
        ("keys that never end", discovery(own, &format!("{own}/keys")), Some(Reply::Endless)),
        ("keys that are none", discovery(own, &format!("{own}/keys")), Some(Reply::Json(json!({"keys": 7})))),
        ("no keys", discovery(own, &format!("{own}/keys")), Some(Reply::Json(json!({"keys": []})))),
        ("a symmetric key", discovery(own, &format!("{own}/keys")), Some(Reply::Json(symmetric))),
        (
            "a key for encryption",
            discovery(own, &format!("{own}/keys")),
            Some(Reply::Json(json!({"keys": [private_use]}))),
        ),
    ] {
        issuer.answer_discovery(about);
        issuer.answer_keys(keys.unwrap_or_else(|| Reply::Json(json!({"keys": [known.public]}))));
        let world = World::new(issuer.clone());
        assert_eq!(world.check(&known).await, Err(AuthError::IssuerUnavailable), "{what}");
    }
    issuer.answer_discovery(discovery(own, &format!("{own}/keys")));
    issuer.show(&[&known]);
    assert_eq!(World::new(issuer.clone()).check(&known).await, Ok(()));
}

#[tokio::test]
async fn an_issuer_that_is_slow_is_waited_for_once() {
    let known = signer("known");
    let issuer = TestIssuer::showing(&[&known]);
    issuer.answer_keys(Reply::Trickling);
    let world = World::new(issuer);
    let tokens: Vec<String> = (0..20).map(|_| world.token(&known)).collect();
    for outcome in join_all(tokens.iter().map(|token| world.checker.check(token))).await {
        assert_eq!(outcome.map(drop), Err(AuthError::IssuerUnavailable));
    }
    assert_eq!(world.issuer.asked(), 1);
}

#[tokio::test]
async fn keys_of_other_kinds_are_passed_over() {
    let known = signer("known");
    let issuer = TestIssuer::showing(&[]);
    let mut two = known.public.clone();
    two["kid"] = json!("for-reading");
    two["key_ops"] = json!(["encrypt"]);
    issuer.answer_keys(Reply::Json(json!({"keys": [
        {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "XYZ", "kid": "known"}, {"kty": "RSA", "kid": "known"}, 7, null, two,
        {"kty": "EC", "crv": "secp256k1", "x": "AQ", "y": "AQ", "kid": "known"}, known.public,
    ]})));
    let world = World::new(issuer);
    assert_eq!(world.check(&known).await, Ok(()));
}

#[tokio::test]
async fn the_certificate_of_an_issuer_has_to_be_of_an_authority_of_the_settings() {
    let directory = TempDir::new().expect("a directory");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters").self_signed(&key);
    let certificate = certificate.expect("a certificate");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (right, empty) = (file("right.pem", &certificate.pem()), file("empty.pem", "nothing"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let tls = tls.with_no_client_auth().with_single_cert(chain, private).expect("a configuration");
    let known = signer("known");
    let issuer = TestIssuer::over_tls(&[&known], tls);
    let world = |path: &str| World::trusting(issuer.clone(), path);
    assert_eq!(world(&right).expect("certificates").check(&known).await, Ok(()));
    assert_eq!(world("").expect("the public ones").check(&known).await, Err(AuthError::IssuerUnavailable));
    let missing = directory.path().join("missing.pem").display().to_string();
    assert!(world(&missing).err().expect("there is no file").contains("missing.pem cannot be read"));
    assert!(world(&empty).err().expect("there is no certificate").ends_with("empty.pem has no certificate in PEM"));
}
