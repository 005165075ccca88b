//! What running expressions may cost.
//!
//! Values are counted as on a stack: the values of an expression count until the enclosing expression has its own
//! value. Then only that value counts. So the count is the live memory, not all memory that was ever used.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use bson::Bson;

use super::error::EvalError;
use crate::admission::{self, Means, Share};

/// The maximum length of a text: that of a MongoDB document.
const MAX_TEXT: usize = 16 * 1024 * 1024;
/// How many bytes of values may be alive at a time.
const MAX_ALIVE: usize = 64 * 1024 * 1024;
/// How deep values may nest, as in MongoDB.
pub(in crate::query) const MAX_DEPTH: usize = 200;
/// How many steps there are between two reads of the clock.
const STEPS_PER_LOOK: usize = 1024;
/// How many steps a parse may take that must end within some microseconds.
const BRIEF_STEPS: usize = 256;
/// The factor by which the pool is charged more than the count: values are moved while arrays grow.
const GROWTH: usize = 2;
/// How many steps it takes to compile a character of a regular expression.
const STEPS_PER_CHARACTER: usize = 4;
/// How many bytes of values make a step.
const BYTES_PER_STEP: usize = 256;
/// The memory of an element of an array, without its content.
const ELEMENT: usize = size_of::<Bson>();
/// The memory of a member of a document, without its value: its name and its entry in the table of names.
const MEMBER: usize = ELEMENT + size_of::<String>() + 2 * size_of::<usize>();

/// The budget of one query: the memory of its expressions on a document, and their deadline.
#[derive(Debug, Default)]
pub struct Budget {
    /// The bytes of the values that are alive.
    alive: Cell<usize>,
    /// The steps since the last read of the clock.
    steps: Cell<usize>,
    end: Option<Instant>,
    /// Whether the steps end at the next read of the clock.
    is_brief: bool,
    means: Means,
    share: RefCell<Share>,
    /// Up to this many live bytes no more memory is taken from the pool.
    covered: Cell<usize>,
}

/// The effort that parsing a query may take.
///
/// A client's query is first parsed with little effort. If that is not enough, it is parsed again from the beginning as
/// admitted work. So both ways give the same refusals.
#[derive(Debug, Clone)]
pub enum Effort {
    /// Some microseconds. A longer parse fails with [`EvalError::unfinished`].
    Brief,
    /// As much as work may, until then.
    Work(Means, Option<Instant>),
}

impl Effort {
    /// A budget of its own for each parse.
    pub fn budget(&self) -> Budget {
        match self {
            Self::Brief => {
                Budget { steps: Cell::new(STEPS_PER_LOOK - BRIEF_STEPS), is_brief: true, ..Budget::default() }
            }
            // Values that the parse computes live as long as the query.
            Self::Work(means, end) => {
                Budget { share: RefCell::new(means.lasting_share()), ..Budget::until(*end).within(means) }
            }
        }
    }
}

/// The live memory at some time, see [`Budget::mark`].
#[derive(Debug, Clone, Copy)]
pub(in crate::query) struct Mark(usize);

impl Budget {
    /// Expressions may run until this time; without it there is no limit.
    pub fn until(end: Option<Instant>) -> Self {
        Self { end, ..Self::default() }
    }

    /// The same, with the memory of admitted work, and only as long as somebody waits for it.
    #[must_use]
    pub fn within(self, means: &Means) -> Self {
        Self { means: means.clone(), share: RefCell::new(means.share()), ..self }
    }

    /// For a parse while the query runs: with the same end, and memory of its own.
    pub(in crate::query) fn of_parse(&self) -> Self {
        Self::until(self.end).within(&self.means)
    }

    /// The effort of a parse while the query runs.
    pub fn effort(&self) -> Effort {
        Effort::Work(self.means.clone(), self.end)
    }

    /// Memory for what is kept from document to document.
    pub fn share(&self) -> Share {
        self.means.share()
    }

    /// Counts steps, and reads the clock at intervals.
    pub(in crate::query) fn step(&self, count: usize) -> Result<(), EvalError> {
        let steps = self.steps.get() + count;
        self.steps.set(steps);
        if steps < STEPS_PER_LOOK { Ok(()) } else { self.look() }
    }

    /// Checks the clock, and whether somebody still waits, before a slow operation. After the end each step fails.
    pub(in crate::query) fn look(&self) -> Result<(), EvalError> {
        if self.is_brief {
            return Err(EvalError::unfinished());
        }
        if self.means.is_gone() || self.end.is_some_and(admission::is_over) {
            return Err(EvalError::timeout());
        }
        self.steps.set(0);
        Ok(())
    }

    /// Before a regular expression is compiled: repetitions and classes may take long, plain characters do not.
    pub(in crate::query) fn compile(&self, pattern: &str) -> Result<(), EvalError> {
        if self.is_brief && !pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ^$-_:/.*".contains(&byte)) {
            return self.look();
        }
        self.step(pattern.len() * STEPS_PER_CHARACTER)
    }

    /// The live memory now; [`Budget::keep`] goes back to it.
    pub(in crate::query) fn mark(&self) -> Mark {
        Mark(self.alive.get())
    }

    /// How many bytes were added since the mark and are still live.
    pub(in crate::query) fn since(&self, mark: Mark) -> usize {
        self.alive.get().saturating_sub(mark.0)
    }

    /// Of all values since the mark only this one is still live.
    pub(in crate::query) fn keep(&self, mark: Mark, value: Option<&Bson>) -> Result<(), EvalError> {
        self.alive.set(mark.0);
        value.map_or(Ok(()), |value| self.take(size_of_value(value, 0)?))
    }

    /// No value since the mark is still live.
    pub(in crate::query) fn drop_since(&self, mark: Mark) {
        self.alive.set(mark.0);
    }

    /// Counts bytes that are about to be made.
    pub(in crate::query) fn take(&self, bytes: usize) -> Result<(), EvalError> {
        let alive = self.alive.get().saturating_add(bytes);
        self.alive.set(alive);
        if alive > MAX_ALIVE {
            return Err(EvalError::new(146, "the expression needs too much memory; ask for less at a time"));
        }
        if alive > self.covered.get() {
            let covered = self
                .share
                .borrow_mut()
                .cover(alive.saturating_mul(GROWTH))
                .map_err(|denied| EvalError::denied(&denied))?;
            self.covered.set(covered / GROWTH);
        }
        self.step(bytes / BYTES_PER_STEP)
    }

    /// Counts elements that are about to be created, without their content.
    pub(in crate::query) fn take_elements(&self, count: usize) -> Result<(), EvalError> {
        self.take(count.saturating_mul(ELEMENT))
    }

    /// Counts a value that is about to be copied into an array.
    pub(in crate::query) fn take_copy(&self, value: &Bson) -> Result<(), EvalError> {
        self.take(size_of_value(value, 0)?.saturating_add(ELEMENT))
    }
}

/// Refuses a text that would be too long.
pub(in crate::query) fn check_text(length: usize) -> Result<(), EvalError> {
    if length > MAX_TEXT {
        return Err(EvalError::new(16493, "a text of more than 16 MiB; ask for less at a time"));
    }
    Ok(())
}

/// The bytes that a value holds in addition to its own place.
pub(in crate::query) fn size_of_value(value: &Bson, depth: usize) -> Result<usize, EvalError> {
    if depth > MAX_DEPTH {
        return Err(EvalError::new(15, format!("a value nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(match value {
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => {
            check_text(text.len())?;
            text.len()
        }
        Bson::Binary(binary) => binary.bytes.len(),
        Bson::Array(elements) => {
            let mut size = elements.len() * ELEMENT;
            for element in elements {
                size += size_of_value(element, depth + 1)?;
            }
            size
        }
        Bson::Document(members) => {
            let mut size = members.len() * MEMBER;
            for (name, member) in members {
                size += name.len() + size_of_value(member, depth + 1)?;
            }
            size
        }
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, bson, doc};

    use super::super::{Filter, Limits, Projection};
    use super::*;

    /// As many steps as the elements of two ranges multiplied.
    fn nested(outer: i32, inner: i32) -> Bson {
        let inner =
            bson!({ "$map": { "input": { "$range": [0, inner] }, "as": "b", "in": { "$add": ["$$a", "$$b"] } } });
        bson!({ "$map": { "input": { "$range": [0, outer] }, "as": "a", "in": { "$size": inner } } })
    }

    fn filter(outer: i32, inner: i32) -> Filter {
        Filter::parse(&doc! { "$expr": nested(outer, inner) }, &Limits::default()).expect("a good filter")
    }

    fn over() -> Budget {
        Budget::until(Some(Instant::now()))
    }

    #[test]
    fn a_filter_ends_when_its_time_is_over() {
        let error = filter(1500, 1500).matches_within(&RawDocumentBuf::new(), &over()).expect_err("no time");
        assert!(error.is_timeout());
        assert_eq!(error.code, 50);
    }

    #[test]
    fn a_projection_ends_when_its_time_is_over() {
        let filter = Filter::all();
        let projection = Projection::parse(&doc! { "a": nested(1500, 1500) }, &filter).expect("a good projection");
        let error = projection.apply_within(&RawDocumentBuf::new(), &filter, &over()).expect_err("no time");
        assert!(error.is_timeout());
    }

    #[test]
    fn a_document_that_becomes_too_large_is_refused() {
        let doubled = bson!({ "$concat": ["$$value", "$$value"] });
        let long = bson!({ "$reduce": { "input": { "$range": [0, 21] }, "initialValue": "aaaa", "in": doubled } });
        let filter = Filter::all();
        let made = |projection: bson::Document| {
            let projection = Projection::parse(&projection, &filter).expect("a good projection");
            projection.apply(&RawDocumentBuf::new(), &filter).map_err(|error| error.code)
        };
        assert!(made(doc! { "a": long.clone() }).is_ok());
        assert_eq!(made(doc! { "a": long.clone(), "b": long.clone(), "c": long }), Err(10334));
    }

    #[test]
    fn a_value_that_nests_too_deep_is_refused() {
        let nested = |levels: usize| (0..levels).fold(bson!([]), |inner, _| bson!([inner]));
        assert!(size_of_value(&nested(MAX_DEPTH), 0).is_ok());
        assert_eq!(size_of_value(&nested(MAX_DEPTH + 1), 0).map_err(|error| error.code), Err(15));
    }

    #[test]
    fn the_steps_of_all_documents_are_counted_together() {
        let (filter, budget) = (filter(5, 5), over());
        let outcomes: Vec<_> = (0..100)
            .map(|_| filter.matches_within(&RawDocumentBuf::new(), &budget))
            .take_while(Result::is_ok)
            .collect();
        assert!((1..100).contains(&outcomes.len()), "{}", outcomes.len());
    }

    #[test]
    fn once_the_time_is_over_no_other_condition_is_tried() {
        let (filter, budget) = (filter(1500, 1500), over());
        assert!(filter.matches_within(&RawDocumentBuf::new(), &budget).is_err());
        let steps = budget.steps.get();
        assert!(filter.matches_within(&RawDocumentBuf::new(), &budget).is_err());
        assert_eq!(budget.steps.get(), steps + 1);
    }

    #[test]
    fn plain_conditions_do_not_look_at_the_clock() {
        let filter = Filter::equals("a", 1);
        let budget = over();
        for _ in 0..10_000 {
            assert!(!filter.matches_within(&RawDocumentBuf::new(), &budget).expect("no failure"));
        }
    }

    fn read(filter: &bson::Document, effort: &Effort) -> Result<(), super::super::QueryError> {
        Filter::parse_with(filter, &Limits::default(), bson::DateTime::from_millis(0), effort).map(drop)
    }

    #[test]
    fn a_filter_that_takes_long_to_read_is_given_up_and_read_with_more_effort() {
        let union = bson!({ "$setUnion": [{ "$range": [0, 20_000] }, { "$range": [0, 20_000] }] });
        let pattern = "^[a-z]{3,9}$";
        for filter in [
            doc! { "$expr": { "$gt": [{ "$size": union }, 0] } },
            doc! { "a": { "$regex": pattern } },
            doc! { "a": { "$in": [bson::Regex { pattern: "(a|b)+".try_into().expect("no zero"), options: "".try_into().expect("no zero") }] } },
            doc! { "$expr": { "$regexMatch": { "input": "a", "regex": "a" } } },
            doc! { "$jsonSchema": { "properties": { "a": { "pattern": pattern } } } },
        ] {
            assert!(read(&filter, &Effort::Brief).expect_err("it takes long").is_unfinished(), "{filter}");
            assert!(read(&filter, &Effort::Work(Means::default(), None)).is_ok(), "{filter}");
        }
    }

    #[test]
    fn usual_filters_and_their_refusals_are_read_at_once() {
        let fields = doc! { "fields": { "$elemMatch": { "name": "hostname", "value": { "$regex": "^host-01" } } } };
        assert!(read(&fields, &Effort::Brief).is_ok());
        assert!(read(&doc! { "$expr": { "$gt": ["$a", { "$add": [1, 2] }] } }, &Effort::Brief).is_ok());
        let error = read(&doc! { "$expr": { "$divide": [1, 0] } }, &Effort::Brief).expect_err("a division by zero");
        assert!(!error.is_unfinished() && error.interruption().is_none());
    }

    #[test]
    fn a_filter_whose_time_is_over_while_it_is_read_is_no_refusal() {
        let effort = Effort::Work(Means::default(), Some(Instant::now()));
        let union = bson!({ "$setUnion": [{ "$range": [0, 20_000] }, { "$range": [0, 20_000] }] });
        let error = read(&doc! { "$expr": { "$gt": [{ "$size": union }, 0] } }, &effort).expect_err("no time");
        assert!(error.interruption().is_some_and(|error| error.is_timeout()));
    }
}
