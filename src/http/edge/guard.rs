//! A connection with deadlines for clients that neither send nor read.
//!
//! The dispatcher of `actix-http` has a deadline for the head of the first request. It has another one for an idle
//! connection, which ends with the first byte of the next head. This module adds deadlines for a later head that never
//! ends, a body that trickles in after its answer, and an answer that nobody reads. While a handler runs there is no
//! deadline for reading; bodies have their own (see `http::body`).

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

use super::refusal::refusal;

/// How long a connection is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// From the end of a request to the beginning of the next.
    pub(super) idle: Duration,
    /// From the first byte after a request to the end of its head.
    pub(super) head: Duration,
    /// Between two bytes of an answer that the client reads.
    pub(super) write: Duration,
}

/// The state that handlers share with the connection, on one thread.
#[derive(Debug, Default)]
pub(super) struct Progress {
    under_way: Cell<usize>,
    changes: Cell<u64>,
    hung_up: Notify,
}

/// A request that is being handled; over when this is dropped.
pub(super) struct UnderWay(Rc<Progress>);

/// The requirements on a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite {}

impl<S: AsyncRead + AsyncWrite> Stream for S {}

/// The stream of a connection, plain or TLS, with its deadlines.
pub(super) struct Guarded {
    stream: Pin<Box<dyn Stream>>,
    patience: Patience,
    progress: Rc<Progress>,
    /// How many changes of `progress` this has seen.
    seen: u64,
    reading: ArrivalDeadline,
    writing: ArrivalDeadline,
    line: FirstLine,
    /// What is written in place of a bodiless refusal of the dispatcher, and how much of it is written.
    instead: Option<(Vec<u8>, usize)>,
}

/// The first line of a request: the parser before all routes calls a URL that it cannot hold invalid.
#[derive(Default)]
struct FirstLine {
    bytes: usize,
    is_over: bool,
}

impl FirstLine {
    fn take(&mut self, bytes: &[u8]) {
        if !self.is_over {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            self.bytes += end.unwrap_or(bytes.len());
            self.is_over = end.is_some();
        }
    }
}

/// A deadline that moves often and is rarely reached; the timer follows only when it fires.
#[derive(Default)]
struct ArrivalDeadline {
    at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Progress {
    /// Notes that a request is handled from now on.
    pub(super) fn begin(self: &Rc<Self>) -> UnderWay {
        self.under_way.set(self.under_way.get() + 1);
        self.change();
        UnderWay(Rc::clone(self))
    }

    /// Waits until the client has closed its sending direction.
    pub(super) async fn hung_up(&self) {
        self.hung_up.notified().await;
    }

    fn change(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
        self.0.change();
    }
}

impl Guarded {
    pub(super) fn new(stream: Pin<Box<dyn Stream>>, patience: Patience) -> Self {
        let (reading, writing) = (ArrivalDeadline::default(), ArrivalDeadline::default());
        let line = FirstLine::default();
        Self { stream, patience, progress: Rc::default(), seen: 0, reading, writing, line, instead: None }
    }

    /// The handlers' end of the shared state.
    pub(super) fn progress(&self) -> &Rc<Progress> {
        &self.progress
    }

    /// Whether the client's time is over, after a read of `bytes` or without data.
    fn read_is_over(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> bool {
        let changes = self.progress.changes.get();
        let changed = std::mem::replace(&mut self.seen, changes) != changes;
        if self.progress.under_way.get() > 0 {
            self.reading.at = None;
            return false;
        }
        if changed {
            self.line = FirstLine::default();
        }
        self.line.take(bytes);
        let now = Instant::now();
        if changed || self.reading.at.is_none() {
            self.reading.at = Some(now + self.patience.idle + self.patience.head);
        }
        if !bytes.is_empty() {
            self.reading.at = self.reading.at.min(Some(now + self.patience.head));
        }
        self.reading.is_over(context)
    }

    fn written(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.writing.at = None;
            // A connection with an answer in progress is not idle.
            self.progress.change();
            return written;
        }
        let patience = self.patience.write;
        self.writing.at.get_or_insert_with(|| Instant::now() + patience);
        if self.writing.is_over(context) { Poll::Ready(Err(gave_up())) } else { Poll::Pending }
    }
}

impl ArrivalDeadline {
    /// Whether the deadline has passed; if not, the task is woken when it does.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let Some(at) = self.at else { return false };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        while timer.as_mut().poll(context).is_ready() {
            if Instant::now() >= at {
                return true;
            }
            timer.as_mut().reset(at);
        }
        false
    }
}

fn gave_up() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client took too long")
}

impl AsyncRead for Guarded {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let read = this.stream.as_mut().poll_read(context, into);
        let is_over = this.read_is_over(context, &into.filled()[before..]);
        if is_over && read.is_pending() {
            return Poll::Ready(Err(gave_up()));
        }
        ready!(read)?;
        if into.filled().len() == before {
            this.progress.hung_up.notify_one();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.instead.is_none() && this.progress.under_way.get() == 0 {
            this.instead = refusal(bytes, this.line.bytes).map(|text| (text, 0));
        }
        while let Some((text, done)) = this.instead.take() {
            let written = this.stream.as_mut().poll_write(context, &text[done..]);
            let count = match this.written(context, written) {
                Poll::Ready(count) => count?,
                Poll::Pending => {
                    this.instead = Some((text, done));
                    return Poll::Pending;
                }
            };
            match done + count {
                all if all == text.len() => return Poll::Ready(Ok(bytes.len())),
                _ if count == 0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                done => this.instead = Some((text, done)),
            }
        }
        let written = this.stream.as_mut().poll_write(context, bytes);
        this.written(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.stream.as_mut().poll_write_vectored(context, slices);
        this.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = this.stream.as_mut().poll_flush(context).map_ok(|()| 0);
        if flushed.is_ready() {
            return flushed.map_ok(|_| ());
        }
        this.written(context, flushed).map_ok(|_| ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.as_mut().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_hours(1);

    fn guarded(patience: Patience) -> (Guarded, DuplexStream) {
        let (near, far) = duplex(64);
        (Guarded::new(Box::pin(near), patience), far)
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_ends_the_connection() {
        let (mut connection, _client) = guarded(Patience { idle: LONG, head: LONG, write: MOMENT });
        let written = connection.write_all(&[7; 1000]).await;
        assert_eq!(written.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_slowly_arrives() {
        let (mut connection, mut client) = guarded(Patience { idle: LONG, head: LONG, write: Duration::from_secs(30) });
        let reader = tokio::spawn(async move {
            let mut read = 0;
            while read < 1000 {
                sleep(Duration::from_millis(1)).await;
                read += client.read(&mut [0; 50]).await.expect("bytes");
            }
            read
        });
        connection.write_all(&[7; 1000]).await.expect("everything is taken");
        assert_eq!(reader.await.expect("a reader"), 1000);
    }

    #[tokio::test]
    async fn a_client_who_says_nothing_or_only_half_is_given_up() {
        let (mut silent, _client) = guarded(Patience { idle: MOMENT, head: MOMENT, write: LONG });
        assert_eq!(silent.read_u8().await.expect_err("silence").kind(), io::ErrorKind::TimedOut);
        let (mut halting, mut client) = guarded(Patience { idle: LONG, head: MOMENT, write: LONG });
        client.write_all(b"GET").await.expect("bytes are sent");
        let read = halting.read_exact(&mut [0; 4]).await;
        assert_eq!(read.expect_err("silence").kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn while_a_request_is_handled_the_client_may_be_silent() {
        let (mut connection, _client) = guarded(Patience { idle: MOMENT, head: MOMENT, write: LONG });
        let under_way = connection.progress().begin();
        tokio::select! {
            read = connection.read_u8() => panic!("the connection ended: {read:?}"),
            () = sleep(MOMENT * 10) => {}
        }
        drop(under_way);
        assert_eq!(connection.read_u8().await.expect_err("silence").kind(), io::ErrorKind::TimedOut);
    }
}
