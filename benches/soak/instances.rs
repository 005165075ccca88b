//! Two services side by side on one replica set.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::api::{Api, Outcome, object};
use crate::harness::timing::Error;
use crate::servers::Server;

const CLIENTS: usize = 8;
const ROUNDS: usize = 10;
const SEEN_WITHIN: Duration = Duration::from_secs(1);
/// When to stop waiting for what does not come.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn run(uri: &str, time: Duration) -> Result<(), Error> {
    let first = Server::product(uri, &[]).await?;
    let second = Server::product(uri, &[]).await?;
    let mut one = Api::sign_in(first.port).await?;
    let mut other = Api::with_token(second.port, &one.token);
    let type_id = one.create_type("shared").await?;
    let until = Instant::now() + time.min(Duration::from_secs(30));
    let clients = (0..CLIENTS).map(|number| {
        let api = if number % 2 == 0 { one.again() } else { other.again() };
        tokio::spawn(write(api, type_id, number, until))
    });
    let (mut ids, mut count) = (BTreeSet::new(), 0);
    for own in try_join_all(clients).await? {
        let own = own?;
        count += own.len();
        ids.extend(own);
    }
    let id = ids.first().copied().ok_or("nothing was written")?;
    let (mut renamed, mut revoked) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS {
        let label = format!("Label {round}");
        one.expect("PATCH", &format!("/types/{type_id}"), Some(&json!({"label": label}))).await?;
        let begun = Instant::now();
        while other.expect("GET", &format!("/objects/{id}"), None).await?["type_information"]["type_label"] != label {
            still_waiting(begun, "a changed type is not rendered")?;
        }
        renamed = renamed.max(begun.elapsed());
        revoked = revoked.max(revoke(&mut one, second.port, round).await?);
    }
    println!(
        "instances: {count} objects made through two services, {} ids; of {ROUNDS} each, a changed type was rendered through the \
         other one after {renamed:.0?} at the latest, a revoked token refused after {revoked:.0?}",
        ids.len(),
    );
    first.stop()?;
    second.stop()?;
    let is_well = ids.len() == count && renamed < SEEN_WITHIN && revoked < SEEN_WITHIN;
    if is_well { Ok(()) } else { Err("two services do not agree in time".into()) }
}

async fn write(mut api: Api, type_id: i64, client: usize, until: Instant) -> Result<Vec<i64>, Error> {
    let mut ids = Vec::new();
    while Instant::now() < until {
        let key = format!("{client}-{}", ids.len());
        let made = api.expect("POST", "/objects/", Some(&object(type_id, &key, "new"))).await?;
        ids.push(made["result_id"].as_i64().ok_or("no id")?);
    }
    Ok(ids)
}

/// Makes a token, uses it at the other service, revokes it, and returns how long it was still accepted there.
async fn revoke(one: &mut Api, port: u16, round: usize) -> Result<Duration, Error> {
    let body = json!({"name": format!("machine {round}"), "expires_at": "2099-01-01T00:00:00Z"});
    let made = one.expect("POST", "/users/1/tokens/", Some(&body)).await?;
    let mut machine = Api::with_token(port, made["token"].as_str().ok_or("no token")?);
    machine.expect("GET", "/rights/levels", None).await?;
    let id: &Value = &made["result_id"];
    one.expect("DELETE", &format!("/users/1/tokens/{id}"), None).await?;
    let begun = Instant::now();
    loop {
        match machine.send("GET", "/rights/levels", None).await? {
            Outcome::Answer(401, _) => return Ok(begun.elapsed()),
            Outcome::Answer(200, _) => still_waiting(begun, "a revoked token is taken")?,
            other => return Err(format!("a revoked token: {other:?}").into()),
        }
    }
}

fn still_waiting(begun: Instant, what: &str) -> Result<(), Error> {
    if begun.elapsed() < PATIENCE { Ok(()) } else { Err(format!("{what} after {PATIENCE:?}").into()) }
}
