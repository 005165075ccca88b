//! `$lookup` and `$unionWith`: the documents of other collections.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};

use super::parser::PipelineParser;
use super::{Budget, EvalError, Filter, Flow, Front, Pipeline, QueryError, Source};
use crate::query::error::code;
use crate::query::expr::{Expression, check_variable_name};
use crate::query::filter::Limits;
use crate::query::parse_context::Binding;
use crate::query::path::check_field_path;
use crate::query::projection::{document_of, set_nested};
use crate::query::raw::{Value, append, begin, end, kind, member};

/// How many bytes the documents that one document finds may have: those of a MongoDB document.
const MAX_FOUND: usize = 16 * 1024 * 1024;

/// `$lookup`.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    pub(super) from: String,
    into: Vec<String>,
    /// The path here and the path there whose values are equal.
    fields: Option<(Vec<String>, String)>,
    sub: Option<SubPipeline>,
}

/// The pipeline of a `$lookup`, which may depend on the document.
#[derive(Debug, Clone)]
struct SubPipeline {
    /// Compiled without the values of the variables.
    checked: Pipeline,
    written: Vec<Bson>,
    variables: Vec<(String, Expression)>,
    /// Those of the pipelines around it.
    bound: Vec<(String, Binding)>,
    now: Option<DateTime>,
}

/// `$unionWith`.
#[derive(Debug, Clone)]
pub(super) struct Union {
    pub(super) from: String,
    pub(super) pipeline: Pipeline,
}

impl PipelineParser {
    pub(super) fn union_with(&mut self, operand: &Bson) -> Result<Union, QueryError> {
        let options = match operand {
            Bson::String(from) => return Ok(Union { from: from.clone(), pipeline: self.inner(&[], Some(from))? }),
            Bson::Document(options) => options,
            _ => return self.fail(code::FAILED_TO_PARSE, "$unionWith takes a collection, or {coll, pipeline}"),
        };
        self.only(options, &["coll", "pipeline"], 40415)?;
        let from = match options.get("coll") {
            Some(Bson::String(from)) => from.clone(),
            Some(_) => return self.fail(code::TYPE_MISMATCH, "coll is the name of a collection"),
            None => return self.fail(code::FAILED_TO_PARSE, "$unionWith needs coll"),
        };
        let pipeline = match options.get("pipeline") {
            None => self.inner(&[], Some(&from))?,
            Some(Bson::Array(stages)) => self.within("pipeline", |parser| parser.inner(stages, Some(&from)))?,
            Some(_) => return self.fail(code::TYPE_MISMATCH, "pipeline is an array of stages"),
        };
        Ok(Union { from, pipeline })
    }

    pub(super) fn lookup(&mut self, operand: &Bson) -> Result<Lookup, QueryError> {
        let Bson::Document(options) = operand else {
            return self.fail(code::FAILED_TO_PARSE, "$lookup takes a document of options");
        };
        self.only(options, &["from", "as", "localField", "foreignField", "let", "pipeline"], code::FAILED_TO_PARSE)?;
        let from = self.text(options, "from")?;
        let into = self.path_option(options, "as")?;
        let here = self.path_option(options, "localField")?;
        let there = self.path_option(options, "foreignField")?;
        let sub = match (options.get("pipeline"), options.get("let")) {
            (None, Some(_)) => return self.fail(code::FAILED_TO_PARSE, "$lookup with let needs a pipeline too"),
            (None, None) => match &from {
                Some(from) if self.hides_of(from) => Some(self.sub_pipeline(from, &[], None)?),
                _ => None,
            },
            (Some(Bson::Array(stages)), variables) => {
                Some(self.sub_pipeline(from.as_deref().unwrap_or_default(), stages, variables)?)
            }
            (Some(_), _) => return self.fail(code::TYPE_MISMATCH, "pipeline is an array of stages"),
        };
        let Some(into) = into else { return self.fail(code::FAILED_TO_PARSE, "$lookup needs as") };
        let Some(from) = from else { return self.fail(code::FAILED_TO_PARSE, "$lookup needs from") };
        let fields = match (here, there, &sub) {
            (Some(_), Some(there), _) if self.hidden_of(&from) == there.first().map(String::as_str) => {
                return Err(self.filter.at.refused(format!("nobody may ask for {}", there.join("."))));
            }
            (Some(here), Some(there), _) => Some((here, there.join("."))),
            (None, None, Some(_)) if options.contains_key("pipeline") => None,
            _ => {
                let message = "$lookup needs a pipeline, or both localField and foreignField";
                return self.fail(code::FAILED_TO_PARSE, message);
            }
        };
        Ok(Lookup { from, into, fields, sub })
    }

    fn text(&mut self, options: &Document, name: &str) -> Result<Option<String>, QueryError> {
        match options.get(name) {
            None => Ok(None),
            Some(Bson::String(text)) => Ok(Some(text.clone())),
            Some(_) => self.within(name, |parser| parser.fail(code::FAILED_TO_PARSE, "must be a text")),
        }
    }

    fn path_option(&mut self, options: &Document, name: &str) -> Result<Option<Vec<String>>, QueryError> {
        let Some(text) = self.text(options, name)? else { return Ok(None) };
        self.within(name, |parser| check_field_path(&parser.filter.at, &text))?;
        Ok(Some(text.split('.').map(str::to_owned).collect()))
    }

    fn sub_pipeline(
        &mut self,
        from: &str,
        stages: &[Bson],
        variables: Option<&Bson>,
    ) -> Result<SubPipeline, QueryError> {
        let bound = self.filter.at.bindings().to_vec();
        let mut parsed = Vec::new();
        match variables {
            None => {}
            Some(Bson::Document(variables)) => self.within("let", |parser| {
                for (name, value) in variables {
                    let expression = parser.within(name, |parser| {
                        check_variable_name(&parser.filter.at, name)?;
                        Expression::parse(value, &mut parser.filter.at)
                    })?;
                    parsed.push((name.clone(), expression));
                }
                Ok(())
            })?,
            Some(_) => return self.fail(code::FAILED_TO_PARSE, "let is a document of variables"),
        }
        for (name, _) in &parsed {
            self.filter.at.bind(name, Binding::Later);
        }
        let checked = self.within("pipeline", |parser| parser.inner(stages, Some(from)))?;
        self.filter.at.unbind(parsed.len());
        let written = checked.documents().iter().cloned().map(Bson::from).collect();
        Ok(SubPipeline { checked, written, variables: parsed, bound, now: self.filter.at.now() })
    }
}

impl Lookup {
    pub(super) fn pipeline(&self) -> Option<&Pipeline> {
        self.sub.as_ref().map(|sub| &sub.checked)
    }

    /// The document with what it finds.
    pub(super) fn apply<S: Source>(
        &self,
        document: &RawDocument,
        source: &S,
        budget: &Budget,
    ) -> Result<RawDocumentBuf, S::Error> {
        let equal = self.fields.as_ref().map(|(here, there)| equal_there(document, here, there)).transpose()?;
        let mut found = Found::new();
        let mut keep = |document: &RawDocument| -> Result<Flow, S::Error> {
            found.push(document)?;
            budget.step(1 + document.as_bytes().len() / 256)?;
            Ok(Flow::Continue(()))
        };
        match &self.sub {
            None => {
                let front = Front { filter: equal.unwrap_or_default(), ..Front::default() };
                source.each(&self.from, &front, &mut keep)?;
            }
            Some(sub) if sub.depends_on_documents() => {
                let pipeline = sub.with_values(document, budget)?;
                pipeline.read(&self.from, equal, source, budget, &mut keep)?;
            }
            Some(sub) => sub.checked.read(&self.from, equal, source, budget, &mut keep)?,
        }
        let mut bytes = Vec::with_capacity(document.as_bytes().len() + found.bytes.len());
        let array = found.into_array();
        set_nested(document.as_bytes(), &self.into, Value::new(kind::ARRAY, &array), &mut bytes);
        Ok(document_of(bytes)?)
    }
}

impl SubPipeline {
    fn depends_on_documents(&self) -> bool {
        !self.variables.is_empty()
    }

    /// The pipeline with the values that the variables have for a document. MongoDB compiles it for each document, too: what
    /// can be computed ahead then, is.
    fn with_values(&self, document: &RawDocument, budget: &Budget) -> Result<Pipeline, EvalError> {
        let mut bound = self.bound.clone();
        let mark = budget.mark();
        for (name, expression) in &self.variables {
            bound.push((name.clone(), Binding::Known(expression.evaluate_within(document, budget)?)));
        }
        budget.look()?;
        let parser = PipelineParser::new(Limits::NONE, self.now).with_budget(budget.of_parse()).with_bindings(bound);
        let pipeline = parser.pipeline(&self.written, None);
        budget.drop_since(mark);
        pipeline.map_err(|error| EvalError::new(error.code, error.message))
    }
}

/// The documents that were found, as the elements of an array.
struct Found {
    bytes: Vec<u8>,
    start: usize,
    count: usize,
}

impl Found {
    fn new() -> Self {
        let mut bytes = Vec::new();
        let start = begin(&mut bytes);
        Self { bytes, start, count: 0 }
    }

    fn push(&mut self, document: &RawDocument) -> Result<(), EvalError> {
        append(&mut self.bytes, self.count.to_string().as_bytes(), Value::new(kind::DOCUMENT, document.as_bytes()));
        self.count += 1;
        if self.bytes.len() > MAX_FOUND {
            return Err(EvalError::new(4568, "$lookup finds more than 16 MiB for a document; ask for less at a time"));
        }
        Ok(())
    }

    fn into_array(mut self) -> Vec<u8> {
        end(&mut self.bytes, self.start);
        self.bytes
    }
}

/// The condition on the other collection: a value there equals one of the values here.
fn equal_there(document: &RawDocument, here: &[String], there: &str) -> Result<Filter, EvalError> {
    let mut values = Vec::new();
    values_at(document.as_bytes(), here, &mut values);
    let regex = |value: &Bson| matches!(value, Bson::RegularExpression(_));
    let condition = match values.as_slice() {
        [] => doc! { there: { "$eq": null } },
        [value] => doc! { there: { "$eq": value.clone() } },
        values if values.iter().any(regex) => {
            let each: Vec<Document> = values.iter().map(|value| doc! { there: { "$eq": value.clone() } }).collect();
            doc! { "$or": each }
        }
        _ => doc! { there: { "$in": values } },
    };
    Filter::parse(&condition, &Limits::NONE).map_err(|error| EvalError::new(error.code, error.message))
}

/// All values at a path, those in arrays one by one. A number after an array is a position in it.
fn values_at(document: &[u8], path: &[String], values: &mut Vec<Bson>) {
    let Some((name, mut rest)) = path.split_first() else { return };
    let mut found = member(document, name.as_bytes());
    while let (Some(array), Some((step, after))) = (found.filter(|value| value.is_array()), rest.split_first()) {
        let is_position = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        let Some(position) = step.parse::<usize>().ok().filter(|_| is_position) else { break };
        found = array.elements().nth(position).map(|element| element.value);
        rest = after;
    }
    let Some(value) = found else { return };
    match rest {
        [] if value.is_array() => values.extend(value.elements().filter_map(|element| element.value.to_bson())),
        [] => values.extend(value.to_bson()),
        _ if value.is_document() => values_at(value.bytes, rest, values),
        _ if value.is_array() => {
            for element in value.elements().filter(|element| element.value.is_document()) {
                values_at(element.value.bytes, rest, values);
            }
        }
        _ => {}
    }
}
