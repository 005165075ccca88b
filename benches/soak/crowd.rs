//! A thousand connections, half of them slow.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::api::{Api, Outcome, object};
use crate::harness::process;
use crate::harness::timing::Error;
use crate::servers::Server;

const QUICK: usize = 500;
const SLOW: usize = 500;

pub(crate) async fn run(uri: &str, time: Duration) -> Result<(), Error> {
    let server = Server::product(uri, &[]).await?;
    let mut api = Api::sign_in(server.port).await?;
    let type_id = api.create_type("crowd").await?;
    for number in 0..100 {
        api.expect("POST", "/objects/", Some(&object(type_id, &number.to_string(), "x"))).await?;
    }
    let until = Instant::now() + time;
    let slow: Vec<_> = (0..SLOW).map(|number| tokio::spawn(trickle(server.port, number, until))).collect();
    let quick: Vec<_> = (0..QUICK).map(|number| tokio::spawn(ask(api.again(), number, until))).collect();
    let mut latencies = Vec::new();
    for outcome in try_join_all(quick).await? {
        latencies.extend(outcome?);
    }
    for outcome in try_join_all(slow).await? {
        outcome?;
    }
    latencies.sort_unstable();
    let at = |part: usize| latencies.get(latencies.len() * part / 1000).copied().unwrap_or_default();
    println!(
        "crowd, {QUICK} quick and {SLOW} slow connections, {time:?}: {} answers, p50 {:?}, p99 {:?}, longest {:?}; \
         none refused; {} MiB at the most",
        latencies.len(),
        at(500),
        at(990),
        latencies.last().copied().unwrap_or_default(),
        process::memory(server.pid(), "VmHWM") >> 20,
    );
    server.stop()
}

/// Sends a head or a body a byte at a time, and begins again when the service has had enough.
async fn trickle(port: u16, number: usize, until: Instant) -> Result<(), Error> {
    let texts = [
        "GET /rest/objects/ HTTP/1.1\r\nhost: x\r\nx-slow: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
        "POST /rest/auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{     ",
    ];
    while Instant::now() < until {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        for byte in texts[number % texts.len()].bytes() {
            if Instant::now() >= until || stream.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

async fn ask(mut api: Api, number: usize, until: Instant) -> Result<Vec<Duration>, Error> {
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let begun = Instant::now();
        match api.send("GET", &format!("/objects/{}", number % 100 + 1), None).await? {
            Outcome::Answer(200, _) => latencies.push(begun.elapsed()),
            other => return Err(format!("a quick client was refused: {other:?}").into()),
        }
        // Five hundred people, not five hundred machines.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(latencies)
}
