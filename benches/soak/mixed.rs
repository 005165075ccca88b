//! Reads and writes of many clients at once, on one store.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::Value;

use crate::api::Api;
use crate::harness::process;
use crate::harness::timing::Error;
use crate::ledger::Ledger;
use crate::servers::Server;
use crate::writing::{Tally, Writer};

const WRITERS: usize = 16;
const READERS: usize = 8;
const PAGE: u64 = 50;
/// How often memory is looked at. It counts as flat when the most of the second half is at most a quarter above that of
/// the first half.
const LOOKS: u32 = 40;
const GROWTH: f64 = 1.25;

/// What everybody counts.
#[derive(Default)]
struct Counts {
    reads: AtomicUsize,
    refused: AtomicUsize,
}

pub(crate) async fn run(store: &'static str, uri: &str, time: Duration) -> Result<(), Error> {
    // Small enough to be full soon: what grows then is something else.
    let server = Server::product(uri, &[("INVENTORY__STORE__CACHE_MIB", "16")]).await?;
    let mut api = Api::sign_in(server.port).await?;
    let type_id = api.create_type("soak").await?;
    let (ledger, tally, counts) = (Arc::<Ledger>::default(), Arc::<Tally>::default(), Arc::new(Counts::default()));
    let until = Instant::now() + time;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let writer = Writer::new(api.again(), type_id, writer.to_string(), &ledger, &tally);
        tasks.push(tokio::spawn(write(writer, until, Arc::clone(&counts))));
    }
    for reader in 0..READERS {
        let (tally, counts) = (Arc::clone(&tally), Arc::clone(&counts));
        tasks.push(tokio::spawn(read(api.again(), reader, store == "embedded", until, tally, counts)));
    }
    let mut memory = Vec::new();
    for _ in 0..LOOKS {
        tokio::time::sleep(time / LOOKS).await;
        memory.push(process::memory(server.pid(), "VmRSS") >> 20);
    }
    for outcome in try_join_all(tasks).await? {
        outcome?;
    }
    let (early, late) = memory.split_at(memory.len() / 2);
    let [early, late] = [early, late].map(|half| half.iter().copied().max().unwrap_or(0));
    let verdict = ledger.compare(&api, type_id).await?;
    let refused = counts.refused.load(Ordering::Relaxed);
    println!(
        "mixed on {store}, {time:?}: {} writes and {} pages, {refused} refused; {} keys, {} objects, {} lost, {} doubled, {} wrong; \
         most memory {early} MiB in the first half, {late} MiB in the second",
        tally.acknowledged(),
        counts.reads.load(Ordering::Relaxed),
        ledger.len(),
        verdict.objects,
        verdict.lost,
        verdict.doubled,
        verdict.changed,
    );
    server.stop()?;
    verdict.passed()?;
    if refused > 0 {
        return Err("a request was refused though nothing was wrong".into());
    }
    #[expect(clippy::cast_precision_loss, reason = "megabytes")]
    let grows = late as f64 > early as f64 * GROWTH;
    if grows {
        return Err(format!("memory grows: {memory:?} MiB").into());
    }
    if store == "embedded" { check(uri) } else { Ok(()) }
}

/// Has every document and every index of the store read.
fn check(uri: &str) -> Result<(), Error> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    command.args(["check", "--deep"]).env("INVENTORY__STORE__URI", uri).stdin(Stdio::null());
    let checked = command.output()?;
    let said = String::from_utf8_lossy(&checked.stdout).trim().replace('\n', "; ");
    println!("mixed: check --deep: {said}");
    if checked.status.success() { Ok(()) } else { Err("the store is damaged".into()) }
}

async fn write(mut writer: Writer, until: Instant, counts: Arc<Counts>) -> Result<(), Error> {
    while Instant::now() < until {
        if let Some(outcome) = writer.step().await? {
            eprintln!("refused: {outcome:?}");
            counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Takes pages; each has to fit what the ledger knows, and its own total where both come from one moment.
async fn read(
    mut api: Api,
    reader: usize,
    exact: bool,
    until: Instant,
    tally: Arc<Tally>,
    counts: Arc<Counts>,
) -> Result<(), Error> {
    let mut total = 0;
    for round in reader.. {
        if Instant::now() >= until {
            break;
        }
        // Where pages are short is where totals can be wrong.
        let last = total / PAGE + 1;
        let page = if round.is_multiple_of(4) { last } else { u64::try_from(round)? % last + 1 };
        let order = if round.is_multiple_of(2) { 1 } else { -1 };
        let view = if round.is_multiple_of(3) { "render" } else { "native" };
        let path = format!("/objects/?limit={PAGE}&page={page}&sort=public_id&order={order}&view={view}");
        let before = tally.before();
        let list = api.expect("GET", &path, None).await?;
        let (least, most) = tally.since(before);
        total = list["total"].as_u64().ok_or("no total")?;
        let ids: Vec<i64> = list["results"].as_array().ok_or("no results")?.iter().filter_map(id_of).collect();
        let count = ids.len() as u64;
        let on_page = |total: u64| total.saturating_sub((page - 1) * PAGE).min(PAGE);
        let fits = if exact { count == on_page(total) } else { (on_page(least)..=on_page(most)).contains(&count) };
        let in_order = ids.is_sorted_by(|left, right| if order == 1 { left < right } else { left > right });
        if !in_order || !fits || list["count"] != count || !(least..=most).contains(&total) {
            let known = format!("there were {least} to {most}");
            return Err(format!("page {page} has {count} of {total}, {known}, in order: {in_order}").into());
        }
        counts.reads.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn id_of(item: &Value) -> Option<i64> {
    item["public_id"].as_i64().or_else(|| item["object_information"]["object_id"].as_i64())
}
