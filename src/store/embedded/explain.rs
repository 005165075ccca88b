//! Says how a question is answered: for people who wonder why it takes long, and for tests of the planner.

use crate::store::{FindQuery, StoreError};

use super::catalog::Collection;
use super::find::Question;
use super::planner::{IndexScan, Order, Plan};
use super::snapshot::Snapshot;
use super::wide;

/// How a question was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The way to the documents.
    pub strategy: Strategy,
    /// How many keys of indexes were read.
    pub keys_examined: u64,
    /// How many documents were looked at.
    pub documents_examined: u64,
    /// How many documents were returned.
    pub returned: u64,
}

/// A way to the documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// The filter contradicts itself.
    Nothing,
    /// All documents were looked at.
    Scan,
    /// Only documents with certain keys.
    Index {
        /// The name of the index.
        name: String,
        /// How many ranges of keys.
        ranges: usize,
        /// Whether the order of the keys is the order of the answer.
        ordered: bool,
        /// Whether the keys alone say which documents match.
        exact: bool,
    },
    /// One for each branch of `$or`.
    Union(Vec<Strategy>),
}

/// Asks the question and tells how.
pub(super) fn explain(snapshot: &Snapshot, name: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
    let Some(collection) = snapshot.collection(name) else {
        return Ok(Explanation { strategy: Strategy::Nothing, keys_examined: 0, documents_examined: 0, returned: 0 });
    };
    let question = Question::new(collection, query, false);
    let answer = wide::ask(&question, collection, snapshot.tables(collection)?)?;
    Ok(Explanation {
        strategy: Strategy::of(&question.plan, collection),
        keys_examined: answer.work.keys,
        documents_examined: answer.work.documents,
        returned: answer.documents.len() as u64,
    })
}

impl Strategy {
    fn of(plan: &Plan, collection: &Collection) -> Self {
        match plan {
            Plan::Nothing => Self::Nothing,
            Plan::Scan => Self::Scan,
            Plan::Index(scan) => Self::of_scan(scan, collection),
            Plan::Union(scans) => Self::Union(scans.iter().map(|scan| Self::of_scan(scan, collection)).collect()),
        }
    }

    fn of_scan(scan: &IndexScan, collection: &Collection) -> Self {
        Self::Index {
            name: collection.indexes[scan.index].name.clone(),
            ranges: scan.ranges.len(),
            ordered: scan.order != Order::Unused,
            exact: scan.exact,
        }
    }
}
