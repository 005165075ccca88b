//! Errors of the driver and the server, by what the caller can do about them.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use mongodb::error::{Error, ErrorKind, WriteFailure};

use crate::store::StoreError;

/// `DuplicateKey`.
pub(super) const DUPLICATE_KEY: i32 = 11000;
/// `Unauthorized`.
pub(super) const UNAUTHORIZED: i32 = 13;
/// `AuthenticationFailed`.
const AUTHENTICATION_FAILED: i32 = 18;
/// `NamespaceExists`.
pub(super) const NAMESPACE_EXISTS: i32 = 48;
/// `SnapshotTooOld` and `SnapshotUnavailable`: this point in time cannot be read, another one can.
const SNAPSHOT_LOST: [i32; 2] = [239, 246];
/// `MaxTimeMSExpired`, `NetworkInterfaceExceededTimeLimit`, `ExceededTimeLimit`.
const OUT_OF_TIME: [i32; 3] = [50, 202, 262];
/// `TransactionTooLargeForCache`.
const UNIT_TOO_LARGE: i32 = 388;
/// Codes of a server that stops, starts, changes its role or cannot reach the others.
const AWAY: [i32; 25] = [
    6, 7, 43, 64, 89, 91, 100, 112, 133, 134, 175, 189, 237, 246, 251, 9001, 10058, 10107, 11600, 11601, 11602, 13388,
    13435, 13436, 13475,
];
/// The message about a server that was started for a replica set which nobody has initiated.
pub(super) const UNINITIATED: &str = "in no replica set yet; run rs.initiate() there";
/// How the driver shows such a server.
const GHOST: &str = ", Type: RsGhost";
/// `DatabaseDifferCase`.
const OTHER_CASE: i32 = 13297;
/// Refusals that are not about the query: internal failure, missing rights, login, missing command or namespace.
const NOT_THE_QUERY: [i32; 7] = [1, 13, 18, 26, 59, 8000, 40415];

/// A store that is away, with the reason for the log.
pub(super) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into() }
}

/// An error of a query: the server's message is for the client.
pub(super) fn query_error(error: &Error) -> StoreError {
    match refusal(error) {
        Some((code, message)) if is_about_the_query(error, code) => {
            StoreError::Query { code, message: without_machinery(message).to_owned() }
        }
        _ => command_error(error),
    }
}

/// An error of a write to `collection`.
pub(super) fn write_error(error: &Error, collection: &str, names: &IndexNames) -> StoreError {
    match refusal(error) {
        Some((DUPLICATE_KEY, message)) => refused(DUPLICATE_KEY, message, collection, names),
        _ => command_error(error),
    }
}

/// An error of a command without data of a client.
pub(super) fn command_error(error: &Error) -> StoreError {
    if is_away(error) {
        return unavailable(brief(error));
    }
    match (&*error.kind, refusal(error)) {
        (ErrorKind::Authentication { .. }, _) | (_, Some((AUTHENTICATION_FAILED, _))) => refused_login(error),
        (_, Some((UNAUTHORIZED, message))) => StoreError::backend(without_right(message)),
        (_, Some((OTHER_CASE, message))) => StoreError::backend(other_case(message)),
        (_, Some((code, _))) if OUT_OF_TIME.contains(&code) => StoreError::Timeout,
        (_, Some((UNIT_TOO_LARGE, _))) => StoreError::UnitTooLarge,
        // The driver's own text has the bytes of the answer, too.
        (_, Some((code, message))) => StoreError::backend(format!("MongoDB says: {message} (error {code})")),
        _ => StoreError::backend(Box::new(error.clone()) as Box<dyn StdError + Send + Sync>),
    }
}

/// The server keeps no two databases of which the names differ in case alone.
fn other_case(message: &str) -> String {
    let there = message.split_once("already have: [").and_then(|(_, rest)| rest.split(']').next());
    let there = there.map_or_else(|| "with other letters".to_owned(), |name| format!("as {name}"));
    format!(
        "store.uri names a database that the server has {there}; write its name in the same case (error {OTHER_CASE}, \
         DatabaseDifferCase)"
    )
}

/// What a user may not do, without the values of the command.
fn without_right(message: &str) -> String {
    let what = match message.split_once(" { ") {
        Some((what, command)) => format!("{what} {}", command.split(':').next().unwrap_or_default()),
        None => message.to_owned(),
    };
    format!(
        "MongoDB says: {what} (error {UNAUTHORIZED}, Unauthorized); name a user in store.uri who has the role readWrite \
         on the database"
    )
}

/// The error for the log: only the number of a server's answer, because its text quotes stored values.
pub(super) fn brief(error: &Error) -> String {
    match code(error) {
        Some(code) => format!("the server answered with error {code}"),
        None => plain(error),
    }
}

/// What kept the service from connecting.
pub(super) fn connect_error(error: &Error) -> StoreError {
    match &*error.kind {
        ErrorKind::InvalidArgument { message, .. } => StoreError::backend(format!("store.uri: {message}")),
        _ => command_error(error),
    }
}

fn refused_login(error: &Error) -> StoreError {
    let said = match &*error.kind {
        ErrorKind::Authentication { message, .. } => message.trim_end_matches('.').to_owned(),
        _ => format!("error {AUTHENTICATION_FAILED}, AuthenticationFailed"),
    };
    StoreError::backend(format!(
        "the server refused the login ({said}): check user, password and authSource in store.uri"
    ))
}

/// The driver's words without its machinery: what happened, and at which server.
fn plain(error: &Error) -> String {
    let text = error.to_string();
    let mut servers = text.split("{ Address: ").skip(1).peekable();
    if servers.peek().is_none() {
        return strangers(&text).unwrap_or_else(|| without_labels(&text).to_owned());
    }
    let server = |server: &str| {
        let address = server.split(", ").next().unwrap_or_default();
        let without_error = if server.contains(GHOST) { UNINITIATED } else { "not known yet, or no primary" };
        let cause = server.split_once("Error: ").map_or(without_error, |(_, cause)| without_labels(cause));
        format!("{address} ({cause})")
    };
    format!("no server takes requests: {}", servers.map(server).collect::<Vec<_>>().join(", "))
}

/// The message where all servers were skipped, because none is in the replica set that the URI names. The driver does
/// not report in which they are.
fn strangers(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("No available servers. Topology: { Type: ReplicaSetNoPrimary, Set Name: ")?;
    let name = rest.split([',', ' ', '}']).next()?;
    Some(format!(
        "no server of store.uri is in the replica set {name} that it names with replicaSet; write the name that \
         db.hello().setName shows in mongosh there, or take replicaSet out of store.uri if it shows none"
    ))
}

fn without_labels(text: &str) -> &str {
    let text = text.strip_prefix("Kind: ").unwrap_or(text);
    text.split_once(", labels: ").map_or(text, |(text, _)| text)
}

/// Whether a unique index refused a document.
pub(super) fn is_duplicate(error: &Error) -> bool {
    code(error) == Some(DUPLICATE_KEY)
}

/// Whether the same query at another point in time can succeed.
pub(super) fn is_snapshot_lost(error: &Error) -> bool {
    code(error).is_some_and(|code| SNAPSHOT_LOST.contains(&code))
}

/// The server's number for the error, if it comes from the server.
pub(super) fn code(error: &Error) -> Option<i32> {
    refusal(error).map(|(code, _)| code)
}

/// The code and the message with which the server refused an operation.
fn refusal(error: &Error) -> Option<(i32, &str)> {
    match &*error.kind {
        ErrorKind::Command(refused) => Some((refused.code, &refused.message)),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => Some((refused.code, &refused.message)),
        ErrorKind::Write(WriteFailure::WriteConcernError(refused)) => Some((refused.code, &refused.message)),
        ErrorKind::InsertMany(refused) => match refused.write_errors.as_deref() {
            Some([first, ..]) => Some((first.code, &first.message)),
            _ => refused.write_concern_error.as_ref().map(|refused| (refused.code, refused.message.as_str())),
        },
        _ => None,
    }
}

/// A statement that the server refused with this number.
pub(super) fn refused(code: i32, message: &str, collection: &str, names: &IndexNames) -> StoreError {
    match code {
        DUPLICATE_KEY => StoreError::Duplicate {
            collection: collection.to_owned(),
            key: names.declared(collection, index_in(message)),
        },
        code => refusal_of(code),
    }
}

/// A refusal with only its number: the server's texts quote stored values.
pub(super) fn refusal_of(code: i32) -> StoreError {
    let brief = format!("the server answered with error {code}");
    match code {
        code if AWAY.contains(&code) => unavailable(brief),
        code if OUT_OF_TIME.contains(&code) => StoreError::Timeout,
        UNIT_TOO_LARGE => StoreError::UnitTooLarge,
        _ => StoreError::backend(brief),
    }
}

/// Whether the server is away or stops.
pub(super) fn is_away(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Io(_)
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::Shutdown => true,
        _ => code(error).is_some_and(|code| AWAY.contains(&code)),
    }
}

fn is_about_the_query(error: &Error, code: i32) -> bool {
    matches!(&*error.kind, ErrorKind::Command(_))
        && !AWAY.contains(&code)
        && !OUT_OF_TIME.contains(&code)
        && !NOT_THE_QUERY.contains(&code)
}

/// The index that a duplicate key message names: `E11000 duplicate key error collection: d.c index: NAME dup key: {..}`.
fn index_in(message: &str) -> &str {
    let after = message.split_once(" index: ").map_or(message, |(_, after)| after);
    after.split_once(" dup key").map_or(after, |(name, _)| name).trim()
}

/// The server puts the stage before the message: `PlanExecutor error during aggregation :: caused by :: ..`.
fn without_machinery(message: &str) -> &str {
    message.rsplit_once(" :: caused by :: ").map_or(message, |(_, cause)| cause)
}

/// The declared names of indexes that have another name on the server.
#[derive(Debug, Default)]
pub(super) struct IndexNames(RwLock<HashMap<(String, String), &'static str>>);

impl IndexNames {
    /// The declared name of the index that the server calls `name`.
    pub(super) fn declared(&self, collection: &str, name: &str) -> String {
        if name == "_id_" {
            return "_id".to_owned();
        }
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let declared = names.get(&(collection.to_owned(), name.to_owned()));
        declared.map_or_else(|| name.to_owned(), |declared| (*declared).to_owned())
    }

    /// Notes which name the server has for a declared index.
    pub(super) fn learn(&self, collection: &str, name: &str, declared: &'static str) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        names.insert((collection.to_owned(), name.to_owned()), declared);
    }
}

/// Why a change did not happen; the driver's error is kept because its labels say whether to try again.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of the server or the network, while working on this collection.
    Driver { error: Error, collection: &'static str },
    /// An error that the port has a name for.
    Store(StoreError),
}

impl Failure {
    /// What the caller of the port gets.
    pub(super) fn into_store_error(self, names: &IndexNames) -> StoreError {
        match self {
            Self::Driver { error, collection } => write_error(&error, collection, names),
            Self::Store(error) => error,
        }
    }

    /// Whether the error carries the label.
    pub(super) fn has_label(&self, label: &str) -> bool {
        matches!(self, Self::Driver { error, .. } if error.contains_label(label))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { error, collection } => write!(formatter, "{collection}: {}", brief(error)),
            Self::Store(error) => error.fmt(formatter),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// For `map_err` on operations of the driver.
pub(super) fn at(collection: &'static str) -> impl Fn(Error) -> Failure {
    move |error| Failure::Driver { error, collection }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_key_message_names_its_index() {
        let message = "E11000 duplicate key error collection: t1.b index: user name dup key: { k: 1 }";
        assert_eq!(index_in(message), "user name");
    }

    #[test]
    fn a_replica_set_that_no_server_is_in_is_named_with_the_remedy() {
        let text = "Kind: Server selection timeout: No available servers. Topology: { Type: ReplicaSetNoPrimary, Set Name: rs0 }, \
                    labels: {}";
        let said = strangers(text).expect("a sentence");
        assert!(said.starts_with("no server of store.uri is in the replica set rs0 that it names"), "{said}");
        assert_eq!(strangers("Kind: Server selection timeout: None"), None);
    }

    #[test]
    fn a_database_in_another_case_is_named() {
        let message = "db already exists with different case already have: [inventory] trying to create [INVENTORY]";
        assert!(other_case(message).starts_with("store.uri names a database that the server has as inventory; "));
    }

    #[test]
    fn the_place_where_the_server_noticed_is_left_out() {
        assert_eq!(
            without_machinery("Executor error during find :: caused by :: can't $divide by zero"),
            "can't $divide by zero"
        );
        assert_eq!(without_machinery("unknown operator: $foo"), "unknown operator: $foo");
    }
}
