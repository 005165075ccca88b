//! Cursors: what a client hands back unread. They are encrypted and authentic, under a key that all instances share.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

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
