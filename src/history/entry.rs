//! Entries: one for each change of an object, a type or a category, linked to the entry before it.
//!
//! `{_id, sequence, time, resource, public_id, type_id, number, version, action, user_id, user_name, comment, request_id, changes,
//! state, cause, hash}`. Members without a value are left out.
//!
//! - `sequence` orders all entries. `number` counts those of one resource, from 1.
//! - `changes` says how to go back, see [`Changes`].
//! - `state` is the beginning of the SHA-256 of the document after the change. Nothing after a deletion.
//! - `cause` is the `sequence` of the entry of the type whose change changed the object.
//! - `hash` is the SHA-256 over the `hash` of the entry before it of the same resource and the bytes of all members but
//!   [`NOT_HASHED`]. So a changed, removed or exchanged entry shows, and names can be forgotten.

use bson::oid::ObjectId;
use bson::raw::{BindRawBsonRef, CStr, RawBinaryRef, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use bson::spec::BinarySubtype;
use bson::{DateTime, Document, doc};
use sha2::{Digest, Sha256};

/// The members that the hash of an entry leaves out. Pruning stores `previous`, the hash of a removed entry.
pub const NOT_HASHED: [&str; 4] = ["_id", "user_name", "previous", "hash"];

/// How many bytes of a hash identify the state of a document.
pub const STATE_BYTES: usize = 16;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Stored for the first time.
    Create,
    /// Changed.
    Edit,
    /// Removed.
    Delete,
    /// Activated or deactivated.
    ActiveChange,
    /// Fields were brought in line with the type.
    Clean,
    /// A type was changed together with its objects.
    Migrate,
    /// Stored or changed by an import.
    Import,
    /// Brought back to an earlier state, or back from a deletion.
    Revert,
    /// Another tool changed it; what it changed was not seen.
    Outside,
}

impl Action {
    /// All names in entries.
    pub const NAMES: [&str; 9] = [
        Self::Create.name(),
        Self::Edit.name(),
        Self::Delete.name(),
        Self::ActiveChange.name(),
        Self::Clean.name(),
        Self::Migrate.name(),
        Self::Import.name(),
        Self::Revert.name(),
        Self::Outside.name(),
    ];

    /// Its name in entries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Edit => "EDIT",
            Self::Delete => "DELETE",
            Self::ActiveChange => "ACTIVE_CHANGE",
            Self::Clean => "CLEAN",
            Self::Migrate => "MIGRATE",
            Self::Import => "IMPORT",
            Self::Revert => "REVERT",
            Self::Outside => "OUTSIDE",
        }
    }
}

/// How to go back to before a change. Entries hold it as `changes`.
#[derive(Debug, Clone, PartialEq)]
pub enum Changes {
    /// Before it there was no document: `{"created": true}`.
    Created,
    /// A patch of [`reverse`](super::patch::reverse) turns the document back.
    Patched(Document),
    /// The document that was removed, whole: `{"deleted": {...}}`.
    Deleted(Document),
    /// Its state is unknown: another tool changed the document, or stored it as no patch can restore it; or it was deleted
    /// where there was no room to keep it. `{"unknown": true}`.
    Unknown,
}

impl Changes {
    fn into_document(self) -> Document {
        match self {
            Self::Created => doc! { "created": true },
            Self::Patched(patch) => patch,
            Self::Deleted(document) => doc! { "deleted": document },
            Self::Unknown => doc! { "unknown": true },
        }
    }
}

/// The newest entry of a resource, as far as the next one needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its `number`.
    pub number: i32,
    /// Its `time`.
    pub time: DateTime,
    /// Its `hash`.
    pub hash: [u8; 32],
    /// Its `state`.
    pub state: Option<[u8; STATE_BYTES]>,
}

impl Head {
    /// That of a stored entry; nothing if it has another shape.
    pub fn of(entry: &RawDocument) -> Option<Self> {
        let (mut number, mut time, mut hash, mut state) = (None, None, None, None);
        // In one pass: this is read for each change.
        for member in entry {
            match member.ok()? {
                (name, RawBsonRef::Int32(value)) if name == "number" => number = Some(value),
                (name, RawBsonRef::DateTime(value)) if name == "time" => time = Some(value),
                (name, RawBsonRef::Binary(value)) if name == "hash" => hash = value.bytes.try_into().ok(),
                (name, RawBsonRef::Binary(value)) if name == "state" => state = value.bytes.try_into().ok(),
                _ => {}
            }
        }
        Some(Self { number: number?, time: time?, hash: hash?, state })
    }
}

/// The user who changes something, and the comment on the change.
#[derive(Debug, Clone, Default)]
pub struct Author {
    /// The user, if known.
    pub user_id: Option<i64>,
    /// The user's name at this time.
    pub user_name: Option<String>,
    /// The user's comment on the change.
    pub comment: Option<String>,
    /// The request.
    pub request_id: Option<String>,
}

/// What an entry says.
#[derive(Debug)]
pub struct Draft<'a> {
    /// `objects`, `types` or `categories`.
    pub resource: &'static str,
    /// The id of the changed document.
    pub public_id: i64,
    /// The type of an object: access lists are those of types.
    pub type_id: Option<i64>,
    /// What was done.
    pub action: Action,
    /// Who did it.
    pub author: &'a Author,
    /// The entry of the type whose change this follows from.
    pub cause: Option<Cause>,
    /// The changes that lead back to the state before.
    pub changes: Changes,
    /// The document after the change.
    pub after: After<'a>,
}

/// An entry that another one follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The one with this sequence.
    Stored(i64),
    /// The one at this position among the entries of the same unit.
    Unit(usize),
}

/// What an entry says of the document after a change; nothing if there is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct After<'a> {
    /// Its version.
    pub version: Option<&'a str>,
    /// What identifies its state, see [`state_of`].
    pub state: Option<[u8; STATE_BYTES]>,
}

impl<'a> After<'a> {
    /// That of this document.
    pub fn of(document: Option<&'a RawDocument>) -> Self {
        let version = document.and_then(|document| document.get_str("version").ok());
        Self { version, state: document.map(state_of) }
    }
}

/// The place of an entry in the chain of its resource, as far as the next one needs it.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    number: i32,
    time: DateTime,
    link: Link,
}

/// The entry that another one follows.
#[derive(Debug, Clone, Copy)]
enum Link {
    /// A stored one, with this hash.
    Stored([u8; 32]),
    /// The one at this position among the entries of the same unit.
    Unit(usize),
}

impl Place {
    /// When the entry was made.
    pub fn time(&self) -> DateTime {
        self.time
    }

    /// The same place, for an entry whose clock was ahead: it was made before this time.
    #[must_use]
    pub fn made_before(self, time: DateTime) -> Self {
        Self { time: DateTime::from_millis(time.timestamp_millis().saturating_sub(1)), ..self }
    }
}

impl From<Head> for Place {
    fn from(head: Head) -> Self {
        Self { number: head.number, time: head.time, link: Link::Stored(head.hash) }
    }
}

/// An entry without its sequence, and so without its hash.
#[derive(Debug, Clone)]
pub struct PendingEntry {
    /// The members from `time` to `state`.
    members: RawDocumentBuf,
    number: i32,
    time: DateTime,
    follows: Option<Link>,
    cause: Option<Cause>,
}

/// How many bytes `_id`, `sequence`, `cause` and `hash` add to an entry.
const ADDED_BYTES: usize = 96;

impl PendingEntry {
    /// The place of the entry, at this position of its unit.
    pub fn place(&self, position: usize) -> Place {
        Place { number: self.number, time: self.time, link: Link::Unit(position) }
    }

    /// About how many bytes the entry will have.
    pub fn bytes(&self) -> usize {
        self.members.as_bytes().len() + ADDED_BYTES
    }
}

/// The entries of a unit with consecutive sequences from `first` on.
pub fn with_sequences(pending: &[PendingEntry], first: i64) -> Vec<RawDocumentBuf> {
    let mut hashes: Vec<[u8; 32]> = Vec::with_capacity(pending.len());
    let mut entries = Vec::with_capacity(pending.len());
    for (entry, sequence) in pending.iter().zip(first..) {
        let previous = entry.follows.map(|link| match link {
            Link::Stored(hash) => hash,
            Link::Unit(position) => hashes[position],
        });
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), ObjectId::new());
        document.append(cstr!("sequence"), sequence);
        for (name, value) in entry.members.iter().flatten() {
            document.append(name, value);
        }
        let cause = entry.cause.map(|cause| match cause {
            Cause::Stored(sequence) => sequence,
            Cause::Unit(position) => first.saturating_add(i64::try_from(position).unwrap_or(i64::MAX)),
        });
        add(&mut document, cstr!("cause"), cause);
        let hash = hash_of(&document, previous.as_ref()).expect("it was written just now");
        document.append(cstr!("hash"), generic(&hash));
        hashes.push(hash);
        entries.push(document);
    }
    entries
}

impl Draft<'_> {
    /// The entry that follows `last`. Its time is later than that of `last`, whatever `now` is.
    pub fn pending(self, last: Option<&Place>, now: DateTime) -> PendingEntry {
        let time = last.map_or(now, |last| {
            DateTime::from_millis(now.timestamp_millis().max(last.time.timestamp_millis().saturating_add(1)))
        });
        let number = last.map_or(1, |last| last.number.saturating_add(1));
        let mut members = RawDocumentBuf::new();
        members.append(cstr!("time"), time);
        members.append(cstr!("resource"), self.resource);
        members.append(cstr!("public_id"), self.public_id);
        add(&mut members, cstr!("type_id"), self.type_id);
        members.append(cstr!("number"), number);
        add(&mut members, cstr!("version"), self.after.version);
        members.append(cstr!("action"), self.action.name());
        add(&mut members, cstr!("user_id"), self.author.user_id);
        add(&mut members, cstr!("user_name"), self.author.user_name.as_deref());
        add(&mut members, cstr!("comment"), self.author.comment.as_deref());
        add(&mut members, cstr!("request_id"), self.author.request_id.as_deref());
        let changes = RawDocumentBuf::try_from(&self.changes.into_document());
        members.append(cstr!("changes"), &*changes.expect("it was made of BSON documents"));
        add(&mut members, cstr!("state"), self.after.state.as_ref().map(|state| generic(state)));
        PendingEntry { members, number, time, follows: last.map(|last| last.link), cause: self.cause }
    }
}

fn add(entry: &mut RawDocumentBuf, name: &CStr, value: Option<impl BindRawBsonRef>) {
    if let Some(value) = value {
        entry.append(name, value);
    }
}

fn generic(bytes: &[u8]) -> RawBinaryRef<'_> {
    RawBinaryRef { subtype: BinarySubtype::Generic, bytes }
}

fn bytes<const N: usize>(entry: &RawDocument, name: &str) -> Option<[u8; N]> {
    match entry.get(name).ok()?? {
        RawBsonRef::Binary(binary) => binary.bytes.try_into().ok(),
        _ => None,
    }
}

/// What identifies the state of a document.
pub fn state_of(document: &RawDocument) -> [u8; STATE_BYTES] {
    let hash: [u8; 32] = Sha256::digest(document.as_bytes()).into();
    let mut state = [0; STATE_BYTES];
    state.copy_from_slice(&hash[..STATE_BYTES]);
    state
}

/// The hash that an entry must have after the entry with the hash `previous`; nothing if it is damaged.
pub fn hash_of(entry: &RawDocument, previous: Option<&[u8; 32]>) -> Option<[u8; 32]> {
    let mut hashed = RawDocumentBuf::new();
    for member in entry {
        let (name, value) = member.ok()?;
        if !NOT_HASHED.contains(&name.as_str()) {
            hashed.append(name, value);
        }
    }
    let hash = Sha256::new().chain_update(previous.unwrap_or(&[0; 32])).chain_update(hashed.as_bytes());
    Some(hash.finalize().into())
}

/// The state that an entry names; nothing if it left no document.
pub fn state_in(entry: &RawDocument) -> Option<[u8; STATE_BYTES]> {
    bytes(entry, "state")
}

/// The hash of the entry before this one that pruning has removed.
pub fn previous(entry: &RawDocument) -> Option<[u8; 32]> {
    bytes(entry, "previous")
}
