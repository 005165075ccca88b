//! Reads documents of search, as far as the caller may see their objects.

use std::sync::Arc;

use bson::Document;

use crate::domain::object_type::Permission;
use crate::query::{Filter, Limits, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::services::Services;
use crate::service::types::catalog::Types;
use crate::store::collections::SEARCH;
use crate::store::{Documents, FindQuery, StoreError};

/// The documents of one query have at most this many bytes, or it is one document.
pub(super) const CHUNK_BYTES: usize = 1024 * 1024;

/// What is read for whom.
pub(super) struct Reading<'a> {
    pub(super) services: &'a Services,
    pub(super) caller: &'a Caller,
    pub(super) types: Arc<Types>,
    /// The ids of the types that the caller may not see, in order.
    pub(super) hidden: Vec<i64>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(services: &'a Services, caller: &'a Caller, types: Arc<Types>) -> Self {
        let all = types.iter().map(|entry| &entry.object_type);
        let hidden =
            all.filter(|it| !it.acl.allows(caller.group_id, Permission::Read)).map(|it| it.public_id).collect();
        Self { services, caller, types, hidden }
    }

    /// The first documents that the filter finds, `most` of them at most and as far as they may be held; and whether some were
    /// left out for that.
    pub(super) async fn find(
        &self,
        filter: &Document,
        sort: Option<Sort>,
        most: usize,
    ) -> Result<(Documents, bool), ServiceError> {
        let filter = self.types.scope(self.caller, Filter::parse(filter, &Limits::NONE)?);
        let query = FindQuery::new(filter, self.services.max_time).within(CHUNK_BYTES).limited(most as u64);
        let mut query = match sort {
            Some(sort) => query.sorted(sort),
            None => query.in_any_order(),
        };
        loop {
            match self.services.store.find(SEARCH, &query).await {
                Err(StoreError::TooLarge) if query.limit > 1 => query.limit /= 2,
                Err(StoreError::TooLarge) => query.max_bytes = usize::MAX,
                found => {
                    let found = found?;
                    let is_cut = query.limit < most as u64 && found.len() as u64 == query.limit;
                    return Ok((found, is_cut));
                }
            }
        }
    }
}
