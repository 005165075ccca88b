//! The history: entries for every change, the past as it was, and what stays hidden in it.

mod back;
mod changes;
mod entries;
mod hidden;
mod instances;
mod kept;
mod killed;
mod migrating;
mod others;
mod past;
mod planned;
pub(crate) mod reader;
mod undo;

use crate::support::app::TestApp;

/// The sequence of the last entry.
pub(crate) async fn now(app: &TestApp) -> i64 {
    let list = app.get("/logs/?sort=-sequence&limit=1").await;
    list.results("/sequence")[0].as_i64().expect("a number")
}
