//! MongoDB's query language as values: filters, sorts, projections and our own updates. Pure.
//!
//! Laws:
//! - Parsing may fail. Running fails only where MongoDB fails on a document too ([`EvalError`]).
//! - There are two phases, as in a compiler: parsing prepares as much as possible for running.
//! - There is one comparison of values, in [`compare`].

mod arrange;
mod bits;
mod budget;
pub mod compare;
mod computed;
mod demand;
mod entry;
mod error;
pub mod expr;
mod fields;
mod filter;
mod matcher;
pub mod number;
mod parse_context;
mod path;
pub mod pipeline;
mod projection;
pub mod raw;
mod regex;
pub mod schema;
mod seek;
mod sort;
mod table;
mod tree;
mod types;
mod update;

/// The version of MongoDB whose answers filters, expressions and pipelines give.
pub const FOLLOWS: &str = "6.0.27";

pub use self::bits::BitTest;
pub use self::budget::{Budget, Effort};
pub use self::computed::Computed;
pub use self::demand::Demand;
pub use self::entry::{BY_ADDRESS, Entry, OPERATOR as OWN_OPERATOR, STORED, for_server, value_of};
pub use self::error::{EvalError, QueryError, QueryErrorKind};
pub use self::expr::Expression;
pub use self::fields::{
    ARROW, BOUNDS, FieldNames, Fields, Hop, Join, Lookup, RENDERED, keys_beside, order_stages, plant,
};
pub use self::filter::{Filter, Guarded, Limits};
pub use self::path::{Leaf, Part, Path};
pub use self::pipeline::{Column, ColumnSource, Pipeline};
pub use self::projection::Projection;
pub use self::regex::Regex;
pub use self::schema::Schema;
pub use self::sort::{Sort, SortKey, SortValue};
pub use self::table::Table;
pub use self::tree::{InSet, Node, Operand, Test};
pub use self::types::TypeSet;
pub use self::update::Update;
