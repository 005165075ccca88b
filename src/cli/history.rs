//! `inventory-service history verify`: checks the chains of all log entries.

use clap::{Args, Subcommand};

use crate::app;
use crate::plural::counted;
use crate::service::history::verify::verify;
use crate::settings::Settings;

use super::Outcome;
use super::output::say;

/// What to do with the history.
#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// Check that no log entry was changed, removed or exchanged, and print one hash over all of them.
    Verify(VerifyCommand),
}

/// What the entries are compared with.
#[derive(Debug, Args)]
pub struct VerifyCommand {
    /// The hash that an earlier check printed.
    #[arg(long, value_name = "ROOT", requires = "upto", value_parser = a_root)]
    expect: Option<String>,
    /// The sequence up to which that check went.
    #[arg(long, value_name = "SEQUENCE")]
    upto: Option<i64>,
}

fn a_root(text: &str) -> Result<String, &'static str> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_one {
        Ok(text.to_owned())
    } else {
        Err("a root has 64 hexadecimal digits; copy the one that an earlier check printed")
    }
}

impl HistoryCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        match self {
            Self::Verify(command) => command.run(settings).await,
        }
    }
}

impl VerifyCommand {
    async fn run(self, settings: Settings) -> Outcome {
        let store = app::open_to_read(&settings).await?;
        let verified = verify(&*store, self.upto).await?;
        for broken in &verified.broken {
            say!(
                "{} {}: the entry with the sequence {} is not what was written", broken.resource, broken.public_id,
                broken.sequence
            );
        }
        if verified.left_out > 0 {
            say!("and {} more", verified.left_out);
        }
        let (entries, resources) = (counted(verified.entries, "change"), counted(verified.resources, "resource"));
        say!("{entries} of {resources}");
        if verified.pruned > 0 {
            say!("history.keep_days has removed changes up to sequence {}", verified.pruned);
        }
        let root = hex::encode(verified.root);
        say!("root {root} up to sequence {}", verified.last);
        if !verified.broken.is_empty() {
            return Err("the history was changed".into());
        }
        if let Some(upto) = self.upto.filter(|upto| *upto > verified.newest.max(verified.pruned)) {
            let newest = verified.newest;
            let message = format!(
                "the history ends at sequence {newest}, before --upto {upto}: later entries are gone, or never were"
            );
            return Err(message.into());
        }
        match self.expect {
            Some(expected) if !expected.eq_ignore_ascii_case(&root) => {
                let pruned = if verified.pruned > 0 {
                    "; a root from before history.keep_days removed changes cannot be compared any more, so keep the one \
                     above from now on"
                } else {
                    ""
                };
                Err(format!("the history is not the one with the root {expected}{pruned}").into())
            }
            _ => Ok(()),
        }
    }
}
