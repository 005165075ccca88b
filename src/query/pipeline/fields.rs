//! `$project`, `$addFields`, `$set`, `$unset`, `$replaceRoot`, `$replaceWith`.

use bson::Bson;

use super::QueryError;
use super::parser::PipelineParser;
use super::stage::Stage;
use crate::query::expr::Expression;
use crate::query::projection::Projection;

impl PipelineParser {
    pub(super) fn project(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let Bson::Document(members) = operand else {
            return self.fail(15969, "$project takes a document: {path: 1}, {path: 0} or {path: expression}");
        };
        if members.is_empty() {
            return self.fail(51272, "$project needs a member at least");
        }
        Ok(Stage::Project(Box::new(Projection::of_stage(&mut self.filter, members)?)))
    }

    pub(super) fn add_fields(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let Bson::Document(members) = operand else {
            return self.fail(40272, "takes a document: {path: expression}");
        };
        Ok(Stage::Project(Box::new(Projection::adding(&mut self.filter, members)?)))
    }

    pub(super) fn unset(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let paths = match operand {
            Bson::String(path) => vec![path.as_str()],
            Bson::Array(paths) if paths.is_empty() => return self.fail(31119, "$unset needs a path at least"),
            Bson::Array(paths) => {
                let texts: Option<Vec<&str>> = paths.iter().map(Bson::as_str).collect();
                match texts {
                    Some(texts) => texts,
                    None => return self.fail(31120, "$unset takes paths, which are texts"),
                }
            }
            _ => return self.fail(31002, "$unset takes a path or a list of paths"),
        };
        if paths.iter().any(|path| path.contains('\0')) {
            return self.fail(9_527_900, "a path must not contain a zero byte");
        }
        Ok(Stage::Project(Box::new(Projection::leaving_out(&mut self.filter, &paths)?)))
    }

    pub(super) fn replace_root(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        let Bson::Document(options) = operand else {
            return self.fail(40229, "$replaceRoot takes a document: {newRoot: expression}");
        };
        self.only(options, &["newRoot"], 40415)?;
        match options.get("newRoot") {
            Some(value) => self.within("newRoot", |parser| parser.replace_with(value)),
            None => self.fail(40414, "$replaceRoot needs newRoot"),
        }
    }

    pub(super) fn replace_with(&mut self, operand: &Bson) -> Result<Stage, QueryError> {
        Ok(Stage::Replace(Box::new(Expression::parse(operand, &mut self.filter.at)?)))
    }
}
