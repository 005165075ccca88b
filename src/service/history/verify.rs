//! Checks the chains of all entries: whether one was changed, removed or exchanged.

use std::time::Duration;

use bson::raw::RawDocument;
use futures::TryStreamExt;
use sha2::{Digest, Sha256};

use super::heads::of_this_service;
use super::kept::kept;
use crate::domain::document::{integer, text};
use crate::history::entry::{Head, hash_of, previous};
use crate::query::Sort;
use crate::store::collections::LOGS;
use crate::store::{FindQuery, Store, StoreError};

/// What a check of all entries found.
#[derive(Debug, Default)]
pub struct Verified {
    /// How many entries were read.
    pub entries: u64,
    /// How many resources have some.
    pub resources: u64,
    /// The largest sequence that counts.
    pub last: i64,
    /// The largest sequence of all.
    pub newest: i64,
    /// The entries at which a chain is broken.
    pub broken: Vec<Broken>,
    /// How many more there are.
    pub left_out: u64,
    /// Entries up to this sequence may have been removed as too old; 0 when none was.
    pub pruned: i64,
    /// The SHA-256 over the newest entries of all resources, in the order of their names and ids.
    pub root: [u8; 32],
}

/// An entry that does not follow from the one before it.
#[derive(Debug)]
pub struct Broken {
    /// `objects`, `types` or `categories`.
    pub resource: String,
    /// The id of the resource.
    pub public_id: i64,
    /// The sequence of the entry.
    pub sequence: i64,
}

/// The time limit of a check, which delays nobody else.
const MAX_TIME: Duration = Duration::from_hours(24);

/// The maximum number of broken entries that are listed.
const MOST_LISTED: usize = 100;

/// The chain of one resource, as far as it was read.
#[derive(Default)]
struct Chain {
    of: Option<(String, i64)>,
    last: Option<Head>,
    /// The hash of its newest entry that counts for the root.
    counted: Option<[u8; 32]>,
}

/// Reads all entries and checks their chains. The root is over the entries up to the sequence `upto`.
///
/// # Errors
/// Errors of the store.
pub async fn verify(store: &dyn Store, upto: Option<i64>) -> Result<Verified, StoreError> {
    let order = Sort::by("resource", false).then("public_id", false).then("number", false);
    let query = FindQuery::new(of_this_service(), MAX_TIME).sorted(order);
    let mut chunks = store.chunks(LOGS, &query).await?.documents;
    let pruned = kept(store, MAX_TIME).await?.map_or(0, |(_, sequence)| sequence);
    let (mut chain, mut root) = (Chain::default(), Sha256::new());
    let mut verified = Verified { pruned, ..Verified::default() };
    while let Some(chunk) = chunks.try_next().await? {
        for entry in chunk.iter() {
            verified.entry(entry, &mut chain, &mut root, upto.unwrap_or(i64::MAX));
        }
    }
    chain.end(&mut root);
    verified.root = root.finalize().into();
    Ok(verified)
}

impl Verified {
    fn entry(&mut self, entry: &RawDocument, chain: &mut Chain, root: &mut Sha256, upto: i64) {
        let of = (text(entry, "resource").unwrap_or_default(), integer(entry, "public_id").unwrap_or_default());
        let sequence = integer(entry, "sequence").unwrap_or_default();
        if chain.of.as_ref().is_none_or(|(kind, id)| (kind.as_str(), *id) != of) {
            std::mem::take(chain).end(root);
            chain.of = Some((of.0.to_owned(), of.1));
            self.resources += 1;
        }
        self.entries += 1;
        self.newest = self.newest.max(sequence);
        let head = Head::of(entry);
        let before = chain.last.map(|last| (last.number, last.hash));
        let follows = head.is_some_and(|head| {
            let known = match before {
                Some((number, hash)) => (head.number == number + 1).then_some(Some(hash)),
                None if head.number == 1 => Some(None),
                // Pruning removes the oldest entries, and notes the hash of the last one of them. It leaves no gap after
                // others.
                None => previous(entry).filter(|_| self.pruned > 0).map(Some),
            };
            known.is_some_and(|known| hash_of(entry, known.as_ref()) == Some(head.hash))
        });
        if !follows && self.broken.len() < MOST_LISTED {
            self.broken.push(Broken { resource: of.0.to_owned(), public_id: of.1, sequence });
        } else if !follows {
            self.left_out += 1;
        }
        chain.last = head;
        if sequence <= upto {
            chain.counted = head.map(|head| head.hash);
            self.last = self.last.max(sequence);
        }
    }
}

impl Chain {
    fn end(self, root: &mut Sha256) {
        if let (Some((kind, id)), Some(hash)) = (self.of, self.counted) {
            root.update(kind.as_bytes());
            root.update(id.to_be_bytes());
            root.update(hash);
        }
    }
}
