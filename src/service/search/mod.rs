//! Search: objects by the words of their values, by the summaries of what they refer to, and by id. docs/api.md, Search.
//!
//! `service.search` has a document for each object: `{_id: <public_id as a timestamp>, type_id, terms}`. The terms are those of
//! [`terms`](crate::domain::searchable::terms). The index `terms` has their entries by type and id, so the objects of a term
//! come in the order of an answer.
//!
//! The store that keeps values unique ([`claims::keeper`](super::claims::keeper)) adds the changes of these documents to the
//! units that change objects. It does so by the types of the version that the unit depends on. So no way of writing can forget
//! it, and what a crash leaves fits.
//!
//! `service.search.work` says what is to be made: a document for each type whose definition changed so that its objects have
//! other terms, and one named `all` for a store that had no such documents. The unit that changes the type stores it. One
//! instance does the work, in steps; each step is a unit that also moves the place where the next one begins.
//!
//! What an object refers to is not in its terms. The question looks for objects whose summaries have the word, and then for
//! objects that refer to them.
//!
//! `service.indexed` is kept and made in the same way: the values of objects in the indexes of their types. `indexed` answers lists
//! by it.
//!
//! A change passes `keeping`, which gives the changes of documents. `state` says what is to be made, and `building` makes it.
//!
//! A question is taken apart in `question`. `targets` finds objects whose summaries have its words, and `finding` those of a
//! page, in their order. Both read through `reading`, which knows the caller. `hits` shows what matched.

pub mod building;
pub mod documents;
mod finding;
mod hits;
pub(super) mod indexed;
pub(super) mod keeping;
mod question;
mod reading;
pub mod state;
mod targets;

pub use self::finding::{Page, Place, SearchQuery, search};
pub use self::hits::{Hit, Piece};
pub use self::question::{MOST_WORDS, Match, has_words};
