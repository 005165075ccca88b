//! How a query was answered, in one shape for every store.

use serde::Serialize;
use utoipa::ToSchema;

use super::hint::Hint;

/// How the documents of a query and their total were found, with the work it took.
///
/// The query really ran; the figures are those of the store. Figures about documents that the caller may not see are
/// left out, see [`Explanation::without_counts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ListExplanation)]
pub struct Explanation {
    /// `embedded` or `mongodb`, see [`Store::kind`](super::Store::kind).
    pub store: &'static str,
    /// The way to the documents of the page.
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>)]
    pub plan: Step,
    /// How they came into their order.
    pub sort: SortedBy,
    /// How many keys of indexes were read, those for the total included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub keys_examined: Option<u64>,
    /// How many documents were examined, those for the total included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub documents_examined: Option<u64>,
    /// How many documents the page has.
    pub returned: u64,
    /// How many documents match in all.
    pub total: u64,
    /// Where that number comes from.
    pub total_from: TotalFrom,
    /// How long it took, in microseconds. MongoDB measures whole milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub time_us: Option<u64>,
    /// The filter as MongoDB takes it, in Extended JSON for mongosh: `f.<name>` is rewritten. Nothing if no store was asked
    /// with a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>, required = false)]
    pub filter: Option<serde_json::Value>,
    /// What was looked up before, for conditions that go through references: `f.rack->hostname`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub references: Vec<LookedUp>,
    /// A hint at an index, if the query examined much more than it returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>, required = false)]
    pub hint: Option<Hint>,
}

impl Explanation {
    /// Of documents that the service itself chose and sorted: the number on the page, and that of all that match.
    pub fn in_memory(store: &'static str, plan: Step, (returned, total): (u64, u64)) -> Self {
        Self {
            store,
            plan,
            sort: SortedBy::Memory,
            keys_examined: None,
            documents_examined: None,
            returned,
            total,
            total_from: TotalFrom::Documents,
            time_us: None,
            filter: None,
            references: Vec::new(),
            hint: None,
        }
    }

    /// The same plan without the figures of examined documents, for a caller from whom some are hidden.
    #[must_use]
    pub fn without_counts(self) -> Self {
        Self { keys_examined: None, documents_examined: None, time_us: None, hint: None, ..self }
    }
}

/// Objects that were looked up because a condition goes through a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LookedUp {
    /// The path in the condition.
    pub path: String,
    /// The filter that found them.
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>)]
    pub filter: serde_json::Value,
    /// How many they are. Their ids are in the filter of the list.
    pub found: u64,
}

/// A way to documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// Nothing can match: no document is examined.
    Nothing,
    /// All documents are looked at.
    Scan,
    /// Single keys of a unique index.
    Key(IndexUse),
    /// The documents with certain keys of an index.
    Index(IndexUse),
    /// The union of several plans, one for each branch of `$or`. Each document comes once.
    Union {
        /// The ways.
        of: Vec<Step>,
    },
    /// The documents that each of several plans finds. Only keys are read to know them.
    Intersection {
        /// The ways.
        of: Vec<Step>,
    },
    /// The list is part of the program; no store is involved.
    Memory,
    /// A step that has no counterpart on the other store.
    Other {
        /// What the store calls it, for instance `TEXT_MATCH`.
        stage: String,
        /// The steps that it builds on.
        of: Vec<Step>,
    },
}

/// How an index is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexUse {
    /// Its name: in `store/collections.rs`, or on the MongoDB server.
    pub index: String,
    /// Whether it refuses equal keys.
    pub unique: bool,
    /// Whether documents may have several keys in it, because there are arrays on its paths.
    pub multikey: bool,
    /// Whether it holds only some of the documents.
    pub partial: bool,
    /// Its paths, the most significant one first, with the values that are looked for.
    pub keys: Vec<KeyUse>,
}

/// A path of an index that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyUse {
    /// With dots.
    pub path: String,
    /// 1: smallest first, -1: largest first, 0: the index has no order (a hash, a text, a place).
    pub order: i32,
    /// The values that are looked for, as intervals: `[5, 5]`, `("a", "b"]`, `[MinKey, MaxKey]` for all.
    pub bounds: Vec<String>,
}

/// How documents came into their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SortedBy {
    /// No order was requested.
    None,
    /// They were found in it; reading stops with the page.
    Index,
    /// Several ranges of an index, each in order, were merged; reading stops with the page.
    Merge,
    /// All matching documents were found first, and then sorted.
    Memory,
}

/// Where the total of a list comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TotalFrom {
    /// The store's own count of all documents.
    Collection,
    /// Counted from the keys of an index.
    Keys,
    /// Counted by examining documents.
    Documents,
    /// Known because the page is the last one.
    Page,
}
