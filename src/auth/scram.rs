//! SCRAM-SHA-256 (RFC 5802 and RFC 7677), the server's side, with tokens instead of passwords.
//!
//! A token has 256 random bits, so the iteration count protects nothing. It is the least that RFC 7677 allows.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use pbkdf2::pbkdf2_hmac_array;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The iteration count of every verifier.
pub const ITERATIONS: u32 = 4096;

/// The length of a salt, as in MongoDB.
const SALT: usize = 28;

/// A longer name or nonce is no name or nonce of a driver.
const LONGEST: usize = 1024;

/// What is stored instead of the password: it checks proofs, and makes none.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// The hash of the key that makes proofs.
    pub stored_key: [u8; 32],
    /// The key of the server's signature.
    pub server_key: [u8; 32],
}

/// A message that does not follow SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no message of SCRAM-SHA-256: {0}")]
pub struct ScramError(&'static str);

/// The first message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    /// Who wants to sign in.
    pub user_name: String,
    gs2_header: String,
    nonce: String,
    bare: String,
}

/// A conversation after the server's first message.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Who wants to sign in.
    pub user_name: String,
    channel: String,
    nonce: String,
    client_first: String,
    server_first: String,
}

/// The second message of a client: a proof that it has the password.
pub struct Proof {
    auth_message: String,
    proof: [u8; 32],
}

impl Verifier {
    /// The verifier of a password. It takes some milliseconds.
    pub fn of(password: &str, salt: &[u8]) -> Self {
        let salted = pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, ITERATIONS);
        let client_key = mac(&salted, b"Client Key");
        Self { stored_key: Sha256::digest(client_key).into(), server_key: mac(&salted, b"Server Key") }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Verifier").finish_non_exhaustive()
    }
}

/// The salt of a user: constant, and different for each name. Without the secret it does not show whether the user exists.
pub fn salt_of(secret: &[u8; 32], login: &str) -> Vec<u8> {
    mac(secret, login.as_bytes())[..SALT].to_vec()
}

impl ClientFirst {
    /// Reads `n,,n=<name>,r=<nonce>`.
    ///
    /// # Errors
    /// Everything else.
    pub fn parse(payload: &[u8]) -> Result<Self, ScramError> {
        let text = std::str::from_utf8(payload).map_err(|_| ScramError("it is no text"))?;
        let mut parts = text.splitn(3, ',');
        let flag = parts.next().unwrap_or_default();
        if flag != "n" && flag != "y" {
            return Err(ScramError("channel binding is not offered"));
        }
        if parts.next() != Some("") {
            return Err(ScramError("nobody signs in for somebody else"));
        }
        let bare = parts.next().ok_or(ScramError("the name is missing"))?;
        let mut members = bare.split(',');
        let name = members.next().and_then(|part| part.strip_prefix("n=")).ok_or(ScramError("the name is missing"))?;
        let nonce =
            members.next().and_then(|part| part.strip_prefix("r=")).ok_or(ScramError("the nonce is missing"))?;
        if nonce.is_empty() || nonce.len() > LONGEST || name.len() > LONGEST {
            return Err(ScramError("a name or a nonce has from 1 to 1024 bytes"));
        }
        let user_name = unescaped(name)?;
        Ok(Self { user_name, gs2_header: format!("{flag},,"), nonce: nonce.to_owned(), bare: bare.to_owned() })
    }
}

/// A name with `=2C` for a comma and `=3D` for an equals sign.
fn unescaped(name: &str) -> Result<String, ScramError> {
    let mut pieces = name.split('=');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (sign, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (None, Some(rest)) => ('=', rest),
            (None, None) => return Err(ScramError("a name has = only as =2C and =3D")),
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    Ok(plain)
}

impl Exchange {
    /// Answers the first message of a client.
    pub fn begin(first: ClientFirst, salt: &[u8]) -> Self {
        let nonce = format!("{}{}", first.nonce, STANDARD.encode(rand::random::<[u8; 24]>()));
        let server_first = format!("r={nonce},s={},i={ITERATIONS}", STANDARD.encode(salt));
        Self {
            user_name: first.user_name,
            channel: STANDARD.encode(first.gs2_header),
            nonce,
            client_first: first.bare,
            server_first,
        }
    }

    /// The server's first message.
    pub fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Reads `c=<binding>,r=<nonce>,p=<proof>`.
    ///
    /// # Errors
    /// Everything else, and another nonce than that of this conversation.
    pub fn proof(&self, payload: &[u8]) -> Result<Proof, ScramError> {
        let text = std::str::from_utf8(payload).map_err(|_| ScramError("it is no text"))?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(ScramError("the proof is missing"))?;
        if without_proof != format!("c={},r={}", self.channel, self.nonce) {
            return Err(ScramError("it belongs to another conversation"));
        }
        let proof = STANDARD.decode(proof).ok().and_then(|proof| <[u8; 32]>::try_from(proof).ok());
        let proof = proof.ok_or(ScramError("the proof is no proof"))?;
        Ok(Proof { auth_message: format!("{},{},{without_proof}", self.client_first, self.server_first), proof })
    }
}

impl Proof {
    /// The server's last message, if the proof was made with the password of this verifier.
    pub fn answer(&self, verifier: &Verifier) -> Option<String> {
        let message = self.auth_message.as_bytes();
        let mut client_key = mac(&verifier.stored_key, message);
        for (byte, other) in client_key.iter_mut().zip(self.proof) {
            *byte ^= other;
        }
        let is_right: bool = Sha256::digest(client_key).as_slice().ct_eq(&verifier.stored_key).into();
        is_right.then(|| format!("v={}", STANDARD.encode(mac(&verifier.server_key, message))))
    }
}

fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conversation that RFC 7677 shows.
    #[test]
    fn the_conversation_of_the_standard_is_understood() {
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").expect("a first message");
        assert_eq!(first.user_name, "user");
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let exchange = Exchange {
            user_name: first.user_name,
            channel: STANDARD.encode(first.gs2_header),
            nonce: nonce.to_owned(),
            client_first: first.bare,
            server_first: format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
        };
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let proof = exchange.proof(last.as_bytes()).expect("a proof");
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let answer = proof.answer(&Verifier::of("pencil", &salt));
        assert_eq!(answer.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert_eq!(proof.answer(&Verifier::of("pencils", &salt)), None);
    }

    #[test]
    fn names_with_commas_and_equals_signs_are_unescaped() {
        let first = ClientFirst::parse(b"y,,n=a=2Cb=3Dc,r=x").expect("a first message");
        assert_eq!(first.user_name, "a,b=c");
        assert!(ClientFirst::parse(b"n,,n=a=20,r=x").is_err());
    }

    #[test]
    fn what_is_no_message_of_scram_is_refused() {
        for wrong in
            [&b""[..], b"n,,", b"p=tls-unique,,n=a,r=b", b"n,a=b,n=a,r=b", b"n,,r=b,n=a", b"n,,n=a,r=", b"\xff"]
        {
            assert!(ClientFirst::parse(wrong).is_err(), "{wrong:?}");
        }
        let exchange = Exchange::begin(ClientFirst::parse(b"n,,n=a,r=b").expect("a first message"), b"salt");
        let nonce = exchange.nonce.clone();
        for wrong in [
            String::new(),
            format!("c=biws,r={nonce}"),
            format!("c=eSws,r={nonce},p=AAAA"),
            format!("c=biws,r={nonce}x,p=AAAA"),
            format!("c=biws,r={nonce},p=AAAA"),
        ] {
            assert!(exchange.proof(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_salt_depends_on_the_name_and_on_the_secret() {
        let salt = salt_of(&[1; 32], "ada");
        assert_eq!((salt.len(), &salt), (SALT, &salt_of(&[1; 32], "ada")));
        assert_ne!(salt, salt_of(&[1; 32], "grace"));
        assert_ne!(salt, salt_of(&[2; 32], "ada"));
    }
}
