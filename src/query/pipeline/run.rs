//! Runs a pipeline: documents are pushed in one by one, and results come out as soon as they are known.

use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};

use super::columns::Columns;
use super::group::count_document;
use super::grouping::Grouping;
use super::held::Held;
use super::lookup::{Lookup, Union};
use super::redact::Redact;
use super::sorter::Sorter;
use super::stage::Stage;
use super::unwind::Unwind;
use super::{Budget, EvalError, Filter, Flow, Pipeline, Source};
use crate::query::expr::Expression;
use crate::query::projection::{Projection, document_of, encoded};
use crate::query::raw::{Value, append, begin, end, kind};

/// The bytes of documents that MongoDB reads for `$facet` at once, even if its pipelines need fewer. An earlier stage that
/// fails on one of these documents fails the query.
const FACET_BATCH: usize = 100 * 1024 * 1024;
/// How large a document of `$facet` may be.
const MAX_DOCUMENT: usize = 16 * 1024 * 1024;
/// How many bytes of a document make a step.
const BYTES_PER_STEP: usize = 1024;

/// A pipeline that is being run.
pub struct Run<'p> {
    stages: Vec<Running<'p>>,
    budget: &'p Budget,
}

/// Where results go.
type Give<'g, E> = &'g mut dyn FnMut(&RawDocument) -> Result<Flow, E>;

/// A stage with what it keeps.
enum Running<'p> {
    Match(&'p Filter),
    Sort(Option<Sorter<'p>>),
    Skip(u64),
    Limit(u64),
    Project(&'p Projection),
    Replace(&'p Expression),
    Count(&'p str, u64),
    Group(Option<Box<Grouping<'p>>>),
    Unwind(&'p Unwind),
    /// With the bytes of the documents that came.
    Facet(Vec<Part<'p>>, usize),
    Lookup(&'p Lookup),
    Union(&'p Union),
    Sample(Sample),
    Redact(&'p Redact),
    Flatten(&'p Columns),
}

/// One pipeline of a `$facet`.
struct Part<'p> {
    name: &'p str,
    run: Run<'p>,
    found: Found,
    /// Whether it needs no more documents: none is evaluated for it then.
    is_full: bool,
}

/// The results of a facet, as the elements of an array.
struct Found {
    bytes: Vec<u8>,
    count: usize,
    held: Held,
}

/// Documents by chance, each as likely as the others.
struct Sample {
    size: usize,
    seen: u64,
    kept: Vec<RawDocumentBuf>,
    held: Held,
}

impl Pipeline {
    /// The pipeline that leaves everything as it is.
    pub(super) fn empty() -> Self {
        Self { documents: Vec::new(), stages: Vec::new() }
    }

    /// Reads a collection through this pipeline; with `more`, only the documents for which that holds.
    ///
    /// # Errors
    /// Those of the source, those of `give`, and failures on documents.
    pub fn read<S: Source>(
        &self,
        collection: &str,
        more: Option<Filter>,
        source: &S,
        budget: &Budget,
        give: &mut dyn FnMut(&RawDocument) -> Result<Flow, S::Error>,
    ) -> Result<(), S::Error> {
        let mut front = self.front();
        if let Some(more) = more {
            front.filter = more.and(front.filter);
        }
        let mut run = self.run(front.stages, budget);
        source.each(collection, &front, &mut |document| run.push(document, source, give))?;
        run.finish(source, give)
    }
}

impl<'p> Run<'p> {
    pub(super) fn new(stages: &'p [Stage], budget: &'p Budget) -> Self {
        let running = stages.iter().enumerate().map(|(at, stage)| match stage {
            Stage::Match(filter) => Running::Match(filter),
            Stage::Sort(sort) => Running::Sort(Some(Sorter::new(sort, wanted(&stages[at + 1..]), budget))),
            Stage::Skip(count) => Running::Skip(*count),
            Stage::Limit(count) => Running::Limit(*count),
            Stage::Project(projection) => Running::Project(projection),
            Stage::Replace(expression) => Running::Replace(expression),
            Stage::Count(name) => Running::Count(name, 0),
            Stage::Group(group) => Running::Group(Some(Box::new(Grouping::new(group, budget)))),
            Stage::Unwind(unwind) => Running::Unwind(unwind),
            Stage::Facet(parts) => Running::Facet(parts.iter().map(|part| Part::new(part, budget)).collect(), 0),
            Stage::Lookup(lookup) => Running::Lookup(lookup),
            Stage::Union(union) => Running::Union(union),
            Stage::Sample(size) => Running::Sample(Sample::new(*size, budget)),
            Stage::Redact(redact) => Running::Redact(redact),
            Stage::Flatten(columns) => Running::Flatten(columns),
        });
        Self { stages: running.collect(), budget }
    }

    /// One more document; `give` gets each result. Breaks when no more documents are needed.
    ///
    /// # Errors
    /// Failures on the document, and those of the source and of `give`.
    pub fn push<S: Source>(
        &mut self,
        document: &RawDocument,
        source: &S,
        give: &mut dyn FnMut(&RawDocument) -> Result<Flow, S::Error>,
    ) -> Result<Flow, S::Error> {
        push(&mut self.stages, document, (source, self.budget), give)
    }

    /// Gives what is left when all documents were pushed.
    ///
    /// # Errors
    /// As [`Run::push`].
    pub fn finish<S: Source>(
        mut self,
        source: &S,
        give: &mut dyn FnMut(&RawDocument) -> Result<Flow, S::Error>,
    ) -> Result<(), S::Error> {
        let means = (source, self.budget);
        for at in 0..self.stages.len() {
            let (stage, rest) = self.stages[at..].split_first_mut().expect("the position is within");
            finish(stage, rest, means, give)?;
        }
        Ok(())
    }
}

/// The size in bytes from which a document between stages counts as memory of the request.
const LARGE: usize = 16 * 1024;

/// How many documents of an order the stages after it need.
fn wanted(behind: &[Stage]) -> usize {
    let mut skipped = 0_u64;
    for stage in behind {
        match stage {
            Stage::Skip(count) => skipped = skipped.saturating_add(*count),
            Stage::Limit(count) => return usize::try_from(skipped.saturating_add(*count)).unwrap_or(usize::MAX),
            _ => break,
        }
    }
    usize::MAX
}

fn push<S: Source>(
    stages: &mut [Running<'_>],
    document: &RawDocument,
    means: (&S, &Budget),
    give: Give<'_, S::Error>,
) -> Result<Flow, S::Error> {
    let Some((stage, rest)) = stages.split_first_mut() else { return give(document) };
    let (source, budget) = means;
    budget.step(1 + document.as_bytes().len() / BYTES_PER_STEP)?;
    match stage {
        Running::Match(filter) => {
            if filter.matches_within(document, budget)? {
                push(rest, document, means, give)
            } else {
                Ok(Flow::Continue(()))
            }
        }
        Running::Skip(left) if *left > 0 => {
            *left -= 1;
            Ok(Flow::Continue(()))
        }
        Running::Skip(_) => push(rest, document, means, give),
        Running::Limit(0) => Ok(Flow::Break(())),
        Running::Limit(left) => {
            *left -= 1;
            let is_full = *left == 0;
            let flow = push(rest, document, means, give)?;
            Ok(if is_full { Flow::Break(()) } else { flow })
        }
        Running::Project(projection) => {
            let projected = projection.apply_within(document, &Filter::all(), budget)?;
            pass(rest, &projected, means, give)
        }
        Running::Flatten(columns) => pass(rest, &columns.row(document)?, means, give),
        Running::Replace(expression) => pass(rest, &replaced(expression, document, budget)?, means, give),
        Running::Unwind(unwind) => unwind.each(document, &mut |document| pass(rest, document, means, give)),
        Running::Lookup(lookup) => pass(rest, &lookup.apply(document, source, budget)?, means, give),
        Running::Redact(redact) => match redact.apply(document, budget)? {
            Some(left) => pass(rest, &left, means, give),
            None => Ok(Flow::Continue(())),
        },
        Running::Union(_) => push(rest, document, means, give),
        Running::Sort(sorter) => keep(sorter.as_mut().map(|sorter| sorter.add(document))),
        Running::Group(grouping) => keep(grouping.as_mut().map(|grouping| grouping.add(document))),
        Running::Sample(sample) => keep(Some(sample.add(document))),
        Running::Count(_, count) => {
            *count += 1;
            Ok(Flow::Continue(()))
        }
        Running::Facet(parts, seen) => {
            *seen = seen.saturating_add(document.as_bytes().len());
            let mut flow = if *seen < FACET_BATCH { Flow::Continue(()) } else { Flow::Break(()) };
            for part in parts.iter_mut().filter(|part| !part.is_full) {
                part.is_full = part.push(document, source)?.is_break();
                if !part.is_full {
                    flow = Flow::Continue(());
                }
            }
            Ok(flow)
        }
    }
}

/// Passes on what a stage has made. It takes memory until the later stages are done with it; a large one counts as such.
fn pass<S: Source>(
    rest: &mut [Running<'_>],
    made: &RawDocument,
    means: (&S, &Budget),
    give: Give<'_, S::Error>,
) -> Result<Flow, S::Error> {
    let bytes = made.as_bytes().len();
    if bytes < LARGE {
        return push(rest, made, means, give);
    }
    let mut held = Held::new(means.1);
    held.take(bytes)?;
    push(rest, made, means, give)
}

/// A stage that gives its results at the end has taken a document.
fn keep<E: From<EvalError>>(outcome: Option<Result<(), EvalError>>) -> Result<Flow, E> {
    outcome.transpose()?;
    Ok(Flow::Continue(()))
}

fn finish<S: Source>(
    stage: &mut Running<'_>,
    rest: &mut [Running<'_>],
    means: (&S, &Budget),
    give: Give<'_, S::Error>,
) -> Result<(), S::Error> {
    // What a stage in front would give ends at a limit that is full, and is not asked for: it might fail.
    if rest.iter().any(|stage| matches!(stage, Running::Limit(0))) {
        return Ok(());
    }
    let (source, budget) = means;
    match stage {
        Running::Sort(sorter) => {
            for document in sorter.take().into_iter().flat_map(Sorter::into_sorted) {
                if push(rest, &document, means, give)?.is_break() {
                    break;
                }
            }
        }
        Running::Group(grouping) => {
            for document in grouping.take().into_iter().flat_map(|grouping| grouping.into_documents()) {
                if push(rest, &document?, means, give)?.is_break() {
                    break;
                }
            }
        }
        Running::Sample(sample) => {
            for document in std::mem::take(&mut sample.kept) {
                if push(rest, &document, means, give)?.is_break() {
                    break;
                }
            }
        }
        Running::Count(_, 0) => {}
        Running::Count(name, count) => {
            let _ = push(rest, &encoded(&count_document(name, *count))?, means, give)?;
        }
        Running::Facet(parts, _) => {
            let document = facets(std::mem::take(parts), source)?;
            let _ = push(rest, &document, means, give)?;
        }
        Running::Union(union) => {
            let mut next = |document: &RawDocument| push(rest, document, means, give);
            union.pipeline.read(&union.from, None, source, budget, &mut next)?;
        }
        _ => {}
    }
    Ok(())
}

fn replaced(expression: &Expression, document: &RawDocument, budget: &Budget) -> Result<RawDocumentBuf, EvalError> {
    let mark = budget.mark();
    let value = expression.evaluate_within(document, budget)?;
    budget.drop_since(mark);
    match value {
        Some(Bson::Document(document)) => encoded(&document),
        _ => Err(EvalError::new(40228, "the new root must be a document")),
    }
}

impl<'p> Part<'p> {
    fn new((name, pipeline): &'p (String, Pipeline), budget: &'p Budget) -> Self {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        let found = Found { bytes, count: 0, held: Held::new(budget) };
        Self { name, run: pipeline.run(0, budget), found, is_full: false }
    }

    fn push<S: Source>(&mut self, document: &RawDocument, source: &S) -> Result<Flow, S::Error> {
        let Self { run, found, .. } = self;
        run.push(document, source, &mut |document| {
            found.push(document)?;
            Ok(Flow::Continue(()))
        })
    }

    fn finish<S: Source>(self, source: &S) -> Result<(&'p str, Found), S::Error> {
        let Self { name, run, mut found, .. } = self;
        run.finish(source, &mut |document| {
            found.push(document)?;
            Ok(Flow::Continue(()))
        })?;
        end(&mut found.bytes, 0);
        Ok((name, found))
    }
}

impl Found {
    fn push(&mut self, document: &RawDocument) -> Result<(), EvalError> {
        append(&mut self.bytes, self.count.to_string().as_bytes(), Value::new(kind::DOCUMENT, document.as_bytes()));
        self.count += 1;
        if self.bytes.len() > MAX_DOCUMENT {
            return Err(EvalError::new(10334, "a facet has more than 16 MiB of documents; use $limit or $project"));
        }
        self.held.set(self.bytes.len())
    }
}

/// The one document of a `$facet`.
fn facets<S: Source>(parts: Vec<Part<'_>>, source: &S) -> Result<RawDocumentBuf, S::Error> {
    let mut bytes = Vec::new();
    let start = begin(&mut bytes);
    for part in parts {
        let (name, found) = part.finish(source)?;
        append(&mut bytes, name.as_bytes(), Value::new(kind::ARRAY, &found.bytes));
        if bytes.len() > MAX_DOCUMENT {
            let message = "the facets have more than 16 MiB of documents; use $limit or $project";
            return Err(EvalError::new(10334, message).into());
        }
    }
    end(&mut bytes, start);
    Ok(document_of(bytes)?)
}

impl Sample {
    fn new(size: u64, budget: &Budget) -> Self {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Self { size, seen: 0, kept: Vec::new(), held: Held::new(budget) }
    }

    fn add(&mut self, document: &RawDocument) -> Result<(), EvalError> {
        self.seen += 1;
        if self.kept.len() < self.size {
            self.held.take(document.as_bytes().len())?;
            self.kept.push(document.to_owned());
            return Ok(());
        }
        let place = usize::try_from(rand::random_range(0..self.seen)).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(place) {
            let bytes = self.held.bytes() + document.as_bytes().len();
            self.held.set(bytes.saturating_sub(kept.as_bytes().len()))?;
            *kept = document.to_owned();
        }
        Ok(())
    }
}
