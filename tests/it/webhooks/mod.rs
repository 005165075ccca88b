//! Webhooks: docs/api.md, Webhooks.

#[macro_use]
mod receiver;

mod addresses;
mod delivering;
mod eyes;
mod instances;
mod resource;
mod trouble;
