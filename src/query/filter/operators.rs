//! Parses the condition on one field: a plain value, or a document of operators.

use bson::{Bson, Document};

use crate::query::bits::{BitQuestion, BitTest};
use crate::query::compare::number;
use crate::query::error::{QueryError, code};

use super::parser::{Level, Parser, TOP_OPERATORS};
use crate::query::number::Number;
use crate::query::path::Path;
use crate::query::raw::View;
use crate::query::regex::Regex;
use crate::query::tree::{InSet, Node, Operand, Test};
use crate::query::types::TypeSet;
use crate::suggest::hint;

/// An operator and its operand.
struct Said<'a> {
    /// The operator.
    name: &'static str,
    operand: &'a Bson,
    /// The document that contains the operator.
    siblings: &'a Document,
}

/// Makes a test of an operator and its operand; none of `$options`, which belongs to `$regex`.
type Parse = fn(&mut Parser, &Said<'_>) -> Result<Option<Test>, QueryError>;

/// The operators of a field. [`Filter::operators`](super::Filter::operators) lists them.
const OPERATORS: [(&str, Parse); 27] = [
    ("$eq", |parser, said| operand(parser, said.operand).map(Test::Eq).map(Some)),
    ("$ne", |parser, said| without_regex(parser, said).map(Test::Eq).map(not).map(Some)),
    ("$gt", |parser, said| without_regex(parser, said).map(Test::Gt).map(Some)),
    ("$gte", |parser, said| without_regex(parser, said).map(Test::Gte).map(Some)),
    ("$lt", |parser, said| without_regex(parser, said).map(Test::Lt).map(Some)),
    ("$lte", |parser, said| without_regex(parser, said).map(Test::Lte).map(Some)),
    ("$in", |parser, said| list(parser, said).map(Some)),
    ("$nin", |parser, said| list(parser, said).map(not).map(Some)),
    ("$not", |parser, said| negated(parser, said.operand).map(not).map(Some)),
    ("$exists", |_, said| Ok(Some(if truthy(said.operand) { Test::Exists } else { not(Test::Exists) }))),
    ("$type", |parser, said| types(parser, said.operand).map(Test::Type).map(Some)),
    ("$size", |parser, said| size(parser, said.operand).map(Test::Size).map(Some)),
    ("$mod", |parser, said| modulo(parser, said.operand).map(Some)),
    ("$all", |parser, said| all(parser, said.operand).map(Some)),
    ("$elemMatch", |parser, said| elem_match(parser, said.operand).map(Some)),
    ("$regex", |parser, said| regex(parser, said).map(Test::Regex).map(Some)),
    ("$options", |parser, said| {
        if said.siblings.contains_key("$regex") { Ok(None) } else { parser.bad("$options needs a $regex beside it") }
    }),
    ("$bitsAllSet", |parser, said| bits(parser, BitQuestion::AllSet, said.operand).map(Some)),
    ("$bitsAllClear", |parser, said| bits(parser, BitQuestion::AllClear, said.operand).map(Some)),
    ("$bitsAnySet", |parser, said| bits(parser, BitQuestion::AnySet, said.operand).map(Some)),
    ("$bitsAnyClear", |parser, said| bits(parser, BitQuestion::AnyClear, said.operand).map(Some)),
    ("$near", server),
    ("$nearSphere", server),
    ("$geoWithin", server),
    ("$geoIntersects", server),
    ("$within", server),
    ("$geoNear", server),
];

/// What may accompany the operators that a MongoDB server answers.
const DISTANCES: [&str; 2] = ["$minDistance", "$maxDistance"];

/// The names of the operators of a field.
pub(in crate::query) fn names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name)
}

/// Parses `name: value` where `name` is a path.
pub(in crate::query) fn parse_field(parser: &mut Parser, name: &str, value: &Bson) -> Result<Node, QueryError> {
    parse_condition(parser, &Path::new(name), value)
}

/// Parses the condition on a path.
pub(in crate::query) fn parse_condition(parser: &mut Parser, path: &Path, value: &Bson) -> Result<Node, QueryError> {
    match value {
        Bson::Document(document) if is_operators(document) => {
            let tests = operators(parser, document)?;
            Ok(Node::all_of(tests.into_iter().map(|test| node(path.clone(), test)).collect()))
        }
        _ => plain(parser, value).map(|test| Node::Path(path.clone(), test)),
    }
}

fn node(path: Path, test: Test) -> Node {
    match test {
        Test::All(tests) if tests.is_empty() => Node::Never,
        Test::All(tests) => Node::all_of(tests.into_iter().map(|test| node(path.clone(), test)).collect()),
        test => Node::Path(path, test),
    }
}

/// The parts of a reference to a document are members with a dollar sign that can be asked for, by plain values alone.
pub(in crate::query) fn part_of_reference(parser: &Parser, name: &str, value: &Bson) -> Result<Node, QueryError> {
    operand(parser, value).map(|operand| Node::Path(Path::new(name), Test::Eq(operand)))
}

/// A document is one of operators when its first name begins with `$`, references to documents excepted.
pub(in crate::query) fn is_operators(document: &Document) -> bool {
    begins_with_dollar(document) && !(document.contains_key("$ref") && document.contains_key("$id"))
}

/// Under `$elemMatch` a part of a reference is enough to be none.
fn is_operators_in_elem_match(document: &Document) -> bool {
    begins_with_dollar(document) && !["$ref", "$id", "$db"].iter().any(|name| document.contains_key(name))
}

/// Other names with a dollar sign are those of members, under `$all`; there `$not` is one too.
fn begins_with_operator(document: &Document) -> bool {
    let is_operator = |first: &str| first != "$not" && names().chain(DISTANCES).any(|name| name == first);
    document.keys().next().is_some_and(|first| is_operator(first))
}

fn begins_with_dollar(document: &Document) -> bool {
    document.keys().next().is_some_and(|first| first.starts_with('$'))
}

/// A plain value: equality, or a match for a regular expression.
fn plain(parser: &Parser, value: &Bson) -> Result<Test, QueryError> {
    match value {
        Bson::RegularExpression(regex) => {
            compile(parser, regex.pattern.as_str(), regex.options.as_str()).map(Test::Regex)
        }
        _ => operand(parser, value).map(Test::Eq),
    }
}

fn operand(parser: &Parser, value: &Bson) -> Result<Operand, QueryError> {
    if matches!(value, Bson::Undefined) {
        return parser.bad("cannot compare to undefined; use null, or $exists");
    }
    Operand::new(value.clone()).or_else(|error| parser.bad(error.to_string()))
}

fn compile(parser: &Parser, pattern: &str, options: &str) -> Result<Regex, QueryError> {
    parser.at.check_regex(pattern)?;
    Regex::new(pattern, options).map_err(|(code, message)| parser.at.malformed(code, message))
}

/// Parses a document of operators, one test each.
fn operators(parser: &mut Parser, document: &Document) -> Result<Vec<Test>, QueryError> {
    let mut tests = Vec::with_capacity(document.len());
    for (name, value) in document {
        let test = parser.within(name.clone(), |parser| operator(parser, name, value, document))?;
        tests.extend(test);
    }
    Ok(tests)
}

fn not(test: Test) -> Test {
    Test::Not(Box::new(test))
}

/// Operators of other languages that look into a text.
const PATTERNS: [&str; 9] =
    ["$like", "$ilike", "$contains", "$icontains", "$startsWith", "$endsWith", "$match", "$matches", "$search"];

fn operator(parser: &mut Parser, name: &str, operand: &Bson, siblings: &Document) -> Result<Option<Test>, QueryError> {
    if let Some((name, parse)) = OPERATORS.iter().find(|(known, _)| *known == name) {
        return parse(parser, &Said { name, operand, siblings });
    }
    if DISTANCES.contains(&name) && parser.server.is_some() {
        return Ok(None);
    }
    if PATTERNS.iter().any(|pattern| name.eq_ignore_ascii_case(pattern)) {
        return parser.bad("unknown operator, did you mean $regex?");
    }
    parser.bad(format!("unknown operator{}", hint(name, &names().collect::<Vec<_>>())))
}

fn server(parser: &mut Parser, said: &Said<'_>) -> Result<Option<Test>, QueryError> {
    parser.server = parser.server.or(Some(said.name));
    Ok(Some(Test::Server(said.name)))
}

/// What MongoDB takes for true: everything but false, zero, null and undefined.
pub(in crate::query) fn truthy(value: &Bson) -> bool {
    match value {
        Bson::Boolean(truth) => *truth,
        Bson::Null | Bson::Undefined => false,
        _ => number(value.into()).is_none_or(|number| number.is_nan() || number.compare(Number::Int(0)).is_ne()),
    }
}

fn without_regex(parser: &Parser, said: &Said<'_>) -> Result<Operand, QueryError> {
    if matches!(said.operand, Bson::RegularExpression(_)) {
        return parser.bad(format!("{} cannot compare to a regular expression; use $regex or $not", said.name));
    }
    operand(parser, said.operand)
}

fn list(parser: &mut Parser, said: &Said<'_>) -> Result<Test, QueryError> {
    let Bson::Array(items) = said.operand else {
        return parser.bad(format!("{} needs an array", said.name));
    };
    let mut values = Vec::with_capacity(items.len());
    let mut regexes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        parser.within(index.to_string(), |parser| {
            match item {
                Bson::RegularExpression(regex) => {
                    regexes.push(compile(parser, regex.pattern.as_str(), regex.options.as_str())?);
                }
                Bson::Document(document) if is_operators(document) => {
                    return parser.bad(format!("{} takes values, not operators", said.name));
                }
                _ => values.push(operand(parser, item)?),
            }
            Ok(())
        })?;
    }
    Ok(InSet::new(values, regexes).into_test())
}

fn negated(parser: &mut Parser, value: &Bson) -> Result<Test, QueryError> {
    match value {
        Bson::RegularExpression(_) => plain(parser, value),
        Bson::Document(document) if document.is_empty() => parser.bad("$not needs at least one operator"),
        Bson::Document(document) => {
            let mut tests = operators(parser, document)?;
            Ok(if tests.len() == 1 { tests.remove(0) } else { Test::All(tests) })
        }
        _ => parser.bad("$not needs operators or a regular expression; for a value use $ne"),
    }
}

fn types(parser: &mut Parser, value: &Bson) -> Result<TypeSet, QueryError> {
    let one = |parser: &Parser, value: &Bson| match value {
        Bson::String(name) => {
            TypeSet::of_name(name).map_or_else(|| parser.bad(format!("unknown type name {name:?}")), Ok)
        }
        _ if number(value.into()).is_some() => {
            TypeSet::of_number(value).map_or_else(|| parser.bad(format!("unknown type number {value}")), Ok)
        }
        _ => Err(parser.at.malformed(code::TYPE_MISMATCH, "a type is a name or a number")),
    };
    match value {
        Bson::Array(items) if items.is_empty() => {
            Err(parser.at.malformed(code::FAILED_TO_PARSE, "$type must name at least one type"))
        }
        Bson::Array(items) => items.iter().try_fold(TypeSet::default(), |set, item| Ok(set.union(one(parser, item)?))),
        _ => one(parser, value),
    }
}

fn size(parser: &Parser, value: &Bson) -> Result<i64, QueryError> {
    let refused = |message: &str| parser.bad(format!("$size {message}"));
    let Some(size) = number(value.into()) else { return refused("needs a number") };
    match size.as_exact_int() {
        Some(size) if size > i64::from(i32::MAX) => refused("needs a number of 32 bits"),
        Some(size) if size >= 0 => Ok(size),
        Some(_) => refused("needs a number that is not negative"),
        None => refused("needs a whole number"),
    }
}

fn modulo(parser: &Parser, value: &Bson) -> Result<Test, QueryError> {
    let Bson::Array(items) = value else { return parser.bad("$mod needs an array [divisor, remainder]") };
    let [divisor, remainder] = items.as_slice() else {
        return parser.bad("$mod needs exactly two numbers, [divisor, remainder]");
    };
    let whole = |value: &Bson| number(value.into()).and_then(Number::truncated);
    match (whole(divisor), whole(remainder)) {
        (Some(0), _) => parser.bad("the divisor of $mod must not be 0"),
        (Some(divisor), Some(remainder)) => Ok(Test::Mod { divisor, remainder }),
        _ => parser.bad("$mod needs two numbers that fit 64 bits"),
    }
}

/// Either values, or `$elemMatch` throughout.
fn all(parser: &mut Parser, value: &Bson) -> Result<Test, QueryError> {
    let Bson::Array(items) = value else { return parser.bad("$all needs an array") };
    let elem_matches = items.first().is_some_and(|item| elem_match_operand(item).is_some());
    let mut tests = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let test = parser.within(index.to_string(), |parser| match (elem_match_operand(item), item) {
            (Some(operand), _) if elem_matches => parser.within("$elemMatch", |parser| elem_match(parser, operand)),
            (None, _) if elem_matches => parser.bad("$all takes either values or $elemMatch, not both"),
            (_, Bson::Document(document)) if begins_with_operator(document) => {
                parser.bad("$all takes values, or $elemMatch in each of its entries")
            }
            _ => plain(parser, item),
        })?;
        tests.push(test);
    }
    Ok(Test::All(tests))
}

fn elem_match_operand(item: &Bson) -> Option<&Bson> {
    let (name, operand) = item.as_document()?.iter().next()?;
    (name == "$elemMatch").then_some(operand)
}

fn elem_match(parser: &mut Parser, value: &Bson) -> Result<Test, QueryError> {
    let Bson::Document(document) = value else { return parser.bad("$elemMatch needs a document of conditions") };
    let first = document.keys().next().map(String::as_str).unwrap_or_default();
    if is_operators_in_elem_match(document) && !TOP_OPERATORS.contains(&first) {
        return operators(parser, document).map(Test::ElemMatchValue);
    }
    parser.document(document, Level::Inner).map(|node| Test::ElemMatchDocument(Box::new(node.settled())))
}

fn regex(parser: &mut Parser, said: &Said<'_>) -> Result<Regex, QueryError> {
    let options = match said.siblings.get("$options") {
        None => None,
        Some(Bson::String(options)) => Some(options.as_str()),
        Some(_) => return parser.bad("$options must be a text"),
    };
    match said.operand {
        Bson::String(pattern) => compile(parser, pattern, options.unwrap_or_default()),
        Bson::RegularExpression(regex) if options.is_some() && !regex.options.as_str().is_empty() => {
            Err(parser.at.malformed(51075, "options are given both in the regular expression and in $options"))
        }
        Bson::RegularExpression(regex) => {
            compile(parser, regex.pattern.as_str(), options.unwrap_or(regex.options.as_str()))
        }
        _ => parser.bad("$regex must be a text or a regular expression"),
    }
}

/// A mask as a number or as binary data, or a list of positions.
fn bits(parser: &mut Parser, question: BitQuestion, value: &Bson) -> Result<Test, QueryError> {
    let positions = match value {
        Bson::Array(items) => {
            let mut positions = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                positions.push(parser.within(index.to_string(), |parser| bit_position(parser, item))?);
            }
            positions
        }
        // As stored: the deprecated subtype 2 has its length in front, and MongoDB counts it.
        Bson::Binary(_) => match operand(parser, value)?.view() {
            View::Binary(_, bytes) => set_bits(bytes),
            _ => Vec::new(),
        },
        _ if number(value.into()).is_some() => {
            let failed = |message| Err(parser.at.malformed(code::FAILED_TO_PARSE, message));
            match number(value.into()).and_then(Number::as_exact_int) {
                Some(mask) if mask >= 0 => set_bits(&mask.to_le_bytes()),
                Some(_) => return failed("a bit mask must not be negative"),
                None => return failed("a bit mask must be a whole number of 64 bits"),
            }
        }
        _ => return parser.bad("a bit mask is a whole number, an array of positions, or binary data"),
    };
    Ok(Test::Bits(BitTest::new(question, positions)))
}

fn bit_position(parser: &Parser, item: &Bson) -> Result<u64, QueryError> {
    let position = number(item.into()).and_then(Number::as_exact_int).and_then(|position| i32::try_from(position).ok());
    match position.map(u64::try_from) {
        Some(Ok(position)) => Ok(position),
        _ => parser.bad("a bit position is a whole number of 32 bits that is not negative"),
    }
}

fn set_bits(bytes: &[u8]) -> Vec<u64> {
    let of_byte = |(index, byte): (u64, &u8)| {
        let byte = *byte;
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| index * 8 + bit)
    };
    (0_u64..).zip(bytes).flat_map(of_byte).collect()
}
