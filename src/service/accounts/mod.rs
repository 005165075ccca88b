//! Signing in, and finding out who is calling.

pub mod api_tokens;
pub mod credentials;
pub mod delegation;
pub mod directory;
pub mod first_start;
pub mod groups;
pub mod identities;
pub mod keys;
pub mod revocation;
pub mod rights;
pub mod scram;
pub mod sessions;
pub mod sign_on;
pub mod token_lookup;
pub mod user_settings;
pub mod users;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use moka::sync::Cache;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use self::credentials::Credential;
use self::directory::{Caller, Directory};
use self::keys::SigningKeys;
use self::sessions::Sessions;
use self::token_lookup::{ApiTokens, KnownToken, PREFIX};
use crate::auth::throttle::{Attempt, Verdict};
use crate::auth::{AuthError, AuthSettings, Authorization, Passwords, Secret, Throttle, Tokens};
use crate::clock::Clock;
use crate::domain::document::flag;
use crate::domain::user;
use crate::domain::violation::clipped;
use crate::metrics::{Outcomes, SignIn};
use crate::query::Filter;
use crate::store::collections::USERS;
use crate::store::{FindQuery, Store, StoreError, Unit};

/// How long `Basic` is accepted without hashing again, as long as the password stays the same.
const BASIC_MEMORY: Duration = Duration::from_mins(5);
/// How many callers by `Basic` are remembered.
const BASIC_CALLERS: u64 = 1_000;
/// No user has this id. It is looked up for unknown names, so that every sign-in runs the same queries.
const NOBODY: i64 = 0;

/// Why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The caller is not authenticated.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The first password could not be written to its file, so the first administrator was not created.
    #[error("{} cannot be written", path.display())]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// What a user gets who signed in.
#[derive(Debug, Clone)]
pub struct Login {
    /// The user as clients see it.
    pub user: RawDocumentBuf,
    /// The token, shown this once.
    pub token: Secret,
    /// The beginning of the token's validity, in unix seconds.
    pub issued_at: i64,
    /// The end of the token's validity, in unix seconds.
    pub expires_at: i64,
}

/// Signs users in and recognises them later.
pub struct Accounts {
    store: Arc<dyn Store>,
    directory: Arc<Directory>,
    passwords: Passwords,
    tokens: Arc<Tokens>,
    keys: SigningKeys,
    api_tokens: ApiTokens,
    sessions: Sessions,
    throttle: Throttle,
    sign_ins: Outcomes,
    clock: Arc<dyn Clock>,
    max_time: Duration,
    basic: Option<BasicCallers>,
    /// The secret for salts of SCRAM, once it was needed.
    salts: OnceCell<[u8; 32]>,
}

/// What accounts are built from.
pub struct AccountParts {
    /// Where users, credentials and keys are.
    pub store: Arc<dyn Store>,
    /// Who they are and what they may do.
    pub directory: Arc<Directory>,
    /// Hashes passwords.
    pub passwords: Passwords,
    /// The source of the time.
    pub clock: Arc<dyn Clock>,
    /// The time budget for each query.
    pub max_time: Duration,
}

/// A user who gave the right password.
struct Identified {
    user: RawDocumentBuf,
    credential: Credential,
}

impl Accounts {
    /// Prepares sign-in; creates the key for tokens if there is none.
    ///
    /// # Errors
    /// As [`Store::find`] and [`Store::commit`].
    pub async fn open(parts: AccountParts, settings: &AuthSettings) -> Result<Self, AccountError> {
        let AccountParts { store, directory, passwords, clock, max_time } = parts;
        let tokens = Arc::new(Tokens::new(settings));
        let keys = SigningKeys::open(Arc::clone(&store), Arc::clone(&tokens), settings, clock.now(), max_time).await?;
        let api_tokens = ApiTokens::new(Arc::clone(&store), max_time);
        let sessions = Sessions::new(Arc::clone(&store), max_time);
        let throttle = Throttle::new(settings.throttle);
        let basic = settings.basic.then(BasicCallers::new);
        let sign_ins = Outcomes::of_sign_ins();
        let salts = OnceCell::new();
        Ok(Self {
            store,
            directory,
            passwords,
            tokens,
            keys,
            api_tokens,
            sessions,
            throttle,
            sign_ins,
            clock,
            max_time,
            basic,
            salts,
        })
    }

    /// Hashes passwords under the same bounds as sign-in does.
    pub fn passwords(&self) -> &Passwords {
        &self.passwords
    }

    /// How sign-ins ended since the start.
    pub fn sign_ins(&self) -> &Outcomes {
        &self.sign_ins
    }

    /// The keys that tokens are signed with.
    pub fn keys(&self) -> &SigningKeys {
        &self.keys
    }

    /// A cursor with this content, which every instance can open in the same context.
    pub fn seal_cursor(&self, context: &[u8], content: &[u8]) -> Option<String> {
        self.tokens.seal(context, content, self.clock.now())
    }

    /// The content of a cursor.
    pub fn open_cursor(&self, context: &[u8], cursor: &str) -> Option<Vec<u8>> {
        self.tokens.open(context, cursor)
    }

    /// Signs a user in with name and password.
    ///
    /// An unknown user, a locked user and a wrong password get the same answer after the same work.
    ///
    /// # Errors
    /// [`AuthError::WrongCredentials`], [`AuthError::TooManyAttempts`], [`AuthError::Busy`], or the store's.
    pub async fn login(
        &self,
        user_name: &str,
        password: Secret,
        address: Option<IpAddr>,
    ) -> Result<Login, AccountError> {
        let found = self.identify(user_name, password, address).await?;
        self.keys.refresh().await?;
        let Credential { user_id, epoch, .. } = found.credential;
        let issued = self.tokens.issue(user_id, epoch, self.clock.now()).map_err(AuthError::from)?;
        Ok(Login {
            user: user::shown(&found.user),
            token: issued.token,
            issued_at: issued.issued_at,
            expires_at: issued.expires_at,
        })
    }

    /// Signs a user in to the page, with name and password. The answer is the secret of the session, shown this once.
    ///
    /// # Errors
    /// As [`Accounts::login`].
    pub async fn open_session(
        &self,
        user_name: &str,
        password: Secret,
        address: Option<IpAddr>,
    ) -> Result<Secret, AccountError> {
        let Credential { user_id, epoch, .. } = self.identify(user_name, password, address).await?.credential;
        let now = self.clock.now();
        Ok(self.sessions.begin((user_id, epoch), now, now + self.tokens.lifetime()).await?)
    }

    /// The user of a session.
    ///
    /// # Errors
    /// [`AuthError::Missing`] without a secret; [`AuthError::ExpiredToken`] for a session that is over, or whose user was
    /// deleted, is locked, or has another password.
    pub async fn authenticate_session(&self, secret: Option<&str>) -> Result<Arc<Caller>, AccountError> {
        let secret = secret.ok_or(AuthError::Missing)?;
        let found = self.sessions.find(secret, self.clock.now()).await?.ok_or(AuthError::ExpiredToken)?;
        self.current(found.user_id, found.epoch).await?.ok_or_else(|| AuthError::ExpiredToken.into())
    }

    /// Ends a session at once, for every instance.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn end_session(&self, secret: &str) -> Result<(), AccountError> {
        Ok(self.sessions.end(secret).await?)
    }

    /// The caller, from the credentials of the request.
    ///
    /// # Errors
    /// [`AuthError::Missing`] without credentials. As [`Accounts::authenticate_token`] for a token. As
    /// [`Accounts::login`] for a name and a password, if the settings allow them.
    pub async fn authenticate(
        &self,
        shown: Option<&Authorization>,
        address: Option<IpAddr>,
    ) -> Result<Arc<Caller>, AccountError> {
        match (shown, &self.basic) {
            (Some(Authorization::Token(token)), _) => self.authenticate_token(token.expose()).await,
            (Some(Authorization::Basic { user_name, password }), Some(remembered)) => {
                self.authenticate_basic(remembered, user_name, password, address).await
            }
            (Some(Authorization::Basic { .. }) | None, _) => Err(AuthError::Missing.into()),
        }
    }

    /// The user of this token. Costs no store call as long as no user, group or password changes.
    ///
    /// # Errors
    /// [`AuthError::ExpiredToken`]; [`AuthError::InvalidToken`] also when the user was deleted, is locked, or has
    /// another password.
    pub async fn authenticate_token(&self, token: &str) -> Result<Arc<Caller>, AccountError> {
        if token.starts_with(PREFIX) {
            return self.authenticate_machine(token).await;
        }
        self.keys.refresh().await?;
        let claims = self.tokens.check(token, self.clock.now()).map_err(AuthError::from)?;
        self.current(claims.user_id, claims.epoch).await?.ok_or_else(|| AuthError::InvalidToken.into())
    }

    async fn authenticate_machine(&self, token: &str) -> Result<Arc<Caller>, AccountError> {
        let now = self.clock.now();
        let Some(known) = self.api_tokens.find(token, now).await? else {
            let expired = self.api_tokens.expired(token, now).await?.ok_or(AuthError::InvalidToken)?;
            let KnownToken { public_id, user_id, expires_at, .. } = &*expired;
            log::warn!(
                "token {public_id} of user {user_id} was refused: its time was over at {expires_at}; make a new one"
            );
            return Err(AuthError::ExpiredToken.into());
        };
        let user = self.directory.caller(known.user_id).await?.ok_or(AuthError::InvalidToken)?;
        Ok(Arc::new(known.caller(&user)))
    }

    async fn authenticate_basic(
        &self,
        remembered: &BasicCallers,
        user_name: &str,
        password: &Secret,
        address: Option<IpAddr>,
    ) -> Result<Arc<Caller>, AccountError> {
        if let Some((user_id, epoch)) = remembered.get(user_name, password)
            && let Some(caller) = self.current(user_id, epoch).await?
            // The user may have been renamed since.
            && user::login_of(&caller.user_name) == user::login_of(user_name)
        {
            return Ok(caller);
        }
        let Credential { user_id, epoch, .. } = self.identify(user_name, password.clone(), address).await?.credential;
        remembered.insert(user_name, password, (user_id, epoch));
        self.current(user_id, epoch).await?.ok_or_else(|| AuthError::WrongCredentials.into())
    }

    /// The user, if active and if this is still the password.
    async fn current(&self, user_id: i64, epoch: i64) -> Result<Option<Arc<Caller>>, StoreError> {
        let account = self.directory.account(user_id).await?;
        let current = account.filter(|account| account.active && account.epoch == Some(epoch));
        Ok(current.map(|account| Arc::clone(&account.caller)))
    }

    /// Checks name and password, counts the outcome, and logs a failure as a warning: repeated failures are a sign of
    /// guessing.
    async fn identify(
        &self,
        user_name: &str,
        password: Secret,
        address: Option<IpAddr>,
    ) -> Result<Identified, AccountError> {
        let identified = self.try_identify(Attempt { user_name, address }, password).await;
        self.note(Attempt { user_name, address }, &identified);
        identified
    }

    /// Counts the outcome of an attempt, and logs a refusal.
    fn note<T>(&self, attempt: Attempt<'_>, identified: &Result<T, AccountError>) {
        let Attempt { user_name, address } = attempt;
        let outcome = match identified {
            Ok(_) => SignIn::Accepted,
            Err(AccountError::Auth(AuthError::WrongCredentials)) => SignIn::Refused,
            Err(AccountError::Auth(AuthError::TooManyAttempts { .. })) => SignIn::HeldBack,
            // Nothing of the caller's.
            Err(_) => return,
        };
        self.sign_ins.note(outcome as usize);
        if outcome != SignIn::Accepted {
            let from = address.map_or_else(|| "an unknown address".to_owned(), |address| address.to_string());
            let reason = if outcome == SignIn::HeldBack { "too many failures" } else { "wrong name or password" };
            log::warn!("sign-in of {:?} from {from} refused: {reason}", clipped(user_name.to_owned()));
        }
    }

    async fn try_identify(&self, attempt: Attempt<'_>, password: Secret) -> Result<Identified, AccountError> {
        let user_name = attempt.user_name;
        let delay = self.brake(attempt)?;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let turn = self.passwords.turn().await.map_err(AuthError::from)?;
        // Others may have failed while this attempt waited for its turn, and many attempts may be waiting.
        self.brake(attempt)?;
        let credential = credentials::of_login(&*self.store, user_name, self.max_time).await?;
        let user_id = credential.as_ref().map_or(NOBODY, |credential| credential.user_id);
        let user = FindQuery::new(Filter::equals("public_id", user_id), self.max_time);
        let user = self.store.first(USERS, user).await?;
        let hash = credential.as_ref().and_then(|credential| credential.hash.clone());
        let checked = turn.check(password.clone(), hash).await.map_err(AuthError::from)?;
        let is_active = user.as_deref().and_then(|user| flag(user, "active")).unwrap_or(false);
        let (Some(user), Some(credential), true) = (user, credential, checked.matches && is_active) else {
            self.throttle.failed(attempt, self.clock.steady());
            return Err(AuthError::WrongCredentials.into());
        };
        self.throttle.succeeded(user_name);
        if checked.outdated {
            let hash = turn.hash(password).await.map_err(AuthError::from)?;
            self.renew(&credential, &hash).await?;
        }
        Ok(Identified { user, credential })
    }

    fn brake(&self, attempt: Attempt<'_>) -> Result<Duration, AuthError> {
        match self.throttle.verdict(attempt, self.clock.steady()) {
            Verdict::Go { delay } => Ok(delay),
            Verdict::Refuse { retry_after } => Err(AuthError::TooManyAttempts { retry_after }),
        }
    }

    /// Lets a user sign in at once who is held back after wrong passwords, in this process.
    pub fn forget_failures(&self, user_name: &str) {
        self.throttle.succeeded(user_name);
    }

    /// Stores a hash at the present cost. A concurrent change of the credential takes precedence.
    async fn renew(&self, credential: &Credential, hash: &str) -> Result<(), StoreError> {
        match self.store.commit(Unit::of(credential.rehashed(hash))).await {
            Ok(_) | Err(StoreError::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Recently checked callers by `Basic`: an Argon2 hash for each request would overload the machine.
///
/// The key is a salted hash; the salt exists only in the memory of this process.
struct BasicCallers {
    salt: [u8; 32],
    known: Cache<[u8; 32], (i64, i64)>,
}

impl BasicCallers {
    fn new() -> Self {
        let known = Cache::builder().max_capacity(BASIC_CALLERS).time_to_live(BASIC_MEMORY).build();
        Self { salt: rand::random(), known }
    }

    fn get(&self, user_name: &str, password: &Secret) -> Option<(i64, i64)> {
        self.known.get(&self.key(user_name, password))
    }

    fn insert(&self, user_name: &str, password: &Secret, user_and_epoch: (i64, i64)) {
        self.known.insert(self.key(user_name, password), user_and_epoch);
    }

    fn key(&self, user_name: &str, password: &Secret) -> [u8; 32] {
        let mut hasher = Sha256::new_with_prefix(self.salt);
        // The length distinguishes "ab" + "c" from "a" + "bc".
        hasher.update((user_name.len() as u64).to_le_bytes());
        hasher.update(user_name);
        hasher.update(password.expose());
        hasher.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_by_basic_are_told_apart_by_name_and_password() {
        let callers = BasicCallers::new();
        callers.insert("ada", &"secret".into(), (7, 1));
        assert_eq!(callers.get("ada", &"secret".into()), Some((7, 1)));
        assert_eq!(callers.get("ada", &"Secret".into()), None);
        assert_eq!(callers.get("adas", &"ecret".into()), None);
    }
}
