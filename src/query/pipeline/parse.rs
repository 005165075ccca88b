//! Parses a pipeline. Every refusal of one happens here and in the files of the stages.

use bson::{Bson, Document, doc};

use super::parser::PipelineParser;
use super::stage::Stage;
use super::{Filter, Pipeline, QueryError, Sort};
use crate::query::compare::number;
use crate::query::entry::names;
use crate::query::error::code;
use crate::query::filter::parser::Level;
use crate::query::number::Number;
use crate::query::path::check_field_path;
use crate::query::sort::direction_of;
use crate::suggest::hint;

/// The stages that are offered.
pub const STAGES: [&str; 20] = [
    "$match", "$sort", "$skip", "$limit", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith",
    "$count", "$group", "$unwind", "$sortByCount", "$bucket", "$facet", "$lookup", "$sample", "$unionWith", "$redact",
];

/// Stages that MongoDB has and that are not offered here, with the reason.
const REFUSED: [(&str, &str); 22] = [
    ("$out", "it writes, and pipelines only read"),
    ("$merge", "it writes, and pipelines only read"),
    ("$graphLookup", "not offered; use $lookup"),
    ("$geoNear", "not offered"),
    ("$bucketAuto", "not offered; use $bucket"),
    ("$densify", "not offered"),
    ("$fill", "not offered"),
    ("$documents", "not offered"),
    ("$setWindowFields", "not offered; use $group"),
    ("$changeStream", "only a MongoDB server has what it asks for"),
    ("$collStats", "only a MongoDB server has what it asks for"),
    ("$indexStats", "only a MongoDB server has what it asks for"),
    ("$planCacheStats", "only a MongoDB server has what it asks for"),
    ("$currentOp", "only a MongoDB server has what it asks for"),
    ("$listSessions", "only a MongoDB server has what it asks for"),
    ("$listLocalSessions", "only a MongoDB server has what it asks for"),
    ("$listCatalog", "only a MongoDB server has what it asks for"),
    ("$operationMetrics", "only a MongoDB server has what it asks for"),
    ("$shardedDataDistribution", "only a MongoDB server has what it asks for"),
    ("$search", "only a MongoDB server has what it asks for"),
    ("$searchMeta", "only a MongoDB server has what it asks for"),
    ("$_internalInhibitOptimization", "it is for MongoDB itself"),
];

/// How many stages a pipeline may have, sub-pipelines included, as in MongoDB.
const MAX_STAGES: usize = 1000;
/// How deep pipelines may be in one another, as in MongoDB.
const MAX_PIPELINES: usize = 20;
/// How many keys an order may have, as in MongoDB.
const MAX_KEYS: usize = 32;

impl PipelineParser {
    /// The whole pipeline, on a collection.
    pub(super) fn pipeline(mut self, stages: &[Bson], collection: Option<&str>) -> Result<Pipeline, QueryError> {
        for (index, stage) in stages.iter().enumerate() {
            if let Bson::Document(stage) = stage {
                self.within(&index.to_string(), |parser| parser.filter.check_size(stage))?;
            }
        }
        self.inner(stages, collection)
    }

    /// A pipeline in whatever place; without a collection, on what another stage gives.
    pub(super) fn inner(&mut self, stages: &[Bson], collection: Option<&str>) -> Result<Pipeline, QueryError> {
        self.depth += 1;
        if self.depth > MAX_PIPELINES {
            return self.fail(5_107_000, "pipelines are nested too deeply");
        }
        let mut pipeline = Pipeline::empty();
        self.leave_out(collection.and_then(|name| self.unseen.of_collection(name)), &mut pipeline)?;
        let mut everywhere = collection.and(self.unseen.everywhere);
        for (index, stage) in stages.iter().enumerate() {
            let parsed = self.within(&index.to_string(), |parser| parser.stage(stage))?;
            match parsed.first() {
                Some(stage) if stage.is_selection() => {}
                // A number of documents is the same without the member.
                Some(Stage::Count(_)) => everywhere = None,
                _ => self.leave_out(everywhere.take(), &mut pipeline)?,
            }
            pipeline.documents.extend(parsed.first().and_then(|first| first.written(stage)));
            pipeline.stages.extend(parsed);
        }
        self.leave_out(everywhere, &mut pipeline)?;
        self.depth -= 1;
        Ok(pipeline)
    }

    fn leave_out(&mut self, member: Option<&'static str>, pipeline: &mut Pipeline) -> Result<(), QueryError> {
        let Some(member) = member else { return Ok(()) };
        pipeline.stages.push(self.unset(&member.into())?);
        pipeline.documents.push(doc! { "$unset": member });
        Ok(())
    }

    fn stage(&mut self, stage: &Bson) -> Result<Vec<Stage>, QueryError> {
        self.stages += 1;
        if self.stages > MAX_STAGES {
            return Err(self.filter.at.limit(format!("more than {MAX_STAGES} stages; ask in several parts")));
        }
        let Bson::Document(stage) = stage else {
            let code = if self.within_facet { 40171 } else { code::TYPE_MISMATCH };
            return self.fail(code, "a stage is a document, such as {\"$match\": {}}");
        };
        let (Some((name, operand)), 1) = (stage.iter().next(), stage.len()) else {
            return self.fail(40323, "a stage has exactly one member: its name with its operand");
        };
        self.within(name, |parser| parser.named(name, operand))
    }

    fn named(&mut self, name: &str, operand: &Bson) -> Result<Vec<Stage>, QueryError> {
        let one = match name {
            "$match" => self.condition(operand)?,
            "$sort" => match operand {
                Bson::Document(keys) if keys.is_empty() => return self.fail(15976, "$sort needs a key at least"),
                Bson::Document(keys) => Stage::Sort(self.order(keys)?),
                _ => return self.fail(15973, "$sort takes a document: {path: 1} or {path: -1}"),
            },
            "$skip" => Stage::Skip(self.whole(operand, 5_107_200)?),
            "$limit" => match self.whole(operand, 5_107_201)? {
                0 => return self.fail(15958, "the limit must be positive"),
                count => Stage::Limit(count),
            },
            "$project" => self.project(operand)?,
            "$addFields" | "$set" => self.add_fields(operand)?,
            "$unset" => self.unset(operand)?,
            "$replaceRoot" => self.replace_root(operand)?,
            "$replaceWith" => self.replace_with(operand)?,
            "$count" => self.count(operand)?,
            "$group" => Stage::Group(Box::new(self.group(operand)?)),
            "$unwind" => Stage::Unwind(self.unwind(operand)?),
            "$sortByCount" => return self.sort_by_count(operand),
            "$bucket" => return self.bucket(operand),
            "$facet" => self.facet(operand)?,
            "$lookup" => Stage::Lookup(Box::new(self.lookup(operand)?)),
            "$sample" => self.sample(operand)?,
            "$unionWith" => Stage::Union(Box::new(self.union_with(operand)?)),
            "$redact" => Stage::Redact(Box::new(self.redact(operand)?)),
            _ => return self.unknown(name),
        };
        Ok(vec![one])
    }

    fn unknown<T>(&self, name: &str) -> Result<T, QueryError> {
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(self.filter.at.refused(format!("{name} is not supported: {why}")));
        }
        self.fail(40324, format!("unknown stage{}", hint(name, &STAGES)))
    }

    fn condition(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let Bson::Document(condition) = operand else { return self.fail(15959, "$match takes a filter") };
        let tree = self.filter.document(condition, Level::Top)?.settled();
        // What an expression says of the variables around it, no server knows.
        let is_bound = !self.filter.at.bindings().is_empty() && names(operand, "$expr");
        let (server, has_own) = (self.filter.server.take(), std::mem::take(&mut self.filter.has_own) || is_bound);
        Ok(Stage::Match(Filter::of_tree(condition.clone(), tree, server, has_own)))
    }

    /// The keys of an order.
    pub(super) fn order(&mut self, keys: &Document) -> Result<Sort, QueryError> {
        let mut sort = Sort::default();
        if keys.len() > MAX_KEYS {
            return self.fail(13103, format!("an order has at most {MAX_KEYS} keys"));
        }
        for (path, direction) in keys {
            let descending = self.within(path, |parser| {
                if let Bson::Document(direction) = direction {
                    return match direction.keys().next() {
                        Some(name) if name == "$meta" => Err(parser.filter.at.refused("$meta is not supported")),
                        _ => parser.fail(17312, "a direction is 1 (ascending) or -1 (descending)"),
                    };
                }
                check_field_path(&parser.filter.at, path)?;
                direction_of(&parser.filter.at, direction)
            })?;
            sort = sort.then(path, descending);
        }
        Ok(sort)
    }

    fn whole(&self, operand: &Bson, code: i32) -> Result<u64, QueryError> {
        let count = number(operand.into()).and_then(Number::as_exact_int).and_then(|count| u64::try_from(count).ok());
        match count {
            Some(count) => Ok(count),
            None => self.fail(code, "must be a whole number, not below 0"),
        }
    }

    fn sample(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let Bson::Document(options) = operand else { return self.fail(28745, "$sample takes {size: number}") };
        self.only(options, &["size"], 28748)?;
        let Some(size) = options.get("size") else { return self.fail(28749, "$sample needs size") };
        self.within("size", |parser| match number(size.into()).map(Number::truncated) {
            None => parser.fail(28746, "must be a number"),
            Some(size) => match u64::try_from(size.unwrap_or(i64::MAX)) {
                Ok(size) => Ok(Stage::Sample(size)),
                Err(_) => parser.fail(28747, "must not be negative"),
            },
        })
    }

    fn facet(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let Some(parts) = operand.as_document().filter(|parts| !parts.is_empty()) else {
            return self.fail(40169, "$facet takes a document: {name: [stages]}");
        };
        if self.within_facet {
            return self.fail(40600, "$facet cannot stand in $facet");
        }
        let mut pipelines = Vec::with_capacity(parts.len());
        for (name, stages) in parts {
            let pipeline = self.within(name, |parser| {
                if name.contains('.') {
                    return parser.fail(16412, "the name of a facet has no dot");
                }
                check_field_path(&parser.filter.at, name).map_err(|error| match error.code {
                    40352 => QueryError { code: 15998, ..error },
                    _ => error,
                })?;
                let Bson::Array(stages) = stages else { return parser.fail(40170, "a facet is an array of stages") };
                parser.within_facet = true;
                let pipeline = parser.inner(stages, None)?;
                parser.within_facet = false;
                Ok(pipeline)
            })?;
            pipelines.push((name.clone(), pipeline));
        }
        Ok(Stage::Facet(pipelines))
    }
}
