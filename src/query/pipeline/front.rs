//! The first stages of a pipeline that are a plain query.

use super::stage::Stage;
use super::{Filter, Sort};

/// `$match`, `$sort`, `$skip` and `$limit` at the front, in this order, as one query.
#[derive(Debug, Clone, Default)]
pub struct Front {
    /// Which documents.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// How many to pass over.
    pub skip: u64,
    /// The maximum number of documents; 0: all.
    pub limit: u64,
    /// How many stages of the pipeline this is.
    pub stages: usize,
}

impl Front {
    pub(super) fn of(stages: &[Stage]) -> Self {
        let mut front = Self::default();
        let mut rest = stages.iter().peekable();
        let mut filters = Vec::new();
        while let Some(Stage::Match(filter)) = rest.peek() {
            filters.push(filter.clone());
            rest.next();
        }
        front.stages = filters.len();
        front.filter = Filter::all_of(filters);
        if let Some(Stage::Sort(sort)) = rest.peek() {
            front.sort = sort.clone();
            front.stages += 1;
            rest.next();
        }
        while let Some(Stage::Skip(count)) = rest.peek() {
            front.skip = front.skip.saturating_add(*count);
            front.stages += 1;
            rest.next();
        }
        while let Some(Stage::Limit(count)) = rest.peek() {
            front.limit = if front.limit == 0 { *count } else { front.limit.min(*count) };
            front.stages += 1;
            rest.next();
        }
        front
    }

    /// The same without an order, if it only selects documents.
    pub fn is_filter(&self) -> bool {
        self.sort.is_empty() && self.skip == 0 && self.limit == 0
    }
}
