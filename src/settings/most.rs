//! The largest values of settings that a slip of the pen would make useless: bytes instead of MiB, for instance.

use super::{Settings, SettingsError, invalid};

/// 64 GiB. A cache of JSON needs a hundredth of its size from the start.
const MOST_JSON_MIB: u64 = 64 * 1024;
/// 4 TiB.
const MOST_MIB: u64 = 4 * 1024 * 1024;
/// More threads than this do not help any machine.
const MOST_THREADS: u64 = 512;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const YEAR_S: u64 = 365 * 24 * 60 * 60;
const MOST_CONNECTIONS: u64 = 100_000;

/// Refuses values above the largest that make sense.
pub(super) fn validate(settings: &Settings) -> Result<(), SettingsError> {
    let Settings { server, store, api, query, admission, .. } = settings;
    let bounds = [
        ("server.workers", server.workers as u64, MOST_THREADS, "threads"),
        ("server.request_timeout_s", server.request_timeout_s, YEAR_S, "seconds, a year"),
        ("server.json_mib", server.json_mib as u64, MOST_JSON_MIB, "MiB, that is 64 GiB"),
        ("store.start_wait_s", store.start_wait_s, YEAR_S, "seconds, a year"),
        ("store.cache_mib", store.cache_mib as u64, MOST_MIB, "MiB, that is 4 TiB"),
        ("store.connect_timeout_ms", store.connect_timeout_ms, DAY_MS, "milliseconds, a day"),
        ("store.write_timeout_ms", store.write_timeout_ms, DAY_MS, "milliseconds, a day"),
        ("store.max_connections", u64::from(store.max_connections), MOST_CONNECTIONS, "connections"),
        ("api.transfer_timeout_s", api.transfer_timeout_s, YEAR_S, "seconds, a year"),
        ("query.max_time_ms", query.max_time_ms, DAY_MS, "milliseconds, a day"),
        ("admission.memory_mib", admission.memory_mib as u64, MOST_MIB, "MiB, that is 4 TiB"),
        ("admission.wait_ms", admission.wait_ms, DAY_MS, "milliseconds, a day"),
    ];
    for (key, value, most, unit) in bounds {
        if value > most {
            return Err(invalid(key, &format!("must be at most {most} {unit}")));
        }
    }
    if store.min_connections > store.max_connections {
        let message = format!("must be at most store.max_connections, which is {}", store.max_connections);
        return Err(invalid("store.min_connections", &message));
    }
    Ok(())
}
