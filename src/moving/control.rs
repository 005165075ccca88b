//! Requests a backup from the process that has an embedded store open, by a socket in the store's directory. Only the
//! owner of the store can use it. A connection has one request, `backup`. The answer is a line of JSON, the bytes, and
//! their SHA-256.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::net::{UnixListener, UnixStream};

use crate::store::FileStore;

/// The socket next to the store's file.
const SOCKET: &str = "inventory.sock";
/// The message about a path that fits no socket.
const TOO_LONG: &str =
    "the path is too long for a socket; stop the service for a backup, or move the store to a shorter path";
/// The request.
const BACKUP: &str = "backup";
/// How long a client may take to send the request, or to read the next bytes.
const PATIENCE: Duration = Duration::from_mins(1);
const CHUNK: usize = 256 * 1024;
/// Bytes of a SHA-256 in hexadecimal digits.
const DIGITS: usize = 64;

/// What comes before the bytes of a backup.
#[derive(Debug, Serialize, Deserialize)]
struct BackupHead {
    /// How many bytes follow.
    bytes: u64,
    /// Why there are none.
    error: Option<String>,
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
    pub fn start(store: Arc<dyn FileStore>, directory: &Path) -> io::Result<Self> {
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
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((connection, _)) => drop(tokio::spawn(answer(connection, Arc::clone(&store), owner))),
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

async fn answer(connection: UnixStream, store: Arc<dyn FileStore>, owner: u32) {
    // The file's mode has the same effect; this also covers the moment before it is set.
    if !connection.peer_cred().is_ok_and(|peer| peer.uid() == owner || peer.uid() == 0) {
        return;
    }
    let mut connection = tokio::io::BufReader::new(connection);
    let mut question = String::new();
    let mut asked = (&mut connection).take(64);
    let read = tokio::time::timeout(PATIENCE, asked.read_line(&mut question)).await;
    if !matches!(read, Ok(Ok(_))) {
        return;
    }
    let outcome = if question.trim_end() == BACKUP {
        log::info!("a backup is being made");
        store.backup().await.map_err(|error| error.to_string())
    } else {
        Err(format!("the service does not know {:?}; use the same version of both", question.trim_end()))
    };
    let Ok(connection) = connection.into_inner().into_std() else { return };
    let sent = tokio::task::spawn_blocking(move || send(connection, outcome)).await;
    match sent {
        Ok(Ok(bytes)) => log::info!("a backup of {bytes} bytes was made"),
        Ok(Err(error)) => log::warn!("a backup was not made: {error}"),
        Err(error) => log::warn!("a backup was not made: {error}"),
    }
}

fn send(mut connection: Connection, outcome: Result<File, String>) -> io::Result<u64> {
    connection.set_nonblocking(false)?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let (mut file, head) = match outcome {
        Ok(file) => {
            let bytes = file.metadata()?.len();
            (Some(file), BackupHead { bytes, error: None })
        }
        Err(error) => (None, BackupHead { bytes: 0, error: Some(error) }),
    };
    let line = serde_json::to_string(&head).map_err(io::Error::from)?;
    connection.write_all(format!("{line}\n").as_bytes())?;
    let Some(file) = &mut file else { return Err(io::Error::other(head.error.unwrap_or_default())) };
    let sum = copy(file, &mut connection, head.bytes)?;
    connection.write_all(sum.as_bytes())?;
    Ok(head.bytes)
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

/// A backup that a running service has made and is sending.
pub struct Sending {
    connection: BufReader<Connection>,
    bytes: u64,
}

/// Requests a backup from the service that has the store in `directory` open; `None` when none answers.
///
/// # Errors
/// When it refuses, or stops answering.
pub fn ask_for_backup(directory: &Path) -> io::Result<Option<Sending>> {
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
    connection.write_all(format!("{BACKUP}\n").as_bytes())?;
    let mut connection = BufReader::with_capacity(CHUNK, connection);
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let head: BackupHead = serde_json::from_str(&line)
        .map_err(|_| io::Error::other("the process that has the store open does not answer as this version does"))?;
    match head.error {
        Some(error) => Err(io::Error::other(format!("the running service made no backup: {error}"))),
        None => Ok(Some(Sending { connection, bytes: head.bytes })),
    }
}

impl Sending {
    /// Writes the received bytes to `to`, and compares the checksum. Returns the number of bytes.
    ///
    /// # Errors
    /// When bytes are missing or differ.
    pub fn receive(mut self, to: &mut dyn Write) -> io::Result<u64> {
        let sum = copy(&mut self.connection, to, self.bytes)?;
        let mut sent = [0; DIGITS];
        self.connection.read_exact(&mut sent)?;
        if sent != sum.as_bytes() {
            return Err(io::Error::other("what came is not what the service sent"));
        }
        Ok(self.bytes)
    }
}
