//! Keeps the ids that an import gives to lines without one, across an interruption.
//!
//! An import of several units can stop between two of them. Repeating it finds stored objects by id or key. Lines with
//! neither would become further objects. So their ids are noted before the first unit, under a hash of the file. The
//! same file gets the same ids as long as the note exists.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bson::{DateTime, doc};
use sha2::{Digest, Sha256};

use super::rows::ImportRows;
use crate::domain::document::{integer, raw};
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::store::{Change, FindQuery, StoreError, Unit, collections};

/// The note of one file.
pub(super) struct ImportNote {
    name: String,
    is_noted: bool,
}

impl ImportNote {
    /// The journal of a file for a type.
    pub(super) fn of(type_id: i64, file: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(type_id.to_be_bytes());
        hash.update(file);
        let name = URL_SAFE_NO_PAD.encode(hash.finalize());
        Self { name, is_noted: false }
    }

    /// Gives the lines the ids that an earlier attempt gave them, if there was one.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) async fn resume(&mut self, services: &Services, rows: &mut ImportRows) -> Result<(), ServiceError> {
        let query = FindQuery::new(Filter::equals("_id", self.name.as_str()), services.max_time);
        let noted = services.store.first(collections::IMPORTS, query).await?;
        if let Some(first) = noted.and_then(|note| integer(&note, "first_id")) {
            number(rows, first);
            self.is_noted = true;
        }
        Ok(())
    }

    /// Gives the lines ids and notes them.
    ///
    /// # Errors
    /// Errors of the store; [`StoreError::Duplicate`] when the same file is imported concurrently.
    pub(super) async fn begin(
        &mut self,
        services: &Services,
        rows: &mut ImportRows,
        now: DateTime,
    ) -> Result<(), ServiceError> {
        let count = rows.list.iter().filter(|row| row.public_id.is_none()).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // The note keeps them, and compares nothing. A lost primary takes back steps for single ids alone.
        let first = services.store.reserve_ids(Objects::COLLECTION, count.max(2)).await?;
        let note = raw(&doc! {"_id": self.name.as_str(), "first_id": first, "begun": now});
        let change = Change::Insert { collection: collections::IMPORTS, document: note };
        match services.store.commit(Unit::of(change)).await {
            Ok(_) => number(rows, first),
            Err(StoreError::Duplicate { .. }) => return self.resume(services, rows).await,
            Err(error) => return Err(error.into()),
        }
        self.is_noted = true;
        Ok(())
    }

    /// Forgets the ids: all is stored.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) async fn end(&self, services: &Services) -> Result<(), ServiceError> {
        if self.is_noted {
            let filter = Filter::equals("_id", self.name.as_str());
            services.store.commit(Unit::of(Change::DeleteMany { collection: collections::IMPORTS, filter })).await?;
        }
        Ok(())
    }

    /// Whether ids were given already.
    pub(super) fn is_noted(&self) -> bool {
        self.is_noted
    }
}

fn number(rows: &mut ImportRows, first: i64) {
    for (row, id) in rows.list.iter_mut().filter(|row| row.public_id.is_none()).zip(first..) {
        row.public_id = Some(id);
    }
}
