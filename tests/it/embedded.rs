//! The embedded store: the contract, and what only it promises.

use std::sync::Arc;

use inventory_service::store::embedded::{EmbeddedStore, Options};

use crate::contract::Fixture;

async fn fresh() -> Option<Fixture> {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new directory can be opened");
    Some(Fixture { store: Arc::new(store), keep: Box::new(directory) })
}

mod contract {
    store_contract!(crate::embedded::fresh);
}
