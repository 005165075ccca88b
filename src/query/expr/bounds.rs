//! Which expressions a MongoDB server may be asked to run.
//!
//! MongoDB bounds neither the memory nor the time of one expression on one document. It looks at `maxTimeMS` between
//! documents, and cannot be told to stop. A value that nests deep enough even ends a server of version 6.0.5. So a server is
//! asked only for *bounded* expressions: one document takes about as many steps as the document has values, times the length
//! of the expression. All others are evaluated in the service, within the [budget](crate::query::budget) of the query.
//!
//! An expression is bounded if all this holds:
//! - An iteration goes over something stored, or, outside of iterations, over a short constant.
//! - What is in an iteration reads the element. Anything from outside is only compared with it, or picked from. So all
//!   iterations together visit each stored value about once.
//! - `$reduce` only makes numbers, truths and dates.
//! - What is sought in a text is a short constant, and no regular expression is in an iteration.
//! - `$range` is short and constant, and there is no `$regexFindAll` and no `$zip`.
//! - Constants in an iteration are short, because each element takes them anew.
//! - The value holds few copies of the document and of constants, and nests little deeper than the document.
//! - All expressions of a filter or of a stage together are little work: each operator may go through a whole document, and
//!   what it makes may be held until all are done.
//!
//! Expressions that are bounded in truth may count as unbounded here. Their answers are the same, but take longer.

use bson::{Bson, Document};

use super::call::Operator;
use super::operators;
use super::{accumulate, arithmetic, boolean, convert, date, nearest_double, rounding, trigonometry};
use crate::query::error::{MOST_WORK, Made};

/// How many elements a constant may have that an iteration goes over.
const SHORT: f64 = 1_000.0;
/// How long a text may be that is sought in another one, or put in its place.
const SHORT_TEXT: usize = 100;
/// How many copies of the document one value may hold: they may be joined, and take memory then.
const FEW_COPIES: f64 = 64.0;
/// How many bytes of constants, and of documents and arrays around values, one value may hold.
const MOST_WEIGHT: f64 = 250_000.0;
/// The same for an operand in an iteration.
const LIGHT: f64 = 1_000.0;
/// How many bytes a server takes for a document or an array around values, and for each of the texts of a `$split`.
const AROUND: f64 = 64.0;
const PART: f64 = 32.0;
/// How few bytes an element of a stored array has, and a text that `$split` gives.
const GRAIN: f64 = 4.0;
const FINE_GRAIN: f64 = 1.0;
/// How deep iterations may be in one another.
const MOST_ITERATIONS: usize = 3;
/// How much more a copy of the document takes than an operator without one.
const COPY: f64 = 4.0;
/// Operators that make nothing themselves.
const BINDINGS: [&str; 4] = ["$let", "$switch", "$literal", "$const"];
/// The level of a value that comes with no document.
const CONSTANT: usize = usize::MAX;

/// Operators whose results are numbers, truths or dates, whatever their operands are.
const SCALARS: [&str; 20] = [
    "$in",
    "$indexOfArray",
    "$size",
    "$isArray",
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
/// Families of such operators, but for [`NO_SCALARS`].
const OF_SCALARS: [&[Operator]; 7] = [
    boolean::OPERATORS,
    arithmetic::OPERATORS,
    rounding::OPERATORS,
    trigonometry::OPERATORS,
    accumulate::OPERATORS,
    convert::OPERATORS,
    date::OPERATORS,
];
/// What these families have that may give a text or an operand.
const NO_SCALARS: [&str; 9] =
    ["$cond", "$ifNull", "$min", "$max", "$type", "$toString", "$convert", "$dateToString", "$dateFromString"];
/// Operators that take one step, whatever their operands are.
const AT_ONCE: [&str; 13] = [
    "$size",
    "$isArray",
    "$type",
    "$isNumber",
    "$ifNull",
    "$cond",
    "$first",
    "$last",
    "$arrayElemAt",
    "$getField",
    "$and",
    "$or",
    "$not",
];
/// Families of such operators.
const OF_ONE_STEP: [&[Operator]; 3] = [arithmetic::OPERATORS, rounding::OPERATORS, trigonometry::OPERATORS];
/// Families of which an operator takes several steps.
const OF_SLOW: [&[Operator]; 3] = [trigonometry::OPERATORS, convert::OPERATORS, date::OPERATORS];
/// Operators that go through two values until they differ.
const COMPARISONS: [&str; 7] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp"];
/// Operators that look for a text in another one, and the operand, by its position or name, that has to be a short constant.
const SEARCHES: [(&str, &[&str]); 10] = [
    ("$indexOfBytes", &["1"]),
    ("$indexOfCP", &["1"]),
    ("$split", &["1"]),
    ("$trim", &["chars"]),
    ("$ltrim", &["chars"]),
    ("$rtrim", &["chars"]),
    ("$replaceOne", &["find", "replacement"]),
    ("$replaceAll", &["find", "replacement"]),
    ("$regexFind", &["regex"]),
    ("$regexMatch", &["regex"]),
];

/// What the value of an expression may hold; nothing if the expression is not bounded.
///
/// The expression is one that parses.
pub(super) fn made(expression: &Bson) -> Option<Made> {
    Walk::at(0).made(expression)
}

/// The same for an expression that is evaluated for each document in a document, where its paths begin.
pub(super) fn made_on_current(expression: &Bson) -> Option<Made> {
    Walk::at(1).made(expression)
}

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
struct Held {
    made: Made,
    /// Whether it is a number, a truth, a date, or a constant of such a kind or a text.
    is_scalar: bool,
    /// How many iterations are around where it comes from.
    level: usize,
    /// How many bytes it has beside those of the document.
    weight: f64,
    /// How few bytes of the document an element of it stands for, if it is an array.
    grain: f64,
}

impl Held {
    fn scalar() -> Self {
        Self { made: Made::default(), is_scalar: true, level: CONSTANT, weight: 0.0, grain: GRAIN }
    }

    fn constant(value: &Bson) -> Self {
        let weight = weight_of(value);
        if matches!(value, Bson::Array(_) | Bson::Document(_)) {
            Self { weight, ..Self::all_of(&[]) }
        } else {
            Self { weight, ..Self::scalar() }
        }
    }

    /// So many copies of a document.
    fn copies(copies: f64, level: usize) -> Self {
        Self { made: Made { copies, ..Made::default() }, is_scalar: false, level, ..Self::scalar() }
    }

    /// One that has all of these in it.
    fn all_of(parts: &[Self]) -> Self {
        let copies = parts.iter().map(|part| part.made.copies).sum::<f64>().max(1.0);
        let depth = parts.iter().map(|part| part.made.depth).max().unwrap_or_default() + 1;
        let level = parts.iter().filter(|part| !part.is_scalar).map(|part| part.level).min();
        Self {
            made: Made { copies, depth, ..Made::default() },
            is_scalar: false,
            level: level.unwrap_or(CONSTANT),
            weight: parts.iter().map(|part| part.weight).sum(),
            grain: parts.iter().map(|part| part.grain).fold(GRAIN, f64::min),
        }
    }

    /// With so many bytes more for each element of an array that is so many copies of the document, in elements of this size.
    fn with_elements_of(mut self, bytes: f64, (copies, grain): (f64, f64)) -> Self {
        self.made.copies += copies * bytes / grain;
        self.grain = grain;
        self
    }

    /// With bytes around its parts, that are called so.
    fn around<'a>(mut self, names: impl IntoIterator<Item = &'a String>) -> Self {
        self.weight += AROUND + names.into_iter().map(|name| length(name)).sum::<f64>();
        self
    }
}

struct Walk {
    /// One for each operator, and [`COPY`] for each copy of the document that it makes.
    work: f64,
    variables: Vec<(String, Held)>,
    /// How many iterations are around the place.
    level: usize,
    /// The same for where paths begin.
    start: usize,
}

impl Walk {
    fn at(level: usize) -> Self {
        Self { work: 0.0, variables: Vec::new(), level, start: level }
    }

    fn made(mut self, expression: &Bson) -> Option<Made> {
        let made = self.value(expression)?.made;
        (self.work <= MOST_WORK).then_some(Made { work: self.work, ..made })
    }

    fn value(&mut self, value: &Bson) -> Option<Held> {
        let held = match value {
            Bson::String(text) if text.starts_with('$') => self.path(&text[1..])?,
            Bson::Document(document) => match document.iter().next() {
                Some((name, operand)) if name.starts_with('$') => self.call(name, operand)?,
                _ => Held::all_of(&self.values(document.values())?).around(document.keys()),
            },
            Bson::Array(elements) => Held::all_of(&self.values(elements)?).around([]),
            literal => Held::constant(literal),
        };
        // Whatever becomes of it: it is made.
        (held.made.is_within(FEW_COPIES) && held.weight <= MOST_WEIGHT).then_some(held)
    }

    fn values<'b>(&mut self, values: impl IntoIterator<Item = &'b Bson>) -> Option<Vec<Held>> {
        values.into_iter().map(|value| self.value(value)).collect()
    }

    /// Of something outside of an iteration a path visits arrays again and again.
    fn path(&self, path: &str) -> Option<Held> {
        let of_document = Held::copies(1.0, self.start);
        let (held, is_deep) = match path.strip_prefix('$') {
            None => (of_document, path.contains('.')),
            Some(variable) => {
                let (name, rest) = variable.split_once('.').unwrap_or((variable, ""));
                let bound = self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, held)| *held);
                let held = match name {
                    "NOW" | "REMOVE" | "DESCEND" | "PRUNE" | "KEEP" => Held::scalar(),
                    // Beside the document, it is a second one.
                    "CURRENT" if rest.is_empty() => bound.unwrap_or(Held::copies(2.0, self.start)),
                    "ROOT" => Held::copies(2.0, 0),
                    "CURRENT" => bound.unwrap_or(of_document),
                    _ => bound.unwrap_or(Held::copies(1.0, 0)),
                };
                (held, !rest.is_empty())
            }
        };
        (!(is_deep && self.is_outside(&held))).then_some(held)
    }

    fn is_outside(&self, held: &Held) -> bool {
        !held.is_scalar && held.level < self.level || self.level > 0 && held.weight > LIGHT
    }

    fn call(&mut self, name: &str, operand: &Bson) -> Option<Held> {
        // Beside an iteration it is done once.
        self.work += if self.level > 0 { steps_of(name) } else { 1.0 };
        let held = self.call_of(name, operand)?;
        if !held.is_scalar && !AT_ONCE.contains(&name) && !BINDINGS.contains(&name) {
            self.work += COPY * held.made.copies;
        }
        Some(held)
    }

    fn call_of(&mut self, name: &str, operand: &Bson) -> Option<Held> {
        match (name, operand) {
            ("$literal" | "$const", literal) => return Some(Held::constant(literal)),
            ("$let", Bson::Document(operand)) => return self.bind(operand),
            ("$map" | "$filter", Bson::Document(operand)) => return self.iterate(name, operand),
            ("$reduce", Bson::Document(operand)) => return self.reduce(operand),
            ("$switch", Bson::Document(operand)) => return self.switch(operand),
            ("$range", bounds) => {
                let is_short = self.level == 0 && length_of_range(bounds).is_some_and(|length| length <= SHORT);
                return is_short.then(|| Held::all_of(&[]));
            }
            ("$regexFindAll" | "$zip", _) => return None,
            ("$regexMatch" | "$regexFind", _) if self.level > 0 => return None,
            _ => {}
        }
        operators::find(name)?;
        let (names, operands) = self.operands(operand)?;
        if let Some((_, sought)) = SEARCHES.iter().find(|(search, _)| *search == name)
            && !sought.iter().all(|sought| is_short_text(operand, sought))
        {
            return None;
        }
        let outside = operands.iter().filter(|held| self.is_outside(held)).count();
        let takes_one_step = AT_ONCE.contains(&name) || is_of(&OF_ONE_STEP, name);
        if outside > usize::from(COMPARISONS.contains(&name)) && !takes_one_step {
            return None;
        }
        if SCALARS.contains(&name) || (is_of(&OF_SCALARS, name) && !NO_SCALARS.contains(&name)) {
            return Some(Held::scalar());
        }
        let held = match name {
            // The condition is not in the value.
            "$cond" => {
                let is_condition = |index: &usize| names.get(*index).is_some_and(|name| name == "0" || name == "if");
                let values: Vec<Held> =
                    (0..operands.len()).filter(|index| !is_condition(index)).map(|index| operands[index]).collect();
                Self::one_of(&values)
            }
            "$ifNull" | "$min" | "$max" => Self::one_of(&operands),
            "$split" => {
                let all = Held::all_of(&operands);
                all.with_elements_of(PART, (all.made.copies, FINE_GRAIN))
            }
            "$objectToArray" => {
                let all = Held::all_of(&operands);
                all.with_elements_of(AROUND, (all.made.copies, GRAIN))
            }
            "$replaceAll" => {
                let mut held = Held::all_of(&operands);
                held.made.copies *= growth(operand);
                held
            }
            _ => Held::all_of(&operands),
        };
        Some(held)
    }

    /// A value that is one of these.
    fn one_of(values: &[Held]) -> Held {
        let all = Held::all_of(values);
        if values.iter().all(|held| held.is_scalar) { Held { weight: all.weight, ..Held::scalar() } } else { all }
    }

    /// The operands of a call, with their names or positions.
    fn operands(&mut self, operand: &Bson) -> Option<(Vec<String>, Vec<Held>)> {
        match operand {
            Bson::Array(elements) => {
                let names = (0..elements.len()).map(|index| index.to_string()).collect();
                Some((names, self.values(elements)?))
            }
            Bson::Document(members) if members.keys().next().is_some_and(|name| !name.starts_with('$')) => {
                Some((members.keys().cloned().collect(), self.values(members.values())?))
            }
            one => Some((vec!["0".to_owned()], vec![self.value(one)?])),
        }
    }

    fn bind(&mut self, operand: &Document) -> Option<Held> {
        let before = self.variables.len();
        let mut bound = Vec::new();
        for (name, value) in operand.get_document("vars").ok()? {
            bound.push((name.clone(), self.value(value)?));
        }
        self.variables.extend(bound);
        let held = self.value(operand.get("in")?);
        self.variables.truncate(before);
        held
    }

    fn switch(&mut self, operand: &Document) -> Option<Held> {
        let mut values = self.values(operand.get("default"))?;
        for branch in operand.get_array("branches").ok()?.iter().filter_map(Bson::as_document) {
            self.value(branch.get("case")?)?;
            values.push(self.value(branch.get("then")?)?);
        }
        Some(Self::one_of(&values))
    }

    /// What an iteration goes over.
    fn input(&mut self, operand: &Document) -> Option<Held> {
        let input = operand.get("input")?;
        let held = self.value(input)?;
        let is_good = match held.level {
            CONSTANT => self.level == 0 && is_short(input),
            level => level >= self.level,
        };
        (is_good && self.level < MOST_ITERATIONS).then_some(held)
    }

    /// What a part of an operand gives that is evaluated for each element.
    fn each(&mut self, part: &Bson, bound: Vec<(String, Held)>) -> Option<Held> {
        let before = self.variables.len();
        self.variables.extend(bound);
        self.level += 1;
        let held = self.value(part);
        self.level -= 1;
        self.variables.truncate(before);
        held
    }

    /// All elements together weigh what the array does.
    fn element(&self, input: Held) -> Held {
        Held { is_scalar: false, level: self.level + 1, weight: 0.0, ..input }
    }

    fn iterate(&mut self, name: &str, operand: &Document) -> Option<Held> {
        let input = self.input(operand)?;
        let element = operand.get_str("as").unwrap_or("this").to_owned();
        let part = operand.get(if name == "$map" { "in" } else { "cond" })?;
        if let Some(limit) = operand.get("limit") {
            self.value(limit)?;
        }
        let made = self.each(part, vec![(element, self.element(input))])?;
        if name == "$filter" {
            return Some(Held { level: self.level, ..input });
        }
        let is_of_element = made.is_scalar || made.level > self.level;
        let all = Held { weight: 0.0, level: self.level, ..Held::all_of(&[made]) };
        is_of_element.then(|| all.with_elements_of(made.weight, (input.made.copies, input.grain)))
    }

    fn reduce(&mut self, operand: &Document) -> Option<Held> {
        let input = self.input(operand)?;
        let before = self.value(operand.get("initialValue")?)?;
        let bound = vec![("this".to_owned(), self.element(input)), ("value".to_owned(), Held::scalar())];
        let after = self.each(operand.get("in")?, bound)?;
        (before.is_scalar && after.is_scalar).then(Held::scalar)
    }
}

/// How many steps an operator takes on numbers, as decimals take them: a server takes 30 microseconds for a `$mod` of decimals with
/// exponents that are far apart, and 4 for a `$pow`.
fn steps_of(name: &str) -> f64 {
    match name {
        "$mod" => 150.0,
        "$pow" => 20.0,
        "$exp" | "$ln" | "$log" | "$log10" | "$sqrt" => 5.0,
        _ if is_of(&OF_SLOW, name) => 5.0,
        _ => 1.0,
    }
}

fn is_of(families: &[&[Operator]], name: &str) -> bool {
    families.iter().copied().flatten().any(|operator| operator.name == name)
}

/// How many bytes a constant has, about.
fn weight_of(constant: &Bson) -> f64 {
    const PLAIN: f64 = 4.0;
    match constant {
        Bson::String(text) => length(text),
        Bson::Array(elements) => elements.iter().map(weight_of).sum(),
        Bson::Document(members) => members.iter().map(|(name, value)| length(name) + weight_of(value)).sum(),
        Bson::Binary(binary) => size(binary.bytes.len()),
        _ => PLAIN,
    }
}

fn length(text: &str) -> f64 {
    size(text.len())
}

#[expect(clippy::cast_precision_loss, reason = "a length within a request")]
fn size(bytes: usize) -> f64 {
    bytes as f64
}

/// How many times as long a text may become by this `$replaceAll`, which may find nothing between all letters.
fn growth(operand: &Bson) -> f64 {
    let length_of = |name: &str| match operand_of(operand, name) {
        Some(Bson::String(text)) => length(text),
        _ => 0.0,
    };
    1.0 + length_of("replacement") / length_of("find").max(1.0)
}

/// An operand by its position or name.
fn operand_of<'b>(operands: &'b Bson, name: &str) -> Option<&'b Bson> {
    match operands {
        Bson::Array(elements) => name.parse::<usize>().ok().and_then(|index| elements.get(index)),
        Bson::Document(members) => members.get(name),
        _ => None,
    }
}

/// Whether an operand is left out, or a short constant text.
fn is_short_text(operands: &Bson, name: &str) -> bool {
    match operand_of(operands, name) {
        None => true,
        Some(Bson::String(text)) => text.len() <= SHORT_TEXT && !text.starts_with('$'),
        Some(Bson::RegularExpression(regex)) => regex.pattern.as_str().len() <= SHORT_TEXT,
        Some(_) => false,
    }
}

/// Whether a constant has few elements.
fn is_short(input: &Bson) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a length of a constant")]
    let is_short = |length: usize| length as f64 <= SHORT;
    match input {
        Bson::Array(elements) => is_short(elements.len()),
        Bson::Document(call) => match call.iter().next() {
            Some((name, bounds)) if name == "$range" => length_of_range(bounds).is_some(),
            Some((name, Bson::Array(elements))) if name == "$literal" => is_short(elements.len()),
            _ => false,
        },
        _ => false,
    }
}

/// How many numbers a constant `$range` has.
fn length_of_range(bounds: &Bson) -> Option<f64> {
    let numbers = bounds.as_array()?.iter().map(nearest_double).collect::<Option<Vec<_>>>()?;
    let (start, end, step) = (*numbers.first()?, *numbers.get(1)?, numbers.get(2).copied().unwrap_or(1.0));
    let length = ((end - start) / step).ceil();
    length.is_finite().then(|| length.max(0.0))
}
