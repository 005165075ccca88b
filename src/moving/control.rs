//! Asks the process that has an embedded store open, by a socket in the store's directory. Only the owner of the store
//! can use it. A connection has one request: `backup`, or `user` and a line with a command. The answer is a line of
//! JSON, the bytes, and their SHA-256. Who has kept a backup says so, and only then it counts as made.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::net::{UnixListener, UnixStream};

use crate::metrics::Metrics;
use crate::service::Services;
use crate::store::FileStore;

/// The socket next to the store's file.
const SOCKET: &str = "inventory.sock";
/// The message about a path that fits no socket.
const TOO_LONG: &str =
    "the path is too long for a socket; stop the service for a backup, or move the store to a shorter path";
/// The request for a copy of the store.
const BACKUP: &str = "backup";
/// What a client sends once its backup is in place.
const KEPT: &str = "kept";
/// The request that a command follows. A version that does not know it reads, and logs, nothing of the command.
const USER: &str = "user";
/// An empty file next to the store's. It was changed when the last backup was made.
const MADE: &str = "inventory.redb.backed-up";
/// The maximum number of bytes of a command.
const LONGEST: u64 = 64 * 1024;
/// How long a client may take to send the request, or to read the next bytes.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a client may take to put a backup in place: a slow disk syncs some gigabytes.
const KEEPING: Duration = Duration::from_hours(1);
const CHUNK: usize = 256 * 1024;
/// Bytes of a SHA-256 in hexadecimal digits.
const DIGITS: usize = 64;

/// What comes before the bytes of an answer.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// How many bytes follow.
    bytes: u64,
    /// Why there are none.
    error: Option<String>,
}

/// Carries out a command about users; gives its output, or why not. It may block its thread.
pub type Users = fn(&Services, &str) -> Result<String, String>;

/// The number of bytes of an answer, and where they are.
type Body = (u64, Box<dyn Read + Send>);

/// What requests are about.
pub struct Served {
    /// The store.
    pub store: Arc<dyn FileStore>,
    /// The use cases.
    pub services: Arc<Services>,
    /// Carries out commands about users.
    pub users: Users,
    /// What backups are noted in.
    pub metrics: Arc<Metrics>,
}

/// Answers requests about the store as long as this lives.
pub struct Control {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Control {
    /// Begins to answer. The caller has the store in `directory` open.
    ///
    /// # Errors
    /// When the socket cannot be made: the directory cannot be written, or its path is too long for a socket.
    pub fn start(served: Served, directory: &Path) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        // One process at a time has the store, so an existing socket is a leftover of an earlier one.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => io::Error::new(error.kind(), TOO_LONG),
            _ => error,
        })?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let owner = rustix::process::geteuid().as_raw();
        let mark = directory.join(MADE);
        served.metrics.last_backup(mark.metadata().and_then(|found| found.modified()).ok());
        let parts = Arc::new((served, mark));
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((connection, _)) => drop(tokio::spawn(answer(connection, Arc::clone(&parts), owner))),
                    Err(error) => {
                        log::warn!("the control socket: {error}");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        });
        Ok(Self { path, task })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
        // The next start removes it as well.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(connection: UnixStream, parts: Arc<(Served, PathBuf)>, owner: u32) {
    // The file's mode has the same effect; this also covers the moment before it is set.
    if !connection.peer_cred().is_ok_and(|peer| peer.uid() == owner || peer.uid() == 0) {
        return;
    }
    let (served, mark) = &*parts;
    let mut connection = tokio::io::BufReader::new(connection);
    let Some(request) = line(&mut connection, 64).await else { return };
    let is_backup = request == BACKUP;
    let outcome = match request.as_str() {
        BACKUP => {
            log::info!("a backup is being made");
            copied(&*served.store).await
        }
        USER => {
            let Some(command) = line(&mut connection, LONGEST).await else { return };
            let parts = Arc::clone(&parts);
            let done = tokio::task::spawn_blocking(move || (parts.0.users)(&parts.0.services, &command)).await;
            let said = done.unwrap_or_else(|error| Err(error.to_string()));
            said.map(|said| (said.len() as u64, Box::new(io::Cursor::new(said)) as Box<dyn Read + Send>))
        }
        _ => Err(format!("the service does not know {request:?}; use the same version of both")),
    };
    let Ok(connection) = connection.into_inner().into_std() else { return };
    let sent = tokio::task::spawn_blocking(move || {
        let (mut connection, bytes) = send(connection, outcome)?;
        if is_backup {
            kept(&mut connection)?;
        }
        Ok((connection, bytes))
    });
    let sent = sent.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    if is_backup {
        served.metrics.backup(sent.is_ok());
        match sent {
            // Closing the connection ends the client's command.
            Ok((_connection, bytes)) => match marked(mark) {
                Ok(made_at) => {
                    served.metrics.last_backup(Some(made_at));
                    log::info!("a backup of {bytes} bytes was made");
                }
                Err(error) => log::warn!("a backup of {bytes} bytes was made; its time was not kept: {error}"),
            },
            Err(error) => log::warn!("a backup was not made: {error}"),
        }
    }
}

/// Gives the mark the time of now, and returns it. On a full disk that still works.
fn marked(mark: &Path) -> io::Result<SystemTime> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(mark)?;
    let now = SystemTime::now();
    file.set_modified(now)?;
    Ok(now)
}

/// A line of the request, in time and of at most `most` bytes.
async fn line(connection: &mut tokio::io::BufReader<UnixStream>, most: u64) -> Option<String> {
    let mut line = String::new();
    let mut taken = connection.take(most);
    let read = tokio::time::timeout(PATIENCE, taken.read_line(&mut line)).await;
    matches!(read, Ok(Ok(_))).then(|| line.trim_end().to_owned())
}

async fn copied(store: &dyn FileStore) -> Result<Body, String> {
    let file = store.backup().await.map_err(|error| error.to_string())?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    Ok((bytes, Box::new(file)))
}

/// Waits until the client has kept what was sent.
fn kept(connection: &mut Connection) -> io::Result<()> {
    connection.set_read_timeout(Some(KEEPING))?;
    let mut said = [0; KEPT.len()];
    let is_kept = connection.read_exact(&mut said).is_ok() && said == *KEPT.as_bytes();
    is_kept.then_some(()).ok_or_else(|| io::Error::other("the client did not keep what was sent"))
}

/// Sends the answer; gives the connection back, and the number of bytes.
fn send(mut connection: Connection, outcome: Result<Body, String>) -> io::Result<(Connection, u64)> {
    connection.set_nonblocking(false)?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let head = match &outcome {
        Ok((bytes, _)) => Head { bytes: *bytes, error: None },
        Err(error) => Head { bytes: 0, error: Some(error.clone()) },
    };
    let line = serde_json::to_string(&head).map_err(io::Error::from)?;
    connection.write_all(format!("{line}\n").as_bytes())?;
    let (bytes, mut body) = outcome.map_err(io::Error::other)?;
    let sum = copy(&mut body, &mut connection, bytes)?;
    connection.write_all(sum.as_bytes())?;
    Ok((connection, bytes))
}

/// Copies this number of bytes; gives their checksum.
fn copy(from: &mut dyn Read, to: &mut dyn Write, bytes: u64) -> io::Result<String> {
    let (mut hasher, mut chunk, mut left) = (Sha256::new(), vec![0; CHUNK], bytes);
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        from.read_exact(&mut chunk[..wanted])?;
        to.write_all(&chunk[..wanted])?;
        hasher.update(&chunk[..wanted]);
        left -= wanted as u64;
    }
    Ok(hex::encode(hasher.finalize()))
}

/// What a running service is sending.
pub struct Sending {
    connection: BufReader<Connection>,
    bytes: u64,
}

/// Requests a backup from the service that has the store in `directory` open; `None` when none answers.
///
/// # Errors
/// When it refuses, or stops answering.
pub fn ask_for_backup(directory: &Path) -> io::Result<Option<Sending>> {
    let refused = |error| io::Error::other(format!("the running service made no backup: {error}"));
    ask(directory, &format!("{BACKUP}\n"))?.map(|answer| answer.map_err(refused)).transpose()
}

/// Has the service that has the store in `directory` open carry out a command about users; gives its output, or `None`
/// when none answers.
///
/// # Errors
/// As [`ask_for_backup`].
pub fn ask_about_users(directory: &Path, command: &str) -> io::Result<Option<String>> {
    let Some(answer) = ask(directory, &format!("{USER}\n{command}\n"))? else { return Ok(None) };
    let mut said = Vec::new();
    answer.map_err(io::Error::other)?.receive(&mut said)?;
    String::from_utf8(said).map(Some).map_err(io::Error::other)
}

/// Sends a request; gives what comes back, or why the service refuses.
fn ask(directory: &Path, request: &str) -> io::Result<Option<Result<Sending, String>>> {
    let mut connection = match Connection::connect(directory.join(SOCKET)) {
        // With an invalid input the path is too long for a socket, so no service has one there.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::InvalidInput
            ) =>
        {
            return Ok(None);
        }
        connected => connected?,
    };
    connection.write_all(request.as_bytes())?;
    let mut connection = BufReader::with_capacity(CHUNK, connection);
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let head: Head = serde_json::from_str(&line)
        .map_err(|_| io::Error::other("the process that has the store open does not answer as this version does"))?;
    Ok(Some(head.error.map_or(Ok(Sending { connection, bytes: head.bytes }), Err)))
}

impl Sending {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Says that what was received is kept, and waits until the service has noted it.
    ///
    /// # Errors
    /// When the service has ended meanwhile.
    pub fn kept(self) -> io::Result<()> {
        let mut connection = self.connection.into_inner();
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(KEPT.as_bytes())?;
        connection.read_exact(&mut [0]).or_else(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(()),
            _ => Err(error),
        })
    }

    /// Writes the received bytes to `to`, and compares the checksum.
    ///
    /// # Errors
    /// When bytes are missing or differ.
    pub fn receive(&mut self, to: &mut dyn Write) -> io::Result<()> {
        let sum = copy(&mut self.connection, to, self.bytes)?;
        let mut sent = [0; DIGITS];
        self.connection.read_exact(&mut sent)?;
        if sent != sum.as_bytes() {
            return Err(io::Error::other("what came is not what the service sent"));
        }
        to.flush()
    }
}
