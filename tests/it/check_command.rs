//! `inventory-service check`, as a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use inventory_service::history::entry::{Action, After, Author, Changes, Draft, with_sequences};
use inventory_service::store::collections::{LOGS, TOKENS};
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{Change, FileStore, Store, Unit};
use jsonwebtoken::Algorithm;
use serde_json::json;
use tempfile::TempDir;

use crate::sign_on::issuer::{Reply, Signer, TestIssuer};
use crate::support::mongod::{self, Deployment};
use crate::support::process::ServiceProcess;

/// What the command says in `directory` under these variables.
pub(crate) fn check(directory: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    command.arg("check").args(flags).current_dir(directory).envs(variables.iter().copied());
    command.output().expect("the binary starts")
}

/// The one line that a command in trouble says.
pub(crate) fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "the check passed");
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[test]
fn a_running_service_is_ready_and_one_that_ended_is_not() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let port = service.origin.rsplit(':').next().expect("a port").to_owned();
    let variables = [("INVENTORY__SERVER__HOST", "0.0.0.0"), ("INVENTORY__SERVER__PORT", port.as_str())];
    let answer = check(directory.path(), &["--ready"], &variables);
    assert!(answer.status.success(), "{}", complaint(&answer));
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "{\"status\":\"ready\"}\n");
    service.terminate();
    let complaint = complaint(&check(directory.path(), &["--ready"], &variables));
    assert!(complaint.contains(&format!("nothing answers on 127.0.0.1:{port}")), "{complaint}");
}

#[test]
fn too_few_open_files_for_the_connections_are_a_note() {
    let directory = TempDir::new().expect("a temporary directory");
    let look = |limit: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$1\"; exec \"$0\" check", env!("CARGO_BIN_EXE_inventory-service"), limit]);
        let said = command.current_dir(directory.path()).output().expect("a shell");
        String::from_utf8_lossy(&said.stdout).lines().find(|line| line.contains("max_connections")).map(str::to_owned)
    };
    let told = look("1024").expect("a note");
    assert!(told.contains("10000 connections, but the system lets the process open 1024 files"), "{told}");
}

#[test]
fn the_service_takes_as_many_open_files_as_the_system_allows() {
    let directory = TempDir::new().expect("a temporary directory");
    let script = directory.path().join("start");
    let text = format!("#!/bin/sh\nulimit -Sn 256\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_inventory-service"));
    fs::write(&script, text).expect("a script");
    let hard = Command::new("sh").args(["-c", "ulimit -Hn"]).output().expect("a shell");
    let hard = String::from_utf8_lossy(&hard.stdout).trim().to_owned();
    let mut service = Command::new("sh");
    service.arg(&script).args(["--set", "server.port=0"]).current_dir(directory.path());
    service.env("INVENTORY__AUTH__ARGON2__MEMORY_KIB", "8").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut service = service.spawn().expect("a shell");
    let lines = BufReader::new(service.stderr.take().expect("it is piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("listening on ")));
    let limits = fs::read_to_string(format!("/proc/{}/limits", service.id())).expect("a process");
    service.kill().expect("it runs");
    service.wait().expect("it ends");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert_eq!(line.split_whitespace().nth(3), Some(hard.as_str()), "{line}");
}

#[test]
fn nobody_can_ask_a_service_on_any_port() {
    let directory = TempDir::new().expect("a temporary directory");
    let complaint = complaint(&check(directory.path(), &["--ready"], &[("INVENTORY__SERVER__PORT", "0")]));
    assert!(complaint.contains("set it to a fixed port"), "{complaint}");
}

/// The lines that the command prints, by their subject: verdict and text.
fn findings(output: &Output) -> Vec<(String, String, String)> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts = |line: &str| {
        let (verdict, rest) = line.split_once(' ').expect("a verdict");
        let (subject, text) = rest.trim().split_once(' ').expect("a subject");
        (verdict.to_owned(), subject.to_owned(), text.trim().to_owned())
    };
    text.lines().map(parts).collect()
}

#[track_caller]
fn assert_found(output: &Output, verdict: &str, subject: &str, text: &str) {
    let findings = findings(output);
    let is_meant =
        |(found, about, said): &(String, String, String)| found == verdict && about == subject && said.contains(text);
    assert!(findings.iter().any(is_meant), "{verdict} {subject} {text} is not in {findings:#?}");
}

/// The one thing that is wrong.
#[track_caller]
fn assert_only_wrong(output: &Output, subject: &str, text: &str) {
    assert_eq!(complaint(output), "inventory-service: one thing is wrong, see above");
    assert_found(output, "WRONG", subject, text);
}

#[test]
fn a_place_without_a_store_is_fine_and_stays_as_it_is() {
    let directory = TempDir::new().expect("a temporary directory");
    let output = check(directory.path(), &[], &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_found(&output, "ok", "directory", "can be written");
    assert_found(&output, "ok", "queries", "follow MongoDB 6.0.27");
    let full = directory.path().canonicalize().expect("a path");
    let nowhere = format!("there is none yet in {}; the first start makes it", full.join("data").display());
    assert_found(&output, "note", "store", &nowhere);
    let unread = format!("no settings file was read, there is no {}", full.join("config/base.toml").display());
    assert_found(&output, "ok", "settings", &unread);
    assert_eq!(fs::read_dir(directory.path()).expect("a list").count(), 0);
}

#[test]
fn a_store_in_order_passes_and_one_in_use_is_left_alone() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let output = check(directory.path(), &[], &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_found(&output, "note", "store", "another process has it open");
    let full = directory.path().canonicalize().expect("a path").join("data");
    for told in ["settings: no settings file was read".to_owned(), format!("store: embedded:{}", full.display())] {
        assert!(service.first_lines.iter().any(|line| line.contains(&told)), "{told}: {:?}", service.first_lines);
    }
    service.terminate();
    let output = check(directory.path(), &["--set", "server.port=0"], &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    // How full the disk is, is not for the test to say.
    let is_good = |(verdict, subject, _): &(String, String, String)| verdict == "ok" || subject == "disk";
    assert!(findings(&output).iter().all(is_good), "{:#?}", findings(&output));
    assert_found(&output, "ok", "migrations", "none is pending");
    assert_found(&output, "ok", "store", &format!("embedded:{} answers", full.display()));
}

#[test]
fn groups_that_the_settings_name_and_the_store_lacks_are_told() {
    let directory = TempDir::new().expect("a temporary directory");
    let issuer = TestIssuer::showing(&[&Signer::new("one", Algorithm::ES256)]);
    let mut settings = issuer.settings();
    settings.retain(|(key, _)| *key != "auth.oidc.groups");
    let named = [("auth.oidc.groups", "/a = admin; /n = nix"), ("auth.oidc.default_group", "user")];
    settings.extend(named.map(|(key, value)| (key, value.to_owned())));
    let flags: Vec<String> = settings.iter().map(|(key, value)| format!("--set={key}={value}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let lacks = "there is no group \"nix\" yet; callers that the settings put there are refused";
    let told = |output: &Output| {
        assert!(output.status.success(), "{}", complaint(output));
        findings(output)
            .into_iter()
            .filter(|(verdict, about, _)| verdict == "note" && about == "auth.oidc")
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&check(directory.path(), &flags, &[])), []);
    ServiceProcess::start(directory.path(), "embedded:data").terminate();
    let note = ("note".to_owned(), "auth.oidc".to_owned(), lacks.to_owned());
    assert_eq!(told(&check(directory.path(), &flags, &[])), [note]);
}

#[test]
fn a_setting_that_cannot_be_used_is_named() {
    let directory = TempDir::new().expect("a temporary directory");
    let complaint = complaint(&check(directory.path(), &["--set", "api.max_limit=0"], &[]));
    assert_eq!(complaint, "inventory-service: api.max_limit: must be at least 1");
}

#[test]
fn certificates_of_webhooks_that_cannot_be_read_are_wrong() {
    let directory = TempDir::new().expect("a temporary directory");
    let checked = |file: &str| {
        let variables = [("INVENTORY__SERVER__PORT", "0"), ("INVENTORY__WEBHOOKS__CA_CERTIFICATES", file)];
        check(directory.path(), &[], &variables)
    };
    assert_only_wrong(&checked("nowhere.pem"), "webhooks.ca_certificates", "nowhere.pem");
    let garbage = directory.path().join("garbage.pem");
    std::fs::write(&garbage, "garbage").expect("a file");
    assert_only_wrong(&checked(&garbage.display().to_string()), "webhooks.ca_certificates", "garbage.pem");
}

#[test]
fn a_port_that_is_taken_and_an_address_of_another_machine_are_told() {
    let directory = TempDir::new().expect("a temporary directory");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("an address").port().to_string();
    let output = check(directory.path(), &[], &[("INVENTORY__SERVER__PORT", port.as_str())]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_found(&output, "note", "server.host", &format!("127.0.0.1:{port} is taken"));
    let output = check(directory.path(), &["--set", "metrics.address=192.0.2.1:0"], &[]);
    assert_only_wrong(&output, "metrics.address", "the service cannot listen on 192.0.2.1:0");
}

#[test]
fn settings_that_take_more_memory_than_there_is_are_wrong() {
    let directory = TempDir::new().expect("a temporary directory");
    let output = check(directory.path(), &["--set", "store.cache_mib=4194304"], &[]);
    assert_only_wrong(&output, "memory", "lower store.cache_mib (4194304)");
}

#[test]
fn a_directory_that_is_none_is_wrong() {
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join("data"), "").expect("a file");
    let output = check(directory.path(), &[], &[]);
    assert_only_wrong(&output, "directory", "data is not a directory");
}

#[test]
fn a_server_that_does_not_answer_is_wrong() {
    let directory = TempDir::new().expect("a temporary directory");
    let uri = [("INVENTORY__STORE__URI", "mongodb://app:hush@127.0.0.1:1/inventory")];
    let output = check(directory.path(), &["--set", "store.connect_timeout_ms=200"], &uri);
    assert!(!output.status.success());
    assert_found(&output, "WRONG", "store", "mongodb://***@127.0.0.1:1/inventory cannot be opened");
    assert_found(&output, "WRONG", "store", "Connection refused");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hush"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_set_passes_until_an_index_is_dropped() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let uri = server.fresh_uri();
    let variables = [("INVENTORY__STORE__URI", uri.as_str())];
    let output = check(directory.path(), &[], &variables);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_found(&output, "note", "indexes", "the first start makes collections and indexes");
    assert_found(&output, "note", "users", "nobody can sign in yet");
    ServiceProcess::start(directory.path(), &uri).terminate();
    let output = check(directory.path(), &[], &variables);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_found(&output, "ok", "version", "MongoDB ");
    assert_found(&output, "ok", "transactions", "replica set rs0");
    assert_found(&output, "ok", "indexes", "are there");
    assert_found(&output, "ok", "clock", "s apart");
    assert_found(&output, "ok", "users", "somebody can sign in");
    let client = server.client().await;
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("a name");
    let types = client.database(name).collection::<bson::Document>("framework.types");
    types.drop_index("name").await.expect("dropped");
    let output = check(directory.path(), &[], &variables);
    assert_only_wrong(&output, "indexes", "missing: framework.types.name;");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_stand_in_the_way_of_a_unique_index_are_named() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let uri = server.fresh_uri();
    let variables = [("INVENTORY__STORE__URI", uri.as_str())];
    let client = server.client().await;
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("a name");
    let collection = |of: &str| client.database(name).collection::<Document>(of);
    let setting = |id: i32| doc! { "_id": id, "resource": format!("r{id}"), "user_id": 1, "setting_type": "GLOBAL" };
    collection("management.users.settings").insert_many([setting(1), setting(2)]).await.expect("of another tool");
    let rack = |id: i32, name: &str| doc! { "_id": id, "public_id": id, "name": name };
    collection("framework.types").insert_many([rack(5, "rack"), rack(6, "rack"), rack(7, "x")]).await.expect("stored");
    let output = check(directory.path(), &[], &variables);
    let clash = "framework.types.name: _id 5 and 6 with {\"name\":\"rack\"}";
    assert_found(&output, "WRONG", "indexes", clash);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("settings.identifier"), "settings do not clash");
    // Without the clash the service starts, with several settings that have no identifier.
    collection("framework.types").delete_one(doc! { "_id": 6 }).await.expect("deleted");
    ServiceProcess::start(directory.path(), &uri).terminate();
    assert_found(&check(directory.path(), &[], &variables), "ok", "indexes", "are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_datagerry_is_fit_for_the_first_start() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let uri = server.fresh_uri();
    let variables = [("INVENTORY__STORE__URI", uri.as_str())];
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("a name");
    let settings = server.client().await.database(name).collection::<Document>("management.users.settings");
    let setting = |id: i32| doc! { "_id": id, "resource": format!("r{id}"), "user_id": 1, "setting_type": "GLOBAL" };
    settings.insert_many([setting(1), setting(2)]).await.expect("of another tool");
    let output = check(directory.path(), &[], &variables);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_found(&output, "note", "indexes", "the first start makes collections and indexes");
}

#[test]
fn the_issuer_of_tokens_is_asked() {
    let directory = TempDir::new().expect("a temporary directory");
    let issuer = TestIssuer::showing(&[&Signer::new("one", Algorithm::ES256)]);
    let settings = issuer.settings();
    let named: Vec<(String, &str)> = settings
        .iter()
        .map(|(key, value)| (format!("INVENTORY__{}", key.replace('.', "__").to_uppercase()), value.as_str()))
        .collect();
    let variables: Vec<(&str, &str)> = named.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    let name = &issuer.name;
    let output = check(directory.path(), &[], &variables);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_found(&output, "ok", "auth.oidc", &format!("{name} answers and shows 1 key"));
    let place = format!("{name}/.well-known/openid-configuration");
    let other = json!({"issuer": "https://other.example.org", "jwks_uri": format!("{name}/keys")});
    for (reply, expected) in [
        (Reply::Json(other), format!("{place}: the answer is about the issuer \"https://other.example.org\"")),
        (Reply::Json(json!([])), format!("{place}: the answer is no JSON object with issuer and jwks_uri")),
        (Reply::Status(404), format!("{place}: the answer has status 404")),
        (Reply::Away, format!("{place}: ")),
        (Reply::Trickling, "the issuer took longer than 5 s".to_owned()),
    ] {
        issuer.answer_discovery(reply);
        let output = check(directory.path(), &[], &variables);
        assert_eq!(complaint(&output), "inventory-service: one thing is wrong, see above");
        assert_found(&output, "WRONG", "auth.oidc", &expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_replica_set_is_wrong() {
    let Some(server) = mongod::shared(Deployment::Standalone).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let output = check(directory.path(), &[], &[("INVENTORY__STORE__URI", &server.fresh_uri())]);
    assert!(!output.status.success(), "{}", complaint(&output));
    assert_found(&output, "WRONG", "store", "run rs.initiate() once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_other_tools_are_looked_at() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let uri = server.fresh_uri();
    let variables = [("INVENTORY__STORE__URI", uri.as_str())];
    assert!(complaint(&check(directory.path(), &["--deep"], &variables)).contains("there is no store in"));
    ServiceProcess::start(directory.path(), &uri).terminate();
    let sound = check(directory.path(), &["--deep"], &variables);
    assert!(sound.status.success(), "{}", complaint(&sound));
    let said = String::from_utf8_lossy(&sound.stdout).into_owned();
    // Two groups, the administrator, and the administrator's credentials.
    assert_eq!(said, "looked at 4 documents; the service can show each of them\n");
    let client = server.client().await;
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("a name");
    let collection = |name: &str, of: &str| client.database(name).collection::<Document>(of);
    let objects = collection(name, "framework.objects");
    objects.drop_index("public_id").await.expect("dropped");
    let same_name = [Bson::from(doc! { "name": "a" }), doc! { "name": "a" }.into()];
    objects
        .insert_many([
            doc! { "_id": "x", "type_id": 7, "fields": [] },
            doc! { "_id": 1, "public_id": 5, "type_id": 7, "fields": [] },
            doc! { "_id": 2, "public_id": 5.0, "type_id": 7.0, "fields": [] },
            doc! { "_id": 3, "public_id": 6, "type_id": "7", "fields": same_name.to_vec() },
            doc! { "_id": 4, "public_id": "8", "type_id": 7 },
        ])
        .await
        .expect("stored by another tool");
    let racks = doc! { "_id": 1, "public_id": 7, "name": "rack", "fields": [{ "label": "a" }] };
    collection(name, "framework.types").insert_one(racks).await.expect("stored by another tool");
    let lost = doc! { "_id": 1, "public_id": 9, "user_name": "ada", "group_id": 44, "active": 1 };
    collection(name, "management.users").insert_one(lost).await.expect("stored by another tool");
    let found = check(directory.path(), &["--deep"], &variables);
    assert_eq!(
        complaint(&found),
        "inventory-service: 8 documents cannot be shown as meant, see above; replace or delete what is wrong there"
    );
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    let expected = [
        "framework.types: _id 1, public_id 7: fields.0.name is missing",
        "management.users: _id 1, public_id 9: active must be true or false",
        "framework.objects: _id \"x\", public_id none: public_id is missing",
        "framework.objects: _id 2, public_id 5: another document has the same public_id",
        "framework.objects: _id 3, public_id 6: type_id must be a whole number; fields.1 has the name of an earlier entry",
        "framework.objects: _id 4, public_id \"8\": public_id must be a whole number from 1",
        "service.search: the words of 2 objects are not those of their values, for instance of 5, 6: another tool has changed \
         them; inventory-service reindex makes them again",
        "note: management.users: 1 document of a group that does not exist: 44",
        "looked at 11 documents",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    let repair = complaint(&check(directory.path(), &["--repair"], &variables));
    assert!(repair.contains("--repair is for the embedded store"), "{repair}");
}

/// An entry of the far future has the effect of a clock that was set back since.
#[tokio::test]
async fn a_clock_behind_the_newest_entry_is_wrong() {
    let directory = TempDir::new().expect("a temporary directory");
    ServiceProcess::start(directory.path(), "embedded:data").terminate();
    let store = EmbeddedStore::open(&directory.path().join("data"), &Options::default()).expect("the store");
    let (author, then) = (Author::default(), DateTime::from_millis(32_503_680_000_000));
    let draft = Draft {
        resource: "objects",
        public_id: 1,
        type_id: Some(1),
        action: Action::Create,
        author: &author,
        cause: None,
        changes: Changes::Created,
        after: After::default(),
    };
    let entry = with_sequences(&[draft.pending(None, then)], 1).remove(0);
    store.commit(Unit::of(Change::Insert { collection: LOGS, document: entry })).await.expect("stored");
    store.close();
    let found = findings(&check(directory.path(), &[], &[("INVENTORY__SERVER__PORT", "0")]));
    let history: Vec<_> = found.iter().filter(|(_, subject, _)| subject == "history").collect();
    assert!(
        matches!(&history[..], [(verdict, _, text)] if verdict == "WRONG" && text.contains("3000-01-01")),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_token_with_which_a_tool_could_not_sign_in_is_named() {
    let directory = TempDir::new().expect("a temporary directory");
    ServiceProcess::start(directory.path(), "embedded:data").terminate();
    let store = EmbeddedStore::open(&directory.path().join("data"), &Options::default()).expect("the store");
    let (noted, end) = (DateTime::from_millis(0), DateTime::from_millis(32_503_680_000_000));
    let token = |id: i64, ends: DateTime| {
        doc! {
            "_id": id, "public_id": id, "user_id": 7_i64, "name": format!("report {id}"), "hash": id.to_string(), "rights": [],
            "expires_at": ends, "tool_refused_at": noted,
        }
    };
    for token in [token(3, end), token(4, noted)] {
        let document = RawDocumentBuf::try_from(&token).expect("BSON");
        store.commit(Unit::of(Change::Insert { collection: TOKENS, document })).await.expect("stored");
    }
    store.close();
    let found = findings(&check(directory.path(), &[], &[("INVENTORY__SERVER__PORT", "0")]));
    let said: Vec<_> = found.iter().filter(|(_, subject, _)| subject == "wire").collect();
    let is_it =
        |text: &str| text.starts_with("a tool came with token 3 of user 7, \"report 3\", which was made without");
    assert!(matches!(&said[..], [(verdict, _, text)] if verdict == "note" && is_it(text)), "{found:?}");
}
