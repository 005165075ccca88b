//! What the system reports about a process: processor time and memory. Linux only; elsewhere the figures are zero.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The processor time of all threads that the process has now, to the nanosecond.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    tasks.filter_map(|task| time_on_processor(task.path())).sum()
}

fn time_on_processor(task: PathBuf) -> Option<Duration> {
    let told = fs::read_to_string(task.join("schedstat")).ok()?;
    told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// A line of the process's status that is a number of KiB, for instance `VmRSS`, in bytes.
pub(crate) fn memory(pid: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = status.lines().find_map(|told| told.strip_prefix(line)?.strip_prefix(':'));
    value.and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The process whose command line has both words.
pub(crate) fn find(program: &str, argument: &str) -> Option<u32> {
    let numbers = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|word| word.ends_with(program.as_bytes())) && words.any(|w| w == argument.as_bytes())
    })
}
