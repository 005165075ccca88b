//! The commands: one table by name, and a file for each family.

mod about;
mod aggregate;
mod counting;
mod explain;
mod finding;
mod handshake;
mod listing;
mod options;
mod question;
mod sessions;
mod signing;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::raw::RawDocument;
use bson::{Document, RawDocumentBuf};

use self::options::Options;
use super::error::{WireError, code};
use super::session::Session;
use super::shared::Shared;
use crate::admission::Ticket;
use crate::service::{Caller, Services};

/// A command that came, and the connection over which it came.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Shared,
    pub(super) session: &'a mut Session,
    /// The database, where it is not in the command.
    pub(super) database: Option<&'a str>,
    /// Whether it came by `OP_QUERY`.
    pub(super) is_legacy: bool,
    /// Whether documents were sent in addition to it.
    pub(super) has_sequences: bool,
    /// How many bytes it takes at most when it is decoded.
    pub(super) weight: usize,
}

/// What drivers need before somebody has signed in.
const HANDSHAKE: &[&str] = &["hello", "isMaster", "ismaster", "saslStart", "saslContinue", "logout"];

/// The commands that release what a user holds. They are not counted in the user's allowance.
const GIVES_BACK: &[&str] = &["killCursors", "endSessions"];

/// What changes data or the server. All of it is refused alike.
const WRITES: &[&str] = &[
    "abortTransaction", "appendOplogNote", "bulkWrite", "cloneCollectionAsCapped", "collMod", "commitTransaction",
    "compact", "convertToCapped", "create", "createIndexes", "createRole", "createUser", "delete", "deleteIndexes",
    "drop", "dropAllRolesFromDatabase", "dropAllUsersFromDatabase", "dropDatabase", "dropIndexes", "dropRole",
    "dropUser", "findAndModify", "findandmodify", "fsync", "grantPrivilegesToRole", "grantRolesToRole",
    "grantRolesToUser", "insert", "killOp", "reIndex", "renameCollection", "revokePrivilegesFromRole",
    "revokeRolesFromRole", "revokeRolesFromUser", "setFeatureCompatibilityVersion", "setParameter",
    "setProfilingLevel", "shutdown", "update", "updateRole", "updateUser",
];

/// The refusal of everything that writes.
const READ_ONLY: &str = "this server is read-only; change the inventory over REST";

/// The refusal of `mapReduce`, also of one that writes nothing.
const NO_SCRIPTS: &str = "mapReduce runs JavaScript, which this server does not; use aggregate with $group";

/// Answers a command.
///
/// # Errors
/// Everything that a client gets as `ok: 0`.
pub(super) async fn answer(call: Call<'_>, body: &[u8]) -> Result<Vec<u8>, WireError> {
    let raw = RawDocument::from_bytes(body).map_err(|_| broken())?;
    let Some(Ok((name, _))) = raw.iter().next() else {
        return Err(WireError::new(code::FAILED_TO_PARSE, "a command has its name as first member"));
    };
    let name = name.as_str();
    count(&call, name);
    let shared = call.shared;
    let rate_limits = &shared.parts.rate_limits;
    rate_limits.address(call.session.address())?;
    if call.is_legacy && !["hello", "isMaster", "ismaster"].contains(&name) {
        let message = format!("Unsupported OP_QUERY command: {name}. The client driver may require an upgrade.");
        return Err(WireError::new(code::UNSUPPORTED_OP_QUERY, message));
    }
    if !HANDSHAKE.contains(&name) {
        // Also before a command is refused as unknown or as a write: a client that did not sign in learns nothing.
        let caller = call.session.caller(call.shared, name).await?;
        if !GIVES_BACK.contains(&name) {
            rate_limits.user(caller.user_id)?;
        }
        if WRITES.contains(&name) {
            return Err(WireError::new(code::UNAUTHORIZED, READ_ONLY));
        }
        let options = options(&call, name, raw)?;
        return Box::pin(read(&Reading { call, caller, options })).await;
    }
    let options = options(&call, name, raw)?;
    match name {
        "saslStart" => signing::start(call, &options).await,
        "saslContinue" => signing::go_on(call, &options).await,
        "logout" => signing::end(call),
        _ => handshake::hello(call, &options).await,
    }
}

fn options(call: &Call<'_>, name: &str, raw: &RawDocument) -> Result<Options, WireError> {
    let document = Document::try_from(raw).map_err(|_| broken())?;
    if call.has_sequences {
        let message = format!("{name} takes no documents beside its own");
        return Err(WireError::new(code::UNKNOWN_FIELD, message));
    }
    Options::read(name, document, call.database)
}

fn broken() -> WireError {
    WireError::new(code::INVALID_BSON, "the command is no BSON document")
}

fn count(call: &Call<'_>, name: &str) {
    let counters = &call.shared.counters;
    let counter = match name {
        "find" => &counters.queries,
        "getMore" => &counters.get_mores,
        _ => &counters.commands,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A command of somebody who signed in.
struct Reading<'a> {
    call: Call<'a>,
    caller: Arc<Caller>,
    options: Options,
}

impl Reading<'_> {
    fn services(&self) -> &Services {
        &self.call.shared.parts.services
    }

    /// A ticket of the caller for an answer that may wait for its client as a cursor.
    fn lasting_ticket(&self) -> Ticket {
        self.call.session.ticket(self.call.shared)
    }

    /// Whether the command is about the database that there is.
    fn is_here(&self) -> bool {
        self.options.database == self.call.shared.parts.database
    }
}

async fn read(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    match reading.options.command.as_str() {
        "find" => finding::find(reading).await,
        "getMore" => finding::get_more(reading).await,
        "killCursors" => finding::kill_cursors(reading),
        "count" => counting::count(reading).await,
        "distinct" => counting::distinct(reading).await,
        "aggregate" => aggregate::aggregate(reading).await,
        "explain" => explain::explain(reading).await,
        "listDatabases" => listing::databases(reading).await,
        "listCollections" => listing::collections(reading).await,
        "listIndexes" => listing::indexes(reading).await,
        "collStats" | "collstats" => listing::collection_stats(reading).await,
        "dbStats" | "dbstats" => listing::database_stats(reading).await,
        "dataSize" | "datasize" => listing::data_size(reading).await,
        "ping" => about::ping(reading),
        "buildInfo" | "buildinfo" => about::build_info(reading),
        "connectionStatus" => about::connection_status(reading).await,
        "usersInfo" => about::users_info(reading).await,
        "hostInfo" => about::host_info(reading),
        "serverStatus" => about::server_status(reading),
        "getParameter" => about::get_parameter(reading),
        "getCmdLineOpts" => about::command_line(reading),
        "getLog" => about::get_log(reading),
        "whatsmyuri" => about::whats_my_uri(reading),
        "startSession" => sessions::start(reading),
        "refreshSessions" => sessions::refresh(reading),
        "endSessions" | "killSessions" => sessions::end(reading),
        "mapReduce" | "mapreduce" => Err(WireError::new(code::NOT_SUPPORTED, NO_SCRIPTS)),
        other => Err(WireError::new(code::COMMAND_NOT_FOUND, format!("no such command: '{other}'"))),
    }
}

/// The answer of a command that worked.
fn done(mut document: Document) -> Result<Vec<u8>, WireError> {
    document.insert("ok", 1.0);
    let raw = RawDocumentBuf::try_from(&document);
    raw.map(RawDocumentBuf::into_bytes)
        .map_err(|error| WireError::new(code::INTERNAL_ERROR, format!("the answer cannot be written: {error}")))
}
