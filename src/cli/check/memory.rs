//! Whether the machine, or the container, has the memory that the settings promise to parts of the service.

use std::fs;

use crate::settings::{Settings, StoreUri};
use crate::store::inspection::Finding;

/// The memory that the service needs in addition to what settings bound, see docs/operation.md.
const PROGRAM_MIB: u64 = 60;

/// A finding about the memory; none where the system does not say how much there is.
pub(super) fn look(settings: &Settings) -> Option<Finding> {
    let cache = match settings.store.location() {
        Ok(StoreUri::Embedded(_)) => settings.store.cache_mib,
        _ => 0,
    };
    let parts = [
        ("store.cache_mib", cache),
        ("admission.memory_mib", settings.admission.memory_mib),
        ("server.json_mib", settings.server.json_mib),
    ];
    let needed =
        parts.iter().fold(PROGRAM_MIB, |sum, (_, part)| sum.saturating_add(u64::try_from(*part).unwrap_or(u64::MAX)));
    Some(judged(&parts, needed, there_is()?))
}

fn judged(parts: &[(&str, usize)], needed: u64, there_is: u64) -> Finding {
    if needed <= there_is {
        return Finding::good("memory", format!("the settings take {needed} MiB, and there are {there_is}"));
    }
    let list: Vec<String> = parts.iter().map(|(name, part)| format!("{name} ({part})")).collect();
    Finding::wrong(
        "memory",
        format!(
            "the settings take {needed} MiB, and there are {there_is}: the system would end the service; lower {}",
            list.join(", ")
        ),
    )
}

/// The memory of the machine, or what its container may use, in MiB.
fn there_is() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    let bytes: u64 = [machine, group].into_iter().flatten().min()?;
    Some(bytes / (1024 * 1024))
}

/// The bytes after `MemTotal`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::inspection::Verdict;

    #[test]
    fn the_memory_of_the_machine_is_its_total() {
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16_384 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn settings_that_take_more_than_there_is_are_wrong_and_named() {
        assert_eq!(judged(&[("store.cache_mib", 64)], 124, 124).verdict, Verdict::Good);
        let finding = judged(&[("store.cache_mib", 64)], 124, 123);
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.text.ends_with("lower store.cache_mib (64)"), "{finding}");
    }
}
