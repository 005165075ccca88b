//! A server with access control: the errors for an operator whose URI has no user, a wrong password, or too few rights.

use std::path::Path;
use std::process::{Command, Stdio};

use bson::doc;
use tempfile::TempDir;

use crate::support::mongod::{Deployment, Mongod, program};

/// All that a command in trouble says.
fn said(directory: &Path, uri: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    command.args(arguments).current_dir(directory).env("INVENTORY__STORE__URI", uri).stdin(Stdio::null());
    let output = command.env("INVENTORY__STORE__START_WAIT_S", "0").output().expect("the binary starts");
    assert!(!output.status.success(), "{arguments:?} passed");
    [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()
}

/// A server with access control, and a client of its administrator.
async fn with_access_control() -> Option<(Mongod, mongodb::Client)> {
    let server = Mongod::start_with(program()?, Deployment::ReplicaSet, &["--auth"]).await;
    // The first user may be made from this machine without one.
    let root = doc! { "createUser": "root", "pwd": "root", "roles": ["root"] };
    server.client().await.database("admin").run_command(root).await.expect("the first user");
    let root = format!("mongodb://root:root@{}/admin?directConnection=true", server.address());
    let root = mongodb::Client::with_uri_str(root).await.expect("a well-formed URI");
    Some((server, root))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_refuses_is_named_with_the_remedy() {
    let Some((server, root)) = with_access_control().await else { return };
    let roles = vec![doc! { "role": "readWrite", "db": "elsewhere" }];
    let user = doc! { "createUser": "other", "pwd": "hush", "roles": roles };
    root.database("admin").run_command(user).await.expect("another user");
    let directory = TempDir::new().expect("a temporary directory");
    let (at, right) = (server.address(), "name a user in store.uri who has the role readWrite on the database");
    let (nobody, other) =
        (format!("mongodb://{at}/inventory"), format!("mongodb://other:hush@{at}/inventory?authSource=admin"));
    let commands: [&[&str]; 8] = [
        &["serve", "--set", "server.port=0"],
        &["check"],
        &["check", "--deep"],
        &["user", "list"],
        &["export", "out"],
        &["migrate", "--status"],
        &["history", "verify"],
        &["demo"],
    ];
    for arguments in commands {
        for (uri, shown, what) in [
            (&nobody, format!("mongodb://{at}/inventory"), "requires authentication"),
            (&other, format!("mongodb://***@{at}/inventory"), "not authorized on inventory to execute command"),
        ] {
            let said = said(directory.path(), uri, arguments);
            for expected in [shown.as_str(), what, "(error 13, Unauthorized)", right] {
                assert!(said.contains(expected), "{arguments:?} lacks {expected:?}: {said}");
            }
            for unwanted in ["hush", "lsid", "RawDocumentBuf", "the store failed\n"] {
                assert!(!said.contains(unwanted), "{arguments:?} has {unwanted:?}: {said}");
            }
        }
        let wrong =
            said(directory.path(), &format!("mongodb://other:wrong@{at}/inventory?authSource=admin"), arguments);
        for expected in ["Authentication", "check user, password and authSource in store.uri", "mongodb://***@"] {
            assert!(wrong.contains(expected), "{arguments:?} lacks {expected:?}: {wrong}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_tells_that_a_user_may_only_read() {
    let Some((server, root)) = with_access_control().await else { return };
    for (name, role) in [("reader", "read"), ("writer", "readWrite")] {
        let user = doc! { "createUser": name, "pwd": "hush", "roles": [{ "role": role, "db": "inventory" }] };
        root.database("admin").run_command(user).await.expect("another user");
    }
    let directory = TempDir::new().expect("a temporary directory");
    let uri = |name: &str| format!("mongodb://{name}:hush@{}/inventory?authSource=admin", server.address());
    let told = said(directory.path(), &uri("reader"), &["check"]);
    assert!(told.contains("WRONG  rights        the user reader may not insert, update, remove"), "{told}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    command.arg("check").current_dir(directory.path()).env("INVENTORY__STORE__URI", uri("writer"));
    let output = command.stdin(Stdio::null()).output().expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("the user writer may read and write"), "{told}");
}
