//! Stages that MongoDB makes of `$group`: `$bucket`, by boundaries, `$sortByCount` and `$count`.

use bson::{Bson, Document, doc};

use super::group::{Group, GroupKey};
use super::parser::PipelineParser;
use super::stage::Stage;
use super::{QueryError, Sort};
use crate::query::compare::{compare_bson, type_rank};
use crate::query::expr::Expression;

impl PipelineParser {
    /// `$sortByCount`: groups, the largest first.
    pub(super) fn sort_by_count(&mut self, operand: &Bson) -> Result<Vec<Stage>, QueryError> {
        match operand {
            Bson::String(text) if !text.starts_with('$') => {
                self.fail(40148, "$sortByCount takes a path that begins with $")
            }
            Bson::Document(document) if !document.keys().next().is_some_and(|name| name.starts_with('$')) => {
                self.fail(40147, "$sortByCount takes a path that begins with $, or an expression")
            }
            Bson::String(_) | Bson::Document(_) => {
                let key = GroupKey::Value(Expression::parse(operand, &mut self.filter.at)?);
                let accumulators = vec![self.accumulator("count", &doc! { "$sum": 1 }.into())?];
                let group = Stage::Group(Box::new(Group { key, accumulators }));
                Ok(vec![group, Stage::Sort(Sort::by("count", true))])
            }
            _ => self.fail(40149, "$sortByCount takes a path that begins with $, or an expression"),
        }
    }

    /// `$count`: the name of the member.
    pub(super) fn count(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let Bson::String(name) = operand else { return self.fail(40156, "$count takes the name of a member") };
        let wrong = match name.as_str() {
            "" => Some((40157, "$count takes the name of a member")),
            name if name.starts_with('$') => Some((40158, "the name for a count does not begin with $")),
            name if name.contains('\0') => Some((40159, "the name for a count has no zero byte")),
            name if name.contains('.') => Some((40160, "the name for a count has no dot")),
            "_id" => Some((15948, "a count cannot be named _id")),
            _ => None,
        };
        match wrong {
            Some((code, message)) => self.fail(code, message),
            None => Ok(Stage::Count(name.clone())),
        }
    }

    /// `{groupBy, boundaries, default, output}`.
    pub(super) fn bucket(&mut self, operand: &Bson) -> Result<Vec<Stage>, QueryError> {
        let Bson::Document(options) = operand else {
            return self.fail(40201, "$bucket takes a document: {groupBy, boundaries, default, output}");
        };
        self.only(options, &["groupBy", "boundaries", "default", "output"], 40197)?;
        let (Some(by), Some(boundaries)) = (options.get("groupBy"), options.get("boundaries")) else {
            return self.fail(40198, "$bucket needs groupBy and boundaries");
        };
        self.within("groupBy", |parser| parser.bucket_key(by))?;
        let boundaries = self.within("boundaries", |parser| parser.boundaries(boundaries))?;
        let otherwise = match options.get("default") {
            Some(value) => Some(self.within("default", |parser| parser.bucket_default(value, &boundaries))?),
            None => None,
        };
        let output = match options.get("output") {
            None => doc! { "count": { "$sum": 1 } },
            Some(Bson::Document(output)) => output.clone(),
            Some(_) => {
                return self.within("output", |parser| parser.fail(40196, "output is a document of accumulators"));
            }
        };
        let branches: Vec<Document> = boundaries
            .windows(2)
            .map(|pair| {
                let literal = |value: &Bson| doc! { "$literal": value.clone() };
                let within = doc! { "$and": [
                    { "$gte": [by.clone(), literal(&pair[0])] },
                    { "$lt": [by.clone(), literal(&pair[1])] },
                ] };
                doc! { "case": within, "then": literal(&pair[0]) }
            })
            .collect();
        let mut switch = doc! { "branches": branches };
        if let Some(otherwise) = otherwise {
            switch.insert("default", doc! { "$literal": otherwise });
        }
        let mut group = doc! { "_id": { "$switch": switch } };
        group.extend(output);
        let group = Stage::Group(Box::new(self.group(&group.into())?));
        Ok(vec![group, Stage::Sort(Sort::by("_id", false))])
    }

    fn bucket_key(&mut self, by: &Bson) -> Result<(), QueryError> {
        let is_expression = match by {
            Bson::String(text) => text.starts_with('$'),
            Bson::Document(document) => document.keys().next().is_some_and(|name| name.starts_with('$')),
            _ => false,
        };
        if !is_expression {
            return self.fail(40202, "groupBy is a path that begins with $, or an expression");
        }
        Expression::parse(by, &mut self.filter.at).map(drop)
    }

    fn boundaries(&mut self, value: &Bson) -> Result<Vec<Bson>, QueryError> {
        let Bson::Array(items) = value else { return self.fail(40200, "boundaries is an array") };
        let mut boundaries: Vec<Bson> = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let value = self.within(&index.to_string(), |parser| parser.constant(item, 40191))?;
            boundaries.push(value);
        }
        if boundaries.len() < 2 {
            return self.fail(40192, "boundaries has two values at least");
        }
        for (index, pair) in boundaries.windows(2).enumerate() {
            let wrong = if type_rank((&pair[0]).into()) != type_rank((&pair[1]).into()) {
                Some((40193, "all boundaries are of one type"))
            } else if compare_bson(&pair[0], &pair[1]).is_ge() {
                Some((40194, "boundaries ascend, and none comes twice"))
            } else {
                None
            };
            if let Some((code, message)) = wrong {
                return self.within(&(index + 1).to_string(), |parser| parser.fail(code, message));
            }
        }
        Ok(boundaries)
    }

    fn bucket_default(&mut self, value: &Bson, boundaries: &[Bson]) -> Result<Bson, QueryError> {
        let value = self.constant(value, 40195)?;
        let (Some(lowest), Some(highest)) = (boundaries.first(), boundaries.last()) else { return Ok(value) };
        let is_within = compare_bson(&value, lowest).is_ge() && compare_bson(&value, highest).is_lt();
        if is_within {
            return self.fail(40199, "the default lies outside of the boundaries");
        }
        Ok(value)
    }

    /// The value of an expression that needs no document.
    fn constant(&mut self, value: &Bson, code: i32) -> Result<Bson, QueryError> {
        let expression = Expression::parse(value, &mut self.filter.at)?;
        match expression.constant_value() {
            Some(value) => Ok(value.clone().unwrap_or(Bson::Null)),
            None => self.fail(code, "must be a value that needs no document"),
        }
    }
}
