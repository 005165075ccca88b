//! `$top`, `$topN`, `$bottom`, `$bottomN`: the first or the last values in an order.

use bson::Bson;
use bson::raw::RawDocument;

use super::held::Held;
use super::{EvalError, Sort};
use crate::query::budget::size_of_value;
use crate::query::sort::SortValue;

/// The values that are kept, the first one in the order first.
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
        order: &Sort,
        document: &RawDocument,
        output: Bson,
        held: &mut Held,
    ) -> Result<(), EvalError> {
        let value = order.key_of(document)?;
        let place = self.kept.partition_point(|(known, _)| order.compare(known, &value).is_le());
        if place >= self.count {
            return Ok(());
        }
        let mut bytes = held.bytes() + value.size() + size_of_value(&output, 0)? + size_of::<(SortValue, Bson)>();
        self.kept.insert(place, (value, output));
        if self.kept.len() > self.count
            && let Some((value, output)) = self.kept.pop()
        {
            bytes = bytes.saturating_sub(value.size() + size_of_value(&output, 0)? + size_of::<(SortValue, Bson)>());
        }
        held.set(bytes)
    }

    pub(super) fn into_value(self) -> Bson {
        let mut values: Vec<Bson> = self.kept.into_iter().map(|(_, output)| output).collect();
        if self.single {
            return values.pop().unwrap_or(Bson::Null);
        }
        if self.from_bottom {
            values.reverse();
        }
        Bson::Array(values)
    }
}
