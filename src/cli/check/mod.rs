//! `inventory-service check`: whether the service can run as it is set up, in plain words, for people and for container engines.

mod documents;
mod embedded;
mod memory;
mod ready;
mod server;
mod store;
mod webhooks;

use clap::Args;

use super::output::say;
use super::{Outcome, serve};
use crate::clock::SystemClock;
use crate::plural::counted;
use crate::query::FOLLOWS;
use crate::settings::{Settings, StoreUri};
use crate::store::inspection::{Finding, Verdict};
use crate::{app, oidc};

/// What is to be checked; without a flag: the settings and the store.
#[derive(Debug, Args)]
pub struct CheckCommand {
    /// Ask the service on this machine whether it is ready; the exit code is 0 if it is. For health checks of
    /// containers.
    #[arg(long, conflicts_with_all = ["deep", "repair"])]
    ready: bool,
    /// Read every document, and say which ones the service cannot show. On an embedded store also compare checksums and
    /// indexes; the service must not run on it.
    #[arg(long)]
    deep: bool,
    /// Repair what `--deep` finds in the file of an embedded store, as far as possible.
    #[arg(long)]
    repair: bool,
}

impl CheckCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        if self.ready {
            let answer = tokio::task::spawn_blocking(move || ready::ask(&settings.server)).await?;
            say!("{}", answer?);
            return Ok(());
        }
        if self.deep || self.repair {
            app::require_whole(&settings).await?;
            return match settings.store.location()? {
                StoreUri::Embedded(directory) => embedded::run(&directory, &settings.store, self.repair).await,
                StoreUri::MongoDb(_) if self.repair => {
                    Err("--repair is for the embedded store; ask mongosh for db.collection.validate()".into())
                }
                StoreUri::MongoDb(_) => documents::run(&settings.store).await,
            };
        }
        let known = format!("every key is known, every value within its range; {}", settings.files);
        let queries =
            format!("filters and pipelines follow MongoDB {FOLLOWS}; docs/filters.md says what other versions change");
        let mut findings = vec![Finding::good("settings", known), Finding::good("queries", queries)];
        findings.extend(memory::look(&settings));
        findings.extend(server::look(&settings, &SystemClock).await?);
        findings.extend(serve::concern_of_open_files(&settings));
        findings.extend(issuer(&settings).await?);
        findings.extend(webhooks::look(&settings));
        findings.extend(store::look(&settings, &SystemClock).await?);
        for finding in &findings {
            say!("{finding}");
        }
        match findings.iter().filter(|finding| finding.verdict == Verdict::Wrong).count() {
            0 => Ok(()),
            1 => Err("one thing is wrong, see above".into()),
            wrong => Err(format!("{wrong} things are wrong, see above").into()),
        }
    }
}

const ISSUER: &str = "auth.oidc";

/// Asks the issuer who it is and for its keys, as the service does when it starts.
async fn issuer(settings: &Settings) -> Result<Option<Finding>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(rules) = settings.auth.oidc.rules()? else { return Ok(None) };
    let (name, settings) = (rules.issuer, settings.auth.oidc.clone());
    let finding = move || match oidc::count_keys(&name, &settings) {
        Ok(0) => Finding::wrong(ISSUER, format!("{name} shows no key that can be used; its tokens are refused")),
        Ok(count) => Finding::good(ISSUER, format!("{name} answers and shows {}", counted(count, "key"))),
        Err(reason) => Finding::wrong(ISSUER, format!("{reason}; until this is mended, its tokens are refused")),
    };
    Ok(Some(tokio::task::spawn_blocking(finding).await?))
}
