//! Passwords as Argon2id hashes, computed on separate threads with a bound on their number.
//!
//! Three properties of hashes could be abused by sign-ins. A hash costs memory: running and waiting hashes are bounded,
//! and memory is reused. It costs time: it runs on a separate thread. Skipping it would reveal which users exist: it is
//! never skipped.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argon2::password_hash::phc::{Output, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Argon2Settings, AuthSettings, Secret};

/// Why a password could not be checked or hashed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Too many others wait for their turn.
    #[error("too many passwords are being checked")]
    Busy,
    /// The stored hash is not one.
    #[error("a stored password hash is damaged")]
    Damaged,
    /// The hash could not be computed, for instance for lack of memory.
    #[error("a password could not be hashed: {reason}")]
    Failed {
        /// The library's message, which concerns only the cost parameters.
        reason: String,
    },
}

/// What checking a password found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// Whether the password matches the hash.
    pub matches: bool,
    /// Whether the hash was made at another cost than the present settings require.
    pub outdated: bool,
}

/// Hashes and checks passwords.
#[derive(Debug, Clone)]
pub struct Passwords {
    params: Params,
    shortest: usize,
    /// A hash that no password matches, checked if there is no stored one.
    nobody: Arc<str>,
    workspaces: Workspaces,
    /// Places for running and waiting hashes.
    places: Arc<Semaphore>,
    /// Room for those who hash.
    workers: Arc<Semaphore>,
}

/// The turn of one caller, until it is dropped.
#[derive(Debug)]
pub struct HashTurn {
    passwords: Passwords,
    permits: Arc<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl Passwords {
    /// Works at the cost and with the bounds that the settings name.
    ///
    /// # Errors
    /// [`PasswordError::Failed`] when Argon2 does not take the cost parameters.
    pub fn new(settings: &AuthSettings) -> Result<Self, PasswordError> {
        let Argon2Settings { memory_kib, iterations, parallelism } = settings.argon2;
        let params = Params::new(memory_kib, iterations, parallelism, None).map_err(failed)?;
        let parallel = settings.max_parallel_hashes;
        Ok(Self {
            nobody: hash_of_nobody(&params)?.into(),
            params,
            shortest: settings.min_password_length,
            workspaces: Workspaces::default(),
            places: Arc::new(Semaphore::new(
                parallel.saturating_add(settings.max_waiting_hashes).min(Semaphore::MAX_PERMITS),
            )),
            workers: Arc::new(Semaphore::new(parallel.min(Semaphore::MAX_PERMITS))),
        })
    }

    /// The fewest characters of a new password.
    pub fn shortest(&self) -> usize {
        self.shortest
    }

    /// Waits for a turn to hash or check.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] at once when too many wait already.
    pub async fn turn(&self) -> Result<HashTurn, PasswordError> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let worker = self.workers.clone().acquire_owned().await.map_err(|_| PasswordError::Busy)?;
        Ok(HashTurn { passwords: self.clone(), permits: Arc::new((place, worker)) })
    }

    /// Hashes a password, as a PHC string with a new salt.
    ///
    /// # Errors
    /// As [`Passwords::turn`]; [`PasswordError::Failed`] when the machine cannot compute it.
    pub async fn hash(&self, password: Secret) -> Result<String, PasswordError> {
        self.turn().await?.hash(password).await
    }

    /// Checks a password against a stored hash; without one it does the same work and finds no match.
    ///
    /// # Errors
    /// As [`Passwords::turn`]; [`PasswordError::Damaged`] when `stored` is not a hash.
    pub async fn check(&self, password: Secret, stored: Option<String>) -> Result<Checked, PasswordError> {
        self.turn().await?.check(password, stored).await
    }

    fn hash_now(&self, password: &Secret) -> Result<String, PasswordError> {
        let salt = Salt::new(&rand::random::<[u8; 16]>()).map_err(failed)?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone());
        let output = self.workspaces.compute(&argon2, password, &salt, Params::DEFAULT_OUTPUT_LEN)?;
        written(&self.params, salt, output)
    }

    fn check_now(&self, password: &Secret, stored: Option<&str>) -> Result<Checked, PasswordError> {
        let hash = PasswordHash::new(stored.unwrap_or(&self.nobody)).map_err(|_| PasswordError::Damaged)?;
        let (Some(salt), Some(expected)) = (&hash.salt, &hash.hash) else { return Err(PasswordError::Damaged) };
        let algorithm = Algorithm::try_from(hash.algorithm.as_str()).map_err(|_| PasswordError::Damaged)?;
        let version =
            hash.version.map_or(Ok(Version::default()), Version::try_from).map_err(|_| PasswordError::Damaged)?;
        let params = Params::try_from(&hash).map_err(|_| PasswordError::Damaged)?;
        let argon2 = Argon2::new(algorithm, version, params);
        let found = self.workspaces.compute(&argon2, password, salt, expected.len())?;
        // The library compares outputs in constant time.
        Ok(Checked { matches: found == *expected && stored.is_some(), outdated: self.is_outdated(&hash) })
    }

    fn is_outdated(&self, hash: &PasswordHash) -> bool {
        let wanted = PasswordHash::new(&self.nobody).expect("it was written by this library");
        hash.algorithm != wanted.algorithm || hash.version != wanted.version || hash.params != wanted.params
    }
}

impl HashTurn {
    /// Hashes a password, as a PHC string with a new salt.
    ///
    /// # Errors
    /// [`PasswordError::Failed`] when the machine cannot compute it.
    pub async fn hash(&self, password: Secret) -> Result<String, PasswordError> {
        self.work(move |passwords| passwords.hash_now(&password)).await
    }

    /// Checks a password against a stored hash; without one it does the same work and finds no match.
    ///
    /// # Errors
    /// [`PasswordError::Damaged`] when `stored` is not a hash, [`PasswordError::Failed`] when the machine cannot compute it.
    pub async fn check(&self, password: Secret, stored: Option<String>) -> Result<Checked, PasswordError> {
        self.work(move |passwords| passwords.check_now(&password, stored.as_deref())).await
    }

    /// Runs on a thread for slow work. The permits go with it, because a client that hangs up does not stop a running
    /// hash.
    async fn work<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Passwords) -> Result<T, PasswordError> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let (passwords, permits) = (self.passwords.clone(), Arc::clone(&self.permits));
        let running = tokio::task::spawn_blocking(move || {
            let result = task(&passwords);
            drop(permits);
            result
        });
        running.await.map_err(failed)?
    }
}

/// Reusable memory for hashing: one buffer for each concurrent hash.
///
/// With the allocator, every thread that ever hashed would keep a buffer, and there are hundreds of threads for slow
/// work.
#[derive(Clone, Default)]
struct Workspaces(Arc<Mutex<Vec<Vec<Block>>>>);

impl Workspaces {
    fn compute(
        &self,
        argon2: &Argon2<'_>,
        password: &Secret,
        salt: &Salt,
        length: usize,
    ) -> Result<Output, PasswordError> {
        let mut memory = self.pieces().pop().unwrap_or_default();
        memory.resize(argon2.params().block_count(), Block::default());
        let mut output = vec![0; length];
        let password = password.expose().as_bytes();
        let done = argon2.hash_password_into_with_memory(password, salt, &mut output, memory.as_mut_slice());
        self.pieces().push(memory);
        done.map_err(failed)?;
        Output::new(&output).map_err(failed)
    }

    fn pieces(&self) -> MutexGuard<'_, Vec<Vec<Block>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Workspaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Workspaces")
    }
}

/// A hash of the right shape and cost, with a random salt and a random result: checking against it takes as long as
/// against any other, and no password fits.
fn hash_of_nobody(params: &Params) -> Result<String, PasswordError> {
    let salt = Salt::new(&rand::random::<[u8; 16]>()).map_err(failed)?;
    let output = Output::new(&rand::random::<[u8; Params::DEFAULT_OUTPUT_LEN]>()).map_err(failed)?;
    written(params, salt, output)
}

/// A hash as a PHC string.
fn written(params: &Params, salt: Salt, output: Output) -> Result<String, PasswordError> {
    let hash = PasswordHash {
        algorithm: Algorithm::Argon2id.ident(),
        version: Some(Version::V0x13.into()),
        params: params.try_into().map_err(failed)?,
        salt: Some(salt),
        hash: Some(output),
    };
    Ok(hash.to_string())
}

fn failed(error: impl std::fmt::Display) -> PasswordError {
    PasswordError::Failed { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheap() -> AuthSettings {
        let argon2 = Argon2Settings { memory_kib: 8, iterations: 1, parallelism: 1 };
        AuthSettings { argon2, max_parallel_hashes: 1, max_waiting_hashes: 0, ..AuthSettings::default() }
    }

    fn passwords() -> Passwords {
        Passwords::new(&cheap()).expect("the parameters are valid")
    }

    #[tokio::test]
    async fn a_hash_fits_its_password_alone() {
        let passwords = passwords();
        let hash = passwords.hash("correct horse".into()).await.expect("hash");
        assert!(hash.starts_with("$argon2id$v=19$m=8,t=1,p=1$"), "{hash}");
        let right = passwords.check("correct horse".into(), Some(hash.clone())).await;
        assert_eq!(right, Ok(Checked { matches: true, outdated: false }));
        let wrong = passwords.check("correct house".into(), Some(hash)).await;
        assert_eq!(wrong, Ok(Checked { matches: false, outdated: false }));
    }

    #[tokio::test]
    async fn equal_passwords_have_different_hashes() {
        let passwords = passwords();
        let first = passwords.hash("correct horse".into()).await.expect("hash");
        let second = passwords.hash("correct horse".into()).await.expect("hash");
        assert_ne!(first, second);
    }

    #[tokio::test]
    async fn a_missing_hash_is_checked_like_any_other_and_never_matches() {
        let passwords = passwords();
        let checked = passwords.check("anything".into(), None).await;
        assert_eq!(checked, Ok(Checked { matches: false, outdated: false }));
        let stand_in = PasswordHash::new(&passwords.nobody).expect("a PHC string");
        let real = passwords.hash("anything".into()).await.expect("hash");
        let real = PasswordHash::new(&real).expect("a PHC string");
        assert_eq!(stand_in.params, real.params);
        assert_eq!(stand_in.algorithm, real.algorithm);
    }

    #[tokio::test]
    async fn a_hash_made_at_another_cost_still_fits_and_is_outdated() {
        let old = passwords().hash("correct horse".into()).await.expect("hash");
        let argon2 = Argon2Settings { memory_kib: 16, iterations: 2, parallelism: 1 };
        let dearer = Passwords::new(&AuthSettings { argon2, ..cheap() }).expect("the parameters are valid");
        let checked = dearer.check("correct horse".into(), Some(old)).await;
        assert_eq!(checked, Ok(Checked { matches: true, outdated: true }));
    }

    #[tokio::test]
    async fn a_damaged_hash_is_an_error_not_a_mismatch() {
        let checked = passwords().check("anything".into(), Some("{sha256}abcdef".to_owned())).await;
        assert_eq!(checked, Err(PasswordError::Damaged));
    }

    #[tokio::test]
    async fn a_hash_that_another_program_made_is_checked() {
        // Of the reference implementation: echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1
        let hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let passwords = passwords();
        for (password, matches) in [("password", true), ("Password", false), ("password", true)] {
            let checked = passwords.check(password.into(), Some(hash.to_owned())).await;
            assert_eq!(checked, Ok(Checked { matches, outdated: true }));
        }
    }

    #[tokio::test]
    async fn memory_is_used_again() {
        let passwords = passwords();
        for _ in 0..5 {
            passwords.hash("correct horse".into()).await.expect("hash");
        }
        let pieces = passwords.workspaces.pieces();
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [8]);
    }

    #[tokio::test]
    async fn who_finds_no_place_is_sent_away_at_once() {
        let passwords = passwords();
        let turn = passwords.turn().await.expect("the first one gets a turn");
        assert_eq!(passwords.check("anything".into(), None).await, Err(PasswordError::Busy));
        drop(turn);
        assert!(passwords.check("anything".into(), None).await.is_ok());
    }

    #[tokio::test]
    async fn an_abandoned_check_keeps_its_place_until_it_is_done() {
        let passwords = passwords();
        let turn = passwords.turn().await.expect("a turn");
        let (permits, waiting) = (Arc::clone(&turn.permits), passwords.clone());
        drop(turn);
        assert!(matches!(waiting.turn().await, Err(PasswordError::Busy)));
        drop(permits);
        assert!(waiting.turn().await.is_ok());
    }

    #[test]
    fn the_defaults_follow_the_recommendation_of_owasp() {
        let passwords = Passwords::new(&AuthSettings::default()).expect("the parameters are valid");
        assert!(passwords.nobody.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
    }
}
