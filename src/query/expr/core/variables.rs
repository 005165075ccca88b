//! `$let`, `$map`, `$filter`, `$reduce`, which bind variables, and `$switch`.

use bson::{Bson, Document};

use super::call::Operator;
use super::evaluate::{ExprNode, Scope};
use super::parse::ExprParser;
use crate::query::error::{EvalError, QueryError};
use crate::query::expr::value::{
    Outcome, Value, exact_i32, failure, found, is_nullish, is_true, null, shown, type_name,
};

/// `$let`: values under names, for one expression.
#[derive(Debug, Clone)]
pub(in crate::query::expr) struct Let {
    /// The values, in the order of their names.
    pub(in crate::query::expr) bindings: Vec<ExprNode>,
    /// Where they are seen.
    pub(in crate::query::expr) body: ExprNode,
}

/// `$map`: an expression on each element.
#[derive(Debug, Clone)]
pub(in crate::query::expr) struct Mapping {
    /// The array.
    pub(in crate::query::expr) input: ExprNode,
    /// The expression, which sees the element.
    pub(in crate::query::expr) body: ExprNode,
}

/// `$filter`: the elements for which a condition holds.
#[derive(Debug, Clone)]
pub(in crate::query::expr) struct Filtering {
    /// The array.
    pub(in crate::query::expr) input: ExprNode,
    /// The condition, which sees the element.
    pub(in crate::query::expr) condition: ExprNode,
    /// How many elements at most.
    pub(in crate::query::expr) limit: Option<ExprNode>,
}

/// `$reduce`: an expression on what is gathered so far and the next element.
#[derive(Debug, Clone)]
pub(in crate::query::expr) struct Folded {
    /// The array.
    pub(in crate::query::expr) input: ExprNode,
    /// The value before the first element.
    pub(in crate::query::expr) initial: ExprNode,
    /// The expression, which sees `$$value` and `$$this`.
    pub(in crate::query::expr) body: ExprNode,
}

/// `$switch`: the value of the first case that is true.
#[derive(Debug, Clone)]
pub(in crate::query::expr) struct Switch {
    /// Cases and their values.
    pub(in crate::query::expr) branches: Vec<(ExprNode, ExprNode)>,
    /// The value when no case is true.
    pub(in crate::query::expr) otherwise: Option<ExprNode>,
}

impl Let {
    /// The body's value with the variables bound.
    pub(in crate::query::expr) fn evaluate(&self, scope: &Scope<'_>) -> Outcome {
        let frame: Vec<Value> = self.bindings.iter().map(|node| node.evaluate(scope)).collect::<Result<_, _>>()?;
        self.body.evaluate(&Scope::inside(scope, &frame))
    }
}

impl Mapping {
    /// The array of what the expression gives.
    pub(in crate::query::expr) fn evaluate(&self, scope: &Scope<'_>) -> Outcome {
        let input = self.input.evaluate(scope)?;
        if is_nullish(input.as_ref()) {
            return null();
        }
        let Some(Bson::Array(elements)) = input else {
            return failure(16883, format!("input to $map must be an array not {}", type_name(input.as_ref())));
        };
        let mut mapped = Vec::with_capacity(elements.len());
        for element in elements {
            let frame = [Some(element)];
            mapped.push(self.body.evaluate(&Scope::inside(scope, &frame))?.unwrap_or(Bson::Null));
        }
        found(mapped)
    }
}

impl Filtering {
    /// The array of the elements that pass.
    pub(in crate::query::expr) fn evaluate(&self, scope: &Scope<'_>) -> Outcome {
        let input = self.input.evaluate(scope)?;
        if is_nullish(input.as_ref()) {
            return null();
        }
        let Some(Bson::Array(elements)) = input else {
            return failure(28651, format!("input to $filter must be an array not {}", type_name(input.as_ref())));
        };
        if elements.is_empty() {
            // The limit is not looked at then.
            return found(elements);
        }
        let limit = self.limit(scope)?;
        let mut passed = Vec::new();
        for element in elements {
            if limit.is_some_and(|limit| passed.len() >= limit) {
                break;
            }
            let frame = [Some(element)];
            let mark = scope.budget().mark();
            if is_true(self.condition.evaluate(&Scope::inside(scope, &frame))?.as_ref()) {
                passed.extend(frame.into_iter().flatten());
            }
            scope.budget().drop_since(mark);
        }
        found(passed)
    }

    fn limit(&self, scope: &Scope<'_>) -> Result<Option<usize>, EvalError> {
        let Some(node) = &self.limit else { return Ok(None) };
        let value = node.evaluate(scope)?;
        if is_nullish(value.as_ref()) {
            return Ok(None);
        }
        let Some(limit) = value.as_ref().and_then(exact_i32) else {
            let value = shown(value.as_ref());
            return failure(327_391, format!("$filter: limit must be a 32-bit integral value: {value}"));
        };
        match usize::try_from(limit) {
            Ok(limit) if limit > 0 => Ok(Some(limit)),
            _ => failure(327_392, format!("$filter: limit must be greater than 0: {limit}")),
        }
    }
}

impl Folded {
    /// What is gathered at the end.
    pub(in crate::query::expr) fn evaluate(&self, scope: &Scope<'_>) -> Outcome {
        let input = self.input.evaluate(scope)?;
        if is_nullish(input.as_ref()) {
            return null();
        }
        let Some(Bson::Array(elements)) = input else {
            let value = shown(input.as_ref());
            return failure(40080, format!("$reduce requires that 'input' be an array, found: {value}"));
        };
        let mark = scope.budget().mark();
        let mut gathered = self.initial.evaluate(scope)?;
        for element in elements {
            let frame = [gathered, Some(element)];
            gathered = self.body.evaluate(&Scope::inside(scope, &frame))?;
            scope.budget().keep(mark, gathered.as_ref())?;
        }
        Ok(gathered)
    }
}

impl Switch {
    /// The value of the first case that is true, or the default.
    pub(in crate::query::expr) fn evaluate(&self, scope: &Scope<'_>) -> Outcome {
        for (case, then) in &self.branches {
            if is_true(case.evaluate(scope)?.as_ref()) {
                return then.evaluate(scope);
            }
        }
        match &self.otherwise {
            Some(node) => node.evaluate(scope),
            None => failure(40066, "$switch could not find a matching branch for an input, and there is no default"),
        }
    }
}

type Parsed = Result<ExprNode, QueryError>;

fn require<'a>(
    parser: &ExprParser<'_>,
    operator: &Operator,
    document: &'a Document,
    name: &str,
    code: i32,
) -> Result<&'a Bson, QueryError> {
    match document.get(name) {
        Some(value) => Ok(value),
        None => parser.refuse(code, format!("missing '{name}' parameter to {}", operator.name)),
    }
}

/// The operand as a document with none but these names.
fn members<'a>(
    parser: &mut ExprParser<'_>,
    operator: &Operator,
    operand: &'a Bson,
    names: &[&str],
    (not_an_object, unknown): (i32, i32),
) -> Result<&'a Document, QueryError> {
    let Bson::Document(document) = operand else {
        return parser.refuse(not_an_object, format!("{} only supports an object as its argument", operator.name));
    };
    parser.only(operator.name, document, names, unknown)?;
    Ok(document)
}

/// The name under `as`, or `this`.
fn element_name(parser: &mut ExprParser<'_>, document: &Document) -> Result<String, QueryError> {
    let name = match document.get("as") {
        None => "this",
        Some(Bson::String(name)) => name,
        Some(_) => "",
    };
    parser.within("as", |parser| parser.check_variable(name, true))?;
    Ok(name.to_owned())
}

/// `{$let: {vars: {name: value, ...}, in: expression}}`.
pub(in crate::query::expr) fn parse_let(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Parsed {
    let document = members(parser, operator, operand, &["vars", "in"], (16874, 16875))?;
    let vars = require(parser, operator, document, "vars", 16876)?;
    let body = require(parser, operator, document, "in", 16877)?;
    let vars = match vars {
        Bson::Document(vars) => vars.clone(),
        // An array is a document whose names are the positions, which are no names of variables.
        Bson::Array(values) => (0..values.len()).map(|index| index.to_string()).zip(values.iter().cloned()).collect(),
        _ => return parser.refuse(10065, "invalid parameter: expected an object (vars)"),
    };
    let mut bindings = Vec::with_capacity(vars.len());
    parser.within("vars", |parser| {
        for (name, value) in &vars {
            let binding = parser.within(name, |parser| {
                parser.check_variable(name, true)?;
                parser.expression(value)
            });
            bindings.push(binding?);
        }
        Ok(())
    })?;
    if vars.is_empty() {
        // MongoDB leaves no more of it, so a constant is one.
        return parser.at("in", body);
    }
    let body = parser.with_variables(vars.keys().cloned().collect(), "in", body)?;
    Ok(ExprNode::Let(Box::new(Let { bindings, body })))
}

/// `{$map: {input: array, as: name, in: expression}}`.
pub(in crate::query::expr) fn parse_map(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Parsed {
    let document = members(parser, operator, operand, &["input", "as", "in"], (16878, 16879))?;
    let input = require(parser, operator, document, "input", 16880)?;
    let body = require(parser, operator, document, "in", 16882)?;
    let input = parser.at("input", input)?;
    let name = element_name(parser, document)?;
    let body = parser.with_variables(vec![name], "in", body)?;
    Ok(ExprNode::Map(Box::new(Mapping { input, body })))
}

/// `{$filter: {input: array, as: name, cond: expression, limit: number}}`.
pub(in crate::query::expr) fn parse_filter(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Parsed {
    let document = members(parser, operator, operand, &["input", "as", "cond", "limit"], (28646, 28647))?;
    let input = require(parser, operator, document, "input", 28648)?;
    let condition = require(parser, operator, document, "cond", 28650)?;
    let input = parser.at("input", input)?;
    let name = element_name(parser, document)?;
    let condition = parser.with_variables(vec![name], "cond", condition)?;
    let limit = document.get("limit").map(|limit| parser.at("limit", limit)).transpose()?;
    Ok(ExprNode::Filter(Box::new(Filtering { input, condition, limit })))
}

/// `{$reduce: {input: array, initialValue: value, in: expression}}`.
pub(in crate::query::expr) fn parse_reduce(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Parsed {
    let document = members(parser, operator, operand, &["input", "initialValue", "in"], (40075, 40076))?;
    let input = require(parser, operator, document, "input", 40077)?;
    let initial = require(parser, operator, document, "initialValue", 40078)?;
    let body = require(parser, operator, document, "in", 40079)?;
    let input = parser.at("input", input)?;
    let initial = parser.at("initialValue", initial)?;
    let body = parser.with_variables(vec!["value".to_owned(), "this".to_owned()], "in", body)?;
    Ok(ExprNode::Reduce(Box::new(Folded { input, initial, body })))
}

/// `{$switch: {branches: [{case: expression, then: expression}, ...], default: expression}}`.
pub(in crate::query::expr) fn parse_switch(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Parsed {
    let document = members(parser, operator, operand, &["branches", "default"], (40060, 40067))?;
    let branches = match document.get("branches") {
        None => &[],
        Some(Bson::Array(branches)) => branches.as_slice(),
        Some(other) => {
            let found = type_name(Some(other));
            return parser.refuse(40061, format!("$switch expected an array for 'branches', found: {found}"));
        }
    };
    let branches = parser.within("branches", |parser| {
        let read =
            |(index, branch): (usize, &Bson)| parser.within(&index.to_string(), |parser| parse_branch(parser, branch));
        branches.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()
    })?;
    let otherwise = document.get("default").map(|value| parser.at("default", value)).transpose()?;
    if branches.is_empty() {
        return parser.refuse(40068, "$switch requires at least one branch");
    }
    Ok(ExprNode::Switch(Box::new(Switch { branches, otherwise })))
}

fn parse_branch(parser: &mut ExprParser<'_>, branch: &Bson) -> Result<(ExprNode, ExprNode), QueryError> {
    let Bson::Document(branch) = branch else {
        let found = type_name(Some(branch));
        return parser.refuse(40062, format!("$switch expected each branch to be an object, found: {found}"));
    };
    parser.only("a branch of $switch", branch, &["case", "then"], 40063)?;
    let Some(case) = branch.get("case") else {
        return parser.refuse(40064, "$switch requires each branch have a 'case' expression");
    };
    let Some(then) = branch.get("then") else {
        return parser.refuse(40065, "$switch requires each branch have a 'then' expression");
    };
    Ok((parser.at("case", case)?, parser.at("then", then)?))
}
