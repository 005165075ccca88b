//! A thousand connections, half of them slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::api::{Api, Outcome, object};
use crate::harness::process;
use crate::harness::timing::Error;
use crate::servers::Server;

const QUICK: usize = 500;
const SLOW: usize = 500;
/// Enough for an answer that does not fit into what the system keeps for a connection.
const OBJECTS: usize = 5000;
/// How long each slow client waits before it sends or takes something more.
const PAUSE: Duration = Duration::from_millis(200);
/// What takes a quick client longer hangs.
const LONGEST: Duration = Duration::from_secs(10);

pub(crate) async fn run(uri: &str, time: Duration) -> Result<(), Error> {
    let server = Server::product(uri, &[]).await?;
    let mut api = Api::sign_in(server.port).await?;
    let type_id = api.create_type("crowd").await?;
    let objects: Vec<_> = (0..OBJECTS).map(|number| object(type_id, &number.to_string(), "x")).collect();
    api.expect("POST", "/objects/bulk", Some(&json!(objects))).await?;
    let until = Instant::now() + time;
    let ended = Arc::new(AtomicUsize::new(0));
    let slow: Vec<_> = (0..SLOW)
        .map(|number| tokio::spawn(linger(server.port, api.token.clone(), number, until, Arc::clone(&ended))))
        .collect();
    let quick: Vec<_> = (0..QUICK).map(|number| tokio::spawn(ask(api.again(), type_id, number, until))).collect();
    let mut latencies = Vec::new();
    for outcome in try_join_all(quick).await? {
        latencies.extend(outcome?);
    }
    for outcome in try_join_all(slow).await? {
        outcome?;
    }
    latencies.sort_unstable();
    let at = |part: usize| latencies.get(latencies.len() * part / 1000).copied().unwrap_or_default();
    let longest = latencies.last().copied().unwrap_or_default();
    println!(
        "crowd, {QUICK} quick and {SLOW} slow connections, {time:?}: {} answers, p50 {:.1?}, p99 {:.1?}, longest {longest:.1?}, none \
         refused; {} slow connections ended by the service; {} MiB at the most",
        latencies.len(),
        at(500),
        at(990),
        ended.load(Ordering::Relaxed),
        process::memory(server.pid(), "VmHWM") >> 20,
    );
    if longest > LONGEST {
        return Err("a quick client had to wait for slow ones".into());
    }
    server.stop()
}

/// Sends a head or a body a byte at a time, or takes a long answer a little at a time; begins again when the service has
/// had enough.
async fn linger(port: u16, token: String, number: usize, until: Instant, ended: Arc<AtomicUsize>) -> Result<(), Error> {
    let head =
        "GET /rest/objects/ HTTP/1.1\r\nhost: x\r\nx-slow: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";
    let body = format!(
        "POST /rest/auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{}",
        " ".repeat(900)
    );
    while Instant::now() < until {
        let is_left = match number % 3 {
            0 => trickle(port, head, until).await?,
            1 => trickle(port, &body, until).await?,
            _ => sip(port, &token, until).await?,
        };
        ended.fetch_add(usize::from(is_left), Ordering::Relaxed);
    }
    Ok(())
}

/// Whether the service ended the connection first.
async fn trickle(port: u16, text: &str, until: Instant) -> Result<bool, Error> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    // The head of a body is quick.
    let begin = text.find("\r\n\r\n").unwrap_or(0);
    stream.write_all(&text.as_bytes()[..begin]).await?;
    for byte in &text.as_bytes()[begin..] {
        if stream.write_all(std::slice::from_ref(byte)).await.is_err() {
            return Ok(true);
        }
        if Instant::now() >= until {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(false)
}

/// Asks for a long list and reads it a kilobyte at a time; whether the service ended the connection first.
async fn sip(port: u16, token: &str, until: Instant) -> Result<bool, Error> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await?;
    let request = format!("GET /rest/objects/?limit=0 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut piece = [0; 1024];
    while Instant::now() < until {
        if matches!(stream.read(&mut piece).await, Ok(0) | Err(_)) {
            return Ok(true);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(false)
}

async fn ask(mut api: Api, type_id: i64, number: usize, until: Instant) -> Result<Vec<Duration>, Error> {
    let mut latencies = Vec::new();
    let path = format!("/objects/{}", number % OBJECTS + 1);
    for round in number.. {
        if Instant::now() >= until {
            break;
        }
        let begun = Instant::now();
        let outcome = if round % 20 == 0 {
            let key = format!("{number}-{round}");
            api.send("POST", "/objects/", Some(&object(type_id, &key, "y"))).await?
        } else {
            api.send("GET", &path, None).await?
        };
        match outcome {
            Outcome::Answer(200, _) => latencies.push(begun.elapsed()),
            other => return Err(format!("a quick client was refused: {other:?}").into()),
        }
        // Five hundred people, not five hundred machines.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(latencies)
}
