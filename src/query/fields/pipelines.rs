//! `f.<name>` in the stages of a pipeline on objects.

use bson::{Bson, Document, doc};

use super::{
    FieldPath, Fields, OBJECTS, PREFIX, STORED, conditions, expressions, first_entry, mentions_fields, unlimited,
    value_mentions_fields,
};
use crate::query::budget::Effort;
use crate::query::error::{Location, QueryError, code};
use crate::query::pipeline::{Pipeline, Terms};
use crate::query::sort::{Sort, SortKey};

/// Where the keys of an order are for the time of a `$sort`.
const KEYS: &str = "_sort_by_fields";
/// Where the value of a field is for the time of a `$lookup`.
const JOINED: &str = "_joined_by_field";

impl Fields {
    /// Compiles a client's pipeline on objects, see [`Pipeline::read_with`]. `f.<name>` may stand in `$match`, `$sort`, `$project`,
    /// `$unset` and as the `localField` of a `$lookup`, and `$f.<name>` in expressions. Pipelines inside a stage are read in the
    /// same way.
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
                ("$lookup", Bson::Document(options)) => self.lookup(options, at, written)?,
                ("$unwind", operand) => {
                    self.refuse_unwinding(operand, at)?;
                    written.push(stage.clone().into());
                }
                ("$unset", Bson::Array(names)) => self.unset(names, at, written)?,
                ("$unset", name) => self.unset(std::slice::from_ref(name), at, written)?,
                ("$set" | "$addFields", Bson::Document(members)) => {
                    members.keys().try_for_each(|name| refuse_writing(name, at))?;
                    written.push(doc! { name: expressions::rewritten(self, STORED, operand, at)? }.into());
                }
                ("$unionWith" | "$facet", Bson::Document(options)) => {
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

    /// The value of a field stands beside the document while others are looked up by it.
    fn lookup(&self, options: &Document, at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let text = |name: &str| options.get_str(name).unwrap_or_default();
        at.enter("as");
        refuse_writing(text("as"), at)?;
        at.leave();
        at.enter("foreignField");
        if text("from") == OBJECTS
            && let Some(field) = self.resolved(text("foreignField"), at)?
        {
            let (name, here) = (field.name, text("localField"));
            let message = format!(
                "finds no fields; write \"foreignField\": \"fields.value\", \"let\": {{\"here\": \"${here}\"}}, \"pipeline\": \
                 [{{\"$match\": {{\"$expr\": {{\"$eq\": [\"$f.{name}\", \"$$here\"]}}}}}}]"
            );
            return Err(at.malformed(code::BAD_VALUE, message));
        }
        at.leave();
        at.enter("localField");
        let here = self.resolved(text("localField"), at)?;
        at.leave();
        let mut options = self.options(options, at)?;
        let Some(here) = here else {
            written.push(doc! { "$lookup": options }.into());
            return Ok(());
        };
        options.insert("localField", format!("{JOINED}.v"));
        let value = doc! { "v": expressions::value_of(&here, STORED) };
        let stages = [doc! { "$set": { JOINED: value } }, doc! { "$lookup": options }, doc! { "$unset": JOINED }];
        written.extend(stages.map(Bson::from));
        Ok(())
    }

    /// Elements of a value stand nowhere in the document, so they must get a place first.
    fn refuse_unwinding(&self, operand: &Bson, at: &mut Location) -> Result<(), QueryError> {
        let options = operand.as_document();
        if let Some(name) = options.and_then(|options| options.get_str("includeArrayIndex").ok()) {
            refuse_writing(name, at)?;
        }
        let path = options.map_or(operand.as_str(), |options| options.get_str("path").ok());
        let Some(path) = path.filter(|path| path.starts_with(expressions::PREFIX)) else { return Ok(()) };
        if options.is_some() {
            at.enter("path");
        }
        self.resolved(&path[1..], at)?;
        let message = format!(
            "unwinds members, and a field is none; write {{\"$set\": {{\"values\": \"{path}\"}}}}, {{\"$unwind\": \"$values\"}}"
        );
        Err(at.malformed(code::BAD_VALUE, message))
    }

    /// As a `$project` with 0.
    fn unset(&self, names: &[Bson], at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let mut members = Document::new();
        for name in names.iter().filter_map(Bson::as_str) {
            if let Some(FieldPath { name, rest: Some(_) }) = self.resolved(name, at)? {
                let message = format!("leaves out whole fields only: f.{name}");
                return Err(at.malformed(code::BAD_VALUE, message));
            }
            members.insert(name, 0);
        }
        self.project(&members, at, written)
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

/// What a stage makes cannot be called like a field: it would be a member `f` beside the fields.
fn refuse_writing(name: &str, at: &mut Location) -> Result<(), QueryError> {
    let Some(field) = name.strip_prefix(PREFIX) else { return Ok(()) };
    at.enter(name);
    let message = format!("a stage changes no field; use a name without f., for instance {field}");
    Err(at.malformed(code::BAD_VALUE, message))
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
