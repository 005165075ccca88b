//! Refuses expressions that would end or exhaust a MongoDB server.
//!
//! MongoDB bounds neither the memory nor the time of one expression on one document: `maxTimeMS` is looked at between
//! documents, and a value that nests deep enough ends the server. So expressions are run here on sizes alone, before
//! they are asked of any store.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use super::call::{Operator, Shape};
use super::{accumulate, arithmetic, boolean, convert, date, nearest_double, operators, rounding, trigonometry};
use crate::query::budget::MAX_DEPTH;
use crate::query::error::{Location, QueryError};
use crate::query::size::{LARGEST, Size};

/// How many values an expression may make for a document, and how many steps it may take.
const MOST: f64 = 1e8;
/// How many of these there may be at a time: a small document takes some hundred bytes of the server's memory.
const MOST_AT_A_TIME: f64 = 2e7;
/// Up to this many steps, a `$reduce` over a constant array is run as it is.
const FEW: f64 = 30.0;
/// How many parts of values an estimate may look at.
const EFFORT: usize = 200_000;

const TOO_DEEP: &str =
    "each step nests the value deeper, which ends a MongoDB server; put $$value.<member> or a number there";
const TOO_FAST: &str =
    "the value may grow faster with each step, which exhausts a MongoDB server; use $$value once in what a step gives";
const TOO_MUCH: &str = "more than 100,000,000 values for a document, or 20,000,000 at a time, which exhausts a MongoDB server; take smaller arrays, or nest less";
const TOO_INTRICATE: &str =
    "too intricate to tell whether it exhausts a MongoDB server; nest fewer of $reduce, or name fewer members";

/// Families whose results are numbers, truths or dates, whatever the operands.
const OF_SCALARS: [&[Operator]; 7] = [
    boolean::OPERATORS,
    arithmetic::OPERATORS,
    rounding::OPERATORS,
    trigonometry::OPERATORS,
    accumulate::OPERATORS,
    convert::OPERATORS,
    date::OPERATORS,
];
/// Single operators of that kind.
const SCALARS: [&str; 19] = [
    "$in",
    "$indexOfArray",
    "$size",
    "$setEquals",
    "$setIsSubset",
    "$anyElementTrue",
    "$allElementsTrue",
    "$indexOfBytes",
    "$indexOfCP",
    "$strLenBytes",
    "$strLenCP",
    "$strcasecmp",
    "$regexMatch",
    "$bsonSize",
    "$binarySize",
    "$tsSecond",
    "$tsIncrement",
    "$rand",
    "$toHashedIndexKey",
];
/// Operators that take one step, whatever their operands are.
const AT_ONCE: [&str; 10] =
    ["$size", "$isArray", "$type", "$isNumber", "$ifNull", "$cond", "$first", "$last", "$arrayElemAt", "$getField"];
/// Operators that go through the elements of their operands, and not through what these hold.
const SHALLOW: [&str; 9] = [
    "$firstN",
    "$lastN",
    "$slice",
    "$concatArrays",
    "$reverseArray",
    "$mergeObjects",
    "$objectToArray",
    "$arrayToObject",
    "$zip",
];
/// Operators that look for a text in another one.
const SEARCHES: [&str; 8] =
    ["$trim", "$ltrim", "$rtrim", "$split", "$indexOfBytes", "$indexOfCP", "$replaceOne", "$replaceAll"];
/// What these families have that may give an operand, or a part of it.
const NO_SCALARS: [&str; 4] = ["$toString", "$convert", "$dateToString", "$dateFromString"];

/// Refuses an expression that parses, if its values can become too deep or too many.
pub(super) fn check(value: &Bson, location: &mut Location) -> Result<(), QueryError> {
    let mut run = Run { location, variables: Vec::new(), times: 1.0, made: 0.0, effort: EFFORT };
    let size = run.expression(value)?;
    let made = run.made;
    location.note_size(&size, made);
    Ok(())
}

struct Run<'a> {
    location: &'a mut Location,
    variables: Vec<(String, Size)>,
    /// How often the place is reached.
    times: f64,
    made: f64,
    effort: usize,
}

type Sized = Result<Size, QueryError>;
type Operands = Vec<(String, Size)>;

impl Run<'_> {
    fn refuse<T>(&self, message: &str) -> Result<T, QueryError> {
        Err(self.location.refused(message))
    }

    fn make(&mut self, count: f64) -> Result<(), QueryError> {
        self.made += self.times * count;
        if self.made > MOST { self.refuse(TOO_MUCH) } else { Ok(()) }
    }

    fn within<T>(&mut self, step: &str, run: impl FnOnce(&mut Self) -> Result<T, QueryError>) -> Result<T, QueryError> {
        self.location.enter(step);
        let outcome = run(self);
        self.location.leave();
        outcome
    }

    fn at(&mut self, step: &str, value: &Bson) -> Sized {
        self.within(step, |run| run.expression(value))
    }

    /// A member of an operand; nothing where it is left out.
    fn of(&mut self, operand: &Document, step: &str) -> Sized {
        operand.get(step).map_or_else(|| Ok(Size::scalar()), |value| self.at(step, value))
    }

    fn expression(&mut self, value: &Bson) -> Sized {
        let size = match value {
            Bson::String(text) if text.starts_with('$') => self.path(&text[1..]),
            Bson::Document(document) => match document.iter().next() {
                Some((name, operand)) if name.starts_with('$') => {
                    self.make(1.0)?;
                    self.within(name, |run| run.call(name, operand))?
                }
                _ => Size::object(self.named(document)?.into_iter().collect()),
            },
            Bson::Array(elements) => list(&self.listed(elements)?),
            literal => size_of(literal),
        };
        self.effort = self.effort.saturating_sub(size.told());
        if self.effort == 0 {
            return self.refuse(TOO_INTRICATE);
        }
        if size.total() > MOST_AT_A_TIME {
            return self.refuse(TOO_MUCH);
        }
        if size.depth() > MAX_DEPTH {
            return self.refuse(TOO_DEEP);
        }
        Ok(size)
    }

    fn named(&mut self, members: &Document) -> Result<Operands, QueryError> {
        members.iter().map(|(name, value)| Ok((name.clone(), self.at(name, value)?))).collect()
    }

    fn listed(&mut self, elements: &[Bson]) -> Result<Operands, QueryError> {
        let names = (0..).map(|index: usize| index.to_string());
        names.zip(elements).map(|(name, value)| Ok((name.clone(), self.at(&name, value)?))).collect()
    }

    /// Variables of pipelines are noted as members are, so both are looked up alike.
    fn path(&self, path: &str) -> Size {
        let path = path.strip_prefix('$').map_or_else(|| format!("CURRENT.{path}"), str::to_owned);
        let mut steps = path.split('.');
        let name = steps.next().unwrap_or_default();
        let bound = self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, size)| size.clone());
        let start = bound.unwrap_or_else(|| match name {
            "ROOT" | "CURRENT" => self.location.size_of_document().clone(),
            _ => self.location.size_of_document().member(name),
        });
        steps.fold(start, |size, step| size.member(step))
    }

    fn call(&mut self, name: &str, operand: &Bson) -> Sized {
        match (name, operand) {
            ("$literal" | "$const", literal) => return Ok(size_of(literal)),
            ("$let", Bson::Document(operand)) => return self.bind(operand),
            ("$map" | "$filter", Bson::Document(operand)) => return self.iterate(name, operand),
            ("$reduce", Bson::Document(operand)) => return self.reduce(operand),
            ("$switch", Bson::Document(operand)) => return self.switch(operand),
            ("$range", Bson::Array(bounds)) => return self.range(bounds),
            ("$getField", operand) if !operand.as_document().is_some_and(|operand| operand.contains_key("input")) => {
                return self.field_of_current(operand);
            }
            _ => {}
        }
        let takes_names = |operator: &Operator| matches!(operator.shape, Shape::Named(_) | Shape::Special(_));
        let operands = match operand {
            Bson::Array(elements) => self.listed(elements)?,
            Bson::Document(members) if has_names(members) && operators::find(name).is_some_and(takes_names) => {
                self.named(members)?
            }
            one => vec![("0".to_owned(), self.expression(one)?)],
        };
        if !AT_ONCE.contains(&name) {
            let is_whole = !SHALLOW.contains(&name);
            self.make(operands.iter().map(|(_, size)| size.steps(is_whole)).sum())?;
        }
        if SEARCHES.contains(&name) {
            // Each place of the text may be compared with all of what is sought.
            self.make(operands.iter().map(|(_, size)| size.total()).product())?;
        } else if name.starts_with("$regex") {
            self.make(operands.iter().map(|(_, size)| size.total().powi(2)).sum())?;
        }
        Ok(result(name, operand, &operands))
    }

    /// `$getField` without an `input`.
    fn field_of_current(&mut self, name: &Bson) -> Sized {
        let current = self.path("$CURRENT");
        if let Some(name) = name.as_str().filter(|name| !name.starts_with('$')) {
            return Ok(current.member(name));
        }
        self.expression(name)?;
        Ok(current.any())
    }

    fn bind(&mut self, operand: &Document) -> Sized {
        let Some(Bson::Document(vars)) = operand.get("vars") else { return self.of(operand, "in") };
        let bound = self.within("vars", |run| run.named(vars))?;
        self.inside(bound, operand, "in")
    }

    /// A part of an operand that sees more variables.
    fn inside(&mut self, bound: Operands, operand: &Document, step: &str) -> Sized {
        let outside = self.variables.len();
        self.variables.extend(bound);
        let size = self.of(operand, step);
        self.variables.truncate(outside);
        size
    }

    fn iterate(&mut self, name: &str, operand: &Document) -> Sized {
        let input = self.of(operand, "input")?;
        let element = operand.get_str("as").unwrap_or("this").to_owned();
        let outside = self.times;
        self.make(input.count())?;
        self.times *= input.count();
        let body = self.inside(vec![(element, input.any())], operand, if name == "$map" { "in" } else { "cond" })?;
        self.times = outside;
        Ok(if name == "$map" { Size::array(input.count(), body) } else { input })
    }

    fn switch(&mut self, operand: &Document) -> Sized {
        let mut size = self.of(operand, "default")?;
        let Some(Bson::Array(branches)) = operand.get("branches") else { return Ok(size) };
        for (index, branch) in branches.iter().enumerate() {
            let Bson::Document(branch) = branch else { continue };
            let then = self.within("branches", |run| {
                run.within(&index.to_string(), |run| run.of(branch, "case").and_then(|_| run.of(branch, "then")))
            })?;
            size = size.or(&then);
        }
        Ok(size)
    }

    fn range(&mut self, bounds: &[Bson]) -> Sized {
        self.listed(bounds)?;
        let numbers = self.numbers(bounds.iter().take(2))?;
        let len = exact_range(bounds).unwrap_or_else(|| numbers.iter().sum()).min(LARGEST);
        self.make(len)?;
        Ok(Size::array(len, Size::scalar().up_to(numbers.iter().copied().fold(0.0, f64::max))))
    }

    /// How large a number may be. A stored one is taken for a usual one, and one that is computed for a large one.
    fn number(&mut self, value: &Bson) -> Result<f64, QueryError> {
        if let Some(number) = nearest_double(value) {
            return Ok(number.abs());
        }
        if let Bson::String(path) = value {
            return Ok(path.strip_prefix('$').map_or(LARGEST, |path| self.path(path).number()));
        }
        let Bson::Document(document) = value else { return Ok(LARGEST) };
        let Some((name, operand)) = document.iter().next() else { return Ok(LARGEST) };
        match (name.as_str(), operand) {
            ("$size" | "$strLenCP" | "$strLenBytes", Bson::Array(operands)) if operands.len() == 1 => {
                Ok(self.expression(&operands[0])?.count())
            }
            ("$size" | "$strLenCP" | "$strLenBytes", operand) => Ok(self.expression(operand)?.count()),
            ("$multiply", Bson::Array(operands)) => Ok(self.numbers(operands)?.iter().product()),
            ("$add" | "$subtract" | "$ifNull" | "$cond" | "$mod", Bson::Array(operands)) => {
                Ok(self.numbers(operands)?.iter().sum())
            }
            // Of a text that the question has, nobody knows the number.
            ("$abs" | "$ceil" | "$floor" | "$toInt" | "$toLong" | "$toDouble", operand) => self.number(operand),
            _ => Ok(LARGEST),
        }
    }

    fn numbers<'b>(&mut self, values: impl IntoIterator<Item = &'b Bson>) -> Result<Vec<f64>, QueryError> {
        values.into_iter().map(|value| self.number(value)).collect()
    }

    /// Runs some steps. What they show goes on: the value may grow by the same amount with each step, and no faster.
    fn reduce(&mut self, operand: &Document) -> Sized {
        let input = self.of(operand, "input")?;
        let mut value = self.of(operand, "initialValue")?;
        let steps = input.count();
        if operand.get("input").is_some_and(is_exact) && steps <= FEW {
            let mut left = steps;
            while left > 0.0 {
                value = self.step(operand, &input, value)?;
                left -= 1.0;
            }
            return Ok(value);
        }
        value = self.step(operand, &input, value)?;
        // Members may hand their sizes to one another, so a change may take as many steps to show as there are members.
        let window = value.told() + 1;
        let mut seen = Vec::new();
        for _ in 0..3 {
            for _ in 0..window {
                value = self.step(operand, &input, value)?;
            }
            seen.push(value.clone());
        }
        let [first, second, third] = seen.as_slice() else { return Ok(value) };
        if third.depth() > second.depth() {
            return self.refuse(TOO_DEEP);
        }
        if third.total() - second.total() > second.total() - first.total() {
            return self.refuse(TOO_FAST);
        }
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let windows = steps / window as f64;
        let outside = self.times;
        self.times *= steps;
        self.step(operand, &input, value.clone().grown(second, windows / 2.0))?;
        self.times = outside;
        Ok(value.grown(second, windows))
    }

    fn step(&mut self, operand: &Document, input: &Size, value: Size) -> Sized {
        let budget = self.location.budget();
        budget.step(value.told()).map_err(|error| self.location.malformed(error.code, error.message))?;
        self.inside(vec![("value".to_owned(), value), ("this".to_owned(), input.any())], operand, "in")
    }
}

/// What an operator makes of its operands.
fn result(name: &str, operand: &Bson, operands: &Operands) -> Size {
    let at = |index: usize| operands.get(index).map_or_else(Size::scalar, |(_, size)| size.clone());
    let of = |name: &str| {
        operands.iter().find(|(known, _)| known == name).map_or_else(Size::scalar, |(_, size)| size.clone())
    };
    let sizes = || operands.iter().map(|(_, size)| size);
    let any_of = || sizes().fold(Size::scalar(), Size::or);
    let field = operand.as_document().and_then(|operand| operand.get_str("field").ok());
    match name {
        "$cond" if operand.as_array().is_some() => at(1).or(&at(2)),
        "$cond" => of("then").or(&of("else")),
        "$ifNull" | "$setDifference" | "$setIntersection" => any_of(),
        "$min" | "$max" if operands.len() == 1 => at(0).or(&at(0).any()),
        "$min" | "$max" => any_of(),
        "$concatArrays" | "$setUnion" => sizes().fold(Size::array(0.0, Size::scalar()), Size::and),
        "$first" | "$last" | "$arrayElemAt" => at(0).any(),
        "$slice" | "$reverseArray" => at(0),
        "$firstN" | "$lastN" | "$minN" | "$maxN" | "$sortArray" | "$unsetField" => of("input"),
        "$mergeObjects" => sizes().fold(Size::object(BTreeMap::new()), Size::merged),
        "$setField" => match field {
            Some(field) => of("input").with(field, of("value")),
            None => of("input").with_any_names().with("", of("value")),
        },
        "$getField" => field.map_or_else(|| of("input").any(), |field| of("input").member(field)),
        "$objectToArray" => {
            let pair = [("k".to_owned(), Size::scalar()), ("v".to_owned(), at(0).any())];
            Size::array(at(0).count(), Size::object(pair.into()))
        }
        "$arrayToObject" => {
            let pair = at(0).any();
            let value = if pair.is_array() { pair.any() } else { pair.member("v") };
            Size::array(at(0).count(), value).with_any_names()
        }
        "$zip" => {
            let (inputs, defaults) = (of("inputs"), of("defaults"));
            let row = Size::array(inputs.count(), inputs.any().any().or(&defaults.any()));
            Size::array(inputs.any().count(), row)
        }
        // Each group may be as long as the text.
        "$regexFindAll" if has_groups(operand) => Size::array(of("input").total(), of("input")),
        // Each match is a document with an array.
        "$regexFindAll" => Size::array(of("input").total(), Size::parts(20.0)),
        "$replaceAll" => Size::parts(of("input").total() * of("replacement").total()),
        _ if is_scalar(name) => Size::scalar(),
        "$convert" | "$dateToString" | "$dateFromString" => any_of(),
        // Texts. Any other value is safe here too.
        _ => Size::parts(sizes().map(Size::total).sum()).or(&any_of()),
    }
}

/// Whether a regular expression may have groups, which may overlap from match to match.
fn has_groups(operand: &Bson) -> bool {
    let regex = operand.as_document().and_then(|operand| operand.get("regex"));
    regex.and_then(Bson::as_str).is_none_or(|regex| regex.contains('(') || regex.starts_with('$'))
}

fn is_scalar(name: &str) -> bool {
    SCALARS.contains(&name)
        || (!NO_SCALARS.contains(&name) && OF_SCALARS.iter().copied().flatten().any(|operator| operator.name == name))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn list(elements: &Operands) -> Size {
    let any = elements.iter().map(|(_, size)| size.clone()).reduce(|any, size| any.or(&size));
    Size::array(elements.len() as f64, any.unwrap_or_else(Size::scalar))
}

/// The size of a constant.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn size_of(value: &Bson) -> Size {
    match value {
        Bson::String(text) => Size::parts(text.len() as f64),
        Bson::Array(elements) => list(&elements.iter().map(|element| (String::new(), size_of(element))).collect()),
        Bson::Document(members) => {
            Size::object(members.iter().map(|(name, value)| (name.clone(), size_of(value))).collect())
        }
        scalar => Size::scalar().up_to(nearest_double(scalar).map_or(LARGEST, f64::abs)),
    }
}

/// Whether a document is no call of an operator.
fn has_names(document: &Document) -> bool {
    document.keys().next().is_some_and(|name| !name.starts_with('$'))
}

/// How many numbers a constant `$range` has.
fn exact_range(bounds: &[Bson]) -> Option<f64> {
    let numbers = bounds.iter().map(nearest_double).collect::<Option<Vec<_>>>()?;
    let (start, end, step) = (*numbers.first()?, *numbers.get(1)?, numbers.get(2).copied().unwrap_or(1.0));
    let len = ((end - start) / step).ceil();
    Some(if len.is_finite() { len.max(0.0) } else { 0.0 })
}

/// Whether the length of an array is known, not estimated.
fn is_exact(input: &Bson) -> bool {
    match input {
        Bson::Array(_) => true,
        Bson::Document(call) => match call.iter().next() {
            Some((name, Bson::Array(bounds))) => {
                name == "$literal" || (name == "$range" && exact_range(bounds).is_some())
            }
            _ => false,
        },
        _ => false,
    }
}
