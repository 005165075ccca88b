//! The accumulators of `$group`, compiled.

use bson::{Bson, Document};

use super::QueryError;
use super::parser::PipelineParser;
use super::ranked::RankOrder;
use crate::query::error::code;
use crate::query::expr::Expression;
use crate::suggest::hint;

/// A member of a group: its name, and what is computed from the documents.
#[derive(Debug, Clone)]
pub(super) struct Accumulator {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// What it takes of a document.
    pub(super) input: Expression,
    /// How many values it keeps, computed from the key of the group.
    pub(super) count: Option<Expression>,
}

/// What is computed from the values.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// `$sum`, `$count`.
    Sum,
    /// `$avg`.
    Average,
    /// `$min`, `$max`.
    Extreme { largest: bool },
    /// `$first`.
    First,
    /// `$last`.
    Last,
    /// `$push`.
    Push,
    /// `$addToSet`.
    AddToSet,
    /// `$stdDevPop`, `$stdDevSamp`: the lost degrees of freedom.
    Deviation(u8),
    /// `$mergeObjects`.
    Merge,
    /// `$firstN`, `$lastN`.
    Ends { last: bool },
    /// `$minN`, `$maxN`.
    Extremes { largest: bool },
    /// `$top`, `$topN`, `$bottom`, `$bottomN`.
    Ranked { order: RankOrder, from_bottom: bool, single: bool },
}

/// The names of the accumulators.
pub const ACCUMULATORS: [&str; 20] = [
    "$sum", "$count", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$stdDevPop", "$stdDevSamp",
    "$mergeObjects", "$firstN", "$lastN", "$minN", "$maxN", "$top", "$topN", "$bottom", "$bottomN",
];

impl PipelineParser {
    /// `name: {$accumulator: operand}`.
    pub(super) fn accumulator(&mut self, name: &str, value: &Bson) -> Result<Accumulator, QueryError> {
        let single = value.as_document().filter(|document| !document.is_empty());
        let Some(document) = single.filter(|document| document.keys().all(|key| key.starts_with('$'))) else {
            return self.fail(40234, "a member of a group is a document with one accumulator, such as {$sum: 1}");
        };
        if name.contains('.') {
            return self.fail(40235, "the name of a member of a group has no dot");
        }
        if name.starts_with('$') {
            return self.fail(40236, "the name of a member of a group does not begin with $");
        }
        let (Some((operator, operand)), 1) = (document.iter().next(), document.len()) else {
            return self.fail(40238, "a member of a group has one accumulator");
        };
        self.within(operator, |parser| parser.accumulate(name, operator, operand))
    }

    fn accumulate(&mut self, name: &str, operator: &str, operand: &Bson) -> Result<Accumulator, QueryError> {
        let kind = match operator {
            "$sum" => Kind::Sum,
            "$count" => return self.counter(name, operand),
            "$avg" => Kind::Average,
            "$min" => Kind::Extreme { largest: false },
            "$max" => Kind::Extreme { largest: true },
            "$first" => Kind::First,
            "$last" => Kind::Last,
            "$push" => Kind::Push,
            "$addToSet" => Kind::AddToSet,
            "$stdDevPop" => Kind::Deviation(0),
            "$stdDevSamp" => Kind::Deviation(1),
            "$mergeObjects" => Kind::Merge,
            "$firstN" => return self.several(name, Kind::Ends { last: false }, operand),
            "$lastN" => return self.several(name, Kind::Ends { last: true }, operand),
            "$minN" => return self.several(name, Kind::Extremes { largest: false }, operand),
            "$maxN" => return self.several(name, Kind::Extremes { largest: true }, operand),
            "$top" => return self.ranked(name, (false, true), operand),
            "$topN" => return self.ranked(name, (false, false), operand),
            "$bottom" => return self.ranked(name, (true, true), operand),
            "$bottomN" => return self.ranked(name, (true, false), operand),
            "$accumulator" => {
                let message = "$accumulator runs JavaScript on the server, which is not offered";
                return Err(self.filter.at.refused(message));
            }
            _ => return self.fail(15952, format!("unknown accumulator{}", hint(operator, &ACCUMULATORS))),
        };
        if operand.as_array().is_some() {
            return self.fail(40237, format!("{operator} takes one expression, not a list"));
        }
        let input = Expression::parse(operand, &mut self.filter.at)?;
        Ok(Accumulator { name: name.to_owned(), kind, input, count: None })
    }

    fn counter(&mut self, name: &str, operand: &Bson) -> Result<Accumulator, QueryError> {
        if !operand.as_document().is_some_and(Document::is_empty) {
            return self.fail(code::TYPE_MISMATCH, "$count takes an empty document");
        }
        let input = Expression::parse(&Bson::Int32(1), &mut self.filter.at)?;
        Ok(Accumulator { name: name.to_owned(), kind: Kind::Sum, input, count: None })
    }

    /// `{n: expression, input: expression}`.
    fn several(&mut self, name: &str, kind: Kind, operand: &Bson) -> Result<Accumulator, QueryError> {
        let Bson::Document(options) = operand else {
            return self.fail(5_787_801, "takes a document: {n, input}");
        };
        self.only(options, &["n", "input"], 5_787_901)?;
        let count = self.needed(options, "n", 5_787_906)?;
        let input = self.needed(options, "input", 5_787_907)?;
        Ok(Accumulator { name: name.to_owned(), kind, input, count: Some(count) })
    }

    /// `{n: expression, sortBy: order, output: expression}`, or without `n`.
    fn ranked(
        &mut self,
        name: &str,
        (from_bottom, single): (bool, bool),
        operand: &Bson,
    ) -> Result<Accumulator, QueryError> {
        let Bson::Document(options) = operand else {
            return self.fail(5_788_001, "takes a document: {sortBy, output}, and n for several");
        };
        let known: &[&str] = if single { &["sortBy", "output"] } else { &["n", "sortBy", "output"] };
        self.only(options, known, 5_788_002)?;
        let count = if single { None } else { Some(self.needed(options, "n", 5_788_003)?) };
        let Some(order) = options.get("sortBy") else { return self.fail(5_788_005, "needs sortBy") };
        let order = self.within("sortBy", |parser| match order {
            Bson::Document(order) => parser.order(order),
            // As in MongoDB, which takes it for a document from positions to directions.
            Bson::Array(directions) => {
                let by_position = directions.iter().enumerate();
                let order = by_position.map(|(place, direction)| (place.to_string(), direction.clone()));
                parser.order(&order.collect())
            }
            _ => parser.fail(10065, "an order is a document"),
        })?;
        let input = self.needed(options, "output", 5_788_004)?;
        let order = RankOrder::of(&order, &mut self.filter.at)?;
        let kind = Kind::Ranked { order, from_bottom, single };
        Ok(Accumulator { name: name.to_owned(), kind, input, count })
    }

    /// A member that must be there, as an expression.
    fn needed(&mut self, options: &Document, name: &str, code: i32) -> Result<Expression, QueryError> {
        match options.get(name) {
            Some(value) => self.within(name, |parser| Expression::parse(value, &mut parser.filter.at)),
            None => self.fail(code, format!("needs {name}")),
        }
    }
}
