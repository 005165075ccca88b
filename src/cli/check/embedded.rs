//! `check --deep` and `check --repair`: an embedded store read from end to end.

use std::path::Path;

use crate::settings::StoreSettings;
use crate::store::embedded::EmbeddedStore;

use super::Outcome;

/// Says what is wrong with the store in the directory; ends well when nothing is.
pub(super) async fn run(directory: &Path, settings: &StoreSettings, repair: bool) -> Outcome {
    if repair {
        return Err("--repair is not there yet; restore a backup of the store's file".into());
    }
    let (path, options) = (directory.to_owned(), settings.embedded_options());
    let store = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path, &options)).await??;
    let problems = store.check().await?;
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("the store in {} is damaged", directory.display()).into()) }
}
