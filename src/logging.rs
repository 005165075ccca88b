//! The log: one line for each event, as text or as JSON, on standard error.
//!
//! Input of clients and servers can neither end nor begin a line: control characters are escaped. The line of a request
//! names its route instead of its path. It contains nothing of the query or body, because filters contain inventory
//! values.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use chrono::SecondsFormat;
use env_logger::fmt::Formatter;
use log::Record;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::{Clock, SystemClock};

/// The log target of request lines; its level can be set by this name.
pub const REQUESTS: &str = "inventory_service::http::requests";

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Format {
    /// Time, level, origin and message.
    Text,
    /// A JSON object with the same.
    Json,
}

impl TryFrom<String> for Format {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        match name.as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("text or json"),
        }
    }
}

/// How lines look in this process.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Starts the log of the process. `level` is in the notation of `env_logger`.
pub fn start(level: &str, format: Format) {
    let format = *FORMAT.get_or_init(|| format);
    let mut builder = env_logger::Builder::new();
    builder.parse_filters(level);
    match format {
        Format::Text => builder.format(write_text),
        Format::Json => builder.format(write_json),
    };
    // A test may have started one before.
    if builder.try_init().is_err() {
        log::debug!("the log was started before");
    }
}

/// A request that was answered.
#[derive(Debug, Clone, Serialize)]
pub struct RequestLine<'a> {
    /// The request's id, as in the header `X-Request-Id`.
    pub id: &'a str,
    /// The client's address, as trusted proxies report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The `public_id` of the user, where somebody is signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<i64>,
    /// The method.
    pub method: &'a str,
    /// The pattern of the route, `-` where none fits.
    pub route: &'a str,
    /// The status of the answer.
    pub status: u16,
    /// The time to the answer, in milliseconds.
    pub ms: f64,
    /// What the header `traceparent` says.
    #[serde(flatten)]
    pub trace: Option<Trace<'a>>,
}

/// The trace of the request (W3C Trace Context).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Trace<'a> {
    /// The trace, 32 hexadecimal digits.
    pub trace_id: &'a str,
    /// The span that sent the request, 16 hexadecimal digits.
    pub parent_id: &'a str,
}

impl<'a> Trace<'a> {
    /// Reads the header: version 00 or a later one that begins alike; nothing when it is malformed.
    pub fn parse(header: &'a str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace_id, parent_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_some = |text: &str| text.bytes().any(|byte| byte != b'0');
        let is_good = is_hex(version, 2)
            && version != "ff"
            && is_hex(flags, 2)
            && is_hex(trace_id, 32)
            && is_some(trace_id)
            && is_hex(parent_id, 16)
            && is_some(parent_id)
            && (version != "00" || parts.next().is_none());
        is_good.then_some(Self { trace_id, parent_id })
    }
}

impl fmt::Display for RequestLine<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} address=", self.id)?;
        match self.address {
            Some(address) => write!(formatter, "{address}")?,
            None => formatter.write_char('-')?,
        }
        formatter.write_str(" user=")?;
        match self.user {
            Some(user) => write!(formatter, "{user}")?,
            None => formatter.write_char('-')?,
        }
        write!(formatter, " {} {} {} {:.1} ms", self.method, self.route, self.status, self.ms)?;
        match self.trace {
            Some(trace) => write!(formatter, " trace={} parent={}", trace.trace_id, trace.parent_id),
            None => Ok(()),
        }
    }
}

/// Whether lines of requests are written at all.
pub fn requests_are_logged() -> bool {
    log::log_enabled!(target: REQUESTS, log::Level::Info)
}

/// Writes the line of a request.
pub fn request(line: &RequestLine<'_>) {
    if FORMAT.get() == Some(&Format::Json) {
        // Plain members can always be written.
        let members = serde_json::to_string(line).unwrap_or_default();
        log::info!(target: REQUESTS, "{members}");
    } else {
        log::info!(target: REQUESTS, "{line}");
    }
}

/// Milliseconds, with a fraction of three digits.
pub fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// This moment, as RFC 3339 writes it, in milliseconds.
fn now() -> String {
    SystemClock.now().to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn write_text(buffer: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let time = now();
    let message = escaped(&record.args().to_string());
    writeln!(buffer, "[{time} {:<5} {}] {message}", record.level(), record.target())
}

/// A line of JSON.
#[derive(Serialize)]
struct LogLine<'a> {
    time: String,
    level: &'a str,
    target: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

fn write_json(buffer: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let time = now();
    let message = record.args().to_string();
    // Only `request` writes lines of this name, and as JSON.
    let (request, message) = match RawValue::from_string(message.clone()) {
        Ok(request) if record.target() == REQUESTS => (Some(request), None),
        _ => (None, Some(message)),
    };
    let line = LogLine { time, level: record.level().as_str(), target: record.target(), request, message };
    writeln!(buffer, "{}", serde_json::to_string(&line)?)
}

/// The text with escapes for characters that affect terminals or line readers, or that reverse the text after them.
pub(crate) fn escaped(text: &str) -> String {
    let is_plain =
        |letter: char| !letter.is_control() && !matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_plain(letter) {
            escaped.push(letter);
        } else {
            escaped.extend(letter.escape_default());
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn a_trace_is_taken_up() {
        let trace = Trace { trace_id: TRACE, parent_id: SPAN };
        assert_eq!(Trace::parse(&format!("00-{TRACE}-{SPAN}-01")), Some(trace));
        assert_eq!(Trace::parse(&format!("cc-{TRACE}-{SPAN}-01-what-comes-later")), Some(trace));
    }

    #[test]
    fn a_malformed_trace_is_none() {
        for header in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{SPAN}\n-01"),
        ] {
            assert_eq!(Trace::parse(&header), None, "{header}");
        }
    }

    #[test]
    fn nothing_in_a_message_begins_a_line_or_moves_a_cursor() {
        assert_eq!(escaped("one\n[2026 ERROR] two\r\u{1b}[2J\u{2028}"), "one\\n[2026 ERROR] two\\r\\u{1b}[2J\\u{2028}");
        assert_eq!(escaped("Zürich ✓"), "Zürich ✓");
    }

    #[test]
    fn the_line_of_a_request_has_what_is_needed_to_find_it() {
        let trace = Some(Trace { trace_id: TRACE, parent_id: SPAN });
        let mut line = RequestLine {
            id: "abc",
            address: Some(Ipv4Addr::new(192, 0, 2, 7).into()),
            user: Some(7),
            method: "GET",
            route: "/rest/types/",
            status: 200,
            ms: 1.25,
            trace,
        };
        let expected = format!("abc address=192.0.2.7 user=7 GET /rest/types/ 200 1.2 ms trace={TRACE} parent={SPAN}");
        assert_eq!(line.to_string(), expected);
        (line.address, line.user, line.trace) = (None, None, None);
        assert_eq!(line.to_string(), "abc address=- user=- GET /rest/types/ 200 1.2 ms");
        let members = serde_json::to_value(&line).expect("members");
        let expected = serde_json::json!(
            {"id": "abc", "method": "GET", "route": "/rest/types/", "status": 200, "ms": 1.25}
        );
        assert_eq!(members, expected);
    }
}
