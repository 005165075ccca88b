//! Projections: the members of a document in an answer, stored or computed.
//!
//! A projection includes or excludes; `_id` is included unless it is excluded. Members of `$elemMatch` and expressions
//! are set afterwards. `$slice` and the positional `$` work on the result. See "Project Fields to Return from Query" in
//! MongoDB's manual.

mod apply;
mod entries;
mod parse;
mod stage;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{DateTime, Document};

use super::budget::{Budget, Effort};
use super::computed::Computed;
use super::error::{EvalError, QueryError, code};
use super::filter::{Filter, Limits};
use super::matcher::matched_position;
use super::tree::Node;

pub(super) use self::apply::set_nested;
pub(super) use self::entries::Entries;
use self::parse::ProjectionParser;
pub(super) use self::parse::flag;

/// How large a document may become by computed members. MongoDB allows its own answers slightly more than 16 MiB.
const MAX_DOCUMENT: usize = (16 * 1024 + 16) * 1024;

/// A projection: as the client sent it, and compiled.
#[derive(Debug, Clone)]
pub struct Projection {
    document: Document,
    includes: bool,
    root: Branch,
    afterwards: Vec<Afterwards>,
    /// What is left of named entries, last of all.
    entries: Option<Entries>,
}

/// The members of one level that the projection names, in its order.
#[derive(Debug, Clone, Default)]
struct Branch {
    children: Vec<(String, Child)>,
    /// Whether a member below is computed.
    computes: bool,
}

/// What happens to a member.
#[derive(Debug, Clone)]
enum Child {
    /// It is included, or excluded, whole.
    Whole,
    /// It is kept in either case: `$slice` cuts it afterwards.
    Kept,
    /// Members of it are.
    Branch(Branch),
    /// It gets this value.
    Computed(Computed),
    /// It gets an array of the first element that matches the node, which is an `$elemMatch` of the member.
    ElemMatch(Node),
}

/// A step after the inclusion or exclusion.
#[derive(Debug, Clone)]
enum Afterwards {
    Slice(Vec<String>, Slice),
    /// The positional `$`.
    Position(Vec<String>),
}

/// Which elements `$slice` leaves.
#[derive(Debug, Clone, Copy)]
struct Slice {
    /// From the start, or, below zero, from the end.
    skip: Option<i64>,
    /// How many; without a `skip` and below zero: the last ones.
    count: i64,
}

impl Projection {
    /// Whether it shows the members that it names, and no others.
    pub(super) fn includes(&self) -> bool {
        self.includes
    }

    /// Compiles MongoDB's projection document. The positional `$` refers to the filter that [`Projection::apply`] gets,
    /// which must be the same.
    ///
    /// # Errors
    /// Everything that MongoDB refuses, and server-side JavaScript, with the place.
    pub fn parse(document: &Document, filter: &Filter) -> Result<Self, QueryError> {
        Self::parse_within(document, filter, &Limits::default())
    }

    /// Like [`Projection::parse`] with limits of the caller's.
    ///
    /// # Errors
    /// As [`Projection::parse`], and what exceeds `limits`.
    pub fn parse_within(document: &Document, filter: &Filter, limits: &Limits) -> Result<Self, QueryError> {
        ProjectionParser::new(filter, limits).parse(document)
    }

    /// Compiles a client's projection document for a query with that filter; `now` is `$$NOW`, as in
    /// [`Filter::parse_at`].
    ///
    /// # Errors
    /// As [`Projection::parse_within`].
    pub fn parse_at(document: &Document, filter: &Filter, limits: &Limits, now: DateTime) -> Result<Self, QueryError> {
        ProjectionParser::new(filter, limits).with_now(now).parse(document)
    }

    /// The same, with no more effort than that.
    ///
    /// # Errors
    /// As [`Projection::parse_within`]; when it takes too long or too much.
    pub fn parse_with(
        document: &Document,
        filter: &Filter,
        limits: &Limits,
        now: DateTime,
        effort: &Effort,
    ) -> Result<Self, QueryError> {
        ProjectionParser::new(filter, limits).with_now(now).with_effort(effort).parse(document)
    }

    /// The same projection, which leaves these entries of an array of named values.
    pub(super) fn with_entries(self, entries: Option<Entries>) -> Self {
        Self { entries, ..self }
    }

    /// Whether it leaves some entries of an array by their names, which no server can do.
    pub fn names_entries(&self) -> bool {
        self.entries.is_some()
    }

    /// The document that MongoDB is sent.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Whether it has expressions, so that its paths do not show what it reads.
    pub fn is_computed(&self) -> bool {
        self.root.has_expressions()
    }

    /// Whether it only includes or excludes members: a server may be asked for it.
    pub fn is_plain(&self) -> bool {
        self.afterwards.is_empty() && !self.root.computes
    }

    /// The projection with this member of the top as it is stored, and whether it is in addition to what was asked for. `None`
    /// where the projection makes something else of the member.
    pub fn with_member(&self, name: &str) -> Option<(Self, bool)> {
        let is_cut = |step: &Afterwards| {
            let (Afterwards::Slice(path, _) | Afterwards::Position(path)) = step;
            path.first().is_some_and(|first| first == name)
        };
        if self.afterwards.iter().any(is_cut) {
            return None;
        }
        let mut wider = self.clone();
        let is_added = match (self.root.child(name.as_bytes()), self.includes) {
            (Some(Child::Whole), true) | (None, false) => false,
            (None, true) => {
                wider.document.insert(name, 1);
                wider.root.children.push((name.to_owned(), Child::Whole));
                true
            }
            (Some(Child::Whole), false) => {
                wider.document.remove(name);
                wider.root.children.retain(|(own, _)| own != name);
                true
            }
            (Some(_), _) => return None,
        };
        Some((wider, is_added))
    }

    /// What the projection leaves of the document.
    ///
    /// # Errors
    /// When an expression fails on the document, or the positional `$` finds no element.
    pub fn apply(&self, document: &RawDocument, filter: &Filter) -> Result<RawDocumentBuf, EvalError> {
        self.apply_within(document, filter, &Budget::default())
    }

    /// The projected document, within the budget of the whole query.
    ///
    /// # Errors
    /// As [`Projection::apply`], and when the budget is used up.
    pub fn apply_within(
        &self,
        document: &RawDocument,
        filter: &Filter,
        budget: &Budget,
    ) -> Result<RawDocumentBuf, EvalError> {
        let kept = apply::keep(&self.root, self.includes, document);
        let mut bytes = kept.bytes;
        if self.root.computes {
            let mark = budget.mark();
            bytes = apply::with_computed(&self.root, document, &bytes, budget)?;
            budget.drop_since(mark);
            if bytes.len() > MAX_DOCUMENT {
                return Err(EvalError::new(
                    10334, "the projected document is larger than 16 MiB; ask for less at a time",
                ));
            }
        }
        for step in &self.afterwards {
            bytes = match step {
                Afterwards::Slice(path, slice) => apply::slice(&bytes, path, *slice),
                Afterwards::Position(path) => apply::positional(&bytes, path, || position(document, filter, budget))?,
            };
        }
        if kept.has_gaps {
            bytes = apply::settle(&bytes);
        }
        if let Some(entries) = &self.entries {
            bytes = entries.apply(&bytes)?;
        }
        document_of(bytes)
    }
}

/// Bytes that were put together, as a document.
pub(super) fn document_of(bytes: Vec<u8>) -> Result<RawDocumentBuf, EvalError> {
    RawDocumentBuf::from_bytes(bytes).map_err(|error| EvalError::new(code::BAD_VALUE, error.to_string()))
}

/// A document as bytes.
pub(super) fn encoded(document: &Document) -> Result<RawDocumentBuf, EvalError> {
    RawDocumentBuf::try_from(document).map_err(|error| EvalError::new(code::BAD_VALUE, error.to_string()))
}

/// The position of the array element by which the filter matches.
fn position(document: &RawDocument, filter: &Filter, budget: &Budget) -> Result<usize, EvalError> {
    matched_position(filter.tree(), document, budget)?.ok_or_else(|| {
        EvalError::new(51246, "the positional $ found no matching array element; the filter must test the array")
    })
}

impl Branch {
    fn child(&self, name: &[u8]) -> Option<&Child> {
        self.children.iter().find(|(own, _)| own.as_bytes() == name).map(|(_, child)| child)
    }

    fn has_expressions(&self) -> bool {
        self.children.iter().any(|(_, child)| match child {
            Child::Computed(_) => true,
            Child::Branch(branch) => branch.has_expressions(),
            Child::Whole | Child::Kept | Child::ElemMatch(_) => false,
        })
    }
}

impl Slice {
    /// The first position and the one after the last, in an array of this length.
    fn bounds(self, length: usize) -> (usize, usize) {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let from_end = |count: i64| length.saturating_add(count).max(0);
        let (start, end) = match (self.skip, self.count) {
            (None, count) if count < 0 => (from_end(count), length),
            (None, count) => (0, count.min(length)),
            (Some(skip), count) => {
                let start = if skip < 0 { from_end(skip) } else { skip.min(length) };
                (start, start.saturating_add(count).min(length))
            }
        };
        (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(0))
    }
}
