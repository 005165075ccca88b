//! The report: one operation with everybody's figures.

use std::fmt::Write as _;

use crate::drive::Figure;
use crate::harness::report::Bound;

/// One operation at a number of connections.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Row {
    pub(crate) operation: String,
    pub(crate) connections: usize,
    pub(crate) figures: Vec<Named>,
    pub(crate) bounds: Vec<Bound>,
}

/// Whose figure it is.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Named {
    pub(crate) who: String,
    /// How many objects there were.
    pub(crate) objects: u32,
    #[serde(flatten)]
    pub(crate) figure: Figure,
}

/// What the columns are.
pub(crate) const HEAD: &str =
    "who                              objects     req/s     p50 us     p99 us   p99.9 us   cpu us  mongod us  range";

impl Row {
    /// The row as lines of a table.
    pub(crate) fn lines(&self) -> String {
        let mut lines = format!("{}, {} connections\n", self.operation, self.connections);
        for Named { who, objects, figure } in &self.figures {
            let [low, high] = figure.range_per_s;
            let _ = writeln!(
                lines,
                "  {who:<30} {objects:>7} {:>9.0} {:>10.1} {:>10.1} {:>10.1} {:>8.1} {:>10.1}  {low:.0} .. {high:.0}",
                figure.requests_per_s,
                figure.p50_us,
                figure.p99_us,
                figure.p999_us,
                figure.service_cpu_us,
                figure.mongod_cpu_us,
            );
        }
        for bound in &self.bounds {
            let verdict = if bound.holds { "holds" } else { "MISSED" };
            let _ = writeln!(lines, "    {:<46} {:>8.3}  (bound {:.2})  {verdict}", bound.of, bound.value, bound.limit);
        }
        lines
    }

    pub(crate) fn figure(&self, who: &str, objects: u32) -> Option<Figure> {
        self.figures.iter().find(|named| named.who == who && named.objects == objects).map(|named| named.figure)
    }
}
