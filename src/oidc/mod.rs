//! Checks tokens of an issuer of OpenID Connect with the issuer's keys, which it fetches and keeps. All of it
//! goes through [`Issuer`].
//!
//! When requests go to the issuer:
//!
//! | occasion | at most every | does the request wait? |
//! |---|---|---|
//! | the start | once | no |
//! | a token names a key that is not known | [`PAUSE`] | yes, for the answer that is under way or due |
//! | the keys are older than [`FRESH`] | [`FRESH`] | no |
//!
//! *Invariant:* the issuer gets at most one request every [`PAUSE`], whatever callers send.
//!
//! Keys that the issuer no longer shows end with the next answer. While the issuer does not answer, the last keys are used
//! for [`KEPT`]. A thread of its own asks, so no request's end, turn or runtime has a part in it.

mod fetch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use moka::sync::Cache;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use self::fetch::{FetchError, Fetched, Fetcher};
use crate::auth::AuthError;
use crate::auth::oidc::{Bearer, IssuerKeys, OidcSettings, TokenProblem, TokenRules, may_be_of_issuer};
use crate::clock::Clock;
use crate::outgoing::CertificatesError;
use crate::plural::counted;

/// Between two questions to the issuer.
const PAUSE: Duration = Duration::from_secs(5);
/// How old keys are when a request has them fetched again.
const FRESH: Duration = Duration::from_mins(5);
/// How old keys are when they end.
const KEPT: Duration = Duration::from_hours(24);
/// Tokens with many groups are long. Longer ones are refused unread.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Asks the issuer of the settings now: how many of its keys can be used here. Blocks, for some seconds at most.
///
/// # Errors
/// Why there are none, in words.
pub fn count_keys(issuer: &str, settings: &OidcSettings) -> Result<usize, String> {
    let fetcher = Fetcher::new(issuer, &settings.ca_certificates);
    let fetcher = fetcher.map_err(|error| format!("auth.oidc.ca_certificates: {error}"))?;
    let fetched = fetcher.fetch().map_err(|error| error.to_string())?;
    Ok(fetched.keys.count())
}

/// An issuer whose tokens are checked here.
pub struct Issuer {
    rules: TokenRules,
    fetcher: Fetcher,
    clock: Arc<dyn Clock>,
    /// How many checked tokens are remembered.
    capacity: u64,
    state: Mutex<State>,
}

/// What is known of the issuer.
#[derive(Default)]
struct State {
    keys: Option<KnownKeys>,
    /// When it was last asked.
    asked_at: Option<Duration>,
    /// Whether the last answer was none.
    is_away: bool,
    /// Closed when the answer that is under way has come.
    answer: Option<watch::Receiver<()>>,
}

#[derive(Clone)]
struct KnownKeys {
    fetched_at: Duration,
    ring: Arc<Ring>,
}

/// Keys, with the tokens that they signed. Other keys bring another cache, so that no token outlives its key.
struct Ring {
    keys: IssuerKeys,
    /// As they came.
    text: Vec<u8>,
    /// By hash, so that memory holds no token.
    checked: Cache<[u8; 32], Arc<Bearer>>,
}

impl Issuer {
    /// The issuer of the settings; `None` without one. `capacity` is how many checked tokens are remembered.
    ///
    /// # Errors
    /// When the file with certificates cannot be used.
    pub fn new(
        rules: TokenRules,
        settings: &OidcSettings,
        capacity: u64,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, CertificatesError> {
        let fetcher = Fetcher::new(&rules.issuer, &settings.ca_certificates)?;
        Ok(Arc::new(Self { rules, fetcher, clock, capacity, state: Mutex::default() }))
    }

    /// What its tokens have to be.
    pub fn rules(&self) -> &TokenRules {
        &self.rules
    }

    /// Fetches the keys, so that the first caller need not wait. Returns at once.
    pub fn get_ready(self: &Arc<Self>) {
        drop(self.ask(PAUSE));
    }

    /// Whether a token is for [`Issuer::check`], and not one of the service's own.
    pub fn may_check(&self, token: &str) -> bool {
        token.len() <= LONGEST_TOKEN && may_be_of_issuer(token)
    }

    /// The bearer of a token that is valid now.
    ///
    /// # Errors
    /// [`AuthError::InvalidToken`], [`AuthError::UnfitToken`], [`AuthError::ExpiredToken`];
    /// [`AuthError::IssuerUnavailable`] when the keys cannot be fetched.
    pub async fn check(self: &Arc<Self>, token: &str) -> Result<Arc<Bearer>, AuthError> {
        if token.len() > LONGEST_TOKEN {
            return Err(AuthError::InvalidToken);
        }
        let hash: [u8; 32] = Sha256::digest(token).into();
        let mut outcome = self.check_with_known(token, hash);
        if outcome == Err(TokenProblem::UnknownKey)
            && let Some(mut answer) = self.ask(PAUSE)
        {
            // Nothing is ever sent: the wait ends when the sender is gone.
            let _ = answer.changed().await;
            outcome = self.check_with_known(token, hash);
        }
        outcome.map_err(|problem| match problem {
            TokenProblem::Invalid => AuthError::InvalidToken,
            TokenProblem::Expired => AuthError::ExpiredToken,
            TokenProblem::Unfit(reason) => AuthError::UnfitToken { reason },
            TokenProblem::UnknownKey if self.state().is_away => AuthError::IssuerUnavailable,
            TokenProblem::UnknownKey => AuthError::InvalidToken,
        })
    }

    fn check_with_known(self: &Arc<Self>, token: &str, hash: [u8; 32]) -> Result<Arc<Bearer>, TokenProblem> {
        let known = self.known();
        let ring = known.as_ref().map(|known| &known.ring);
        let bearer = if let Some(bearer) = ring.and_then(|ring| ring.checked.get(&hash)) {
            bearer
        } else {
            let bearer = Arc::new(self.rules.read(ring.map(|ring| &ring.keys), token)?);
            ring.inspect(|ring| ring.checked.insert(hash, Arc::clone(&bearer)));
            bearer
        };
        self.rules.check_time(&bearer, self.clock.now())?;
        if known.is_some_and(|known| self.age(known.fetched_at) > FRESH) {
            drop(self.ask(FRESH));
        }
        Ok(bearer)
    }

    /// The keys, as long as they count.
    fn known(&self) -> Option<KnownKeys> {
        let known = self.state().keys.clone();
        known.filter(|known| self.age(known.fetched_at) <= KEPT)
    }

    fn age(&self, moment: Duration) -> Duration {
        self.clock.steady().saturating_sub(moment)
    }

    /// Asks the issuer, unless it was asked within `pause`. Gives the answer that is under way, to wait for.
    fn ask(self: &Arc<Self>, pause: Duration) -> Option<watch::Receiver<()>> {
        let now = self.clock.steady();
        let mut state = self.state();
        // A closed one is of a thread that panicked.
        if let Some(answer) = state.answer.as_ref().filter(|answer| answer.has_changed().is_ok()) {
            return Some(answer.clone());
        }
        if state.asked_at.is_some_and(|asked_at| now < asked_at + pause) {
            return None;
        }
        let (sender, answer) = watch::channel(());
        state.asked_at = Some(now);
        state.answer = Some(answer.clone());
        drop(state);
        let issuer = Arc::clone(self);
        let started = thread::Builder::new().name("issuer-keys".to_owned()).spawn(move || {
            let fetched = issuer.fetcher.fetch();
            issuer.take(fetched);
            drop(sender);
        });
        if let Err(error) = started {
            self.take(Err(FetchError::NoThread(error)));
        }
        Some(answer)
    }

    fn take(&self, fetched: Result<Fetched, FetchError>) {
        let now = self.clock.steady();
        let issuer = &self.rules.issuer;
        let mut state = self.state();
        state.answer = None;
        let was_away = std::mem::replace(&mut state.is_away, fetched.is_err());
        match fetched {
            Ok(Fetched { keys, text }) => {
                let (count, known) = (keys.count(), state.keys.take());
                let is_other = known.as_ref().is_none_or(|known| known.ring.text != text);
                let ring = match known {
                    Some(known) if !is_other => known.ring,
                    _ => Arc::new(Ring { keys, text, checked: Cache::new(self.capacity) }),
                };
                state.keys = Some(KnownKeys { fetched_at: now, ring });
                drop(state);
                if is_other || was_away {
                    log::info!("sign-on: tokens of {issuer} are checked with {}", counted(count, "key"));
                }
            }
            Err(error) => {
                let known = state.keys.as_ref().map(|known| known.fetched_at);
                drop(state);
                match known.map(|fetched_at| self.age(fetched_at)).filter(|age| *age <= KEPT) {
                    Some(age) => log::warn!(
                        "sign-on: the keys of {issuer} cannot be fetched: {error}; those of {} min ago are used for {} h \
                         at most",
                        age.as_secs() / 60,
                        KEPT.as_secs() / 3600
                    ),
                    None => log::warn!(
                        "sign-on: the keys of {issuer} cannot be fetched: {error}; its tokens are refused until then"
                    ),
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
