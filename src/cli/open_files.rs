//! How many files the process may have open: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::settings::Settings;
use crate::store::inspection::Finding;

/// Open files in addition to the connections of clients: the store, its connections, logs, webhooks.
const OTHERS: u64 = 200;

/// Raises the limit of the process as far as the system lets it: shells and systemd start programs with 1,024.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // A failure changes nothing; `concern` reports the consequence.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What is wrong if the system allows fewer files than the settings promise connections.
pub(super) fn concern(settings: &Settings) -> Option<Finding> {
    let connections = settings.server.limits.max_connections as u64;
    let most = getrlimit(Resource::Nofile).maximum?;
    (most < connections + OTHERS).then(|| {
        let text = format!(
            "{connections} connections, but the system lets the process open {most} files; raise its limit (ulimit -n, \
             LimitNOFILE= in systemd) or lower this"
        );
        Finding::note("server.limits.max_connections", text)
    })
}
