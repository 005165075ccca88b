//! What a list is asked for.

use super::{Filter, Projection, Sort};

/// Which page of which documents.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// Which documents.
    pub filter: Filter,
    /// In which order; ends with a unique key, so that pages are stable.
    pub sort: Sort,
    /// The page, from 1.
    pub page: u64,
    /// Documents on a page, at least 1.
    pub limit: u64,
    /// Which of their fields.
    pub projection: Option<Projection>,
    /// Whether to tell how the page is found instead of giving it.
    pub explain: bool,
}
