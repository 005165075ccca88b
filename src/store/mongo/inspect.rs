//! Findings about a deployment for an operator. Changes nothing.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};

use super::Inner;
use super::connect::Topology;
use super::error::{UNAUTHORIZED, code, command_error};
use super::indexes::{Missing, clashes, missing};
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

/// What the service does in its database, by MongoDB's names for actions. The role `readWrite` has all of them.
const NEEDED: [&str; 7] = ["find", "insert", "update", "remove", "createCollection", "createIndex", "dropCollection"];

/// The finding; none where the server requires no user.
pub(super) async fn rights(inner: &Inner) -> Result<Option<Finding>, StoreError> {
    let status = inner.database.run_command(doc! { "connectionStatus": 1, "showPrivileges": true });
    let status = status.await.map_err(|error| command_error(&error))?;
    Ok(status.get_document("authInfo").ok().and_then(|info| finding(info, inner.database.name())))
}

fn finding(info: &Document, database: &str) -> Option<Finding> {
    let documents = |name: &str| info.get_array(name).into_iter().flatten().filter_map(Bson::as_document);
    let user = documents("authenticatedUsers").next()?.get_str("user").unwrap_or_default();
    // Rights on single collections would have to be compared one by one: they are not checked.
    if documents("authenticatedUserPrivileges").any(|privilege| is_on_a_collection(privilege, database)) {
        return None;
    }
    let may = |action: &str| documents("authenticatedUserPrivileges").any(|it| grants(it, database, action));
    let lacking: Vec<&str> = NEEDED.into_iter().filter(|action| !may(action)).collect();
    Some(if lacking.is_empty() {
        Finding::good("rights", format!("the user {user} may read and write the database {database}"))
    } else {
        let lacking = lacking.join(", ");
        let text = format!(
            "the user {user} may not {lacking} in the database {database}; give it the role readWrite on this database"
        );
        Finding::wrong("rights", text)
    })
}

fn is_on_a_collection(privilege: &Document, database: &str) -> bool {
    let Ok(resource) = privilege.get_document("resource") else { return false };
    let name = |key| resource.get_str(key).unwrap_or_default();
    // MongoDB gives every role its own collections whose names begin so.
    let collection = name("collection");
    name("db") == database && !collection.is_empty() && !collection.starts_with("system.")
}

fn grants(privilege: &Document, database: &str, action: &str) -> bool {
    let Ok(resource) = privilege.get_document("resource") else { return false };
    let covers = resource.get_bool("anyResource").unwrap_or(false)
        || resource.get_str("db").is_ok_and(|db| db.is_empty() || db == database)
            && resource.get_str("collection").is_ok_and(str::is_empty);
    let has = |actions: &Vec<Bson>| {
        actions.iter().any(|it| matches!(it.as_str(), Some(it) if it == action || it == "anyAction"))
    };
    covers && privilege.get_array("actions").is_ok_and(has)
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

    const READ: [&str; 3] = ["find", "listIndexes", "listCollections"];
    const WRITE: [&str; 7] = NEEDED;

    fn on(resource: Document, actions: &[&str]) -> Document {
        doc! { "resource": resource, "actions": actions.to_vec() }
    }

    fn of(privileges: Vec<Document>) -> Option<Finding> {
        let info = doc! { "authenticatedUsers": [{ "user": "app", "db": "admin" }], "authenticatedUserPrivileges": privileges };
        finding(&info, "inventory")
    }

    #[test]
    fn a_user_who_may_only_read_is_wrong_with_the_remedy() {
        let found = of(vec![on(doc! { "db": "inventory", "collection": "" }, &READ)]).expect("a finding");
        assert_eq!(found.verdict, Verdict::Wrong);
        assert!(found.text.starts_with("the user app may not insert, update, remove, "), "{}", found.text);
        assert!(found.text.ends_with("give it the role readWrite on this database"), "{}", found.text);
    }

    #[test]
    fn a_user_who_may_write_here_or_everywhere_is_good() {
        let resources = [
            doc! { "db": "inventory", "collection": "" },
            doc! { "db": "", "collection": "" },
            doc! { "anyResource": true },
        ];
        for resource in resources {
            let found = of(vec![on(resource.clone(), &WRITE)]).expect("a finding");
            assert_eq!(found.verdict, Verdict::Good, "{resource}");
        }
        assert_eq!(
            of(vec![on(doc! { "anyResource": true }, &["anyAction"])]).expect("a finding").verdict,
            Verdict::Good
        );
    }

    #[test]
    fn rights_on_another_database_do_not_count() {
        let found = of(vec![on(doc! { "db": "elsewhere", "collection": "" }, &WRITE)]).expect("a finding");
        assert_eq!(found.verdict, Verdict::Wrong);
    }

    #[test]
    fn nothing_is_said_without_users_or_of_rights_on_single_collections() {
        assert_eq!(finding(&doc! { "authenticatedUsers": [], "authenticatedUserPrivileges": [] }, "inventory"), None);
        assert_eq!(of(vec![on(doc! { "db": "inventory", "collection": "objects" }, &WRITE)]), None);
    }
}
