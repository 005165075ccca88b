//! SIGTERM while clients write and take files.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::api::{Api, Outcome, object};
use crate::harness::timing::Error;
use crate::ledger::Ledger;
use crate::servers::Server;

const ROUNDS: u32 = 5;
const WRITERS: usize = 60;
const TAKERS: usize = 4;
/// The length of a round; each is a little longer, so that the signal comes at another moment of what is under way.
const ROUND: Duration = Duration::from_millis(1500);
const LONGER: Duration = Duration::from_millis(37);
/// A number of objects for which a file takes a while.
const OBJECTS: usize = 5000;

/// What clients saw of one round.
#[derive(Default)]
struct Seen {
    answered: usize,
    unanswered: usize,
    files: usize,
}

pub(crate) async fn run(uri: &str) -> Result<(), Error> {
    let ledger = Arc::new(Ledger::default());
    let (mut all, mut longest) = (Seen::default(), Duration::ZERO);
    let mut type_id = 0;
    for round in 0..ROUNDS {
        let server = Server::product(uri, &[]).await?;
        let mut api = Api::sign_in(server.port).await?;
        if round == 0 {
            type_id = api.create_type("ending").await?;
            let others = api.create_type("files").await?;
            let objects: Vec<_> = (0..OBJECTS).map(|number| object(others, &number.to_string(), "x")).collect();
            api.expect("POST", "/objects/bulk", Some(&json!(objects))).await?;
        }
        let writers = (0..WRITERS)
            .map(|n| tokio::spawn(write(api.again(), type_id, format!("{round}-{n}"), Arc::clone(&ledger))));
        let takers = (0..TAKERS).map(|_| tokio::spawn(take(server.port, api.token.clone())));
        let clients: Vec<_> = writers.chain(takers).collect();
        tokio::time::sleep(ROUND + LONGER * round).await;
        let begun = Instant::now();
        Command::new("kill").arg(server.pid().to_string()).status()?;
        for outcome in try_join_all(clients).await? {
            let seen = outcome?;
            all.answered += seen.answered;
            all.unanswered += seen.unanswered;
            all.files += seen.files;
        }
        server.wait()?;
        longest = longest.max(begun.elapsed());
    }
    let server = Server::product(uri, &[]).await?;
    let api = Api::sign_in(server.port).await?;
    let verdict = ledger.compare(&api, type_id).await?;
    let cut_off = verdict.objects.saturating_sub(all.answered);
    println!(
        "ending, SIGTERM {ROUNDS} times with {WRITERS} writers and {TAKERS} exports under way: ended in {longest:.1?} at the latest; \
         {} writes answered, {} sent on a connection that was closed instead, {cut_off} of these had an effect; {} files, all whole; \
         {} lost, {} doubled",
        all.answered, all.unanswered, all.files, verdict.lost, verdict.doubled,
    );
    verdict.passed()?;
    if cut_off > 0 {
        return Err("a request took effect without its answer".into());
    }
    server.stop()
}

/// Writes until the service is gone.
async fn write(mut api: Api, type_id: i64, client: String, ledger: Arc<Ledger>) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    loop {
        let key = format!("{client}-{}", seen.answered);
        match api.send("POST", "/objects/", Some(&object(type_id, &key, "new"))).await? {
            Outcome::Answer(200, said) => {
                ledger.acknowledged(&key, said["result_id"].as_i64().ok_or("no id")?, Some("new"));
                seen.answered += 1;
            }
            Outcome::Answer(status, said) => return Err(format!("{status}: {said}").into()),
            Outcome::Refused => return Ok(seen),
            Outcome::Unknown => {
                ledger.uncertain(&key, Some("new"));
                seen.unanswered = 1;
                return Ok(seen);
            }
        }
    }
}

/// Takes files until the service is gone. What was begun has to come to its end.
async fn take(port: u16, token: String) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let request = format!(
        "GET /rest/export/objects?format=ndjson HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    while let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
        let mut answer = Vec::new();
        let whole = match stream.write_all(request.as_bytes()).await {
            Ok(()) => stream.read_to_end(&mut answer).await.is_ok(),
            Err(_) => break,
        };
        if answer.is_empty() {
            break;
        }
        if !whole || !answer.starts_with(b"HTTP/1.1 200") || !answer.ends_with(b"\r\n0\r\n\r\n") {
            let begin = String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
            return Err(format!("a file was cut off after {} bytes: {begin}", answer.len()).into());
        }
        seen.files += 1;
    }
    Ok(seen)
}
