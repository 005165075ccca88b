//! `check` without a flag: the directory, the store, and its contents, one after the other until one fails.

use std::path::Path;

use bson::DateTime;
use rustix::fs::{Access, access, statvfs};

use crate::app::{self, Opened, StartError};
use crate::clock::Clock;
use crate::query::Filter;
use crate::service::ErrorCode;
use crate::service::accounts::{scram, sign_on};
use crate::service::history::kept;
use crate::service::search::state;
use crate::service::upkeep::migrations;
use crate::settings::{Settings, SettingsError, StoreUri, in_full};
use crate::store::embedded::{OpenError, has_store};
use crate::store::inspection::{Finding, room};
use crate::store::{Store, StoreError, collections};

/// All findings about the store that `store.uri` names.
pub(super) async fn look(settings: &Settings, clock: &dyn Clock) -> Result<Vec<Finding>, SettingsError> {
    let mut findings = Vec::new();
    if let StoreUri::Embedded(place) = settings.store.location()? {
        let place = in_full(&place);
        let writable = writable(&place);
        let is_usable = writable.is_ok();
        findings.push(writable.unwrap_or_else(|finding| finding));
        findings.extend(room_at(&place));
        if !is_usable {
            return Ok(findings);
        }
        match has_store(&place) {
            Ok(true) => {}
            Ok(false) => {
                findings.push(Finding::note(
                    "store",
                    format!("there is none yet in {}; the first start makes it", place.display()),
                ));
                return Ok(findings);
            }
            Err(error) => {
                findings.push(Finding::wrong("store", error.to_string()));
                return Ok(findings);
            }
        }
    }
    match app::open(&settings.store).await {
        Ok(Opened { store, file }) => {
            findings.push(Finding::good("store", format!("{} answers", app::full_name(&settings.store))));
            if let Err(error) = look_inside(&*store, settings, clock, &mut findings).await {
                findings.push(Finding::wrong("store", error.to_string()));
            }
            if let Some(file) = file {
                // Closing reads and writes pages too.
                let closed = tokio::task::spawn_blocking(move || {
                    file.close();
                    file.figures().is_damaged
                });
                match closed.await {
                    Ok(false) => {}
                    Ok(true) => findings.push(Finding::wrong("store", ErrorCode::StoreDamaged.meaning())),
                    Err(error) => findings.push(Finding::wrong("store", error.to_string())),
                }
            }
        }
        Err(StartError::Embedded(OpenError::InUse(_))) => findings.push(Finding::note(
            "store",
            "another process has it open; if that is the service, ask it with check --ready, or stop it and check again",
        )),
        Err(error) => findings.push(Finding::wrong("store", error.to_string())),
    }
    Ok(findings)
}

async fn look_inside(
    store: &dyn Store,
    settings: &Settings,
    clock: &dyn Clock,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let max_time = settings.query.max_time();
    let now = DateTime::from_chrono(clock.now());
    findings.extend(store.inspect(collections::ALL, now).await?);
    findings.extend(kept::behind_entries(store, now, max_time).await?.map(|text| Finding::wrong("history", text)));
    findings.push(migrated(&migrations::state(store, migrations::ALL, max_time).await?));
    let (is_complete, text) = state::in_words(store, max_time).await?;
    findings.push(if is_complete { Finding::good("search", text) } else { Finding::note("search", text) });
    findings.push(if store.has_any(collections::CREDENTIALS, Filter::all(), max_time).await? {
        Finding::good("users", "somebody can sign in")
    } else {
        first_password(settings)
    });
    for text in scram::refused(store, now, max_time).await? {
        findings.push(Finding::note("wire", text));
    }
    if let Ok(Some(rules)) = settings.auth.oidc.rules()
        // The first start makes groups.
        && store.has_any(collections::GROUPS, Filter::all(), max_time).await?
    {
        for name in sign_on::missing_groups(store, &rules, max_time).await? {
            findings.push(Finding::note("auth.oidc", sign_on::missing_group(&name)));
        }
    }
    Ok(())
}

fn migrated(state: &migrations::MigrationState) -> Finding {
    match state {
        migrations::MigrationState::Done => Finding::good("migrations", "none is pending"),
        migrations::MigrationState::Pending(numbers) => Finding::note(
            "migrations",
            format!("{numbers:?} are pending; the next start makes them: back up before it"),
        ),
        migrations::MigrationState::Incomplete(from) => Finding::wrong(
            "migrations",
            format!("inventory-service migrate was filling it from {from} and did not end; repeat that command"),
        ),
        migrations::MigrationState::Newer(number) => Finding::wrong(
            "migrations",
            format!("a newer version made migration {number}; start that one, or restore a backup from before it"),
        ),
    }
}

/// The first start creates an administrator, and must be able to write the password to a file.
fn first_password(settings: &Settings) -> Finding {
    let made = "nobody can sign in yet; the first start makes the user admin";
    if settings.auth.initial_admin_password.is_some() {
        return Finding::note("users", format!("{made} with auth.initial_admin_password"));
    }
    let Ok(place) = app::password_directory(settings) else { return Finding::note("users", made) };
    match writable(&place) {
        Ok(_) => Finding::note("users", format!("{made} and writes the password into {}", place.display())),
        Err(finding) => Finding::wrong(
            "users",
            format!(
                "{made}, but {}; or set auth.initial_admin_password, or auth.initial_admin_password_directory",
                finding.text
            ),
        ),
    }
}

/// A finding: the directory is writable, or why not. Removes what it created.
pub(super) fn writable(directory: &Path) -> Result<Finding, Finding> {
    let place = nearest(directory);
    let subject = "directory";
    if !place.is_dir() {
        return Err(Finding::wrong(subject, format!("{} is not a directory", place.display())));
    }
    match access(place, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(Finding::good(subject, format!("{} can be written", place.display()))),
        Err(error) => Err(Finding::wrong(
            subject,
            format!(
                "{} cannot be written: {error}; give the user of this service the right to write there",
                place.display()
            ),
        )),
    }
}

/// The room on the disk of a directory; nothing where the system does not say.
pub(super) fn room_at(directory: &Path) -> Option<Finding> {
    let found = statvfs(nearest(directory)).ok().filter(|found| found.f_blocks > 0)?;
    let block = found.f_frsize;
    Some(room(
        &directory.display().to_string(),
        found.f_bavail.saturating_mul(block),
        found.f_blocks.saturating_mul(block),
    ))
}

/// The directory, or the one in which it would be made.
fn nearest(directory: &Path) -> &Path {
    let exists = |path: &&Path| path.as_os_str().is_empty() || path.exists();
    match directory.ancestors().find(exists) {
        Some(path) if !path.as_os_str().is_empty() => path,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_that_is_to_be_made_is_as_writable_as_the_one_above_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let inside = directory.path().join("a/b");
        assert_eq!(nearest(&inside), directory.path());
        assert!(writable(&inside).is_ok());
        assert!(!inside.exists());
        assert_eq!(nearest(Path::new("no-such-directory")), Path::new("."));
    }

    #[test]
    fn a_file_is_no_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("file"), "").expect("a file");
        let finding = writable(&directory.path().join("file/data")).expect_err("a finding");
        assert!(finding.text.ends_with("file is not a directory"), "{finding}");
    }
}
