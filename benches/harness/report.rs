//! The report: a table for people and a JSON file for programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::timing::Figure;

/// One operation with everybody's figures.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Row {
    pub(crate) operation: String,
    pub(crate) unit: Unit,
    pub(crate) figures: Vec<Figure>,
    pub(crate) bounds: Vec<Bound>,
}

/// How the figures of a row are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Time for one operation.
    Time,
    /// Operations in a second.
    Rate,
    /// The "nanoseconds" are bytes.
    Bytes,
}

/// What is asked of a row.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Bound {
    /// In words, for instance `of mongod at 10000`.
    pub(crate) of: String,
    /// What was measured.
    pub(crate) value: f64,
    pub(crate) limit: f64,
    /// Whether it was kept.
    pub(crate) holds: bool,
}

impl Bound {
    /// `value` must not be above `limit`.
    pub(crate) fn at_most(of: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { of: of.into(), value, limit, holds: value <= limit }
    }

    /// `value` must not be below `limit`.
    pub(crate) fn at_least(of: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { of: of.into(), value, limit, holds: value >= limit }
    }
}

impl Row {
    /// The row as lines of a table.
    pub(crate) fn lines(&self) -> String {
        let mut lines = format!("{}\n", self.operation);
        for figure in &self.figures {
            let (value, processor) = match self.unit {
                Unit::Time => (time(figure.nanoseconds), time(figure.processor_nanoseconds)),
                Unit::Rate => (format!("{:.0} /s", 1e9 / figure.nanoseconds), time(figure.processor_nanoseconds)),
                Unit::Bytes => (format!("{:.1} MiB", figure.nanoseconds / 1024.0 / 1024.0), String::new()),
            };
            let [low, high] = figure.range_nanoseconds;
            let range = match self.unit {
                Unit::Time => format!("{} .. {}", time(low), time(high)),
                Unit::Rate => format!("{:.0} .. {:.0}", 1e9 / high, 1e9 / low),
                Unit::Bytes => String::new(),
            };
            let _ =
                writeln!(lines, "  {:<34} {:>9} {value:>13}  cpu {processor:>10}  {range}", figure.who, figure.objects);
        }
        for bound in &self.bounds {
            let verdict = if bound.holds { "holds" } else { "MISSED" };
            let _ = writeln!(lines, "    {:<46} {:>8.2}  (bound {:.2})  {verdict}", bound.of, bound.value, bound.limit);
        }
        lines
    }

    /// The figure of somebody at a size.
    pub(crate) fn figure(&self, who: &str, objects: u32) -> Option<f64> {
        self.figures
            .iter()
            .find(|figure| figure.who == who && figure.objects == objects)
            .map(|figure| figure.nanoseconds)
    }
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e4 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// Writes the rows to `name` in the folder that the program was built in, and returns where that is.
pub(crate) fn save(name: &str, rows: &[impl serde::Serialize]) -> io::Result<PathBuf> {
    let path = target_folder()?.join(name);
    fs::write(&path, serde_json::to_vec_pretty(rows)?)?;
    Ok(path)
}

/// The program is in `<folder>/release/deps`.
pub(crate) fn target_folder() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    Ok(program.ancestors().nth(3).unwrap_or(Path::new(".")).to_owned())
}
