//! `$top`, `$topN`, `$bottom`, `$bottomN`: the first or the last values in an order.

use bson::raw::RawDocument;
use bson::{Bson, Document};

use super::held::Held;
use super::{Budget, EvalError, QueryError, Sort};
use crate::query::budget::size_of_value;
use crate::query::expr::Expression;
use crate::query::parse_context::Location;
use crate::query::projection::encoded;
use crate::query::sort::SortValue;

/// The order of a `$top`. As in MongoDB its keys are expressions, whose values are then ordered as members of a document.
#[derive(Debug, Clone)]
pub(super) struct RankOrder {
    keys: Vec<Expression>,
    sort: Sort,
}

impl RankOrder {
    pub(super) fn of(order: &Sort, at: &mut Location) -> Result<Self, QueryError> {
        let (mut keys, mut sort) = (Vec::new(), Sort::default());
        for (index, key) in order.keys().iter().enumerate() {
            keys.push(Expression::parse(&Bson::String(format!("${}", key.path.as_str())), at)?);
            sort = sort.then(&index.to_string(), key.descending);
        }
        Ok(Self { keys, sort })
    }

    /// What a document is ordered by.
    pub(super) fn key_of(&self, document: &RawDocument, budget: &Budget) -> Result<SortValue, EvalError> {
        let mark = budget.mark();
        let mut values = Document::new();
        for (index, key) in self.keys.iter().enumerate() {
            values.insert(index.to_string(), key.evaluate_within(document, budget)?.unwrap_or(Bson::Null));
        }
        budget.drop_since(mark);
        self.sort.key_of(&encoded(&values)?)
    }
}

/// The values that are kept, in their order.
pub(super) struct Ranked {
    kept: Vec<(SortValue, Bson)>,
    count: usize,
    from_bottom: bool,
    single: bool,
}

impl Ranked {
    pub(super) fn new(count: usize, from_bottom: bool, single: bool) -> Self {
        Self { kept: Vec::new(), count, from_bottom, single }
    }

    /// Of documents that are equal in the order the first ones stay, from the bottom too.
    pub(super) fn add(
        &mut self,
        order: &RankOrder,
        value: SortValue,
        output: Bson,
        held: &mut Held,
    ) -> Result<(), EvalError> {
        let weight = |(value, output): &(SortValue, Bson)| {
            Ok::<_, EvalError>(value.size() + size_of_value(output, 0)? + size_of::<(SortValue, Bson)>())
        };
        let mut bytes = held.bytes();
        if self.kept.len() >= self.count {
            let outermost = if self.from_bottom { self.kept.first() } else { self.kept.last() };
            let Some((known, _)) = outermost else { return Ok(()) };
            let comparison = order.sort.compare(&value, known);
            let is_better = if self.from_bottom { comparison.is_gt() } else { comparison.is_lt() };
            if !is_better {
                return Ok(());
            }
            let out = if self.from_bottom { Some(self.kept.remove(0)) } else { self.kept.pop() };
            bytes = bytes.saturating_sub(out.as_ref().map_or(Ok(0), weight)?);
        }
        let place = self.kept.partition_point(|(known, _)| order.sort.compare(known, &value).is_le());
        let kept = (value, output);
        bytes += weight(&kept)?;
        self.kept.insert(place, kept);
        held.set(bytes)
    }

    pub(super) fn into_value(self) -> Bson {
        let mut values: Vec<Bson> = self.kept.into_iter().map(|(_, output)| output).collect();
        if self.single { values.pop().unwrap_or(Bson::Null) } else { Bson::Array(values) }
    }
}
