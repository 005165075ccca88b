//! Parses a projection document. Every refusal of a projection happens here.

use bson::{Bson, DateTime, Document};

use super::{Afterwards, Branch, Child, Projection, Slice};
use crate::query::Expression;
use crate::query::budget::Effort;
use crate::query::compare::number;
use crate::query::computed::Computed;
use crate::query::error::{QueryError, code};
use crate::query::filter::parser::{Level, Parser as FilterParser};
use crate::query::filter::{Filter, Limits};
use crate::query::number::Number;
use crate::query::path::check_field_path;

/// The state of one parse.
pub(super) struct ProjectionParser {
    filter: FilterParser,
    /// Inclusion or exclusion, as soon as a member decides it. `_id` does not decide it.
    includes: Option<bool>,
    id: Option<bool>,
    afterwards: Vec<Afterwards>,
    has_elem_match: bool,
    /// An operator in the filter that excludes the positional `$`.
    no_position: Option<&'static str>,
    /// Whether it is a stage of a pipeline, which has no operators of `find`.
    is_stage: bool,
}

/// The projection of a member, apart from its path.
enum Wish {
    Include,
    /// The positional `$`, which includes.
    Position,
    Exclude,
    Compute(Box<Child>),
}

impl ProjectionParser {
    pub(super) fn new(filter: &Filter, limits: &Limits) -> Self {
        Self {
            filter: FilterParser::at(*limits, "projection").without_schemas(),
            includes: None,
            id: None,
            afterwards: Vec::new(),
            has_elem_match: false,
            no_position: filter.names_no_element(),
            is_stage: false,
        }
    }

    /// A parser for a stage of a pipeline.
    pub(super) fn of_stage(filter: FilterParser) -> Self {
        Self {
            filter,
            includes: None,
            id: None,
            afterwards: Vec::new(),
            has_elem_match: false,
            no_position: None,
            is_stage: true,
        }
    }

    /// Where it is.
    pub(super) fn into_filter(self) -> FilterParser {
        self.filter
    }

    /// The same parser with the time that `$$NOW` is.
    pub(super) fn with_now(self, now: DateTime) -> Self {
        Self { filter: self.filter.with_now(now), ..self }
    }

    /// The same parser with no more effort than that.
    pub(super) fn with_effort(self, effort: &Effort) -> Self {
        Self { filter: self.filter.with_effort(effort), ..self }
    }

    pub(super) fn parse(mut self, document: &Document) -> Result<Projection, QueryError> {
        self.filter.check_size(document)?;
        self.read(document)
    }

    /// Reads a projection whose size was checked.
    pub(super) fn read(&mut self, document: &Document) -> Result<Projection, QueryError> {
        let mut root = Branch::default();
        for (name, value) in document {
            self.member(name, value, &[], &mut root)?;
        }
        let includes =
            self.includes.unwrap_or_else(|| self.id == Some(true) || self.has_elem_match && !self.has_slice());
        let mentions_id = document.keys().any(|name| name == "_id" || name.starts_with("_id."));
        settle_id(&mut root, includes, self.id, mentions_id);
        note_computed(&mut root);
        let afterwards = std::mem::take(&mut self.afterwards);
        Ok(Projection { document: document.clone(), includes, root, afterwards, entries: None })
    }

    /// The projection that leaves these paths out.
    pub(super) fn without(&mut self, paths: &[&str]) -> Result<Projection, QueryError> {
        let mut root = Branch::default();
        for (index, path) in paths.iter().enumerate() {
            self.filter.at.enter(index.to_string());
            if path.ends_with(".$") {
                return self.fail(31324, "the positional $ is for find alone");
            }
            self.add(path, Wish::Exclude, &[], &mut root)?;
            self.filter.at.leave();
        }
        settle_id(&mut root, false, self.id, paths.iter().any(|path| *path == "_id" || path.starts_with("_id.")));
        let document = paths.iter().map(|path| ((*path).to_owned(), Bson::Int32(0))).collect();
        Ok(Projection { document, includes: false, root, afterwards: Vec::new(), entries: None })
    }

    fn has_slice(&self) -> bool {
        self.afterwards.iter().any(|step| matches!(step, Afterwards::Slice(..)))
    }

    fn has_position(&self) -> bool {
        self.afterwards.iter().any(|step| matches!(step, Afterwards::Position(_)))
    }

    fn fail<T>(&self, code: i32, message: &str) -> Result<T, QueryError> {
        Err(self.filter.at.malformed(code, message))
    }

    /// Parses `name: value` below the member that `above` leads to.
    fn member(&mut self, name: &str, value: &Bson, above: &[String], branch: &mut Branch) -> Result<(), QueryError> {
        self.filter.at.enter(name);
        if name.contains(".$.") {
            return self.fail(31394, "the positional $ stands at the end of a path only: a.b.$");
        }
        let positional = name.ends_with(".$");
        if positional && self.is_stage {
            return self.fail(31324, "the positional $ is for find alone");
        }
        match value {
            Bson::Document(_) if positional => {
                return self.fail(31271, "the positional $ takes 1, not an expression or a document");
            }
            Bson::Document(document) if operator(document).is_some() => {
                self.operator(name, document, above, branch)?;
            }
            Bson::Document(document) => self.below(name, document, above, branch)?,
            _ => match flag(value) {
                Some(true) if positional => self.positional(name, above, branch)?,
                Some(false) if positional => {
                    return self.fail(31395, "the positional $ includes an element; it cannot exclude one");
                }
                Some(true) => self.add(name, Wish::Include, above, branch)?,
                Some(false) => self.add(name, Wish::Exclude, above, branch)?,
                None if positional => return self.fail(31308, "the positional $ takes 1, not a value"),
                None => self.expression(name, value, 31310, above, branch)?,
            },
        }
        self.filter.at.leave();
        Ok(())
    }

    /// A document without operators: the paths of members below.
    fn below(
        &mut self,
        name: &str,
        document: &Document,
        above: &[String],
        branch: &mut Branch,
    ) -> Result<(), QueryError> {
        if document.is_empty() {
            return self.fail(51270, "an empty document is no projection; give 1, 0 or the members wanted");
        }
        check_field_path(&self.filter.at, name)?;
        let steps: Vec<String> = name.split('.').map(str::to_owned).collect();
        let path: Vec<String> = above.iter().chain(&steps).cloned().collect();
        let below = self.descend(&steps, steps.len(), branch)?;
        for (name, value) in document {
            self.member(name, value, &path, below)?;
        }
        Ok(())
    }

    /// The branch at the first `count` steps, made where there is none.
    fn descend<'a>(
        &self,
        steps: &[String],
        count: usize,
        branch: &'a mut Branch,
    ) -> Result<&'a mut Branch, QueryError> {
        let mut branch = branch;
        for (index, step) in steps[..count].iter().enumerate() {
            let place = branch.children.iter().position(|(name, _)| name == step).unwrap_or_else(|| {
                branch.children.push((step.clone(), Child::Branch(Branch::default())));
                branch.children.len() - 1
            });
            let Child::Branch(below) = &mut branch.children[place].1 else {
                let code = if index + 1 == steps.len() { 31250 } else { 31249 };
                return self.fail(code, "the path collides with another one of this projection");
            };
            branch = below;
        }
        Ok(branch)
    }

    fn add(&mut self, name: &str, wish: Wish, above: &[String], branch: &mut Branch) -> Result<(), QueryError> {
        check_field_path(&self.filter.at, name)?;
        let is_id = above.is_empty() && name == "_id" && !matches!(wish, Wish::Position);
        let steps: Vec<String> = name.split('.').map(str::to_owned).collect();
        let (last, before) = steps.split_last().expect("a split gives at least one part");
        let below = self.descend(&steps, before.len(), branch)?;
        if below.child(last.as_bytes()).is_some() {
            return self.fail(31250, "the path collides with another one of this projection");
        }
        let child = match wish {
            Wish::Compute(child) => *child,
            Wish::Include | Wish::Position | Wish::Exclude => {
                let includes = !matches!(wish, Wish::Exclude);
                if is_id {
                    self.id = Some(includes);
                } else {
                    self.decide(includes)?;
                }
                Child::Whole
            }
        };
        below.children.push((last.clone(), child));
        Ok(())
    }

    fn decide(&mut self, includes: bool) -> Result<(), QueryError> {
        match self.includes {
            Some(true) if !includes => self.fail(31254, "a projection that includes cannot exclude, save _id"),
            Some(false) if includes => self.fail(31253, "a projection that excludes cannot include, save _id"),
            _ => {
                self.includes = Some(includes);
                Ok(())
            }
        }
    }

    /// A computed member; `refusal` is the number of the error in an exclusion.
    fn expression(
        &mut self,
        name: &str,
        value: &Bson,
        refusal: i32,
        above: &[String],
        branch: &mut Branch,
    ) -> Result<(), QueryError> {
        let expression = Computed::parse(value, &mut self.filter.at)?;
        // MongoDB checks the path of a plain value first, that of an operator last.
        if matches!(value, Bson::Document(_)) {
            self.refuse_in_exclusion(refusal)?;
        }
        self.add(name, Wish::Compute(Box::new(Child::Computed(expression))), above, branch)?;
        self.refuse_in_exclusion(refusal)?;
        self.includes = Some(true);
        Ok(())
    }

    fn refuse_in_exclusion(&self, code: i32) -> Result<(), QueryError> {
        match self.includes {
            Some(false) => self.fail(code, "a projection that excludes cannot make up members"),
            _ => Ok(()),
        }
    }

    /// `{name: {$operator: ..}}`.
    fn operator(
        &mut self,
        name: &str,
        document: &Document,
        above: &[String],
        branch: &mut Branch,
    ) -> Result<(), QueryError> {
        check_field_path(&self.filter.at, name)?;
        match operator(document) {
            Some(("$elemMatch", _)) if self.is_stage => {
                self.fail(168, "$elemMatch projects in find alone; use $filter")
            }
            Some(("$slice", operand)) if !self.is_stage => match slice(operand) {
                Some(slice) => self.slice(name, slice, above, branch),
                None => self.expression(name, &Bson::Document(document.clone()), 31252, above, branch),
            },
            Some(("$elemMatch", operand)) => self.elem_match(name, operand, above, branch),
            Some((unknown, _)) if !Expression::is_operator(unknown) => {
                Err(self.filter.at.malformed(31325, format!("unknown expression {unknown}")))
            }
            _ => self.expression(name, &Bson::Document(document.clone()), 31252, above, branch),
        }
    }

    /// `$slice` as `find` has it. Where that fails, MongoDB tries the
    /// expression of the same name, which fails as well, but with another number.
    fn slice(&mut self, name: &str, slice: Slice, above: &[String], branch: &mut Branch) -> Result<(), QueryError> {
        match self.add(name, Wish::Compute(Box::new(Child::Kept)), above, branch) {
            Ok(()) => {
                let path = above.iter().cloned().chain(name.split('.').map(str::to_owned)).collect();
                self.afterwards.push(Afterwards::Slice(path, slice));
                Ok(())
            }
            Err(collision) => {
                let code = match (self.includes, slice.skip) {
                    (Some(false), _) => 31252,
                    (_, None) => 28667,
                    (_, Some(_)) => collision.code,
                };
                Err(QueryError { code, ..collision })
            }
        }
    }

    fn elem_match(
        &mut self,
        name: &str,
        operand: &Bson,
        above: &[String],
        branch: &mut Branch,
    ) -> Result<(), QueryError> {
        if !matches!(operand, Bson::Document(_)) {
            return self.fail(31274, "$elemMatch needs a document of conditions");
        }
        if self.has_position() {
            return self.fail(31255, "the positional $ and $elemMatch exclude each other");
        }
        if !above.is_empty() || name.contains('.') {
            return self.fail(31275, "$elemMatch projects members of the top level only");
        }
        let condition = bson::doc! { name: { "$elemMatch": operand.clone() } };
        self.filter.at.leave();
        let node = self.filter.document(&condition, Level::Inner)?.settled();
        self.filter.at.enter(name);
        self.has_elem_match = true;
        self.add(name, Wish::Compute(Box::new(Child::ElemMatch(node))), above, branch)
    }

    fn positional(&mut self, name: &str, above: &[String], branch: &mut Branch) -> Result<(), QueryError> {
        if self.has_position() {
            return self.fail(31276, "the positional $ can stand once in a projection");
        }
        if self.has_elem_match {
            return self.fail(31256, "the positional $ and $elemMatch exclude each other");
        }
        if let Some(operator) = self.no_position {
            let message = format!("{operator} in the filter names no element; leave it, or the positional $, out");
            return self.fail(code::NOT_ALLOWED, &message);
        }
        let name = name.strip_suffix(".$").unwrap_or(name);
        self.add(name, Wish::Position, above, branch)?;
        let path = above.iter().cloned().chain(name.split('.').map(str::to_owned)).collect();
        self.afterwards.push(Afterwards::Position(path));
        Ok(())
    }
}

/// The members of a reference to a document are projected by their names.
fn is_part_of_reference(name: &str) -> bool {
    matches!(name, "$ref" | "$id" | "$db")
}

/// A document with the only member `$operator`.
fn operator(document: &Document) -> Option<(&str, &Bson)> {
    let (name, operand) = document.iter().next()?;
    (document.len() == 1 && name.starts_with('$') && !is_part_of_reference(name)).then_some((name.as_str(), operand))
}

/// Booleans and numbers include or exclude; everything else is an expression.
pub(in crate::query) fn flag(value: &Bson) -> Option<bool> {
    match value {
        Bson::Boolean(truth) => Some(*truth),
        _ => number(value.into()).map(|number| number.is_nan() || number.compare(Number::Int(0)).is_ne()),
    }
}

/// `count` or `[skip, count]`; other operands belong to the expression of the same name.
fn slice(operand: &Bson) -> Option<Slice> {
    match operand {
        Bson::Array(items) => match items.as_slice() {
            [skip, count] => {
                let (skip, count) = (clamped(skip)?, clamped(count)?);
                (count > 0).then_some(Slice { skip: Some(skip), count })
            }
            _ => None,
        },
        _ => clamped(operand).map(|count| Slice { skip: None, count }),
    }
}

/// A number cut to 32 bits; what is no number counts as 0.
fn clamped(value: &Bson) -> Option<i64> {
    let number = number(value.into())?;
    let zero = number.is_nan();
    Some(if zero {
        0
    } else {
        number.truncated().map_or_else(
            || if number.compare(Number::Int(0)).is_lt() { i64::from(i32::MIN) } else { i64::from(i32::MAX) },
            |value| value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)),
        )
    })
}

/// An inclusion has `_id` unless it is excluded; this adjusts the tree accordingly.
fn settle_id(root: &mut Branch, includes: bool, id: Option<bool>, mentions_id: bool) {
    if id.is_some_and(|id| id != includes) {
        root.children.retain(|(name, _)| name != "_id");
    }
    if includes && !mentions_id {
        root.children.push(("_id".to_owned(), Child::Whole));
    }
}

/// Marks each branch that has a computed member below it.
pub(super) fn note_computed(branch: &mut Branch) {
    for (_, child) in &mut branch.children {
        if let Child::Branch(below) = child {
            note_computed(below);
        }
        branch.computes |= match child {
            Child::Branch(below) => below.computes,
            Child::Computed(_) | Child::ElemMatch(_) => true,
            Child::Whole | Child::Kept => false,
        };
    }
}
