//! Webhooks: docs/api.md, Webhooks.

#[macro_use]
pub(crate) mod receiver;

mod addresses;
mod delivering;
mod eyes;
mod instances;
mod resource;
mod trouble;
