//! A client that costs little: requests that were written beforehand, and of an answer no more than its status and end.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::timing::Error;

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How many bytes of the buffer the last answer was; they go away with the next request.
    answered: usize,
}

/// An answer, in the buffer of its connection.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) head: &'a str,
    pub(crate) body: &'a [u8],
}

/// What ends a head.
const END: &[u8] = b"\r\n\r\n";

impl Connection {
    pub(crate) async fn open(port: u16) -> Result<Self, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 * 1024), answered: 0 })
    }

    /// Sends a request and reads its answer to the end.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>, Error> {
        self.buffer.drain(..self.answered);
        self.answered = 0;
        self.stream.write_all(request).await?;
        let (head, status, length) = loop {
            if let Some(head) = self.buffer.windows(END.len()).position(|window| window == END) {
                let text = std::str::from_utf8(&self.buffer[..head])?;
                let status = text.get(9..12).ok_or("no status")?.parse()?;
                break (head, status, body_length(text, status)?);
            }
            self.read().await?;
        };
        let begin = head + END.len();
        while self.buffer.len() < begin + length {
            self.read().await?;
        }
        self.answered = begin + length;
        let head = std::str::from_utf8(&self.buffer[..head])?;
        Ok(Answer { status, head, body: &self.buffer[begin..begin + length] })
    }

    async fn read(&mut self) -> Result<(), Error> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(())
    }
}

fn body_length(head: &str, status: u16) -> Result<usize, Error> {
    if matches!(status, 204 | 304) {
        return Ok(0);
    }
    header(head, "content-length")
        .ok_or_else(|| format!("an answer without a length: {head}"))?
        .parse()
        .map_err(Into::into)
}

/// The value of a header, by its name in small letters.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A request as it goes over the wire.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    if let Some(body) = body {
        let length = body.len().to_string();
        text.extend(["content-type: application/json\r\ncontent-length: ", &length, "\r\n"]);
    }
    text.push_str("\r\n");
    text.push_str(body.unwrap_or_default());
    text.into_bytes()
}
