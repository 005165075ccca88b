//! Sign-in of MongoDB tools: SCRAM with a token that was made with `"mongodb": true`.
//!
//! Such a token has `mongodb: true` in `service.tokens`. All tokens have `scram: {salt, stored_key, server_key}` there, so that the
//! log can say that a tool came with a token of the other kind; `tool_refused_at` says when it first did.
//! All tokens of a user have the same salt: the server names it before it knows which token the client has. Names
//! without a token get a salt as well, so that it does not disclose which users exist.

use std::net::IpAddr;
use std::sync::Arc;

use bson::raw::RawDocument;
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};

use super::credentials;
use super::directory::Caller;
use super::{AccountError, Accounts, NOBODY};
use crate::admission;
use crate::auth::scram::{ClientFirst, Exchange, Proof, Verifier, salt_of};
use crate::auth::throttle::Attempt;
use crate::auth::{AuthError, Secret};
use crate::domain::document::{flag, integer, raw, text};
use crate::domain::user::login_of;
use crate::domain::violation::clipped;
use crate::plural::counted;
use crate::query::{Filter, Sort, Update};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::services::Services;
use crate::store::collections::{SECRETS, TOKENS};
use crate::store::{Change, Documents, FindQuery, Store, StoreError, Unit};

/// The maximum number of tokens of a user with which tools can sign in.
const MOST: usize = 16;
/// The maximum number of tokens that a sign-in tries, of either kind.
const MOST_TRIED: u64 = 64;
/// The maximum number of tokens that [`refused`] names.
const MOST_NAMED: u64 = 5;
/// The member with the time when a tool first came with a token of the other kind.
const REFUSED: &str = "tool_refused_at";
/// The secret that salts are computed from.
const SALTS: &str = "scram";

/// Identifies the token of a session. It is worth nothing to anybody else.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionToken(String);

/// A tool that signed in.
pub struct ToolSignIn {
    /// The server's last message, the proof that it knows the token.
    pub answer: String,
    /// Which token it was.
    pub token: SessionToken,
    /// Whose it is.
    pub caller: Arc<Caller>,
}

impl Accounts {
    /// Begins the sign-in of a tool. Whether there is such a user does not show.
    ///
    /// # Errors
    /// [`AuthError::TooManyAttempts`], and errors of the store.
    pub async fn scram_begin(&self, first: ClientFirst, address: Option<IpAddr>) -> Result<Exchange, AccountError> {
        let attempt = Attempt { user_name: &first.user_name, address };
        let refused = self.brake(attempt).map(drop).map_err(AccountError::from);
        if refused.is_err() {
            self.note(attempt, &refused);
            refused?;
        }
        let tokens = self.scram_tokens(&first.user_name).await?;
        let salt = self.salt_for(&first.user_name, &tokens).await?;
        Ok(Exchange::begin(first, &salt))
    }

    /// Ends the sign-in of a tool.
    ///
    /// # Errors
    /// [`AuthError::WrongCredentials`], [`AuthError::TooManyAttempts`], and errors of the store.
    pub async fn scram_finish(
        &self,
        exchange: &Exchange,
        payload: &[u8],
        address: Option<IpAddr>,
    ) -> Result<ToolSignIn, AccountError> {
        let attempt = Attempt { user_name: &exchange.user_name, address };
        let signed_in = self.try_finish(exchange, payload, attempt).await;
        self.note(attempt, &signed_in);
        signed_in
    }

    async fn try_finish(
        &self,
        exchange: &Exchange,
        payload: &[u8],
        attempt: Attempt<'_>,
    ) -> Result<ToolSignIn, AccountError> {
        let delay = self.brake(attempt)?;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
            // Others may have failed meanwhile.
            self.brake(attempt)?;
        }
        let tokens = self.scram_tokens(attempt.user_name).await?;
        let proof = exchange.proof(payload).ok();
        let found = proof.and_then(|proof| matching(&tokens, &proof));
        let name = clipped(attempt.user_name.to_owned());
        match found {
            Some((answer, token)) if is_for_tools(token) => {
                let token = SessionToken(text(token, "hash").unwrap_or_default().to_owned());
                if let Ok(caller) = self.scram_caller(&token).await {
                    self.throttle.succeeded(attempt.user_name);
                    return Ok(ToolSignIn { answer, token, caller });
                }
            }
            Some((_, token)) => {
                log::warn!("sign-in of a MongoDB tool as {name:?}: {}", lacks_flag(token));
                self.note_refused(token).await;
            }
            // Deliberately the same for a name without a user.
            None if !tokens.iter().any(is_for_tools) => log::warn!(
                "sign-in of a MongoDB tool as {name:?}: no token under this name was made with \"mongodb\": true"
            ),
            None => {}
        }
        self.throttle.failed(attempt, self.clock.steady());
        Err(AuthError::WrongCredentials.into())
    }

    /// The user of the token of a session, with the rights that both have now.
    ///
    /// # Errors
    /// [`AuthError::InvalidToken`] when the token was revoked or ended, or when its user is locked or gone.
    pub async fn scram_caller(&self, token: &SessionToken) -> Result<Arc<Caller>, AccountError> {
        let known = self.api_tokens.find_hash(token.0.clone(), self.clock.now()).await?;
        let known = known.ok_or(AuthError::InvalidToken)?;
        let user = self.directory.caller(known.user_id).await?.ok_or(AuthError::InvalidToken)?;
        Ok(Arc::new(known.caller(&user)))
    }

    /// Notes once that a tool came with this token, for [`refused`].
    async fn note_refused(&self, token: &RawDocument) {
        let (Some(hash), Ok(None)) = (text(token, "hash"), token.get(REFUSED)) else { return };
        let update = Update::set(REFUSED, bson::DateTime::from_chrono(self.clock.now()));
        let change = Change::UpdateMany { collection: TOKENS, filter: Filter::equals("hash", hash), update };
        if let Err(error) = self.store.commit(Unit::of(change)).await {
            log::warn!("the time of a refused sign-in was not noted: {error}");
        }
    }

    /// The tokens that a sign-in tries, those for tools first. An unknown name costs the same queries.
    async fn scram_tokens(&self, user_name: &str) -> Result<Documents, StoreError> {
        let credential = credentials::of_login(&*self.store, user_name, self.max_time).await?;
        let user_id = credential.map_or(NOBODY, |credential| credential.user_id);
        self.store.find(TOKENS, &self.usable(user_id)).await
    }

    fn usable(&self, user_id: i64) -> FindQuery {
        let now = bson::DateTime::from_chrono(self.clock.now());
        let usable = doc! { "user_id": user_id, "scram": { "$exists": true }, "expires_at": { "$gt": now } };
        let newest = Sort::by("mongodb", true).then("public_id", true);
        FindQuery::new(Filter::ours(&usable), self.max_time).sorted(newest).limited(MOST_TRIED)
    }

    /// The salt of a user: that of the stored tokens, as the user may have had another name when they were made.
    async fn salt_for(&self, user_name: &str, tokens: &Documents) -> Result<Vec<u8>, StoreError> {
        if let Some(salt) = tokens.first().and_then(|token| part(token, "salt")) {
            return Ok(salt.to_vec());
        }
        let secret = self.salts.get_or_try_init(|| secret(&*self.store, self.max_time, self.clock.now())).await?;
        Ok(salt_of(secret, &login_of(user_name)))
    }
}

/// The members of a new token by which a sign-in knows it; with `is_for_tools` it is one with which tools can sign in.
///
/// # Errors
/// [`ErrorCode::QuotaExceeded`] when the user has 16 such tokens, and errors of the store.
pub(in crate::service) async fn members(
    services: &Services,
    owner: &Caller,
    token: &Secret,
    is_for_tools: bool,
) -> Result<Document, ServiceError> {
    let accounts = &services.accounts;
    let tokens = services.store.find(TOKENS, &accounts.usable(owner.user_id)).await?;
    if is_for_tools && tokens.iter().filter(|token| self::is_for_tools(token)).count() >= MOST {
        let message = format!(
            "user {} has {} for MongoDB tools, the most there may be; delete one first",
            owner.user_id,
            counted(MOST as u64, "token")
        );
        return Err(ServiceError::refused(ErrorCode::QuotaExceeded, message));
    }
    let salt = accounts.salt_for(&owner.user_name, &tokens).await?;
    let (token, salted) = (token.clone(), salt.clone());
    let verifier = admission::work(move |_| Verifier::of(token.expose(), &salted)).await?;
    let scram = doc! {
        "salt": bytes(&salt),
        "stored_key": bytes(&verifier.stored_key),
        "server_key": bytes(&verifier.server_key),
    };
    let mut members = doc! { "scram": scram };
    if is_for_tools {
        members.insert("mongodb", true);
    }
    Ok(members)
}

/// The tokens with which tools tried to sign in and cannot, in words: the last ones that were made.
///
/// # Errors
/// Errors of the store.
pub async fn refused(
    store: &dyn Store,
    now: bson::DateTime,
    max_time: std::time::Duration,
) -> Result<Vec<String>, StoreError> {
    let noted = doc! { REFUSED: { "$exists": true }, "expires_at": { "$gt": now } };
    let filter = Filter::parse(&noted, &crate::query::Limits::NONE).map_err(StoreError::backend)?;
    let query = FindQuery::new(filter, max_time).sorted(Sort::by("public_id", true)).limited(MOST_NAMED);
    Ok(store.find(TOKENS, &query).await?.iter().map(lacks_flag).collect())
}

/// Why tools cannot sign in with a token.
fn lacks_flag(token: &RawDocument) -> String {
    let (id, user_id) = (integer(token, "public_id"), integer(token, "user_id"));
    let name = clipped(text(token, "name").unwrap_or_default().to_owned());
    format!(
        "a tool came with token {} of user {}, {name:?}, which was made without \"mongodb\": true; make one with it for the tool",
        id.unwrap_or_default(),
        user_id.unwrap_or_default()
    )
}

/// Whether tools can sign in with a token.
fn is_for_tools(token: &RawDocument) -> bool {
    flag(token, "mongodb").unwrap_or(false)
}

/// Tries the proof against each token; all of them, so that the time does not disclose which one it was.
fn matching<'t>(tokens: &'t Documents, proof: &Proof) -> Option<(String, &'t RawDocument)> {
    let mut found = None;
    for token in tokens.iter() {
        let verifier = part(token, "stored_key").zip(part(token, "server_key")).and_then(|(stored_key, server_key)| {
            Some(Verifier { stored_key: stored_key.try_into().ok()?, server_key: server_key.try_into().ok()? })
        });
        let answer = verifier.and_then(|verifier| proof.answer(&verifier));
        found = found.or(answer.map(|answer| (answer, token)));
    }
    found
}

fn part<'a>(token: &'a RawDocument, name: &str) -> Option<&'a [u8]> {
    token.get_document("scram").ok()?.get_binary(name).ok().map(|binary| binary.bytes)
}

fn bytes(bytes: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }
}

/// The secret that salts are computed from. It is made when it is first needed; all instances use the same one.
async fn secret(
    store: &dyn Store,
    max_time: std::time::Duration,
    now: chrono::DateTime<chrono::Utc>,
) -> Result<[u8; 32], StoreError> {
    let read = async || {
        let found = store.first(SECRETS, FindQuery::new(Filter::equals("_id", SALTS), max_time)).await?;
        let damaged = || StoreError::Corrupt { what: "a document of service.secrets".to_owned() };
        found
            .map(|secret| {
                let binary = secret.get_binary("secret").map_err(|_| damaged())?;
                <[u8; 32]>::try_from(binary.bytes).map_err(|_| damaged())
            })
            .transpose()
    };
    if let Some(secret) = read().await? {
        return Ok(secret);
    }
    let fresh: [u8; 32] = rand::random();
    let created_at = bson::DateTime::from_chrono(now);
    let document = raw(&doc! { "_id": SALTS, "secret": bytes(&fresh), "created_at": created_at });
    match store.commit(Unit::of(Change::Insert { collection: SECRETS, document })).await {
        // Another instance was faster, and its secret is as good.
        Ok(_) | Err(StoreError::Duplicate { .. }) => {}
        Err(error) => return Err(error),
    }
    read().await?.ok_or_else(|| StoreError::Corrupt { what: "the secret of salts, which was just stored".to_owned() })
}
