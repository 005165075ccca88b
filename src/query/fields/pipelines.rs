//! `f.<name>` in the stages of a pipeline on objects.

use std::slice;

use bson::{Bson, Document, doc};

use super::{
    Entry, FieldPath, Fields, OBJECTS, PREFIX, STORED, VALUE, addresses, conditions, expressions, mentions_fields,
    unlimited, value_mentions_fields,
};
use crate::query::budget::Effort;
use crate::query::entry;
use crate::query::error::{QueryError, code};
use crate::query::parse_context::Location;
use crate::query::path::Path;
use crate::query::pipeline::{Pipeline, Terms};
use crate::query::projection::flag;
use crate::query::sort::{Sort, direction_of};

/// Where the keys of an order are for the time of a `$sort`.
const KEYS: &str = "_sort_by_fields";
/// Where the value of a field is for the time of a `$lookup`.
const JOINED: &str = "_joined_by_field";

impl Fields {
    /// Compiles a client's pipeline on objects, see [`Pipeline::read_with`]. `f.<name>` may be used in `$match`, `$sort`,
    /// `$project`, `$unset` and as the `localField` of a `$lookup`, and `$f.<name>` in expressions. Pipelines inside a stage
    /// are read in the same way.
    ///
    /// # Errors
    /// As [`Pipeline::read_with`]; a name that no type has; what is not offered for a field.
    pub fn pipeline(&self, stages: &[Bson], terms: &Terms, effort: &Effort) -> Result<Pipeline, QueryError> {
        // Errors refer to what the client wrote, so this is read first.
        let as_sent = Pipeline::read_with(stages, terms, effort)?;
        if !stages.iter().any(value_mentions_fields) {
            return Ok(as_sent);
        }
        let rewritten = self.stages(stages, &mut Location::new(terms.place))?;
        Pipeline::read_with(&rewritten, &Terms { limits: unlimited(&terms.limits), ..*terms }, effort)
    }

    /// Reads what follows these stages.
    #[must_use]
    pub fn behind(&self, stages: &[Bson]) -> Self {
        let makes_others = |stage: &Bson| stage.as_document().is_some_and(Self::makes_others);
        Self { is_plain: self.is_plain || stages.iter().any(makes_others), ..self.clone() }
    }

    /// Whether documents have a member `f` after a stage, or are no objects.
    fn makes_others(stage: &Document) -> bool {
        let is_f = |name: &str| name == "f";
        let is_stored = |name: &str| name.split('.').next() == Some(STORED);
        stage.iter().any(|(name, operand)| match (name.as_str(), operand) {
            ("$group" | "$bucket" | "$sortByCount" | "$count" | "$facet" | "$replaceRoot" | "$replaceWith", _) => true,
            ("$set" | "$addFields", Bson::Document(members)) => members.keys().any(|name| is_f(name)),
            ("$lookup", Bson::Document(options)) => options.get_str("as").is_ok_and(is_f),
            ("$unwind", Bson::String(path)) => path.strip_prefix('$') == Some(STORED),
            ("$unwind", Bson::Document(options)) => {
                options.get_str("path").is_ok_and(|path| path.strip_prefix('$') == Some(STORED))
                    || options.get_str("includeArrayIndex").is_ok_and(is_f)
            }
            ("$unset", Bson::String(name)) => name == STORED,
            ("$unset", Bson::Array(names)) => names.contains(&STORED.into()),
            ("$project", Bson::Document(members)) => {
                let members = flattened(members);
                let keeps = |(_, said): (&String, &Bson)| flag(said) != Some(false);
                let is_made = members.iter().any(|member| is_f(member.0) && keeps(member));
                if members.iter().filter(|(name, _)| *name != "_id").any(keeps) {
                    let is_kept = |name: &String| is_stored(name) || name.starts_with(PREFIX);
                    is_made || !members.keys().any(is_kept)
                } else {
                    members.contains_key(STORED)
                }
            }
            _ => false,
        })
    }

    fn stages(&self, stages: &[Bson], at: &mut Location) -> Result<Vec<Bson>, QueryError> {
        let (mut reader, mut written) = (self.clone(), Vec::with_capacity(stages.len()));
        for (index, stage) in stages.iter().enumerate() {
            at.enter(index.to_string());
            match stage.as_document() {
                Some(document) if mentions_fields(document) => reader.stage(document, at, &mut written)?,
                _ => written.push(stage.clone()),
            }
            reader = reader.behind(slice::from_ref(stage));
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
                    written.push(doc! { name: conditions::rewritten(&fields, condition, at)? }.into());
                }
                ("$sort", Bson::Document(keys)) => self.order(keys, at, written)?,
                ("$project", Bson::Document(members)) => self.project(members, at, written)?,
                ("$lookup", Bson::Document(options)) => self.lookup(options, at, written)?,
                ("$unwind", operand) => {
                    self.refuse_unwinding(operand, at)?;
                    written.push(stage.clone().into());
                }
                ("$unset", Bson::Array(names)) => self.unset(names, at, written)?,
                ("$unset", name) => self.unset(slice::from_ref(name), at, written)?,
                ("$set" | "$addFields", Bson::Document(members)) => {
                    members.keys().try_for_each(|name| self.refuse_writing(name, at))?;
                    written.push(doc! { name: expressions::rewritten(self, STORED, operand, at)? }.into());
                }
                ("$facet", Bson::Document(facets)) => {
                    written.push(doc! { name: self.options(facets, self, at)? }.into());
                }
                ("$unionWith", Bson::Document(options)) => {
                    written.push(doc! { name: self.options(options, &self.of("coll", options), at)? }.into());
                }
                (_, operand) => {
                    self.refuse_ranking(operand, at)?;
                    written.push(doc! { name: expressions::rewritten(self, STORED, operand, at)? }.into());
                }
            }
            at.leave();
        }
        Ok(())
    }

    /// As it reads a pipeline on the collection that an option names.
    fn of(&self, option: &str, options: &Document) -> Self {
        Self { is_plain: !options.get_str(option).is_ok_and(|name| name == OBJECTS), ..self.clone() }
    }

    /// Members that are pipelines are read as `inner` does, others as expressions.
    fn options(&self, options: &Document, inner: &Self, at: &mut Location) -> Result<Document, QueryError> {
        let mut written = Document::new();
        for (name, value) in options {
            at.enter(name.as_str());
            let value = match value {
                Bson::Array(stages) => Bson::Array(inner.stages(stages, at)?),
                value => expressions::rewritten(self, STORED, value, at)?,
            };
            written.insert(name, value);
            at.leave();
        }
        Ok(written)
    }

    /// The value of a field is stored next to the document while others are looked up by it.
    fn lookup(&self, options: &Document, at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let text = |name: &str| options.get_str(name).unwrap_or_default();
        at.enter("as");
        self.refuse_writing(text("as"), at)?;
        at.leave();
        let inner = self.of("from", options);
        at.enter("foreignField");
        if let Some(field) = inner.resolved(text("foreignField"), at)? {
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
        let mut options = self.options(options, &inner, at)?;
        let Some(here) = here else {
            written.push(doc! { "$lookup": options }.into());
            return Ok(());
        };
        options.insert("localField", format!("{JOINED}.{}", here.in_entry()));
        let value = doc! { VALUE: entry::value_of(STORED, here.name) };
        let stages = [doc! { "$set": { JOINED: value } }, doc! { "$lookup": options }, doc! { "$unset": JOINED }];
        written.extend(stages.map(Bson::from));
        Ok(())
    }

    /// Elements of a value are at no place in the document, so they must get one first.
    fn refuse_unwinding(&self, operand: &Bson, at: &mut Location) -> Result<(), QueryError> {
        let options = operand.as_document();
        if let Some(name) = options.and_then(|options| options.get_str("includeArrayIndex").ok()) {
            self.refuse_writing(name, at)?;
        }
        let path = options.map_or(operand.as_str(), |options| options.get_str("path").ok());
        let Some(path) = path.filter(|path| path.starts_with('$')) else { return Ok(()) };
        if options.is_some() {
            at.enter("path");
        }
        let field = self.resolved(&path[1..], at)?;
        if options.is_some() && field.is_none() {
            at.leave();
        }
        if field.is_none() {
            return Ok(());
        }
        let message = format!(
            "unwinds members, not fields; write {{\"$set\": {{\"values\": \"{path}\"}}}}, {{\"$unwind\": \"$values\"}}"
        );
        Err(at.malformed(code::BAD_VALUE, message))
    }

    /// The keys by which an accumulator ranks documents are members of these.
    fn refuse_ranking(&self, operand: &Bson, at: &mut Location) -> Result<(), QueryError> {
        for (name, value) in operand.as_document().into_iter().flatten() {
            at.enter(name.as_str());
            match (name.as_str(), value.as_document().and_then(|ranking| ranking.get_document("sortBy").ok())) {
                ("$top" | "$bottom" | "$topN" | "$bottomN", Some(keys)) => {
                    if let Some(path) = keys.keys().find(|path| path.starts_with(PREFIX) && !self.is_plain) {
                        let message = format!(
                            "ranks by members, not fields; write {{\"$set\": {{\"rank\": \"${path}\"}}}} in front, and \
                             \"sortBy\": {{\"rank\": ...}}"
                        );
                        return Err(at.malformed(code::BAD_VALUE, message));
                    }
                }
                _ => self.refuse_ranking(value, at)?,
            }
            at.leave();
        }
        Ok(())
    }

    /// As a `$project` with 0.
    fn unset(&self, names: &[Bson], at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let mut members = Document::new();
        for name in names.iter().filter_map(Bson::as_str) {
            if let Some(FieldPath { name, rest: Some(_), .. }) = self.resolved(name, at)? {
                let message = format!("leaves out whole fields only: f.{name}");
                return Err(at.malformed(code::BAD_VALUE, message));
            }
            members.insert(name, 0);
        }
        self.project(&members, at, written)
    }

    fn order(&self, keys: &Document, at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let mut sort = Sort::default();
        for (path, direction) in keys {
            at.enter(path.as_str());
            let field = self.resolved(path, at)?.map(|field| field.of_order());
            sort = sort.then_by(field.unwrap_or_else(|| Path::new(path)), direction_of(at, direction)?);
            at.leave();
        }
        written.extend(order_stages(&sort, false));
        Ok(())
    }

    /// `{"f.a": 1}` leaves that entry alone of the fields, `{"f.a": 0}` all others.
    fn project(&self, members: &Document, at: &mut Location, written: &mut Vec<Bson>) -> Result<(), QueryError> {
        let (mut others, mut names, mut keeps) = (Document::new(), Vec::new(), None);
        for (path, said) in &flattened(members) {
            at.enter(path.as_str());
            match self.resolved(path, at)? {
                None => drop(others.insert(path, expressions::rewritten(self, STORED, said, at)?)),
                Some(field) => {
                    let flag = flag(said).filter(|_| field.rest.is_none());
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

    /// A stage must not give its output the name of a field: it would be a member `f` in addition to the fields.
    fn refuse_writing(&self, name: &str, at: &mut Location) -> Result<(), QueryError> {
        let Some(field) = name.strip_prefix(PREFIX).filter(|_| !self.is_plain) else { return Ok(()) };
        at.enter(name);
        let message = format!("a stage changes no field; use a name without f., for instance {field}");
        Err(at.malformed(code::BAD_VALUE, message))
    }
}

/// The members of a `$project`; those of `f` as paths, where they only keep or leave out.
fn flattened(members: &Document) -> Document {
    let only_flags = |below: &&Document| !below.is_empty() && below.values().all(|said| flag(said).is_some());
    let mut all = Document::new();
    for (name, said) in members {
        match said.as_document().filter(only_flags).filter(|_| name == "f") {
            Some(below) => all.extend(below.iter().map(|(name, said)| (format!("{PREFIX}{name}"), said.clone()))),
            None => drop(all.insert(name, said.clone())),
        }
    }
    all
}

/// The values of the fields that are keys of an order, for a place next to the documents, and the order by them. `at` leads
/// to that place, and `to_document` to the documents.
pub fn keys_beside(sort: &Sort, at: &str, to_document: &str) -> (Document, Document) {
    let (mut values, mut order) = (Document::new(), Document::new());
    let mut entries: Vec<&Entry> = Vec::new();
    for key in sort.keys() {
        let path = match key.path.entry() {
            None => format!("{to_document}{}", key.path.as_str()),
            Some(entry) => {
                let place = entries.iter().position(|known| *known == entry).unwrap_or(entries.len());
                if place == entries.len() {
                    entries.push(entry);
                    let value = entry::value_of(STORED, entry.name());
                    let value = if entry.is_by_address() { addresses::key_of(value) } else { value };
                    values.insert(place.to_string(), value);
                }
                let rest = key.path.rest().map(|rest| format!(".{rest}")).unwrap_or_default();
                format!("{at}.{place}{rest}")
            }
        };
        order.insert(path, if key.descending { -1 } else { 1 });
    }
    (values, order)
}

/// The stages that order documents as a sort does. With `wholly`, documents with equal keys are ordered by all that they have.
///
/// The values of fields are stored next to the document meanwhile.
pub fn order_stages(sort: &Sort, wholly: bool) -> Vec<Bson> {
    let (mut beside, mut order) = keys_beside(sort, KEYS, "");
    if wholly {
        order.insert(format!("{KEYS}.all"), 1);
        beside.insert("all", "$$ROOT");
    }
    let sorted = doc! { "$sort": order };
    if beside.is_empty() {
        return vec![sorted.into()];
    }
    [doc! { "$set": { KEYS: beside } }, sorted, doc! { "$unset": KEYS }].map(Bson::from).to_vec()
}
