//! The conversation with one client: a frame, its command, the answer, and so on.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::codec::{self, CodecError, Compressor, Head, MORE_TO_COME, Message, Packed, Query, Weight, opcode};
use super::commands;
use super::error::{WireError, code};
use super::session::Session;
use super::shared::Shared;
use super::stream::{Frame, Frames, LARGEST_BEFORE, NoFrame};
use crate::admission::Ticket;
use crate::store::StoreError;

/// Longer messages are packed and unpacked on another thread.
const LONG: usize = 256 * 1024;

/// A command that came, and how it wants its answer.
struct Asked {
    request: i32,
    database: Option<String>,
    body: Vec<u8>,
    /// Whether arrays were sent next to the document.
    has_sequences: bool,
    answer: Answer,
}

/// How an answer is sent.
enum Answer {
    Reply,
    Message { has_checksum: bool, compressor: Option<Compressor> },
    None,
}

/// Answers a client until one side ends the connection.
///
/// # Errors
/// When the client sends no frames, or does not read.
pub(super) async fn converse<S: AsyncRead + AsyncWrite>(
    shared: &Shared,
    stream: S,
    (id, peer): (i64, SocketAddr),
) -> io::Result<()> {
    let mut frames = Frames::over(stream, shared.parts.limits.clone());
    let mut session = Session::new(id, peer);
    loop {
        let ticket = session.ticket(shared);
        let is_unauthenticated = session.signed_in().is_none();
        let asked = match frames.next(&ticket, !is_unauthenticated).await {
            Ok(None) => return Ok(()),
            Ok(Some(frame)) => {
                let head = frame.head;
                shared.counters.bytes_in.fetch_add(i64::try_from(head.length).unwrap_or_default(), Ordering::Relaxed);
                match read(frame, &ticket, !is_unauthenticated).await {
                    Ok(asked) => asked,
                    Err(error) => return refuse(shared, &mut frames, head, &error).await,
                }
            }
            Err(NoFrame::Gone(error)) => return Err(error),
            Err(NoFrame::Refused(error, None)) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            Err(NoFrame::Refused(error, Some(head))) => {
                return refuse(shared, &mut frames, head, &unreadable(error)).await;
            }
            Err(NoFrame::Busy(head)) => {
                let error = WireError::new(code::TEMPORARILY_UNAVAILABLE, "there is no memory for the message now");
                return refuse(shared, &mut frames, head, &error).await;
            }
        };
        let answered = tokio::select! {
            biased;
            answered = answer(shared, &mut session, &ticket, &asked) => answered,
            () = frames.hung_up() => return Ok(()),
        };
        if is_unauthenticated && session.signed_in().is_some() {
            shared.unauthenticated.remove(id);
        }
        let (document, closes) = match answered {
            Ok(document) => (document, false),
            Err(error) => (error.to_document(), error.closes),
        };
        if let Some(frame) = framed(shared, &ticket, &asked, document).await? {
            shared.counters.bytes_out.fetch_add(i64::try_from(frame.len()).unwrap_or_default(), Ordering::Relaxed);
            frames.send(&frame).await?;
        }
        if closes {
            return Ok(());
        }
    }
}

/// Answers with an error, and ends the conversation.
async fn refuse<S: AsyncRead + AsyncWrite>(
    shared: &Shared,
    frames: &mut Frames<S>,
    head: Head,
    error: &WireError,
) -> io::Result<()> {
    let document = error.to_document();
    let number = shared.next_answer();
    let frame = match head.opcode {
        opcode::QUERY => codec::framed_reply(number, head.request, &document),
        _ => codec::framed_message(number, head.request, &document, false),
    };
    frames.send(&frame).await
}

/// The command in a frame.
async fn read(frame: Frame, ticket: &Ticket, is_signed_in: bool) -> Result<Asked, WireError> {
    let Frame { head, head_bytes, body } = frame;
    if head.opcode != opcode::COMPRESSED {
        return understand(head, &head_bytes, &body, None);
    }
    let packed = Packed::read(&body).map_err(unreadable)?;
    let (inner, compressor) = (packed.opcode, packed.compressor);
    if !is_signed_in && packed.length > LARGEST_BEFORE {
        return Err(unreadable(CodecError("a message this large needs a sign-in first")));
    }
    ticket.hold(packed.length).map_err(|_| {
        WireError::new(code::TEMPORARILY_UNAVAILABLE, "there is no memory for the message now").and_close()
    })?;
    let plain = if packed.length > LONG {
        let work =
            async { ticket.turn().await?.run(move |_| Packed::read(&body).and_then(|packed| packed.unpack())).await };
        work.await.map_err(|denied| WireError::from(StoreError::from(denied)).and_close())?
    } else {
        packed.unpack()
    };
    understand(Head { opcode: inner, ..head }, &head_bytes, &plain.map_err(unreadable)?, compressor)
}

fn understand(head: Head, head_bytes: &[u8], body: &[u8], compressor: Option<Compressor>) -> Result<Asked, WireError> {
    match head.opcode {
        opcode::MSG => {
            let message = Message::read(head_bytes, body).map_err(unreadable)?;
            let has_sequences = message.sequences.iter().any(|sequence| sequence.documents > 0);
            let answer = if message.flags & MORE_TO_COME != 0 {
                Answer::None
            } else {
                Answer::Message { has_checksum: message.has_checksum, compressor }
            };
            Ok(Asked { request: head.request, database: None, body: message.body.to_vec(), has_sequences, answer })
        }
        opcode::QUERY => {
            let query = Query::read(body)
                .map_err(|error| WireError::new(code::UNSUPPORTED_OP_QUERY, error.to_string()).and_close())?;
            Ok(Asked {
                request: head.request,
                database: Some(query.database.to_owned()),
                body: query.body.to_vec(),
                has_sequences: false,
                answer: Answer::Reply,
            })
        }
        _ => Err(unreadable(CodecError("a message is of a kind that is not known"))),
    }
}

fn unreadable(error: CodecError) -> WireError {
    WireError::new(code::FAILED_TO_PARSE, error.to_string()).and_close()
}

/// The document of the answer, made within the time of a command.
async fn answer(shared: &Shared, session: &mut Session, ticket: &Ticket, asked: &Asked) -> Result<Vec<u8>, WireError> {
    let elements = codec::check(&asked.body).map_err(|weight| match weight {
        Weight::Broken => WireError::new(code::INVALID_BSON, "the command is no BSON document"),
        Weight::TooDeep => WireError::new(code::OVERFLOW, "the command nests deeper than 180 levels"),
        Weight::TooLarge => WireError::new(
            code::TOO_LARGE,
            "the command has more than 100000 elements or more than 16 MiB; make it smaller",
        ),
    })?;
    // A decoded element takes some hundred bytes.
    let weight = asked.body.len() + elements * 256;
    ticket
        .hold(if elements > 1000 { weight } else { 0 })
        .map_err(|_| WireError::new(code::TEMPORARILY_UNAVAILABLE, "there is no memory for the command now"))?;
    let call = commands::Call {
        shared,
        session,
        database: asked.database.as_deref(),
        is_legacy: matches!(asked.answer, Answer::Reply),
        has_sequences: asked.has_sequences,
        weight,
    };
    let work = ticket.scope(commands::answer(call, &asked.body));
    let in_time = timeout(shared.parts.command_timeout, work).await;
    in_time.unwrap_or_else(|_| {
        let message = "operation exceeded time limit: server.request_timeout_s";
        Err(WireError::new(code::MAX_TIME_EXPIRED, message))
    })
}

/// The frame of an answer, if one is wanted.
async fn framed(shared: &Shared, ticket: &Ticket, asked: &Asked, document: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let number = shared.next_answer();
    Ok(match asked.answer {
        Answer::None => None,
        Answer::Reply => Some(codec::framed_reply(number, asked.request, &document)),
        Answer::Message { has_checksum, compressor } => {
            let frame = codec::framed_message(number, asked.request, &document, has_checksum);
            drop(document);
            Some(match compressor {
                None => frame,
                Some(compressor) if frame.len() > LONG => match ticket.turn().await {
                    Ok(turn) => turn.run(move |_| compressor.pack(frame)).await.map_err(io::Error::other)?,
                    // Without a turn it is sent as it is.
                    Err(_) => frame,
                },
                Some(compressor) => compressor.pack(frame),
            })
        }
    })
}
