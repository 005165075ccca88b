//! Unique values: no two objects of a type have the same value of a field that its type declares `unique`.
//!
//! A value that an object has is a *claim*: a document `{_id: "<epoch>:<hash of the value>", object: <public_id>}` in
//! `service.claims`. Claims are made, moved and removed in the unit of the object's change, so the unique `_id` decides which
//! of two writers is refused.
//!
//! `service.unique` has one document with all *rules*: which fields of which types are unique, each with its *epoch*, which is
//! new each time the rule is made. Its `public_id` is a version. Each unit that writes objects has the condition that the
//! version is still the one by which its claims were made. So no writer misses a rule that another one has just made.
//!
//! | file | what it does |
//! |---|---|
//! | `rules` | reads and writes the rules, and knows the claims of an object |
//! | `changes` | gives the changes of claims for changes of objects, and the objects that clash |
//! | `building` | makes the claims of all stored objects when a field becomes unique |
//! | `keeper` | a store that adds all this to the units of others |
//! | `told` | says what is wrong, to callers who may not see everything |
//!
//! A rule is *building* while claims of stored objects are made. Writers keep it already. It ends in the unit that changes the
//! type. After a crash in between, the next attempt continues, or the next start removes it. Claims of epochs without a rule
//! have no effect, and are swept up.

pub mod building;
pub mod changes;
pub mod keeper;
pub mod rules;
pub(super) mod told;
