//! Signing in, staying signed in, and the first start, on a real store.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use chrono::TimeDelta;
use inventory_service::app;
use inventory_service::auth::{Argon2Settings, AuthError, AuthSettings, Authorization, Passwords, ThrottleSettings};
use inventory_service::clock::{Clock, ManualClock};
use inventory_service::domain::document::raw;
use inventory_service::domain::user::{PASSWORD_MASK, User};
use inventory_service::query::{Filter, Update};
use inventory_service::service::accounts::credentials::{self, NewPassword};
use inventory_service::service::accounts::directory::{Caller, Directory};
use inventory_service::service::accounts::first_start::{FirstAdmin, FirstStart, PASSWORD_FILE};
use inventory_service::service::accounts::keys::OldKeys;
use inventory_service::service::accounts::{AccountError, AccountParts, Accounts, Login};
use inventory_service::service::upkeep::migrations;
use inventory_service::settings::Settings;
use inventory_service::store::collections::{ALL, CREDENTIALS, GROUPS, KEYS, USERS};
use inventory_service::store::{Change, FindQuery, Store, StoreError, Total, Unit};
use tempfile::TempDir;

use crate::support::watched::{Watched, Watcher};

const MAX_TIME: Duration = Duration::from_secs(10);
const ADMIN_PASSWORD: &str = "correct horse";

/// A store of its own for each test, a clock that does not advance, and settings that cost little.
struct World {
    store: Arc<Watched<Finds>>,
    clock: Arc<ManualClock>,
    settings: AuthSettings,
    directory: TempDir,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Arc::new(Watched { inner: open_store(directory.path()).await, watcher: Arc::default() });
        store.prepare(ALL).await.expect("collections");
        let noon = "2026-01-01T12:00:00Z".parse().expect("a time");
        Self { store, clock: Arc::new(ManualClock::new(noon)), settings: cheap_settings(), directory }
    }

    /// With the administrator `admin` and that user's password.
    async fn with_admin() -> Self {
        let world = Self::new().await;
        world.first_start().await.expect("a first start");
        world
    }

    async fn first_start(&self) -> Result<Option<FirstAdmin>, AccountError> {
        self.start_with(&self.settings).await
    }

    async fn start_with(&self, settings: &AuthSettings) -> Result<Option<FirstAdmin>, AccountError> {
        let passwords = Passwords::new(settings).expect("valid settings");
        self.first_start_with(settings, &passwords).run().await
    }

    fn first_start_with<'a>(&'a self, settings: &'a AuthSettings, passwords: &'a Passwords) -> FirstStart<'a> {
        let (store, now, directory) = (&*self.store, self.clock.now(), self.directory.path());
        FirstStart { store, passwords, settings, directory, now, max_time: MAX_TIME }
    }

    /// An instance of the service on this store.
    async fn accounts(&self) -> Accounts {
        self.accounts_with(&self.settings).await
    }

    async fn accounts_with(&self, settings: &AuthSettings) -> Accounts {
        let store: Arc<dyn Store> = self.store.clone();
        let directory = Arc::new(Directory::new(Arc::clone(&store), MAX_TIME));
        let passwords = Passwords::new(settings).expect("valid settings");
        let clock: Arc<dyn Clock> = self.clock.clone();
        let parts = AccountParts { store, directory, passwords, clock, max_time: MAX_TIME };
        Accounts::open(parts, settings).await.expect("accounts")
    }

    async fn add_user(&self, user: User, password: &str) {
        let passwords = Passwords::new(&self.settings).expect("valid settings");
        let hash = passwords.hash(password.into()).await.expect("a hash");
        let insert = Change::Insert { collection: USERS, document: raw(&user.to_document()) };
        let unit = Unit::of(insert).and(credentials::insert(
            user.public_id,
            &user.user_name,
            NewPassword { hash: &hash, set_by: user.public_id },
        ));
        self.store.commit(unit).await.expect("a user");
    }

    async fn update(&self, collection: &'static str, public_id: i64, update: Update) {
        let change = Change::UpdateMany { collection, filter: Filter::equals("public_id", public_id), update };
        assert_eq!(self.store.commit(Unit::of(change)).await.expect("an update"), [1]);
    }

    async fn all(&self, collection: &str) -> Vec<Document> {
        let found = self.store.find(collection, &FindQuery::new(Filter::all(), MAX_TIME)).await.expect("documents");
        found.iter().map(|stored| Document::try_from(stored).expect("a document")).collect()
    }

    async fn change_password(&self, user_id: i64, password: &str) {
        let passwords = Passwords::new(&self.settings).expect("valid settings");
        let hash = passwords.hash(password.into()).await.expect("a hash");
        let credential = credentials::of_user(&*self.store, user_id, MAX_TIME).await.expect("an answer");
        let user_name = if user_id == 1 { "admin" } else { "Ada" };
        let change = credential
            .expect("a credential")
            .changed(user_name, Some(NewPassword { hash: &hash, set_by: user_id }), false)
            .expect("a change");
        self.store.commit(Unit::of(change)).await.expect("a new password");
    }
}

fn cheap_settings() -> AuthSettings {
    AuthSettings {
        argon2: Argon2Settings { memory_kib: 8, iterations: 1, parallelism: 1 },
        initial_admin_password: Some(ADMIN_PASSWORD.into()),
        throttle: ThrottleSettings { first_delay_ms: 0, longest_delay_ms: 0, ..ThrottleSettings::default() },
        ..AuthSettings::default()
    }
}

fn making_up_a_password() -> AuthSettings {
    AuthSettings { initial_admin_password: None, ..cheap_settings() }
}

fn ada(world: &World) -> User {
    User::new(7, "Ada", 2, world.clock.now())
}

async fn login(accounts: &Accounts, user_name: &str, password: &str) -> Result<Login, AccountError> {
    accounts.login(user_name, password.into(), Some(address())).await
}

async fn recognise(accounts: &Accounts, login: &Login) -> Result<Arc<Caller>, AccountError> {
    authenticate(accounts, Some(&format!("Bearer {}", login.token.expose()))).await
}

async fn authenticate(accounts: &Accounts, header: Option<&str>) -> Result<Arc<Caller>, AccountError> {
    accounts.authenticate(header.and_then(Authorization::parse).as_ref(), Some(address())).await
}

fn address() -> IpAddr {
    IpAddr::from([192, 0, 2, 1])
}

fn refusal<T>(result: Result<T, AccountError>) -> AuthError {
    match result {
        Err(AccountError::Auth(error)) => error,
        Err(error) => panic!("another failure: {error}"),
        Ok(_) => panic!("let in"),
    }
}

fn has_password_file(directory: &Path) -> bool {
    let names = fs::read_dir(directory).expect("a list").map(|entry| entry.expect("an entry").file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with(PASSWORD_FILE))
}

#[test]
fn the_compiled_in_settings_are_the_defaults() {
    let settings = Settings::defaults(&[]).expect("valid settings");
    assert_eq!(format!("{:?}", settings.auth), format!("{:?}", AuthSettings::default()));
}

// The first start.

#[tokio::test]
async fn the_first_start_makes_two_groups_and_an_administrator() {
    let world = World::with_admin().await;
    let groups = world.all(GROUPS).await;
    let rights: Vec<usize> = groups.iter().map(|group| group.get_array("rights").expect("rights").len()).collect();
    let names: Vec<&str> = groups.iter().map(|group| group.get_str("name").expect("a name")).collect();
    assert_eq!(names, ["admin", "user"]);
    assert_eq!(rights, [1, 6]);
    let users = world.all(USERS).await;
    assert_eq!(users.len(), 1);
    assert_eq!(users[0].get("public_id"), Some(&Bson::Int64(1)));
    assert_eq!(users[0].get("group_id"), Some(&Bson::Int64(1)));
    assert_eq!(users[0].get_str("user_name").ok(), Some("admin"));
    assert!(!users[0].contains_key("password"));
}

#[tokio::test]
async fn a_given_first_password_signs_in_and_is_written_nowhere() {
    let world = World::with_admin().await;
    assert!(!has_password_file(world.directory.path()));
    assert!(login(&world.accounts().await, "admin", ADMIN_PASSWORD).await.is_ok());
}

#[tokio::test]
async fn a_made_up_first_password_is_told_once_and_written_for_the_owner() {
    let world = World::new().await;
    let made = world.start_with(&making_up_a_password()).await.expect("a first start").expect("an administrator");
    let password = made.password.expect("a password");
    let file = made.file.expect("a file");
    assert_eq!(fs::read_to_string(file).expect("text").trim(), password.expose());
    assert!(login(&world.accounts().await, &made.user_name, password.expose()).await.is_ok());
    assert!(world.start_with(&making_up_a_password()).await.expect("a second start").is_none());
}

#[tokio::test]
async fn a_start_knows_whether_the_written_password_still_counts() {
    let world = World::new().await;
    let settings = making_up_a_password();
    let passwords = Passwords::new(&settings).expect("valid settings");
    let start = world.first_start_with(&settings, &passwords);
    let file = world.directory.path().join(PASSWORD_FILE);
    assert_eq!(start.is_password_of(&file).await.expect("an answer"), None, "no file");
    start.run().await.expect("a first start");
    assert_eq!(start.is_password_of(&file).await.expect("an answer"), Some(true));
    world.change_password(1, "a password of one's own").await;
    assert_eq!(start.is_password_of(&file).await.expect("an answer"), Some(false));
}

#[tokio::test]
async fn a_start_knows_the_written_password_of_an_administrator_who_was_there_before() {
    let world = World::new().await;
    let bob = User::new(7, "bob", 1, world.clock.now());
    let insert = Change::Insert { collection: USERS, document: raw(&bob.to_document()) };
    world.store.commit(Unit::of(insert)).await.expect("a user");
    let settings = making_up_a_password();
    let passwords = Passwords::new(&settings).expect("valid settings");
    let start = world.first_start_with(&settings, &passwords);
    let made = start.run().await.expect("a first start").expect("an administrator");
    assert_eq!(made.user_name, "bob");
    let file = world.directory.path().join(PASSWORD_FILE);
    assert_eq!(start.is_password_of(&file).await.expect("an answer"), Some(true));
}

#[tokio::test]
async fn the_second_start_keeps_the_first_password() {
    let world = World::with_admin().await;
    let other = AuthSettings { initial_admin_password: Some("another one".into()), ..cheap_settings() };
    assert!(world.start_with(&other).await.expect("a second start").is_none());
    let accounts = world.accounts().await;
    assert!(login(&accounts, "admin", ADMIN_PASSWORD).await.is_ok());
    assert_eq!(refusal(login(&accounts, "admin", "another one").await), AuthError::WrongCredentials);
}

#[tokio::test]
async fn of_instances_that_start_together_one_makes_the_administrator() {
    let world = World::new().await;
    let settings = making_up_a_password();
    let starts = futures::future::join_all((0..8).map(|_| world.start_with(&settings))).await;
    let made: Vec<FirstAdmin> = starts.into_iter().filter_map(|start| start.expect("a start")).collect();
    assert_eq!(made.len(), 1);
    assert_eq!(
        (world.all(USERS).await.len(), world.all(GROUPS).await.len(), world.all(CREDENTIALS).await.len()),
        (1, 2, 1)
    );
    let written = fs::read_to_string(world.directory.path().join(PASSWORD_FILE)).expect("text");
    assert!(login(&world.accounts().await, "admin", written.trim()).await.is_ok());
}

#[tokio::test]
async fn a_first_start_goes_on_where_one_broke_off() {
    let world = World::with_admin().await;
    let everyone = Change::DeleteMany { collection: CREDENTIALS, filter: Filter::all() };
    let one_group = Change::DeleteMany { collection: GROUPS, filter: Filter::equals("public_id", 2_i64) };
    world.store.commit(Unit::of(everyone).and(one_group)).await.expect("a broken start");
    world.update(USERS, 1, Update::set("user_name", "Root")).await;
    let made = world.first_start().await.expect("a start").expect("an administrator");
    assert_eq!(made.user_name, "Root");
    assert_eq!((world.all(USERS).await.len(), world.all(GROUPS).await.len()), (1, 2));
    assert!(login(&world.accounts().await, "root", ADMIN_PASSWORD).await.is_ok());
}

// Signing in.

#[tokio::test]
async fn who_signs_in_is_recognised_by_the_token() {
    let world = World::with_admin().await;
    world.add_user(ada(&world), "a password").await;
    let accounts = world.accounts().await;
    let login = login(&accounts, "aDA", "a password").await.expect("signed in");
    let noon = world.clock.now().timestamp();
    assert_eq!((login.issued_at, login.expires_at), (noon, noon + 12 * 60 * 60));
    let caller = recognise(&accounts, &login).await.expect("recognised");
    assert_eq!((caller.user_id, caller.group_id, caller.user_name.as_str()), (7, 2, "Ada"));
    assert!(caller.rights.grants("base.framework.object.edit"));
    assert!(!caller.rights.grants("base.framework.type.edit"));
}

#[tokio::test]
async fn the_user_in_the_answer_has_a_mask_for_a_password() {
    let world = World::with_admin().await;
    let login = login(&world.accounts().await, "admin", ADMIN_PASSWORD).await.expect("signed in");
    assert_eq!(login.user.get_str("password").ok(), Some(PASSWORD_MASK));
    assert!(!format!("{login:?}").contains("$argon2"));
}

#[tokio::test]
async fn unknown_locked_and_wrong_get_the_same_answer() {
    let world = World::with_admin().await;
    world.add_user(User { active: false, ..ada(&world) }, "a password").await;
    let accounts = world.accounts().await;
    for (user_name, password) in [("nobody", "a password"), ("ada", "a password"), ("admin", "wrong"), ("", "")] {
        let refused = refusal(login(&accounts, user_name, password).await);
        assert_eq!(refused, AuthError::WrongCredentials, "{user_name}");
    }
}

#[tokio::test]
async fn unknown_and_wrong_ask_the_store_the_same_questions() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    let mut questions = Vec::new();
    for user_name in ["admin", "nobody"] {
        let before = world.store.watcher.count();
        refusal(login(&accounts, user_name, "wrong").await);
        questions.push(world.store.watcher.count() - before);
    }
    assert_eq!(questions[0], questions[1]);
}

#[tokio::test]
async fn too_many_failures_lock_the_name_for_a_while_also_for_the_right_password() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    for _ in 0..10 {
        assert_eq!(refusal(login(&accounts, "admin", "wrong").await), AuthError::WrongCredentials);
    }
    let refused = refusal(login(&accounts, "admin", ADMIN_PASSWORD).await);
    assert_eq!(refused, AuthError::TooManyAttempts { retry_after: Duration::from_secs(30) });
    world.clock.advance(TimeDelta::seconds(30));
    assert!(login(&accounts, "admin", ADMIN_PASSWORD).await.is_ok());
    assert_eq!(refusal(login(&accounts, "admin", "wrong").await), AuthError::WrongCredentials);
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_no_refusal_longer() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    for _ in 0..10 {
        assert_eq!(refusal(login(&accounts, "admin", "wrong").await), AuthError::WrongCredentials);
    }
    world.clock.advance(TimeDelta::days(-5));
    let refused = refusal(login(&accounts, "admin", ADMIN_PASSWORD).await);
    assert_eq!(refused, AuthError::TooManyAttempts { retry_after: Duration::from_secs(30) });
    world.clock.advance(TimeDelta::seconds(30));
    assert!(login(&accounts, "admin", ADMIN_PASSWORD).await.is_ok());
}

#[tokio::test]
async fn a_clock_that_is_set_forward_lets_nobody_through_early() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    for _ in 0..10 {
        assert_eq!(refusal(login(&accounts, "admin", "wrong").await), AuthError::WrongCredentials);
    }
    world.clock.set(world.clock.now() + TimeDelta::days(5));
    let refused = refusal(login(&accounts, "admin", ADMIN_PASSWORD).await);
    assert_eq!(refused, AuthError::TooManyAttempts { retry_after: Duration::from_secs(30) });
}

#[tokio::test]
async fn of_many_attempts_at_once_no_more_are_looked_at_than_one_after_the_other() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    let attempts = (0..60).map(|_| login(&accounts, "admin", "wrong"));
    let refusals: Vec<AuthError> = futures::future::join_all(attempts).await.into_iter().map(refusal).collect();
    let looked_at = refusals.iter().filter(|refused| **refused == AuthError::WrongCredentials).count();
    // Those that are being hashed when the limit is reached are answered too.
    assert!((10..10 + world.settings.max_parallel_hashes).contains(&looked_at), "{looked_at}");
}

#[tokio::test]
async fn a_flood_is_sent_away_instead_of_queued() {
    let world = World::with_admin().await;
    let settings = AuthSettings { max_parallel_hashes: 1, max_waiting_hashes: 3, ..cheap_settings() };
    let accounts = world.accounts_with(&settings).await;
    let names: Vec<String> = (0..30).map(|number| format!("user{number}")).collect();
    let attempts = futures::future::join_all(names.iter().map(|name| login(&accounts, name, "wrong")));
    let turn = accounts.passwords().turn().await.expect("the only turn");
    let (outcomes, ()) = tokio::join!(attempts, async { drop(turn) });
    let busy = outcomes.into_iter().map(refusal).filter(|refused| matches!(refused, AuthError::Busy { .. })).count();
    // Three wait for the turn that is taken.
    assert_eq!(busy, 27);
}

#[tokio::test]
async fn a_hash_at_another_cost_is_renewed_and_the_tokens_stay_good() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    let before = login(&accounts, "admin", ADMIN_PASSWORD).await.expect("signed in");
    let argon2 = Argon2Settings { memory_kib: 16, iterations: 2, parallelism: 1 };
    let dearer = world.accounts_with(&AuthSettings { argon2, ..cheap_settings() }).await;
    assert!(login(&dearer, "admin", ADMIN_PASSWORD).await.is_ok());
    let stored = world.all(CREDENTIALS).await;
    assert!(stored[0].get_str("hash").expect("a hash").contains("m=16,t=2"));
    assert!(login(&dearer, "admin", ADMIN_PASSWORD).await.is_ok());
    assert_eq!(world.all(CREDENTIALS).await, stored);
    assert!(recognise(&accounts, &before).await.is_ok());
}

// Staying signed in.

#[tokio::test]
async fn a_request_costs_no_store_call_as_long_as_nothing_changes() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    let login = login(&accounts, "admin", ADMIN_PASSWORD).await.expect("signed in");
    recognise(&accounts, &login).await.expect("recognised");
    let before = world.store.watcher.count();
    for _ in 0..100 {
        recognise(&accounts, &login).await.expect("recognised");
    }
    assert_eq!(world.store.watcher.count(), before);
}

#[tokio::test]
async fn a_change_of_the_group_counts_from_the_next_request_on() {
    let world = World::with_admin().await;
    world.add_user(ada(&world), "a password").await;
    let accounts = world.accounts().await;
    let login = login(&accounts, "ada", "a password").await.expect("signed in");
    let caller = recognise(&accounts, &login).await.expect("recognised");
    assert!(!caller.rights.grants("base.framework.type.edit"));
    world.update(GROUPS, 2, Update::set("rights", vec!["base.framework.type.*"])).await;
    let caller = recognise(&accounts, &login).await.expect("recognised");
    assert!(caller.rights.grants("base.framework.type.edit"));
    world.update(USERS, 7, Update::set("group_id", 99_i64)).await;
    let caller = recognise(&accounts, &login).await.expect("recognised");
    assert_eq!(caller.rights.names().count(), 0);
}

#[tokio::test]
async fn a_token_ends_when_its_time_is_over() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    let login = login(&accounts, "admin", ADMIN_PASSWORD).await.expect("signed in");
    world.clock.advance(TimeDelta::hours(12) - TimeDelta::seconds(1));
    assert!(recognise(&accounts, &login).await.is_ok());
    world.clock.advance(TimeDelta::seconds(1));
    assert_eq!(refusal(recognise(&accounts, &login).await), AuthError::ExpiredToken);
}

#[tokio::test]
async fn without_a_readable_header_nobody_is_calling() {
    let world = World::with_admin().await;
    let accounts = world.accounts().await;
    for header in [None, Some(""), Some("Bearer "), Some("Digest x"), Some("Basic YWRtaW46Y29ycmVjdCBob3JzZQ==")] {
        assert_eq!(refusal(authenticate(&accounts, header).await), AuthError::Missing, "{header:?}");
    }
}

#[tokio::test]
async fn name_and_password_in_the_header_count_when_the_settings_allow_it() {
    let world = World::with_admin().await;
    let accounts = world.accounts_with(&AuthSettings { basic: true, ..cheap_settings() }).await;
    // admin:correct horse
    let header = Some("Basic YWRtaW46Y29ycmVjdCBob3JzZQ==");
    for _ in 0..3 {
        assert_eq!(authenticate(&accounts, header).await.expect("recognised").user_id, 1);
    }
    world.change_password(1, "battery staple").await;
    assert_eq!(refusal(authenticate(&accounts, header).await), AuthError::WrongCredentials);
}

#[tokio::test]
async fn a_remembered_name_ends_with_a_rename() {
    let world = World::with_admin().await;
    let accounts = world.accounts_with(&AuthSettings { basic: true, ..cheap_settings() }).await;
    // admin:correct horse
    let header = Some("Basic YWRtaW46Y29ycmVjdCBob3JzZQ==");
    assert_eq!(authenticate(&accounts, header).await.expect("recognised").user_id, 1);
    let stored = credentials::of_user(&*world.store, 1, MAX_TIME).await.expect("an answer").expect("a credential");
    let renamed = stored.changed("root", None, false).expect("a change");
    world.store.commit(Unit::of(renamed)).await.expect("a rename");
    world.update(USERS, 1, Update::set("user_name", "root")).await;
    assert_eq!(refusal(authenticate(&accounts, header).await), AuthError::WrongCredentials);
}

#[tokio::test]
async fn epochs_begin_at_random() {
    let world = World::with_admin().await;
    world.add_user(ada(&world), "a password").await;
    let epochs: Vec<i64> =
        world.all(CREDENTIALS).await.iter().map(|stored| stored.get_i64("epoch").expect("an epoch")).collect();
    assert!(epochs[0] != epochs[1] && epochs.iter().all(|epoch| *epoch > 1_000_000), "{epochs:?}");
}

// Names that look alike.

#[tokio::test]
async fn users_who_look_alike_from_before_sign_in_and_nobody_joins_them() {
    let world = World::with_admin().await;
    let look_alike = User::new(7, "\u{430}dmin", 2, world.clock.now());
    let stranger = User::new(8, "grace", 2, world.clock.now());
    for user in [&look_alike, &stranger] {
        // As an earlier version stored it.
        let hash =
            Passwords::new(&world.settings).expect("valid settings").hash("a password".into()).await.expect("a hash");
        let credential = doc! {
            "_id": bson::oid::ObjectId::new(), "user_id": user.public_id, "login": &user.user_name, "hash": hash, "epoch": 1_i64,
        };
        let insert = Change::Insert { collection: USERS, document: raw(&user.to_document()) };
        let credential = Change::Insert { collection: CREDENTIALS, document: raw(&credential) };
        world.store.commit(Unit::of(insert).and(credential)).await.expect("a user");
    }
    let now = bson::DateTime::from_chrono(world.clock.now());
    for _ in 0..2 {
        migrations::run(&*world.store, migrations::ALL, now, MAX_TIME).await.expect("migrated");
    }
    let accounts = world.accounts().await;
    assert!(login(&accounts, "\u{430}dmin", "a password").await.is_ok());
    assert!(login(&accounts, "admin", ADMIN_PASSWORD).await.is_ok());
    let of_user = async |id| credentials::of_user(&*world.store, id, MAX_TIME).await.expect("an answer").expect("one");
    for (id, name, is_taken) in [(8, "adm\u{456}n", true), (8, "gr\u{430}ce", false), (7, "\u{430}dmins", false)] {
        let renamed = of_user(id).await.changed(name, None, false).expect("a change");
        let outcome = world.store.commit(Unit::of(renamed)).await;
        assert_eq!(matches!(outcome, Err(StoreError::Duplicate { .. })), is_taken, "{name}: {outcome:?}");
    }
}

// Keys.

#[tokio::test]
async fn instances_on_one_store_take_each_others_tokens() {
    let world = World::with_admin().await;
    let (first, second) = futures::future::join(world.accounts(), world.accounts()).await;
    assert_eq!(world.all(KEYS).await.len(), 1);
    let login = login(&first, "admin", ADMIN_PASSWORD).await.expect("signed in");
    assert!(recognise(&second, &login).await.is_ok());
}

#[tokio::test]
async fn a_rotated_key_signs_on_all_instances_and_the_old_one_still_checks() {
    let world = World::with_admin().await;
    let (first, second) = (world.accounts().await, world.accounts().await);
    let old = login(&first, "admin", ADMIN_PASSWORD).await.expect("signed in");
    assert!(first.keys().rotate(OldKeys::Keep, world.clock.now()).await.expect("a rotation"));
    world.clock.advance(TimeDelta::minutes(1));
    let new = login(&second, "admin", ADMIN_PASSWORD).await.expect("signed in");
    for accounts in [&first, &second] {
        assert!(recognise(accounts, &old).await.is_ok());
        assert!(recognise(accounts, &new).await.is_ok());
    }
    assert_eq!(world.all(KEYS).await.len(), 2);
}

#[tokio::test]
async fn dropping_the_old_key_ends_all_tokens_at_once() {
    let world = World::with_admin().await;
    let (first, second) = (world.accounts().await, world.accounts().await);
    let old = login(&first, "admin", ADMIN_PASSWORD).await.expect("signed in");
    assert!(recognise(&second, &old).await.is_ok());
    first.keys().rotate(OldKeys::Drop, world.clock.now()).await.expect("a rotation");
    for accounts in [&first, &second] {
        assert_eq!(refusal(recognise(accounts, &old).await), AuthError::InvalidToken);
        assert!(login(accounts, "admin", ADMIN_PASSWORD).await.is_ok());
    }
    assert_eq!(world.all(KEYS).await.len(), 1);
}

#[tokio::test]
async fn a_key_from_the_settings_is_not_stored() {
    let world = World::with_admin().await;
    let signing_key = Some("0123456789abcdef0123456789abcdef".into());
    let settings = AuthSettings { signing_key, ..cheap_settings() };
    let (first, second) = (world.accounts_with(&settings).await, world.accounts_with(&settings).await);
    assert!(world.all(KEYS).await.is_empty());
    let login = login(&first, "admin", ADMIN_PASSWORD).await.expect("signed in");
    assert!(recognise(&second, &login).await.is_ok());
    assert!(!first.keys().rotate(OldKeys::Keep, world.clock.now()).await.expect("an answer"));
    assert_eq!(refusal(recognise(&world.accounts().await, &login).await), AuthError::InvalidToken);
}

// Names.

#[tokio::test]
async fn names_cost_one_question_for_all_that_are_not_known_yet() {
    let world = World::with_admin().await;
    let full = User { first_name: Some("Ada".into()), last_name: Some("Lovelace".into()), ..ada(&world) };
    world.add_user(full, "a password").await;
    let directory = Directory::new(world.store.clone(), MAX_TIME);
    let before = world.store.watcher.count();
    let names = directory.user_names(&[1, 7, 7, 99]).await.expect("names");
    assert_eq!(world.store.watcher.count(), before + 1);
    assert_eq!((names[&1].as_ref(), names[&7].as_ref(), names.get(&99)), ("admin", "Ada Lovelace", None));
    assert_eq!(directory.user_names(&[1, 7, 99]).await.expect("names"), names);
    assert_eq!(world.store.watcher.count(), before + 1);
}

#[tokio::test]
async fn a_renamed_user_has_the_new_name_at_once() {
    let world = World::with_admin().await;
    let directory = Directory::new(world.store.clone(), MAX_TIME);
    assert_eq!(directory.user_names(&[1]).await.expect("names")[&1].as_ref(), "admin");
    world.update(USERS, 1, Update::set("user_name", "root")).await;
    assert_eq!(directory.user_names(&[1]).await.expect("names")[&1].as_ref(), "root");
}

#[tokio::test]
async fn only_an_active_user_is_a_caller_but_a_locked_one_exists() {
    let world = World::with_admin().await;
    world.add_user(User { active: false, ..ada(&world) }, "a password").await;
    let directory = Directory::new(world.store.clone(), MAX_TIME);
    assert!(directory.caller(1).await.expect("an answer").is_some());
    assert!(directory.caller(7).await.expect("an answer").is_none());
    assert!(directory.user_exists(7).await.expect("an answer"));
    assert!(!directory.user_exists(8).await.expect("an answer"));
}

#[tokio::test]
async fn numbers_that_another_tool_stored_in_another_type_are_read() {
    let world = World::with_admin().await;
    let id = bson::oid::ObjectId::new();
    let user: RawDocumentBuf =
        raw(&doc! {"_id": id, "public_id": 9_i32, "user_name": "old", "active": true, "group_id": 2.0});
    world.store.commit(Unit::of(Change::Insert { collection: USERS, document: user })).await.expect("a user");
    let caller = Directory::new(world.store.clone(), MAX_TIME).caller(9).await.expect("an answer").expect("a caller");
    assert_eq!((caller.user_id, caller.group_id), (9, 2));
    assert!(caller.rights.grants("base.framework.object.view"));
}

/// Counts the questions that reach the store.
#[derive(Default)]
struct Finds(AtomicU64);

impl Finds {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Watcher for Finds {
    async fn find(&self, _: &dyn Store, _: &str, _: &FindQuery, total: Total) -> Result<(), StoreError> {
        if total == Total::Unasked {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

async fn open_store(directory: &Path) -> Arc<dyn Store> {
    let uri = format!("embedded:{}", directory.join("data").display());
    let settings = Settings::defaults(&[("store.uri", &uri)]).expect("valid settings");
    app::open_store(&settings.store).await.expect("the store opens")
}
