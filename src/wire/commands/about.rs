//! What tools ask about the server when they start.

use std::sync::atomic::{AtomicI64, Ordering};

use bson::{Bson, DateTime, Document, doc};

use super::options::{Options, whole};
use super::{Reading, done};
use crate::query::FOLLOWS;
use crate::service::exchange::tools::{self, COLLECTIONS};
use crate::wire::error::{WireError, code};
use crate::wire::shared::MOST_CONNECTIONS;

/// What this program calls itself.
const PROCESS: &str = env!("CARGO_PKG_NAME");

pub(super) fn ping(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    done(Document::new())
}

/// Queries have the meaning of that version of MongoDB, so tools receive it. The real name is another member.
pub(super) fn build_info(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    let numbers: Vec<i32> = FOLLOWS.split('.').chain(["0"]).filter_map(|number| number.parse().ok()).collect();
    done(doc! {
        "version": FOLLOWS,
        "versionArray": numbers,
        "gitVersion": "",
        "modules": [PROCESS],
        PROCESS: { "version": env!("CARGO_PKG_VERSION") },
        "allocator": "mimalloc",
        "javascriptEngine": "none",
        "sysInfo": "deprecated",
        "bits": 64,
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "storageEngines": ["embedded"],
    })
}

pub(super) async fn connection_status(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&["showPrivileges"])?;
    let mut info = Document::new();
    if let Some(signed_in) = reading.call.session.signed_in() {
        info.insert("authenticatedUsers", vec![doc! { "user": &signed_in.user_name, "db": &signed_in.source }]);
        info.insert("authenticatedUserRoles", vec![role(reading)]);
        if reading.options.flag("showPrivileges")? == Some(true) {
            info.insert("authenticatedUserPrivileges", privileges(reading).await?);
        }
    }
    done(doc! { "authInfo": info })
}

/// About the caller only. Others are known over REST; a tool that asks for them, or for all, gets only the caller.
pub(super) async fn users_info(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options
        .only(&["filter", "showAuthenticationRestrictions", "showCredentials", "showCustomData", "showPrivileges"])?;
    options.refuse(&[
        ("filter", "only the user who asks is told; leave it out"),
        ("showCredentials", "credentials are not told"),
    ])?;
    let Some(signed_in) = reading.call.session.signed_in() else { return done(doc! { "users": [] }) };
    let (user, database) = (signed_in.user_name.as_str(), signed_in.source.as_str());
    if !is_asked(options, (user, database))? {
        return done(doc! { "users": [] });
    }
    let mut found =
        doc! { "_id": format!("{database}.{user}"), "user": user, "db": database, "roles": [role(reading)] };
    found.insert("mechanisms", vec![super::signing::MECHANISM]);
    if options.flag("showPrivileges")? == Some(true) {
        let privileges = privileges(reading).await?;
        found.extend(doc! { "inheritedRoles": [role(reading)], "inheritedPrivileges": privileges });
    }
    done(doc! { "users": [found] })
}

/// Whether the user is among those that `usersInfo` names: all of this database or of all, a name, a user, or a list of these.
fn is_asked(options: &Options, (user, database): (&str, &str)) -> Result<bool, WireError> {
    let is_named = |asked: &Bson| match asked {
        Bson::String(name) => Some(name == user && options.database == database),
        Bson::Document(asked) => {
            let (name, of) = (asked.get_str("user").ok()?, asked.get_str("db").ok()?);
            Some(name == user && of == database)
        }
        _ => None,
    };
    let subject = options.subject().unwrap_or(&Bson::Null);
    let is_asked = match subject {
        number @ (Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
            (whole(number) == Some(1)).then_some(options.database == database)
        }
        Bson::Document(all) if all.get_bool("forAllDBs").unwrap_or(false) => Some(true),
        Bson::Array(asked) => asked.iter().map(is_named).try_fold(false, |any, one| Some(one? || any)),
        one => is_named(one),
    };
    is_asked.ok_or_else(|| {
        let message = "usersInfo takes 1, a name, {user, db}, a list of these, or {forAllDBs: true}";
        WireError::new(code::BAD_VALUE, message)
    })
}

/// The role of everybody who signs in.
fn role(reading: &Reading<'_>) -> Document {
    doc! { "role": "read", "db": reading.call.shared.parts.database.as_str() }
}

/// What the caller may do, collection by collection.
async fn privileges(reading: &Reading<'_>) -> Result<Vec<Document>, WireError> {
    let database = reading.call.shared.parts.database.as_str();
    let privilege = |collection: &str| {
        doc! {
            "resource": { "db": database, "collection": collection },
            "actions": ["collStats", "dbStats", "find", "killCursors", "listCollections", "listIndexes"],
        }
    };
    let seen = COLLECTIONS.iter().filter(|collection| collection.is_seen_by(&reading.caller));
    let tables = tools::table_names(reading.services(), &reading.caller).await?;
    Ok(seen.map(|seen| seen.name).chain(tables.iter().map(String::as_str)).map(privilege).collect())
}

/// Nothing of the machine but what every client knows: the time, and the kind of system.
pub(super) fn host_info(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    done(doc! {
        "system": {
            "currentTime": DateTime::from_chrono(reading.services().clock.now()),
            "cpuAddrSize": 64,
            "cpuArch": std::env::consts::ARCH,
        },
        "os": { "type": std::env::consts::OS, "name": "", "version": "" },
        "extra": {},
    })
}

/// Of the listener: connections, commands, bytes. Parts that tools leave out by name are left out.
pub(super) fn server_status(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let shared = reading.call.shared;
    let counters = &shared.counters;
    let read = |counter: &AtomicI64| counter.load(Ordering::Relaxed);
    let uptime = shared.started.elapsed();
    let connections = read(&counters.connections);
    let requests = read(&counters.queries) + read(&counters.get_mores) + read(&counters.commands);
    let mut parts = doc! {
        "connections": {
            "current": connections,
            "available": i64::try_from(MOST_CONNECTIONS).unwrap_or_default() - connections,
            "totalCreated": read(&counters.connections_made),
        },
        "metrics": { "cursor": { "open": { "total": i64::try_from(shared.cursors.len()).unwrap_or_default() } } },
        "network": {
            "bytesIn": read(&counters.bytes_in),
            "bytesOut": read(&counters.bytes_out),
            "numRequests": requests,
        },
        "opcounters": {
            "insert": 0_i64,
            "query": read(&counters.queries),
            "update": 0_i64,
            "delete": 0_i64,
            "getmore": read(&counters.get_mores),
            "command": read(&counters.commands),
        },
        "storageEngine": { "name": "embedded", "persistent": true, "readOnly": true },
    };
    for name in ["connections", "metrics", "network", "opcounters", "storageEngine"] {
        if reading.options.flag(name).unwrap_or(Some(true)) == Some(false) {
            parts.remove(name);
        }
    }
    let mut answer = doc! {
        "version": FOLLOWS,
        "process": PROCESS,
        "pid": i64::from(std::process::id()),
        "uptime": uptime.as_secs_f64(),
        "uptimeMillis": i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
        "uptimeEstimate": i64::try_from(uptime.as_secs()).unwrap_or(i64::MAX),
        "localTime": DateTime::from_chrono(reading.services().clock.now()),
    };
    answer.extend(parts);
    done(answer)
}

pub(super) fn get_parameter(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    let known = doc! {
        "authenticationMechanisms": [super::signing::MECHANISM],
        "featureCompatibilityVersion": { "version": "6.0" },
    };
    if options.text("getParameter").ok().flatten() == Some("*") {
        options.only(&[])?;
        return done(known);
    }
    let asked: Document = known.into_iter().filter(|(name, _)| options.get(name).is_some()).collect();
    if asked.is_empty() {
        return Err(WireError::new(code::INVALID_OPTIONS, "no option found to get"));
    }
    done(asked)
}

/// Nothing of how the program was started is a matter of clients.
pub(super) fn command_line(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    done(doc! { "argv": [PROCESS], "parsed": {} })
}

/// There are no warnings for tools: the log of the service is for its operator.
pub(super) fn get_log(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    match reading.options.subject() {
        Some(Bson::String(name)) if name == "*" => done(doc! { "names": ["startupWarnings"] }),
        Some(Bson::String(name)) if name == "startupWarnings" => {
            done(doc! { "totalLinesWritten": 0, "log": Bson::Array(Vec::new()) })
        }
        Some(Bson::String(name)) => Err(WireError::new(code::OPERATION_FAILED, format!("No RamLog named: {name}"))),
        other => Err(reading.options.mismatch("getLog", other.unwrap_or(&Bson::Null), "string")),
    }
}

pub(super) fn whats_my_uri(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    done(doc! { "you": reading.call.session.peer.to_string() })
}
