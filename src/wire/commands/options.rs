//! The members of a command. Each one is honoured or refused.

use std::time::Duration;

use bson::spec::ElementType;
use bson::{Bson, Document};

use crate::suggest;
use crate::wire::error::{WireError, code};

/// What every command takes. The time of the cluster and the preference of a server mean nothing on a single server.
const GENERIC: &[&str] = &[
    "$db", "lsid", "$clusterTime", "$readPreference", "comment", "maxTimeMS", "apiVersion", "apiStrict",
    "apiDeprecationErrors",
];

/// The commands of the first version of the interface, for `apiStrict`.
const VERSION_ONE: &[&str] = &[
    "aggregate", "count", "endSessions", "explain", "find", "getMore", "hello", "killCursors", "killSessions",
    "listCollections", "listDatabases", "listIndexes", "ping", "refreshSessions", "saslStart", "saslContinue",
];

/// A command with its members.
#[derive(Debug)]
pub(super) struct Options {
    /// Its name as sent.
    pub(super) command: String,
    /// The database that it is about.
    pub(super) database: String,
    document: Document,
}

impl Options {
    /// Reads a command; `database` comes with it in the old handshake.
    ///
    /// # Errors
    /// Transactions, other versions of the interface, and no database.
    pub(super) fn read(command: &str, mut document: Document, database: Option<&str>) -> Result<Self, WireError> {
        // Tools that use the old protocol wrap commands.
        if let Some(database) = database {
            document.insert("$db", database);
        }
        let Ok(database) = document.get_str("$db").map(str::to_owned) else {
            return Err(WireError::new(code::MISSING_FIELD, "OP_MSG requests require a $db argument"));
        };
        let options = Self { command: command.to_owned(), database, document };
        if ["txnNumber", "startTransaction", "autocommit"].iter().any(|name| options.get(name).is_some()) {
            let message = "Transaction numbers are only allowed on a replica set member or mongos";
            return Err(WireError::new(code::ILLEGAL_OPERATION, message));
        }
        match options.text("apiVersion")? {
            None | Some("1") => {}
            Some(other) => {
                let message = format!("API version must be \"1\", not {other:?}");
                return Err(WireError::new(code::API_VERSION_ERROR, message));
            }
        }
        if options.flag("apiStrict")? == Some(true) && !VERSION_ONE.contains(&command) {
            let message = format!("Provided apiStrict:true, but the command {command} is not in API Version 1");
            return Err(WireError::new(code::API_STRICT_ERROR, message));
        }
        Ok(options)
    }

    /// The same options under the name of another command, of which they are a part.
    ///
    /// # Errors
    /// As [`Options::read`]; when there is no command.
    pub(super) fn inside(&self, document: &Document) -> Result<Self, WireError> {
        let Some(name) = document.keys().next().cloned() else {
            return Err(WireError::new(code::FAILED_TO_PARSE, "explain needs the command to explain"));
        };
        Self::read(&name, document.clone(), Some(&self.database))
    }

    /// Refuses members that the command does not know.
    ///
    /// # Errors
    /// Code 40415 with the most similar known name.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), WireError> {
        let unknown = self
            .document
            .keys()
            .skip(1)
            .find(|name| !known.contains(&name.as_str()) && !GENERIC.contains(&name.as_str()));
        let Some(name) = unknown else { return Ok(()) };
        let hint = suggest::nearest(name, known).map_or_else(String::new, |near| format!(" Did you mean {near}?"));
        let message = format!("BSON field '{}.{name}' is an unknown field.{hint}", self.command);
        Err(WireError::new(code::UNKNOWN_FIELD, message))
    }

    /// A member; null counts as missing.
    pub(super) fn get(&self, name: &str) -> Option<&Bson> {
        self.document.get(name).filter(|value| !matches!(value, Bson::Null))
    }

    /// The value of the command's name.
    pub(super) fn subject(&self) -> Option<&Bson> {
        self.document.iter().next().map(|(_, value)| value)
    }

    /// The collection that the command is about.
    ///
    /// # Errors
    /// Code 73 when it is no name.
    pub(super) fn collection(&self) -> Result<&str, WireError> {
        match self.subject() {
            Some(Bson::String(name)) if !name.is_empty() && !name.contains('\0') && !name.starts_with('.') => Ok(name),
            Some(Bson::String(name)) => {
                let message = format!("Invalid namespace specified '{}.{name}'", self.database);
                Err(WireError::new(code::INVALID_NAMESPACE, message))
            }
            other => {
                let kind = other.map_or("null", kind_of);
                let message = format!("collection name has invalid type {kind}");
                Err(WireError::new(code::INVALID_NAMESPACE, message))
            }
        }
    }

    /// The collection with its database.
    ///
    /// # Errors
    /// As [`Options::collection`].
    pub(super) fn namespace(&self) -> Result<String, WireError> {
        Ok(format!("{}.{}", self.database, self.collection()?))
    }

    /// A member that is a document.
    ///
    /// # Errors
    /// Code 14.
    pub(super) fn document(&self, name: &str) -> Result<Option<&Document>, WireError> {
        match self.get(name) {
            None => Ok(None),
            Some(Bson::Document(document)) => Ok(Some(document)),
            Some(other) => Err(self.mismatch(name, other, "object")),
        }
    }

    /// A member that is an array.
    ///
    /// # Errors
    /// Code 14.
    pub(super) fn array(&self, name: &str) -> Result<Option<&[Bson]>, WireError> {
        match self.get(name) {
            None => Ok(None),
            Some(Bson::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.mismatch(name, other, "array")),
        }
    }

    /// A member that is text.
    ///
    /// # Errors
    /// Code 14.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, WireError> {
        match self.get(name) {
            None => Ok(None),
            Some(Bson::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.mismatch(name, other, "string")),
        }
    }

    /// A member that is a whole number of any type.
    ///
    /// # Errors
    /// Code 14 for other types, code 9 for fractions.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, WireError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        if !matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)) {
            return Err(self.mismatch(name, value, "number"));
        }
        let wrong = || {
            let message = format!("BSON field '{}.{name}' must be a whole number", self.command);
            WireError::new(code::FAILED_TO_PARSE, message)
        };
        whole(value).map(Some).ok_or_else(wrong)
    }

    /// A member that is a whole number, and not negative.
    ///
    /// # Errors
    /// As [`Options::number`]; code 51024 below zero.
    pub(super) fn amount(&self, name: &str) -> Result<Option<u64>, WireError> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| {
            let message = format!("BSON field '{name}' value must be >= 0, actual value '{number}'");
            WireError::new(51024, message)
        })
    }

    /// A member that is true or false, or a number for one of both.
    ///
    /// # Errors
    /// Code 14.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, WireError> {
        match self.get(name) {
            None => Ok(None),
            Some(Bson::Boolean(flag)) => Ok(Some(*flag)),
            Some(value @ (Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_))) => Ok(Some(whole(value) != Some(0))),
            Some(other) => Err(self.mismatch(name, other, "bool")),
        }
    }

    /// Refuses what is neither true nor false under names that mean nothing here.
    ///
    /// # Errors
    /// Code 14.
    pub(super) fn are_flags(&self, names: &[&str]) -> Result<(), WireError> {
        names.iter().try_for_each(|name| self.flag(name).map(drop))
    }

    /// The time budget of the command, which is never longer than that of the service.
    ///
    /// # Errors
    /// Code 2 for what is no amount.
    pub(super) fn max_time(&self, most: Duration) -> Result<Duration, WireError> {
        match self.amount("maxTimeMS") {
            Ok(None | Some(0)) => Ok(most),
            Ok(Some(millis)) => Ok(Duration::from_millis(millis).min(most)),
            Err(error) => Err(WireError::new(code::BAD_VALUE, format!("maxTimeMS: {}", error.message))),
        }
    }

    /// The `batchSize` of a cursor.
    ///
    /// # Errors
    /// Code 14.
    pub(super) fn cursor_size(cursor: &Document) -> Result<Option<u64>, WireError> {
        let Some(size) = cursor.get("batchSize") else { return Ok(None) };
        let size = whole(size).ok_or_else(|| WireError::mismatch("cursor", "batchSize", kind_of(size), "number"))?;
        u64::try_from(size).map(Some).map_err(|_| WireError::new(51024, "BSON field 'batchSize' value must be >= 0"))
    }

    /// The id of the client's session.
    pub(super) fn session(&self) -> Option<Vec<u8>> {
        session_id(self.get("lsid")?.as_document()?)
    }

    /// Refuses a collation that is not the order of bytes.
    ///
    /// # Errors
    /// Code 72.
    pub(super) fn simple_collation(&self) -> Result<(), WireError> {
        let Some(collation) = self.document("collation")? else { return Ok(()) };
        let is_simple = collation.len() == 1 && collation.get_str("locale").is_ok_and(|locale| locale == "simple");
        if collation.is_empty() || is_simple {
            return Ok(());
        }
        Err(WireError::new(
            code::INVALID_OPTIONS,
            "collation: this server compares bytes; leave it out, or write {locale: \"simple\"}",
        ))
    }

    /// Reads `readConcern`. Returns whether the whole answer has to come from one snapshot.
    ///
    /// What was acknowledged is on disk and never taken back, so `local`, `available`, `majority` and `linearizable`
    /// mean the same here.
    ///
    /// # Errors
    /// Code 72 for anything else, code 9 for what is no document.
    pub(super) fn read_concern(&self) -> Result<bool, WireError> {
        let concern = match self.get("readConcern") {
            None => return Ok(false),
            Some(Bson::Document(concern)) => concern,
            Some(_) => return Err(WireError::new(code::FAILED_TO_PARSE, "readConcern must be a document")),
        };
        if let Some(name) = concern.keys().find(|name| !["level", "provenance"].contains(&name.as_str())) {
            let message = format!("readConcern.{name}: this server has no clock of a cluster; leave it out");
            return Err(WireError::new(code::INVALID_OPTIONS, message));
        }
        match concern.get_str("level").unwrap_or("local") {
            "local" | "available" | "majority" | "linearizable" => Ok(false),
            "snapshot" => Ok(true),
            other => {
                let message = format!("readConcern.level: {other:?} is no level; write local, majority or snapshot");
                Err(WireError::new(code::INVALID_OPTIONS, message))
            }
        }
    }

    /// Refuses options that this server does not offer, unless they are off.
    ///
    /// # Errors
    /// Code 72 with the reason.
    pub(super) fn refuse(&self, refused: &[(&str, &str)]) -> Result<(), WireError> {
        let is_on = |value: &Bson| {
            !matches!(value, Bson::Boolean(false)) && !matches!(value, Bson::Document(document) if document.is_empty())
        };
        match refused.iter().find(|(name, _)| self.get(name).is_some_and(is_on)) {
            None => Ok(()),
            Some((name, why)) => Err(WireError::new(code::INVALID_OPTIONS, format!("{name}: {why}"))),
        }
    }

    /// A value of a wrong kind.
    pub(super) fn mismatch(&self, name: &str, found: &Bson, wanted: &str) -> WireError {
        WireError::mismatch(&self.command, name, kind_of(found), wanted)
    }
}

/// The bytes of a session's id.
pub(super) fn session_id(session: &Document) -> Option<Vec<u8>> {
    match session.get("id")? {
        Bson::Binary(id) => Some(id.bytes.clone()),
        _ => None,
    }
}

/// A number without a fraction.
pub(super) fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is within the range")]
        Bson::Double(number) if number.fract() == 0.0 && number.abs() < 9.0e18 => Some(*number as i64),
        Bson::Decimal128(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// What MongoDB calls a type.
pub(super) fn kind_of(value: &Bson) -> &'static str {
    match value.element_type() {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn options(document: Document) -> Options {
        Options::read("find", document, Some("inventory")).expect("options")
    }

    fn refused<T>(outcome: Result<T, WireError>) -> i32 {
        outcome.err().map_or(0, |error| error.code)
    }

    #[test]
    fn an_unknown_member_is_refused_with_the_nearest() {
        let options = options(doc! { "find": "a", "filtr": {}, "comment": 1 });
        let error = options.only(&["filter"]).expect_err("a misspelt member");
        assert_eq!(error.code, 40415);
        assert!(error.message.contains("'find.filtr'") && error.message.contains("filter?"), "{error}");
    }

    #[test]
    fn numbers_of_every_type_are_whole_numbers() {
        let options =
            options(doc! { "find": "a", "b": 2, "c": 2_i64, "d": 2.0, "e": 2.5, "f": "2", "g": -1, "h": null });
        assert_eq!(
            (options.amount("b"), options.amount("c"), options.amount("d")),
            (Ok(Some(2)), Ok(Some(2)), Ok(Some(2)))
        );
        assert_eq!(options.amount("h"), Ok(None));
        assert_eq!(
            (refused(options.amount("e")), refused(options.amount("f")), refused(options.amount("g"))),
            (9, 14, 51024)
        );
    }

    #[test]
    fn what_this_server_does_not_offer_is_refused() {
        let with = |name: &str, value: Bson| options(doc! { "find": "a", name: value });
        assert_eq!(refused(with("collation", doc! { "locale": "de" }.into()).simple_collation()), 72);
        assert_eq!(with("collation", doc! { "locale": "simple" }.into()).simple_collation(), Ok(()));
        assert_eq!(with("readConcern", doc! { "level": "majority" }.into()).read_concern(), Ok(false));
        assert_eq!(with("readConcern", doc! { "level": "snapshot" }.into()).read_concern(), Ok(true));
        assert_eq!(refused(with("readConcern", doc! { "afterClusterTime": 1 }.into()).read_concern()), 72);
        assert_eq!(refused(Options::read("find", doc! { "find": "a", "txnNumber": 1 }, Some("a"))), 20);
        assert_eq!(refused(Options::read("find", doc! { "find": "a", "apiVersion": "2" }, Some("a"))), 322);
        assert_eq!(refused(Options::read("getLog", doc! { "getLog": "a", "apiStrict": true }, Some("a"))), 323);
        assert_eq!(refused(Options::read("find", doc! { "find": "a" }, None)), 40414);
    }
}
