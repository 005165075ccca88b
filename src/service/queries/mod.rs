//! What lists have in common: their parameters, the kinds of resources that they list, and hints about filters.

pub mod advice;
pub mod kinds;
pub mod list_query;
