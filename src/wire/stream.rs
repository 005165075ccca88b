//! A connection as frames: deadlines for heads and bodies, and memory only for bytes that came.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};

use super::codec::{CodecError, HEAD, Head};
use crate::admission::{Denied, Ticket};
use crate::settings::LimitSettings;

/// The maximum number of bytes of a message before the client has signed in.
pub(super) const LARGEST_BEFORE: usize = 64 * 1024;

/// The time that a connection waits for its next command after signing in: as long as a cursor of MongoDB lives.
const IDLE: Duration = Duration::from_mins(10);

/// How long an answer may take after the client has closed its sending direction.
const HUNG_UP: Duration = Duration::from_secs(1);

/// Memory for a message grows in steps of this many bytes, as they come.
const STEP: usize = 64 * 1024;

/// The frames of a connection.
pub(super) struct Frames<S> {
    reader: BufReader<ReadHalf<S>>,
    writer: WriteHalf<S>,
    limits: LimitSettings,
}

/// A frame as it came.
pub(super) struct Frame {
    pub(super) head: Head,
    /// The bytes of the head, for the checksum.
    pub(super) head_bytes: [u8; HEAD],
    pub(super) body: Vec<u8>,
}

/// Why there is no frame.
pub(super) enum NoFrame {
    /// The client went away, or was too slow.
    Gone(io::Error),
    /// The bytes are not a message, or one that is too large.
    Refused(CodecError, Option<Head>),
    /// There is no memory for it.
    Busy(Head),
}

impl From<io::Error> for NoFrame {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

impl<S: AsyncRead + AsyncWrite> Frames<S> {
    pub(super) fn over(stream: S, limits: LimitSettings) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: BufReader::new(reader), writer, limits }
    }

    /// The next frame; nothing when the client has closed the connection. Its memory is that of `ticket`.
    pub(super) async fn next(&mut self, ticket: &Ticket, is_signed_in: bool) -> Result<Option<Frame>, NoFrame> {
        let idle = if is_signed_in { IDLE } else { self.limits.keep_alive() };
        if within(idle, self.reader.fill_buf()).await?.is_empty() {
            return Ok(None);
        }
        let mut head_bytes = [0; HEAD];
        within(self.limits.head_timeout(), self.reader.read_exact(&mut head_bytes)).await?;
        let head = Head::read(head_bytes).map_err(|error| NoFrame::Refused(error, None))?;
        if !is_signed_in && head.length > LARGEST_BEFORE {
            return Err(NoFrame::Refused(CodecError("a message this large needs a sign-in first"), Some(head)));
        }
        let body = match timeout(self.limits.body_timeout(), self.body(&head, ticket)).await {
            Ok(body) => body?,
            Err(_) => return Err(NoFrame::Gone(io::ErrorKind::TimedOut.into())),
        };
        Ok(Some(Frame { head, head_bytes, body }))
    }

    async fn body(&mut self, head: &Head, ticket: &Ticket) -> Result<Vec<u8>, NoFrame> {
        let length = head.body();
        let mut body = Vec::with_capacity(length.min(STEP));
        while body.len() < length {
            if body.len() == body.capacity() {
                let more = body.capacity().min(length - body.len());
                ticket.hold(more).map_err(|_: Denied| NoFrame::Busy(*head))?;
                body.reserve_exact(more);
            }
            let room = (body.capacity() - body.len()).min(length - body.len());
            let read = (&mut self.reader).take(room as u64).read_buf(&mut body).await?;
            if read == 0 {
                return Err(NoFrame::Gone(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(body)
    }

    /// Waits until the client has hung up, and a while longer, because it may have closed only one direction. Never ends
    /// when the client has sent its next command already.
    pub(super) async fn hung_up(&mut self) {
        match self.reader.fill_buf().await {
            Ok(bytes) if !bytes.is_empty() => std::future::pending().await,
            Ok(_) => sleep(HUNG_UP).await,
            Err(_) => {}
        }
    }

    /// Sends a frame. The client may read nothing of it for `server.limits.write_timeout_ms`.
    pub(super) async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let mut rest = frame;
        while !rest.is_empty() {
            let written = within(self.limits.write_timeout(), self.writer.write(rest)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        within(self.limits.write_timeout(), self.writer.flush()).await
    }
}

async fn within<T>(time: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(time, step).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
