//! Driving a server: a number of connections, each with one request under way at a time, for a while.

use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::client::Connection;
use crate::harness::process::processor_time;
use crate::harness::timing::{Error, median};

/// What is asked, and whom.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) port: u16,
    /// Asked one after the other, from the beginning again at the end; each connection begins elsewhere.
    pub(crate) requests: Vec<Vec<u8>>,
    /// What every answer has to be.
    pub(crate) status: u16,
    /// The process that answers.
    pub(crate) service: u32,
    /// The MongoDB server that the service uses.
    pub(crate) mongod: Option<u32>,
}

/// What one run gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    rate: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    service: f64,
    mongod: f64,
}

/// The medians of several runs; times in microseconds, a request each.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Figure {
    pub(crate) requests_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// Processor time of the service.
    pub(crate) service_cpu_us: f64,
    /// Processor time of the MongoDB server.
    pub(crate) mongod_cpu_us: f64,
    /// Of the slowest and the fastest run.
    pub(crate) range_per_s: [f64; 2],
    pub(crate) runs: usize,
}

/// One run.
pub(crate) async fn run(load: &Load, connections: usize, time: Duration) -> Result<Sample, Error> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(Connection::open(load.port).await?);
    }
    let processor = || (processor_time(load.service), load.mongod.map_or(Duration::ZERO, processor_time));
    let (before, start) = (processor(), Instant::now());
    let until = start + time;
    let clients = open.into_iter().enumerate().map(|(number, connection)| client(load, connection, number * 7, until));
    let latencies = try_join_all(clients).await?;
    let (wall, after) = (start.elapsed(), processor());
    Sample::of(latencies.concat(), wall, after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
}

impl Sample {
    /// Of latencies in nanoseconds, and the processor time of all requests.
    pub(crate) fn of(
        mut latencies: Vec<u32>,
        wall: Duration,
        service: Duration,
        mongod: Duration,
    ) -> Result<Self, Error> {
        latencies.sort_unstable();
        let count = f64::from(u32::try_from(latencies.len())?);
        Ok(Self {
            rate: count / wall.as_secs_f64(),
            p50: percentile(&latencies, 500),
            p99: percentile(&latencies, 990),
            p999: percentile(&latencies, 999),
            service: service.as_secs_f64() * 1e6 / count,
            mongod: mongod.as_secs_f64() * 1e6 / count,
        })
    }
}

/// Requests per second in one run.
pub(crate) async fn rate(load: &Load, connections: usize, time: Duration) -> Result<f64, Error> {
    Ok(run(load, connections, time).await?.rate)
}

/// Latencies in nanoseconds.
async fn client(load: &Load, mut connection: Connection, first: usize, until: Instant) -> Result<Vec<u32>, Error> {
    let mut latencies = Vec::with_capacity(8192);
    for request in load.requests.iter().cycle().skip(first % load.requests.len()) {
        let begun = Instant::now();
        if begun >= until {
            break;
        }
        let answer = connection.ask(request).await?;
        if answer.status != load.status {
            let said = String::from_utf8_lossy(answer.body);
            return Err(format!("{} instead of {}: {said}", answer.status, load.status).into());
        }
        latencies.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(latencies)
}

/// In microseconds.
pub(crate) fn percentile(sorted: &[u32], per_mille: usize) -> f64 {
    let place = (sorted.len() * per_mille / 1000).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().map_or(0.0, f64::from) / 1e3
}

impl Figure {
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let of = |part: fn(&Sample) -> f64| median(&sorted(samples, part));
        let rates = sorted(samples, |sample| sample.rate);
        Self {
            requests_per_s: of(|sample| sample.rate),
            p50_us: of(|sample| sample.p50),
            p99_us: of(|sample| sample.p99),
            p999_us: of(|sample| sample.p999),
            service_cpu_us: of(|sample| sample.service),
            mongod_cpu_us: of(|sample| sample.mongod),
            range_per_s: [rates.first().copied().unwrap_or_default(), rates.last().copied().unwrap_or_default()],
            runs: samples.len(),
        }
    }
}

fn sorted(samples: &[Sample], part: fn(&Sample) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = samples.iter().map(part).collect();
    values.sort_by(f64::total_cmp);
    values
}
