//! `inventory-service export`: writes the inventory into a directory that `import` reads.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::app;
use crate::clock::{Clock, SystemClock};
use crate::exchange::csv::CsvStyle;
use crate::moving::export::{DIRECTORY, Tables, export};
use crate::plural::counted;
use crate::progress;
use crate::settings::Settings;

use super::backup::STANDARD;
use super::output::say;
use super::tables::{read_delimiter, read_encoding};
use super::{Outcome, services_alone};

/// Where to write to.
#[derive(Debug, Args)]
pub struct ExportCommand {
    /// A new directory.
    directory: PathBuf,
    /// Replace an earlier export.
    #[arg(long)]
    force: bool,
    /// Write the objects of each type as a table too: objects/TYPE.csv.
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    style: StyleOptions,
}

/// How tables are written, as the parameters of the export over REST say it.
#[derive(Debug, Args)]
struct StyleOptions {
    /// The delimiter of cells: comma, semicolon, tab or pipe.
    #[arg(long, value_name = "NAME", requires = "csv", default_value = "comma")]
    delimiter: String,
    /// Which cells have quotes: those that need them, or all.
    #[arg(long, value_name = "WHICH", requires = "csv", default_value = NECESSARY, value_parser = [NECESSARY, ALL])]
    quoting: String,
    /// The encoding: utf-8, utf-16le, windows-1252 or latin1.
    #[arg(long, value_name = "NAME", requires = "csv", default_value = "utf-8")]
    encoding: String,
    /// Begin each table with a byte-order mark, from which spreadsheets recognise the encoding.
    #[arg(long, requires = "csv")]
    bom: bool,
}

const NECESSARY: &str = "necessary";
const ALL: &str = "all";

impl StyleOptions {
    fn read(&self) -> Result<CsvStyle, String> {
        let encoding = read_encoding(&self.encoding)?;
        Ok(CsvStyle {
            delimiter: read_delimiter(&self.delimiter)?,
            quote_all: self.quoting == ALL,
            encoding,
            mark: encoding.check_mark(self.bom).map_err(|message| format!("--bom: {message}"))?,
        })
    }
}

impl ExportCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        if self.directory.as_os_str() == STANDARD {
            return Err("an export is a directory of files; name one, or ./- for this name".into());
        }
        let style = self.style.read()?;
        let progress = progress::on_stderr();
        let now = SystemClock.now();
        let store = app::open_to_read(&settings).await?;
        let manifest = if self.csv {
            let services = services_alone(&settings, Arc::clone(&store) as _).await?;
            let tables = Tables { services: &services, style };
            export(&*store, &self.directory, self.force, now, Some(tables), &*progress).await?
        } else {
            export(&*store, &self.directory, self.force, now, None, &*progress).await?
        };
        for file in &manifest.files {
            say!("{}: {}, {}", file.name, counted(file.documents, "document"), counted(file.bytes, "byte"));
        }
        if self.csv {
            let tables = std::fs::read_dir(self.directory.join(DIRECTORY))?.count();
            say!("{DIRECTORY}: {}, one for each type", counted(tables, "table"));
        }
        if !manifest.of_one_moment {
            say!("this server keeps no history, so what others wrote meanwhile may be in it or not");
        }
        say!("exported to {}; what users sign in with and webhooks are not in it", self.directory.display());
        Ok(())
    }
}
