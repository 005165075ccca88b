//! Tokens that somebody made up, and tokens that the issuer made for something else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};

use super::issuer::Signer;
use super::{Trusted, get, on_each_trusting_store, users};
use crate::support::app::{TestApp, send};

/// Asserts that the token is refused, and that no user comes of it.
#[track_caller]
fn refused(answer: &crate::support::app::Answer, code: &str, what: &str) {
    assert_eq!(answer.status, 401, "{what}: {}", answer.text);
    answer.error(401, code);
    assert_eq!(answer.header("www-authenticate"), "Bearer error=\"invalid_token\"", "{what}");
}

fn encoded(part: &Value) -> String {
    URL_SAFE_NO_PAD.encode(part.to_string())
}

/// Tokens with the right claims that no key of the issuer signed.
fn forged(trusted: &Trusted) -> Vec<(&'static str, String)> {
    let claims = trusted.issuer.claims("ada-1", &json!({"preferred_username": "ada", "groups": ["admins"]}));
    let good = trusted.signer.sign(&claims);
    let [header, payload, signature]: [&str; 3] =
        good.split('.').collect::<Vec<_>>().try_into().expect("a token has three parts");
    let mut forged = vec![
        ("no signature", format!("{header}.{payload}.")),
        ("two parts", format!("{header}.{payload}")),
        ("four parts", format!("{good}.{signature}")),
        ("changed claims", {
            let mut claims = claims.clone();
            claims["groups"] = json!(["admins", "more"]);
            format!("{header}.{}.{signature}", encoded(&claims))
        }),
    ];
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let header = encoded(&json!({"alg": name, "typ": "JWT", "kid": "first"}));
        forged.push(("alg none", format!("{header}.{payload}.")));
        forged.push(("alg none with a signature", format!("{header}.{payload}.{signature}")));
    }
    // What everybody knows of the key, taken for a shared secret.
    let public = &trusted.signer.public;
    let point: Vec<u8> = ["x", "y"]
        .iter()
        .flat_map(|name| URL_SAFE_NO_PAD.decode(public[name].as_str().expect("a coordinate")).expect("base64"))
        .collect();
    let uncompressed: Vec<u8> = [&[4][..], &point[..]].concat();
    for secret in
        [public.to_string().into_bytes(), public["x"].as_str().expect("x").into(), point, uncompressed, vec![]]
    {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let header = Header { kid: Some("first".to_owned()), ..Header::new(algorithm) };
            let token = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(&secret)).expect("a token");
            forged.push(("HMAC with the public key", token));
        }
    }
    let stranger = Signer::new("first", Algorithm::ES256);
    forged.push(("a key of the same name", stranger.sign(&claims)));
    forged.push(("a key of another name", Signer::new("second", Algorithm::ES256).sign(&claims)));
    forged.push(("a key without a name", stranger.sign_with(|header| header.kid = None, &claims)));
    let jwk = serde_json::from_value(stranger.public.clone()).expect("a key");
    forged.push(("a key in the token itself", stranger.sign_with(|header| header.jwk = Some(jwk), &claims)));
    let place = format!("{}/keys", trusted.issuer.name);
    forged.push(("a place of keys in the token", stranger.sign_with(|header| header.jku = Some(place), &claims)));
    let rsa = Signer::new("first", Algorithm::RS256);
    forged.push(("another kind of key", rsa.sign(&claims)));
    forged
}

/// Tokens that a key of the issuer signed, which are not for here or not for now.
fn unfit(trusted: &Trusted) -> Vec<(&'static str, Value)> {
    let now = trusted.issuer.claims("ada-1", &json!({}))["iat"].as_i64().expect("a time") + 10;
    let without = |name: &str| {
        let mut claims = trusted.issuer.claims("ada-1", &json!({}));
        claims.as_object_mut().expect("claims").remove(name);
        claims
    };
    let with = |more: Value| trusted.issuer.claims("ada-1", &more);
    vec![
        ("another audience", with(json!({"aud": "mail"}))),
        ("other audiences", with(json!({"aud": ["mail", "inventory2", "Inventory"]}))),
        ("a part of the audience", with(json!({"aud": "inventor"}))),
        ("an audience that is no text", with(json!({"aud": {"inventory": true}}))),
        ("no audience", without("aud")),
        ("another issuer", with(json!({"iss": "https://login.example.org"}))),
        ("the issuer with a slash", with(json!({"iss": format!("{}/", trusted.issuer.name)}))),
        ("two issuers", with(json!({"iss": [trusted.issuer.name, "x"]}))),
        ("no issuer", without("iss")),
        ("the issuer of the service's own tokens", with(json!({"iss": "inventory-service"}))),
        ("not yet", with(json!({"nbf": now + 600}))),
        ("a beginning that is no time", with(json!({"nbf": "today"}))),
        ("issued in the future", with(json!({"iat": now + 600}))),
        ("issued at no time", without("iat")),
        ("for ever", without("exp")),
        ("an end that is no time", with(json!({"exp": "tomorrow"}))),
        ("nobody", without("sub")),
        ("an empty subject", with(json!({"sub": ""}))),
        ("a long subject", with(json!({"sub": "a".repeat(256)}))),
        ("a subject that is no text", with(json!({"sub": 1}))),
        ("bound to a key", with(json!({"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}))),
    ]
}

on_each_trusting_store! {
    async fn what_the_issuer_did_not_sign_opens_nothing(app, trusted) {
        for (what, token) in forged(trusted) {
            refused(&get(app, &token, "/types/").await, "token_invalid", what);
        }
        assert_eq!(users(app).await, 1);
        // The key that signed is known: the refusals above are not for want of it.
        assert_eq!(get(app, &trusted.token("ada-1", &json!({})), "/types/").await.status, 200);
    }

    async fn what_the_issuer_signed_for_another_purpose_opens_nothing(app, trusted) {
        for (what, claims) in unfit(trusted) {
            refused(&get(app, &trusted.signer.sign(&claims), "/types/").await, "token_invalid", what);
        }
        let claims = trusted.issuer.claims("ada-1", &json!({}));
        for kind in ["logout+jwt", "dpop+jwt", "secevent+jwt", "oauth-authz-req+jwt", "JWE"] {
            let token = trusted.signer.sign_with(|header| header.typ = Some(kind.to_owned()), &claims);
            refused(&get(app, &token, "/types/").await, "token_invalid", kind);
        }
        let critical = trusted.signer.sign_with(|header| header.crit = Some(vec!["exp".to_owned()]), &claims);
        refused(&get(app, &critical, "/types/").await, "token_invalid", "a header that has to be understood");
        let over = trusted.issuer.claims("ada-1", &json!({"exp": claims["iat"]}));
        let (soon, long) = (json!({"exp": claims["iat"].as_i64().expect("a time") - 20}), json!({"exp": 0}));
        for more in [soon, long] {
            let token = trusted.signer.sign(&trusted.issuer.claims("ada-1", &more));
            refused(&get(app, &token, "/types/").await, "token_expired", "the end");
        }
        assert_eq!(users(app).await, 1);
        // Within the skew of the clocks, and in every form that is allowed.
        let now = claims["iat"].as_f64().expect("a time");
        for (typ, claims) in [
            (Some("JWT"), over),
            (Some("at+jwt"), trusted.issuer.claims("ada-1", &json!({"aud": ["mail", "inventory"], "exp": now + 600.5}))),
            (Some("application/at+JWT"), trusted.issuer.claims("ada-1", &json!({"nbf": now + 20.0}))),
            (None, claims),
        ] {
            let token = trusted.signer.sign_with(|header| header.typ = typ.map(str::to_owned), &claims);
            assert_eq!(get(app, &token, "/types/").await.status, 200, "{typ:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_too_long_is_not_read() {
    let trusted = Trusted::new();
    let app = trusted.app_on(None, &[]).await;
    let groups = |count: usize| -> Vec<String> {
        (0..count).map(|at| format!("group-{at:04}")).chain(["staff".to_owned()]).collect()
    };
    let many = trusted.token("ada-1", &json!({"preferred_username": "ada", "groups": groups(800)}));
    assert!((10_000..16_384).contains(&many.len()), "{}", many.len());
    assert_eq!(get(&app, &many, "/types/").await.status, 200);
    let too_many = trusted.token("ada-1", &json!({"preferred_username": "ada", "groups": groups(1_200)}));
    assert!(too_many.len() > 16_384);
    refused(&get(&app, &too_many, "/types/").await, "token_invalid", "a long token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_issuer_in_the_settings_its_tokens_open_nothing() {
    let trusted = Trusted::new();
    let app = TestApp::embedded().await;
    refused(&get(&app, &trusted.token("ada-1", &json!({})), "/types/").await, "token_invalid", "a stranger's token");
    assert_eq!(trusted.issuer.asked(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_never_answered_is_told_and_the_own_tokens_go_on() {
    let trusted = Trusted::new();
    trusted.issuer.answer_discovery(super::issuer::Reply::Away);
    let app = trusted.app_on(None, &[]).await;
    let answer = get(&app, &trusted.token("ada-1", &json!({})), "/types/").await;
    answer.error(503, "issuer_unavailable");
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(app.get("/types/").await.status, 200);
    assert_eq!(send(app.anonymous(Method::GET, &format!("{}/health/ready", app.origin))).await.status, 200);
}
