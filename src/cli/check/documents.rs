//! `check --deep`, the part for both stores: whether the service can show each document correctly.

use crate::app;
use crate::plural::counted;
use crate::service::upkeep::stored;
use crate::settings::StoreSettings;

use super::super::output::say;
use super::Outcome;

/// Prints the wrong documents of the store that the settings name; succeeds if there are none.
pub(super) async fn run(settings: &StoreSettings) -> Outcome {
    let store = app::open_aside(settings).await?;
    let look = stored::look(&*store).await?;
    for line in &look.listed {
        say!("{line}");
    }
    if look.unlisted > 0 {
        say!("and {} more", counted(look.unlisted, "document"));
    }
    for note in &look.notes {
        say!("note: {note}");
    }
    let read = counted(look.documents, "document");
    if look.wrong == 0 {
        say!("looked at {read}; the service can show each of them");
        return Ok(());
    }
    say!("looked at {read}");
    let wrong = counted(look.wrong, "document");
    Err(format!("{wrong} cannot be shown as meant, see above; replace or delete what is wrong there").into())
}
