//! Findings about a deployment for an operator. Changes nothing.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};

use super::Inner;
use super::connect::Topology;
use super::error::{UNAUTHORIZED, code, command_error};
use super::indexes::{Missing, clashes, missing};
use super::rights::rights;
use crate::store::copying::COUNTERS;
use crate::store::inspection::{Finding, clashing, indexes, room};
use crate::store::{CollectionSpec, StoreError};

/// A larger difference between clocks is a finding.
const NOTABLE_SKEW: Duration = Duration::from_secs(1);
/// A new token key signs five seconds after it was created. By then all instances know it, if their clocks agree.
const GREATEST_SKEW: Duration = Duration::from_secs(5);

/// Looks at the deployment; `now` is the time here.
pub(super) async fn inspect(
    inner: &Inner,
    collections: &[CollectionSpec],
    now: DateTime,
) -> Result<Vec<Finding>, StoreError> {
    let hello = command(inner, doc! { "hello": 1 }).await?;
    let build = command(inner, doc! { "buildInfo": 1 }).await?;
    let mut findings = vec![version(&build), transactions(inner.topology, &hello)];
    findings.push(clock(hello.get_datetime("localTime").copied().unwrap_or(now), now));
    findings.extend(rights(inner).await?);
    findings.push(declared_indexes(inner, collections).await?);
    findings.extend(disk(inner).await?);
    Ok(findings)
}

async fn command(inner: &Inner, command: Document) -> Result<Document, StoreError> {
    inner.database.run_command(command).await.map_err(|error| command_error(&error))
}

/// Connecting has already refused a server that is too old.
fn version(build: &Document) -> Finding {
    Finding::good("version", format!("MongoDB {}", build.get_str("version").unwrap_or("of unknown version")))
}

fn transactions(topology: Topology, hello: &Document) -> Finding {
    match topology {
        Topology::ReplicaSet => {
            let name = hello.get_str("setName").unwrap_or_default();
            let members = hello.get_array("hosts").map_or(1, Vec::len);
            Finding::good("transactions", format!("replica set {name}, {members} with data"))
        }
        Topology::Sharded => Finding::good("transactions", "sharded cluster"),
    }
}

fn clock(server: DateTime, here: DateTime) -> Finding {
    let skew = Duration::from_millis(server.timestamp_millis().abs_diff(here.timestamp_millis()));
    let text = format!("{:.1} s apart from the server's", skew.as_secs_f64());
    if skew > GREATEST_SKEW {
        Finding::wrong(
            "clock",
            format!("{text}; have both machines keep time by NTP, or tokens fail between instances"),
        )
    } else if skew > NOTABLE_SKEW {
        Finding::note("clock", text)
    } else {
        Finding::good("clock", text)
    }
}

async fn declared_indexes(inner: &Inner, collections: &[CollectionSpec]) -> Result<Finding, StoreError> {
    let names = inner.database.list_collection_names().await.map_err(|error| command_error(&error))?;
    let (mut absent, mut begun, mut impossible) = (Vec::new(), Vec::new(), Vec::new());
    for collection in collections.iter().filter(|collection| !collection.indexes.is_empty()) {
        if !names.iter().any(|name| name == collection.name) {
            absent.extend(collection.indexes.iter().map(|index| format!("{}.{}", collection.name, index.name)));
            continue;
        }
        for Missing { spec, is_begun } in missing(inner, collection).await? {
            let name = format!("{}.{}", collection.name, spec.name);
            let clashes = if spec.unique { clashes(inner, collection.name, spec).await? } else { Vec::new() };
            match clashes.as_slice() {
                [] if is_begun => begun.push((name, spec.unique)),
                [] => absent.push(name),
                clashes => impossible.push(format!("{name}: {}", clashes.join("; "))),
            }
        }
    }
    if !impossible.is_empty() {
        return Ok(clashing(&impossible));
    }
    // DATAGERRY has collections of the same names, but not this one.
    let is_new = !names.iter().any(|name| name == COUNTERS);
    if absent.is_empty() && !begun.is_empty() && !is_new {
        return Ok(unfinished(&begun));
    }
    Ok(indexes(collections.iter().map(|collection| collection.indexes.len()).sum(), &absent, is_new))
}

/// The finding about indexes that the server is building, each with whether it is unique.
fn unfinished(begun: &[(String, bool)]) -> Finding {
    let names = begun.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let text = format!("the server is building {names}; wait until it has");
    if begun.iter().any(|(_, is_unique)| *is_unique) {
        Finding::wrong("indexes", format!("{text}: until then the service takes no documents that they would check"))
    } else {
        Finding::note("indexes", format!("{text}: until then what needs them is slow"))
    }
}

/// Routers do not report it, and users without the right get no answer.
async fn disk(inner: &Inner) -> Result<Option<Finding>, StoreError> {
    let stats = match inner.database.run_command(doc! { "dbStats": 1 }).await {
        Ok(stats) => stats,
        Err(error) if code(&error) == Some(UNAUTHORIZED) => return Ok(None),
        Err(error) => return Err(command_error(&error)),
    };
    let (used, total) = (bytes(&stats, "fsUsedSize"), bytes(&stats, "fsTotalSize"));
    Ok(used
        .zip(total)
        .filter(|(_, total)| *total > 0)
        .map(|(used, total)| room("the server", total.saturating_sub(used), total)))
}

/// The server writes numbers as doubles here.
fn bytes(stats: &Document, name: &str) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, reason = "sizes of disks are far below 2^53")]
    let whole = match stats.get(name)? {
        Bson::Double(value) => *value as i64,
        value => super::counters::whole_number(value)?,
    };
    u64::try_from(whole).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::inspection::Verdict;

    #[test]
    fn clocks_may_differ_by_a_little() {
        let at = DateTime::from_millis;
        assert_eq!(clock(at(10_400), at(10_000)).verdict, Verdict::Good);
        assert_eq!(clock(at(10_000), at(12_000)).verdict, Verdict::Note);
        let finding = clock(at(30_000), at(10_000));
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.text.starts_with("20.0 s apart"), "{finding}");
    }
}
