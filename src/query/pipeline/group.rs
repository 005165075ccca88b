//! `$group`, compiled.

use bson::{Bson, Document, doc};

use super::QueryError;
use super::accumulator::Accumulator;
use super::parser::PipelineParser;
use crate::query::expr::Expression;

/// `$group`.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) key: GroupKey,
    pub(super) accumulators: Vec<Accumulator>,
}

/// What documents of one group have in common.
#[derive(Debug, Clone)]
pub(super) enum GroupKey {
    /// One value.
    Value(Expression),
    /// A document of several values, each compared separately.
    Members(Vec<(String, Expression)>),
}

impl PipelineParser {
    pub(super) fn group(&mut self, operand: &Bson) -> Result<Group, QueryError> {
        let Bson::Document(members) = operand else {
            return self.fail(15947, "$group takes a document: {_id: expression, member: {$accumulator: expression}}");
        };
        let mut group = None;
        let mut accumulators = Vec::new();
        for (name, value) in members {
            self.within(name, |parser| {
                if name == "_id" {
                    group = Some(parser.group_key(value)?);
                } else {
                    accumulators.push(parser.accumulator(name, value)?);
                }
                Ok(())
            })?;
        }
        match group {
            Some(key) => Ok(Group { key, accumulators }),
            None => self.fail(15955, "$group needs _id; null makes one group of all documents"),
        }
    }

    fn group_key(&mut self, value: &Bson) -> Result<GroupKey, QueryError> {
        let members = value.as_document().filter(|members| !members.is_empty());
        let Some(members) = members.filter(|members| members.keys().all(|name| !name.starts_with('$'))) else {
            return Expression::parse(value, &mut self.filter.at).map(GroupKey::Value);
        };
        for (name, value) in members {
            let is_flag = matches!(
                value,
                Bson::Boolean(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)
            );
            if is_flag {
                return self.within(name, |parser| {
                    parser.fail(17390, "a member of _id is an expression; write {$literal: 1} for a number")
                });
            }
        }
        // The whole is read first: errors in the names are reported together.
        Expression::parse(value, &mut self.filter.at)?;
        let mut parts = Vec::with_capacity(members.len());
        for (name, value) in members {
            let part = self.within(name, |parser| Expression::parse(value, &mut parser.filter.at))?;
            parts.push((name.clone(), part));
        }
        Ok(GroupKey::Members(parts))
    }
}

/// The accumulators that are sent to a server.
const PLAIN: [&str; 7] = ["$sum", "$count", "$avg", "$min", "$max", "$first", "$last"];

/// Whether a stage is a `$group` over plain paths.
pub(super) fn is_plain_group(stage: &Document) -> bool {
    let Ok(members) = stage.get_document("$group") else { return false };
    members.iter().all(|(name, value)| match value {
        Bson::Document(parts) if name == "_id" => {
            parts.iter().all(|(name, value)| !name.starts_with('$') && is_plain(value))
        }
        value if name == "_id" => is_plain(value),
        Bson::Document(accumulator) => accumulator.iter().all(|(operator, operand)| {
            let is_counter = operator == "$count";
            PLAIN.contains(&operator.as_str()) && (is_counter || is_plain(operand))
        }),
        _ => false,
    })
}

/// Whether a value is a path or a constant.
fn is_plain(value: &Bson) -> bool {
    match value {
        Bson::String(text) => !text.starts_with("$$"),
        Bson::Document(_) | Bson::Array(_) => false,
        _ => true,
    }
}

/// A count as MongoDB sums it up.
pub(super) fn counted(count: u64) -> Bson {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    i32::try_from(count).map_or(Bson::Int64(count), Bson::Int32)
}

/// The document of a `$count`.
pub(super) fn count_document(name: &str, count: u64) -> Document {
    doc! { name: counted(count) }
}
