//! The first stages of a pipeline that are a plain query, and a plain query as stages.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::columns::Columns;
use super::stage::Stage;
use super::{Filter, Pipeline, Sort};
use crate::query::projection::Projection;
use crate::query::sort::SortKey;

/// `$match`, `$sort`, `$skip` and `$limit` at the front, in this order, as one query.
#[derive(Debug, Clone, Default)]
pub struct Front {
    /// Which documents.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// How many to pass over.
    pub skip: u64,
    /// The maximum number of documents; 0: all.
    pub limit: u64,
    /// How many stages of the pipeline this is.
    pub stages: usize,
}

impl Front {
    pub(super) fn of(stages: &[Stage]) -> Self {
        let mut front = Self::default();
        let mut rest = stages.iter().peekable();
        let mut filters = Vec::new();
        while let Some(Stage::Match(filter)) = rest.peek() {
            filters.push(filter.clone());
            rest.next();
        }
        front.stages = filters.len();
        front.filter = Filter::all_of(filters);
        if let Some(Stage::Sort(sort)) = rest.peek() {
            front.sort = sort.clone();
            front.stages += 1;
            rest.next();
        }
        while let Some(Stage::Skip(count)) = rest.peek() {
            front.skip = front.skip.saturating_add(*count);
            front.stages += 1;
            rest.next();
        }
        while let Some(Stage::Limit(count)) = rest.peek() {
            front.limit = if front.limit == 0 { *count } else { front.limit.min(*count) };
            front.stages += 1;
            rest.next();
        }
        front
    }

    /// The same without an order, if it only selects documents.
    pub fn is_filter(&self) -> bool {
        self.sort.is_empty() && self.skip == 0 && self.limit == 0
    }
}

impl Pipeline {
    /// The stage that makes rows of these columns.
    pub fn flattened(columns: &Arc<Columns>) -> Self {
        Self { documents: vec![columns.written()], stages: vec![Stage::Flatten(Arc::clone(columns))] }
    }

    /// The stages of a plain query.
    pub fn of(front: Front) -> Self {
        let mut pipeline = Self::matching(front.filter);
        let mut add = |document: Document, stage: Stage| {
            pipeline.documents.push(document);
            pipeline.stages.push(stage);
        };
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        if !front.sort.is_empty() || front.sort.is_reversed() {
            let key = |key: &SortKey| (key.path.as_str().to_owned(), (1 - 2 * i32::from(key.descending)).into());
            let keys: Document = front.sort.keys().iter().map(key).collect();
            add(doc! { "$sort": keys }, Stage::Sort(front.sort));
        }
        if front.skip > 0 {
            add(doc! { "$skip": number(front.skip) }, Stage::Skip(front.skip));
        }
        if front.limit > 0 {
            add(doc! { "$limit": number(front.limit) }, Stage::Limit(front.limit));
        }
        pipeline
    }

    /// The same; of each result what a projection shows.
    #[must_use]
    pub fn projected(mut self, projection: Projection) -> Self {
        self.documents.push(doc! { "$project": projection.document().clone() });
        self.stages.push(Stage::Project(Box::new(projection)));
        self
    }

    /// The stages after the first `done`, which are stages as they were sent.
    #[must_use]
    pub fn behind(mut self, done: usize) -> Self {
        self.documents.drain(..done);
        self.stages.drain(..done);
        self
    }

    /// Whether a member of its documents shows in its results. Where it cannot know it, it does.
    pub fn shows(&self, member: &str) -> bool {
        let mut stages = self.documents.iter().zip(&self.stages);
        let takes_apart = stages.find_map(|(written, stage)| match (written.keys().next()?.as_str(), stage) {
            (_, Stage::Project(projection)) => Some(projection.includes()),
            ("$group" | "$count" | "$sortByCount" | "$bucket", _) => Some(true),
            ("$match" | "$sort" | "$skip" | "$limit" | "$unwind", _) => None,
            _ => Some(false),
        });
        takes_apart != Some(true) || self.documents.iter().any(|stage| mentions(stage, member))
    }
}

/// Whether a member may be read by what is written here: by its name, or with the whole document.
fn mentions(written: &Document, member: &str) -> bool {
    fn of_value(value: &Bson, member: &str) -> bool {
        match value {
            Bson::String(text) => {
                text.contains(member) || ["$$ROOT", "$$CURRENT"].iter().any(|whole| text.starts_with(whole))
            }
            Bson::Document(document) => mentions(document, member),
            Bson::Array(items) => items.iter().any(|item| of_value(item, member)),
            _ => false,
        }
    }
    let reads_any = |name: &str| ["$getField", "$jsonSchema"].contains(&name) || name.contains(member);
    written.iter().any(|(name, value)| reads_any(name) || of_value(value, member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Limits;

    #[test]
    fn what_does_not_show_is_not_made() {
        let shows = |stages: &[Document]| {
            let stages: Vec<Bson> = stages.iter().cloned().map(Bson::from).collect();
            let pipeline = Pipeline::parse(&stages, &Limits::NONE, bson::DateTime::MIN).expect("stages");
            pipeline.shows("a_summary")
        };
        let group = |id: &str| doc! { "$group": { "_id": id } };
        for stages in [
            vec![],
            vec![doc! { "$match": { "a": 1 } }],
            vec![doc! { "$project": { "a": 0 } }],
            vec![group("$a_summary.x")],
            vec![group("$$ROOT")],
            vec![doc! { "$sort": { "a_summary": 1 } }, group("$a")],
            vec![doc! { "$set": { "b": 1 } }, group("$a")],
            vec![doc! { "$project": { "all": "$$CURRENT" } }],
        ] {
            assert!(shows(&stages), "{stages:?}");
        }
        for stages in [
            vec![group("$a")],
            vec![doc! { "$sort": { "b": 1 } }, doc! { "$project": { "a": 1 } }],
            vec![doc! { "$count": "n" }],
        ] {
            assert!(!shows(&stages), "{stages:?}");
        }
    }
}
