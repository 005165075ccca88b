//! SIGTERM while clients read and write.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::api::{Api, Outcome, object};
use crate::harness::timing::Error;
use crate::ledger::Ledger;
use crate::servers::Server;

const CLIENTS: usize = 64;
const BEFORE: Duration = Duration::from_secs(2);

pub(crate) async fn run(uri: &str) -> Result<(), Error> {
    let server = Server::product(uri, &[]).await?;
    let mut api = Api::sign_in(server.port).await?;
    let type_id = api.create_type("ending").await?;
    let ledger = Arc::new(Ledger::default());
    let clients: Vec<_> =
        (0..CLIENTS).map(|n| tokio::spawn(write(api.again(), type_id, n, Arc::clone(&ledger)))).collect();
    tokio::time::sleep(BEFORE).await;
    let begun = Instant::now();
    Command::new("kill").arg(server.pid().to_string()).status()?;
    let (mut answered, mut unanswered) = (0, 0);
    for outcome in try_join_all(clients).await? {
        let (own, left) = outcome?;
        answered += own;
        unanswered += left;
    }
    server.wait()?;
    let took = begun.elapsed();
    let server = Server::product(uri, &[]).await?;
    let mut api = Api::sign_in(server.port).await?;
    let verdict = ledger.compare(&mut api, type_id).await?;
    println!(
        "ending, SIGTERM with {CLIENTS} writers: ended in {took:?}; {answered} answers; {unanswered} connections were closed \
         without an answer to their last request; {} of these requests had an effect; {} lost, {} doubled",
        verdict.objects.saturating_sub(answered),
        verdict.lost,
        verdict.doubled,
    );
    let cut_off = verdict.objects.saturating_sub(answered);
    verdict.passed()?;
    if cut_off > 0 {
        return Err("a request took effect without its answer".into());
    }
    server.stop()
}

/// Writes until the service is gone; how many were answered, and how many not.
async fn write(mut api: Api, type_id: i64, client: usize, ledger: Arc<Ledger>) -> Result<(usize, usize), Error> {
    for number in 0.. {
        let key = format!("{client}-{number}");
        match api.send("POST", "/objects/", Some(&object(type_id, &key, "new"))).await? {
            Outcome::Answer(200, said) => {
                ledger.acknowledged(&key, said["result_id"].as_i64().ok_or("no id")?, Some("new"));
            }
            Outcome::Answer(status, said) => return Err(format!("{status}: {said}").into()),
            Outcome::Unknown => {
                ledger.uncertain(&key, Some("new"));
                return Ok((number, 1));
            }
        }
    }
    Ok((0, 0))
}
