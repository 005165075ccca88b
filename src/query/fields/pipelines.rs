//! `f.<name>` in the stages of a pipeline on objects.

use bson::{Bson, Document, doc};

use super::{Fields, STORED, conditions, expressions, first_entry, mentions_fields, unlimited, value_mentions_fields};
use crate::query::budget::Effort;
use crate::query::error::{Location, QueryError, code};
use crate::query::pipeline::{Pipeline, Terms};
use crate::query::sort::{Sort, SortKey};

/// Where the keys of an order are for the time of a `$sort`.
const KEYS: &str = "_sort_by_fields";

impl Fields {
    /// Compiles a client's pipeline on objects, see [`Pipeline::read_with`]. `f.<name>` may stand in `$match`, `$sort` and
    /// `$project`, and as `$f.<name>` in expressions. Pipelines inside a stage are read in the same way.
    ///
    /// # Errors
    /// As [`Pipeline::read_with`]; a name that no type has; what is not offered for a field.
    pub fn pipeline(&self, stages: &[Bson], terms: &Terms, effort: &Effort) -> Result<Pipeline, QueryError> {
        // What is wrong is said of what the client wrote, so this is read first.
        let as_sent = Pipeline::read_with(stages, terms, effort)?;
        if !stages.iter().any(value_mentions_fields) {
            return Ok(as_sent);
        }
        let rewritten = self.stages(stages, &mut Location::new(terms.place))?;
        Pipeline::read_with(&rewritten, &Terms { limits: unlimited(&terms.limits), ..*terms }, effort)
    }

    fn stages(&self, stages: &[Bson], at: &mut Location) -> Result<Vec<Bson>, QueryError> {
        let mut written = Vec::with_capacity(stages.len());
        for (index, stage) in stages.iter().enumerate() {
            at.enter(index.to_string());
            match stage.as_document() {
                Some(document) if mentions_fields(document) => self.stage(document, at, &mut written)?,
                _ => written.push(stage.clone()),
            }
            at.leave();
        }
        Ok(written)
    }

    fn stage(&self, stage: &Document, at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        for (name, operand) in stage {
            at.enter(name.as_str());
            match (name.as_str(), operand) {
                ("$match", Bson::Document(condition)) => {
                    let fields = self.clone().within(condition);
                    written.push(doc! { name: conditions::conditions(&fields, condition, at)? }.into());
                }
                ("$sort", Bson::Document(keys)) => self.order(keys, at, written)?,
                ("$project", Bson::Document(members)) => self.project(members, at, written)?,
                ("$lookup" | "$unionWith" | "$facet", Bson::Document(options)) => {
                    written.push(doc! { name: self.options(options, at)? }.into());
                }
                (_, operand) => {
                    written.push(doc! { name: expressions::rewritten(self, STORED, operand, at)? }.into());
                }
            }
            at.leave();
        }
        Ok(())
    }

    /// Members that are pipelines are read as such, others as expressions.
    fn options(&self, options: &Document, at: &mut Location) -> Result<Document, QueryError> {
        let mut written = Document::new();
        for (name, value) in options {
            at.enter(name.as_str());
            let value = match value {
                Bson::Array(stages) => Bson::Array(self.stages(stages, at)?),
                value => expressions::rewritten(self, STORED, value, at)?,
            };
            written.insert(name, value);
            at.leave();
        }
        Ok(written)
    }

    /// The values of fields stand beside the document while it is sorted, null for missing ones.
    fn order(&self, keys: &Document, at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let (mut order, mut beside) = (Document::new(), Document::new());
        for (path, direction) in keys {
            at.enter(path.as_str());
            match self.resolved(path, at)? {
                None => drop(order.insert(path, direction.clone())),
                Some(field) if field.rest.is_none() => {
                    let key = format!("k{}", order.len());
                    order.insert(format!("{KEYS}.{key}"), direction.clone());
                    beside.insert(key, key_of(STORED, field.name));
                }
                Some(field) => {
                    let message = format!("sorts by whole values only; sort by f.{}", field.name);
                    return Err(at.malformed(code::BAD_VALUE, message));
                }
            }
            at.leave();
        }
        ordered(order, beside, written);
        Ok(())
    }

    /// `{"f.a": 1}` leaves that entry alone of the fields, `{"f.a": 0}` all others.
    fn project(&self, members: &Document, at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let (mut others, mut names, mut keeps) = (Document::new(), Vec::new(), None);
        for (path, said) in members {
            at.enter(path.as_str());
            match self.resolved(path, at)? {
                None => drop(others.insert(path, expressions::rewritten(self, STORED, said, at)?)),
                Some(field) => {
                    let flag = crate::query::projection::flag(said).filter(|_| field.rest.is_none());
                    match (flag, keeps) {
                        (Some(flag), None) => keeps = Some(flag),
                        (Some(flag), Some(before)) if flag == before => {}
                        _ => {
                            let message = "in $project a field takes 1, or 0 as all others do; compute with $set";
                            return Err(at.malformed(code::BAD_VALUE, message));
                        }
                    }
                    names.push(Bson::from(field.name));
                }
            }
            at.leave();
        }
        let Some(keeps) = keeps else {
            written.push(doc! { "$project": others }.into());
            return Ok(());
        };
        let fields = format!("${STORED}");
        let is_named = doc! { "$in": ["$$this.name", { "$literal": names }] };
        let wanted = if keeps {
            is_named
        } else {
            doc! { "$not": [is_named] }
        };
        let left = doc! { "$cond": [
            { "$isArray": [&fields] }, { "$filter": { "input": &fields, "cond": wanted } }, &fields
        ] };
        if keeps {
            others.insert(STORED, left);
            written.push(doc! { "$project": others }.into());
            return Ok(());
        }
        written.push(doc! { "$set": { STORED: left } }.into());
        if !others.is_empty() {
            written.push(doc! { "$project": others }.into());
        }
        Ok(())
    }
}

/// The stages that order documents as a sort does. With `wholly`, documents with equal keys are ordered by all that they have.
pub fn order_stages(sort: &Sort, wholly: bool) -> Vec<Bson> {
    let (mut order, mut beside) = (Document::new(), Document::new());
    for key in sort.keys() {
        let direction = if key.descending() { -1 } else { 1 };
        match key {
            SortKey::Path { path, .. } => drop(order.insert(path.as_str(), direction)),
            SortKey::Entry { array, name, .. } => {
                let key = format!("k{}", order.len());
                order.insert(format!("{KEYS}.{key}"), direction);
                beside.insert(key, key_of(array.as_str(), name));
            }
        }
    }
    if wholly {
        order.insert(format!("{KEYS}.all"), 1);
        beside.insert("all", "$$ROOT");
    }
    let mut written = Vec::new();
    ordered(order, beside, &mut written);
    written
}

/// The value of a field, null for a missing one. It is in a document of its own: an array is ordered as a whole.
fn key_of(array: &str, name: &str) -> Document {
    let value = doc! { "v": { "$ifNull": ["$$entry.value", null] } };
    doc! { "$let": { "vars": { "entry": first_entry(array, name) }, "in": value } }
}

/// A `$sort`; its computed keys stand beside the document meanwhile.
fn ordered(order: Document, beside: Document, written: &mut Vec<Bson>) {
    if beside.is_empty() {
        written.push(doc! { "$sort": order }.into());
        return;
    }
    let stages = [doc! { "$set": { KEYS: beside } }, doc! { "$sort": order }, doc! { "$unset": KEYS }];
    written.extend(stages.map(Bson::from));
}
