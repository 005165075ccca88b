//! What an accumulator has seen so far.

use std::collections::{HashSet, VecDeque};

use bson::{Bson, Document};

use super::accumulator::{Accumulator, Kind};
use super::held::{Held, Key};
use super::ranked::Ranked;
use super::{Budget, EvalError};
use crate::query::budget::size_of_value;
use crate::query::compare::compare_bson;
use crate::query::expr::{Deviation, Extremes, Total};
use crate::query::number::Number;
use bson::raw::RawDocument;

/// The state of one accumulator in one group.
pub(super) enum State {
    Sum(Total),
    Average(Total, i64),
    Best { value: Option<Bson>, largest: bool },
    First { value: Option<Bson>, seen: bool },
    Last(Option<Bson>),
    List(Vec<Bson>),
    Set(Vec<Bson>, HashSet<Key>),
    Deviation(Deviation),
    Merged(Document),
    FirstN { values: Vec<Bson>, count: usize, is_full: bool },
    LastN(VecDeque<Bson>, usize),
    BestN(Extremes),
    Ranked(Ranked),
}

/// The memory of a value in addition to its place.
fn weight(value: &Bson) -> Result<usize, EvalError> {
    Ok(size_of_value(value, 0)? + size_of::<Bson>())
}

fn is_nullish(value: Option<&Bson>) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

impl State {
    /// Nothing seen; `group` is the key of the group as a document.
    pub(super) fn new(accumulator: &Accumulator, group: &RawDocument, budget: &Budget) -> Result<Self, EvalError> {
        let count = match &accumulator.count {
            Some(expression) => {
                let mark = budget.mark();
                let count = expression.evaluate_within(group, budget)?;
                budget.drop_since(mark);
                how_many(count.as_ref())?
            }
            None => 1,
        };
        Ok(match &accumulator.kind {
            Kind::Sum => Self::Sum(Total::default()),
            Kind::Average => Self::Average(Total::default(), 0),
            Kind::Extreme { largest } => Self::Best { value: None, largest: *largest },
            Kind::First => Self::First { value: None, seen: false },
            Kind::Last => Self::Last(None),
            Kind::Push => Self::List(Vec::new()),
            Kind::AddToSet => Self::Set(Vec::new(), HashSet::new()),
            Kind::Deviation(lost) => Self::Deviation(Deviation::new(*lost)),
            Kind::Merge => Self::Merged(Document::new()),
            Kind::Ends { last: false } => Self::FirstN { values: Vec::new(), count, is_full: false },
            Kind::Ends { last: true } => Self::LastN(VecDeque::new(), count),
            Kind::Extremes { largest } => Self::BestN(Extremes::new(count, *largest)),
            Kind::Ranked { from_bottom, single, .. } => Self::Ranked(Ranked::new(count, *from_bottom, *single)),
        })
    }

    /// One more document.
    pub(super) fn add(
        &mut self,
        accumulator: &Accumulator,
        document: &RawDocument,
        budget: &Budget,
        held: &mut Held,
    ) -> Result<(), EvalError> {
        if self.is_full() {
            return Ok(());
        }
        let mark = budget.mark();
        let value = accumulator.input.evaluate_within(document, budget)?;
        budget.drop_since(mark);
        match self {
            Self::Sum(total) => drop(value.is_some_and(|value| total.add_value(&value))),
            Self::Average(total, count) => *count += i64::from(value.is_some_and(|value| total.add_value(&value))),
            Self::Deviation(deviation) => value.iter().for_each(|value| deviation.add_value(value)),
            Self::Best { value: best, largest } => {
                if let Some(value) = value.filter(|value| !is_nullish(Some(value))) {
                    let is_better = best.as_ref().is_none_or(|best| is_before(&value, best, *largest));
                    if is_better {
                        held.exchange(best.as_ref().map_or(Ok(0), weight)?, weight(&value)?)?;
                        *best = Some(value);
                    }
                }
            }
            Self::First { value: first, seen } => {
                held.take(value.as_ref().map_or(Ok(0), weight)?)?;
                (*first, *seen) = (value, true);
            }
            Self::Last(last) => {
                let (before, now) = (last.as_ref().map_or(Ok(0), weight)?, value.as_ref().map_or(Ok(0), weight)?);
                held.exchange(before, now)?;
                *last = value;
            }
            Self::List(values) => {
                if let Some(value) = value {
                    held.take(weight(&value)?)?;
                    values.push(value);
                }
            }
            Self::Set(values, known) => {
                if let Some(value) = value {
                    let weight = weight(&value)?;
                    let key = Key(Some(value));
                    if !known.contains(&key) {
                        held.take(2 * weight)?;
                        values.extend(key.0.clone());
                        known.insert(key);
                    }
                }
            }
            Self::Merged(merged) => match value {
                None | Some(Bson::Null | Bson::Undefined) => {}
                Some(Bson::Document(members)) => {
                    for (name, member) in members {
                        let named = |member| Ok::<_, EvalError>(weight(member)? + name.len());
                        held.exchange(merged.get(&name).map_or(Ok(0), named)?, named(&member)?)?;
                        merged.insert(name, member);
                    }
                }
                Some(_) => return Err(EvalError::new(40400, "$mergeObjects takes only documents")),
            },
            // As in MongoDB one value more is looked at.
            Self::FirstN { values, count, is_full } if values.len() >= *count => *is_full = true,
            Self::FirstN { values, .. } => {
                let value = value.unwrap_or(Bson::Null);
                held.take(weight(&value)?)?;
                values.push(value);
            }
            Self::LastN(values, count) => {
                let value = value.unwrap_or(Bson::Null);
                let now = weight(&value)?;
                values.push_back(value);
                let first = if values.len() > *count { values.pop_front() } else { None };
                held.exchange(first.as_ref().map_or(Ok(0), weight)?, now)?;
            }
            Self::BestN(extremes) => {
                if let Some(value) = value.filter(|value| !is_nullish(Some(value))) {
                    let now = weight(&value)?;
                    let out = extremes.add(value).as_ref().map_or(Ok(0), weight)?;
                    held.exchange(out, now)?;
                }
            }
            Self::Ranked(ranked) => {
                let Kind::Ranked { order, .. } = &accumulator.kind else { return Ok(()) };
                let key = order.key_of(document, budget)?;
                ranked.add(order, key, value.unwrap_or(Bson::Null), held)?;
            }
        }
        Ok(())
    }

    /// Whether no further document changes it. As in MongoDB nothing is evaluated on those, so nothing fails there.
    fn is_full(&self) -> bool {
        match self {
            Self::First { seen, .. } => *seen,
            Self::FirstN { is_full, .. } => *is_full,
            _ => false,
        }
    }

    /// The value of the group's member.
    pub(super) fn into_value(self) -> Bson {
        match self {
            Self::Sum(total) => total.sum_value(),
            Self::Average(total, count) => total.average_value(count),
            Self::Best { value, .. } | Self::First { value, .. } | Self::Last(value) => value.unwrap_or(Bson::Null),
            Self::List(values) | Self::Set(values, _) | Self::FirstN { values, .. } => Bson::Array(values),
            Self::BestN(extremes) => Bson::Array(extremes.into_values()),
            Self::Deviation(deviation) => deviation.value(),
            Self::Merged(merged) => Bson::Document(merged),
            Self::LastN(values, _) => Bson::Array(values.into()),
            Self::Ranked(ranked) => ranked.into_value(),
        }
    }
}

fn is_before(value: &Bson, other: &Bson, largest: bool) -> bool {
    let order = compare_bson(value, other);
    if largest { order.is_gt() } else { order.is_lt() }
}

/// The value of `n`.
fn how_many(value: Option<&Bson>) -> Result<usize, EvalError> {
    let number = value.and_then(|value| crate::query::compare::number(value.into()));
    let Some(number) = number else { return Err(EvalError::new(5_787_902, "n must be a whole number")) };
    let Some(count) = number.as_exact_int() else {
        return Err(EvalError::new(5_787_903, "n must be a whole number"));
    };
    match usize::try_from(count) {
        Ok(count) if number.compare(Number::Int(0)).is_gt() => Ok(count),
        _ => Err(EvalError::new(5_787_908, format!("n must be greater than 0, not {count}"))),
    }
}
