//! A believable data centre for trying the service out: the same one for the same number of objects.
//!
//! Every object is made from its kind and its number alone (see [`things`]), and its id is known beforehand (see
//! [`plan`]). So nothing is kept in memory, objects can be made in any order, and many can be on their way at once.

mod bodies;
pub mod catalogue;
mod load;
pub mod model;
pub mod plan;
pub mod things;
pub mod values;

pub use self::load::{DemoError, Loaded, load};
