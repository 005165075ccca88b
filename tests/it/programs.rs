//! The commands as programs among others: closed pipes, full disks, directories without a store, shells and `man`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::process::ServiceProcess;

/// A command in a directory of its own, which is empty.
fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments).output().expect("the binary starts")
}

fn empty() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A store with something in it.
fn with_a_store() -> TempDir {
    let directory = empty();
    let made = run(directory.path(), &["demo", "--objects", "200"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    directory
}

#[test]
fn settings_in_front_of_a_command_and_behind_it_all_count() {
    let directory = empty();
    let made = run(
        directory.path(),
        &["--set", "store.uri=embedded:front", "demo", "--objects", "200", "--set=store.cache_mib=32"],
    );
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(directory.path().join("front").is_dir());
    assert!(!directory.path().join("data").exists());
    let wrong = run(directory.path(), &["--set", "server.prt=1", "check", "--set", "store.uri=embedded:front"]);
    assert!(text(&wrong.stderr).contains("server.prt"), "{}", text(&wrong.stderr));
}

#[test]
fn a_command_whose_reader_has_enough_ends_quietly() {
    let directory = with_a_store();
    let commands: [&[&str]; 6] =
        [&["check"], &["check", "--deep"], &["openapi"], &["user", "list"], &["man"], &["backup", "-"]];
    for arguments in commands {
        // The reader is gone before the first line.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = command(directory.path(), arguments).stdout(writer).output().expect("the binary starts");
        let complaint = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(141), "{arguments:?}: {complaint}");
        assert!(!complaint.contains("panicked") && !complaint.contains("inventory-service:"), "{complaint}");
    }
}

#[test]
fn an_answer_that_has_no_room_is_an_error_in_words() {
    let directory = with_a_store();
    let commands: [&[&str]; 4] = [&["check"], &["check", "--deep"], &["openapi"], &["user", "list"]];
    for arguments in commands {
        let full = File::options().write(true).open("/dev/full").expect("the device");
        let ended = command(directory.path(), arguments).stdout(full).output().expect("the binary starts");
        let complaint = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {complaint}");
        assert!(complaint.contains("the standard output cannot be written: No space left on device"), "{complaint}");
    }
}

#[test]
fn a_start_in_vain_makes_no_store() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = format!("server.port={}", taken.local_addr().expect("an address").port());
    for (setting, complaint) in [
        (port.as_str(), "is another instance running?"),
        ("server.tls.certificate=none.pem", "server.tls"),
        ("wire.address=203.0.113.1:1", "wire.address"),
    ] {
        let directory = empty();
        let ended = run(directory.path(), &["--set", "server.port=0", "--set", setting, "serve"]);
        assert_eq!(ended.status.code(), Some(1), "{setting}: {}", text(&ended.stderr));
        assert!(text(&ended.stderr).contains(complaint), "{setting}: {}", text(&ended.stderr));
        assert!(!directory.path().join("data").exists(), "{setting}");
    }
}

#[test]
fn commands_on_a_store_make_none() {
    let commands: [&[&str]; 8] = [
        &["user", "list"],
        &["user", "add", "ada"],
        &["check", "--deep"],
        &["check", "--repair"],
        &["compact"],
        &["reindex"],
        &["backup", "../file"],
        &["export", "../directory"],
    ];
    for arguments in commands {
        let above = empty();
        let directory = above.path().join("here");
        fs::create_dir(&directory).expect("a directory");
        let uri = ["--set", "store.uri=embedded:nowhere"];
        let ended = run(&directory, &[&uri, arguments].concat());
        let complaint = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {complaint}");
        assert!(complaint.contains("there is no store in nowhere"), "{arguments:?}: {complaint}");
        assert_eq!(fs::read_dir(above.path()).expect("it can be read").count(), 1, "{arguments:?}");
        assert_eq!(fs::read_dir(&directory).expect("it can be read").count(), 0, "{arguments:?}");
    }
}

#[test]
fn a_password_for_a_user_is_a_line_of_the_standard_input() {
    let directory = with_a_store();
    let password = directory.path().join("password");
    fs::write(&password, "a long password\n").expect("it is written");
    let typed = File::open(&password).expect("it is there");
    let mut add = command(directory.path(), &["user", "add", "ada"]);
    let added = add.stdin(typed).output().expect("the binary starts");
    assert!(text(&added.stdout).contains("ada, added to the group user"), "{}", text(&added.stderr));
}

#[test]
fn shells_complete_the_commands_and_man_describes_them() {
    let directory = empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&run(directory.path(), &["completions", shell]).stdout);
        assert!(script.contains("inventory-service") && script.contains("compact"), "{shell}: {script}");
    }
    let pages = text(&run(directory.path(), &["man"]).stdout);
    assert!(pages.contains(".TH inventory-service 1"), "{pages}");
    assert!(pages.contains("inventory\\-service\\-compact") || pages.contains("inventory-service-compact"), "{pages}");
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = text(&run(empty().path(), &["--version"]).stdout);
    let expected = concat!("inventory-service ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(expected), "{version}");
}

#[test]
fn a_wrong_use_of_a_command_names_what_was_written() {
    let directory = with_a_store();
    for (arguments, told) in [
        (&["export", "-"][..], "an export is a directory of files; name one, or ./- for this name"),
        (&["user", "add", "ada"], "the standard input holds no password; write one there, or say --generate"),
        (&["migrate", "--from", "copy"], "--from: must start with embedded:, mongodb:// or mongodb+srv://"),
        (
            &["migrate", "--from", "embedded:data", "--to", "embedded:data/"],
            "--from and --to name the same store; name the one that store.uri does not name",
        ),
        (&["serve", "--port", "99999"], "invalid value '99999' for '--port <PORT>': 99999 is not in 0..=65535"),
    ] {
        let said = text(&run(directory.path(), arguments).stderr);
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
    assert!(!directory.path().join("-").exists());
}

#[test]
fn a_store_with_a_long_path_is_backed_up_while_nobody_serves_it() {
    let directory = empty();
    let long = format!("store.uri=embedded:{}", "a-directory-with-a-long-name/".repeat(6));
    let made = run(directory.path(), &["demo", "--objects", "200", "--set", &long]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let backup = run(directory.path(), &["backup", "one", "--set", &long]);
    assert!(backup.status.success(), "{}", text(&backup.stderr));
    let mut service = command(directory.path(), &["serve", "--port", "0", "--set", &long]);
    let mut service = service.stderr(Stdio::piped()).spawn().expect("the binary starts");
    let log = BufReader::new(service.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let told = "the path is too long for a socket; stop the service for a backup, or move the store to a shorter path";
    let is_told = log.take(40).any(|line| line.contains(told));
    service.kill().and_then(|()| service.wait()).expect("it ends");
    assert!(is_told);
}

/// As a unit of `Type=notify` with `WatchdogSec=`.
#[test]
fn systemd_hears_that_the_service_is_ready_answers_and_stops() {
    let directory = empty();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a time limit");
    let hears = |state: &str| {
        let mut message = [0; 256];
        loop {
            let length = socket.recv(&mut message).expect("a message");
            if text(&message[..length]).trim_end() == state {
                break;
            }
        }
    };
    let path = path.to_str().expect("a path");
    let variables = [("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", "1000000")];
    let service = ServiceProcess::start_with(directory.path(), "embedded:data", &variables);
    hears("READY=1");
    hears("WATCHDOG=1");
    service.signal("TERM");
    hears("STOPPING=1");
}
