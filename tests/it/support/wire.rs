//! Requests byte by byte over a socket, for what no well-behaved client sends.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Long enough that only a service that hangs runs into it.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection to a service.
pub(crate) struct Wire<S = TcpStream> {
    stream: S,
}

/// An answer as it came over the wire.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Wire {
    /// Connects to `http://HOST:PORT`.
    pub(crate) fn connect(origin: &str) -> Self {
        let (_, address) = origin.split_once("://").expect("an origin");
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        stream.set_nodelay(true).expect("no delay");
        Self { stream }
    }

    /// Says that nothing more will be sent; answers can still be read.
    pub(crate) fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a half-closed connection");
    }

    /// Waits no longer than this for an answer.
    pub(crate) fn wait_for(&self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).expect("a time limit");
    }
}

impl<S: Read + Write> Wire<S> {
    /// The same over a stream of another kind.
    pub(crate) fn over(stream: S) -> Self {
        Self { stream }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("bytes are sent");
    }

    /// Sends as many of these pieces as the other side takes.
    pub(crate) fn send_while_open(&mut self, pieces: impl Iterator<Item = String>) {
        for piece in pieces {
            if self.stream.write_all(piece.as_bytes()).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The next answer, with its body when it has a `Content-Length`; `None` when the connection is closed instead.
    pub(crate) fn answer(&mut self) -> io::Result<Option<RawAnswer>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(0) if head.is_empty() => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => head.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let head = String::from_utf8(head).expect("a readable head").to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Some(RawAnswer { status, head, body: String::from_utf8(body).expect("a readable body") }))
    }

    /// The head of the next answer alone; its body stays where it is.
    pub(crate) fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        String::from_utf8(head).expect("a readable head")
    }

    /// The next answer, which must come.
    pub(crate) fn expect_answer(&mut self) -> RawAnswer {
        self.answer().expect("an answer in time").expect("an answer")
    }

    /// Asserts that the service closes the connection without a further answer.
    pub(crate) fn expect_close(&mut self) {
        assert_eq!(self.answer().expect("an end in time"), None);
    }
}
