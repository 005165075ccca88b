//! Timing in turns: A B A B, so that what disturbs the machine for a while disturbs all alike; then medians.

use std::time::{Duration, Instant};

use futures::future::LocalBoxFuture;

use super::process::processor_time;

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) wall: Duration,
    /// Processor time of the process that was watched.
    pub(crate) processor: Duration,
    pub(crate) operations: u32,
}

impl Run {
    /// Times `work`, which returns how many operations it did, and watches the processor time of `pid`.
    pub(crate) async fn of<E>(pid: u32, work: impl Future<Output = Result<u32, E>>) -> Result<Self, E> {
        let (before, start) = (processor_time(pid), Instant::now());
        let operations = work.await?;
        let wall = start.elapsed();
        Ok(Self { wall, processor: processor_time(pid).saturating_sub(before), operations })
    }
}

/// Who is measured: a name, and what makes one run.
pub(crate) struct Runner<'a> {
    pub(crate) who: &'static str,
    pub(crate) objects: u32,
    pub(crate) run: Box<dyn FnMut() -> LocalBoxFuture<'a, Outcome> + 'a>,
}

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Outcome = Result<Run, Error>;

/// What somebody needed, by operation.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Figure {
    pub(crate) who: &'static str,
    /// How many objects there were.
    pub(crate) objects: u32,
    /// The median of the runs.
    pub(crate) nanoseconds: f64,
    /// The median of the runs.
    pub(crate) processor_nanoseconds: f64,
    /// The fastest and the slowest run.
    pub(crate) range_nanoseconds: [f64; 2],
    pub(crate) runs: usize,
}

/// Lets each run once to warm up, then all of them in turns.
pub(crate) async fn in_turns(runs: usize, runners: &mut [Runner<'_>]) -> Result<Vec<Figure>, Error> {
    for runner in runners.iter_mut() {
        (runner.run)().await?;
    }
    let mut seen: Vec<Vec<Run>> = vec![Vec::new(); runners.len()];
    for _ in 0..runs {
        for (runner, seen) in runners.iter_mut().zip(&mut seen) {
            seen.push((runner.run)().await?);
        }
    }
    Ok(runners.iter().zip(&seen).map(|(runner, runs)| Figure::of(runner.who, runner.objects, runs)).collect())
}

impl Figure {
    pub(crate) fn of(who: &'static str, objects: u32, runs: &[Run]) -> Self {
        let by_operation = |part: fn(&Run) -> Duration| -> Vec<f64> {
            let mut all: Vec<f64> =
                runs.iter().map(|run| part(run).as_secs_f64() * 1e9 / f64::from(run.operations)).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let wall = by_operation(|run| run.wall);
        Self {
            who,
            objects,
            nanoseconds: median(&wall),
            processor_nanoseconds: median(&by_operation(|run| run.processor)),
            range_nanoseconds: [wall.first().copied().unwrap_or(0.0), wall.last().copied().unwrap_or(0.0)],
            runs: runs.len(),
        }
    }
}

/// The middle of sorted numbers.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[length / 2],
        length => f64::midpoint(sorted[length / 2 - 1], sorted[length / 2]),
    }
}
