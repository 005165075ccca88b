//! The parameters of a list.

use crate::query::{Filter, Join, Lookup, Pipeline, Projection, Sort};
use crate::service::services::Services;
use crate::store::FindQuery;

/// A pipeline of more than conditions.
#[derive(Debug, Clone)]
pub struct Stages {
    /// What is done with documents.
    pub pipeline: Pipeline,
    /// Whether it leaves them as they are.
    pub selects: bool,
}

/// What a list takes from objects that its objects refer to.
#[derive(Debug, Clone, Default)]
pub struct Through {
    /// What was looked up for its conditions.
    pub lookups: Vec<Lookup>,
    /// What is joined to order it.
    pub sort: Vec<Join>,
    /// What is joined to show it.
    pub projection: Vec<Join>,
}

/// Which page of which documents.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// Which documents.
    pub filter: Filter,
    /// What is done with them before they are ordered and counted.
    pub stages: Option<Stages>,
    /// In which order; ends with a unique key, so that pages are stable.
    pub sort: Sort,
    /// The page, from 1.
    pub page: u64,
    /// Documents on a page, at least 1.
    pub limit: u64,
    /// Which of their fields.
    pub projection: Option<Projection>,
    /// Whether to explain the query instead of running it for its page.
    pub explain: bool,
    /// Whether the page says where the next one begins, see [`Continued`](crate::service::resource::Continued).
    pub keyed: bool,
    /// What it takes from objects that are referred to.
    pub through: Through,
}

impl ListQuery {
    /// The first documents of a filter in an order, whole and with their number.
    pub fn first(filter: Filter, sort: Sort, limit: u64) -> Self {
        Self {
            filter,
            stages: None,
            sort,
            page: 1,
            limit,
            projection: None,
            explain: false,
            // So the page is in memory as a whole.
            keyed: true,
            through: Through::default(),
        }
    }

    /// The query to the store.
    pub fn to_find(&self, services: &Services) -> FindQuery {
        FindQuery {
            filter: self.filter.clone(),
            projection: self.projection.clone(),
            sort: self.sort.clone(),
            skip: (self.page - 1).saturating_mul(self.limit),
            limit: self.limit,
            max_time: services.max_time,
            max_bytes: usize::MAX,
            is_counted: true,
            any_order: false,
        }
    }
}
