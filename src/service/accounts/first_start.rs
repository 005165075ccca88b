//! The first start on an empty store: the two groups and the first administrator.
//!
//! A start is the first one if nobody can sign in. One unit creates everything. Among instances that start together
//! unique keys choose one; the others find everything created.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use chrono::{DateTime, Utc};
use rand::RngExt;

use super::AccountError;
use super::credentials::{self, NewPassword};
use super::directory::OPERATOR;
use super::users::active_administrators;
use crate::auth::{AuthError, AuthSettings, Passwords, Secret};
use crate::domain::document::{integer, raw, text};
use crate::domain::group::{self, ADMIN_GROUP};
use crate::domain::user::{FIRST_ADMIN, User};
use crate::query::{Filter, Sort};
use crate::store::collections::{CREDENTIALS, GROUPS, USERS};
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// The file for a generated password.
pub const PASSWORD_FILE: &str = "initial-admin-password.txt";

/// What the first administrator is called.
const ADMIN_NAME: &str = "admin";

/// Letters and digits that cannot be mistaken for one another.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 24 of 32 letters: 120 bits.
const GROUPS_OF_LETTERS: usize = 6;

/// How often to read the state of the store again when another instance created something first.
const TRIES: usize = 5;

/// The first administrator, just made.
#[derive(Debug, Clone)]
pub struct FirstAdmin {
    /// What to sign in as.
    pub user_name: String,
    /// The password, if it was generated here: it is shown only once.
    pub password: Option<Secret>,
    /// The file with the password, readable only by its owner.
    pub file: Option<PathBuf>,
}

/// What the first start is done with.
#[derive(Clone, Copy)]
pub struct FirstStart<'a> {
    /// The store, prepared.
    pub store: &'a dyn Store,
    /// Hashes the password.
    pub passwords: &'a Passwords,
    /// They may have the password of the first administrator.
    pub settings: &'a AuthSettings,
    /// The directory for the file with a generated password.
    pub directory: &'a Path,
    /// This moment.
    pub now: DateTime<Utc>,
    /// The time budget for each query.
    pub max_time: Duration,
}

impl FirstStart<'_> {
    /// Creates the missing documents, if nobody can sign in yet; `None` when there is nothing to do.
    ///
    /// # Errors
    /// As [`Store::commit`]; [`AccountError::PasswordFile`] when the password cannot be written to its file.
    pub async fn run(&self) -> Result<Option<FirstAdmin>, AccountError> {
        if self.has_credentials().await? {
            return Ok(None);
        }
        if let Some(password) = self.settings.initial_admin_password.clone() {
            let made = self.make(password).await?;
            return Ok(made.map(|user_name| FirstAdmin { user_name, password: None, file: None }));
        }
        let password = made_up_password();
        let draft = PasswordDraft::write(self.directory, &password)?;
        match self.make(password.clone()).await {
            Ok(Some(user_name)) => {
                let file = draft.keep()?;
                Ok(Some(FirstAdmin { user_name, password: Some(password), file: Some(file) }))
            }
            Ok(None) => {
                draft.discard();
                Ok(None)
            }
            // The draft of the file stays: the unit may have taken effect although its answer was lost.
            Err(error) => Err(error),
        }
    }

    /// Whether the first administrator still has the password in this file; `None` without a file.
    ///
    /// # Errors
    /// As [`Store::find`] and [`Passwords::check`].
    pub async fn is_password_of(&self, file: &Path) -> Result<Option<bool>, AccountError> {
        let Ok(written) = fs::read_to_string(file) else { return Ok(None) };
        let administrator = self.administrator().await?.and_then(|user| integer(&user, "public_id"));
        // Whom a start chose among users that were there before.
        for id in [FIRST_ADMIN].into_iter().chain(administrator.filter(|id| *id != FIRST_ADMIN)) {
            let stored = credentials::of_user(self.store, id, self.max_time).await?;
            let Some(hash) = stored.and_then(|credential| credential.hash) else { continue };
            let password = Secret::from(written.trim_end().to_owned());
            if self.passwords.check(password, Some(hash)).await.map_err(AuthError::from)?.matches {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// Creates the administrator with this password, and returns the user name; `None` if another instance did.
    async fn make(&self, password: Secret) -> Result<Option<String>, AccountError> {
        let hash = self.passwords.hash(password).await.map_err(AuthError::from)?;
        let mut tries = 1;
        loop {
            let (unit, user_name) = self.unit(&hash).await?;
            match self.store.commit(unit).await {
                Ok(_) => return Ok(Some(user_name)),
                Err(StoreError::Duplicate { .. }) if self.has_credentials().await? => return Ok(None),
                Err(StoreError::Duplicate { .. }) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The missing documents. The credential comes last, so that a store without transactions never counts as done too
    /// early.
    async fn unit(&self, hash: &str) -> Result<(Unit, String), StoreError> {
        let mut unit = Unit::default();
        for group in group::built_in() {
            if self.stored(GROUPS, group.public_id).await?.is_none() {
                unit = unit.and(Change::Insert { collection: GROUPS, document: raw(&group.to_document()) });
            }
        }
        let (id, user_name) = if let Some(user) = self.administrator().await? {
            let id = integer(&user, "public_id").unwrap_or(FIRST_ADMIN);
            (id, text(&user, "user_name").unwrap_or(ADMIN_NAME).to_owned())
        } else if let Some(user) = self.stored(USERS, FIRST_ADMIN).await? {
            log::warn!("no active user is in group {ADMIN_GROUP}; the password is that of user {FIRST_ADMIN}");
            (FIRST_ADMIN, text(&user, "user_name").unwrap_or(ADMIN_NAME).to_owned())
        } else {
            let user = User::new(FIRST_ADMIN, ADMIN_NAME, ADMIN_GROUP, self.now);
            unit = unit.and(Change::Insert { collection: USERS, document: raw(&user.to_document()) });
            (FIRST_ADMIN, user.user_name)
        };
        let password = NewPassword { hash, set_by: OPERATOR };
        Ok((unit.and(credentials::insert(id, &user_name, password)), user_name))
    }

    /// The active administrator with the lowest id, if there are already users: imported ones, or users of other tools.
    async fn administrator(&self) -> Result<Option<RawDocumentBuf>, StoreError> {
        let query = FindQuery::new(active_administrators(), self.max_time);
        self.store.first(USERS, query.sorted(Sort::by("public_id", false))).await
    }

    /// Whether any user can sign in.
    async fn has_credentials(&self) -> Result<bool, StoreError> {
        self.store.has_any(CREDENTIALS, Filter::all(), self.max_time).await
    }

    async fn stored(&self, collection: &str, public_id: i64) -> Result<Option<RawDocumentBuf>, StoreError> {
        self.store.first(collection, FindQuery::new(Filter::equals("public_id", public_id), self.max_time)).await
    }
}

/// The written password under a temporary name, until this instance has won.
///
/// It is on disk before the administrator exists, so a crash leaves no administrator with an unknown password.
struct PasswordDraft {
    draft: PathBuf,
    file: PathBuf,
}

impl PasswordDraft {
    fn write(directory: &Path, password: &Secret) -> Result<Self, AccountError> {
        let file = directory.join(PASSWORD_FILE);
        let draft = directory.join(format!("{PASSWORD_FILE}.{:016x}", rand::random::<u64>()));
        fs::create_dir_all(directory)
            .and_then(|()| write_for_owner(&draft, &format!("{}\n", password.expose())))
            .map_err(|source| AccountError::PasswordFile { path: draft.clone(), source })?;
        Ok(Self { draft, file })
    }

    /// Renames the file, and replaces one that an earlier store may have left.
    fn keep(self) -> Result<PathBuf, AccountError> {
        match fs::rename(&self.draft, &self.file) {
            Ok(()) => Ok(self.file),
            Err(source) => Err(AccountError::PasswordFile { path: self.file, source }),
        }
    }

    fn discard(self) {
        if let Err(error) = fs::remove_file(&self.draft) {
            log::warn!("{} cannot be removed: {error}", self.draft.display());
        }
    }
}

fn write_for_owner(path: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// A new random password, easy to read out and to type: groups of four letters.
pub fn made_up_password() -> Secret {
    let mut random = rand::rng();
    let mut group =
        || -> String { (0..4).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect() };
    let groups: Vec<String> = (0..GROUPS_OF_LETTERS).map(|_| group()).collect();
    groups.join("-").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_password_has_six_groups_of_four_letters() {
        let password = made_up_password();
        let groups: Vec<&str> = password.expose().split('-').collect();
        assert_eq!(groups.len(), 6);
        assert!(groups.iter().all(|group| group.len() == 4 && group.bytes().all(|letter| ALPHABET.contains(&letter))));
        assert_ne!(made_up_password(), password);
    }

    #[cfg(unix)]
    #[test]
    fn the_written_password_is_readable_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let file =
            PasswordDraft::write(directory.path(), &"secret".into()).and_then(PasswordDraft::keep).expect("a file");
        assert_eq!(fs::metadata(&file).expect("metadata").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&file).expect("text"), "secret\n");
    }

    #[test]
    fn a_kept_password_takes_the_place_of_an_older_one() {
        let directory = tempfile::tempdir().expect("a directory");
        for password in ["first", "second"] {
            PasswordDraft::write(directory.path(), &password.into()).and_then(PasswordDraft::keep).expect("a file");
        }
        assert_eq!(fs::read_to_string(directory.path().join(PASSWORD_FILE)).expect("text"), "second\n");
    }

    #[test]
    fn a_discarded_password_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        PasswordDraft::write(directory.path(), &"secret".into()).expect("a file").discard();
        assert_eq!(fs::read_dir(directory.path()).expect("a list").count(), 0);
    }
}
