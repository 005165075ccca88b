//! What running expressions may cost.
//!
//! Values are counted as on a stack: what an expression made is counted until the expression around it has
//! its own value, then only that value is. So the count is what is alive, not what was ever made.

use std::cell::Cell;
use std::time::Instant;

use bson::Bson;

use super::error::EvalError;

/// How long a text may be: as a document of MongoDB's.
const MAX_TEXT: usize = 16 * 1024 * 1024;
/// How many bytes of values may be alive at a time.
const MAX_ALIVE: usize = 64 * 1024 * 1024;
/// How deep values may nest, as in MongoDB.
const MAX_DEPTH: usize = 200;
/// How many steps go by between two looks at the clock.
const STEPS_PER_LOOK: usize = 1024;
/// How many bytes of values make a step.
const BYTES_PER_STEP: usize = 256;
/// What an element of an array takes by itself.
const ELEMENT: usize = size_of::<Bson>();
/// What a member of a document takes by itself: with its name and its place in the table of names.
const MEMBER: usize = ELEMENT + size_of::<String>() + 2 * size_of::<usize>();

/// The means of one query: how much memory its expressions may take on a document, and until when they may run.
#[derive(Debug, Default)]
pub struct Budget {
    /// The bytes of the values that are alive.
    alive: Cell<usize>,
    /// The steps since the last look at the clock.
    steps: Cell<usize>,
    end: Option<Instant>,
}

/// How much was alive at some time, see [`Budget::mark`].
#[derive(Debug, Clone, Copy)]
pub(in crate::query) struct Mark(usize);

impl Budget {
    /// Expressions may run until then; without an end as long as they like.
    pub fn until(end: Option<Instant>) -> Self {
        Self { end, ..Self::default() }
    }

    /// Counts steps, and looks at the clock now and then.
    pub(in crate::query) fn step(&self, count: usize) -> Result<(), EvalError> {
        let steps = self.steps.get() + count;
        self.steps.set(steps);
        if steps < STEPS_PER_LOOK { Ok(()) } else { self.look() }
    }

    /// Looks at the clock: before what may take long by itself. After the end each step fails.
    pub(in crate::query) fn look(&self) -> Result<(), EvalError> {
        if self.end.is_some_and(|end| Instant::now() >= end) {
            return Err(EvalError::timeout());
        }
        self.steps.set(0);
        Ok(())
    }

    /// What is alive now; [`Budget::keep`] goes back to it.
    pub(in crate::query) fn mark(&self) -> Mark {
        Mark(self.alive.get())
    }

    /// Of all that was made since the mark this value alone is still there.
    pub(in crate::query) fn keep(&self, mark: Mark, value: Option<&Bson>) -> Result<(), EvalError> {
        self.alive.set(mark.0);
        value.map_or(Ok(()), |value| self.take(size_of_value(value, 0)?))
    }

    /// Nothing that was made since the mark is still there.
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
        self.step(bytes / BYTES_PER_STEP)
    }

    /// Counts elements that are about to be made, apart from what they hold.
    pub(in crate::query) fn take_elements(&self, count: usize) -> Result<(), EvalError> {
        self.take(count.saturating_mul(ELEMENT))
    }

    /// Counts a value that is about to be copied into an array.
    pub(in crate::query) fn take_copy(&self, value: &Bson) -> Result<(), EvalError> {
        self.take(size_of_value(value, 0)?.saturating_add(ELEMENT))
    }
}

/// Refuses a text that is about to be made and would be too long.
pub(in crate::query) fn check_text(length: usize) -> Result<(), EvalError> {
    if length > MAX_TEXT {
        return Err(EvalError::new(16493, "a text of more than 16 MiB; ask for less at a time"));
    }
    Ok(())
}

/// The bytes that a value holds beside its own place.
fn size_of_value(value: &Bson, depth: usize) -> Result<usize, EvalError> {
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
}
