//! Idempotency keys: a repeated request gets the outcome of the first one, and nothing is done again.
//!
//! The client names a request by a key. A mark in `service.imports` has the outcome, stored in the same unit: either
//! both are there or neither. `{_id: "<key>/<number>", user_id, of: "<key>", request: "<hash>", done_at, ...}`. The key
//! is a hash of caller, kind of request and the client's key. The request is a hash of its whole content.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bson::{DateTime, Document, doc};
use sha2::{Digest, Sha256};

use super::error::ServiceError;
use super::services::Services;
use crate::domain::document::{raw, text};
use crate::query::{Filter, Sort};
use crate::store::collections::IMPORTS;
use crate::store::{Change, Documents, FindQuery, StoreError, Unit};

tokio::task_local! {
    /// The request whose work is under way in this task.
    static UNDER_WAY: Once;
}

/// The member of a mark with the outcome of [`Once::carry_out`].
const OUTCOME: &str = "outcome";

/// The change that notes the outcome of the request under way, if it has a key. It comes first in its unit: of two equal
/// requests the slower one must fail because of it.
pub(super) fn noted(
    now: DateTime,
    outcome: impl FnOnce() -> Result<Document, ServiceError>,
) -> Result<Option<Change>, ServiceError> {
    let once = UNDER_WAY.try_with(Clone::clone).ok();
    once.map(|once: Once| Ok(once.mark(0, now, doc! { OUTCOME: outcome()? }))).transpose()
}

/// How long a key is remembered.
pub const KEPT: Duration = Duration::from_hours(24);

/// How many marks of a user are kept when the next one is made. The oldest go first.
pub const MOST: u64 = 10_000;

/// A request with an idempotency key.
#[derive(Debug, Clone)]
pub struct Once {
    user_id: i64,
    of: String,
    request: String,
}

impl Once {
    /// The request of a caller under this key. `kind` distinguishes kinds of requests; `said` is the content.
    pub fn new(caller: i64, kind: &str, key: &str, said: Hash) -> Self {
        let of = Hash::default().with(&caller.to_be_bytes()).with(kind.as_bytes()).with(key.as_bytes());
        Self { user_id: caller, of: of.text(), request: said.text() }
    }

    /// The marks of the key, in no particular order. Removes marks that are too old or too many.
    ///
    /// # Errors
    /// [`ServiceError::KeyReused`] if it was another request; errors of the store.
    pub(super) async fn marks(&self, services: &Services) -> Result<Documents, ServiceError> {
        let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
        let oldest = DateTime::from_millis(services.now().timestamp_millis().saturating_sub(kept));
        let mut old = Unit::of(removal(&doc! {"done_at": {"$lt": oldest}}));
        if let Some(oldest) = self.oldest_of_most(services).await? {
            old = old.and(removal(&doc! {"user_id": self.user_id, "done_at": {"$lt": oldest}}));
        }
        services.store.commit(old).await?;
        self.known_marks(services).await
    }

    /// As [`Once::marks`], but removes nothing. Of marks that are too old some may be among them.
    ///
    /// # Errors
    /// As [`Once::marks`].
    pub(super) async fn known_marks(&self, services: &Services) -> Result<Documents, ServiceError> {
        let query = FindQuery::new(Filter::equals("of", self.of.as_str()), services.max_time);
        let marks = services.store.find(IMPORTS, &query).await?;
        if marks.iter().any(|mark| text(mark, "request") != Some(&self.request)) {
            return Err(ServiceError::KeyReused);
        }
        Ok(marks)
    }

    /// When the oldest of the user's last [`MOST`] marks was made; `None` if there are fewer.
    async fn oldest_of_most(&self, services: &Services) -> Result<Option<DateTime>, ServiceError> {
        let query =
            FindQuery { skip: MOST - 1, ..FindQuery::new(Filter::equals("user_id", self.user_id), services.max_time) };
        let query = query.showing(&doc! {"done_at": 1}).sorted(Sort::by("done_at", true));
        Ok(services.store.first(IMPORTS, query).await?.and_then(|mark| mark.get_datetime("done_at").ok()))
    }

    /// Creates or changes something once: the unit that `work` commits notes its outcome, see [`noted`], and a repeated
    /// request gets the noted outcome without any work. Without a key the work is done as it is.
    ///
    /// The request travels with its task, as its memory and turns do, so that use cases need not hand it on.
    ///
    /// # Errors
    /// As `work`; [`ServiceError::KeyReused`] if it was another request.
    pub async fn carry_out<T>(
        once: Option<Self>,
        services: &Services,
        work: impl Future<Output = Result<T, ServiceError>>,
        again: impl AsyncFnOnce(Document) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let Some(once) = once else { return work.await };
        if let Some(outcome) = once.outcome(services).await? {
            return again(outcome).await;
        }
        match UNDER_WAY.scope(once.clone(), work).await {
            // The same request was faster on another instance.
            Err(ServiceError::Store(error)) if Self::was_faster(&error) => match once.outcome(services).await? {
                Some(outcome) => again(outcome).await,
                None => Err(ServiceError::Contended("the idempotency key".to_owned())),
            },
            outcome => outcome,
        }
    }

    async fn outcome(&self, services: &Services) -> Result<Option<Document>, ServiceError> {
        let marks = self.marks(services).await?;
        let mark = marks
            .first()
            .map(Document::try_from)
            .transpose()
            .map_err(|error| StoreError::Corrupt { what: format!("a document of {IMPORTS}: {error}") })?;
        Ok(mark.and_then(|mark| mark.get_document(OUTCOME).ok().cloned()))
    }

    /// Adds the mark of a unit; `number` is the number of earlier marks. If another request under the same key was
    /// faster, the unit is refused, see [`Once::was_faster`].
    pub(super) fn mark(&self, number: usize, now: DateTime, done: Document) -> Change {
        let mut mark = doc! {
            "_id": format!("{}/{number}", self.of),
            "user_id": self.user_id,
            "of": self.of.as_str(),
            "request": self.request.as_str(),
            "done_at": now,
        };
        mark.extend(done);
        Change::Insert { collection: IMPORTS, document: raw(&mark) }
    }

    /// Whether a unit was refused because of its mark.
    pub(super) fn was_faster(error: &StoreError) -> bool {
        matches!(error, StoreError::Duplicate { collection, .. } if collection == IMPORTS)
    }
}

/// The change that removes these marks.
fn removal(of: &Document) -> Change {
    Change::DeleteMany { collection: IMPORTS, filter: Filter::ours(of) }
}

/// A hash of several parts, each with its length in front.
#[derive(Debug, Clone, Default)]
pub struct Hash(Sha256);

impl Hash {
    /// The same with a further piece.
    #[must_use]
    pub fn with(mut self, piece: &[u8]) -> Self {
        self.add(piece);
        self
    }

    /// Adds a piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update((piece.len() as u64).to_be_bytes());
        self.0.update(piece);
    }

    /// The hash in letters and digits.
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_apart() {
        let hash =
            |pieces: &[&str]| pieces.iter().fold(Hash::default(), |hash, piece| hash.with(piece.as_bytes())).text();
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_ne!(hash(&["ab"]), hash(&["ab", ""]));
        assert_eq!(hash(&["ab", "c"]), hash(&["ab", "c"]));
    }
}
