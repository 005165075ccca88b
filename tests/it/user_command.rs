//! `inventory-service user`, on an embedded store, and on a service that has it open.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;

use bson::rawdoc;
use inventory_service::app::{build_services, open_store};
use inventory_service::cli::user::{UserCommand, UserCommandError};
use inventory_service::clock::SystemClock;
use inventory_service::service::Services;
use inventory_service::settings::Settings;
use inventory_service::store::collections::USERS;
use inventory_service::store::{Change, Unit};
use tempfile::TempDir;

use crate::moving::backup::{command, complaint, succeeds};
use crate::support::app::{ADMIN_PASSWORD, send};
use crate::support::process::ServiceProcess;

/// A store with its first administrator, and the commands on it.
struct Console {
    services: Services,
    _directory: TempDir,
}

impl Console {
    async fn new() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let uri = format!("embedded:{}", directory.path().join("data").display());
        let pairs = [
            ("store.uri", uri.as_str()),
            ("auth.initial_admin_password", ADMIN_PASSWORD),
            ("auth.argon2.memory_kib", "8"),
            ("auth.argon2.iterations", "1"),
        ];
        let settings = Settings::defaults(&pairs).expect("valid settings");
        let store = open_store(&settings.store).await.expect("the store opens");
        let (services, _) = build_services(&settings, store, Arc::new(SystemClock)).await.expect("services");
        Self { services, _directory: directory }
    }

    /// What the command prints when this is typed, or with a password of its own making.
    async fn run(&self, command: UserCommand, typed: &str) -> Result<String, UserCommandError> {
        let mut output = Vec::new();
        command.run(&self.services, (!typed.is_empty()).then(|| typed.into()), &mut output).await?;
        Ok(String::from_utf8(output).expect("text"))
    }

    async fn can_sign_in(&self, user_name: &str, password: &str) -> bool {
        self.services.accounts.login(user_name, password.into(), None).await.is_ok()
    }
}

fn add(user_name: &str, group: &str) -> UserCommand {
    UserCommand::Add { user_name: user_name.to_owned(), group: group.to_owned(), generate: false }
}

#[tokio::test]
async fn an_added_user_signs_in_and_is_listed() {
    let console = Console::new().await;
    console.run(add("Ada", "admin"), "a long password").await.expect("a user");
    assert!(console.can_sign_in("ada", "a long password").await);
    let list = console.run(UserCommand::List, "").await.expect("a list");
    let lines: Vec<Vec<&str>> = list.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [["1", "admin", "admin", "active"], ["2", "Ada", "admin", "active"]]);
}

#[tokio::test]
async fn a_forgotten_password_is_replaced() {
    let console = Console::new().await;
    let passwd = |generate| UserCommand::Passwd { user_name: "ADMIN".to_owned(), generate };
    console.run(passwd(false), "another password").await.expect("a new password");
    assert!(console.can_sign_in("admin", "another password").await);
    assert!(!console.can_sign_in("admin", ADMIN_PASSWORD).await);
    let printed = console.run(passwd(true), "").await.expect("a new password");
    let line = printed.lines().next().expect("a line");
    assert!(console.can_sign_in("admin", line.strip_prefix("password: ").expect("the password")).await);
}

/// DATAGERRY takes names apart that differ in case alone.
#[tokio::test]
async fn of_two_users_with_one_name_in_another_case_the_one_that_is_named_is_meant() {
    let console = Console::new().await;
    for (public_id, user_name) in [(2_i64, "Ada"), (3, "ADA")] {
        let stored = rawdoc! {
            "_id": public_id, "public_id": public_id, "user_name": user_name, "group_id": 1_i64, "active": true,
        };
        let change = Change::Insert { collection: USERS, document: stored };
        console.services.store.commit(Unit::of(change)).await.expect("stored by another tool");
    }
    let passwd = |name: &str| UserCommand::Passwd { user_name: name.to_owned(), generate: false };
    let said = console.run(passwd("Ada"), "a long password").await.expect("a new password");
    assert_eq!(said, "user 2, Ada, has a new password\n");
    let refused = console.run(passwd("ADA"), "another password").await.expect_err("refused").to_string();
    assert!(refused.contains("another user has the same user_name"), "{refused}");
    assert!(console.can_sign_in("ada", "a long password").await);
}

#[tokio::test]
async fn a_locked_user_stays_out_until_unlocked() {
    let console = Console::new().await;
    console.run(add("ada", "user"), "a long password").await.expect("a user");
    console.run(UserCommand::Lock { user_name: "Ada".to_owned() }, "").await.expect("locked");
    assert!(!console.can_sign_in("ada", "a long password").await);
    console.run(UserCommand::Unlock { user_name: "Ada".to_owned() }, "").await.expect("unlocked");
    assert!(console.can_sign_in("ada", "a long password").await);
    let last = console.run(UserCommand::Lock { user_name: "admin".to_owned() }, "").await.expect_err("the last one");
    assert_eq!(last.to_string(), "user 1 is the last active administrator and stays one");
}

#[tokio::test]
async fn a_dropped_key_signs_everybody_out_and_a_kept_one_does_not() {
    let console = Console::new().await;
    let login = console.services.accounts.login("admin", ADMIN_PASSWORD.into(), None).await.expect("signed in");
    let accounts = &console.services.accounts;
    console.run(UserCommand::RotateKey { drop_old: false }, "").await.expect("a new key");
    assert!(accounts.authenticate_token(login.token.expose()).await.is_ok());
    console.run(UserCommand::RotateKey { drop_old: true }, "").await.expect("a new key");
    assert!(accounts.authenticate_token(login.token.expose()).await.is_err());
}

#[tokio::test]
async fn a_refusal_says_what_is_wrong() {
    let console = Console::new().await;
    let refusal = async |command, typed: &str| console.run(command, typed).await.expect_err("refused").to_string();
    assert_eq!(refusal(add("ada", "nobody"), "").await, "there is no group nobody; the groups are admin, user");
    assert_eq!(refusal(add("ada", "usr"), "").await, "there is no group usr, did you mean user?");
    assert_eq!(refusal(add("ada", "user"), "short").await, "password: must have at least 8 characters");
    let passwd = UserCommand::Passwd { user_name: "ada".to_owned(), generate: true };
    assert_eq!(refusal(passwd, "").await, "there is no user ada; inventory-service user list shows them");
}

/// Runs the command on the store of the directory, and types this.
fn user(directory: &Path, arguments: &[&str], typed: &str) -> Output {
    let mut command = command(directory, &[&["user"][..], arguments].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(typed.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_password_is_replaced_while_the_service_runs() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let client = reqwest::Client::new();
    let login = async |password: &str| {
        let body = serde_json::json!({"user_name": "admin", "password": password});
        send(client.post(format!("{}/rest/auth/login", service.origin)).json(&body)).await
    };
    let read = async |token: &str| {
        let request = client.get(format!("{}/rest/users/1", service.origin)).bearer_auth(token);
        send(request).await.status.as_u16()
    };
    let before = login(ADMIN_PASSWORD).await.json()["token"].as_str().expect("a token").to_owned();
    assert_eq!(read(&before).await, 200);
    let said = succeeds(&user(directory.path(), &["passwd", "admin"], "another password\n"));
    assert_eq!(said, "user 1, admin, has a new password\n");
    assert_eq!((read(&before).await, login(ADMIN_PASSWORD).await.status.as_u16()), (401, 401));
    service.wait_for_line("inventory-service user: user 1, admin, has a new password");
    let after = login("another password").await.json()["token"].as_str().expect("a token").to_owned();

    let said = succeeds(&user(directory.path(), &["add", "ada", "--group", "admin", "--generate"], ""));
    assert!(said.starts_with("password: ") && said.ends_with("added to the group admin\n"), "{said}");
    succeeds(&user(directory.path(), &["lock", "admin"], ""));
    assert_eq!(read(&after).await, 401);
    let list = succeeds(&user(directory.path(), &["list"], ""));
    let states: Vec<_> = list.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(states, ["locked", "active"]);
    succeeds(&user(directory.path(), &["unlock", "admin"], ""));
    assert_eq!(login("another password").await.status, 200);

    let refused = complaint(&user(directory.path(), &["passwd", "nobody", "--generate"], ""));
    assert!(refused.ends_with("there is no user nobody; inventory-service user list shows them"), "{refused}");
    let refused = complaint(&user(directory.path(), &["passwd", "admin"], "short\n"));
    assert!(refused.ends_with("password: must have at least 8 characters"), "{refused}");
}
