//! Signatures by the convention of Standard Webhooks (<https://www.standardwebhooks.com>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use url::Url;

use crate::auth::Secret;
use crate::outgoing::Message;

/// What every secret begins with.
const PREFIX: &str = "whsec_";

/// A new secret: 256 random bits.
pub(super) fn new_secret() -> Secret {
    Secret::new(format!("{PREFIX}{}", STANDARD.encode(rand::random::<[u8; 32]>())))
}

/// The signed message; nothing if the secret is not valid.
pub(super) fn message(url: Url, secret: &Secret, id: String, now: DateTime<Utc>, body: &Value) -> Option<Message> {
    let key = STANDARD.decode(secret.expose().strip_prefix(PREFIX)?).ok()?;
    let body = body.to_string().into_bytes();
    let timestamp = now.timestamp().to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", &body] {
        mac.update(part);
    }
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("webhook-id", id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", signature),
    ];
    Some(Message { url, headers, body })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_signed_as_the_convention_says() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let now = DateTime::from_timestamp(1_614_265_330, 0).expect("a time");
        let url = Url::parse("https://hooks.example.org/").expect("a URL");
        let message =
            message(url, &secret, "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(), now, &json!({"test": 2_432_232_314_u64}));
        let message = message.expect("the secret is one");
        assert_eq!(message.headers[2], ("webhook-timestamp", "1614265330".to_owned()));
        let body = String::from_utf8(message.body).expect("JSON");
        assert_eq!(body, r#"{"test":2432232314}"#);
        // Computed by another program.
        assert_eq!(
            message.headers[3],
            ("webhook-signature", "v1,Vif40peJBP7Iyl0XGmu61n4MwdrcHov5CFREBpE0svs=".to_owned())
        );
    }

    #[test]
    fn secrets_differ_and_have_256_bits() {
        let (one, other) = (new_secret(), new_secret());
        assert_ne!(one, other);
        assert_eq!(STANDARD.decode(&one.expose()[6..]).expect("base64").len(), 32);
    }
}
